"""A disk that loses power: what was not fsynced may be gone, file by file and entry by entry.

While `Disk.installed`, each fsync of this process and of its forks, by Python or by SQLite, keeps
a copy of what is durable then: the bytes of a file, or the entries of a directory. `settle` puts
back what a disk may hold when the power returns. A file that was never fsynced may be empty, and
one whose directory was not may be absent; a directory keeps all entries that it had at its last
fsync, or has all that it has now. Nothing is fsynced for real.

SQLite calls fsync in C, so it gets another file system, a copy of its own one whose `xSync` is
watched, and whose `openDirectory` tells which directory it fsyncs. Its files are read by its own
descriptors: closing another one would drop the locks that this process has on the file, and another
process would take it for unused. The inode of a copied file is held by a link, so that no other
file gets its number.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

__all__ = ["Disk"]

SECTOR = 512  # bytes that are on the disk as a whole or not at all


class Disk:
    """The files below a directory.

    Parameters
    ----------
    root
        What may be lost. All of it is durable at first.
    shadow
        A directory of its own on the same file system, for what is durable.

    Attributes
    ----------
    last : Path
        After a cut, the files as processes saw them last.
    """

    def __init__(self, root: Path, shadow: Path) -> None:
        self.root, self._shadow = root, shadow
        self.last = shadow.with_name(f"{shadow.name}-last")
        self._off = False
        self.syncs = 0
        self._durable()

    def _durable(self) -> None:
        """Everything that is there is durable."""
        shutil.rmtree(self._shadow, ignore_errors=True)
        for name in ("bytes", "links", "entries"):
            (self._shadow / name).mkdir(parents=True)
        for directory, _, files in os.walk(self.root):
            self.synced(Path(directory))
            for name in files:
                self.synced(Path(directory, name))

    def synced(self, path: Path, readable: Path | None = None, data: bytes | None = None) -> None:
        """A file or directory was fsynced. `readable`: another name of it. `data`: its bytes."""
        if self._off or not path.is_relative_to(self.root):
            return
        self.syncs += 1
        with self._locked():
            try:
                number = os.stat(readable or path).st_ino
                if (readable or path).is_dir():
                    self._keep("entries", number, json.dumps(_entries(path)).encode())
                    return
                content = (readable or path).read_bytes() if data is None else data
                self._keep("bytes", number, content)
                if not (self._shadow / "links" / str(number)).exists():
                    os.link(path, self._shadow / "links" / str(number))
            except FileNotFoundError:  # it was removed before it was fsynced
                return

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only one of the processes."""
        file = os.open(self._shadow / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def _keep(self, what: str, number: int, data: bytes) -> None:
        new = self._shadow / f"{what}-{number}.new"  # a process may be killed meanwhile
        new.write_bytes(data)
        new.replace(self._shadow / what / str(number))

    def cut(self) -> None:
        """The power is off, if it was not: nothing is durable any more."""
        if not self._off:
            self._off = True
            shutil.copytree(self.root, self.last)

    def settle(self, random: Random | None = None) -> None:
        """The power is back. Every process that used the files has ended.

        Parameters
        ----------
        random
            Decides what survives although it was not fsynced; None: nothing does.
        """
        self.cut()
        there = {os.stat(self.root).st_ino: self.root}
        for directory, folders, files in os.walk(self.root):
            paths = (Path(directory, name) for name in (*folders, *files))
            there |= {os.stat(path).st_ino: path for path in paths}
        new = self._shadow / "settled"
        self._restore(os.stat(self.root).st_ino, new, there, random)
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in new.iterdir():
            path.rename(self.root / path.name)
        shutil.rmtree(self.last)
        self._off = False
        self._durable()

    def _restore(
        self, number: int, target: Path, there: dict[int, Path], random: Random | None
    ) -> None:
        """A directory, by its number, as it may be now."""
        target.mkdir(mode=0o700)
        known, path = self._shadow / "entries" / str(number), there.get(number)
        durable = json.loads(known.read_bytes()) if known.exists() else {}
        if random is not None and path is not None and random.random() < 0.5:
            durable = _entries(path)
        for name, (inner, folder) in durable.items():
            if folder:
                self._restore(inner, target / name, there, random)
                continue
            (target / name).write_bytes(self._content(inner, there.get(inner), random))
            (target / name).chmod(0o600)

    def _content(self, number: int, path: Path | None, random: Random | None) -> bytes:
        """The bytes of a file: those of its last fsync, those it had, or some of each."""
        known, link = (self._shadow / name / str(number) for name in ("bytes", "links"))
        durable = known.read_bytes() if known.exists() else b""
        last = path if path is not None else link
        if random is None or not last.exists() or random.random() < 0.4:
            return durable
        there = last.read_bytes()
        if random.random() < 0.4:
            return there
        kept = random.choice((durable, there))[: min(len(durable), len(there))]
        sectors = range(0, len(kept), SECTOR)
        mixed = b"".join(random.choice((durable, there))[at : at + SECTOR] for at in sectors)
        more = there[len(kept) :]  # is written in its order, but its length may be known before
        cut = random.randint(0, len(more))
        zeros = b"\0" * (len(more) - cut) if random.random() < 0.5 else b""
        return mixed[: len(kept)] + more[:cut] + zeros

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Watch the fsyncs of this process, and of what it forks."""

        def fsync(file: Any) -> None:
            descriptor = file if isinstance(file, int) else file.fileno()
            opened = Path(f"/proc/self/fd/{descriptor}")
            self.synced(opened.readlink(), opened)

        def check(path: Path, data: bytes | None = None) -> None:
            self.synced(path, data=data)

        with patch.object(os, "fsync", fsync), patch.object(os, "fdatasync", fsync), _sqlite(check):
            yield


def _entries(path: Path) -> dict[str, tuple[int, bool]]:
    """Number of each entry of a directory, and whether it is a directory."""
    with os.scandir(path) as found:
        return {each.name: (each.stat().st_ino, each.is_dir()) for each in found}


# SQLite, by its C interface: https://www.sqlite.org/c3ref/vfs.html and …/c3ref/io_methods.html.


class _Methods(Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = [("version", c_int)] + [
        (name, c_void_p)
        for name in (
            "close", "read", "write", "truncate", "sync", "size", "lock", "unlock", "check_lock",
            "control", "sector_size", "characteristics", "shm_map", "shm_lock", "shm_barrier",
            "shm_unmap", "fetch", "unfetch",
        )
    ]  # fmt: skip


class _File(Structure):
    """`sqlite3_file`."""

    _fields_ = [("methods", POINTER(_Methods))]


class _System(Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = [
        ("version", c_int), ("file_size", c_int), ("path_size", c_int), ("next", c_void_p),
        ("name", c_char_p), ("data", c_void_p), ("open", c_void_p),
    ] + [
        (name, c_void_p)
        for name in (
            "delete", "access", "full_path", "dl_open", "dl_error", "dl_sym", "dl_close",
            "randomness", "sleep", "time", "last_error", "time_ms", "set_call", "get_call",
            "next_call",
        )
    ]  # fmt: skip


# SQLite keeps the address of a name, so it gets the one that it gave.
_OPEN = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(_File), c_int, POINTER(c_int))
_SYNC = ctypes.CFUNCTYPE(c_int, POINTER(_File), c_int)
_SIZE = ctypes.CFUNCTYPE(c_int, POINTER(_File), POINTER(c_int64))
_READ = ctypes.CFUNCTYPE(c_int, POINTER(_File), c_void_p, c_int, c_int64)
_OPEN_DIRECTORY = ctypes.CFUNCTYPE(c_int, c_char_p, POINTER(c_int))
_GET_CALL = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p)
_SET_CALL = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)
_kept: list[Any] = []  # what SQLite may still call


def _bytes_of(file: Any) -> bytes:
    """The bytes of a file of SQLite."""
    methods, size = file.contents.methods.contents, c_int64()
    if _SIZE(methods.size)(file, byref(size)):
        raise OSError("SQLite does not know the size of its file")
    data = ctypes.create_string_buffer(size.value)
    if size.value and _READ(methods.read)(file, data, size.value, 0):
        raise OSError("SQLite cannot read its file")
    return data.raw


@contextmanager
def _sqlite(synced: Callable[..., None]) -> Iterator[None]:
    """Let SQLite use a file system that calls `synced` for each file, with its bytes, and directory
    it fsyncs.

    Raises
    ------
    RuntimeError
        The functions of SQLite are hidden in this Python.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    try:
        find, register, unregister = (
            getattr(library, f"sqlite3_vfs_{name}") for name in ("find", "register", "unregister")
        )
    except AttributeError:
        raise RuntimeError("this Python hides SQLite's interface in C: use another") from None
    find.restype = POINTER(_System)
    with closing(sqlite3.connect(":memory:")):  # its own file systems are there then
        own = find(None)
    system = _System.from_buffer_copy(own.contents)
    system.name = b"watched"
    opens = _OPEN(own.contents.open)
    paths: dict[int, Path] = {}
    watched: dict[int, Any] = {}  # address of the methods of a kind of file to those with our sync

    def sync(file: Any, flags: int) -> int:
        address = ctypes.addressof(file.contents)
        code = watched[address][1](file, flags)
        if not code and address in paths:
            synced(paths[address], _bytes_of(file))
        return int(code)

    ours = _SYNC(sync)

    def open_(vfs: Any, name: int | None, file: Any, flags: int, out: Any) -> int:
        code = opens(vfs, name, file, flags, out)
        if code or not name or not file.contents.methods:
            return int(code)
        methods = _Methods.from_buffer_copy(file.contents.methods.contents)
        address = ctypes.addressof(file.contents)
        watched[address] = methods, _SYNC(methods.sync)
        methods.sync = ctypes.cast(ours, c_void_p)
        paths[address] = Path(os.fsdecode(ctypes.string_at(name)))
        file.contents.methods = ctypes.pointer(methods)
        return 0

    own_directory = _GET_CALL(own.contents.get_call)(
        ctypes.addressof(own.contents), b"openDirectory"
    )
    opens_directory = _OPEN_DIRECTORY(own_directory)

    def open_directory(name: bytes, out: Any) -> int:
        synced(Path(os.fsdecode(name)).parent)
        return int(opens_directory(name, out))

    calls = [_OPEN(open_), ours, _OPEN_DIRECTORY(open_directory)]
    system.open = ctypes.cast(calls[0], c_void_p)
    set_call = _SET_CALL(own.contents.set_call)
    set_call(ctypes.addressof(own.contents), b"openDirectory", ctypes.cast(calls[2], c_void_p))
    _kept.append((system, calls, watched))
    register(byref(system), 1)
    try:
        yield
    finally:
        unregister(byref(system))
        register(own, 1)
        set_call(ctypes.addressof(own.contents), b"openDirectory", own_directory)
