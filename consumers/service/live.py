"""A shard at a position of its journal, and how a journal record changes it.

Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from consumers.base.errors import DivergedError
from consumers.base.records import UNBOUNDED, Partition, Topic
from consumers.config.learner import uses_code
from consumers.journal.merge import Measure
from consumers.journal.reader import move_positions, update_inputs
from consumers.journal.records import (
    ChallengersRecord,
    CommitRecord,
    IdentityRecord,
    InputsRecord,
    LaterRecord,
    MovedRecord,
    Range,
    RelearnRecord,
    SchemasRecord,
)
from consumers.shard.challengers import ChallengerSet
from consumers.shard.shape import OutputShape
from consumers.shard.shard import Outcome, Shard
from stream.data.schema import Field

__all__ = [
    "LiveShard",
    "Progress",
    "Sources",
    "apply_inputs",
    "apply_schemas",
    "apply_skipped",
    "check_chain",
    "check_snapshot",
    "linked",
    "move_inputs",
]


Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """The partitions a shard consumes, its journal, and the bytes it processes at once. `measure`
    counts rows and unpacked bytes of a message; None: a message is one record. `mix` is the topic
    in which the shards exchange what they have learned, if they do."""

    inputs: tuple[Partition, ...]
    label_topics: frozenset[str]
    journal: Partition
    predictions_partitions: int
    largest_dead_letter: int | None = None
    max_bytes: int = UNBOUNDED
    predictions_schema: int = 0
    measure: Measure | None = None
    mix: str = ""


@dataclass(slots=True)
class LiveShard:
    """A shard at the end of its journal.

    `seq`, `position` and `now` are the number of the last journal record, the offset after it and
    its clock. `entry` is journal record 0 with the settings that the model has, and `identity` its
    hash, which every snapshot contains.
    `snapshot` is the clock of the snapshot it was loaded from; `differs` lists the programs that
    made the snapshot and have another version here. `last` is the outcome of the last replayed
    commit, in pieces, if its outputs were written after it and may be missing. `chain` is the hash
    of all predictions and scores so far. `diverged` is the first journal record that a river model
    did not repeat. `shape` is the last journaled shape of outputs. `rebuilt` is False if a standby
    was taken over. `topics` are the journaled ids of the input topics, `adopting` those for the
    next journal record, `tails` the last consumed records of each partition, and `described` the
    topics as the log described them before they were compared. `loaded` are position and state
    fingerprint of the loaded snapshot, `snapshots` those for the next journal record, by position.
    `moved` is the record that ends the journal, if the service was moved to other shards.
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
    moved: MovedRecord | None = None

    def heading(self, now: int) -> dict[str, Any]:
        """What every journal record after record 0 says, for one that consumes nothing: number,
        clock, hash and settings. `now` is the clock in ms."""
        return {
            "seq": self.seq + 1,
            "now": max(now, self.now),
            "chain": self.chain,
            "settings": self.entry.settings,
        }

    def advance_past(self, entry: LaterRecord, offset: int) -> None:
        """Set number, position and clock to those after a journal record at this offset."""
        self.seq, self.position, self.now = entry.seq, offset + 1, entry.now


def linked(chain: str, outcome: Outcome) -> str:
    """The chain after one more commit: 64 bits, in hexadecimal."""
    return blake2b(chain.encode() + outcome.digest, digest_size=8).hexdigest()


def apply_skipped(
    entry: LaterRecord,
    live: LiveShard,
    *,
    cut: bool,
) -> None:
    """Apply a journal record that consumes nothing, or that a rollback removed, unprocessed.

    Its dead letters stay written, so an early label among them must not be refused again.
    """
    move_inputs(entry, live)
    if isinstance(entry, MovedRecord):
        live.moved = entry
    if isinstance(entry, SchemasRecord):  # of a removed span too: the ids mean the same afterwards
        apply_schemas(entry, live)
    if isinstance(entry, CommitRecord):
        check_snapshot(entry, live)
        update_inputs(entry, live.topics, live.tails)
        live.shard.forget_early(entry.early)
    elif not cut and entry.seq >= live.entry.since:  # else it is about the earlier settings
        if isinstance(entry, RelearnRecord):
            _check_settings(entry, live)
            live.last = ()  # written with the earlier settings
        check_chain(entry, live)
        if isinstance(entry, ChallengersRecord):
            live.shard.set_challengers(
                ChallengerSet(entry.challengers, entry.threshold), entry.champion
            )


def apply_schemas(entry: SchemasRecord, live: LiveShard) -> None:
    """Add the schemas of the journal record."""
    for id_, schema in entry.schemas:
        live.shard.schemas.add(id_, schema)


def _check_settings(entry: RelearnRecord, live: LiveShard) -> None:
    """A shard with earlier settings must not continue after the record: it is another model."""
    if entry.seq != live.entry.since:
        raise DivergedError(
            f"journal record {entry.seq} gives the model new settings, and this shard has those of "
            f"record {live.entry.since}: it must be rebuilt"
        )


def move_inputs(entry: LaterRecord, live: LiveShard) -> None:
    """Apply what it records about the inputs. This also holds for a removed record."""
    if isinstance(entry, InputsRecord):
        apply_inputs(entry, live)
    elif isinstance(entry, CommitRecord):
        move_positions(entry, live.shard.positions)
        live.topics |= entry.topics


def apply_inputs(entry: InputsRecord, live: LiveShard) -> None:
    """Apply the inputs of the journal record."""
    move_positions(entry, live.shard.positions)
    update_inputs(entry, live.topics, live.tails)


def check_snapshot(entry: CommitRecord, live: LiveShard) -> None:
    """Check that the loaded snapshot has the state that was saved at its position."""
    for saved in entry.snapshots:
        if live.loaded is not None and live.loaded[0] == saved[0] and live.loaded != saved:
            raise DivergedError(
                f"journal record {entry.seq}: the snapshot at {saved[0]} was written with state "
                f"{saved[1][:16]}, but now has {live.loaded[1][:16]}: its file was changed"
            )


def check_chain(entry: LaterRecord, live: LiveShard) -> None:
    """Check that the replay repeated the predictions and scores of the commit, bit for bit.

    Records before a `RelearnRecord` have the hashes of other settings; the hash of that record
    covers them.
    """
    if live.chain == entry.chain or entry.seq < live.entry.since:
        return
    if not live.shard.repeatable:
        live.diverged = live.diverged or entry.seq
        live.chain = entry.chain
        return
    model = live.shard.spec.model
    code = f", the code of {model}" if uses_code({"type": model}) else ""
    raise DivergedError(
        f"the replay diverged from the recorded hash at journal record {entry.seq}: "
        f"this program, its libraries{code} or the processor differ from those that wrote it; "
        "replay with those, or start under a new name"
    )
