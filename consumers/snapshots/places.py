"""Where snapshots are stored: a directory of this host, or any URL that fsspec supports.

A place stores files by name and does not know their content. A write to the directory is:
temporary file, fsync, read again and compare, rename, fsync the directory. Symbolic links are never
followed. Every failure of a place is one `SnapshotError`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from consumers.base.errors import SnapshotError, SnapshotsHeldError
from consumers.base.failpoints import reach
from consumers.base.units import shown_url
from consumers.files.places import check_drivers, one_line

__all__ = ["Directory", "Place", "Remote"]

PIECE = 2**20  # bytes that are compared at once
Pieces = Sequence[bytes | memoryview]  # of one file
NAME = re.compile(r"snap-(\d{20})\.hws", re.ASCII)
_LEFT = re.compile(r"\.snap-\d{20}\.hws\.tmp", re.ASCII)
_PART = re.compile(r"[0-9a-f]{16}", re.ASCII)
_CLOSED = os.O_NOFOLLOW | os.O_CLOEXEC


class Place(Protocol):
    """What a store needs of a place. `str` of it is its name in messages."""

    def part(self, name: str) -> Place:
        """The place inside this one for one journal."""

    def parts(self) -> list[str]:
        """The names of the journals that have a place here."""

    def names(self) -> list[str]:
        """The snapshots, the oldest position first. Empty if the place does not exist yet."""

    def read(self, name: str, end: int | None = None) -> bytes:
        """The bytes of a snapshot, up to `end`."""

    def write(self, name: str, parts: Pieces) -> None:
        """Store a snapshot, complete and durable, or not at all."""

    def remove(self, name: str) -> None:
        """Remove a snapshot. A failure is ignored."""


class Directory:
    """A directory of this host. It is created when missing, and only its owner can read it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def part(self, name: str) -> Directory:
        """The directory of one journal."""
        return Directory(self.root / name)

    def parts(self) -> list[str]:
        """The directories of journals."""
        return sorted(name for name in self._listed() if _PART.fullmatch(name))

    def names(self) -> list[str]:
        """The files with the name of a snapshot."""
        return sorted(name for name in self._listed() if NAME.fullmatch(name))

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self.root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SnapshotError(f"cannot read {self.root}: {error.strerror or error}") from None

    def read(self, name: str, end: int | None = None) -> bytes:
        """Read a regular file. Other kinds are refused, because a pipe would block for ever."""
        try:
            descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NONBLOCK | _CLOSED)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise SnapshotError("not a regular file")
                return file.read(-1 if end is None else end)
        except OSError as error:
            raise SnapshotError(f"cannot be read: {error.strerror or error}") from None

    def write(self, name: str, parts: Pieces) -> None:
        """Write to a temporary file first, so that no name refers to an incomplete snapshot."""
        path = self.root / name
        temporary = self.root / f".{name}.tmp"
        try:
            make_directory(self.root)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOSED
            descriptor = os.open(temporary, flags, 0o600)
            try:
                _write(descriptor, parts)
                reach("snap_pre_fsync")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not self._holds(temporary.name, parts):
                raise SnapshotError("the file does not contain the written bytes")
            reach("snap_pre_rename")
            os.replace(temporary, path)
            reach("snap_post_rename")
            _sync(self.root)
        except (OSError, SnapshotError) as error:
            self.remove(temporary.name)  # free the space on a full disk
            what = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise SnapshotError(f"cannot write {path}: {what}") from None

    def _holds(self, name: str, parts: Pieces) -> bool:
        """Whether a file has exactly these bytes. Read piece by piece, because it may be large."""
        with open(os.open(self.root / name, os.O_RDONLY | _CLOSED), "rb") as file:
            for part in parts:
                for at in range(0, len(part), PIECE):
                    wanted = memoryview(part)[at : at + PIECE]
                    if file.read(len(wanted)) != wanted:
                        return False
            return file.read(1) == b""

    def remove(self, name: str) -> None:
        """Remove one file."""
        with contextlib.suppress(OSError):
            os.unlink(self.root / name)

    def tidy(self) -> None:
        """Remove incomplete files of killed processes. Only the single writer may do this."""
        for name in self._listed():
            if _LEFT.fullmatch(name):
                self.remove(name)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer on this host. The kernel releases the lock when a process dies.

        Raises
        ------
        SnapshotError
            Another process is the writer.
        """
        try:
            make_directory(self.root)
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | _CLOSED)
        except OSError as error:
            raise SnapshotError(f"cannot lock {self.root}: {error.strerror or error}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise SnapshotError(f"cannot lock {self.root}: {error.strerror}") from None
            raise SnapshotsHeldError(
                f"another process writes the snapshots in {self.root}; stop it (`fuser` shows its "
                "id), or give this service another [snapshots] directory"
            ) from None
        try:
            yield
        finally:
            os.close(descriptor)


class Remote:
    """A folder of any file system that fsspec supports. It connects at the first use.

    Parameters
    ----------
    url
        The URL of the file system.
    below
        The folder below the URL.
    connection
        Shared by all folders of one URL.
    """

    def __init__(self, url: str, below: str = "", connection: _Connection | None = None) -> None:
        self._url, self._below = url, below
        self._connection = connection or _Connection(url)
        self._shown = f"{shown_url(url).rstrip('/')}{below}"

    @staticmethod
    def at(url: str) -> Remote:
        """The folder of a URL. A file system that does not answer is tried again later.

        Raises
        ------
        ConfigError
            fsspec, or the driver for this kind of URL, is not installed.
        """
        check_drivers(url, f"[snapshots] copy_to = {shown_url(url)!r}")
        return Remote(url)

    def __str__(self) -> str:
        return self._shown

    def part(self, name: str) -> Remote:
        """The folder of one journal."""
        return Remote(self._url, f"{self._below}/{name}", self._connection)

    def parts(self) -> list[str]:
        """The folders of journals."""
        return sorted(name for name in self._listed() if _PART.fullmatch(name))

    def names(self) -> list[str]:
        """The objects with the name of a snapshot."""
        return sorted(name for name in self._listed() if NAME.fullmatch(name))

    def _listed(self) -> list[str]:
        with self._one_error("list"):
            system, root = self._at()
            system.invalidate_cache()  # another host may have written to it
            try:
                found = system.ls(root, detail=False)
            except FileNotFoundError:
                return []
            return [path.rstrip("/").rpartition("/")[2] for path in found]

    def read(self, name: str, end: int | None = None) -> bytes:
        """The object, or its first bytes."""
        with self._one_error("read", name):
            system, root = self._at()
            data: bytes = system.cat_file(f"{root}/{name}", start=None, end=end)
            return data

    def write(self, name: str, parts: Pieces) -> None:
        """Write in one call. The checksum refuses an incomplete object when it is read."""
        with self._one_error("write", name):
            system, root = self._at()
            path = f"{root}/{name}"
            system.makedirs(root, exist_ok=True)
            data = b"".join(parts)
            system.pipe_file(path, data)
            system.invalidate_cache()
            size = system.size(path)
            if size != len(data):
                raise SnapshotError(f"expected {len(data)} bytes, found {size}")

    def remove(self, name: str) -> None:
        """Remove one object."""
        with contextlib.suppress(Exception):
            system, root = self._at()
            system.rm_file(f"{root}/{name}")

    def _at(self) -> tuple[Any, str]:
        """The file system, and the folder in it."""
        system, root = self._connection()
        return system, f"{root}{self._below}"

    @contextlib.contextmanager
    def _one_error(self, what: str, name: str = "") -> Iterator[None]:
        """Turn any error of a driver into a `SnapshotError` of one line."""
        try:
            yield
        except Exception as error:
            where = f"{self._shown}/{name}".rstrip("/")
            raise SnapshotError(f"cannot {what} {where}: {one_line(error)}") from None


class _Connection:
    """A file system, connected at the first use: connecting is slow and may fail."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: tuple[Any, str] | None = None

    def __call__(self) -> tuple[Any, str]:
        if self._made is None:
            from fsspec.core import url_to_fs

            system, root = url_to_fs(self._url)
            self._made = system, root.rstrip("/")
        return self._made


def make_directory(directory: Path) -> None:
    """Create a directory and its parents, durable across a power failure."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    _sync(directory.parent)


def _write(descriptor: int, parts: Pieces) -> None:
    """Write all bytes. The system may accept fewer per call."""
    before, half = 0, sum(map(len, parts)) // 2
    for part in parts:
        left, after = memoryview(part), before + len(part)
        if before <= half < after:
            _write_one(descriptor, left[: half - before])
            reach("snap_mid_write")
            left = left[half - before :]
        _write_one(descriptor, left)
        before = after


def _write_one(descriptor: int, left: memoryview) -> None:
    while left:
        left = left[os.write(descriptor, left) :]


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
