"""Rows of keys in files beside the snapshots of a shard.

    keys-0123456789abcdef.db    SQLite, with the rows of the snapshots that name it

A file has versions. A snapshot names a file and a version, and has everything except the rows. What
is put belongs to the next version; all of it is one transaction, which `commit` ends durably before
the snapshot is written. So whenever a process is killed, the file has every version that a snapshot
names:

    killed before the commit      SQLite discards what was put
    between commit and snapshot   the version is not named: the next start returns to an older one
    killed later                  the snapshot and its version exist

A row is replaced by a newer one of the same key only if no kept snapshot needs it. A shard that
starts without rows makes a new file; files that no snapshot names are removed.

A shard whose model keeps its keys on disk: `[model] keys_on_disk`.

Rule: only the process that owns a shard has keys on disk. All others read the rows of a snapshot,
and have all keys in memory, which changes no result.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from consumers.base.errors import TransportError
from consumers.base.failpoints import reach
from consumers.snapshots.places import make_directory
from stream.data.state import State
from stream.errors import StateError
from stream.keyed import PerKeyNB

if TYPE_CHECKING:
    from consumers.shard.shard import Shard

__all__ = ["KeyFiles", "KeyReader", "give_keys", "keyed_learner", "saved_state", "stored_point"]

LAYOUT = 1
APPLICATION = 0x68776B79  # "hwky" in the header of the file
CACHE_KIB = 64 * 1024
BUSY_SECONDS = 10.0  # a process that was fenced ends within that time
AT_ONCE = 4000  # replaced rows that are looked at between two blocks
MOST_DROPPED = 16  # intervals that may wait, if there is nothing between two blocks
WRAP = 2**64
# Also a cell of another type, and an error of SQLite whose message quotes what is no UTF-8.
DAMAGED = (sqlite3.Error, OverflowError, TypeError, ValueError)
FILE = re.compile("[0-9a-f]{16}", re.ASCII)
_SCHEMA = (
    # The number of a row grows with its version. mark: a hash of name and row.
    "CREATE TABLE rows (number INTEGER PRIMARY KEY, name BLOB NOT NULL, version INTEGER NOT NULL, "
    "mark INTEGER NOT NULL, row BLOB NOT NULL)",
    "CREATE INDEX by_name ON rows (name, version, mark)",
    # Rows that are not the newest of their key: valid in the versions from since to before until.
    "CREATE TABLE replaced (number INTEGER PRIMARY KEY, since INTEGER NOT NULL, "
    "until INTEGER NOT NULL)",
    # last: the largest number of a row. keys, digest: how many keys there are, and the sum of the
    # marks of their newest rows, modulo 2**64.
    "CREATE TABLE versions (version INTEGER PRIMARY KEY, last INTEGER NOT NULL, "
    "keys INTEGER NOT NULL, digest TEXT NOT NULL)",
    # Versions that no snapshot names any more. Rows with a number above `done` that were replaced
    # up to the version `upto` can be removed.
    "CREATE TABLE dropped (done INTEGER NOT NULL, upto INTEGER NOT NULL)",
    "CREATE TABLE newest (version INTEGER NOT NULL)",  # that was ever committed
    "INSERT INTO newest VALUES (0)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {LAYOUT}",
)
_NEWEST = "SELECT number, version, mark FROM rows WHERE name = ? ORDER BY version DESC LIMIT 1"
_ROW = "SELECT mark, row FROM rows WHERE name = ? ORDER BY version DESC LIMIT 1"
_ALL = "SELECT name, version, mark, row FROM rows INDEXED BY by_name ORDER BY name, version"
_REPLACED = "SELECT number, since, until FROM replaced WHERE number > ? ORDER BY number LIMIT ?"


class KeyFiles:
    """The rows of the shard that this process owns. It implements `KeyStore` of `stream.keyed`.

    One object serves all recoveries of a process. Only one shard uses it at a time.
    """

    def __init__(self) -> None:
        self._directory = Path()
        self._named: Callable[[], set[tuple[str, int]]] = set
        self._db: sqlite3.Connection | None = None
        self._id = ""
        self._version = 1  # that the rows which are put belong to
        self._last = self._digest = 0
        self.keys = 0

    def place(self, directory: Path, named: Callable[[], set[tuple[str, int]]]) -> None:
        """Where the files are from now on.

        Parameters
        ----------
        directory
            That of the snapshots. It is created when missing.
        named
            Returns file and version of each snapshot that exists.
        """
        if directory != self._directory:
            self.close()
        self._directory, self._named = directory, named

    @property
    def size(self) -> int:
        """Bytes of the file, with those that are not moved into it yet."""
        found = 0
        if self._db is None:
            return 0
        for ending in ("", "-wal"):
            with suppress(OSError):
                found += os.stat(f"{_path(self._directory, self._id)}{ending}").st_size
        return found

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The newest row of each key; None for a key without a row.

        Raises
        ------
        TransportError
            The file cannot be read, or a row is damaged. A restart verifies all of it.
        """
        out: list[bytes | None] = []
        with self._errors() as db:
            self._tidy(db)
            for key in keys:
                name = _name(key)
                found = db.execute(_ROW, (name,)).fetchone()
                if found is not None and found[0] != _mark(name, found[1]):
                    raise TransportError(f"{self._path}: the row of a key is damaged")
                out.append(None if found is None else found[1])
        return out

    def put(self, keys: Sequence[str], rows: Sequence[bytes]) -> None:
        """Store the newest row of each key, in the next version.

        Raises
        ------
        TransportError
            The file cannot be written.
        """
        with self._errors() as db:
            fresh, replaced, again = [], [], []
            named = ((_name(key), row) for key, row in zip(keys, rows, strict=True))
            for name, row in sorted(named):  # neighbours in the index are on the same page
                mark = _mark(name, row)
                number, version, before = db.execute(_NEWEST, (name,)).fetchone() or (0, 0, 0)
                self._digest = (self._digest + mark - before) % WRAP
                self.keys += number == 0
                if version == self._version:
                    again.append((mark, row, number))
                    continue
                self._last += 1
                fresh.append((self._last, name, self._version, mark, row))
                if number:
                    replaced.append((number, version, self._version))
            db.executemany("UPDATE rows SET mark = ?, row = ? WHERE number = ?", again)
            db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", fresh)
            db.executemany("INSERT INTO replaced VALUES (?, ?, ?)", replaced)

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their newest rows."""
        with self._errors() as db:
            yield from _newest(db, self._version)

    def commit(self) -> Mapping[str, Any]:
        """Make what was put durable, as one more version. Returns its name for `restore`.

        Raises
        ------
        TransportError
            The file cannot be written.
        """
        version, digest, named = self._version, f"{self._digest:016x}", self._named()
        with self._errors() as db:
            self._drop(db, {v for store, v in named if store == self._id})
            found = (version, self._last, self.keys, digest)
            db.execute("INSERT INTO versions VALUES (?, ?, ?, ?)", found)
            db.execute("UPDATE newest SET version = ?", (version,))
            reach("keys_pre_commit")
            db.execute("COMMIT")
            reach("keys_post_commit")
            db.execute("BEGIN IMMEDIATE")
        self._version += 1
        self._remove({store for store, _ in named} | {self._id})
        return {"file": self._id, "version": version, "keys": self.keys, "digest": digest}

    def restore(self, point: Mapping[str, Any] | None) -> None:
        """Return to a version, and verify every row of it; None: begin a new file.

        Raises
        ------
        StateError
            The file is missing, damaged or in use, or does not have the version.
        """
        self.close()
        if point is None:
            self._version, self._last, self._digest, self.keys = 1, 0, 0, 0
            self._create()
            return
        with _state_errors(path := _path(self._directory, point["file"])):
            db = _opened(path, "rw")
            try:
                db.execute("BEGIN IMMEDIATE")
                last = _check(db, point)
                db.execute("DELETE FROM rows WHERE number > ?", (last,))
                for table, column in (("replaced", "until"), ("versions", "version")):
                    query = f"DELETE FROM {table} WHERE {column} > ?"  # noqa: S608  names of this file
                    db.execute(query, (point["version"],))
                for _ in _verified(db, point):
                    pass
                (newest,) = db.execute("SELECT version FROM newest").fetchone()
            except BaseException:
                db.close()
                raise
        self._db, self._id, self._version, self._last = db, point["file"], newest + 1, last
        self.keys, self._digest = point["keys"], int(point["digest"], 16)

    def close(self) -> None:
        """Discard what was put since the last commit, and close the file."""
        db, self._db = self._db, None
        if db is not None:
            with suppress(*DAMAGED):
                db.execute("ROLLBACK")
            db.close()

    @property
    def _path(self) -> Path:
        return _path(self._directory, self._id)

    def _create(self) -> None:
        """A new file without rows."""
        self._id = uuid4().hex[:16]
        try:
            make_directory(self._directory)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            db = _opened(self._path, "rw")
            db.execute("PRAGMA journal_mode = WAL")
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("BEGIN IMMEDIATE")
        except (OSError, sqlite3.Error) as error:
            raise TransportError(f"cannot create {self._path}: {error}") from None
        self._db = db

    @contextmanager
    def _errors(self) -> Iterator[sqlite3.Connection]:
        if self._db is None:
            raise TransportError("the file of keys is closed")
        try:
            yield self._db
        except DAMAGED as error:
            raise TransportError(f"{self._path}: {error}") from None

    def _drop(self, db: sqlite3.Connection, named: set[int]) -> None:
        """Note which versions no snapshot names. Snapshots of the last two may yet be written."""
        last = dict(db.execute("SELECT version, last FROM versions"))
        known = sorted(last)
        kept = sorted((named & set(known)) | set(known[-2:]) | {self._version})
        gone = set()
        for version in set(known) - set(kept):
            above = max((v for v in kept if v < version), default=0)
            gone.add((last.get(above, 0), min(v for v in kept if v > version)))
            db.execute("DELETE FROM versions WHERE version = ?", (version,))
        db.executemany("INSERT INTO dropped VALUES (?, ?)", sorted(gone))
        while db.execute("SELECT count(*) FROM dropped").fetchone()[0] > MOST_DROPPED:
            self._tidy(db)

    def _tidy(self, db: sqlite3.Connection) -> None:
        """Remove some rows that are valid only in versions that no snapshot names."""
        interval = db.execute("SELECT rowid, done, upto FROM dropped LIMIT 1").fetchone()
        if interval is None:
            return
        rowid, done, upto = interval
        found = db.execute(_REPLACED, (done, AT_ONCE)).fetchall()
        gone = [(number,) for number, since, until in found if until <= upto]
        reach("keys_mid_vacuum")
        for table in ("rows", "replaced"):
            query = f"DELETE FROM {table} WHERE number = ?"  # noqa: S608  names of this file
            db.executemany(query, gone)
        if len(found) < AT_ONCE or found[-1][1] >= upto:
            db.execute("DELETE FROM dropped WHERE rowid = ?", (rowid,))
        else:
            db.execute("UPDATE dropped SET done = ? WHERE rowid = ?", (found[-1][0], rowid))

    def _remove(self, kept: set[str]) -> None:
        """Remove the files of which no snapshot names a version."""
        for path in self._directory.glob("keys-*.db"):
            if path.name[5:21] not in kept and not _in_use(path):
                for ending in ("", "-wal", "-shm"):
                    with suppress(OSError):
                        os.unlink(f"{path}{ending}")


class KeyReader:
    """The rows of a version, for a learner that has all keys in memory. Writes nothing.

    Parameters
    ----------
    directory
        Where the files are.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rows: list[tuple[str, bytes]] = []

    def check(self, point: Mapping[str, Any]) -> None:
        """Check that a version exists. Its rows are not read.

        Raises
        ------
        StateError
            The file is missing or cannot be read, or does not have the version.
        """
        path = _path(self._directory, point["file"])
        with _state_errors(path), closing(_opened(path, "ro")) as db:
            _check(db, point)

    def restore(self, point: Mapping[str, Any] | None) -> None:
        """Read and verify a version; see `KeyFiles.restore`."""
        self._rows = []
        if point is None:
            return
        path = _path(self._directory, point["file"])
        with _state_errors(path), closing(_opened(path, "ro")) as db:
            db.execute("BEGIN")
            _check(db, point)
            self._rows = list(_verified(db, point))

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their rows, once."""
        rows, self._rows = self._rows, []
        yield from rows


def _path(directory: Path, name: str) -> Path:
    if not FILE.fullmatch(name):
        raise StateError("expected the name of a file of keys")
    return directory / f"keys-{name}.db"


def _name(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _mark(name: bytes, row: bytes) -> int:
    found = blake2b(b"%d:%b%b" % (len(name), name, row), digest_size=8)
    return int.from_bytes(found.digest(), "little", signed=True)


def _opened(path: Path, mode: str, seconds: float | None = None) -> sqlite3.Connection:
    url = f"file:{quote(str(path))}?mode={mode}"
    seconds = BUSY_SECONDS if seconds is None else seconds
    db = sqlite3.connect(
        url, uri=True, timeout=seconds, isolation_level=None, check_same_thread=False
    )
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _in_use(path: Path) -> bool:
    """Whether a process writes the file: one that took the shard over, or that was fenced."""
    try:
        with closing(_opened(path, "rw", 0.0)) as db:
            db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return path.exists()
    except DAMAGED:
        return False
    return False


@contextmanager
def _state_errors(path: Path) -> Iterator[None]:
    """Any error as a StateError of one line: the snapshot cannot be used."""
    try:
        yield
    except DAMAGED as error:
        why = "does not exist" if not path.exists() else f"cannot be read ({error})"
        raise StateError(f"the file of its keys, {path.name}, {why}") from None


def _check(db: sqlite3.Connection, point: Mapping[str, Any]) -> int:
    """The last row of a version. StateError: the file does not have it."""
    for pragma, expected in (("application_id", APPLICATION), ("user_version", LAYOUT)):
        (found,) = db.execute(f"PRAGMA {pragma}").fetchone()
        if found != expected:
            raise StateError("the file of its keys is of another program or version")
    query = "SELECT last, keys, digest FROM versions WHERE version = ?"
    found = db.execute(query, (point["version"],)).fetchone()
    if found is None or found[1:] != (point["keys"], point["digest"]):
        raise StateError(f"the file of its keys no longer has version {point['version']}")
    return int(found[0])


def _newest(db: sqlite3.Connection, version: int) -> Iterator[tuple[str, bytes]]:
    """The newest row of each key up to a version, with its mark verified, by name."""
    last: tuple[bytes, bytes] | None = None
    for name, since, mark, row in db.execute(_ALL):
        if since > version:
            continue
        if mark != _mark(name, row) or (last is not None and name < last[0]):
            raise StateError("the file of its keys is damaged")
        if last is not None and name != last[0]:
            yield last[0].decode("utf-8", "surrogatepass"), last[1]
        last = name, row
    if last is not None:
        yield last[0].decode("utf-8", "surrogatepass"), last[1]


def _verified(db: sqlite3.Connection, point: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """`_newest`. StateError at the end: keys are missing, or rows were changed."""
    keys = digest = 0
    for key, row in _newest(db, point["version"]):
        keys, digest = keys + 1, (digest + _mark(_name(key), row)) % WRAP
        yield key, row
    if (keys, f"{digest:016x}") != (point["keys"], point["digest"]):
        raise StateError("the file of its keys is damaged: rows are missing or were changed")


def keyed_learner(shard: Shard) -> PerKeyNB | None:
    """The learner of [model], if its keys are on disk or may be."""
    learner = shard.learner
    return learner if isinstance(learner, PerKeyNB) and learner.keys_on_disk else None


def give_keys(shard: Shard, keys: KeyFiles | None, directory: Path | None) -> None:
    """Let a shard keep its keys in files, if this process owns it, or read those of snapshots.

    Parameters
    ----------
    keys
        The files of the owner; None for others.
    directory
        Where the snapshots are; None: none is read.
    """
    learner = keyed_learner(shard)
    if learner is None:
        return
    if keys is not None:
        learner.keep_in(keys)
    elif directory is not None:
        learner.read_from(KeyReader(directory))


def saved_state(shard: Shard) -> State:
    """The state of a shard for a snapshot. Keys on disk are committed, and stay there.

    Raises
    ------
    TransportError
        The file of keys cannot be written.
    """
    learner = keyed_learner(shard)
    if learner is None:
        return shard.to_state()
    with learner.rows_in_store():
        return shard.to_state()


def stored_point(state: State) -> dict[str, Any] | None:
    """The file of keys and the version that the state of a shard names; None: it has all keys."""
    found: Any = state.header
    for part in ("machine", "learner", "inner", "keys", "stored", "point"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else None
