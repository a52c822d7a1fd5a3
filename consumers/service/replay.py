"""Bring a shard forward along its journal, without writing outputs.

A journal record says which input records a commit consumed. Any difference from the original commit
(other records, other predictions) ends the replay with the reason. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from msgspec.structs import replace

from consumers.base.errors import DivergedError, JournalLostError, TransportError
from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition
from consumers.journal.merge import Merge
from consumers.journal.reader import Course, RangeCheck, ends_of, entries, record_count, tails
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    JournalRecord,
    LaterRecord,
    MixRecord,
    unpacked,
)
from consumers.service.live import (
    LiveShard,
    Progress,
    Sources,
    apply_skipped,
    check_chain,
    check_snapshot,
    linked,
    move_inputs,
)
from consumers.service.mix import taken
from consumers.shard.batches import NOTHING, Commit, EarlierPieces, Explained
from consumers.shard.shard import Outcome, Shard
from consumers.transports.protocol import Log

__all__ = ["replay", "steps"]

WINDOW = 100_000  # records read back by one call of the log


def replay(
    log: Log,
    found: Sources,
    live: LiveShard,
    end: int,
    ahead: Course,
    progress: Progress = lambda done, total: None,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the shard from its position to `end`, without writing outputs.

    Parameters
    ----------
    end
        A position of the journal.
    ahead
        The journal from the shard's position up to `end`.
    progress
        Called with the records replayed and the records to replay.
    enough
        Called before each journal record. When it returns True, the shard stays where it is.
    """
    total = live.replayed + ahead.records
    progress(live.replayed, total)
    for _ in steps(log, found, live, end, ahead, enough=enough):
        progress(live.replayed, total)


def steps(
    log: Log,
    found: Sources,
    live: LiveShard,
    end: int,
    ahead: Course,
    *,
    explain: Explained = NOTHING,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[CommitRecord, Outcome]]:
    """Replay each commit of the history up to `end`. Yields its journal record and its outcome.

    A commit with more bytes than are processed at once comes in pieces. `explain` is which
    predictions are explained, by at least how many features.

    Raises
    ------
    JournalLostError
        Journal records are missing.
    TransportError
        A commit has other records or other predictions.
    """
    for window in _windows(entries(log, found.journal, live.position, end), ahead):
        cut = ahead.without(window[0][1].seq) is not None
        passed = [] if cut else [entry for _, entry in window if isinstance(entry, CommitRecord)]
        with closing(_Reader(log, found, live.shard, passed)) as reader:
            for at, entry in window:
                if not cut and enough():  # a removed record is not a point of the history
                    return
                if entry.seq != live.seq + 1 and not cut:  # a rollback may remove what is left
                    raise _missing(found.journal, live, entry.seq, at)
                if cut or not isinstance(entry, CommitRecord):
                    apply_skipped(entry, live, cut=cut)
                    if isinstance(entry, MixRecord) and not cut:
                        _mix(entry, live, log, found.mix)
                else:
                    for outcome in _apply(entry, reader.pieces(entry), live, explain):
                        live.replayed += outcome.batch.messages
                        yield entry, outcome
                live.advance_past(entry, at)
    live.position = max(live.position, end)


def _mix(entry: MixRecord, live: LiveShard, log: Log, topic: str) -> None:
    """Take over what the journal record names, unless it belongs to earlier settings."""
    live.last = ()  # they were written before this record was
    if entry.seq >= live.entry.since and live.shard.mix.active:
        live.shard.mix.take(taken(log, topic, entry.peers))


def _missing(journal: Partition, live: LiveShard, seq: int, at: int) -> JournalLostError:
    return JournalLostError(
        f"the journal {journal} has lost records: after record {live.seq} it jumps to record {seq} "
        f"at position {at}, so the model cannot be rebuilt. Restore the journal topic, or a "
        f"snapshot after position {at}; or remove what was learned since with headwater rollback "
        f"--to {live.position}; or give the service a new name"
    )


def _apply(
    entry: CommitRecord,
    pieces: Iterable[Batch],
    live: LiveShard,
    explain: Explained,
) -> Iterator[Outcome]:
    """Process a commit in the pieces in which it is read. Yields the outcome of each."""
    _check_positions(entry, live.shard.positions)
    check_snapshot(entry, live)
    check, earlier, last = RangeCheck(entry), EarlierPieces(), list[Outcome]()
    against = None if entry.against is None else unpacked(entry.against, 8 * len(entry.against))
    read = 0
    live.shape = entry.shape or live.shape
    shape = live.shape
    if shape is not None and entry.seq < live.entry.since:
        shape = replace(shape, explain=0)  # this learner may not be able to, and writes nothing
    for batch in pieces:
        earlier.last = check.add(batch)
        live.tails |= tails(batch, entry.ranges)
        commit = Commit(
            entry.skips,
            entry.max_dead_letter_ratio,
            None if earlier.parts else entry.drift,
            shape,
            None if against is None else against[read:],
            entry.max_rows,
            explain,
        )
        outcome = live.shard.process(batch, entry.now, commit, earlier)
        read += len(outcome.batch)
        if earlier.last:
            live.chain = linked(live.chain, outcome)
            check_chain(entry, live)
            move_inputs(entry, live)
        if entry.aside:
            last.append(outcome)
        live.last = last
        yield outcome
    check.end()


def _check_positions(entry: CommitRecord, positions: Mapping[Partition, int]) -> None:
    """Ranges have no gaps, so a shard at another position is not the journaled one."""
    for r in entry.ranges:
        at = positions.get(Partition(r.topic, r.partition), 0)
        if at != r.first:
            raise DivergedError(
                f"journal record {entry.seq} continues at {r.topic}[{r.partition}] offset "
                f"{r.first}, but the shard is at {at}; replay from an older snapshot or from the "
                "beginning"
            )


def _windows(
    found: Iterable[tuple[int, JournalRecord]], ahead: Course
) -> Iterator[list[tuple[int, LaterRecord]]]:
    """Journal records whose input is read in one go. Records without input are returned alone."""
    window: list[tuple[int, LaterRecord]] = []
    size = 0
    for at, entry in found:
        if isinstance(entry, IdentityRecord):
            continue
        alone = not isinstance(entry, CommitRecord) or ahead.without(entry.seq) is not None
        if window and (alone or size >= WINDOW):
            yield window
            window, size = [], 0
        if alone:
            yield [(at, entry)]
            continue
        window.append((at, entry))
        size += record_count(entry)
    if window:
        yield window


class _Reader:
    """Reads the input records of a window of commits when they are requested.

    The bytes read ahead are bounded for any order of the partitions, and so is a piece.
    """

    def __init__(
        self, log: Log, found: Sources, shard: Shard, window: Sequence[CommitRecord]
    ) -> None:
        ends: dict[Partition, int] = {}
        for entry in window:
            ends |= ends_of(entry)
        # The journal decides: its writer may have seen partitions that were added later.
        inputs = sorted({*found.inputs, *ends})
        starts = {p: shard.positions.get(p, 0) for p in inputs}
        moved = [p for p in ends if ends[p] > starts[p]]
        self._none = dict.fromkeys(inputs, 0)
        self._max_bytes = found.max_bytes
        self._merge = Merge(inputs, found.label_topics, 2 * found.max_bytes, found.measure)
        self._read = log.read(
            {p: starts[p] for p in moved}, {p: ends[p] for p in moved}, demand=self._merge
        )

    def pieces(self, entry: CommitRecord) -> Iterator[Batch]:
        """The input records of a commit, in its order. Call it once per commit, in order."""
        upto = ends_of(entry)
        batch: Batch | None = None
        for batch in self._merge.batches(
            self._chunks(upto),
            lambda: UNBOUNDED,
            ends=self._none | upto,
            now=entry.now,
            max_bytes=self._max_bytes,
            before=upto,
        ):
            yield batch
        if batch is None:
            raise TransportError(
                f"journal record {entry.seq}: its records no longer exist in the inputs"
            )

    def _chunks(self, upto: Mapping[Partition, int]) -> Iterator[list[Fetched]]:
        """What is not read yet of the records before these offsets. Records may have expired. Then
        the check of the commit fails."""
        while any(self._merge.position(p) < at for p, at in upto.items()):
            if (fetched := next(self._read, None)) is None:
                return
            yield [fetched]

    def close(self) -> None:
        """Stop reading the log."""
        self._read.close()
