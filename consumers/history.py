"""The journal read back: its entries, and a shard brought along them with its output muted.

An entry says which records it consumed; the records say the rest. Whatever does not come out as it
did when the entry was written (other records, other predictions) ends the replay with the reason.
Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b

from consumers import journal
from consumers.errors import TransportError
from consumers.journal import Entry, Identity, Journaled, Merge, Reset, Roster
from consumers.lineup import Lineup
from consumers.records import Batch, Partition
from consumers.shard import Outcome, Shard
from consumers.snapshots.locate import entries
from consumers.transports.protocol import Log
from stream.schema import Field

__all__ = ["Course", "Live", "Progress", "Sources", "course", "linked", "replay", "steps"]

WINDOW = 100_000  # records read back in one go: so many may wait for those of another partition

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """The partitions a shard consumes, and its journal's."""

    inputs: tuple[Partition, ...]
    label_topics: frozenset[str]
    journal: Partition
    predictions_partitions: int
    largest_dead_letter: int | None = None


@dataclass(slots=True)
class Live:
    """A shard at the journal's end.

    `seq` is the number of the last entry, `position` the offset after it, `now` its clock;
    `entry` is entry 0, `identity` its hash, which every snapshot of this service carries;
    `snapshot` the clock of the one it was loaded from, and `differs` what that one was made by and
    is another here; `last` what came of the last entry replayed, where its outputs were written
    after it and so may not have been; `chain` the hash of every bit said and scored so far;
    `diverged` the first entry that a river model did not repeat.
    """

    shard: Shard
    seq: int
    position: int
    now: int
    identity: str
    fields: tuple[Field, ...]
    entry: Identity
    chain: str = ""
    replayed: int = 0
    snapshot: int | None = None
    differs: str | None = None
    refused: tuple[str, ...] = ()
    last: Outcome | None = None
    diverged: int | None = None
    news: tuple[str, ...] = ()


def linked(chain: str, outcome: Outcome) -> str:
    """The chain after one more commit: 64 bits, in hex."""
    return blake2b(chain.encode() + outcome.digest, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Course:
    """What lies ahead in the journal.

    `cuts`: which entries a later reset cuts out of the history, for each cut those after the first
    number and before the second; `records` is how many records the others consumed.
    """

    records: int = 0
    cuts: tuple[tuple[int, int], ...] = ()

    def without(self, seq: int) -> int | None:
        """The reset that cut entry `seq` out; None where it is part of the history."""
        return next((reset for to, reset in self.cuts if to < seq < reset), None)


def course(log: Log, partition: Partition, start: int, end: int) -> Course:
    """What the journal holds from `start` up to `end`; read twice only where there is a reset."""
    records, resets = 0, []
    for _, entry in entries(log, partition, start, end):
        if isinstance(entry, Reset):
            resets.append(entry)
        records += _size(entry)
    cuts: list[tuple[int, int]] = []
    for reset in reversed(resets):
        if not any(to < reset.seq < by for to, by in cuts):  # a reset may be cut out itself
            cuts.append((reset.to, reset.seq))
    ahead = Course(records, tuple(cuts))
    if not cuts:
        return ahead
    left = entries(log, partition, start, end)
    return Course(sum(_size(e) for _, e in left if ahead.without(e.seq) is None), ahead.cuts)


def _size(entry: Journaled) -> int:
    """How many records it consumed."""
    return sum(r.count for r in entry.ranges) if isinstance(entry, Entry) else 0


def replay(
    log: Log,
    found: Sources,
    live: Live,
    end: int,
    ahead: Course,
    progress: Progress = lambda done, total: None,
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
    """
    total = live.replayed + ahead.records
    for _ in steps(log, found, live, end, ahead):
        progress(live.replayed, total)


def steps(
    log: Log, found: Sources, live: Live, end: int, ahead: Course
) -> Iterator[tuple[Entry, Outcome]]:
    """Each entry of the history up to `end` with what came of it; the shard has moved past it.

    Raises
    ------
    TransportError
        Entries are missing, records have changed, or they give other predictions than they did.
    """
    for window in _windows(entries(log, found.journal, live.position, end), ahead):
        cut = ahead.without(window[0][1].seq) is not None
        passed = [] if cut else [entry for _, entry in window if isinstance(entry, Entry)]
        with closing(_read_back(log, found, live.shard, passed)) as batches:
            for at, entry in window:
                if entry.seq != live.seq + 1:
                    raise TransportError(
                        f"the journal {found.journal.topic} jumps to entry {entry.seq} at {at}; "
                        "entries are missing, the model cannot be rebuilt"
                    )
                outcome = None
                if cut or not isinstance(entry, Entry):
                    _pass_over(entry, live, cut)
                else:
                    outcome = _apply(entry, next(batches), live)
                    live.last = outcome if entry.aside else None
                live.seq, live.position, live.now = entry.seq, at + 1, entry.now
                if isinstance(entry, Entry) and outcome is not None:
                    live.replayed += len(outcome.batch)
                    yield entry, outcome
    live.position = max(live.position, end)


def _apply(entry: Entry, batch: Batch, live: Live) -> Outcome:
    journal.check(entry, batch)
    ratio = entry.max_dead_letter_ratio
    outcome = live.shard.process(
        batch, entry.now, skips=entry.skips, ratio=ratio, drift=entry.drift
    )
    live.chain = linked(live.chain, outcome)
    _check_chain(entry, live)
    _move(entry, live)
    return outcome


def _pass_over(entry: Entry | Reset | Roster, live: Live, cut: bool) -> None:
    """A reset or a roster, or an entry that a reset cut out: consumed, and no more."""
    if isinstance(entry, Entry):
        _move(entry, live)
    elif not cut:
        _check_chain(entry, live)
        if isinstance(entry, Roster):
            live.shard.line_up(Lineup(entry.challengers, entry.threshold), entry.champion)


def _move(entry: Entry, live: Live) -> None:
    live.shard.positions |= _ends(entry)


def _check_chain(entry: Entry | Reset | Roster, live: Live) -> None:
    """Whether the shard said and scored what it did when the entry was written, bit for bit."""
    if live.chain == entry.chain:
        return
    if not live.shard.repeatable:
        live.diverged = live.diverged or entry.seq
        live.chain = entry.chain
        return
    raise TransportError(
        f"journal entry {entry.seq}: its records give other predictions than they gave then; "
        "this program, its libraries or the processor differ from those that wrote it: run it "
        "there, or start under a new name"
    )


def _windows(
    found: Iterable[tuple[int, Journaled]], ahead: Course
) -> Iterator[list[tuple[int, Entry | Reset | Roster]]]:
    """Entries whose records are read in one go; what is cut out, and what has none, stand alone."""
    window: list[tuple[int, Entry | Reset | Roster]] = []
    size = 0
    for at, entry in found:
        if isinstance(entry, Identity):
            continue
        alone = not isinstance(entry, Entry) or ahead.without(entry.seq) is not None
        if window and (alone or size >= WINDOW):
            yield window
            window, size = [], 0
        if alone:
            yield [(at, entry)]
            continue
        window.append((at, entry))
        size += _size(entry)
    if window:
        yield window


def _read_back(
    log: Log, found: Sources, shard: Shard, window: Sequence[Entry]
) -> Generator[Batch, None, None]:
    """The batch of each entry; the next records are fetched while one is worked on."""
    starts = {p: shard.positions[p] for p in found.inputs}
    ends = dict(starts)
    for entry in window:
        ends |= _ends(entry)
    moved = [p for p in found.inputs if ends[p] > starts[p]]
    merged = Merge(found.inputs, found.label_topics)
    with closing(log.read({p: starts[p] for p in moved}, {p: ends[p] for p in moved})) as read:
        for entry in window:
            upto = _ends(entry)
            while any(merged.position(p) < end for p, end in upto.items()):
                fetched = next(read, None)
                if fetched is None:
                    break  # some are gone: what is left of them will not pass
                merged.add([fetched])
            batch = merged.split(upto).take(1 << 62, {}, now=entry.now, wait=False)
            if batch is None:
                raise TransportError(f"entry {entry.seq}: its records are gone from the inputs")
            yield batch


def _ends(entry: Entry) -> dict[Partition, int]:
    """The offset after the last record it consumed, of each partition that moved."""
    return {Partition(r.topic, r.partition): r.end for r in entry.ranges}
