"""What logs share that have no groups of processes: reading and polling.

Such a log keeps all records. Its `FetchSource` gives records of one partition from an offset on.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Protocol

from consumers.base.errors import RecordsMissingError
from consumers.base.records import (
    UNBOUNDED,
    Fetched,
    Partition,
    Record,
    TopicSettings,
    Uncommitted,
)
from consumers.transports.protocol import ANY, Demand, nothing
from consumers.transports.registry import KeyHeaders

__all__ = ["Fetch", "FetchingLog", "FetchingOwner", "Poller", "keyed"]

_CHUNK = 1000  # records a chunk of `read` and `follow`
_CHUNK_BYTES = 4 * 2**20  # and bytes, except for one larger record
_LONGEST_PAUSE = 0.05  # seconds between two looks for news

# Records from an offset, at most this number and these bytes, but at least one. None: no record.
Fetch = Callable[[Partition, int, int, int], Fetched | None]


class FetchSource(Protocol):
    """Gives the records of a log."""

    url: str

    def fetch(self, partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        """A `Fetch`."""

    def fetch_records(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> Sequence[Record]:
        """The same with headers; empty if there is no record."""


def keyed(source: FetchSource, key_headers: KeyHeaders) -> Fetch:
    """`source.fetch`, with the keys from headers; see `open_log`."""
    if not key_headers:
        return source.fetch

    def fetch(partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        name = key_headers.get(partition.topic)
        if name is None:
            return source.fetch(partition, start, limit, max_bytes)
        records = source.fetch_records(partition, start, limit, max_bytes)
        if not records:
            return None
        found = Fetched(
            partition,
            [r.offset for r in records],
            [r.timestamp for r in records],
            [_key(record, name) for record in records],
            [r.value for r in records],
        )
        return found.head(found.within(max_bytes))

    return fetch


def _key(record: Record, name: str) -> bytes | None:
    headers = () if record.value is None else record.headers
    return next((value for header, value in headers if header == name), record.key)


class FetchingLog(ABC):
    """The methods of `Log` that need only a source.

    Parameters
    ----------
    source
        Gives the records.
    key_headers
        See `open_log`.
    """

    def __init__(self, source: FetchSource, key_headers: KeyHeaders) -> None:
        self._source, self._fetch = source, keyed(source, key_headers)

    @abstractmethod
    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last record of each."""

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The first offset of each: 0, because nothing is deleted."""
        return dict.fromkeys(self.end_offsets(partitions), 0)

    def read(
        self,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        *,
        demand: Demand = ANY,
    ) -> Generator[Fetched, None, None]:
        """Committed records of each partition from its start up to its end, in chunks.

        Raises
        ------
        TransportError
            The log ends before the requested end.
        """
        return _chunks(self._source.url, self._fetch, starts, ends, demand)

    def follow(
        self,
        starts: Mapping[Partition, int],
        *,
        poll_seconds: float,
        idle: Callable[[], None] = nothing,
    ) -> Iterator[Record]:
        """Committed records as they arrive, for ever."""
        positions = dict(starts)
        while True:
            quiet = True
            for partition, position in list(positions.items()):
                for record in self._source.fetch_records(partition, position, _CHUNK, _CHUNK_BYTES):
                    quiet = False
                    positions[partition] = record.offset + 1
                    yield record
            if quiet:
                idle()
                self._rest(poll_seconds)

    def _rest(self, seconds: float) -> None:
        """Wait for news, at most this long."""
        time.sleep(seconds)

    def topic_settings(self, topics: Collection[str]) -> dict[str, TopicSettings]:
        """None: every record is kept for ever."""
        return {}

    def transaction_rules(self) -> None:  # noqa: B027  there is nothing to do
        """None: each transaction is one call."""

    def check_writable(self, name: str) -> None:  # noqa: B027  memory can always be written
        """Check that this process may write, without writing."""

    def member(self, name: str, topic: str, standbys: int) -> None:  # noqa: B027  there is nothing to do
        """None: one process runs every shard of a service on this log."""


def _chunks(
    url: str,
    fetch: Fetch,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    demand: Demand,
) -> Generator[Fetched, None, None]:
    positions = {partition: starts[partition] for partition in ends}
    full = demand.full()
    while positions:
        if all(partition in full for partition in positions):
            full = ()  # the awaited records do not exist, and the caller will notice that
        for partition, position in list(positions.items()):
            left = ends[partition] - position
            if left <= 0:
                del positions[partition]
                continue
            if partition in full:
                continue
            room = min(demand.room, _CHUNK_BYTES)
            chunk = fetch(partition, position, min(left, _CHUNK), room)
            if chunk is None:
                raise RecordsMissingError(
                    f"expected records of {partition} up to offset {ends[partition]} in "
                    f"{url}, but it ends at {position}: use an end within the log"
                )
            positions[partition] = chunk.offsets[-1] + 1
            yield chunk
            full = demand.full()


class Poller:
    """`Owner.poll` by fetches.

    Parameters
    ----------
    inputs
        The partitions to poll.
    fetch
        Gives their records.
    news
        A value that changes when there may be new records.
    """

    def __init__(
        self, inputs: Sequence[Partition], fetch: Fetch, news: Callable[[], object]
    ) -> None:
        self.inputs = deque(inputs)  # rotated each poll: no partition is always served last
        self._fetch = fetch
        self._news = news
        self._positions: dict[Partition, int] = {}

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position."""
        self._positions = {partition: positions[partition] for partition in self.inputs}

    def poll(
        self,
        max_records: int,
        timeout: float,
        skip: Collection[Partition],
        max_bytes: int,
        each: int,
    ) -> list[Fetched]:
        """Records from the inputs except `skip`; empty if none arrived within `timeout`."""
        deadline = time.monotonic() + timeout
        pause = 0.002
        seen = self._news()
        fetched = self.take(max_records, max_bytes, skip, each)
        while not fetched:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            news = self._news()
            if news != seen:
                seen = news
                fetched = self.take(max_records, max_bytes, skip, each)
        return fetched

    def take(
        self, max_records: int, max_bytes: int, skip: Collection[Partition], each: int
    ) -> list[Fetched]:
        """An even share of the records that exist from each input, without waiting.

        The next inputs may use what one does not have.
        """
        wanted = [partition for partition in self.inputs if partition not in skip]
        fetched = []
        for place, partition in enumerate(wanted):
            if max_records <= 0 or max_bytes <= 0:
                break
            share, some = (-(-left // (len(wanted) - place)) for left in (max_records, max_bytes))
            chunk = self._fetch(partition, self._positions[partition], share, min(some, each))
            if chunk is not None:
                self._positions[partition] = chunk.offsets[-1] + 1
                max_records -= len(chunk)
                max_bytes -= chunk.nbytes
                fetched.append(chunk)
        self.inputs.rotate(-1)
        return fetched


class FetchingOwner:
    """The methods of `Owner` that need only a poller."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position."""
        self._poller.seek(positions)

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
        return self._poller.poll(max_records, timeout, skip, max_bytes, each)

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """Nothing: there are no transactions."""
        return {}
