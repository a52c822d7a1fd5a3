"""A point in time of the journal, and the shard at that time.

The journal records what each commit consumed, so every point in time that it covers can be rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.config.units import utc_text
from consumers.journal.reader import entries
from consumers.journal.records import IdentityRecord, JournalRecord
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.recovery import rebuild
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log

__all__ = ["PointInTime", "clock", "moment", "rebuild_at"]


@dataclass(frozen=True, slots=True)
class PointInTime:
    """The time after a journal record: its number and clock, and the journal position after it."""

    seq: int
    now: int
    position: int

    def __str__(self) -> str:
        return f"journal position {self.position} (record {self.seq}, {clock(self.now)})"


def clock(now: int) -> str:
    """A journaled clock as text, in UTC."""
    if not now:
        return "before any record"
    return f"{datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def moment(log: Log, partition: Partition, at: str) -> PointInTime:
    """The last journal record before a journal position, or up to a time.

    Parameters
    ----------
    at
        A journal position, as `headwater snapshots list` shows, or a time.

    Raises
    ------
    ConfigError
        It is neither of these, before the journal's start, or a position after its end.
    """
    end = log.end_offsets([partition])[partition]
    first = log.beginning_offsets([partition])[partition]
    position, until = (int(at), None) if at.isdecimal() else (end, _milliseconds(at))
    if position > end:
        raise ConfigError(f"{at} is after the end of the journal {partition.topic}, which is {end}")
    found: PointInTime | None = None
    for offset, entry in entries(log, partition, first, position):
        if until is not None and entry.now > until:
            break
        found = PointInTime(entry.seq, entry.now, offset + 1)
    if found is None:
        start = next((entry for _, entry in entries(log, partition, first, end)), None)
        starts = "it is empty" if start is None else f"it starts with {_named(start)}"
        raise ConfigError(f"{at} is before the start of the journal {partition.topic}: {starts}")
    return found


def rebuild_at(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    at: PointInTime,
    progress: Progress = lambda done, total: None,
) -> LiveShard:
    """The shard at a point in time, from the newest valid snapshot before it or from the start.

    Raises
    ------
    TransportError
        Inputs, journal and snapshots do not reach that far back; the message says how far.
    """
    try:
        return rebuild(config, log, found, store, end=at.position, progress=progress)
    except TransportError as error:
        raise TransportError(f"{error}; {_earliest(store, at)}") from None


def _earliest(store: SnapshotStore | None, at: PointInTime) -> str:
    """The earliest point in time that a snapshot reaches."""
    reached: list[PointInTime] = []
    for part in [] if store is None else store.parts():
        for about, _ in part.newest(lambda _: None):
            reached.append(PointInTime(about.seq, about.now, about.position))
    later = [m for m in reached if m.position > at.position]
    if not later:
        return "no snapshot reaches a later time either"
    return f"the earliest that can be rebuilt is {min(later, key=lambda m: m.position)}"


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(utc_text(text)).timestamp() * 1000)
    except ValueError:
        expected = 'expected a journal position or a time such as "2024-03-01T12:00:00Z"'
        raise ConfigError(f"{expected}, got {text!r}") from None


def _named(entry: JournalRecord) -> str:
    return (
        "record 0"
        if isinstance(entry, IdentityRecord)
        else f"record {entry.seq}, {clock(entry.now)}"
    )
