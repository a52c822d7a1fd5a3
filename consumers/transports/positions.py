"""Where a reader of a topic continues: the next offset of each partition, in a small file.

Rule: the caller advances a position only after it has passed the record on. So a reader that is
killed reads some records twice, and skips none. The file is replaced as a whole, and it names the
topic and the log, because an offset of another topic would skip records silently.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Partition
from consumers.transports.protocol import Log
from consumers.transports.registry import local_path

__all__ = ["Positions", "initial_positions"]

STORE_SECONDS = 1.0  # how often a busy reader stores them; a killed one repeats as many seconds
LARGEST = 1 << 20  # bytes of a file of positions
_KIND = "headwater positions 1"
_DO = "delete it, or name another file"


class StoredPositions(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file. `next` has the next offset of each partition by its number."""

    kind: str
    transport: str
    topic: str
    topic_id: str
    next: dict[int, int]


_decode = msgspec.json.Decoder(StoredPositions).decode


class Positions:
    """The positions in one topic, and the file in which they are kept.

    Parameters
    ----------
    path
        The file.
    stored
        Its content.
    clock
        Seconds from any start.
    """

    def __init__(
        self, path: Path, stored: StoredPositions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._stored, self._clock = path, stored, clock
        self._changed, self._due = False, clock() + STORE_SECONDS

    @classmethod
    def read(cls, path: Path) -> Positions:
        """Those of a file that exists.

        Raises
        ------
        ConfigError
            It is missing, unreadable or damaged, or no file of positions.
        """
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST)
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{path}: positions cannot be read ({why}); check the name") from None
        try:
            stored = _decode(data)
        except UNDECODABLE:
            stored = None
        if stored is None or stored.kind != _KIND or min(stored.next.values(), default=0) < 0:
            raise ConfigError(
                f"{path}: expected positions that headwater wrote, got a damaged or another file; "
                + _DO
            )
        return cls(path, stored)

    @classmethod
    def of_topic(
        cls, path: Path, log: Log, url: str, topic: str, *, from_beginning: bool
    ) -> Positions:
        """Those of a topic: from the file, or, if it does not exist, new ones that are stored.

        Raises
        ------
        ConfigError
            The file is damaged, or its positions are of another topic or log, or no longer in it.
        """
        known = log.describe([topic])[topic]
        where = _shown(url)
        fresh = StoredPositions(_KIND, where, topic, known.id, {})
        partitions = [Partition(topic, number) for number in range(known.partitions)]
        if not path.exists():
            first = initial_positions(log, partitions, from_beginning=from_beginning)
            fresh.next = {partition.number: offset for partition, offset in first.items()}
            found = cls(path, fresh)
            found.store(changed=True)
            return found
        found = cls.read(path)
        stored = found._stored
        if (stored.transport, stored.topic) != (where, topic):
            raise ConfigError(
                f"{path}: expected positions of {topic!r} in {where}, got those of "
                f"{stored.topic!r} in {stored.transport}; {_DO}"
            )
        if stored.topic_id != known.id:
            raise ConfigError(
                f"{path}: topic {topic!r} was created again after these positions; {_DO}"
            )
        found._check(log, partitions)
        return found

    def _check(self, log: Log, partitions: list[Partition]) -> None:
        """Refuse positions that the log does not have. A partition that was added starts at 0."""
        first, ends = log.beginning_offsets(partitions), log.end_offsets(partitions)
        for partition in partitions:
            at = self._stored.next.setdefault(partition.number, first[partition])
            if not first[partition] <= at <= ends[partition]:
                raise ConfigError(
                    f"{self._path}: expected a position from {first[partition]} to "
                    f"{ends[partition]}, which {partition} retains, got {at}: records were deleted "
                    f"before they were read; to skip them, {_DO}"
                )

    @property
    def topic(self) -> str:
        """The topic."""
        return self._stored.topic

    @property
    def next(self) -> dict[Partition, int]:
        """The next offset of each partition."""
        return {Partition(self.topic, n): offset for n, offset in self._stored.next.items()}

    def advance(self, partition: int, offset: int) -> None:
        """Continue after this record. Call it when the record was passed on."""
        self._stored.next[partition] = offset + 1
        self._changed = True

    @property
    def due(self) -> bool:
        """Whether a busy reader should store them now."""
        return self._changed and self._clock() >= self._due

    def store(self, *, changed: bool = False) -> None:
        """Replace the file, if a position has changed.

        Raises
        ------
        TransportError
            It cannot be written.
        """
        if not (self._changed or changed):
            return
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(self._stored) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise TransportError(
                f"{self._path}: positions cannot be written ({error.strerror or error}); "
                "check the directory"
            ) from None
        self._changed, self._due = False, self._clock() + STORE_SECONDS


def initial_positions(
    log: Log, partitions: list[Partition], *, from_beginning: bool
) -> dict[Partition, int]:
    """The oldest retained offset of each partition, or its end."""
    return log.beginning_offsets(partitions) if from_beginning else log.end_offsets(partitions)


def _shown(url: str) -> str:
    """The URL of a log, the same from every working directory.

    Examples
    --------
    >>> _shown("kafka://localhost:9092/")
    'kafka://localhost:9092'
    """
    path = local_path(url)
    return url.rstrip("/") if path is None else f"{url.partition(':')[0]}:{Path(path).resolve()}"
