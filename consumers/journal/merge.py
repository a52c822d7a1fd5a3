"""The order in which a shard processes the records of its partitions. Pure.

Order (version 1, `MERGE_VERSION` of the journal's identity): a k-way merge of the partitions by
(record timestamp, observation before label, topic, partition). Within a partition the order of
offsets is kept. The order is computed from the records only, so it does not depend on how polls
returned them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import chosen
from consumers.base.cells import joined as joined_cells
from consumers.base.records import UNBOUNDED, Batch, Fetched, FetchedColumns, Partition, credible

__all__ = ["Measure", "Merge"]


NO_CLOCK = 1 << 62  # accept every timestamp
_HELD = 2**20  # bytes of a fetch that few records may keep in memory
# The numbers of a buffered record. Rows and unpacked bytes are those of a measured message.
OFFSET, TIME, BYTES, ROWS, UNPACKED = range(5)

Measure = Callable[[bytes | None], tuple[int, int]]  # rows and unpacked bytes of a message
_Cells = tuple[Sequence[bytes | None], Sequence[bytes | None]]  # keys and values


class _Buffer:
    """The records of one partition that wait.

    Attributes
    ----------
    count, nbytes, unpacked : int
        Rows, bytes and unpacked bytes of all together.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.count = self.nbytes = self.unpacked = self._records = 0
        self._parts = deque[Fetched]()
        self._start = 0  # records of the first part that were removed
        self._held = self._left = 0  # bytes of the first part, and of its records that were not
        self._numbers = np.empty((5, 0), dtype=np.int64)
        self._added: list[NDArray[np.int64]] = []

    def __len__(self) -> int:
        return self._records

    @property
    def numbers(self) -> NDArray[np.int64]:
        """int64 (5, n): the numbers of each record."""
        if self._added:
            self._numbers = np.concatenate([self._numbers, *self._added], axis=1)
            self._added = []
        return self._numbers

    def add(self, part: Fetched, measure: Measure | None) -> None:
        """Add records at the end."""
        numbers = np.zeros((5, len(part)), dtype=np.int64)
        numbers[OFFSET], numbers[TIME], numbers[BYTES] = part.offsets, part.timestamps, part.sizes()
        numbers[ROWS] = 1
        if measure is not None:
            for k, (rows, unpacked) in enumerate(map(measure, part.values)):
                numbers[ROWS:, k] = max(rows, 1), unpacked
        self._added.append(numbers)
        self._count(numbers, 1)
        if part.held > max(_HELD, 4 * part.nbytes):
            part = part.compact()  # a few records of a large fetch
        self._parts.append(part)  # it is never changed: the caller may still have it
        if len(self._parts) == 1:
            self._first(part)

    def shift(self, count: int) -> list[_Cells]:
        """Remove the first `count` records. Returns their keys and values, in pieces."""
        numbers = self.numbers
        taken, self._numbers = numbers[:, :count], numbers[:, count:]
        nbytes = self._count(taken, -1)
        pieces = []
        while count:
            part, start = self._parts[0], self._start
            self._start = stop = min(start + count, len(part))
            pieces.append(part.cells(slice(start, stop)))
            count -= stop - start
            if stop < len(part):
                self._left -= nbytes
                if 2 * self._left < self._held:
                    self._first(part.split(stop)[1].compact())
                break
            nbytes -= self._left
            self._parts.popleft()
            self._first(self._parts[0] if self._parts else None)
        return pieces

    def _first(self, part: Fetched | None) -> None:
        """The first part, of which no record was removed yet."""
        self._start = self._held = self._left = 0
        if part is not None:
            self._parts[0], self._held, self._left = part, part.held, part.nbytes

    def _count(self, numbers: NDArray[np.int64], times: int) -> int:
        """Count records that were added or removed. Returns their bytes."""
        nbytes, count, unpacked = numbers[BYTES:].sum(axis=1).tolist()
        self.nbytes += times * nbytes
        self.count += times * count
        self._records += times * numbers.shape[1]
        self.unpacked += times * unpacked
        return int(nbytes)


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
        self._order = sorted(inputs, key=lambda p: (p.topic in labels, p.topic, p.number))
        self._max_bytes = max_bytes
        self._labels, self._measure = labels, measure
        self.seek({})

    def __len__(self) -> int:
        """The number of buffered records; of a message with rows each row counts."""
        return sum(buffer.count for buffer in self._buffers.values())

    @property
    def inputs(self) -> Sequence[Partition]:
        """Every input partition, in the order of the merge."""
        return self._order

    @property
    def nbytes(self) -> int:
        """Size of the records in all buffers, in bytes."""
        return sum(buffer.nbytes for buffer in self._buffers.values())

    @property
    def room(self) -> int:
        """Bytes that the next poll may return: half of the free space, at least one."""
        return max(1, (self._max_bytes - self.nbytes) // 2)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Empty the buffers. Each partition continues at its position."""
        self._next = dict(positions)
        self._buffers = {partition: _Buffer(partition) for partition in self._order}

    def add(self, fetched: Iterable[Fetched]) -> None:
        """Buffer polled records."""
        for part in filter(len, fetched):
            measure = None if part.partition.topic in self._labels else self._measure
            self._buffers[part.partition].add(part, measure)
            self._next[part.partition] = part.offsets[-1] + 1

    def position(self, partition: Partition) -> int:
        """The offset after the last buffered record of `partition`."""
        return self._next.get(partition, 0)

    def share(self, ends: Mapping[Partition, int]) -> int:
        """Half of the bytes of one partition, if all that are behind their ends have equally many.

        That is where the dynamic thresholds lead. But with many partitions the first ones would
        take nearly all space before the last ones have any, which hold the merge. A partition that
        has less may get as much again, hence half.
        """
        return max(1, self._max_bytes // (2 + 2 * len(self._lagging(ends))))

    def full(self, size: int = UNBOUNDED, nbytes: int = UNBOUNDED) -> list[Partition]:
        """Partitions with at least `size` buffered records or `nbytes`, or as many bytes as are
        free."""
        free = min(nbytes, self._max_bytes - self.nbytes)
        return [
            p
            for p, buffer in self._buffers.items()
            if buffer.count >= size or (len(buffer) and buffer.nbytes >= free)
        ]

    def short(self, count: int, ends: Mapping[Partition, int]) -> set[Partition]:
        """Partitions behind their ends that may hold back a merge of `count` records: they have
        fewer than an equal share of them. Empty if too few records are buffered."""
        if len(self) < count:
            return set()
        equal = count / len(self._order)
        return {p for p in self._lagging(ends) if self._buffers[p].count < equal}

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
        buffers = list(filter(len, self._buffers.values()))
        lagging = self._lagging(ends) if wait else set[Partition]()
        if not lagging.issubset(buffer.partition for buffer in buffers):
            return None  # an earlier record than all of these may still arrive
        heads, times = _heads(buffers, max_records, now, before)
        every = np.concatenate([np.empty(0, dtype=np.int64), *times])
        if not every.size:
            return None
        # In the order of the inputs, so that a stable sort by time is the order of the merge.
        order = np.argsort(every, kind="stable")
        n = min(order.size, max_records)
        if wait:
            n = min(n, _held(buffers, heads, order, lagging))
        numbers = np.concatenate(heads, axis=1)
        if n and self._measure is not None:
            grown = numbers[ROWS, order[:n]].cumsum()
            n = max(1, int(np.searchsorted(grown, max_records, side="right")))
        if n and sum(each.nbytes + each.unpacked for each in buffers) > max_bytes:
            grown = (numbers[BYTES] + numbers[UNPACKED])[order[:n]].cumsum()
            n = max(1, int(np.searchsorted(grown, max_bytes, side="right")))
        if n == 0:
            return None
        return _cut(buffers, heads, order[:n])

    def batches(
        self,
        chunks: Iterable[Iterable[Fetched]],
        size: Callable[[], int],
        *,
        ends: Mapping[Partition, int] | None = None,
        now: int = NO_CLOCK,
        max_bytes: int = UNBOUNDED,
        before: Mapping[Partition, int] | None = None,
    ) -> Iterator[Batch]:
        """Everything that is buffered and all of `chunks`, in order, in batches.

        A batch is taken as soon as there are enough records, and only then is more read.

        Parameters
        ----------
        chunks
            Polled records. The caller closes what reads them.
        size
            The most records of the next batch. A batch may have fewer, because of its bytes.
        ends, now, max_bytes, before
            See `take`. Without ends nothing waits for a partition: no chunk has an earlier record
            than those before it.
        """
        rest, left = iter(chunks), True
        while True:
            most, batch = size(), None
            if not left or len(self) >= most or self.nbytes >= max_bytes:
                batch = self.take(
                    most,
                    ends or {},
                    now=now,
                    wait=left and ends is not None,
                    max_bytes=max_bytes,
                    before=before,
                )
            if batch is not None:
                yield batch
            elif left:
                fetched = next(rest, None)
                left = fetched is not None
                self.add(fetched or ())
            else:
                return

    def _lagging(self, ends: Mapping[Partition, int]) -> set[Partition]:
        """Partitions that are behind their ends, or whose end is not known."""
        return {p for p in self._order if self._next.get(p, 0) < ends.get(p, 1 << 62)}


def _held(
    buffers: Sequence[_Buffer],
    heads: Sequence[NDArray[np.int64]],
    order: NDArray[np.int64],
    lagging: Collection[Partition],
) -> int:
    """How many of the ordered records no later arrival of these partitions can precede."""
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    limit, end = order.size, 0
    for buffer, head in zip(buffers, heads, strict=True):
        end += head.shape[1]
        # If more records of it are buffered, later arrivals come after those.
        if buffer.partition in lagging and head.shape[1] == len(buffer):
            limit = min(limit, int(place[end - 1]) + 1)
    return limit


def _heads(
    buffers: Sequence[_Buffer],
    count: int,
    now: int,
    before: Mapping[Partition, int] | None,
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]:
    """The numbers of the first records of each buffer, and the times by which they are merged.

    They contain the first `count` records of the merge. All others of these buffers come later than
    each of them.

    A record that is later than its successors in the partition delays them. So its time is the
    maximum of the timestamps up to it. A timestamp in the future is not used: that record has the
    time of the one before it. So one wrong clock cannot delay a partition behind all others.
    """
    heads = [buffer.numbers[:, :count] for buffer in buffers]
    if before is not None:
        limits = [before.get(buffer.partition, 0) for buffer in buffers]
        heads = [
            head[:, : np.searchsorted(head[OFFSET], limit)]
            for head, limit in zip(heads, limits, strict=True)
        ]
    times = [np.maximum.accumulate(credible(head[TIME], now)) for head in heads]
    if sum(head.shape[1] for head in heads) > count:
        last = np.partition(np.concatenate(times), count - 1)[count - 1]
        times = [each[: np.searchsorted(each, last, side="right")] for each in times]
        heads = [head[:, : each.size] for head, each in zip(heads, times, strict=True)]
    return heads, times


def _cut(
    buffers: Sequence[_Buffer], heads: Sequence[NDArray[np.int64]], order: NDArray[np.int64]
) -> Batch:
    """A batch of records in `order` of the joined heads, removed from the buffers.

    They are the first ones of each head.
    """
    sizes = np.array([head.shape[1] for head in heads], dtype=np.int64)
    source = np.repeat(np.arange(sizes.size), sizes)[order]
    counts = np.bincount(source, minlength=sizes.size)
    # The places of the records after those of earlier buffers that are taken too.
    skipped = (sizes.cumsum() - sizes) - (counts.cumsum() - counts)
    at = np.asarray(order - skipped[source], dtype=np.int64)
    taken = np.flatnonzero(counts).tolist()
    numbers = np.concatenate([heads[i][:, : counts[i]] for i in taken], axis=1)
    pieces = [piece for i in taken for piece in buffers[i].shift(int(counts[i]))]
    parts = FetchedColumns(
        [buffers[i].partition for i in taken],
        np.concatenate([[0], counts[taken].cumsum()]),
        numbers[OFFSET],
        numbers[TIME],
        *(joined_cells(cells) for cells in zip(*pieces, strict=True)),
    )
    return Batch(
        list(parts.partitions),
        (np.cumsum(counts > 0) - 1)[source],
        parts.offsets[at],
        parts.timestamps[at],
        chosen(parts.keys, at),
        chosen(parts.values, at),
        parts.ranges(),
        parts,
    )
