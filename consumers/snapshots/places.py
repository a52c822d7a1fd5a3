"""Where snapshots lie: a directory of this host, or any URL that fsspec knows.

A place holds files by name and knows nothing of what is in them. Writing to the directory is:
temporary file, fsync, read again and compare, rename, fsync the directory. A link is never
followed. Every failure of a place is one `SnapshotError`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from consumers.base.errors import ConfigError, SnapshotError, SnapshotsHeldError
from consumers.base.failpoints import reach
from consumers.base.secrets import masked
from consumers.config.units import shown_url

__all__ = ["Directory", "Place", "Remote"]

NAME = re.compile(r"snap-(\d{20})\.hws", re.ASCII)
_LEFT = re.compile(r"\.snap-\d{20}\.hws\.tmp", re.ASCII)
_PART = re.compile(r"[0-9a-f]{16}", re.ASCII)
_CLOSED = os.O_NOFOLLOW | os.O_CLOEXEC


class Place(Protocol):
    """What a store needs of it; `str` of it is how messages call it."""

    def part(self, name: str) -> Place:
        """The place inside this one that belongs to one journal."""

    def parts(self) -> list[str]:
        """The names of the journals that have one."""

    def names(self) -> list[str]:
        """The snapshots, the oldest position first; none where the place is not there yet."""

    def read(self, name: str, end: int | None = None) -> bytes:
        """The bytes of one, up to `end`."""

    def write(self, name: str, data: bytes) -> None:
        """Store one, whole and durably, or not at all."""

    def remove(self, name: str) -> None:
        """Forget one; it is no error when that fails."""


class Directory:
    """A directory of this host, made when missing, readable by its owner only."""

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
        """The files that are called as snapshots are."""
        return sorted(name for name in self._listed() if NAME.fullmatch(name))

    def _listed(self) -> list[str]:
        try:
            return os.listdir(self.root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SnapshotError(f"cannot read {self.root}: {error.strerror or error}") from None

    def read(self, name: str, end: int | None = None) -> bytes:
        """Of a regular file only; a pipe of that name would wait for ever."""
        try:
            descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NONBLOCK | _CLOSED)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise SnapshotError("not a regular file")
                return file.read(-1 if end is None else end)
        except OSError as error:
            raise SnapshotError(f"cannot be read: {error.strerror or error}") from None

    def write(self, name: str, data: bytes) -> None:
        """By a temporary file, so that a name never stands for half a snapshot."""
        path = self.root / name
        temporary = self.root / f".{name}.tmp"
        try:
            _make(self.root)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOSED
            descriptor = os.open(temporary, flags, 0o600)
            try:
                _write(descriptor, data[: len(data) // 2])
                reach("snap_mid_write")
                _write(descriptor, data[len(data) // 2 :])
                reach("snap_pre_fsync")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if self.read(temporary.name) != data:
                raise SnapshotError("it did not read back as it was written")
            reach("snap_pre_rename")
            os.replace(temporary, path)
            reach("snap_post_rename")
            _sync(self.root)
        except (OSError, SnapshotError) as error:
            self.remove(temporary.name)  # a full disk needs the room
            what = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise SnapshotError(f"cannot write {path}: {what}") from None

    def remove(self, name: str) -> None:
        """One file."""
        with contextlib.suppress(OSError):
            os.unlink(self.root / name)

    def tidy(self) -> None:
        """Remove what killed processes left half-written; only the one writer may."""
        for name in self._listed():
            if _LEFT.fullmatch(name):
                self.remove(name)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer on this host; the kernel gives the lock back when a process dies.

        Raises
        ------
        SnapshotError
            Another process is.
        """
        try:
            _make(self.root)
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
                f"another process writes the snapshots in {self.root}; stop it (`fuser` names "
                "it), or give this service another [snapshots] directory"
            ) from None
        try:
            yield
        finally:
            os.close(descriptor)


class Remote:
    """A folder of any file system that fsspec knows, connected to when it is first used.

    Parameters
    ----------
    url
        Where it is.
    below
        The folder in it.
    connection
        Shared by the folders of one URL.
    """

    def __init__(self, url: str, below: str = "", connection: _Connection | None = None) -> None:
        self._url, self._below = url, below
        self._connection = connection or _Connection(url)
        self._shown = f"{shown_url(url).rstrip('/')}{below}"

    @staticmethod
    def at(url: str) -> Remote:
        """The folder a URL names; where it cannot be connected to now, it is tried again later.

        Raises
        ------
        ConfigError
            fsspec, or what it needs for this kind of URL, is not installed.
        """
        shown = shown_url(url)
        try:
            from fsspec.core import split_protocol
            from fsspec.registry import get_filesystem_class
        except ImportError:
            raise ConfigError(
                f"[snapshots] copy_to = {shown!r} needs fsspec, which is not installed; "
                "`pip install 'headwater[remote]'`"
            ) from None
        try:
            for each in url.split("::"):  # one in another: zip::s3://bucket/file.zip
                get_filesystem_class(split_protocol(each)[0] or each)
        except (ImportError, ValueError) as error:
            raise ConfigError(
                f"[snapshots] copy_to = {shown!r} cannot be used ({_line(error)}); "
                "correct the URL, or install the driver fsspec names"
            ) from None
        return Remote(url)

    def __str__(self) -> str:
        return self._shown

    def part(self, name: str) -> Remote:
        """The folder below."""
        return Remote(self._url, f"{self._below}/{name}", self._connection)

    def parts(self) -> list[str]:
        """The folders of journals."""
        return sorted(name for name in self._listed() if _PART.fullmatch(name))

    def names(self) -> list[str]:
        """The objects that are called as snapshots are."""
        return sorted(name for name in self._listed() if NAME.fullmatch(name))

    def _listed(self) -> list[str]:
        with self._told("list"):
            system, root = self._at()
            system.invalidate_cache()  # another host may have written
            try:
                found = system.ls(root, detail=False)
            except FileNotFoundError:
                return []
            return [path.rstrip("/").rpartition("/")[2] for path in found]

    def read(self, name: str, end: int | None = None) -> bytes:
        """The object, or its first bytes."""
        with self._told("read", name):
            system, root = self._at()
            data: bytes = system.cat_file(f"{root}/{name}", start=None, end=end)
            return data

    def write(self, name: str, data: bytes) -> None:
        """At once: what arrives in part is refused by its checksum when it is read."""
        with self._told("write", name):
            system, root = self._at()
            path = f"{root}/{name}"
            system.makedirs(root, exist_ok=True)
            system.pipe_file(path, data)
            system.invalidate_cache()
            size = system.size(path)
            if size != len(data):
                raise SnapshotError(f"expected {len(data)} bytes there, found {size}")

    def remove(self, name: str) -> None:
        """One object."""
        with contextlib.suppress(Exception):
            system, root = self._at()
            system.rm_file(f"{root}/{name}")

    def _at(self) -> tuple[Any, str]:
        """The file system, and the folder in it."""
        system, root = self._connection()
        return system, f"{root}{self._below}"

    @contextlib.contextmanager
    def _told(self, what: str, name: str = "") -> Iterator[None]:
        """Whatever a driver raises as one line."""
        try:
            yield
        except Exception as error:
            where = f"{self._shown}/{name}".rstrip("/")
            raise SnapshotError(f"cannot {what} {where}: {_line(error)}") from None


class _Connection:
    """A file system, made when it is first needed: many connect at once, and may be down."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: tuple[Any, str] | None = None

    def __call__(self) -> tuple[Any, str]:
        if self._made is None:
            from fsspec.core import url_to_fs

            system, root = url_to_fs(self._url)
            self._made = system, root.rstrip("/")
        return self._made


def _line(error: Exception) -> str:
    """An error of a driver in one line, without logins."""
    text = masked(" ".join(str(error).split()))  # before it is cut
    return shown_url(f"{type(error).__name__}: {text}" if text else type(error).__name__)[:300]


def _make(directory: Path) -> None:
    """Make a directory and those above it, so that a power cut does not take them away again."""
    if directory.is_dir():
        return
    _make(directory.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    _sync(directory.parent)


def _write(descriptor: int, data: bytes) -> None:
    """All of it: the system may take less at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
