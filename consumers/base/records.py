"""Records as columns. Single records as values exist only at the edges of the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, Numbers, joined_numbers
from consumers.base.cells import joined as joined_cells
from consumers.base.cells import lengths as lengths_of

__all__ = [
    "NEVER",
    "RECORD_BYTES",
    "UNBOUNDED",
    "Batch",
    "Fetched",
    "FetchedColumns",
    "Header",
    "Outgoing",
    "OutgoingColumns",
    "Partition",
    "Record",
    "Topic",
    "TopicSettings",
    "TransactionRules",
    "Uncommitted",
    "credible",
    "followed_by",
    "joined",
    "ranges_of",
    "record_bytes",
]

CLOCK_SLACK_MS = 60_000  # how far a record's timestamp may run ahead of the wall clock
NEVER = -(1 << 63)
UNBOUNDED = 1 << 62  # bytes or records: no bound
RECORD_BYTES = 128  # memory of a record in addition to key and value: objects, four list items

Header = tuple[str, bytes]


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Topic(NamedTuple):
    """What a log reports about a topic.

    `id` is unique for each created topic, also when a topic is recreated under the same name. It is
    "" if the log has no ids. `epochs` counts the leader elections of each partition.
    """

    partitions: int
    id: str = ""
    epochs: tuple[int, ...] = ()


class TopicSettings(NamedTuple):
    """How long a log keeps the records of a topic, and on how many machines.

    `retention_ms` and `retention_bytes` are -1 without a limit. `compacted`: whether it keeps
    only the newest record of each key.
    """

    retention_ms: int
    retention_bytes: int
    compacted: bool
    replicas: int


class TransactionRules(NamedTuple):
    """What a broker knows of the transaction that a request belongs to (KIP-890).

    `verified`: it refuses a record that is in no open transaction. `version` is the level of
    `transaction.version`: from 2 on, each transaction of a client that speaks its protocol has an
    epoch of its own, so no late request of an earlier one acts on it. 0 if it is not reported.
    """

    verified: bool
    version: int


class Uncommitted(NamedTuple):
    """The records of a partition that open transactions hide from readers of committed records."""

    offset: int  # the last stable offset: readers of committed records stop here
    records: int  # from that offset to the high watermark
    seconds: float  # since the offset was first seen there


class Record(NamedTuple):
    """One record for `tail`, the journal reader and the tests. `timestamp` is in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Outgoing(NamedTuple):
    """One record to write. `partition` None: chosen by the key, or round robin without a key."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class OutgoingColumns(Sequence[Outgoing]):
    """Records of one topic as columns, without headers, and any others after them.

    A transport may write the columns. As a sequence it makes each record when it is asked for.

    Parameters
    ----------
    topic
        Their topic.
    data
        uint8: key and value of each record, one after the other.
    starts, lengths
        int64, (n,) and (n, 2): where the key of each begins; bytes of key and value. No record
        lacks one.
    timestamps, partitions
        int64, (n,).
    rest
        The records after them.
    """

    topic: str
    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    partitions: NDArray[np.int64]
    rest: Sequence[Outgoing] = ()

    def __len__(self) -> int:
        return len(self.lengths) + len(self.rest)

    @overload
    def __getitem__(self, at: int) -> Outgoing: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outgoing]: ...
    def __getitem__(self, at: int | slice) -> Outgoing | list[Outgoing]:
        n = len(self.lengths)
        if isinstance(at, slice):
            first, stop, step = at.indices(len(self))
            if step != 1:
                return [self[i] for i in range(first, stop, step)]
            others = self.rest[max(first - n, 0) : max(stop - n, 0)]
            return [*self._made(slice(min(first, n), min(stop, n))), *others]
        i = range(len(self))[at]
        return self.rest[i - n] if i >= n else next(self._made(slice(i, i + 1)))

    def __iter__(self) -> Iterator[Outgoing]:
        yield from self._made(slice(None))
        yield from self.rest

    def _made(self, chosen: slice) -> Iterator[Outgoing]:
        """Some of the records of the columns."""
        columns = (self.timestamps[chosen].tolist(), self.partitions[chosen].tolist())
        for key, value, timestamp, number in zip(*self.cells(chosen), *columns, strict=True):
            yield Outgoing(self.topic, key, value, timestamp, (), number)

    def cells(self, chosen: slice = slice(None)) -> tuple[list[bytes | None], list[bytes | None]]:
        """Keys and values of the records of the columns, or of some of them."""
        starts, lengths = self.starts[chosen], self.lengths[chosen]
        middles = starts + lengths[:, 0]
        ends = middles + lengths[:, 1]
        first, last = (int(starts[0]), int(ends[-1])) if starts.size else (0, 0)
        data = self.data[first:last].tobytes()
        a, b, c = ((at - first).tolist() for at in (starts, middles, ends))
        keys: list[bytes | None] = [data[i:j] for i, j in zip(a, b, strict=True)]
        return keys, [data[i:j] for i, j in zip(b, c, strict=True)]

    def by_partition(self) -> list[tuple[int, OutgoingColumns]]:
        """The records of the columns by partition, in the order of the first record of each."""
        numbers, first, counts = np.unique(self.partitions, return_index=True, return_counts=True)
        if numbers.size == 1:
            return [(int(numbers[0]), replace(self, rest=()))]
        order = np.argsort(self.partitions, kind="stable")
        columns = [
            column[order]
            for column in (self.starts, self.lengths, self.timestamps, self.partitions)
        ]
        ends = counts.cumsum()
        some = [slice(end - n, end) for end, n in zip(ends.tolist(), counts.tolist(), strict=True)]
        return [
            (
                int(numbers[i]),
                OutgoingColumns(self.topic, self.data, *(column[some[i]] for column in columns)),
            )
            for i in np.argsort(first).tolist()
        ]


class _Sized:
    """A slot for computed sizes. It is not a field, so they are not encoded with the records."""

    __slots__ = ("_sizes",)
    _sizes: NDArray[np.int64] | None

    def _keep(self, sizes: NDArray[np.int64] | None) -> None:
        self._sizes = sizes


@dataclass(slots=True)
class Fetched(_Sized):
    """Consecutive records of one partition, as a transport returns them.

    Parameters
    ----------
    partition
        The source of the records.
    offsets, timestamps
        One per record, as a list or `Numbers`. Offsets increase and may have gaps.
    keys, values
        One per record, as a list or `ByteCells`. None if the record has no key or value.
    """

    partition: Partition
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]

    def __post_init__(self) -> None:
        self._keep(None)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Size of the records in bytes. Every bound on records in memory counts this size."""
        return int(self.sizes().sum())

    @property
    def held(self) -> int:
        """Size in bytes with all that its cells keep in memory."""
        keys, values = self.keys, self.values
        if not (isinstance(keys, ByteCells) and isinstance(values, ByteCells)):
            return self.nbytes
        size = len(self) * RECORD_BYTES + values.data.size
        return size if keys.data is values.data else size + keys.data.size

    def sizes(self) -> NDArray[np.int64]:
        """Size of each record in bytes."""
        sizes = self._sizes
        if sizes is None:
            sizes = np.full(len(self), RECORD_BYTES, dtype=np.int64)
            for cells in (self.keys, self.values):
                sizes += lengths_of(cells)
            self._keep(sizes)
        return sizes

    def within(self, max_bytes: int) -> int:
        """How many of the first records fit into `max_bytes` together, at least one."""
        if self.nbytes <= max_bytes:
            return len(self)
        return max(1, int(np.searchsorted(self.sizes().cumsum(), max_bytes, side="right")))

    def head(self, count: int) -> Fetched:
        """The first `count` records, or all."""
        if count >= len(self):
            return self
        return self._part(slice(count))

    def shift(self, count: int) -> Fetched:
        """Remove and return the first `count` records."""
        out, rest = self.split(count)
        self.offsets, self.timestamps = rest.offsets, rest.timestamps
        self.keys, self.values = rest.keys, rest.values
        self._keep(rest.sizes())
        return out

    def split(self, count: int) -> tuple[Fetched, Fetched]:
        """The first `count` records, and the rest."""
        return self._part(slice(count)), self._part(slice(count, None))

    def cells(self, some: slice) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
        """Keys and values of some of the records."""
        if some == slice(0, len(self)):
            return self.keys, self.values
        return self.keys[some], self.values[some]

    def compact(self) -> Fetched:
        """The same records; they hold at most about twice the bytes that they have."""
        keys, values = (
            cells.compact() if isinstance(cells, ByteCells) else cells
            for cells in (self.keys, self.values)
        )
        out = Fetched(self.partition, self.offsets, self.timestamps, keys, values)
        out._keep(self._sizes)
        return out

    def as_lists(self) -> Fetched:
        """The same records in lists."""
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        return Fetched(self.partition, *map(list, columns))  # type: ignore[arg-type]

    def _part(self, some: slice) -> Fetched:
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        out = Fetched(self.partition, *(column[some] for column in columns))  # type: ignore[arg-type]
        out._keep(self.sizes()[some])
        return out


class FetchedColumns(Sequence[Fetched]):
    """The records of each partition, in the order of their offsets. A sequence of `Fetched`.

    Parameters
    ----------
    partitions
        Each has at least one record.
    bounds
        int64, (partitions + 1,): where the records of each start, and the end of the last.
    offsets, timestamps
        int64, (n,).
    keys, values
        One per record.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        bounds: NDArray[np.int64],
        offsets: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
    ) -> None:
        self.partitions, self.bounds = partitions, bounds
        self.offsets, self.timestamps = offsets, timestamps
        self.keys, self.values = keys, values

    @classmethod
    def of(cls, parts: Sequence[Fetched]) -> FetchedColumns:
        """The records of the parts that have any."""
        some = [part for part in parts if len(part)]
        counts = np.array([0, *map(len, some)], dtype=np.int64)
        offsets, times = (
            np.concatenate([np.empty(0, dtype=np.int64), *columns])
            for columns in ([part.offsets for part in some], [part.timestamps for part in some])
        )
        return cls(
            [part.partition for part in some],
            counts.cumsum(),
            offsets,
            times,
            joined_cells([part.keys for part in some]),
            joined_cells([part.values for part in some]),
        )

    def __len__(self) -> int:
        return len(self.partitions)

    @overload
    def __getitem__(self, at: int) -> Fetched: ...
    @overload
    def __getitem__(self, at: slice) -> list[Fetched]: ...
    def __getitem__(self, at: int | slice) -> Fetched | list[Fetched]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        i = range(len(self))[at]
        some = slice(int(self.bounds[i]), int(self.bounds[i + 1]))
        return Fetched(
            self.partitions[i],
            Numbers(self.offsets[some]),
            Numbers(self.timestamps[some]),
            self.keys[some],
            self.values[some],
        )

    def __iter__(self) -> Iterator[Fetched]:
        return (self[i] for i in range(len(self)))

    def ranges(self) -> dict[Partition, tuple[int, int, int]]:
        """First offset, offset after the last, and number of the records of each partition."""
        starts, stops = self.bounds[:-1], self.bounds[1:]
        columns = (self.offsets[starts], self.offsets[stops - 1] + 1, stops - starts)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(self.partitions, rows, strict=True))


@dataclass(slots=True)
class Batch:
    """Records of several partitions in processing order, for one journal record.

    Parameters
    ----------
    partitions
        The partitions that occur.
    source
        int64, (n,): index into `partitions`.
    offsets, timestamps
        int64, (n,).
    keys, values
        One per record.
    ranges
        Partition to (first offset, offset after the last, count), for every partition that moved.
    parts
        The same records by partition, before they were merged.
    index
        int64, (n,): which row of its message a record is, -1 if it is a whole message. None: all
        are. `ranges` and `parts` are always those of the messages.
    """

    partitions: list[Partition]
    source: NDArray[np.int64]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    ranges: dict[Partition, tuple[int, int, int]] = field(default_factory=dict)
    parts: FetchedColumns = field(default_factory=lambda: FetchedColumns.of([]))
    index: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def messages(self) -> int:
        """How many records of the log it has."""
        return sum(count for _, _, count in self.ranges.values())

    def row(self, i: int) -> int | None:
        """Which row of its message record `i` is; None if it is a whole message."""
        return None if self.index is None or self.index[i] < 0 else int(self.index[i])

    def rows(self, records: NDArray[np.int64]) -> list[int | None]:
        """`row` of each of these records."""
        if self.index is None:
            return [None] * len(records)
        chosen: list[int] = self.index[records].tolist()
        return [None if row < 0 else row for row in chosen]

    def place(self, i: int) -> tuple[Partition, int]:
        """The partition and offset of record `i`."""
        return self.partitions[self.source[i]], int(self.offsets[i])


def joined(partition: Partition, parts: Sequence[Fetched]) -> Fetched:
    """The records of all parts of a partition, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Fetched(partition, [], [], [], [])
    out = Fetched(
        partition,
        joined_numbers([part.offsets for part in parts]),
        joined_numbers([part.timestamps for part in parts]),
        joined_cells([part.keys for part in parts]),
        joined_cells([part.values for part in parts]),
    )
    out._keep(np.concatenate([part.sizes() for part in parts]))
    return out


def followed_by(records: Sequence[Outgoing], rest: Sequence[Outgoing]) -> Sequence[Outgoing]:
    """These records, and the rest after them. Columns remain columns."""
    if isinstance(records, OutgoingColumns):
        return replace(records, rest=[*records.rest, *rest]) if rest else records
    return [*records, *rest]


def credible(timestamps: NDArray[np.int64], now: int) -> NDArray[np.int64]:
    """The timestamps. Those more than a minute ahead of the clock `now` become `NEVER`."""
    return np.where(timestamps > now + CLOCK_SLACK_MS, NEVER, timestamps)


def ranges_of(
    partitions: Sequence[Partition], source: NDArray[np.int64], offsets: NDArray[np.int64]
) -> dict[Partition, tuple[int, int, int]]:
    """`Batch.ranges` of records in order."""
    out = {}
    for i, partition in enumerate(partitions):
        mine = offsets[source == i]
        if mine.size:
            out[partition] = (int(mine[0]), int(mine[-1]) + 1, int(mine.size))
    return out


def record_bytes(key: bytes | None, value: bytes | None) -> int:
    """Size of one record in bytes: key, value and the objects that hold them."""
    return len(key or b"") + len(value or b"") + RECORD_BYTES
