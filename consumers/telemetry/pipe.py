"""Lines to a stream that nobody may be reading.

Rule: a log must never stop the service it is about. A pipe whose reader sleeps takes 64 KiB and
then blocks whoever writes: the start, the loop, the end after SIGTERM. So what has no room within
a second is lost and counted, and until there is room again nothing waits any more.
"""

from __future__ import annotations

import logging
import os
import select
from typing import TextIO

__all__ = ["LinesHandler", "PatientWriter"]

PATIENCE_MS = 1000
AT_ONCE = 4096  # bytes a pipe takes whole where it takes any (PIPE_BUF)


class PatientWriter:
    """Writes lines, or counts those for which there is no room.

    Parameters
    ----------
    stream
        Where to; one without a file, as in a test, is written to as it is.

    Attributes
    ----------
    lost : int
        Lines that were lost since the last that was written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        self._cut = False  # in the middle of a line

    def write(self, line: str) -> bool:
        """Write a line and its end; whether all of it was written."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError, AttributeError):
            self._stream.write(line + "\n")
            return True
        self._stream.flush()
        encoding = self._stream.encoding or "utf-8"
        left = ("\n" * self._cut + line + "\n").encode(encoding, "backslashreplace")
        while left:
            if not self._room(descriptor):
                self.lost += 1
                return False
            try:
                left = left[os.write(descriptor, left[:AT_ONCE]) :]
            except OSError:  # nobody reads it any more, or its disk is full
                self.lost += 1
                return False
            self._cut = bool(left)
        self.lost = 0
        return True

    def _room(self, descriptor: int) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(0 if self.lost else PATIENCE_MS))


class LinesHandler(logging.Handler):
    """The log, on a stream: after lines that were lost it says how many."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._writer = PatientWriter(stream)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of an event."""
        try:
            lost = self._writer.lost
            if self._writer.write(self.format(record)) and lost:
                self._writer.write(self.format(_lost(lost)))
        except Exception:
            self.handleError(record)


def _lost(lines: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": "headwater",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "%d lines of the log before this were lost: nobody read them",
            "args": (lines,),
        }
    )
