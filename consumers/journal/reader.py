"""The journal read back from the log: its entries, and what lies ahead in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from consumers.base.records import Partition
from consumers.journal.records import (
    CommitRecord,
    InputsRecord,
    JournalRecord,
    RollbackRecord,
    decode,
)
from consumers.transports.protocol import Log

__all__ = ["Course", "course", "cut_out", "entries", "record_count"]


def entries(
    log: Log, partition: Partition, start: int, end: int
) -> Iterator[tuple[int, JournalRecord]]:
    """Offset and entry of what the journal holds from `start` up to `end`."""
    if start >= end:
        return
    for fetched in log.read({partition: start}, {partition: end}):
        yield from zip(fetched.offsets, map(decode, fetched.values), strict=True)


@dataclass(frozen=True, slots=True)
class Course:
    """What lies ahead in the journal.

    `cuts`: which entries a later reset cuts out of the history, for each cut those after the first
    number and before the second; `records` is how many records the others consumed. `begun` are
    partitions that begin again, with the last entry that says so: what was consumed of them before
    it is not in the log any more.
    """

    records: int = 0
    cuts: tuple[tuple[int, int], ...] = ()
    begun: tuple[tuple[Partition, int], ...] = ()

    def without(self, seq: int) -> int | None:
        """The reset that cut entry `seq` out; None where it is part of the history."""
        return next((reset for to, reset in self.cuts if to < seq < reset), None)

    def replaced(self, entry: CommitRecord) -> str | None:
        """Why the records of an entry cannot be read again; None where they may be there."""
        begun = dict(self.begun)
        for r in entry.ranges:
            partition = Partition(r.topic, r.partition)
            if entry.seq < begun.get(partition, -1):
                again = begun[partition]
                return f"{partition} began again at entry {again}; entry {entry.seq} is of before"
        return None


def course(log: Log, partition: Partition, start: int, end: int) -> Course:
    """What the journal holds from `start` up to `end`; read twice only where there is a reset."""
    records, resets = 0, []
    begun: dict[Partition, int] = {}
    for _, entry in entries(log, partition, start, end):
        if isinstance(entry, RollbackRecord):
            resets.append(entry)
        if isinstance(entry, InputsRecord):
            begun |= {Partition(t, n): entry.seq for t, n, _ in entry.starts}
            begun |= {Partition(t, n): entry.seq for t, n in entry.gone}
        records += record_count(entry)
    cuts: list[tuple[int, int]] = []
    for reset in reversed(resets):
        if not any(to < reset.seq < by for to, by in cuts):  # a reset may be cut out itself
            cuts.append((reset.to, reset.seq))
    ahead = Course(records, tuple(cuts), tuple(begun.items()))
    if not cuts:
        return ahead
    left = entries(log, partition, start, end)
    return replace(
        ahead, records=sum(record_count(e) for _, e in left if ahead.without(e.seq) is None)
    )


def cut_out(log: Log, partition: Partition, end: int) -> tuple[int, int]:
    """How many entries of what is left of the journal up to `end` rollbacks cut out, and how many
    records they consumed."""
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
    """How many records it consumed."""
    return sum(r.count for r in entry.ranges) if isinstance(entry, CommitRecord) else 0
