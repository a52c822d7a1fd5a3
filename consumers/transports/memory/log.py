"""A log in this process. It has the guarantees of the others, and ends with the process.

For tests and notebooks: it keeps every record, so it is bounded only by the memory of the process.
All `MemoryLog` of one name share one store. Every access holds the lock of the store.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from threading import Condition, Lock
from uuid import uuid4

from consumers.base.errors import RESTART, FencedError
from consumers.base.records import (
    UNBOUNDED,
    Fetched,
    Outgoing,
    Partition,
    Record,
    Topic,
)
from consumers.transports.fetching import Fetch, FetchingLog, FetchingOwner, Poller
from consumers.transports.placement import Placement, no_such_partition, no_such_topic
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["MemoryLog", "MemoryOwner"]


class _Store:
    """Topics, offsets and epochs. The caller of `records` and `write` holds `changed`."""

    def __init__(self, name: str) -> None:
        self.url = f"memory:{name}"
        self.changed = Condition()
        self.topics: dict[str, list[list[Record]]] = {}
        self.ids: dict[str, str] = {}
        self.offsets: dict[tuple[str, Partition], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        self.placement = Placement()

    def records(self, partition: Partition) -> list[Record]:
        topic = self.topics.get(partition.topic)
        if topic is None:
            raise no_such_topic(partition.topic, self.url)
        if not 0 <= partition.number < len(topic):
            raise no_such_partition(partition.topic, partition.number, len(topic))
        return topic[partition.number]

    def fetch(self, partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        """See `fetching.Fetch`."""
        chunk = self.fetch_records(partition, start, limit, max_bytes)
        if not chunk:
            return None
        found = Fetched(
            partition,
            [record.offset for record in chunk],
            [record.timestamp for record in chunk],
            [record.key for record in chunk],
            [record.value for record in chunk],
        )
        return found.head(found.within(max_bytes))

    def fetch_records(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> Sequence[Record]:
        """At most `limit` records from `start` on, of any size."""
        with self.changed:
            return self.records(partition)[start : start + limit]

    def write(self, records: Sequence[Outgoing], now: int) -> list[tuple[int, int]]:
        """Write all records or none. Returns partition and offset of each."""
        placed = []
        for record in records:  # look up every topic before anything is written
            topic = self.topics.get(record.topic)
            if topic is None:
                raise no_such_topic(record.topic, self.url)
            number = self.placement.choose(record, len(topic))
            placed.append((record, number, topic[number]))
        places = []
        for record, number, kept in placed:
            offset = len(kept)
            places.append((number, offset))
            timestamp = now if record.timestamp is None else record.timestamp
            value, headers = record.value, tuple(record.headers)
            kept.append(Record(record.topic, number, offset, timestamp, record.key, value, headers))
        self.changed.notify_all()
        return places


_stores: dict[str, _Store] = {}
_stores_lock = Lock()


class MemoryLog(FetchingLog):
    """The log of this name in this process.

    Parameters
    ----------
    name
        Logs of the same name are the same log.
    key_headers
        See `open_log`.
    """

    def __init__(self, name: str, key_headers: KeyHeaders = NO_KEY_HEADERS) -> None:
        with _stores_lock:
            self._store = _stores.setdefault(name, _Store(name))
        super().__init__(self._store, key_headers)

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions."""
        with self._store.changed:
            return {topic: len(kept) for topic, kept in sorted(self._store.topics.items())}

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """Number of partitions and id of these topics, of those that exist."""
        with self._store.changed:
            kept, ids = self._store.topics, self._store.ids
            return {topic: Topic(len(kept[topic]), ids[topic]) for topic in topics if topic in kept}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic. Nothing happens if it exists."""
        with self._store.changed:
            if topic not in self._store.topics:
                self._store.topics[topic] = [[] for _ in range(partitions)]
                self._store.ids[topic] = uuid4().hex

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last record of each."""
        with self._store.changed:
            return {partition: len(self._store.records(partition)) for partition in partitions}

    def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset of each whose record is at or after `timestamp` (ms), or its end."""
        found = {}
        with self._store.changed:
            for partition in partitions:
                kept = self._store.records(partition)
                later = (record.offset for record in kept if record.timestamp >= timestamp)
                found[partition] = next(later, len(kept))
        return found

    def _rest(self, seconds: float) -> None:
        with self._store.changed:
            self._store.changed.wait(seconds)

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write all of the records or none. Returns partition and offset of each."""
        with self._store.changed:
            return self._store.write(records, _now())

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> MemoryOwner:
        """Become the owner of a shard, and fence the previous one."""
        with self._store.changed:
            for partition in inputs:
                self._store.records(partition)
            epoch = self._store.epochs.get((name, shard), 0) + 1
            self._store.epochs[name, shard] = epoch
        return MemoryOwner(self._store, name, shard, epoch, inputs, self._fetch)

    def committed(self, name: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The committed offsets of a service's group, for partitions that have one."""
        with self._store.changed:
            offsets = self._store.offsets
            return {p: offsets[name, p] for p in partitions if (name, p) in offsets}

    def close(self) -> None:
        """Nothing to release: the records stay until the process ends."""


class MemoryOwner(FetchingOwner):
    """The owner of a shard, created by `MemoryLog.owner`."""

    fenced = ""  # there are no other processes

    def __init__(
        self,
        store: _Store,
        name: str,
        shard: int,
        epoch: int,
        inputs: Sequence[Partition],
        fetch: Fetch,
    ) -> None:
        self._store = store
        self._name = name
        self._shard = shard
        self._epoch = epoch
        self._inputs = inputs
        super().__init__(Poller(inputs, fetch, lambda: None))

    def poll(
        self,
        *,
        max_records: int,
        timeout: float,
        skip: Collection[Partition] = (),
        max_bytes: int = UNBOUNDED,
        each: int = UNBOUNDED,
    ) -> list[Fetched]:
        """Records from the inputs except `skip`; empty if none arrived within `timeout`."""
        fetched: list[Fetched] = []

        def took() -> bool:
            fetched.extend(self._poller.take(max_records, max_bytes, skip, each))
            return bool(fetched)

        with self._store.changed:
            self._store.changed.wait_for(took, timeout)
        return fetched

    def ends(self) -> dict[Partition, int]:
        """The end of each input."""
        with self._store.changed:
            return {partition: len(self._store.records(partition)) for partition in self._inputs}

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, journal record and offsets, all or none. Returns the journal offset."""
        with self._store.changed:
            self.confirm(positions)
            _, offset = self._store.write([*records, journal], _now())[-1]
            for partition, position in positions.items():
                self._store.offsets[self._name, partition] = position
        return offset

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Raise FencedError if another owner has taken over."""
        if self._store.epochs[self._name, self._shard] != self._epoch:
            raise FencedError(
                f"expected to own shard {self._shard} of {self._name!r}, but another owner has "
                f"taken it over, and nothing was written; {RESTART}"
            )

    def overtaken(self) -> bool:
        """Whether another owner has taken over since."""
        with self._store.changed:
            return self._store.epochs[self._name, self._shard] != self._epoch

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets, for inputs that have one."""
        with self._store.changed:
            return {
                partition: self._store.offsets[self._name, partition]
                for partition in self._inputs
                if (self._name, partition) in self._store.offsets
            }

    def close(self) -> None:
        """Nothing to release. The ownership ends with the next owner."""


def _now() -> int:
    return time.time_ns() // 1_000_000
