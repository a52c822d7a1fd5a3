"""One life of a service: started, and killed at a point of its work or at any time.

A *trap* is a point that a life reaches, such as its third commit or its seventh fsync, and the life
ends there. Rule: a service that is to be killed is a fork of this process, which has imported and
loaded everything and has no other threads: so a life costs what it does, and not a start of Python.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from consumers.base import failpoints
from consumers.transports.kafka.log import KafkaLog
from consumers.transports.kafka.owner import KafkaOwner
from consumers.transports.sqlite.log import SqliteLog, SqliteOwner
from headwater.cli import main
from tests.waiting import PATIENCE
from tests.worlds.power import Disk

__all__ = ["Ended", "Fork", "KilledError", "Trap", "called", "set_trap"]

CALLS = {
    "commit": (SqliteOwner, KafkaOwner),
    "append": (SqliteLog, KafkaLog),
}
SERVICE = [
    point for point in failpoints.POINTS if not point.startswith(("import", "relearn", "reshard"))
]
ELSEWHERE = ("sync", "snap", "keys")  # points that are met in C, or in another thread
LOOK_SECONDS = 0.005


class KilledError(BaseException):
    """A life that runs in this process has ended."""


class Trap(NamedTuple):
    """A point, and for which time it is reached when the life ends there."""

    point: str
    times: int

    def __str__(self) -> str:
        return f"{self.point}@{self.times}"

    @staticmethod
    def drawn(random: Random, *, power: bool, command: str = "") -> Trap:
        """Any point of a service or command; where power may be cut, mostly beside an fsync."""
        sides = ("before", "after")
        if power and random.random() < 0.7:
            return Trap(f"sync {random.choice(sides)}", random.randint(1, 15 if command else 40))
        if command:
            own = [point for point in failpoints.POINTS if point.startswith(command)]
            commits = [f"commit {side}" for side in sides]
            return Trap(random.choice([*own, *own, *commits]), random.randint(1, 2))
        points = [*SERVICE, *(f"{call} {side}" for call in CALLS for side in sides)]
        return Trap(random.choice(points), 1 if random.random() < 0.3 else random.randint(1, 12))


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    said: str

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL


@contextmanager
def set_trap(trap: Trap | None, end: Callable[[str], None], disk: Disk | None) -> Iterator[None]:
    """Call `end` with the point where the trap is met, in the block, and with each later one."""
    if trap is None:
        yield
        return
    left = [trap.times]

    def met(point: str) -> None:
        left[0] -= point == trap.point
        if left[0] <= 0:
            end(point)

    with ExitStack() as stack:
        for name, kinds in CALLS.items():
            for kind in kinds:
                stack.enter_context(patch.object(kind, name, _met(getattr(kind, name), name, met)))
        stack.enter_context(patch.object(failpoints, "_armed", {"any": None}))
        stack.enter_context(patch.object(failpoints, "_act", met))
        if disk is not None:
            stack.enter_context(patch.object(disk, "synced", _met(disk.synced, "sync", met)))
        yield


def _met(call: Callable[..., Any], name: str, met: Callable[[str], None]) -> Callable[..., Any]:
    def between(*args: Any, **options: Any) -> Any:
        met(f"{name} before")
        out = call(*args, **options)
        met(f"{name} after")
        return out

    return between


class Fork:
    """`headwater …` in a fork of this process.

    Parameters
    ----------
    words
        The command.
    said
        The file of what it says.
    trap
        Where it kills itself.
    disk
        The disk that is watched, if one is.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        said: Path,
        *,
        trap: Trap | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._said, self._code = said, None
        self._forked(lambda: _run(words, trap, disk))

    @classmethod
    def of(cls, work: Callable[[], object], said: Path) -> Fork:
        """Any function, in a fork of this process."""
        made = cls.__new__(cls)
        made._said, made._code = said, None
        made._forked(lambda: work() and 0)
        return made

    def _forked(self, work: Callable[[], Any]) -> None:
        self._code: int | None
        self._pid = os.fork()
        if self._pid:
            return
        code = 70
        try:
            os.setsid()  # with the processes that it starts it is a group
            out = os.open(self._said, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (out, 2)):
                os.dup2(source, target)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            code = int(work() or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self._said.read_text(errors="replace") if self._said.exists() else ""

    def poll(self) -> Ended | None:
        """How it ended; None while it runs."""
        if self._code is None:
            found, status = os.waitpid(self._pid, os.WNOHANG)
            if not found:
                return None
            self._code = os.waitstatus_to_exitcode(status)
        return Ended(self._code, self.said)

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
        """Wait until something holds, it ends, or the time is over; whether it runs."""
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if condition() or time.monotonic() >= deadline:
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def end(self, seconds: float = PATIENCE) -> Ended:
        """Wait for its end; kill it after this time."""
        self.until(lambda: False, seconds)
        return self.kill()

    def kill(self, *, group: bool = False) -> Ended:
        """Kill it by SIGKILL, with `group` also what it has started; how it ended."""
        found = self.poll()
        if found is None:
            os.kill(self._pid, signal.SIGKILL)
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        while found is None:
            time.sleep(LOOK_SECONDS)
            found = self.poll()
        return found


def _run(words: Sequence[str | Path], trap: Trap | None, disk: Disk | None) -> int:
    logging.disable(logging.NOTSET)
    with set_trap(trap, lambda point: os.kill(os.getpid(), signal.SIGKILL), disk):
        return main([str(word) for word in words])


def called(work: Callable[[], object], trap: Trap | None, disk: Disk | None) -> Ended:
    """The same life in this process: it ends by an exception, and nothing is durable from then on.

    Not where SQLite fsyncs, nor in the thread that writes snapshots: it ends at the next point.
    """
    over = [False]

    def end(point: str) -> None:
        over[0] = True
        if disk is not None:
            disk.cut()
        if not point.startswith(ELSEWHERE):
            raise KilledError

    with set_trap(trap, end, disk), suppress(KilledError):
        work()
    return Ended(-signal.SIGKILL if over[0] else 0, "")
