"""Standard input as a file: its beginning can be read several times, the rest once.

Rule: nothing waits for the end, or for more than is needed. What arrives at first decides what is
guessed. Whenever the next read would wait, the owner of the pipe is called, so that it can write
what it has.
"""

from __future__ import annotations

import io
import os
import select
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO, cast

from consumers.base.errors import ConfigError
from consumers.files.encoding import SAMPLE
from consumers.files.file import File

__all__ = ["STDIN", "Pipe"]

STDIN = "-"  # the name of standard input in a command
FIRST_SECONDS = 0.2  # after the first bytes, in which others are awaited for the guesses
LOOK_SECONDS = 0.2  # between two calls of the owner while nothing arrives
CHUNK = 1 << 16  # bytes of a read: what a pipe holds


def _nothing() -> None:
    """What the owner does while nothing arrives, before it is attached."""


class Pipe:
    """A pipe that is read as a `File`.

    Parameters
    ----------
    descriptor
        The number of the open file.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._waiting: Callable[[], None] = _nothing
        self._guard: AbstractContextManager[object] = nullcontext()
        self.first: bytes | None = None  # whole lines, that arrived first
        self.rest = b""  # of them, the begin of the next line
        self._ended = False
        self.used = False  # whether more than these were read
        self.file = File("standard input", STDIN, self._opened, _failure, live=True)

    def attach(self, waiting: Callable[[], None], guard: AbstractContextManager[object]) -> None:
        """Call `waiting` whenever nothing is there; wait and read inside `guard`."""
        self._waiting, self._guard = waiting, guard

    def begin(self) -> None:
        """Wait until the first line is there, or the end."""
        if self.first is None:
            self.first, self.rest = self._begin()

    def _opened(self) -> BinaryIO:
        if self.used:
            raise ConfigError(
                f"{self.file} can be read only once; write it to a file and give its name"
            )
        self.begin()
        return cast(BinaryIO, _Stream(_View(self), CHUNK))

    def _begin(self) -> tuple[bytes, bytes]:
        """What arrives first: at least a line if there is one, at most as much as is looked at."""
        data, until = bytearray(), time.monotonic() + FIRST_SECONDS
        while len(data) < SAMPLE:
            if b"\n" in data and not self._ready(max(0.0, until - time.monotonic())):
                break
            if not data:
                self._wait()
                until = time.monotonic() + FIRST_SECONDS
            chunk = os.read(self._descriptor, CHUNK)
            if not chunk:
                self._ended = True
                return bytes(data), b""
            data += chunk
        end = data.rfind(b"\n") + 1 or len(data)
        return bytes(data[:end]), bytes(data[end:])

    def read(self) -> bytes:
        """The next bytes, as soon as there are any; empty at the end."""
        if self._ended:
            return b""
        self.used = True
        self._wait()
        with self._guard:
            return os.read(self._descriptor, CHUNK)

    def _wait(self) -> None:
        while not self._ready(0.0):
            self._waiting()
            with self._guard:
                if self._ready(LOOK_SECONDS):
                    return

    def _ready(self, seconds: float) -> bool:
        return bool(select.select([self._descriptor], [], [], seconds)[0])


class _View(io.RawIOBase):
    """A pipe from its beginning."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._pieces = [part for part in (pipe.rest, pipe.first) if part]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._pieces.pop() if self._pieces else self._pipe.read()
        taken = piece[: len(buffer)]
        if len(taken) < len(piece):
            self._pieces.append(piece[len(taken) :])
        buffer[: len(taken)] = taken
        return len(taken)


class _Stream(io.BufferedReader):
    """Returns what is there, also where more was asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return super().read(size)
        return self.read1(size)


def _failure(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
