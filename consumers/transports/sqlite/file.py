"""The file of the embedded log: one connection, its tables, and its errors in one line.

Only this module uses SQL. No read stays open between two calls. Writes happen inside `transaction`,
and everything that can be computed before is computed before. A record is one row whose integer key
is `log << 40 | offset`. `log` is the number of its partition in the file, so that a range of
offsets is one scan of neighbouring rows.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import msgspec

from consumers.base.errors import TransportError
from consumers.base.records import Fetched, Header, Outgoing, Partition, Record, record_bytes
from consumers.transports.placement import Placement, no_such_partition, no_such_topic

__all__ = ["Database", "Row"]

_OFFSET_BITS = 40  # 10¹² records per partition, eight million partitions per file
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_APPLICATION_ID = 0x68647772  # "hdwr" in the file's header: a headwater log
_SCHEMA_VERSION = 1
_SCHEMA = f"""
CREATE TABLE topics (
    name TEXT PRIMARY KEY,
    partitions INTEGER NOT NULL CHECK (partitions > 0),
    first_log INTEGER NOT NULL  -- partition p is log first_log + p
) WITHOUT ROWID;
CREATE TABLE records (
    id INTEGER PRIMARY KEY,  -- log << {_OFFSET_BITS} | offset
    timestamp INTEGER NOT NULL,
    key BLOB,
    value BLOB,
    headers BLOB  -- JSON pairs of name and base64, NULL without any
);
CREATE TABLE offsets (
    name TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY (name, topic, partition)
) WITHOUT ROWID;
CREATE TABLE owners (
    name TEXT NOT NULL, shard INTEGER NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (name, shard)
) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
"""

_HOLDERS = """
CREATE TABLE IF NOT EXISTS holders (
    name TEXT NOT NULL, shard INTEGER NOT NULL, process TEXT NOT NULL,
    PRIMARY KEY (name, shard)
) WITHOUT ROWID
"""
# An additional table of layout 1, created with the first topic that gets an id. An older headwater
# neither reads nor writes it, and its topics have no id.
_TOPIC_IDS = "CREATE TABLE IF NOT EXISTS topic_ids (name TEXT PRIMARY KEY, id TEXT NOT NULL)"

_encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(tuple[Header, ...]).decode

Row = tuple[int, bytes | None, bytes | None, bytes | None]  # timestamp, key, value, headers


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
    """

    def __init__(self, path: str, clock: Callable[[], float], busy_seconds: float) -> None:
        self.path = path
        self.url = f"sqlite:{path}"
        self.clock = clock
        self.busy_seconds = busy_seconds
        self._placement = Placement()
        self._topics: dict[str, tuple[int, int]] = {}  # partitions and first log, which are fixed
        parent = Path(path).parent
        if not os.path.isdir(parent):  # also False for a name that is too long
            raise TransportError(
                f"expected a directory for {self.url}, but {str(parent)!r} is not one: "
                "create it or use another path"
            )
        self._files: dict[str, tuple[int, int]] = {}  # name to device and inode, once it is open
        _make_private(path)
        with self._faults():
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
        self._switch_to_wal()
        self._connection.execute("PRAGMA synchronous = FULL")
        if self._version() == 0:
            with self.transaction():
                if self._version() == 0:  # no other process was faster
                    for statement in _SCHEMA.split(";"):
                        self._connection.execute(statement)

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
        if version > _SCHEMA_VERSION:
            raise TransportError(
                f"expected layout {_SCHEMA_VERSION} in {self.url}, but it has {version}: "
                "use the newer headwater that wrote it"
            )

    def _value(self, statement: str, arguments: Sequence[object] = ()) -> int:
        (value,) = self._connection.execute(statement, arguments).fetchone()
        return int(value)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Report errors of SQLite in one line. SQLite does not notice that its file was removed."""
        self.expect_files()
        try:
            yield
        except sqlite3.Error as error:
            raise TransportError(self._explain(error)) from error

    def expect_files(self) -> None:
        """TransportError if a file was removed or replaced, because writes would be lost."""
        for name, opened in self._files.items():
            if _inode(name) != opened:
                raise TransportError(
                    f"{self.url}: {name} was removed or replaced while it was in use, so writes "
                    "would be lost: restore it and start again"
                )

    def _explain(self, error: sqlite3.Error) -> str:
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
        return f"{self.url}: {error}"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock: everything inside happens, or nothing."""
        with self._faults():
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
        with self._faults():
            return self._value("PRAGMA data_version")

    def topics(self) -> dict[str, int]:
        with self._faults():
            rows = self._connection.execute("SELECT name, partitions, first_log FROM topics")
            self._topics = {name: (partitions, first) for name, partitions, first in rows}
        return {topic: partitions for topic, (partitions, _) in sorted(self._topics.items())}

    def topic_ids(self) -> dict[str, str]:
        """Topic to its id; "" for a topic without one."""
        with self._faults():
            known = self._value("SELECT count(*) FROM sqlite_master WHERE name = 'topic_ids'")
            ids = "coalesce((SELECT id FROM topic_ids AS i WHERE i.name = t.name), '')"
            rows = self._connection.execute(
                f"SELECT t.name, {ids if known else repr('')} FROM topics AS t"  # noqa: S608
            )
            return dict(rows.fetchall())

    def create_topic(self, topic: str, partitions: int) -> None:
        with self.transaction():
            made = self._connection.execute(
                "INSERT INTO topics SELECT ?, ?, coalesce(max(first_log + partitions), 0) "
                "FROM topics WHERE true ON CONFLICT DO NOTHING",
                (topic, partitions),
            )
            if made.rowcount:
                self._connection.execute(_TOPIC_IDS)
                self._connection.execute(
                    "INSERT OR REPLACE INTO topic_ids VALUES (?, ?)", (topic, uuid4().hex)
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

    def end(self, log: int) -> int:
        """The offset after the last record."""
        base = log << _OFFSET_BITS
        with self._faults():
            last = self._value(
                "SELECT coalesce(max(id), ?) FROM records WHERE id BETWEEN ? AND ?",
                (base - 1, base, base | _OFFSET_MASK),
            )
        return last + 1 - base

    def offset_at(self, log: int, timestamp: int) -> int:
        """The first offset at or after a time. It scans from the start, as times may decrease."""
        base = log << _OFFSET_BITS
        with self._faults():
            row = self._connection.execute(
                "SELECT id FROM records WHERE id BETWEEN ? AND ? AND timestamp >= ? "
                "ORDER BY id LIMIT 1",
                (base, base | _OFFSET_MASK, timestamp),
            ).fetchone()
        return self.end(log) if row is None else int(row[0]) - base

    def fetch(self, partition: Partition, start: int, limit: int, max_bytes: int) -> Fetched | None:
        """Records from `start`: at least one, at most `limit` and `max_bytes`. None at the end
        of the partition."""
        first, last = self._range(partition, start)
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        # Row by row, because a thousand rows at once could be a gigabyte.
        with (
            self._faults(),
            closing(
                self._connection.execute(
                    f"SELECT id & {_OFFSET_MASK}, timestamp, key, value FROM records "  # noqa: S608
                    "WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
                    (first, last, limit),
                )
            ) as found,
        ):
            for row in found:
                max_bytes -= record_bytes(row[2], row[3])
                if max_bytes < 0 and rows:
                    break
                rows.append(row)
        if not rows:
            return None
        offsets, timestamps, keys, values = zip(*rows, strict=True)
        return Fetched(partition, list(offsets), list(timestamps), list(keys), list(values))

    def fetch_records(
        self, partition: Partition, start: int, limit: int, max_bytes: int
    ) -> list[Record]:
        """The same with headers."""
        first, last = self._range(partition, start)
        topic, number = partition
        records: list[Record] = []
        with (
            self._faults(),
            closing(
                self._connection.execute(
                    f"SELECT id & {_OFFSET_MASK}, timestamp, key, value, headers "  # noqa: S608
                    "FROM records WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
                    (first, last, limit),
                )
            ) as found,
        ):
            for offset, timestamp, key, value, headers in found:
                max_bytes -= record_bytes(key, value) + len(headers or b"")
                if max_bytes < 0 and records:
                    break
                pairs = _decode_headers(headers) if headers else ()
                records.append(Record(topic, number, offset, timestamp, key, value, pairs))
        return records

    def _range(self, partition: Partition, start: int) -> tuple[int, int]:
        base = self.log(partition) << _OFFSET_BITS
        return base + start, base | _OFFSET_MASK

    def place(self, records: Sequence[Outgoing]) -> tuple[dict[int, list[Row]], list[int]]:
        """The rows of each log in order, and the log of each record. Nothing is written."""
        now = int(self.clock() * 1000)
        choose = self._placement.choose
        rows: dict[int, list[Row]] = {}
        logs = []
        for record in records:
            partitions, first = self._topics.get(record.topic) or self._topic(record.topic)
            log = first + choose(record, partitions)
            timestamp = now if record.timestamp is None else record.timestamp
            headers = _encode_headers(record.headers) if record.headers else None
            rows.setdefault(log, []).append((timestamp, record.key, record.value, headers))
            logs.append(log)
        return rows, logs

    def insert(self, rows: Mapping[int, Sequence[Row]]) -> dict[int, int]:
        """Write rows inside a transaction. Returns the new end of each log."""
        ends = {}
        for log, fresh in rows.items():
            end = self.end(log)
            start = (log << _OFFSET_BITS) + end
            self._connection.executemany(
                "INSERT INTO records VALUES (?, ?, ?, ?, ?)",
                ((start + i, *row) for i, row in enumerate(fresh)),
            )
            ends[log] = end + len(fresh)
        return ends

    def next_epoch(self, name: str, shard: int, process: str) -> tuple[int, str]:
        """Take a shard. Returns its new epoch, and the process that did not release it, or ""."""
        with self.transaction():
            self._connection.execute(_HOLDERS)  # files of earlier versions have no such table
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
        with self._faults():
            return self._value(which, (name, shard))

    def store_offsets(self, name: str, positions: Mapping[Partition, int]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?)",
            [(name, topic, number, position) for (topic, number), position in positions.items()],
        )

    def offsets(self, name: str) -> dict[Partition, int]:
        with self._faults():
            rows = self._connection.execute(
                "SELECT topic, partition, next FROM offsets WHERE name = ?", (name,)
            ).fetchall()
        return {Partition(topic, number): position for topic, number, position in rows}

    def close(self) -> None:
        try:
            self._connection.close()
        except sqlite3.Error as error:  # not `_faults`: a removed log can be closed
            raise TransportError(self._explain(error)) from error


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


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )
