"""The records of a range: are they those that a commit consumed, and which ones are the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from consumers.base.cells import lengths
from consumers.base.errors import RecordsMissingError
from consumers.base.records import Batch, Partition
from consumers.journal.checksum import RangeChecksum, checksums
from consumers.journal.records import CommitRecord, Range

__all__ = ["RangeCheck", "tails"]

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
