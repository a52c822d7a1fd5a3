"""Reading and polling by fetches, for logs that are asked for records and push none.

A log of this kind gives a `Fetch`: records of one partition from an offset on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence

from consumers.base.errors import TransportError
from consumers.base.records import Fetched, Partition, Record
from consumers.transports.protocol import Demand

__all__ = ["Fetch", "FetchRecords", "Poller", "follow_records", "read_chunks"]

_CHUNK = 1000  # records a chunk of `read` and `follow`
_CHUNK_BYTES = 4 * 2**20  # and bytes, except for one larger record
_LONGEST_PAUSE = 0.05  # seconds between two looks for news

# Records from an offset, at most this number and these bytes, but at least one. None: no record.
Fetch = Callable[[Partition, int, int, int], Fetched | None]
# The same with headers.
FetchRecords = Callable[[Partition, int, int, int], Sequence[Record]]


def read_chunks(
    fetch: Fetch,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    demand: Demand,
    url: str,
) -> Generator[Fetched, None, None]:
    """`Log.read` by fetches; TransportError if the log ends before the end that was asked for."""
    positions = {partition: starts[partition] for partition in ends}
    full = demand.full()
    while positions:
        if all(partition in full for partition in positions):
            full = ()  # what the caller waits for is not there: it will find that out
        for partition, position in list(positions.items()):
            left = ends[partition] - position
            if left <= 0:
                del positions[partition]
                continue
            if partition in full:
                continue
            chunk = fetch(partition, position, min(left, _CHUNK), min(demand.room, _CHUNK_BYTES))
            if chunk is None:
                raise TransportError(
                    f"expected records of {partition} up to offset {ends[partition]} in "
                    f"{url}, it ends at {position}: give an end within the log"
                )
            positions[partition] = chunk.offsets[-1] + 1
            yield chunk
            full = demand.full()


def follow_records(
    fetch: FetchRecords, starts: Mapping[Partition, int], poll_seconds: float
) -> Iterator[Record]:
    """`Log.follow` by fetches."""
    positions = dict(starts)
    while True:
        quiet = True
        for partition, position in list(positions.items()):
            for record in fetch(partition, position, _CHUNK, _CHUNK_BYTES):
                quiet = False
                positions[partition] = record.offset + 1
                yield record
        if quiet:
            time.sleep(poll_seconds)


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
        self, max_records: int, timeout: float, skip: Collection[Partition], max_bytes: int
    ) -> list[Fetched]:
        """Records from the inputs but those of `skip`; empty when none came within `timeout`."""
        deadline = time.monotonic() + timeout
        pause = 0.002
        seen = self._news()
        fetched = self._take(max_records, max_bytes, skip)
        while not fetched:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
            news = self._news()
            if news != seen:
                seen = news
                fetched = self._take(max_records, max_bytes, skip)
        return fetched

    def _take(self, max_records: int, max_bytes: int, skip: Collection[Partition]) -> list[Fetched]:
        """An even share from each input; the next ones may use what one does not have."""
        wanted = [partition for partition in self.inputs if partition not in skip]
        fetched = []
        for place, partition in enumerate(wanted):
            if max_records <= 0 or max_bytes <= 0:
                break
            share, some = (-(-left // (len(wanted) - place)) for left in (max_records, max_bytes))
            chunk = self._fetch(partition, self._positions[partition], share, some)
            if chunk is not None:
                self._positions[partition] = chunk.offsets[-1] + 1
                max_records -= len(chunk)
                max_bytes -= chunk.nbytes
                fetched.append(chunk)
        self.inputs.rotate(-1)
        return fetched
