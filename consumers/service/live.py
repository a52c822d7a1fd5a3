"""A shard at a position of its journal, and how an entry moves it on.

Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from consumers.base.errors import DivergedError
from consumers.base.records import UNBOUNDED, Partition, Topic
from consumers.journal.records import (
    ChallengersRecord,
    CommitRecord,
    IdentityRecord,
    InputsRecord,
    JournalRecord,
    LaterRecord,
    Range,
)
from consumers.shard.challengers import ChallengerSet
from consumers.shard.outcome import OutputShape
from consumers.shard.shard import Outcome, Shard
from stream.data.schema import Field

__all__ = [
    "LiveShard",
    "Progress",
    "Sources",
    "check_chain",
    "check_snapshot",
    "ends_of",
    "learn_inputs",
    "linked",
    "move",
    "move_past",
    "pass_inputs",
    "pass_over",
]


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
class LiveShard:
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
    entry: IdentityRecord
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
    shape: OutputShape | None = None
    loaded: tuple[int, str] | None = None
    snapshots: dict[int, str] = field(default_factory=dict)

    def stand_after(self, entry: LaterRecord, offset: int) -> None:
        """Stand after an entry, which is in the journal at this offset."""
        self.seq, self.position, self.now = entry.seq, offset + 1, entry.now


def linked(chain: str, outcome: Outcome) -> str:
    """The chain after one more commit: 64 bits, in hex."""
    return blake2b(chain.encode() + outcome.digest, digest_size=8).hexdigest()


def pass_over(entry: LaterRecord, live: LiveShard, *, cut: bool) -> None:
    """An entry without records, or one that a reset cut out: consumed, and no more.

    Its dead letters stay written, so an early label among them must not be refused again.
    """
    move_past(entry, live)
    if isinstance(entry, CommitRecord):
        check_snapshot(entry, live)
        learn_inputs(entry, live.topics, live.tails)
        live.shard.forget_early(entry.early)
    elif not cut:
        check_chain(entry, live)
        if isinstance(entry, ChallengersRecord):
            live.shard.set_challengers(
                ChallengerSet(entry.challengers, entry.threshold), entry.champion
            )


def move_past(entry: LaterRecord, live: LiveShard) -> None:
    """What it says of the inputs holds also where a reset cut it out: they are what they are."""
    if isinstance(entry, InputsRecord):
        pass_inputs(entry, live)
    elif isinstance(entry, CommitRecord):
        move(entry, live.shard.positions)
        live.topics |= entry.topics


def pass_inputs(entry: InputsRecord, live: LiveShard) -> None:
    """Have the inputs as the entry says."""
    move(entry, live.shard.positions)
    learn_inputs(entry, live.topics, live.tails)


def learn_inputs(
    entry: JournalRecord, topics: dict[str, str], tails: dict[Partition, Range]
) -> None:
    """Bring the ids of the topics and the last records past an entry that is not processed."""
    if isinstance(entry, CommitRecord):
        topics |= entry.topics
        tails |= {Partition(r.topic, r.partition): r for r in entry.ranges if r.count}
    elif isinstance(entry, InputsRecord):
        topics |= entry.topics
        for topic, number in (*(at[:2] for at in entry.starts), *entry.gone):
            tails.pop(Partition(topic, number), None)


def move(entry: JournalRecord, positions: dict[Partition, int]) -> None:
    """Bring the positions of the inputs past an entry."""
    if isinstance(entry, CommitRecord):
        positions |= ends_of(entry)
    elif isinstance(entry, InputsRecord):
        positions |= {Partition(topic, number): at for topic, number, at in entry.starts}
        for gone in entry.gone:
            positions.pop(Partition(*gone), None)


def check_snapshot(entry: CommitRecord, live: LiveShard) -> None:
    """Whether the state the shard began with is the one that was saved there."""
    for saved in entry.snapshots:
        if live.loaded is not None and live.loaded[0] == saved[0] and live.loaded != saved:
            raise DivergedError(
                f"journal entry {entry.seq}: the snapshot at {saved[0]} was written with the state "
                f"{saved[1][:16]}, it now holds {live.loaded[1][:16]}; it was changed since"
            )


def check_chain(entry: LaterRecord, live: LiveShard) -> None:
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


def ends_of(entry: CommitRecord) -> dict[Partition, int]:
    """The offset after the last record it consumed, of each partition that moved."""
    return {Partition(r.topic, r.partition): r.end for r in entry.ranges}
