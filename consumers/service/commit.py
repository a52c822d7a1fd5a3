"""One commit: all effects of a batch, or none.

Exactly once: (1) begin a transaction, (2) write predictions and dead letters, (3) write the journal
record and offsets, (4) commit. The owner does this in one call, and the commit has happened only
when the call returns. At least once: 1, 3, 4, and then 2 outside of the transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from consumers.base.records import Batch, Outgoing, Partition, followed_by
from consumers.codecs.account import NO_RECORDS, SeenRecords
from consumers.codecs.columns import ColumnRecords
from consumers.codecs.registry import prediction_as_json
from consumers.journal import records as journal
from consumers.journal.reader import tails
from consumers.journal.records import CommitRecord, LaterRecord
from consumers.service.crash_guard import CrashGuard
from consumers.service.live import LiveShard, Sources, linked
from consumers.shard.batches import Commit, Skip
from consumers.shard.outcome import BadRecord, Outcome
from consumers.shard.views import LATEST, Committed, PublishedPrediction
from consumers.transports.protocol import Owner

__all__ = ["advance", "advance_unpublished", "amend"]

SHOWN = 240  # characters of a dead letter's detail in the log


def advance(
    owner: Owner,
    live: LiveShard,
    found: Sources,
    batch: Batch,
    now: int,
    guard: CrashGuard,
    aside: Callable[[Sequence[Outgoing]], object] | None = None,
    *,
    skips: Sequence[Skip] = (),
    counted: SeenRecords = NO_RECORDS,
) -> Committed:
    """Process a batch and commit its outcome. Afterwards `live` is after the batch.

    Parameters
    ----------
    now
        The clock in ms by which the batch was ordered. It is journaled and never decreases.
    guard
        Records what is being processed.
    aside
        Writes the outputs after the commit, outside of its transaction. None: they are part of it.
    skips
        Records to skip.
    counted
        How many records the account of fields has.

    Raises
    ------
    FencedError, TransportError
        From the owner. The shard in memory is then ahead of the log and must be discarded.
    """
    firsts, commit = dict(live.shard.positions), Commit(skips, drift=live.shard.drift_change)
    guard.begin({partition: end for partition, (_, end, _) in batch.ranges.items()})
    try:
        outcome = live.shard.process(batch, now, commit)
        predictions, dead_letters = outcome.predictions(), list(outcome.dead_letters())
    except Exception:
        guard.done()  # the error can be reported, so it is not a crash
        raise
    guard.done()
    made = len(predictions), len(dead_letters)
    entry = _entry(live, batch, outcome, firsts, made, commit, aside=aside is not None)
    outputs = followed_by(predictions, dead_letters)
    record, positions = journal.written(entry, found.journal, now), live.shard.positions
    at = owner.commit([] if aside else outputs, record, positions)
    if aside:
        aside(outputs)  # if this fails, recovery repeats it for the last journal record
    _move(live, entry, at, outcome)
    guard.committed(live.shard.positions)
    return _committed(outcome, predictions, dead_letters, at, counted)


def advance_unpublished(
    live: LiveShard, batch: Batch, now: int, skips: Sequence[Skip] = (), *, max_rows: int = 0
) -> CommitRecord:
    """Process a batch whose outputs other shards have written. Nothing is written here.

    Afterwards `live` is after the returned journal record, at the next offset of its journal.
    `max_rows` is how many rows a message may have; 0: as configured.
    """
    firsts, offset = dict(live.shard.positions), live.position
    commit = Commit(skips, drift=live.shard.drift_change, max_rows=max_rows)
    outcome = live.shard.process(batch, now, commit)
    made = len(outcome.predictions()), len(list(outcome.dead_letters()))
    entry = _entry(live, batch, outcome, firsts, made, commit)
    _move(live, entry, offset, outcome)
    return entry


def amend(
    owner: Owner,
    live: LiveShard,
    partition: Partition,
    entry: LaterRecord,
    outputs: Sequence[Outgoing] = (),
) -> None:
    """Commit a journal record that consumes nothing. Afterwards `live` is after it.

    Parameters
    ----------
    partition
        The journal.
    outputs
        Written in the same transaction.

    Raises
    ------
    FencedError, TransportError
        From the owner. The journal shows whether the record was written.
    """
    record = journal.written(entry, partition, entry.now)
    live.advance_past(entry, owner.commit(outputs, record, live.shard.positions))


def _entry(
    live: LiveShard,
    batch: Batch,
    outcome: Outcome,
    firsts: Mapping[Partition, int],
    made: tuple[int, int],
    commit: Commit,
    *,
    aside: bool = False,
) -> CommitRecord:
    """The journal record of a batch that was processed. `made`: predictions and dead letters."""
    shape = outcome.spec.outputs
    same = live.shape is not None and (live.shape is shape or live.shape.text == shape.text)
    return journal.entry_of(
        batch,
        firsts,
        seq=live.seq + 1,
        now=outcome.now,
        outputs=made,
        chain=linked(live.chain, outcome),
        skips=commit.skips,
        max_dead_letter_ratio=live.shard.spec.config.output.max_dead_letter_ratio,
        drift=commit.drift,
        aside=aside,
        topics=live.adopting,
        shape=None if same else shape,
        early=((Partition(r.topic, r.partition), r.offset) for _, r, _ in outcome.early),
        snapshots=dict(live.snapshots),  # a copy: the writer of snapshots adds to them
        settings=live.entry.settings,
        against=outcome.against,
        max_rows=commit.max_rows or live.shard.spec.max_rows,
    )


def _move(live: LiveShard, entry: CommitRecord, offset: int, outcome: Outcome) -> None:
    """Set `live` to the state after a commit."""
    live.advance_past(entry, offset)
    live.chain, live.shape = entry.chain, outcome.spec.outputs
    live.tails |= tails(outcome.batch, entry.ranges)
    live.topics, live.adopting = live.topics | entry.topics, {}
    for position, _ in entry.snapshots:
        del live.snapshots[position]


def _committed(
    outcome: Outcome,
    predictions: Sequence[Outgoing],
    dead_letters: Sequence[Outgoing],
    at: int,
    counted: SeenRecords,
) -> Committed:
    ahead, bad = outcome.ahead(), outcome.bad()
    return Committed(
        records=len(outcome.batch),
        predictions=len(predictions),
        learned=outcome.result.learned,
        labels=outcome.labels,
        rejected=Counter(each.error.reason for each in bad),
        seconds=0.0,
        position=at,
        details=_details(bad) if bad else {},
        newest={e.reason: (Partition(r.topic, r.partition), r.offset) for r, e, _ in bad},
        latest=_latest(outcome, predictions) if predictions else [],
        dead=dead_letters[-LATEST:],
        promoted=outcome.promoted,
        alarms=outcome.alarms[-LATEST:],
        ahead=len(ahead),
        furthest=max(ahead, key=itemgetter(2), default=None),
        fields=outcome.seen.tally(counted),
    )


def _latest(outcome: Outcome, predictions: Sequence[Outgoing]) -> list[PublishedPrediction]:
    batch, values = outcome.batch, outcome.batch.values
    as_json = values.as_json if isinstance(values, ColumnRecords) else values.__getitem__
    last = zip(outcome.observed[-LATEST:], predictions[-LATEST:], strict=True)
    wire = outcome.spec.wire
    return [
        PublishedPrediction(batch.keys[i], as_json(i), prediction_as_json(wire, made.value or b""))
        for i, made in last
    ]


def _details(bad: Sequence[BadRecord]) -> dict[str, str]:
    """The first dead letter of each reason: its place and detail."""
    out: dict[str, str] = {}
    for record, error, row in bad:
        where = f"{Partition(record.topic, record.partition)} offset {record.offset}"
        where += "" if row is None else f" row {row}"
        out.setdefault(error.reason, f"{where}: {_beginning(error.detail)}")
    return out


def _beginning(detail: str) -> str:
    """The detail, shortened if it is unusually long. The header of the dead letter has more."""
    return detail if len(detail) <= SHOWN else detail[: SHOWN - 1] + "…"
