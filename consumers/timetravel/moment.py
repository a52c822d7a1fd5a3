"""A point in time of the journal, and the shard at that time.

The journal records what each commit consumed, so every point in time that it covers can be rebuilt.

Write the model at a point in time as a model file. Pure.

The newest observations that a shard has consumed, decoded as the shard decoded them.

Rule: how many are read is bounded in records and in bytes, and only the newest are kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import numpy as np

from consumers.base.errors import ConfigError, SnapshotError, TransportError
from consumers.base.records import Partition, record_bytes
from consumers.base.units import utc_text
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.config.learner import uses_river
from consumers.journal.reader import entries
from consumers.journal.records import IdentityRecord, JournalRecord
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.recovery import about_of, rebuild
from consumers.snapshots import model_file
from consumers.snapshots.exported import extracted, learned
from consumers.snapshots.model_file import ModelInfo
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from stream.data.rows import Rows
from stream.learner.base import Learner
from stream.mix import unmixed_fingerprint

__all__ = [
    "MOST_BYTES",
    "PointInTime",
    "check_exportable",
    "check_format",
    "clock",
    "exported",
    "moment",
    "newest",
    "rebuild_at",
]


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


def check_exportable(learner: Learner, what: str) -> None:
    """Raise ConfigError if the state of the learner must not leave the service."""
    if not learner.can_save:
        raise ConfigError(
            f"{what} holds a model of river, whose state is a pickle: it is exported only with "
            "trust_pickle = true"
        )


def exported(config: Config, live: LiveShard) -> tuple[ModelInfo, bytes]:
    """The champion as a model file, signed if the service has a key.

    Raises
    ------
    ConfigError
        Its state is a pickle that the configuration does not trust.
    SnapshotError
        The file would not give the same model.
    """
    learner = live.shard.champion_learner
    check_exportable(learner, live.shard.champion or config.name)
    with live.shard.pickling():  # a challenger that is not saved does not matter
        info, state = extracted(about_of(config, live), live.shard.to_state())
    pickled = uses_river(info.learner)
    # A pickle has other bytes each time, so only the state itself identifies it.
    mark = state.fingerprint() if pickled else unmixed_fingerprint(learner)
    info = msgspec.structs.replace(info, fingerprint=mark)
    data = model_file.to_bytes(info, state.arrays, config.snapshots.key)
    again = learned(*model_file.from_bytes(data, config.snapshots.key), trust_pickle=True)
    if not pickled and again.fingerprint() != mark:
        raise SnapshotError("the file gives another model; nothing was written: this is a bug")
    return info, data


MOST_BYTES = 2**26  # of the kept records

_Held = tuple[int, bytes | None, bytes | None]  # timestamp, key, value


def check_format(config: Config) -> None:
    """Raise ConfigError for messages with many rows, which are not read here."""
    name = config.input.format
    if wire_format(name).rows is not None:
        raise ConfigError(
            f'[input] format = "{name}": names of features are read from records of one '
            "observation each; give a message by --text"
        )


def newest(log: Log, found: Sources, live: LiveShard, most: int) -> Rows:
    """At most `most` observations before the positions of `live`, the newest first.

    Records that the shard has refused are left out. Each partition contributes an equal number, or
    all it has.

    Raises
    ------
    TransportError
        The log cannot be read.
    """
    inputs = [p for p in found.inputs if p.topic not in found.label_topics]
    begin, each = log.beginning_offsets(inputs), -(-most // max(len(inputs), 1))
    ends = {p: max(live.shard.positions.get(p, 0), begin[p]) for p in inputs}
    starts = {p: max(begin[p], ends[p] - each) for p in inputs}
    kept: deque[_Held] = deque()
    size = 0
    for part in log.read(starts, ends):
        for held in zip(part.timestamps, part.keys, part.values, strict=True):
            kept.append(held)
            size += record_bytes(*held[1:])
            while size > MOST_BYTES:
                size -= record_bytes(*kept.popleft()[1:])
    records = sorted(kept, key=lambda held: -held[0])[:most]
    decoder = live.shard.spec.decoder(live.shard.schemas)
    seen = decoder.decode([key for _, key, _ in records], [value for *_, value in records])
    good = [i for i in range(len(records)) if i not in seen.rejected]
    return seen.rows.take(np.array(good, dtype=np.int64))
