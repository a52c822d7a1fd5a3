"""Writes lines to a stream that may have no reader.

Rule: the log must never stop the service. A pipe without an active reader takes 64 KiB and then
blocks the writer: the start, the loop, the end after SIGTERM. So a line that finds no room within
one second is dropped and counted. Until there is room again, no later line waits.
"""

from __future__ import annotations

import logging
import os
import select
from typing import TextIO

__all__ = ["LinesHandler", "PatientWriter"]

PATIENCE_MS = 1000
AT_ONCE = 4096  # bytes that a pipe takes as a whole or not at all (PIPE_BUF)


class PatientWriter:
    """Writes lines and counts those that it drops for lack of room.

    Parameters
    ----------
    stream
        The target. A stream without a file, as in a test, is written to directly.

    Attributes
    ----------
    lost : int
        Lines dropped since the last written line.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        self._cut = False  # a line was written in part

    def write(self, line: str) -> bool:
        """Write a line and its end; whether it was written completely."""
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
            except OSError:  # its reader is gone, or the disk is full
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
    """The log handler of a stream; after dropped lines it logs their number."""

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
