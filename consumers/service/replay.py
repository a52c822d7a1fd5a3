"""A shard brought along the entries of its journal, with its output muted.

An entry says which records it consumed; the records say the rest. Whatever does not come out as it
did when the entry was written (other records, other predictions) ends the replay with the reason.
Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from consumers.base.errors import DivergedError, TransportError
from consumers.base.records import UNBOUNDED, Batch, Partition
from consumers.journal.merge import Merge
from consumers.journal.reader import Course, entries, record_count
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    JournalRecord,
    LaterRecord,
    RangeCheck,
    tails,
)
from consumers.service.live import (
    LiveShard,
    Progress,
    Sources,
    check_chain,
    check_snapshot,
    ends_of,
    linked,
    move_past,
    pass_over,
)
from consumers.shard.shard import EarlierPieces, Outcome, Shard
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
    """Bring the shard from its position to `end`, output muted.

    Parameters
    ----------
    end
        A position of the journal.
    ahead
        What lies ahead of the shard up to there.
    progress
        Called with the records replayed and the records to replay.
    enough
        Asked before each entry; once it is true the shard stays where it is, short of `end`.
    """
    total = live.replayed + ahead.records
    for _ in steps(log, found, live, end, ahead, enough=enough):
        progress(live.replayed, total)


def steps(
    log: Log,
    found: Sources,
    live: LiveShard,
    end: int,
    ahead: Course,
    *,
    explain: int = 0,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[CommitRecord, Outcome]]:
    """Each entry of the history up to `end` with what came of it, the shard having moved past it.

    An entry of more bytes than are worked on at once comes piece by piece. With `explain` every
    prediction is explained by at least so many shares.

    Raises
    ------
    TransportError
        Entries are missing, records have changed, or they give other predictions than they did.
    """
    for window in _windows(entries(log, found.journal, live.position, end), ahead):
        cut = ahead.without(window[0][1].seq) is not None
        passed = [] if cut else [entry for _, entry in window if isinstance(entry, CommitRecord)]
        with closing(_Reader(log, found, live.shard, passed)) as reader:
            for at, entry in window:
                if not cut and enough():  # within what was cut out it is at no entry of the history
                    return
                if entry.seq != live.seq + 1:
                    raise TransportError(
                        f"the journal {found.journal.topic} jumps to entry {entry.seq} at {at}; "
                        "entries are missing, the model cannot be rebuilt"
                    )
                if cut or not isinstance(entry, CommitRecord):
                    pass_over(entry, live, cut=cut)
                else:
                    for outcome in _apply(entry, reader.pieces(entry), live, explain):
                        live.replayed += len(outcome.batch)
                        yield entry, outcome
                live.stand_after(entry, at)
    live.position = max(live.position, end)


def _apply(
    entry: CommitRecord, pieces: Iterable[Batch], live: LiveShard, explain: int
) -> Iterator[Outcome]:
    """Process an entry, in as many pieces as it was read in; what came of each."""
    _check_positions(entry, live.shard.positions)
    check_snapshot(entry, live)
    check, before, last = RangeCheck(entry), EarlierPieces(), list[Outcome]()
    live.shape = entry.shape or live.shape
    for batch in pieces:
        whole = check.add(batch)
        live.tails |= tails(batch)
        outcome = live.shard.process(
            batch,
            entry.now,
            skips=entry.skips,
            ratio=entry.max_dead_letter_ratio,
            drift=None if before.parts else entry.drift,
            before=before,
            more=not whole,
            shape=live.shape,
            explain=explain,
        )
        if whole:
            live.chain = linked(live.chain, outcome)
            check_chain(entry, live)
            move_past(entry, live)
        if entry.aside:
            last.append(outcome)
        live.last = last
        yield outcome
    check.end()


def _check_positions(entry: CommitRecord, positions: Mapping[Partition, int]) -> None:
    """Ranges tile: a shard that stands elsewhere is not the one that was journaled."""
    for r in entry.ranges:
        at = positions.get(Partition(r.topic, r.partition), 0)
        if at != r.first:
            raise DivergedError(
                f"journal entry {entry.seq} goes on at {r.topic}[{r.partition}] offset {r.first}, "
                f"expected the shard there, it is at {at}; replay from an older snapshot or from "
                "the beginning"
            )


def _windows(
    found: Iterable[tuple[int, JournalRecord]], ahead: Course
) -> Iterator[list[tuple[int, LaterRecord]]]:
    """Entries whose records are read in one go; what is cut out, and what has none, stand alone."""
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
    """The records of the entries of a window, read from the log as they are asked for.

    What is read ahead is bounded in bytes, however the log serves its partitions, and so is a
    piece.
    """

    def __init__(
        self, log: Log, found: Sources, shard: Shard, window: Sequence[CommitRecord]
    ) -> None:
        ends: dict[Partition, int] = {}
        for entry in window:
            ends |= ends_of(entry)
        # The journal knows best: whoever wrote it may have seen partitions that were added since.
        inputs = sorted({*found.inputs, *ends})
        starts = {p: shard.positions.get(p, 0) for p in inputs}
        moved = [p for p in ends if ends[p] > starts[p]]
        self._none = dict.fromkeys(inputs, 0)
        self._max_bytes = found.max_bytes
        self._merge = Merge(inputs, found.label_topics, 2 * found.max_bytes)
        self._read = log.read(
            {p: starts[p] for p in moved}, {p: ends[p] for p in moved}, demand=self._merge
        )
        self._over = False  # there are no more records in the log

    def pieces(self, entry: CommitRecord) -> Iterator[Batch]:
        """The records of an entry, in its order; the window's entries one after another."""
        upto, merge = ends_of(entry), self._merge
        got = False
        while True:
            # Some may be gone: what is left of them will not pass.
            lagging = not self._over and any(merge.position(p) < at for p, at in upto.items())
            batch = None
            if not lagging or merge.nbytes >= self._max_bytes:
                batch = merge.take(
                    UNBOUNDED,
                    self._none | upto,
                    now=entry.now,
                    wait=lagging,
                    max_bytes=self._max_bytes,
                    before=upto,
                )
            if batch is not None:
                got = True
                yield batch
            elif lagging:
                fetched = next(self._read, None)
                self._over = fetched is None
                merge.add([] if fetched is None else [fetched])
            elif got:
                return
            else:
                raise TransportError(f"entry {entry.seq}: its records are gone from the inputs")

    def close(self) -> None:
        """Let the log's reading go."""
        self._read.close()
