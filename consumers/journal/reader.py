"""Read the journal from the log: its records, and a summary of those still to replay.

The records of a range: are they those that a commit consumed, and which ones are the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from consumers.base.cells import lengths
from consumers.base.errors import RecordsMissingError
from consumers.base.records import Batch, Partition
from consumers.journal.checksum import RangeChecksum, checksums
from consumers.journal.model_parts import PART_KEY
from consumers.journal.records import (
    CommitRecord,
    InputsRecord,
    JournalRecord,
    Range,
    RelearnRecord,
    RollbackRecord,
    decode,
)
from consumers.transports.protocol import Log

__all__ = [
    "Course",
    "RangeCheck",
    "course",
    "cut_out",
    "ends_of",
    "entries",
    "move_positions",
    "record_count",
    "tails",
    "update_inputs",
]


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


TAIL_RECORDS = 64  # last records of each partition, by which its log is recognized
TAIL_BYTES = 64 * 1024


class RangeCheck:
    """Checks that input records, read again, are those that a commit consumed.

    Parameters
    ----------
    entry
        The commit.

    Notes
    -----
    The records of a commit are usually read again as one batch. If they do not fit into memory,
    they are read in several batches.
    """

    def __init__(self, entry: CommitRecord) -> None:
        self._entry = entry
        self._left = sum(r.count for r in entry.ranges)
        self._sums: dict[Partition, RangeChecksum] = {}

    def add(self, batch: Batch) -> bool:
        """Add the next records. True after the last one, if all of them are the same.

        Raises
        ------
        RecordsMissingError
            The log has changed or lost records since the commit.
        """
        self._left -= len(batch)
        if not self._sums and not self._left:  # all at once
            sums = dict(zip(batch.parts.partitions, checksums(batch.parts), strict=True))
            found = {p: (count, sums[p]) for p, (_, _, count) in batch.ranges.items()}
        else:
            for part in batch.parts:
                self._sums.setdefault(part.partition, RangeChecksum()).add(part)
            if self._left > 0:
                return False
            found = {p: (s.count, s.value) for p, s in self._sums.items()}
        self._compare(found)
        return True

    def end(self) -> None:
        """Report the end of the records. RecordsMissingError if some are missing."""
        if self._left > 0:
            self._compare({p: (s.count, s.value) for p, s in self._sums.items()})

    def _compare(self, found: Mapping[Partition, tuple[int, int]]) -> None:
        for r in self._entry.ranges:
            partition = Partition(r.topic, r.partition)
            count, crc = found.get(partition, (0, 0))
            if count != r.count or crc != r.crc32:
                raise RecordsMissingError(
                    f"{partition} offsets {r.first} to {r.end - 1}: expected {r.count} records "
                    f"with checksum {r.crc32:08x}, the log now returns {count}; its records have "
                    "changed or expired, so this model cannot be rebuilt from them"
                )


def tails(batch: Batch, ranges: Iterable[Range] = ()) -> dict[Partition, Range]:
    """The last records of each partition of a batch, by which its log is recognized later.

    Parameters
    ----------
    ranges
        Ranges with known checksums. Those of few records are often a whole part of the batch.
    """
    parts = batch.parts
    if not parts:
        return {}
    each = lengths(parts.keys) + lengths(parts.values)
    before = np.concatenate([[0], each.cumsum()])  # bytes of the records before each
    begins, stops = parts.bounds[:-1], parts.bounds[1:]
    fits = np.searchsorted(before, before[stops] - TAIL_BYTES)  # the first that fits
    kept = np.minimum(np.maximum(fits, np.maximum(begins, stops - TAIL_RECORDS)), stops - 1)
    starts = (kept - begins).tolist()
    columns = (parts.offsets[kept], parts.offsets[stops - 1] + 1, stops - kept)
    firsts, ends, counts = (column.tolist() for column in columns)
    known = {(Partition(r.topic, r.partition), r.end, r.count): r.crc32 for r in ranges}
    keys = list(zip(parts.partitions, ends, counts, strict=True))
    if any(starts) or not known.keys() >= set(keys):
        sums = checksums(parts, starts)
    else:
        sums = [known[key] for key in keys]
    rows = zip(parts.partitions, firsts, ends, counts, sums, strict=True)
    return {p: Range(p.topic, p.number, *row) for p, *row in rows}


def update_inputs(
    entry: JournalRecord, topics: dict[str, str], tails: dict[Partition, Range]
) -> None:
    """Update topic ids and last records by a journal record that is not processed."""
    if isinstance(entry, CommitRecord):
        topics |= entry.topics
        tails |= {Partition(r.topic, r.partition): r for r in entry.ranges if r.count}
    elif isinstance(entry, InputsRecord):
        topics |= entry.topics
        for topic, number in (*(at[:2] for at in entry.starts), *entry.gone):
            tails.pop(Partition(topic, number), None)


def move_positions(entry: JournalRecord, positions: dict[Partition, int]) -> None:
    """Move the positions of the inputs past a journal record."""
    if isinstance(entry, CommitRecord):
        positions |= ends_of(entry)
    elif isinstance(entry, InputsRecord):
        positions |= {Partition(topic, number): at for topic, number, at in entry.starts}
        for gone in entry.gone:
            positions.pop(Partition(*gone), None)


def ends_of(entry: CommitRecord) -> dict[Partition, int]:
    """The offset after the last consumed record of each partition that moved."""
    return {Partition(r.topic, r.partition): r.end for r in entry.ranges}
