"""What flows: records as columns. One-record values exist only at the edges."""

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
    "Uncommitted",
    "credible",
    "record_bytes",
]

CLOCK_SLACK_MS = 60_000  # how far a record's timestamp may run ahead of the wall clock
NEVER = -(1 << 63)
UNBOUNDED = 1 << 62  # bytes or records: no bound
RECORD_BYTES = 128  # a record takes besides key and value: objects, and places in four lists

Header = tuple[str, bytes]


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


class Topic(NamedTuple):
    """What a log says of a topic.

    `id` is another one for each topic that is made, also under a name that was used before, and ""
    where the log has no ids. `epochs` counts the elections of each partition's leader.
    """

    partitions: int
    id: str = ""
    epochs: tuple[int, ...] = ()


class Uncommitted(NamedTuple):
    """What transactions that are still open keep from a partition's readers."""

    offset: int  # the last stable one: readers of committed records stop here
    records: int  # from there to the high watermark
    seconds: float  # since it was first seen to stand there


class Record(NamedTuple):
    """One record as `tail`, the journal reader and the tests see it. `timestamp` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Outgoing(NamedTuple):
    """One record to be written. `partition` None: by the key, round robin without one."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


@dataclass(slots=True)
class Fetched:
    """Consecutive records of one partition, as a transport yields them.

    Parameters
    ----------
    partition
        Where they come from.
    offsets, timestamps
        One a record; offsets rise and may have gaps.
    keys, values
        One a record; None where the record has none.
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
        """Bytes of its records: what every bound on records in memory counts."""
        cells = sum(map(len, filter(None, self.keys))) + sum(map(len, filter(None, self.values)))
        return cells + RECORD_BYTES * len(self)

    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each record."""
        pairs = zip(self.keys, self.values, strict=True)
        return np.fromiter((record_bytes(k, v) for k, v in pairs), np.int64, len(self))

    def within(self, max_bytes: int) -> int:
        """How many of its first records have at most `max_bytes` together; one at least."""
        if self.nbytes <= max_bytes:
            return len(self)
        return max(1, int(np.searchsorted(self.sizes().cumsum(), max_bytes, side="right")))

    def head(self, count: int) -> Fetched:
        """The first `count` records, or all of them."""
        if count >= len(self):
            return self
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        return Fetched(self.partition, *(column[:count] for column in columns))  # type: ignore[arg-type]

    def shift(self, count: int) -> Fetched:
        """The first `count` records, removed from here."""
        columns = (self.offsets, self.timestamps, self.keys, self.values)
        out = Fetched(self.partition, *(column[:count] for column in columns))  # type: ignore[arg-type]
        for column in columns:
            del column[:count]
        return out


@dataclass(slots=True)
class Batch:
    """Records of several partitions in processing order, for one journal entry.

    Parameters
    ----------
    partitions
        The partitions that occur.
    source
        int64, (n,): index into `partitions`.
    offsets, timestamps
        int64, (n,).
    keys, values
        One a record.
    ranges
        Partition to (first offset, offset after the last, count), for every partition that moved.
    parts
        The same records by partition, where they were merged from.
    """

    partitions: list[Partition]
    source: NDArray[np.int64]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    ranges: dict[Partition, tuple[int, int, int]] = field(default_factory=dict)
    parts: Sequence[Fetched] = ()

    def __len__(self) -> int:
        return len(self.values)

    def place(self, i: int) -> tuple[Partition, int]:
        """Where record `i` lies: its partition and offset."""
        return self.partitions[self.source[i]], int(self.offsets[i])


def credible(timestamps: NDArray[np.int64], now: int) -> NDArray[np.int64]:
    """The timestamps, those more than a minute ahead of the clock `now` replaced by `NEVER`."""
    return np.where(timestamps > now + CLOCK_SLACK_MS, NEVER, timestamps)


def record_bytes(key: bytes | None, value: bytes | None) -> int:
    """Bytes of one record: key, value and the objects that hold them."""
    return len(key or b"") + len(value or b"") + RECORD_BYTES
