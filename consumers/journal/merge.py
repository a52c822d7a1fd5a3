"""The order in which a shard processes the records of its partitions. Pure.

Order (version 1, `MERGE_VERSION` of the journal's identity): a k-way merge of the partitions by
(record timestamp, observation before label, topic, partition). Within a partition the order of
offsets is kept. The order is computed from the records only, so it does not depend on how polls
returned them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition, credible

__all__ = ["NO_CLOCK", "Measure", "Merge", "batch_of", "merge"]


NO_CLOCK = 1 << 62  # accept every timestamp

Measure = Callable[[bytes | None], tuple[int, int]]  # rows and unpacked bytes of a message


class Merge:
    """Buffers of polled records, merged into one order.

    Parameters
    ----------
    inputs
        Every input partition.
    labels
        Topics of labels. Labels follow observations of the same timestamp.
    max_bytes
        Bytes of records (see `Fetched.nbytes`) in all buffers together.
    measure
        Counts rows and unpacked bytes of a message, which count instead of the message and beside
        its bytes when a batch is cut. None: a message is one record.

    Notes
    -----
    Free space is shared by the dynamic thresholds of Choudhury and Hahne: a buffer is full when it
    holds as many bytes as are free. So one partition alone gets half of the space, n busy
    partitions get 1 / (n + 1) each, and a lagging partition always finds space. An empty buffer is
    never full, because the merge may wait for its next record and would wait for ever. Therefore
    all buffers together exceed the bound by at most one record per partition.
    """

    def __init__(
        self,
        inputs: Sequence[Partition],
        labels: Collection[str],
        max_bytes: int = UNBOUNDED,
        measure: Measure | None = None,
    ) -> None:
        order = sorted(inputs, key=lambda p: (p.topic in labels, p.topic, p.number))
        self._rank = {partition: rank for rank, partition in enumerate(order)}
        self._order = order
        self._max_bytes = max_bytes
        self._labels, self._measure = labels, measure
        self.seek({})

    def __len__(self) -> int:
        """The number of buffered records; of a message with rows each row counts."""
        return sum(self._count(p) for p in self._order)

    def _count(self, partition: Partition) -> int:
        rows = self._rows.get(partition)
        return len(self._buffers[partition]) if rows is None else sum(rows)

    @property
    def nbytes(self) -> int:
        """Size of the records in all buffers, in bytes."""
        return sum(self._sizes.values())

    @property
    def room(self) -> int:
        """Bytes that the next poll may return: half of the free space, at least one."""
        return max(1, (self._max_bytes - self.nbytes) // 2)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Empty the buffers. Each partition continues at its position."""
        self._next = dict(positions)
        self._buffers = {partition: Fetched(partition, [], [], [], []) for partition in self._order}
        self._sizes = dict.fromkeys(self._order, 0)
        # Of each message of observations its rows, at least one, and its bytes when unpacked.
        measured = () if self._measure is None else self._order
        self._rows = {p: list[int]() for p in measured if p.topic not in self._labels}
        self._unpacked = {p: list[int]() for p in self._rows}

    def add(self, fetched: Iterable[Fetched]) -> None:
        """Buffer polled records."""
        for part in fetched:
            buffer = self._buffers[part.partition]
            buffer.offsets += part.offsets
            buffer.timestamps += part.timestamps
            buffer.keys += part.keys
            buffer.values += part.values
            self._sizes[part.partition] += part.nbytes
            if self._measure is not None and part.partition in self._rows:
                for rows, unpacked in map(self._measure, part.values):
                    self._rows[part.partition].append(max(rows, 1))
                    self._unpacked[part.partition].append(unpacked)
            if part.offsets:
                self._next[part.partition] = part.offsets[-1] + 1

    def position(self, partition: Partition) -> int:
        """The offset after the last buffered record of `partition`."""
        return self._next.get(partition, 0)

    def full(self, size: int = UNBOUNDED) -> list[Partition]:
        """Partitions with at least `size` buffered records, or as many bytes as are free."""
        free = self._max_bytes - self.nbytes
        return [
            p
            for p, buffer in self._buffers.items()
            if self._count(p) >= size or (buffer.offsets and self._sizes[p] >= free)
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
        """Remove and return the next records in order. None if no record may be taken.

        Parameters
        ----------
        max_records
            At most this many records. A message with more rows is returned alone.
        ends
            Known end of each partition. A partition that is behind its end, or whose end is not
            known, holds the merge at its last buffered record: an earlier record may still arrive.
        now
            The wall clock in ms for the journal record. Without a clock every timestamp is
            accepted.
        wait
            False: take buffered records without waiting, because a partition delayed the others
            for too long.
        max_bytes
            At most this many bytes. A larger record is returned alone.
        before
            Take only records before these offsets, of these partitions. None: all.
        """
        parts = self._heads(max_records, before)
        if not parts:
            return None
        order, source = merge(parts, [self._rank[b.partition] for b in parts], now)
        n = min(order.size, max_records)
        if wait:
            n = min(n, self._held(parts, order, source, ends))
        if n and self._rows:
            grown = self._weights(parts, self._rows, 1)[order[:n]].cumsum()
            n = max(1, int(np.searchsorted(grown, max_records, side="right")))
        if n and self.nbytes + sum(map(sum, self._unpacked.values())) > max_bytes:
            sizes = np.concatenate([b.sizes() for b in parts])
            grown = (sizes + self._weights(parts, self._unpacked, 0))[order[:n]].cumsum()
            n = max(1, int(np.searchsorted(grown, max_bytes, side="right")))
        if n == 0:
            return None
        return self._cut(parts, source[order[:n]])

    def _weights(
        self, parts: list[Fetched], of: Mapping[Partition, list[int]], otherwise: int
    ) -> NDArray[np.int64]:
        """A number for each record of the parts, `otherwise` where messages are not measured."""
        each = (of.get(b.partition, [otherwise] * len(b))[: len(b)] for b in parts)
        return np.concatenate([np.array(numbers, dtype=np.int64) for numbers in each])

    def _heads(self, count: int, before: Mapping[Partition, int] | None) -> list[Fetched]:
        """The records of each buffer that may be taken.

        At most `count` records of one partition can be among the first `count`, so only these
        are sorted.
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
        """How many of the ordered records no later arrival can precede."""
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
        """A batch of the next records of these parts, removed from the buffers."""
        counts = np.bincount(source, minlength=len(parts)).tolist()
        taken = [self._buffers[p.partition].shift(k) for p, k in zip(parts, counts, strict=True)]
        for part in taken:
            self._sizes[part.partition] -= part.nbytes
            for measured in (self._rows, self._unpacked):
                del measured.get(part.partition, [])[: len(part)]
        order = np.empty(source.size, dtype=np.int64)
        order[np.argsort(source, kind="stable")] = np.arange(source.size)
        return batch_of(taken, order, source)


def merge(
    parts: Sequence[Fetched], rank: Sequence[int], now: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of the concatenated records, and the part of each.

    A record that is later than its successors in the partition delays them. So a record is sorted
    by the maximum of the timestamps up to it. The sort is stable, so offsets keep their order. A
    timestamp in the future is not used: that record is sorted with the one before it. So one wrong
    clock cannot delay a partition behind all others.
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
    """The records in `order` of the concatenated parts; `source` is the part of each."""
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
