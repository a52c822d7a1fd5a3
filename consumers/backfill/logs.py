"""A history in the input topics of the service.

A split is a range of offsets of one partition of observations, with the labels of its ids, which
are searched in all label partitions from a horizon before its first observation to a horizon after
its last one. A history that has to be learned in order is one split: all ranges, in the order in
which a service would process them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.backfill.manifest import Manifest, OffsetSpan, Split
from consumers.base.cells import Numbers, chosen
from consumers.base.errors import ConfigError
from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition, Record
from consumers.codecs.json import DecodedLabels, DecodedObservations
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.config.sample import SAMPLE_SIZE
from consumers.journal.merge import Merge
from consumers.service.live import Sources
from consumers.shard.shard import Shard
from consumers.transports.protocol import Log, Unfinished

__all__ = ["LogHistory", "Matched", "check_format", "planned", "sampled_labels"]

REJECTED = ""  # in place of an id
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
    size: int,
    ordered: bool,
) -> tuple[list[Split], list[OffsetSpan], dict[Partition, int]]:
    """The splits of the input topics, the offsets of the label topics, and where all end.

    Parameters
    ----------
    until, as_of
        Where observations and labels end, times in ms; None: at the present end.
    size
        The offsets of a split.
    ordered
        Whether all observations are one split.
    """
    spans: dict[bool, list[OffsetSpan]] = {False: [], True: []}
    begins, ends = log.beginning_offsets(found.inputs), log.end_offsets(found.inputs)
    for labels, limit in ((False, until), (True, as_of)):
        parts = sorted(p for p in found.inputs if (p.topic in found.label_topics) == labels)
        if limit is not None and parts:
            ends |= log.offsets_at(parts, limit)
        step = UNBOUNDED if labels or ordered else size
        for partition in parts:
            first, end = begins[partition], max(ends[partition], begins[partition])
            spans[labels] += [
                OffsetSpan(*partition, at, min(at + step, end)) for at in range(first, end, step)
            ] or [OffsetSpan(*partition, end, end)]
    observed = [span for span in spans[False] if span.end > span.first]
    groups = [spans[False]] if ordered and observed else [[span] for span in observed]
    splits = [Split(number, list(group)) for number, group in enumerate(groups)]
    return splits, spans[True], {p: max(end, begins[p]) for p, end in ends.items()}


def sampled_labels(
    log: Log, shard: Shard, splits: Sequence[Split], labels: Sequence[OffsetSpan]
) -> list[object]:
    """The labels of the first records, in the topics of labels or inside the observations."""
    decode: Callable[[Any, Any], DecodedLabels | DecodedObservations]
    if labels:
        decode, spans = shard.spec.label_decoder(shard.schemas).decode, list(labels)
    else:
        decode = shard.spec.decoder(shard.schemas).decode
        spans = [span for span in splits[0].spans if isinstance(span, OffsetSpan)]
    starts, ends = _bounds([span for span in spans if span.end > span.first])
    ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
    out: list[object] = []
    with closing(log.read(starts, ends)) as chunks:
        for part in chunks:
            found = decode(part.keys, part.values)
            out += [v for i, v in enumerate(found.labels) if i not in found.rejected]
    return out


class LogHistory:
    """Reads the splits of a history in a log.

    Parameters
    ----------
    manifest
        What is read.
    log
        The log. It is closed with this object.
    horizon
        How long an observation waits for its label, in ms.
    max_bytes
        Bytes of records that a history in order holds.

    Attributes
    ----------
    matched : dict
        The labels of the last split that were found by their ids, of those in the last horizon.
    """

    def __init__(self, manifest: Manifest, log: Log, horizon: int, max_bytes: int) -> None:
        self._manifest, self._log = manifest, log
        self._horizon, self._max_bytes = horizon, max_bytes
        self._topics = frozenset(span.topic for span in manifest.labels)
        self.matched: Matched = {}

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    @property
    def clock(self) -> int:
        """The wall clock in ms at the end of the history."""
        assert self._manifest.clock is not None  # noqa: S101  that of a log has one
        return self._manifest.clock

    @property
    def waits_from(self) -> int:
        """Records since this time in ms may still wait at the end of the history."""
        return self.clock - self._horizon

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
        reaching = True
        with closing(self._log.read(*some, demand=merge)) as chunks:
            while reaching or len(merge):
                batch = None
                if len(merge) >= size or merge.nbytes >= self._max_bytes or not reaching:
                    batch = merge.take(size, ends, now=self.clock, wait=reaching)
                if batch is not None:
                    yield batch
                elif (fetched := next(chunks, None)) is not None:
                    merge.add([fetched])
                else:
                    reaching = False

    def _with_labels(self, spans: Sequence[OffsetSpan], shard: Shard, size: int) -> Iterator[Batch]:
        parts = list(self._read(spans))
        merge = Merge(
            [*_bounds(spans)[0], *_bounds(self._manifest.labels)[0]], self._topics, UNBOUNDED
        )
        merge.add(parts)
        self.matched = {}
        ids = _ids_of(parts, shard) if self._topics else set()
        if ids:
            merge.add(self._labels(self._window(parts), shard, ids))
        while (batch := merge.take(size, {}, now=self.clock, wait=False)) is not None:
            yield batch

    def _window(self, parts: Sequence[Fetched]) -> tuple[int, int]:
        """The times between which the labels of these observations are searched.

        A horizon more at the end, because records need not be in the order of their times.
        """
        times = np.concatenate([np.asarray(part.timestamps, dtype=np.int64) for part in parts])
        times = np.clip(times, 0, self.clock)
        return int(times.min()) - self._horizon, int(times.max()) + 2 * self._horizon

    def _labels(
        self, window: tuple[int, int], shard: Shard, ids: Collection[str]
    ) -> Iterator[Fetched]:
        """The labels of these ids between two times."""
        first, last = window
        spans = self._since(self._manifest.labels, first)
        for part, at in self._found(spans, _label_ids(shard), ids, last):
            late = np.asarray(part.timestamps, dtype=np.int64)[at] >= self.waits_from
            offsets = np.asarray(part.offsets, dtype=np.int64)[at][late]
            self.matched.setdefault(part.partition, []).extend(offsets.tolist())
            yield _taken(part, at)

    def observations(self, split: Split, shard: Shard, ids: Collection[str]) -> list[Record]:
        """The observations of a split with these ids, of the last horizon."""
        spans = [span for span in split.spans if isinstance(span, OffsetSpan)]
        found = self._found(self._since(spans, self.waits_from), _observation_ids(shard), ids)
        return [record for part, at in found for record in _records(_taken(part, at))]

    def labels(self, shard: Shard, ids: Collection[str]) -> list[Record]:
        """The labels of these ids, of the last horizon."""
        spans = self._since(self._manifest.labels, self.waits_from)
        found = self._found(spans, _label_ids(shard), ids)
        return [record for part, at in found for record in _records(_taken(part, at))]

    def unmatched(self, shard: Shard, matched: Mapping[Partition, Collection[int]]) -> list[Record]:
        """The labels of the last horizon that are not among these offsets."""
        out, decode = list[Record](), _label_ids(shard)
        for part in self._read(self._since(self._manifest.labels, self.waits_from)):
            known = np.array(sorted(matched.get(part.partition, ())), dtype=np.int64)
            offsets = np.asarray(part.offsets, dtype=np.int64)
            times = np.asarray(part.timestamps, dtype=np.int64)
            left = ~np.isin(offsets, known) & (times >= self.waits_from)
            left &= np.array(decode(part), dtype=object) != REJECTED
            out += _records(_taken(part, np.flatnonzero(left)))
        return out

    def _since(self, spans: Sequence[OffsetSpan], first: int) -> list[OffsetSpan]:
        """The parts of these ranges that may have records since a time."""
        partitions = [Partition(span.topic, span.partition) for span in spans]
        starts = self._log.offsets_at(partitions, max(first, 0)) if partitions else {}
        return [
            OffsetSpan(*partition, max(span.first, min(starts[partition], span.end)), span.end)
            for partition, span in zip(partitions, spans, strict=True)
        ]

    def _found(
        self,
        spans: Sequence[OffsetSpan],
        decode: Callable[[Fetched], list[str]],
        ids: Collection[str],
        last: int | None = None,
    ) -> Iterator[tuple[Fetched, NDArray[np.int64]]]:
        """The chunks of these ranges, and the places of the records with these ids in each.

        A partition is not read further if a whole chunk of it is later than `last`.
        """
        for part in self._read(spans, last) if ids else ():
            at = np.array([i for i, id_ in enumerate(decode(part)) if id_ in ids], dtype=np.int64)
            if at.size:
                yield part, at

    def _read(self, spans: Sequence[OffsetSpan], last: int | None = None) -> Iterator[Fetched]:
        starts, ends = _bounds([span for span in spans if span.end > span.first])
        left = Unfinished(starts)
        if not starts:
            return
        with closing(self._log.read(starts, ends, demand=left)) as chunks:
            for part in chunks:
                yield part
                if last is not None and min(part.timestamps) > last:
                    left.partitions.discard(part.partition)
                if not left.partitions:
                    return


def _bounds(spans: Sequence[OffsetSpan]) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """The first offset of each partition, and the one after its last."""
    starts = {Partition(span.topic, span.partition): span.first for span in spans}
    return starts, {Partition(span.topic, span.partition): span.end for span in spans}


def _observation_ids(shard: Shard) -> Callable[[Fetched], list[str]]:
    """Gives the id of each observation, `REJECTED` for one that is a dead letter."""
    decoder = shard.spec.decoder(shard.schemas)

    def decode(part: Fetched) -> list[str]:
        found = decoder.decode(part.keys, part.values)
        return [REJECTED if i in found.rejected else id_ for i, id_ in enumerate(found.ids)]

    return decode


def _label_ids(shard: Shard) -> Callable[[Fetched], list[str]]:
    """Gives the id of each label, `REJECTED` for one that is a dead letter."""
    decoder = shard.spec.label_decoder(shard.schemas)

    def decode(part: Fetched) -> list[str]:
        found = decoder.decode(part.keys, part.values)
        return [REJECTED if i in found.rejected else id_ for i, id_ in enumerate(found.ids)]

    return decode


def _ids_of(parts: Sequence[Fetched], shard: Shard) -> set[str]:
    decode = _observation_ids(shard)
    return {id_ for part in parts for id_ in decode(part)} - {REJECTED}


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
