"""Read the journal from the log: its records, and a summary of those still to replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from consumers.base.records import Partition
from consumers.journal.model_parts import PART_KEY
from consumers.journal.records import (
    CommitRecord,
    InputsRecord,
    JournalRecord,
    RelearnRecord,
    RollbackRecord,
    decode,
)
from consumers.transports.protocol import Log

__all__ = ["Course", "course", "cut_out", "entries", "record_count"]


def entries(
    log: Log, partition: Partition, start: int, end: int
) -> Iterator[tuple[int, JournalRecord]]:
    """Offset and value of the journal records from offset `start` up to `end`, without the parts of
    an imported model."""
    if start >= end:
        return
    for fetched in log.read({partition: start}, {partition: end}):
        for at, key, value in zip(fetched.offsets, fetched.keys, fetched.values, strict=True):
            if key != PART_KEY:
                yield at, decode(value)


@dataclass(frozen=True, slots=True)
class Course:
    """A summary of the journal records that a replay will read.

    `cuts`: which journal records a later rollback removes from the history. Each cut removes the
    records after its first number and before its second. `records` is how many input records the
    others consumed. `begun` are the partitions that restart, with the number of the last journal
    record that restarts them: earlier input records are no longer in the log. `relearned` is the
    number of the last `RelearnRecord` of the history, None without one: a shard from before it must
    be rebuilt.
    """

    records: int = 0
    cuts: tuple[tuple[int, int], ...] = ()
    begun: tuple[tuple[Partition, int], ...] = ()
    relearned: int | None = None

    def without(self, seq: int) -> int | None:
        """The number of the rollback that removed record `seq`; None if it is in the history."""
        return next((reset for to, reset in self.cuts if to < seq < reset), None)

    def replaced(self, entry: CommitRecord) -> str | None:
        """Why the input records of `entry` cannot be read again; None if they may be there."""
        begun = dict(self.begun)
        for r in entry.ranges:
            partition = Partition(r.topic, r.partition)
            if entry.seq < begun.get(partition, -1):
                again = begun[partition]
                return (
                    f"{partition} restarted at journal record {again}; "
                    f"journal record {entry.seq} is older"
                )
        return None


def course(log: Log, partition: Partition, start: int, end: int) -> Course:
    """Summarize the journal from `start` up to `end`. A second read is needed after a rollback."""
    records, resets, relearned = 0, [], list[int]()
    begun: dict[Partition, int] = {}
    for _, entry in entries(log, partition, start, end):
        if isinstance(entry, RollbackRecord):
            resets.append(entry)
        if isinstance(entry, RelearnRecord):
            relearned.append(entry.seq)
        if isinstance(entry, InputsRecord):
            begun |= {Partition(t, n): entry.seq for t, n, _ in entry.starts}
            begun |= {Partition(t, n): entry.seq for t, n in entry.gone}
        records += record_count(entry)
    cuts: list[tuple[int, int]] = []
    for reset in reversed(resets):
        if not any(to < reset.seq < by for to, by in cuts):  # a later rollback may remove this one
            cuts.append((reset.to, reset.seq))
    ahead = Course(records, tuple(cuts), tuple(begun.items()))
    history = [seq for seq in relearned if ahead.without(seq) is None]
    ahead = replace(ahead, relearned=max(history, default=None))
    if not cuts:
        return ahead
    left = entries(log, partition, start, end)
    return replace(
        ahead, records=sum(record_count(e) for _, e in left if ahead.without(e.seq) is None)
    )


def cut_out(log: Log, partition: Partition, end: int) -> tuple[int, int]:
    """How many records of the journal up to `end` rollbacks removed, and how many input records
    those consumed. Journal records that retention deleted are not counted."""
    start = log.beginning_offsets([partition])[partition]
    ahead = course(log, partition, start, end)
    if not ahead.cuts:
        return 0, 0
    sizes = [
        record_count(entry)
        for _, entry in entries(log, partition, start, end)
        if ahead.without(entry.seq) is not None
    ]
    return len(sizes), sum(sizes)


def record_count(entry: JournalRecord) -> int:
    """How many input records it consumed."""
    return sum(r.count for r in entry.ranges) if isinstance(entry, CommitRecord) else 0
