"""Repeat a prediction with the shard as it was just before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec

from consumers.base.converter import UNDECODABLE
from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition, Record
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.journal.reader import course, entries
from consumers.journal.records import CommitRecord, IdentityRecord, InputsRecord, MovedFrom
from consumers.schemas.translate import Translator
from consumers.service.live import Progress, Sources
from consumers.service.replay import steps
from consumers.shard.batches import Explained
from consumers.shard.models import explainable
from consumers.shard.shard import Outcome
from consumers.snapshots.store import SnapshotStore
from consumers.timetravel.moment import PointInTime, rebuild_at
from consumers.transports.protocol import Log

__all__ = ["Audit", "audit", "find"]


class ObservationPlace(NamedTuple):
    """Where an observation is: partition, offset, and the index of its row; None without rows."""

    partition: Partition
    offset: int
    row: int | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f" row {self.row}"
        return f"{self.partition} offset {self.offset}{row}"

    @property
    def named(self) -> str:
        """TOPIC:PARTITION:OFFSET, and :INDEX for a row."""
        row = "" if self.row is None else f":{self.row}"
        return f"{self.partition.topic}:{self.partition.number}:{self.offset}{row}"


Read = Callable[[bytes], bytes]  # a prediction as JSON
SHARES = 10  # features to explain if the configuration sets no number


@dataclass(frozen=True, slots=True)
class Audit:
    """A published prediction, and the same prediction repeated.

    Parameters
    ----------
    published
        The record in the predictions topic; None if it no longer exists.
    again
        The repeated record.
    entry
        The journal record of its commit.
    explained
        The record with an explanation; None if the learner supports none.
    others
        Other observations that were predicted under the same id, as `ObservationPlace.named`.
    """

    published: Record | None
    again: Outgoing
    entry: CommitRecord
    explained: Outgoing | None
    others: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether both have the same bytes."""
        return self.published is not None and self.published.value == self.again.value


class _Position(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    index: int | None = None


class _Prediction(msgspec.Struct):
    position: _Position


_decode_prediction = msgspec.json.Decoder(_Prediction).decode


def find(
    config: Config,
    log: Log,
    what: str,
    topics: Sequence[str] = (),
    translator: Translator | None = None,
) -> tuple[list[Record], ObservationPlace]:
    """The predictions of an observation, and the place of the observation.

    Parameters
    ----------
    what
        TOPIC:PARTITION:OFFSET of the observation (:INDEX for a row of a message), or its id.
    topics
        Topics of predictions; empty: the configured topic.
    translator
        Reads predictions by the schema whose id they have; None: one of `config`.

    Raises
    ------
    ConfigError
        There is no such prediction.
    """
    read = (translator or Translator(config)).as_json
    where = _named(what, rows=wire_format(config.input.format).rows is not None)
    records = (r for topic in topics or [config.predictions_topic] for r in _all(log, topic))
    if where is None:
        out = _of_id(read, records, what)
    else:
        out = [r for r in records if _place(read, r) == where]
    if out:
        found = _place(read, out[0])
        if found is not None:
            return out, found
    if where is not None and where.partition.topic in config.input_topics:
        return [], where
    raise ConfigError(
        f"no prediction of {what!r} in {config.predictions_topic}; give the observation's id, or "
        "its TOPIC:PARTITION:OFFSET"
    )


def _named(what: str, *, rows: bool) -> ObservationPlace | None:
    """The place that a text names; None if it is an id."""
    topic, *numbers = what.rsplit(":", 3 if rows else 2)
    if not topic or len(numbers) < 2 + rows or not all(n.isdecimal() for n in numbers):
        return None
    number, offset, *row = map(int, numbers)
    return ObservationPlace(Partition(topic, number), offset, *row)


def _of_id(read: Read, records: Iterable[Record], what: str) -> list[Record]:
    """The predictions of an id.

    Raises
    ------
    ConfigError
        All are of records of a topic that was recreated, and other records have their places now.
    """
    key = what.encode()
    found: dict[ObservationPlace | None, list[Record]] = {}
    replaced = None
    for record in records:
        if record.key == key:
            found.setdefault(_place(read, record), []).append(record)
        elif found and (place := _place(read, record)) in found:
            del found[place]
            replaced = place
    if replaced is not None and not found:
        raise ConfigError(
            f"{replaced} was {what!r} before {replaced.partition.topic} was recreated, and is "
            "another record now"
        )
    return [record for same in found.values() for record in same]


def _topics(config: Config, log: Log, journaled: Partition) -> list[str]:
    """The topics of predictions, now and earlier, as journaled."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    records = entries(log, journaled, first, end)
    shapes = (record.shape for _, record in records if isinstance(record, CommitRecord))
    earlier = [shape.predictions for shape in shapes if shape is not None]
    return list(dict.fromkeys([config.predictions_topic, *earlier]))


def _place(read: Read, record: Record) -> ObservationPlace | None:
    """The place of a prediction's observation; None of another record."""
    try:
        at = _decode_prediction(read(record.value or b"")).position
    except UNDECODABLE:
        return None
    return ObservationPlace(Partition(at.topic, at.partition), at.offset, at.index)


def _all(log: Log, topic: str) -> Iterator[Record]:
    parts = [Partition(topic, n) for n in range(log.topics().get(topic, 0))]
    starts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    for chunk in log.read(starts, ends):
        columns = zip(chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True)
        for offset, timestamp, key, value in columns:
            yield Record(*chunk.partition, offset, timestamp, key, value, ())


def audit(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    what: str,
    progress: Progress = lambda done, total: None,
) -> Audit:
    """Rebuild the shard as it was just before a prediction, and repeat the prediction.

    Raises
    ------
    ConfigError
        There is no such prediction, the record was not consumed, or another shard owns it.
    TransportError
        The shard of that time cannot be rebuilt.
    """
    translator = Translator(config)
    topics = _topics(config, log, found.journal)
    published, first = find(config, log, what, topics, translator)
    at = partial(_place, translator.as_json)
    places = dict.fromkeys((first, *filter(None, map(at, published))))
    shards, shard = config.scale.shards, found.journal.number
    own = [place for place in places if place.partition.number % shards == shard]
    if not own:
        owner = first.partition.number % shards
        raise ConfigError(f"{first} belongs to shard {owner}, not to {shard}; give --shard {owner}")
    place, before, after = _around(log, found.journal, own)
    live = rebuild_at(config, log, found, store, before, progress)
    moved = live.entry.moved
    if moved is not None and before.seq < moved.last:
        raise _elsewhere(place, moved)
    shares = (config.output.explain or SHARES) if explainable(live.shard.learner) else 0
    ahead = course(log, found.journal, live.position, after)
    made = (
        (entry, outcome, again)  # of the piece that contains the record
        for entry, outcome in steps(
            log, found, live, after, ahead, explain=Explained(shares, place)
        )
        if (again := _of(outcome, place)) is not None
    )
    entry, outcome, again = next(made, (None, None, None))
    if entry is None or outcome is None or again is None:
        raise ConfigError(f"{place} was consumed and not predicted")
    outputs = outcome.spec.outputs
    shares = max(shares, outputs.explain)
    shape = msgspec.structs.replace(outputs, explain=shares)
    explaining = replace(outcome, spec=replace(outcome.spec, outputs=shape))
    same_place = [r for r in published if at(r) == place]
    # The last one: a topic that was recreated has the same places again.
    then = next((r for r in reversed(same_place) if r.topic == again.topic), None)
    explained = _of(explaining, place) if shares else None
    others = sorted(places.keys() - {place})
    return Audit(then, again, entry, explained, tuple(other.named for other in others))


def _elsewhere(place: ObservationPlace, moved: MovedFrom) -> ConfigError:
    """The error if the prediction was made before the service was given these shards."""
    return ConfigError(
        f"{place} was predicted by one of {counted(moved.shards, 'shard')}, whose journal is "
        f"{moved.journal}: use a configuration with [scale] shards = {moved.shards} and "
        f'[journal] topic = "{moved.journal}"'
    )


def _of(outcome: Outcome, place: ObservationPlace) -> Outgoing | None:
    """The prediction of one record of the batch."""
    batch = outcome.batch
    for i, record in zip(outcome.observed, outcome.predictions(), strict=True):
        if (*batch.place(i), batch.row(i)) == place:
            return record
    return None


def _around(
    log: Log, journaled: Partition, places: Sequence[ObservationPlace]
) -> tuple[ObservationPlace, PointInTime, int]:
    """The first place whose record can be read again, the point in time before its commit, and the
    journal position after the commit.

    Raises
    ------
    ConfigError
        No journal record has any of the places, or their partitions restarted since.
    """
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    before = PointInTime(0, 0, first)
    around: dict[ObservationPlace, tuple[PointInTime, int]] = {}
    gone: dict[ObservationPlace, int] = {}
    moved: MovedFrom | None = None
    for at, entry in entries(log, journaled, first, end):
        if isinstance(entry, CommitRecord):
            for place in places:
                for r in entry.ranges:
                    same = Partition(r.topic, r.partition) == place.partition
                    if same and r.first <= place.offset < r.end:
                        around[place] = before, at + 1
        elif isinstance(entry, InputsRecord):
            restarted = {(t, n) for t, n, *_ in (*entry.starts, *entry.gone)}
            for place in [place for place in around if place.partition in restarted]:
                del around[place]
                gone[place] = entry.seq
        elif isinstance(entry, IdentityRecord):
            moved = entry.moved
        before = PointInTime(entry.seq, entry.now, at + 1)
    found = next((place for place in places if place in around), None)
    if found is not None:
        return found, *around[found]
    place = places[0]
    if place in gone:
        raise ConfigError(
            f"{place} was consumed before {place.partition} restarted at journal record "
            f"{gone[place]}: its record is no longer in the log"
        )
    if moved is not None:
        raise _elsewhere(place, moved)
    raise ConfigError(
        f"{place} is in no record of the journal {journaled.topic}: it was not "
        "consumed yet, or the journal was trimmed"
    )
