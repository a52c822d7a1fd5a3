"""Processes of a killed `run --processes`, which nobody stops any more.

Rule: an orphan owns nothing. It sees that its parent is gone before it takes a shard. But it may be
held between its look and the taking, and would fence its successor as soon as it continues. So a
start ends the orphans of its host first.

Each run has a file, in which the parent holds a lock on one byte and each child on another one. The
system releases a lock when a process ends, however it ends, and names the process that holds one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import struct
import sys
import threading
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from uuid import uuid4

from consumers.config import Config
from consumers.snapshots.places import make_directory
from consumers.snapshots.store import home

__all__ = ["PARENT", "RunFile", "StopWithParent", "end_orphans", "hold"]

log = logging.getLogger("headwater")

PATTERN = "run-*.lock"
PARENT = 0  # the byte that the parent locks; the n-th child locks byte n
_LOCK = struct.Struct("hhqqi4x")  # struct flock of Linux on 64 bits


class StopWithParent(threading.Event):
    """Is set when the process is asked to stop, or when the process that started it has ended.

    It asks the system each time, because after a SIGSTOP no thread may have noticed yet.
    """

    def __init__(self) -> None:
        super().__init__()
        parent = parent_process()
        self._parent = os.getppid() if parent is None or parent.pid is None else parent.pid

    def is_set(self) -> bool:
        """Whether to stop."""
        if os.getppid() != self._parent:
            self.set()
        return super().is_set()


class RunFile:
    """The file of a run. Without a directory that can be written nothing is locked.

    Parameters
    ----------
    config
        The whole configuration.
    """

    def __init__(self, config: Config) -> None:
        self.path = _directory(config) / f"run-{uuid4().hex}.lock"
        new = self.path.with_suffix(".new")  # nobody finds it before it is locked
        self._held: int | None = None
        with suppress(OSError):
            make_directory(self.path.parent)
            self._held = hold(new, PARENT, os.O_CREAT | os.O_EXCL)
            new.rename(self.path)

    def remove(self) -> None:
        """Remove it, when all children have ended."""
        with suppress(OSError):
            self.path.unlink()
        if self._held is not None:
            os.close(self._held)
            self._held = None


def hold(path: Path, place: int, flags: int = 0) -> int:
    """Lock a byte of the file of a run until this process ends; the descriptor. OSError."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    return file


def end_orphans(config: Config) -> None:
    """End the children of earlier runs on this host whose parent has ended.

    By SIGKILL, which loses nothing that is committed, and also ends a process that is stopped.
    """
    if sys.platform != "linux":
        return
    for path in sorted(_directory(config).glob(PATTERN)):
        with suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _holder(file, PARENT, 1) is None and _end_children(file):
                    path.unlink()
            finally:
                os.close(file)


def _directory(config: Config) -> Path:
    """Where the files of the runs of a service are: beside the snapshots of its shards."""
    return home(config, 0).parent


def _end_children(file: int) -> bool:
    """End who holds a lock, one after the other; False if one cannot be ended."""
    while (found := _holder(file, PARENT, 0)) is not None:
        child, place = found
        if child <= 0:  # it cannot be seen: in another container
            return False
        os.kill(child, signal.SIGKILL)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)  # waits until it has ended
        log.warning("ended process %d, which a killed run --processes had left", child)
    return True


def _holder(file: int, start: int, length: int) -> tuple[int, int] | None:
    """The process that holds a lock on these bytes, and which byte; all bytes for length 0."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind, _, place, _, process = _LOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else (process, place)
