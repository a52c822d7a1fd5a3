"""The embedded log: one SQLite file, shared by any number of processes on one machine.

The write lock is held only inside `append`, `commit`, `create_topic` and `owner`, so `produce`,
`tail` and the web pages work while a service runs. The owner of a shard is an epoch in the file. A
new owner increments it, and every commit checks it inside its transaction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from consumers.base.errors import RESTART, FencedError, TransportError
from consumers.base.records import (
    Outgoing,
    Partition,
    Topic,
    followed_by,
)
from consumers.transports.fetching import Fetch, FetchingLog, FetchingOwner, Poller, keyed
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders
from consumers.transports.sqlite.compaction import Compactor
from consumers.transports.sqlite.file import Database

__all__ = ["SqliteLog", "SqliteOwner"]


class SqliteLog(FetchingLog):
    """The log in a file.

    Parameters
    ----------
    path
        The file. It is created when missing, but its directory is not.
    clock
        Seconds since 1970, for records without a timestamp.
    busy_seconds
        How long to wait while another process writes.
    key_headers
        See `open_log`.

    Raises
    ------
    TransportError
        The file cannot be opened or is not a headwater log.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = SqliteLog(f"{directory}/feed.db")
    ...     log.create_topic("flowers", 1)
    ...     log.append([Outgoing("flowers", b"7", b"{}"), Outgoing("flowers", b"8", b"{}")])
    ...     flowers = Partition("flowers", 0)
    ...     chunks = list(log.read({flowers: 0}, log.end_offsets([flowers])))
    ...     log.close()
    [(0, 0), (0, 1)]
    >>> chunks[0].offsets, chunks[0].keys
    ([0, 1], [b'7', b'8'])
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Callable[[], float] = time.time,
        busy_seconds: float = 10.0,
        key_headers: KeyHeaders = NO_KEY_HEADERS,
    ) -> None:
        self._database = Database(path, clock, busy_seconds)
        super().__init__(self._database, key_headers)
        self._clock, self._key_headers = clock, key_headers
        self._owners: list[SqliteOwner] = []

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions."""
        return self._database.topics()

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """Number of partitions and id of these topics, of those that exist."""
        counts, ids = self._database.topics(), self._database.topic_ids()
        return {topic: Topic(counts[topic], ids[topic]) for topic in topics if topic in counts}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic. Nothing happens if it exists."""
        self._database.create_topic(topic, partitions)

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The first offset of each that `headwater compact` has not deleted."""
        database = self._database
        return {partition: database.start(database.log(partition)) for partition in partitions}

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last committed record of each."""
        return _ends(self._database, partitions)

    def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset of each whose record is at or after `timestamp` (ms), or its end."""
        database = self._database
        return {
            partition: database.offset_at(database.log(partition), timestamp)
            for partition in partitions
        }

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write all records or none. They are on disk when this returns.

        Returns partition and offset of each.
        """
        batches, logs = self._database.place(records)
        with self._database.transaction():
            ends = self._database.insert(batches)
        if len(ends) == 1:  # most chunks: one topic with one partition
            [(log, end)] = ends.items()
            number = log - self._database.log(Partition(records[0].topic, 0))
            return [(number, offset) for offset in range(end - len(records), end)]
        counts = {log: sum(batch.count for batch in own) for log, own in batches.items()}
        offsets = {log: iter(range(end - counts[log], end)) for log, end in ends.items()}
        numbers = {
            log: log - self._database.log(Partition(record.topic, 0))
            for log, record in dict(zip(logs, records, strict=True)).items()
        }
        return [(numbers[log], next(offsets[log])) for log in logs]

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> SqliteOwner:
        """Become the owner of a shard, and fence the previous one."""
        self._database.expect_files()  # otherwise a new empty file would be created
        for partition in inputs:
            self._database.log(partition)
        # Its own connection, so that it notices what this one appends.
        database = Database(self._database.path, self._clock, self._database.busy_seconds)
        database.compiled = self._database.compiled = True  # it is a service, which needs numba
        owner = SqliteOwner(database, name, shard, inputs, keyed(database, self._key_headers))
        self._owners = [*(other for other in self._owners if not other.closed), owner]
        return owner

    def committed(self, name: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The committed offsets of a service's group, for partitions that have one."""
        offsets = self._database.offsets(name)
        return {partition: offsets[partition] for partition in partitions if partition in offsets}

    def check_writable(self, name: str) -> None:
        """Check that this process may write: take the write lock, and release it."""
        with self._database.transaction():
            pass

    def compactor(self) -> Compactor:
        """What makes the file smaller."""
        return Compactor(self._database)

    def close(self) -> None:
        """Close the file, and all owners of this log."""
        for owner in self._owners:
            owner.close()
        self._database.close()


class SqliteOwner(FetchingOwner):
    """The owner of a shard, created by `SqliteLog.owner`.

    Attributes
    ----------
    fenced
        The process that owned the shard and still runs, such as "4711"; "" if no such process is
        known.
    """

    fenced = ""

    def __init__(
        self,
        database: Database,
        name: str,
        shard: int,
        inputs: Sequence[Partition],
        fetch: Fetch,
    ) -> None:
        self._database = database
        self._name = name
        self._shard = shard
        self._inputs = inputs
        super().__init__(Poller(inputs, fetch, database.news))
        self._epoch, held = database.next_epoch(name, shard, _process_name(os.getpid()))
        self.closed = False
        if held and _runs(held):
            self.fenced = held.split()[0]

    def ends(self) -> dict[Partition, int]:
        """The end of each input."""
        return _ends(self._database, self._inputs)

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write everything in one SQL transaction. Returns the offset of the journal record."""
        database = self._database
        batches, logs = database.place(followed_by(records, [journal]))
        with database.transaction():
            self.confirm(positions)
            ends = database.insert(batches)
            database.store_offsets(self._name, positions)
        return ends[logs[-1]] - 1

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Raise FencedError if another owner has taken over."""
        if self._database.epoch(self._name, self._shard) != self._epoch:
            raise FencedError(
                f"expected to own shard {self._shard} of {self._name!r}, but another owner has "
                f"taken it over, and nothing was written; {RESTART}"
            )

    def overtaken(self) -> bool:
        """Whether another owner has taken over since."""
        own = self._database
        own.expect_files()
        with closing(Database(own.path, own.clock, own.busy_seconds)) as database:
            return database.epoch(self._name, self._shard) != self._epoch

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets of the inputs that have one."""
        offsets = self._database.offsets(self._name)
        return {partition: offsets[partition] for partition in self._inputs if partition in offsets}

    def close(self) -> None:
        """Close the file. The ownership ends with the next owner."""
        if not self.closed:
            self.closed = True
            with suppress(TransportError):  # only a warning at the next start depends on it
                self._database.release(self._name, self._shard, self._epoch)
            self._database.close()


def _process_name(number: int) -> str:
    """A process by its number and, if available, its start time, because numbers are reused."""
    try:
        started = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return str(number)
    return f"{number} {started}"


def _runs(process: str) -> bool:
    """Whether it is another process on this machine that still runs."""
    number = int(process.split()[0])
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return _process_name(number) == process


def _ends(database: Database, partitions: Sequence[Partition]) -> dict[Partition, int]:
    return {partition: database.end(database.log(partition)) for partition in partitions}
