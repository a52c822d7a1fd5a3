"""Roll a shard back: remove a span from its history.

`write_last_outputs` and then `roll_back` write: outputs that may be missing, and one journal
record. What was published stays published.
"""

from __future__ import annotations

from dataclasses import dataclass

from consumers.base.errors import JournalLostError, TransportError
from consumers.config import Config
from consumers.journal.reader import entries
from consumers.journal.records import CommitRecord, IdentityRecord, RollbackRecord
from consumers.service.commit import amend
from consumers.service.live import LiveShard, Sources, apply_skipped
from consumers.service.recovery import rebuild, write_again
from consumers.snapshots.store import SnapshotStore
from consumers.timetravel.moment import PointInTime
from consumers.transports.protocol import Log, Owner

__all__ = ["RollbackSpan", "cut_from", "roll_back", "write_last_outputs"]


@dataclass(frozen=True, slots=True)
class RollbackSpan:
    """The span that a rollback would remove: what follows `to`, its commits and input records."""

    to: PointInTime
    last: PointInTime
    entries: int
    records: int


def cut_from(log: Log, found: Sources, to: PointInTime) -> RollbackSpan:
    """The span after a point in time."""
    end = log.end_offsets([found.journal])[found.journal]
    last, count, records = to, 0, 0
    for at, entry in entries(log, found.journal, to.position, end):
        count += 1
        records += sum(r.count for r in entry.ranges) if isinstance(entry, CommitRecord) else 0
        last = PointInTime(entry.seq, entry.now, at + 1)
    return RollbackSpan(to, last, count, records)


def write_last_outputs(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, live: LiveShard
) -> str | None:
    """Write outputs that the fenced owner may not have written, before a rollback removes them.

    Nothing is done if the last commit after `live` includes its outputs. Returns why the outputs
    cannot be made again; None if they were written or need not be.
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
        return f"the outputs of journal record {last.seq} may be missing: {error}"
    write_again(log, live)
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
    """Journal that the shard continues from `live`, which was rebuilt at an earlier time.

    `owner` has fenced the running service. Afterwards `live` is at the journal's end.

    Raises
    ------
    JournalLostError
        The journal has lost records, and the rest does not say how far the inputs were consumed.
    FencedError, TransportError
        From the owner. The journal shows whether the record was written.
    """
    end = log.end_offsets([found.journal])[found.journal]
    last = live.seq
    for _, entry in entries(log, found.journal, live.position, end):
        if isinstance(entry, IdentityRecord):
            continue
        apply_skipped(entry, live, cut=True)  # as a replay of this journal does
        last = entry.seq
        live.now = max(live.now, entry.now)
    for partition, at in owner.committed().items():
        if at > (here := live.shard.positions.get(partition, at)):
            raise JournalLostError(
                f"the journal {found.journal} has lost records: it ends with {partition} at "
                f"{here}, but {at} is committed, so a rollback would predict records again. "
                "Restore the journal topic, or give the service a new name"
            )
    at, settings = max(now, live.now), live.entry.settings
    reset = RollbackRecord(last + 1, at, live.seq, live.chain, reason, settings)
    amend(owner, live, found.journal, reset)
    return reset
