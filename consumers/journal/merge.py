"""The order in which a shard consumes the records of its partitions. Pure.

Order (version 1, `MERGE_VERSION` of the journal's identity): a k-way merge of the partitions' heads
by (record timestamp, observation before label, topic, partition); within a partition offsets are
never reordered. It is recomputed from the records, so it never depends on how polls happened to
fall.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition, credible

__all__ = ["NO_CLOCK", "Merge", "batch_of", "merge"]


NO_CLOCK = 1 << 62  # every timestamp is credible


class Merge:
    """Buffers of what was polled, and the merge of them.

    Parameters
    ----------
    inputs
        Every input partition.
    labels
        The topics that hold labels: their records come after observations of the same time.
    max_bytes
        Bytes of records (see `Fetched.nbytes`) that all buffers may hold together.

    Notes
    -----
    What is free is shared as by the dynamic thresholds of Choudhury and Hahne: a buffer is full
    once it holds as much as is free. So one partition alone takes half of it, n busy ones take
    1 / (n + 1) each, and there is always room for one that lags. A partition with an empty buffer
    is never full: the merge may wait for its next record, and would wait for ever. Therefore all
    buffers together pass the bound by at most one record a partition.
    """

    def __init__(
        self,
        inputs: Sequence[Partition],
        labels: Collection[str],
        max_bytes: int = UNBOUNDED,
    ) -> None:
        order = sorted(inputs, key=lambda p: (p.topic in labels, p.topic, p.number))
        self._rank = {partition: rank for rank, partition in enumerate(order)}
        self._order = order
        self._max_bytes = max_bytes
        self.seek({})

    def __len__(self) -> int:
        return sum(len(b) for b in self._buffers.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the records in all buffers."""
        return sum(self._sizes.values())

    @property
    def room(self) -> int:
        """Bytes that the next poll may bring: half of what is free, but never nothing."""
        return max(1, (self._max_bytes - self.nbytes) // 2)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Forget what is buffered; each partition goes on at its position."""
        self._next = dict(positions)
        self._buffers = {partition: Fetched(partition, [], [], [], []) for partition in self._order}
        self._sizes = dict.fromkeys(self._order, 0)

    def add(self, fetched: Iterable[Fetched]) -> None:
        """Buffer polled records."""
        for part in fetched:
            buffer = self._buffers[part.partition]
            buffer.offsets += part.offsets
            buffer.timestamps += part.timestamps
            buffer.keys += part.keys
            buffer.values += part.values
            self._sizes[part.partition] += part.nbytes
            if part.offsets:
                self._next[part.partition] = part.offsets[-1] + 1

    def position(self, partition: Partition) -> int:
        """The offset after the last record of `partition` that was added."""
        return self._next.get(partition, 0)

    def full(self, size: int = UNBOUNDED) -> list[Partition]:
        """Partitions with at least `size` buffered records, or as many bytes as are free."""
        free = self._max_bytes - self.nbytes
        return [
            p
            for p, buffer in self._buffers.items()
            if len(buffer) >= size or (buffer.offsets and self._sizes[p] >= free)
        ]

    def take(
        self,
        max_records: int,
        ends: Mapping[Partition, int],
        *,
        now: int = NO_CLOCK,
        wait: bool = True,
        max_bytes: int = UNBOUNDED,
        before: Mapping[Partition, int] | None = None,
    ) -> Batch | None:
        """The next records in order, removed from the buffers; None where there are none.

        Parameters
        ----------
        max_records
            At most so many.
        ends
            Known end of each partition. One that lags behind its end, or whose end is not known,
            holds the merge at its last buffered record: an earlier one may still come.
        now
            The wall clock in ms that the entry will carry; without one every timestamp counts.
        wait
            False takes what is buffered, held or not: a partition kept the others too long.
        max_bytes
            At most so many; one record that is larger comes alone.
        before
            Only records before these offsets, and of these partitions; None: all.
        """
        parts = self._heads(max_records, before)
        if not parts:
            return None
        order, source = merge(parts, [self._rank[b.partition] for b in parts], now)
        n = min(order.size, max_records)
        if wait:
            n = min(n, self._held(parts, order, source, ends))
        if n and self.nbytes > max_bytes:
            grown = np.concatenate([b.sizes() for b in parts])[order[:n]].cumsum()
            n = max(1, int(np.searchsorted(grown, max_bytes, side="right")))
        if n == 0:
            return None
        return self._cut(parts, source[order[:n]])

    def _heads(self, count: int, before: Mapping[Partition, int] | None) -> list[Fetched]:
        """What may be taken of each buffer.

        No more than `count` records of one partition can be among the first: the others need no
        order.
        """
        buffers = [b for b in self._buffers.values() if b.offsets]
        if before is None:
            return [b.head(count) for b in buffers]
        limits = (bisect_left(b.offsets, before.get(b.partition, 0)) for b in buffers)
        heads = (b.head(min(count, limit)) for b, limit in zip(buffers, limits, strict=True))
        return [head for head in heads if head.offsets]

    def _held(
        self,
        parts: list[Fetched],
        order: NDArray[np.int64],
        source: NDArray[np.int64],
        ends: Mapping[Partition, int],
    ) -> int:
        """How many of the ordered records no later arrival can come before."""
        lagging = [p for p in self._order if self._next.get(p, 0) < ends.get(p, 1 << 62)]
        at = {b.partition: i for i, b in enumerate(parts)}
        if any(p not in at for p in lagging):
            return 0
        limit = order.size
        ordered = source[order]
        for partition in lagging:
            limit = min(limit, int(np.flatnonzero(ordered == at[partition])[-1]) + 1)
        return limit

    def _cut(self, parts: list[Fetched], source: NDArray[np.int64]) -> Batch:
        """A batch of the next records, which are of these parts: the first of each buffer."""
        counts = np.bincount(source, minlength=len(parts)).tolist()
        taken = [self._buffers[p.partition].shift(k) for p, k in zip(parts, counts, strict=True)]
        for part in taken:
            self._sizes[part.partition] -= part.nbytes
        order = np.empty(source.size, dtype=np.int64)
        order[np.argsort(source, kind="stable")] = np.arange(source.size)
        return batch_of(taken, order, source)


def merge(
    parts: Sequence[Fetched], rank: Sequence[int], now: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order of the concatenated records, and each one's part.

    A head that is later than those behind it holds them back, so a record sorts by the running
    maximum of the timestamps before it; the sort is stable, so offsets keep their order. A
    timestamp in the future tells nothing: that record sorts with the one before it, so that one
    wrong clock cannot hold a partition back behind all others.
    """
    times = np.concatenate(
        [
            np.maximum.accumulate(credible(np.array(p.timestamps, dtype=np.int64), now))
            for p in parts
        ]
    )
    source = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    order = np.lexsort((np.asarray(rank, dtype=np.int64)[source], times))
    return order, source


def batch_of(
    parts: Sequence[Fetched], order: NDArray[np.int64], source: NDArray[np.int64]
) -> Batch:
    """The records at `order` of the concatenated parts; `source` is the part of each."""
    offsets = np.concatenate([np.array(p.offsets, dtype=np.int64) for p in parts])[order]
    timestamps = np.concatenate([np.array(p.timestamps, dtype=np.int64) for p in parts])[order]
    keys: list[bytes | None] = [k for p in parts for k in p.keys]
    values: list[bytes | None] = [v for p in parts for v in p.values]
    at = order.tolist()
    ranges = {}
    for i, part in enumerate(parts):
        mine = offsets[source == i]
        if mine.size:
            ranges[part.partition] = (int(mine[0]), int(mine[-1]) + 1, int(mine.size))
    return Batch(
        [p.partition for p in parts],
        source,
        offsets,
        timestamps,
        [keys[i] for i in at],
        [values[i] for i in at],
        ranges,
        parts,
    )
