"""A history in the input topics of the service.

A split is a range of offsets of one partition of observations, with the labels of its ids, which
are searched in all label partitions from a horizon before its first observation to two horizons
after its last one. A history that has to be learned in order is one split: all ranges, in the order
in which a service would process them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from consumers.backfill.manifest import Manifest, OffsetSpan, Split
from consumers.base.cells import Numbers, chosen
from consumers.base.errors import ConfigError
from consumers.base.records import (
    NEVER,
    UNBOUNDED,
    Batch,
    Fetched,
    Partition,
    Record,
    credible,
)
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.config.sample import SAMPLE_SIZE
from consumers.journal.merge import Merge
from consumers.service.live import Sources
from consumers.shard.shard import Shard
from consumers.transports.protocol import Log, Unfinished, first_offsets

__all__ = ["LogHistory", "check_format", "end_of", "planned", "sampled_labels"]

REJECTED = ""  # in place of an id
LOOK = 1_000  # records before a range, or at the end of a partition, that say what time it is
Matched = dict[Partition, list[int]]  # offsets of labels whose observation is in the history


def check_format(config: Config) -> None:
    """Raise ConfigError if the records of the topics cannot be read without a service."""
    wire = wire_format(config.input.format)
    if wire.schema_type or wire.rows is not None:
        raise ConfigError(
            f"backfill reads topics of JSON, text or mail, and [input] format is {wire.name!r}; "
            "export the history to Parquet files and give those"
        )


def planned(
    log: Log,
    found: Sources,
    *,
    until: int | None,
    as_of: int | None,
    now: int,
    size: int,
    ordered: bool,
) -> tuple[list[Split], list[OffsetSpan], dict[Partition, int]]:
    """The splits of the input topics, the offsets of the label topics, and where all continue.

    Parameters
    ----------
    until, as_of
        Where observations and labels end, times in ms; None: at the present end.
    now
        The wall clock in ms. Timestamps of the future end nothing.
    size
        The offsets of a split.
    ordered
        Whether all observations are one split.
    """
    spans: dict[bool, list[OffsetSpan]] = {False: [], True: []}
    begins, ends = log.beginning_offsets(found.inputs), log.end_offsets(found.inputs)
    continues = dict(ends)
    for labels, limit in ((False, until), (True, as_of)):
        parts = sorted(p for p in found.inputs if (p.topic in found.label_topics) == labels)
        ends |= _first_at(log, parts, limit, now, ends)
        continues |= {p: ends[p] for p in parts}
        if labels:  # the service looks at later ones again: their observations may be its own
            before = _first_at(log, parts, until, now, ends)
            continues |= {p: min(at, ends[p]) for p, at in before.items()}
        step = UNBOUNDED if labels or ordered else size
        for partition in parts:
            first, end = begins[partition], max(ends[partition], begins[partition])
            spans[labels] += [
                OffsetSpan(*partition, at, min(at + step, end)) for at in range(first, end, step)
            ] or [OffsetSpan(*partition, end, end)]
    observed = [span for span in spans[False] if span.end > span.first]
    groups = [spans[False]] if ordered and observed else [[span] for span in observed]
    splits = [Split(number, list(group)) for number, group in enumerate(groups)]
    return splits, spans[True], {p: max(at, begins[p]) for p, at in continues.items()}


def _first_at(
    log: Log,
    parts: Sequence[Partition],
    time: int | None,
    now: int,
    ends: Mapping[Partition, int],
) -> dict[Partition, int]:
    """The first record of each partition at a time or later that is not of the future, or the end.

    None: the ends."""
    if time is None or not parts:
        return {p: ends[p] for p in parts}
    wanted, starts = partial(_between, time, now), log.offsets_at(parts, time)
    return first_offsets(log, starts, {p: ends[p] for p in parts}, wanted)


def _between(first: int, now: int, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether times are at `first` or later, and not in the future."""
    inside: NDArray[np.bool_] = (times >= first) & (credible(times, now) != NEVER)
    return inside


def end_of(log: Log, now: int, splits: Sequence[Split], labels: Sequence[OffsetSpan]) -> int:
    """The newest time of the last records of each partition in ms, without times of the future.

    It is the stream time at the end of the history. 0 without records.
    """
    spans = [s for split in splits for s in split.spans if isinstance(s, OffsetSpan)]
    ends: dict[Partition, int] = {}
    for span in [*spans, *labels]:
        ends[_partition(span)] = max(ends.get(_partition(span), 0), span.end)
    begins = log.beginning_offsets(list(ends))
    starts = {p: max(begins[p], end - LOOK) for p, end in ends.items()}
    newest = 0
    with closing(log.read(starts, ends)) as chunks:
        for part in chunks:
            times = credible(np.asarray(part.timestamps, dtype=np.int64), now)
            newest = max(newest, int(times.max(initial=0)))
    return newest


def sampled_labels(
    log: Log, shard: Shard, splits: Sequence[Split], labels: Sequence[OffsetSpan]
) -> list[object]:
    """The labels of the first records in the topics of labels, or else inside the observations, of
    the first split that has any."""
    found = _sample(log, shard.spec.label_decoder(shard.schemas), labels)
    decoder = shard.spec.decoder(shard.schemas)
    for split in splits if shard.spec.config.input.label is not None else ():
        if found:
            break
        spans = [span for span in split.spans if isinstance(span, OffsetSpan)]
        found = _sample(log, decoder, spans)
    return found


def _sample(
    log: Log, decoder: JsonObservations | JsonLabels, spans: Sequence[OffsetSpan]
) -> list[object]:
    """The labels of the first records of these ranges."""
    starts, ends = _bounds([span for span in spans if span.end > span.first])
    ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
    out: list[object] = []
    with closing(log.read(starts, ends)) as chunks:
        for part in chunks:
            found = decoder.decode(part.keys, part.values)
            labels = enumerate(found.labels)
            out += [v for i, v in labels if v is not None and i not in found.rejected]
    return out


class LogHistory:
    """Reads the splits of a history in a log.

    Parameters
    ----------
    manifest
        What is read.
    log
        The log. It is closed with this object.
    config
        The service.

    Attributes
    ----------
    matched : dict
        The labels of the last split that were found by their ids, of those that may still wait.
    late : int
        How many labels of the last split came after the horizon.
    """

    def __init__(self, manifest: Manifest, log: Log, config: Config) -> None:
        self._manifest, self._log = manifest, log
        self._horizon, self._max_bytes = config.labels.horizon_ms, config.commit.most_bytes()
        most = config.labels.max_pending
        self._last_labels = {
            _partition(span): max(span.first, span.end - most) for span in manifest.labels
        }
        self._topics = frozenset(span.topic for span in manifest.labels)
        self.matched: Matched = {}
        self.late = 0

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    @property
    def end(self) -> int:
        """The newest time of the history in ms."""
        assert self._manifest.end is not None  # noqa: S101  that of a log is known
        return self._manifest.end

    @property
    def waits_from(self) -> int:
        """Records since this time in ms may still wait when the service continues."""
        return (self._manifest.cut or 0) - self._horizon

    def batches(self, split: Split, shard: Shard, size: int) -> Iterator[Batch]:
        """The records of a split in the order of a service, at most `size` at a time."""
        spans = [span for span in split.spans if isinstance(span, OffsetSpan)]
        if self._manifest.ordered:
            return self._in_order([*spans, *self._manifest.labels], size)
        return self._with_labels(spans, shard, size)

    def _in_order(self, spans: Sequence[OffsetSpan], size: int) -> Iterator[Batch]:
        starts, ends = _bounds(spans)
        merge = Merge(list(starts), self._topics, 2 * self._max_bytes)
        merge.seek(starts)
        moved = [p for p in starts if ends[p] > starts[p]]
        some = ({p: starts[p] for p in moved}, {p: ends[p] for p in moved})
        with closing(self._log.read(*some, demand=merge)) as chunks:
            yield from merge.batches(
                zip(chunks), lambda: size, ends=ends, now=self.end, max_bytes=self._max_bytes
            )

    def _with_labels(self, spans: Sequence[OffsetSpan], shard: Shard, size: int) -> Iterator[Batch]:
        parts = list(self._read(spans, back=LOOK))
        merge = Merge(
            [*_bounds(spans)[0], *_bounds(self._manifest.labels)[0]], self._topics, UNBOUNDED
        )
        merge.add(parts)
        self.matched, self.late = {}, 0
        came = _times_of(parts, shard) if self._topics else {}
        if came:
            merge.add(self._labels(self._window(parts), shard, came))
        yield from merge.batches((), lambda: size, now=self.end)

    def _window(self, parts: Sequence[Fetched]) -> tuple[int, int]:
        """The times between which the labels of these observations are searched.

        A horizon more at the end, because records need not be in the order of their times.
        """
        times = np.concatenate([np.asarray(part.timestamps, dtype=np.int64) for part in parts])
        times = np.clip(times, 0, self.end)
        return int(times.min()) - self._horizon, int(times.max()) + 2 * self._horizon

    def _labels(
        self, window: tuple[int, int], shard: Shard, came: Mapping[str, int]
    ) -> Iterator[Fetched]:
        """The labels between two times of ids that came at these times, within the horizon."""
        first, last = window
        spans = self._since(self._manifest.labels, first)
        for part, at, ids in self._found(spans, _label_ids(shard), came, last):
            since = np.array([came[id_] for id_ in ids])
            near = np.abs(np.asarray(part.timestamps, dtype=np.int64)[at] - since) <= self._horizon
            self.late += int(np.count_nonzero(~near))
            at = at[near]
            if not at.size:
                continue
            offsets = np.asarray(part.offsets, dtype=np.int64)[at]
            offsets = offsets[offsets >= self._last_labels[part.partition]]
            self.matched.setdefault(part.partition, []).extend(offsets.tolist())
            yield _taken(part, at)

    def observations(self, split: Split, shard: Shard, ids: Collection[str]) -> list[Record]:
        """The observations of a split with these ids, of the last horizon."""
        spans = [span for span in split.spans if isinstance(span, OffsetSpan)]
        return self._waiting(spans, _observation_ids(shard), ids)

    def labels(self, shard: Shard, ids: Collection[str]) -> list[Record]:
        """The labels of these ids, of the last horizon."""
        return self._waiting(self._manifest.labels, _label_ids(shard), ids)

    def _waiting(
        self,
        spans: Sequence[OffsetSpan],
        decode: Callable[[Fetched], list[str]],
        ids: Collection[str],
    ) -> list[Record]:
        found = self._found(self._since(spans, self.waits_from), decode, ids)
        return [record for part, at, _ in found for record in _records(_taken(part, at))]

    def unmatched(self, shard: Shard, matched: Mapping[Partition, Collection[int]]) -> list[Record]:
        """The labels of the last horizon that are not among these offsets."""
        out, decode = list[Record](), _label_ids(shard)
        spans = [
            replace(span, first=max(span.first, self._last_labels[_partition(span)]))
            for span in self._since(self._manifest.labels, self.waits_from)
        ]
        cut = self._manifest.cut or 0
        for part in self._read(spans):
            known = np.array(sorted(matched.get(part.partition, ())), dtype=np.int64)
            offsets = np.asarray(part.offsets, dtype=np.int64)
            times = np.asarray(part.timestamps, dtype=np.int64)
            left = ~np.isin(offsets, known) & (times >= self.waits_from) & (times <= cut)
            left &= np.array(decode(part), dtype=object) != REJECTED
            out += _records(_taken(part, np.flatnonzero(left)))
        return out

    def _since(self, spans: Sequence[OffsetSpan], first: int) -> list[OffsetSpan]:
        """The parts of these ranges that may have records since a time."""
        partitions = list(map(_partition, spans))
        starts = self._log.offsets_at(partitions, max(first, 0)) if partitions else {}
        return [
            replace(span, first=max(span.first, min(starts[partition], span.end)))
            for partition, span in zip(partitions, spans, strict=True)
        ]

    def _found(
        self,
        spans: Sequence[OffsetSpan],
        decode: Callable[[Fetched], list[str]],
        ids: Collection[str],
        last: int | None = None,
    ) -> Iterator[tuple[Fetched, NDArray[np.int64], list[str]]]:
        """The chunks of these ranges, and the places and ids of the records with these ids in each.

        A partition is not read further if a whole chunk of it is later than `last`.
        """
        for part in self._read(spans, last) if ids else ():
            found = [(i, id_) for i, id_ in enumerate(decode(part)) if id_ in ids]
            if found:
                at = np.array([i for i, _ in found], dtype=np.int64)
                yield part, at, [id_ for _, id_ in found]

    def _read(
        self, spans: Sequence[OffsetSpan], last: int | None = None, *, back: int = 0
    ) -> Iterator[Fetched]:
        """The records of these ranges. The time of each is the newest one of its partition so far,
        as in the merge of a service; those of `back` offsets before a range count too."""
        starts, ends = _bounds([span for span in spans if span.end > span.first])
        left = Unfinished(starts)
        if not starts:
            return
        begins = self._log.beginning_offsets(list(starts)) if back else starts
        before = {p: max(min(begins[p], at), at - back) for p, at in starts.items()}
        newest = dict.fromkeys(starts, 0)
        with closing(self._log.read(before, ends, demand=left)) as chunks:
            for part in chunks:
                partition = part.partition
                times = credible(np.asarray(part.timestamps, dtype=np.int64), self.end)
                times = np.maximum.accumulate(np.maximum(times, newest[partition]))
                newest[partition] = int(times[-1])
                inside = np.asarray(part.offsets, dtype=np.int64) >= starts[partition]
                part.timestamps = Numbers(times)
                if inside.any():
                    yield _taken(part, np.flatnonzero(inside))
                if last is not None and int(times.min()) > last:
                    left.partitions.discard(partition)
                if not left.partitions:
                    return


def _bounds(spans: Sequence[OffsetSpan]) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """The first offset of each partition, and the one after its last."""
    starts = {_partition(span): span.first for span in spans}
    return starts, {_partition(span): span.end for span in spans}


def _partition(span: OffsetSpan) -> Partition:
    return Partition(span.topic, span.partition)


def _ids(decoder: JsonObservations | JsonLabels) -> Callable[[Fetched], list[str]]:
    """Gives the id of each record, `REJECTED` for one that is a dead letter."""

    def ids(part: Fetched) -> list[str]:
        found = decoder.decode(part.keys, part.values)
        return [REJECTED if i in found.rejected else id_ for i, id_ in enumerate(found.ids)]

    return ids


def _observation_ids(shard: Shard) -> Callable[[Fetched], list[str]]:
    return _ids(shard.spec.decoder(shard.schemas))


def _label_ids(shard: Shard) -> Callable[[Fetched], list[str]]:
    return _ids(shard.spec.label_decoder(shard.schemas))


def _times_of(parts: Sequence[Fetched], shard: Shard) -> dict[str, int]:
    """The time in ms of the first observation of each id."""
    decode, out = _observation_ids(shard), dict[str, int]()
    for part in parts:
        for id_, time in zip(decode(part), part.timestamps, strict=True):
            out.setdefault(id_, time)
    out.pop(REJECTED, None)
    return out


def _taken(part: Fetched, at: NDArray[np.int64]) -> Fetched:
    """The records at these places of a chunk."""
    offsets, times = (
        Numbers(np.asarray(column, dtype=np.int64)[at])
        for column in (part.offsets, part.timestamps)
    )
    some = (chosen(part.keys, at), chosen(part.values, at))
    return Fetched(part.partition, offsets, times, *some).compact()


def _records(part: Fetched) -> list[Record]:
    columns = zip(part.offsets, part.timestamps, part.keys, part.values, strict=True)
    return [Record(*part.partition, int(o), int(t), key, value) for o, t, key, value in columns]
