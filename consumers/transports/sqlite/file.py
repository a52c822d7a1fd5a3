"""The file of the embedded log: one connection, its tables, and its errors in one line.

Only this room uses SQL. No read stays open between two calls. Writes happen inside `transaction`,
and everything that can be computed before is computed before. Records are rows of batches, whose
integer key is `log << 40 | offset of the last record`. `log` is the number of a partition in the
file, so that a range of offsets is one scan of neighbouring rows.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec
import numpy as np

from consumers.base.cells import Numbers, lengths
from consumers.base.errors import TransportError
from consumers.base.records import (
    RECORD_BYTES,
    Fetched,
    Header,
    Outgoing,
    OutgoingColumns,
    Partition,
    Record,
    joined,
)
from consumers.transports.placement import Placement, no_such_partition, no_such_topic
from consumers.transports.sqlite.batches import (
    Columns,
    Packed,
    Row,
    packed,
    packed_columns,
    packed_outgoing,
    unpacked,
)

__all__ = ["OFFSET_BITS", "OFFSET_MASK", "Database"]

OFFSET_BITS = 40  # 10¹² records per partition, eight million partitions per file
OFFSET_MASK = (1 << OFFSET_BITS) - 1
_APPLICATION_ID = 0x68647772  # "hdwr" in the file's header: a headwater log
_SCHEMA_VERSION = 3
_SCHEMA = (
    """CREATE TABLE topics (
    name TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    partitions INTEGER NOT NULL CHECK (partitions > 0),
    first_log INTEGER NOT NULL  -- partition p is log first_log + p
) WITHOUT ROWID""",
    """CREATE TABLE offsets (
    name TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY (name, topic, partition)
) WITHOUT ROWID""",
    """CREATE TABLE owners (
    name TEXT NOT NULL, shard INTEGER NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (name, shard)
) WITHOUT ROWID""",
    """CREATE TABLE holders (
    name TEXT NOT NULL, shard INTEGER NOT NULL, process TEXT NOT NULL,
    PRIMARY KEY (name, shard)
) WITHOUT ROWID""",
    f"""CREATE TABLE batches (
    id INTEGER PRIMARY KEY,  -- log << {OFFSET_BITS} | offset of the last record
    count INTEGER NOT NULL,
    newest INTEGER NOT NULL,  -- largest timestamp
    data BLOB NOT NULL
)""",
    "CREATE TABLE starts (log INTEGER PRIMARY KEY, start INTEGER NOT NULL)",  # after a deletion
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)

_encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(tuple[Header, ...]).decode
_REMEMBERED = 16  # batches that were read last, one for each partition: polls take parts of them

Run = tuple[int, Columns]  # offset of the first record, and consecutive records


class Database:
    """One connection to the file.

    Parameters
    ----------
    path
        The file. It is created when missing, but its directory is not.
    clock
        Seconds since 1970, for records without a timestamp.
    busy_seconds
        How long to wait for another process's lock.

    Attributes
    ----------
    compiled : bool
        Whether batches are read by compiled code, which imports numba.
    """

    def __init__(self, path: str, clock: Callable[[], float], busy_seconds: float) -> None:
        self.path = path
        self.url = f"sqlite:{path}"
        self.clock = clock
        self.busy_seconds = busy_seconds
        self.compiled = False
        self._placement = Placement()
        self._topics: dict[str, tuple[int, int]] = {}  # partitions and first log, which are fixed
        self._last_read: dict[int, tuple[bytes, Columns]] = {}  # log to a batch
        parent = Path(path).parent
        if not os.path.isdir(parent):  # also False for a name that is too long
            raise TransportError(
                f"expected a directory for {self.url}, but {str(parent)!r} is not one: "
                "create it or use another path"
            )
        self._files: dict[str, tuple[int, int]] = {}  # name to device and inode, once it is open
        _make_private(path)
        with self.faults():
            # Used by one thread at a time, which need not be the one that opened it.
            self._connection = sqlite3.connect(
                path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        names = (path, f"{path}-wal")
        self._files = {name: found for name in names if (found := _inode(name)) is not None}

    def _prepare(self) -> None:
        """Check that it is a headwater log, and initialize a new file."""
        self._refuse_foreign()
        # It can shrink while it is in use.
        self._connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._switch_to_wal()
        self._connection.execute("PRAGMA synchronous = FULL")
        if self._version() < _SCHEMA_VERSION:
            with self.transaction():
                made = self._version() == _SCHEMA_VERSION  # another process may have been faster
                for statement in () if made else _SCHEMA:
                    self._connection.execute(statement)

    @property
    def connection(self) -> sqlite3.Connection:
        """For this room only."""
        return self._connection

    def _switch_to_wal(self) -> None:
        """Retry until no other process opens the file: SQLite does not wait for this switch."""
        deadline = time.monotonic() + self.busy_seconds
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _version(self) -> int:
        return int(self._value("PRAGMA user_version"))

    def _refuse_foreign(self) -> None:
        tables = self._value("SELECT count(*) FROM sqlite_master")
        owner = self._value("PRAGMA application_id")  # after the tables: it is set with them
        version = self._version()
        if tables and owner != _APPLICATION_ID:
            raise TransportError(
                f"expected a headwater log in {self.url}, but it is the database of another "
                "program: use another path"
            )
        if version not in (0, _SCHEMA_VERSION):
            raise TransportError(
                f"expected layout {_SCHEMA_VERSION} in {self.url}, but it has {version}: "
                "use the headwater that wrote it"
            )

    def _value(self, statement: str, arguments: Sequence[object] = ()) -> int:
        return int(self._connection.execute(statement, arguments).fetchone()[0])

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Report errors of SQLite in one line. SQLite does not notice that its file was removed."""
        self.expect_files()
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise TransportError(self._explain(error)) from error

    def expect_files(self) -> None:
        """TransportError if a file was removed or replaced, because writes would be lost."""
        for name, opened in self._files.items():
            if _inode(name) != opened:
                raise TransportError(
                    f"{self.url}: {name} was removed or replaced while it was in use, so writes "
                    "would be lost: restore it and start again"
                )

    def _explain(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_busy(error):
            return (
                f"{self.url}: another process kept it locked for {self.busy_seconds:g} s: "
                "stop that process or try again"
            )
        if code == sqlite3.SQLITE_FULL:
            return f"{self.url}: the disk is full, and nothing of this write was kept: free space"
        if code == sqlite3.SQLITE_NOTADB:
            return (
                f"expected a headwater log in {self.url}, but the file is not a database: "
                "use another path"
            )
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return f"{self.url}: {error}: check the path and its permissions"
        quotes = isinstance(error, UnicodeDecodeError)  # a message of SQLite quotes a damaged name
        return f"{self.url}: {'the file is damaged' if quotes else error}"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock: everything inside happens, or nothing."""
        with self.faults():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.expect_files()
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite may have rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    def news(self) -> int:
        """A number that changes when another connection has committed."""
        with self.faults():
            return self._value("PRAGMA data_version")

    def topics(self) -> dict[str, int]:
        with self.faults():
            rows = self._connection.execute("SELECT name, partitions, first_log FROM topics")
            self._topics = {name: (partitions, first) for name, partitions, first in rows}
        return {topic: partitions for topic, (partitions, _) in sorted(self._topics.items())}

    def topic_ids(self) -> dict[str, str]:
        """Topic to its id."""
        with self.faults():
            return dict(self._connection.execute("SELECT name, id FROM topics").fetchall())

    def create_topic(self, topic: str, partitions: int) -> None:
        with self.transaction():
            self._connection.execute(
                "INSERT INTO topics SELECT ?, ?, ?, coalesce(max(first_log + partitions), 0) "
                "FROM topics WHERE true ON CONFLICT DO NOTHING",
                (topic, uuid4().hex, partitions),
            )

    def _topic(self, topic: str) -> tuple[int, int]:
        if topic not in self._topics:
            self.topics()
        if topic not in self._topics:
            raise no_such_topic(topic, self.url)
        return self._topics[topic]

    def log(self, partition: Partition) -> int:
        """The number of a partition in the file."""
        partitions, first = self._topic(partition.topic)
        if not 0 <= partition.number < partitions:
            raise no_such_partition(partition.topic, partition.number, partitions)
        return first + partition.number

    def start(self, log: int) -> int:
        """The first offset that was not deleted."""
        with self.faults():
            return self._value(
                "SELECT coalesce((SELECT start FROM starts WHERE log = ?), 0)", (log,)
            )

    def end(self, log: int) -> int:
        """The offset after the last record."""
        base = log << OFFSET_BITS
        with self.faults():
            return self._value(
                "SELECT max(coalesce((SELECT max(id) + 1 - ?1 FROM batches "
                "WHERE id BETWEEN ?1 AND ?2), 0), "
                "coalesce((SELECT start FROM starts WHERE log = ?3), 0))",
                (base, base | OFFSET_MASK, log),
            )

    def offset_at(self, log: int, timestamp: int) -> int:
        """The first offset at or after a time. It scans from the start, as times may decrease."""
        base = log << OFFSET_BITS
        with self.faults(), self.reading():
            batch = self._connection.execute(
                "SELECT id, count, data FROM batches WHERE id BETWEEN ? AND ? AND newest >= ? "
                "ORDER BY id LIMIT 1",
                (base, base | OFFSET_MASK, timestamp),
            ).fetchone()
        if batch is None:
            return self.end(log)
        last, count, data = batch
        times = unpacked(data, self.url).timestamps
        later = next(at for at, time in enumerate(times) if time >= timestamp)
        return int(last) - int(count) + 1 - base + later

    def fetch(self, partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        """Records from `start`: at least one, at most `limit` and `max_bytes`. None at the end."""
        parts = []
        for first, found in self._fitting(partition, start, limit, max_bytes, headers=False):
            offsets = Numbers(np.arange(first, first + len(found.keys)))
            parts.append(Fetched(partition, offsets, found.timestamps, found.keys, found.values))
        return joined(partition, parts) if parts else None

    def fetch_records(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> list[Record]:
        """The same with headers."""
        topic, number = partition
        records: list[Record] = []
        for first, columns in self._fitting(partition, start, limit, max_bytes, headers=True):
            for offset, (timestamp, key, value, headers) in enumerate(columns.rows(), first):
                pairs = _decode_headers(headers) if headers else ()
                records.append(Record(topic, number, offset, timestamp, key, value, pairs))
        return records

    def _fitting(
        self, partition: Partition, start: int, limit: int, max_bytes: int, *, headers: bool
    ) -> Iterator[Run]:
        """The runs from `start`, at most `limit` records and `max_bytes`, but at least one."""
        log = self.log(partition)
        with self.faults(), self.reading(), closing(self.runs(log, start)) as runs:
            begin = self.start(log)
            if start < begin:
                raise TransportError(
                    f"expected records of {partition} from offset {start} in {self.url}, but it "
                    f"starts at {begin}: `headwater compact` has deleted earlier ones"
                )
            some = True
            for first, columns in runs:
                taken, max_bytes = _fit(columns, limit, max_bytes, some, headers=headers)
                limit, some = limit - taken, False
                if taken == len(columns.keys):
                    yield first, columns
                    if limit:
                        continue
                elif taken:
                    yield first, _part(columns, 0, taken)
                return

    def runs(self, log: int, start: int) -> Generator[Run, None, None]:
        """All records from an offset on, in order. Only inside `reading` or `transaction`."""
        base = log << OFFSET_BITS
        at = base + start
        while True:
            batch = self._connection.execute(
                "SELECT id, count, data FROM batches WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1",
                (at, base | OFFSET_MASK),
            ).fetchone()
            if batch is None:
                return
            first = batch[0] - batch[1] + 1
            columns = self._unpacked(log, batch[2], batch[1])
            if at > first:
                columns = _part(columns, at - first, len(columns.keys))
            yield max(at, first) - base, columns
            at = batch[0] + 1

    def _unpacked(self, log: int, data: bytes, count: int) -> Columns:
        """The records of a batch. The last one of each partition is remembered."""
        known = self._last_read.get(log)
        if known is not None and known[0] == data:
            return known[1]
        columns = unpacked(data, self.url, count if self.compiled else 0)
        if len(self._last_read) >= _REMEMBERED:
            self._last_read.clear()
        self._last_read[log] = data, columns
        return columns

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the file, whatever other processes write meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def place(self, records: Sequence[Outgoing]) -> tuple[dict[int, list[Packed]], list[int]]:
        """The batches of each log in order, and the log of each record. Nothing is written."""
        if not records:
            return {}, []
        if isinstance(records, OutgoingColumns):
            return self._place_columns(records)
        now = int(self.clock() * 1000)
        topics, keys, values, times, headers, numbers = zip(*records, strict=True)
        if len(set(topics)) == 1 and not any(headers) and not any(numbers):
            partitions, first = self._topics.get(topics[0]) or self._topic(topics[0])
            if partitions == 1:  # as most chunks: without an object for each record
                at = [now if each is None else each for each in times] if None in times else times
                return {first: packed_columns(at, keys, values)}, [first] * len(records)
        choose = self._placement.choose
        rows: defaultdict[int, list[Row]] = defaultdict(list)
        logs = []
        for record in records:
            topic, key, value, timestamp, headers, number = record
            partitions, first = self._topics.get(topic) or self._topic(topic)
            # most topics have one partition, which needs no choice
            log = first if partitions == 1 and not number else first + choose(record, partitions)
            encoded = _encode_headers(headers) if headers else None
            rows[log].append((now if timestamp is None else timestamp, key, value, encoded))
            logs.append(log)
        return {log: packed(fresh) for log, fresh in rows.items()}, logs

    def _place_columns(self, records: OutgoingColumns) -> tuple[dict[int, list[Packed]], list[int]]:
        _, first = self._topic(records.topic)
        batches = {
            self.log(Partition(records.topic, number)): packed_outgoing(own)
            for number, own in records.by_partition()
        }
        rest, logs = self.place(records.rest)
        for log, more in rest.items():
            batches[log] = [*batches.get(log, []), *more]
        return batches, [*(records.partitions + first).tolist(), *logs]

    def insert(self, batches: Mapping[int, Sequence[Packed]]) -> dict[int, int]:
        """Write batches inside a transaction. Returns the new end of each log."""
        return {log: self.insert_at(log, self.end(log), fresh) for log, fresh in batches.items()}

    def insert_at(self, log: int, offset: int, batches: Sequence[Packed]) -> int:
        """Write batches from an offset on, inside a transaction. Returns the offset after them."""
        base = log << OFFSET_BITS
        for batch in batches:
            offset += batch.count
            self._connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?)",
                (base + offset - 1, batch.count, batch.newest, batch.data),
            )
        return offset

    def next_epoch(self, name: str, shard: int, process: str) -> tuple[int, str]:
        """Take a shard. Returns its new epoch, and the process that did not release it, or ""."""
        with self.transaction():
            self._connection.execute(
                "INSERT INTO owners VALUES (?, ?, 1) "
                "ON CONFLICT (name, shard) DO UPDATE SET epoch = epoch + 1",
                (name, shard),
            )
            found = self._connection.execute(
                "SELECT process FROM holders WHERE name = ? AND shard = ?", (name, shard)
            ).fetchone()
            self._connection.execute(
                "INSERT OR REPLACE INTO holders VALUES (?, ?, ?)", (name, shard, process)
            )
            return self.epoch(name, shard), "" if found is None else str(found[0])

    def release(self, name: str, shard: int, epoch: int) -> None:
        """The holder of this epoch has closed the shard. A later holder is kept."""
        with self.transaction():
            if self.epoch(name, shard) == epoch:
                self._connection.execute(
                    "DELETE FROM holders WHERE name = ? AND shard = ?", (name, shard)
                )

    def epoch(self, name: str, shard: int) -> int:
        which = "SELECT epoch FROM owners WHERE name = ? AND shard = ?"
        with self.faults():
            return self._value(which, (name, shard))

    def store_offsets(self, name: str, positions: Mapping[Partition, int]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?)",
            [(name, topic, number, position) for (topic, number), position in positions.items()],
        )

    def offsets(self, name: str) -> dict[Partition, int]:
        with self.faults():
            rows = self._connection.execute(
                "SELECT topic, partition, next FROM offsets WHERE name = ?", (name,)
            ).fetchall()
        return {Partition(topic, number): position for topic, number, position in rows}

    def close(self) -> None:
        try:
            self._connection.close()
        except sqlite3.Error as error:  # not `faults`: a removed log can be closed
            raise TransportError(self._explain(error)) from error


def _fit(
    columns: Columns, limit: int, max_bytes: int, some: bool, *, headers: bool
) -> tuple[int, int]:
    """How many of the first records fit, at least one if `some`; and the bytes that are left."""
    counted = (columns.keys, columns.values, columns.headers if headers else None)
    each = [lengths(cells[:limit]) for cells in counted if cells is not None]
    ends = (np.add.reduce(each) + RECORD_BYTES).cumsum()
    taken = int(np.searchsorted(ends, max_bytes, side="right"))
    if some and ends.size:
        taken = max(taken, 1)
    return taken, max_bytes - (int(ends[taken - 1]) if taken else 0)


def _part(columns: Columns, start: int, stop: int) -> Columns:
    headers = columns.headers
    return Columns(
        columns.timestamps[start:stop],
        columns.keys[start:stop],
        columns.values[start:stop],
        None if headers is None else headers[start:stop],
    )


def _make_private(path: str) -> None:
    """Create a file that only its owner can read. SQLite uses its mode for its other files."""
    with suppress(OSError):  # it exists, or SQLite reports why it cannot be created
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _inode(path: str) -> tuple[int, int] | None:
    """Device and inode; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )
