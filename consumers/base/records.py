"""Records as columns. Single records as values exist only at the edges of the service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NEVER",
    "RECORD_BYTES",
    "UNBOUNDED",
    "Batch",
    "Fetched",
    "Header",
    "Outgoing",
    "Partition",
    "Record",
    "Topic",
    "TopicSettings",
    "Uncommitted",
    "credible",
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


@dataclass(slots=True)
class Fetched:
    """Consecutive records of one partition, as a transport returns them.

    Parameters
    ----------
    partition
        The source of the records.
    offsets, timestamps
        One per record. Offsets increase and may have gaps.
    keys, values
        One per record. None if the record has no key or value.
    """

    partition: Partition
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Size of the records in bytes. Every bound on records in memory counts this size."""
        cells = sum(map(len, filter(None, self.keys))) + sum(map(len, filter(None, self.values)))
        return cells + RECORD_BYTES * len(self)

    def sizes(self) -> NDArray[np.int64]:
        """Size of each record in bytes."""
        pairs = zip(self.keys, self.values, strict=True)
        return np.fromiter((record_bytes(k, v) for k, v in pairs), np.int64, len(self))

    def within(self, max_bytes: int) -> int:
        """How many of the first records fit into `max_bytes` together, at least one."""
        if self.nbytes <= max_bytes:
            return len(self)
        return max(1, int(np.searchsorted(self.sizes().cumsum(), max_bytes, side="right")))

    def head(self, count: int) -> Fetched:
        """The first `count` records, or all."""
        if count >= len(self):
            return self
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        return Fetched(self.partition, *(column[:count] for column in columns))  # type: ignore[arg-type]

    def shift(self, count: int) -> Fetched:
        """Remove and return the first `count` records."""
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        out = Fetched(self.partition, *(column[:count] for column in columns))  # type: ignore[arg-type]
        for column in columns:
            del column[:count]
        return out


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
    parts: Sequence[Fetched] = ()
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

    def rows(self, records: Sequence[int]) -> list[int | None]:
        """`row` of each of these records."""
        if self.index is None:
            return [None] * len(records)
        chosen: list[int] = self.index[np.array(records, dtype=np.int64)].tolist()
        return [None if row < 0 else row for row in chosen]

    def place(self, i: int) -> tuple[Partition, int]:
        """The partition and offset of record `i`."""
        return self.partitions[self.source[i]], int(self.offsets[i])


def credible(timestamps: NDArray[np.int64], now: int) -> NDArray[np.int64]:
    """The timestamps. Those more than a minute ahead of the clock `now` become `NEVER`."""
    return np.where(timestamps > now + CLOCK_SLACK_MS, NEVER, timestamps)


def record_bytes(key: bytes | None, value: bytes | None) -> int:
    """Size of one record in bytes: key, value and the objects that hold them."""
    return len(key or b"") + len(value or b"") + RECORD_BYTES
