"""Repeat a prediction with the shard as it was just before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition, Record
from consumers.config import Config
from consumers.journal.reader import course, entries
from consumers.journal.records import CommitRecord
from consumers.service.live import Progress, Sources
from consumers.service.replay import steps
from consumers.shard.models import build, explainable
from consumers.shard.shard import Outcome
from consumers.snapshots.store import SnapshotStore
from consumers.timetravel.moment import PointInTime, rebuild_at
from consumers.transports.protocol import Log

__all__ = ["Audit", "audit", "find"]


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
        Other observations that were predicted under the same id, as TOPIC:PARTITION:OFFSET.
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


class _Prediction(msgspec.Struct):
    position: _Position


def find(
    config: Config, log: Log, what: str, topics: Sequence[str] = ()
) -> tuple[list[Record], tuple[Partition, int]]:
    """The predictions of an observation, and the place of the observation.

    Parameters
    ----------
    what
        TOPIC:PARTITION:OFFSET of the observation, or its id.
    topics
        Topics of predictions; empty: the configured topic.

    Raises
    ------
    ConfigError
        There is no such prediction.
    """
    topic, _, rest = what.rpartition(":")
    name, _, number = topic.rpartition(":")
    placed = bool(name) and number.isdecimal() and rest.isdecimal()
    where = (Partition(name, int(number)), int(rest)) if placed else None
    key = what.encode()
    out = [
        record
        for topic in topics or [config.predictions_topic]
        for record in _all(log, topic)
        if (record.key == key if where is None else _place(record) == where)
    ]
    if out:
        found = _place(out[0])
        if found is not None:
            return out, found
    if where is not None and where[0].topic in config.input_topics:
        return [], where
    raise ConfigError(
        f"no prediction of {what!r} in {config.predictions_topic}; give the observation's id, or "
        "its TOPIC:PARTITION:OFFSET"
    )


def _topics(config: Config, log: Log, journaled: Partition) -> list[str]:
    """The topics of predictions, now and earlier, as journaled."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    records = entries(log, journaled, first, end)
    shapes = (record.shape for _, record in records if isinstance(record, CommitRecord))
    earlier = [shape.predictions for shape in shapes if shape is not None]
    return list(dict.fromkeys([config.predictions_topic, *earlier]))


def _place(record: Record) -> tuple[Partition, int] | None:
    try:
        at = msgspec.json.decode(record.value or b"", type=_Prediction).position
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Partition(at.topic, at.partition), at.offset


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
    published, (partition, offset) = find(config, log, what, _topics(config, log, found.journal))
    owner = partition.number % config.scale.shards
    if owner != found.journal.number:
        raise ConfigError(
            f"{partition} offset {offset} belongs to shard {owner}, not to {found.journal.number}; "
            f"give --shard {owner}"
        )
    before, after = _around(log, found.journal, partition, offset)
    shares = config.output.explain or (SHARES if explainable(build(config.model)) else 0)
    live = rebuild_at(config, log, found, store, before, progress)
    ahead = course(log, found.journal, live.position, after)
    made = (
        (entry, outcome, again)  # of the piece that contains the record
        for entry, outcome in steps(log, found, live, after, ahead, explain=shares)
        if (again := _of(outcome, partition, offset)) is not None
    )
    entry, outcome, again = next(made, (None, None, None))
    if entry is None or outcome is None or again is None:
        raise ConfigError(f"{partition} offset {offset} was consumed and not predicted")
    shares = max(shares, outcome.spec.explain)
    explaining = replace(outcome, spec=replace(outcome.spec, explain=shares))
    then = next((record for record in published if record.topic == again.topic), None)
    explained = _of(explaining, partition, offset) if shares else None
    places = {place for record in published if (place := _place(record)) is not None}
    others = tuple(f"{p.topic}:{p.number}:{at}" for p, at in sorted(places - {(partition, offset)}))
    return Audit(then, again, entry, explained, others)


def _of(outcome: Outcome, partition: Partition, offset: int) -> Outgoing | None:
    """The prediction of one record of the batch."""
    batch = outcome.batch
    for i, record in zip(outcome.observed, outcome.predictions(), strict=True):
        if batch.partitions[batch.source[i]] == partition and batch.offsets[i] == offset:
            return record
    return None


def _around(
    log: Log, journaled: Partition, partition: Partition, offset: int
) -> tuple[PointInTime, int]:
    """The point in time before the commit of a record, and the journal position after it."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    before = PointInTime(0, 0, first)
    for at, entry in entries(log, journaled, first, end):
        if isinstance(entry, CommitRecord):
            for r in entry.ranges:
                if (r.topic, r.partition) == partition and r.first <= offset < r.end:
                    return before, at + 1
        before = PointInTime(entry.seq, entry.now, at + 1)
    raise ConfigError(
        f"{partition} offset {offset} is in no record of the journal {journaled.topic}: it was not "
        "consumed yet, or the journal was trimmed"
    )
