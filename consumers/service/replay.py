"""The journal read back: its entries, and a shard brought along them with its output muted.

An entry says which records it consumed; the records say the rest. Whatever does not come out as it
did when the entry was written (other records, other predictions) ends the replay with the reason.
Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from consumers.base.errors import DivergedError, TransportError
from consumers.base.records import UNBOUNDED, Batch, Partition, Topic
from consumers.journal import (
    Check,
    Entry,
    Identity,
    Inputs,
    Journaled,
    Merge,
    Range,
    Reset,
    Roster,
    tails,
)
from consumers.shard.challengers import Lineup
from consumers.shard.outcome import Shape
from consumers.shard.shard import Before, Outcome, Shard
from consumers.snapshots.locate import entries
from consumers.transports.protocol import Log
from stream.schema import Field

__all__ = [
    "Course",
    "Live",
    "Progress",
    "Sources",
    "course",
    "cut_out",
    "learn_inputs",
    "linked",
    "move",
    "pass_inputs",
    "pass_over",
    "replay",
    "steps",
]

WINDOW = 100_000  # records read back by one call of the log

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """The partitions a shard consumes, its journal's, and how many bytes are worked on at once."""

    inputs: tuple[Partition, ...]
    label_topics: frozenset[str]
    journal: Partition
    predictions_partitions: int
    largest_dead_letter: int | None = None
    max_bytes: int = UNBOUNDED


@dataclass(slots=True)
class Live:
    """A shard at the journal's end.

    `seq` is the number of the last entry, `position` the offset after it, `now` its clock;
    `entry` is entry 0, `identity` its hash, which every snapshot of this service carries;
    `snapshot` the clock of the one it was loaded from, and `differs` what that one was made by and
    is another here; `last` what came of the last entry replayed, piece by piece, where its outputs
    were written after it and so may not have been; `chain` the hash of every bit said and scored
    so far; `diverged` the first entry that a river model did not repeat; `shape` the one last
    journaled; `rebuilt` is False of one that was handed over. `topics` are the ids of the input
    topics as the journal knows them, `adopting` those that its next entry will add, `tails` the
    last records consumed of each partition, and `described` what the log said of the topics before
    it was compared with these. `loaded` is the snapshot it was loaded from, its position and the
    fingerprint of its state; `snapshots` are those, by position, that its next entry will tell of.
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
    last: Sequence[Outcome] = ()
    diverged: int | None = None
    news: tuple[str, ...] = ()
    rebuilt: bool = True
    topics: dict[str, str] = field(default_factory=dict)
    adopting: dict[str, str] = field(default_factory=dict)
    tails: dict[Partition, Range] = field(default_factory=dict)
    described: dict[str, Topic] = field(default_factory=dict)
    shape: Shape | None = None
    loaded: tuple[int, str] | None = None
    snapshots: dict[int, str] = field(default_factory=dict)


def linked(chain: str, outcome: Outcome) -> str:
    """The chain after one more commit: 64 bits, in hex."""
    return blake2b(chain.encode() + outcome.digest, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Course:
    """What lies ahead in the journal.

    `cuts`: which entries a later reset cuts out of the history, for each cut those after the first
    number and before the second; `records` is how many records the others consumed. `begun` are
    partitions that begin again, with the last entry that says so: what was consumed of them before
    it is not in the log any more.
    """

    records: int = 0
    cuts: tuple[tuple[int, int], ...] = ()
    begun: tuple[tuple[Partition, int], ...] = ()

    def without(self, seq: int) -> int | None:
        """The reset that cut entry `seq` out; None where it is part of the history."""
        return next((reset for to, reset in self.cuts if to < seq < reset), None)

    def replaced(self, entry: Entry) -> str | None:
        """Why the records of an entry cannot be read again; None where they may be there."""
        begun = dict(self.begun)
        for r in entry.ranges:
            partition = Partition(r.topic, r.partition)
            if entry.seq < begun.get(partition, -1):
                again = begun[partition]
                return f"{partition} began again at entry {again}; entry {entry.seq} is of before"
        return None


def course(log: Log, partition: Partition, start: int, end: int) -> Course:
    """What the journal holds from `start` up to `end`; read twice only where there is a reset."""
    records, resets = 0, []
    begun: dict[Partition, int] = {}
    for _, entry in entries(log, partition, start, end):
        if isinstance(entry, Reset):
            resets.append(entry)
        if isinstance(entry, Inputs):
            begun |= {Partition(t, n): entry.seq for t, n, _ in entry.starts}
            begun |= {Partition(t, n): entry.seq for t, n in entry.gone}
        records += _size(entry)
    cuts: list[tuple[int, int]] = []
    for reset in reversed(resets):
        if not any(to < reset.seq < by for to, by in cuts):  # a reset may be cut out itself
            cuts.append((reset.to, reset.seq))
    ahead = Course(records, tuple(cuts), tuple(begun.items()))
    if not cuts:
        return ahead
    left = entries(log, partition, start, end)
    return replace(ahead, records=sum(_size(e) for _, e in left if ahead.without(e.seq) is None))


def cut_out(log: Log, partition: Partition, end: int) -> tuple[int, int]:
    """How many entries of what is left of the journal up to `end` rollbacks cut out, and how many
    records they consumed."""
    start = log.beginning_offsets([partition])[partition]
    ahead = course(log, partition, start, end)
    if not ahead.cuts:
        return 0, 0
    sizes = [
        _size(entry)
        for _, entry in entries(log, partition, start, end)
        if ahead.without(entry.seq) is not None
    ]
    return len(sizes), sum(sizes)


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
    live: Live,
    end: int,
    ahead: Course,
    *,
    explain: int = 0,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Entry, Outcome]]:
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
        passed = [] if cut else [entry for _, entry in window if isinstance(entry, Entry)]
        with closing(_Reader(log, found, live.shard, passed)) as reader:
            for at, entry in window:
                if not cut and enough():  # within what was cut out it is at no entry of the history
                    return
                if entry.seq != live.seq + 1:
                    raise TransportError(
                        f"the journal {found.journal.topic} jumps to entry {entry.seq} at {at}; "
                        "entries are missing, the model cannot be rebuilt"
                    )
                if cut or not isinstance(entry, Entry):
                    pass_over(entry, live, cut=cut)
                else:
                    for outcome in _apply(entry, reader.pieces(entry), live, explain):
                        live.replayed += len(outcome.batch)
                        yield entry, outcome
                live.seq, live.position, live.now = entry.seq, at + 1, entry.now
    live.position = max(live.position, end)


def _apply(entry: Entry, pieces: Iterable[Batch], live: Live, explain: int) -> Iterator[Outcome]:
    """Process an entry, in as many pieces as it was read in; what came of each."""
    _check_positions(entry, live.shard.positions)
    _check_snapshot(entry, live)
    check, before, last = Check(entry), Before(), list[Outcome]()
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
            _check_chain(entry, live)
            _move(entry, live)
        if entry.aside:
            last.append(outcome)
        live.last = last
        yield outcome
    check.end()


def pass_over(entry: Entry | Reset | Roster | Inputs, live: Live, *, cut: bool) -> None:
    """An entry without records, or one that a reset cut out: consumed, and no more.

    Its dead letters stay written, so an early label among them must not be refused again.
    """
    _move(entry, live)
    if isinstance(entry, Entry):
        _check_snapshot(entry, live)
        learn_inputs(entry, live.topics, live.tails)
        live.shard.forget_early(entry.early)
    elif not cut:
        _check_chain(entry, live)
        if isinstance(entry, Roster):
            live.shard.line_up(Lineup(entry.challengers, entry.threshold), entry.champion)


def _move(entry: Entry | Reset | Roster | Inputs, live: Live) -> None:
    """What it says of the inputs holds also where a reset cut it out: they are what they are."""
    if isinstance(entry, Inputs):
        pass_inputs(entry, live)
    elif isinstance(entry, Entry):
        move(entry, live.shard.positions)
        live.topics |= entry.topics


def pass_inputs(entry: Inputs, live: Live) -> None:
    """Have the inputs as the entry says."""
    move(entry, live.shard.positions)
    learn_inputs(entry, live.topics, live.tails)


def learn_inputs(entry: Journaled, topics: dict[str, str], tails: dict[Partition, Range]) -> None:
    """Bring the ids of the topics and the last records past an entry that is not processed."""
    if isinstance(entry, Entry):
        topics |= entry.topics
        tails |= {Partition(r.topic, r.partition): r for r in entry.ranges if r.count}
    elif isinstance(entry, Inputs):
        topics |= entry.topics
        for topic, number in (*(at[:2] for at in entry.starts), *entry.gone):
            tails.pop(Partition(topic, number), None)


def move(entry: Journaled, positions: dict[Partition, int]) -> None:
    """Bring the positions of the inputs past an entry."""
    if isinstance(entry, Entry):
        positions |= _ends(entry)
    elif isinstance(entry, Inputs):
        positions |= {Partition(topic, number): at for topic, number, at in entry.starts}
        for gone in entry.gone:
            positions.pop(Partition(*gone), None)


def _check_positions(entry: Entry, positions: Mapping[Partition, int]) -> None:
    """Ranges tile: a shard that stands elsewhere is not the one that was journaled."""
    for r in entry.ranges:
        at = positions.get(Partition(r.topic, r.partition), 0)
        if at != r.first:
            raise DivergedError(
                f"journal entry {entry.seq} goes on at {r.topic}[{r.partition}] offset {r.first}, "
                f"expected the shard there, it is at {at}; replay from an older snapshot or from "
                "the beginning"
            )


def _check_snapshot(entry: Entry, live: Live) -> None:
    """Whether the state the shard began with is the one that was saved there."""
    for saved in entry.snapshots:
        if live.loaded is not None and live.loaded[0] == saved[0] and live.loaded != saved:
            raise DivergedError(
                f"journal entry {entry.seq}: the snapshot at {saved[0]} was written with the state "
                f"{saved[1][:16]}, it now holds {live.loaded[1][:16]}; it was changed since"
            )


def _check_chain(entry: Entry | Reset | Roster | Inputs, live: Live) -> None:
    """Whether the shard said and scored what it did when the entry was written, bit for bit."""
    if live.chain == entry.chain:
        return
    if not live.shard.repeatable:
        live.diverged = live.diverged or entry.seq
        live.chain = entry.chain
        return
    raise DivergedError(
        f"journal entry {entry.seq}: its records give other predictions than they gave then; "
        "this program, its libraries or the processor differ from those that wrote it: run it "
        "there, or start under a new name"
    )


def _windows(
    found: Iterable[tuple[int, Journaled]], ahead: Course
) -> Iterator[list[tuple[int, Entry | Reset | Roster | Inputs]]]:
    """Entries whose records are read in one go; what is cut out, and what has none, stand alone."""
    window: list[tuple[int, Entry | Reset | Roster | Inputs]] = []
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


class _Reader:
    """The records of the entries of a window, read from the log as they are asked for.

    What is read ahead is bounded in bytes, however the log serves its partitions, and so is a
    piece.
    """

    def __init__(self, log: Log, found: Sources, shard: Shard, window: Sequence[Entry]) -> None:
        ends: dict[Partition, int] = {}
        for entry in window:
            ends |= _ends(entry)
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

    def pieces(self, entry: Entry) -> Iterator[Batch]:
        """The records of an entry, in its order; the window's entries one after another."""
        upto, merge = _ends(entry), self._merge
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


def _ends(entry: Entry) -> dict[Partition, int]:
    """The offset after the last record it consumed, of each partition that moved."""
    return {Partition(r.topic, r.partition): r.end for r in entry.ranges}
