"""A moment of the journal, and the shard as it was then.

The journal says what was consumed, entry by entry, so any moment it reaches can be rebuilt.
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
    """After which entry: its number and clock, and the journal position after it."""

    seq: int
    now: int
    position: int

    def __str__(self) -> str:
        return f"journal position {self.position} (entry {self.seq}, {clock(self.now)})"


def clock(now: int) -> str:
    """A journaled clock for people, in UTC."""
    if not now:
        return "before any record"
    return f"{datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def moment(log: Log, partition: Partition, at: str) -> PointInTime:
    """The last entry before a journal position, or until a time.

    Parameters
    ----------
    at
        A position of the journal, as `headwater snapshots list` shows them, or a time.

    Raises
    ------
    ConfigError
        It is neither, before the journal begins, or a position beyond its end.
    """
    end = log.end_offsets([partition])[partition]
    first = log.beginning_offsets([partition])[partition]
    position, until = (int(at), None) if at.isdecimal() else (end, _milliseconds(at))
    if position > end:
        raise ConfigError(f"{at} is beyond the journal {partition.topic}, which ends at {end}")
    found: PointInTime | None = None
    for offset, entry in entries(log, partition, first, position):
        if until is not None and entry.now > until:
            break
        found = PointInTime(entry.seq, entry.now, offset + 1)
    if found is None:
        start = next((entry for _, entry in entries(log, partition, first, end)), None)
        begins = "it is empty" if start is None else f"it begins with {_named(start)}"
        raise ConfigError(f"{at} is before what is left of the journal {partition.topic}: {begins}")
    return found


def rebuild_at(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    at: PointInTime,
    progress: Progress = lambda done, total: None,
) -> LiveShard:
    """The shard as it was at a moment, from the newest good snapshot before it or from nothing.

    Raises
    ------
    TransportError
        Inputs, journal and snapshots do not reach that far back; it names what they reach.
    """
    try:
        return rebuild(config, log, found, store, end=at.position, progress=progress)
    except TransportError as error:
        raise TransportError(f"{error}; {_earliest(config, log, found, store, at)}") from None


def _earliest(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, at: PointInTime
) -> str:
    """What the snapshots still reach, the earliest of it."""
    reached: list[PointInTime] = []
    for part in [] if store is None else store.parts():
        for about, _ in part.newest(lambda _: None):
            reached.append(PointInTime(about.seq, about.now, about.position))
    later = [m for m in reached if m.position > at.position]
    if not later:
        return "no snapshot reaches any time either"
    return f"the earliest that can be rebuilt is {min(later, key=lambda m: m.position)}"


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(utc_text(text)).timestamp() * 1000)
    except ValueError:
        wanted = 'expected a journal position or a time such as "2024-03-01T12:00:00Z"'
        raise ConfigError(f"{wanted}, got {text!r}") from None


def _named(entry: JournalRecord) -> str:
    return (
        "entry 0" if isinstance(entry, IdentityRecord) else f"entry {entry.seq}, {clock(entry.now)}"
    )
