"""Records are written in chunks: of a file at once or paced, of a pipe when they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from consumers.base.records import RECORD_BYTES, record_bytes

if TYPE_CHECKING:
    from consumers.base.records import Outgoing
    from consumers.transports.positions import Positions
    from consumers.transports.protocol import Log

__all__ = ["Appender", "send"]

CHUNK = 5000  # records per append; a commit takes milliseconds, so few per second are enough
CHUNK_BYTES = 16 * 2**20  # bytes per append, except for one larger record
AHEAD_SECONDS = 0.01  # that a paced feed can run ahead, so that records are written together


def send(
    log: Log,
    outgoing: Iterable[Outgoing],
    *,
    pace: Callable[[int], float] | None = None,
    wrote: Callable[[list[Outgoing]], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Write records in chunks, at once or each at its time.

    Parameters
    ----------
    pace
        Maps a timestamp to the seconds after the start at which it is due; None writes at once.
    wrote
        Called with every acknowledged chunk.
    """
    for chunk in _chunks(outgoing, pace, clock, sleep):
        log.append(chunk)
        wrote(chunk)


def _chunks(
    outgoing: Iterable[Outgoing],
    pace: Callable[[int], float] | None,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Iterator[list[Outgoing]]:
    began = clock()
    chunk: list[Outgoing] = []
    left = CHUNK_BYTES
    for record in outgoing:
        _, key, value, timestamp, _, _ = record
        if pace is not None and timestamp is not None:
            due = began + pace(timestamp)
            if due - clock() > AHEAD_SECONDS:
                if chunk:
                    yield chunk
                    chunk, left = [], CHUNK_BYTES
                sleep(max(due - clock(), 0.0))
        chunk.append(record)
        left -= len(key or b"") + len(value or b"") + RECORD_BYTES
        if left <= 0 or len(chunk) == CHUNK:
            yield chunk
            chunk, left = [], CHUNK_BYTES
    if chunk:
        yield chunk


class Appender:
    """Writes records when a chunk is full, or when its caller has nothing else to do.

    Parameters
    ----------
    log
        Where they are written.
    wrote
        Called with every acknowledged chunk.
    positions
        Those of the topic from which the records come; they advance after the acknowledgement.
    """

    def __init__(
        self, log: Log, wrote: Callable[[list[Outgoing]], None], positions: Positions | None = None
    ) -> None:
        self._log, self._wrote, self._positions = log, wrote, positions
        self._chunk: list[Outgoing] = []
        self._sources: list[tuple[int, int]] = []
        self._bytes = 0

    def add(self, record: Outgoing, source: tuple[int, int] | None = None) -> None:
        """Write a record, at once or later. `source`: partition and offset from which it comes."""
        self._chunk.append(record)
        if source is not None:
            self._sources.append(source)
        self._bytes += record_bytes(record.key, record.value)
        if len(self._chunk) >= CHUNK or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was added. Records whose append fails are not written again."""
        chunk, self._chunk, self._bytes = self._chunk, [], 0
        sources, self._sources = self._sources, []
        if chunk:
            self._log.append(chunk)
            self._wrote(chunk)
        if self._positions is not None:
            for partition, offset in sources:
                self._positions.advance(partition, offset)
            if self._positions.due:
                self._positions.store()

    def waiting(self) -> None:
        """Write what was added; without anything new, store the positions."""
        if self._chunk:
            self.flush()
        elif self._positions is not None:
            self._positions.store()

    def finish(self) -> None:
        """Write what was added, and store the positions."""
        self.flush()
        if self._positions is not None:
            self._positions.store()
