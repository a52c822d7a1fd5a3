"""A span cut out of the history of a shard.

`roll_back` and `say_last` before it write: one entry, and what was to be said before it. What was,
stays written.
"""

from __future__ import annotations

from dataclasses import dataclass

from consumers.base.errors import TransportError
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.reader import entries
from consumers.journal.records import CommitRecord, IdentityRecord, RollbackRecord
from consumers.service.live import LiveShard, Sources, pass_over
from consumers.service.recovery import rebuild, say_again
from consumers.snapshots.store import SnapshotStore
from consumers.timetravel.moment import PointInTime
from consumers.transports.protocol import Log, Owner

__all__ = ["RollbackSpan", "cut_from", "roll_back", "say_last"]


@dataclass(frozen=True, slots=True)
class RollbackSpan:
    """What a rollback would cut out: entries after `to`, how many, and how many records."""

    to: PointInTime
    last: PointInTime
    entries: int
    records: int


def cut_from(log: Log, found: Sources, to: PointInTime) -> RollbackSpan:
    """What lies behind a moment."""
    end = log.end_offsets([found.journal])[found.journal]
    last, count, records = to, 0, 0
    for at, entry in entries(log, found.journal, to.position, end):
        count += 1
        records += sum(r.count for r in entry.ranges) if isinstance(entry, CommitRecord) else 0
        last = PointInTime(entry.seq, entry.now, at + 1)
    return RollbackSpan(to, last, count, records)


def say_last(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, live: LiveShard
) -> str | None:
    """Write what the owner that was fenced may not have: a rollback would cut its entry out unsaid.

    Nothing is done where the last entry behind `live` holds its outputs itself. Returns why they
    cannot be made again; None where they were, or need not be.
    """
    end = log.end_offsets([found.journal])[found.journal]
    last = None
    for _, entry in entries(log, found.journal, live.position, end):
        last = entry if isinstance(entry, CommitRecord) else last
    if last is None or not last.aside:
        return None
    try:
        live = rebuild(config, log, found, store, end=end)
    except TransportError as error:
        return f"the outputs of entry {last.seq} may be missing: {error}"
    say_again(log, live)
    return None


def roll_back(
    log: Log,
    owner: Owner,
    found: Sources,
    live: LiveShard,
    *,
    now: int,
    reason: str,
) -> RollbackRecord:
    """Journal that the shard goes on from `live`, which was rebuilt at an earlier moment.

    `owner` has fenced the running service. `live` is then at the journal's end.

    Raises
    ------
    FencedError, TransportError
        From the owner; whether it was written shows in the journal.
    """
    end = log.end_offsets([found.journal])[found.journal]
    last = live.seq
    for _, entry in entries(log, found.journal, live.position, end):
        if isinstance(entry, IdentityRecord):
            continue
        pass_over(entry, live, cut=True)  # as a replay of this journal does
        last = entry.seq
        live.now = max(live.now, entry.now)
    reset = RollbackRecord(last + 1, max(now, live.now), live.seq, live.chain, reason)
    record = journal.written(reset, found.journal, reset.now)
    at = owner.commit([], record, live.shard.positions)
    live.stand_after(reset, at)
    return reset
