"""Which journal this is, and which of its snapshots lead to where it ends.

A journal begins with its identity. One that was trimmed does not: then a snapshot says what it
was, if the entries that are left go on where the snapshot ends. A snapshot is of this journal only
if the entry it ends with is the journal's own: a log that lost its end and grew again has other
entries at the same positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Partition
from consumers.config import Config, identity_difference
from consumers.journal.reader import entries
from consumers.journal.records import CommitRecord, IdentityRecord, JournalRecord, mark_of
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from consumers.transports.registry import transport_of

__all__ = ["JournalOrigin", "RemainingJournal", "expired", "identity_in", "locate"]

_NEAR = 64  # offsets before a snapshot's position in which its last entry lies, but for long aborts


@dataclass(frozen=True, slots=True)
class RemainingJournal:
    """What is left of a journal: the entries at `first` up to `end`.

    `slack` is how many offsets after an entry hold no entry: on Kafka the marker that ends its
    transaction.
    """

    log: Log
    partition: Partition
    first: int
    end: int
    slack: int

    def objection(self, about: SnapshotInfo) -> str | None:
        """Why the journal does not go on where a snapshot ends; None where it does."""
        if about.position > self.end:
            return f"ahead of the journal, which ends at {self.end}"
        last = self.last(about.position)
        if last is not None:
            chain = "" if isinstance(last, IdentityRecord) else last.chain
            if (last.seq, last.now) == (about.seq, about.now):
                if about.chain in ("", chain):  # the first ones had none
                    return None
                return (
                    f"not of this journal: entry {last.seq} has the hash {chain}, the snapshot "
                    f"{about.chain}"
                )
            return (
                f"of a history this journal does not have: entry {last.seq} ends there, at clock "
                f"{last.now}"
            )
        # What it ends with was trimmed: then what is left must go on right behind it.
        following = next((entry for _, entry in self.entries(self.first, self.end)), None)
        if (
            following is not None
            and not isinstance(following, IdentityRecord)
            and following.seq == about.seq + 1
        ):
            return None
        if following is None and about.position + self.slack >= self.first:
            return None
        return f"behind what is left of the journal, which begins at offset {self.first}"

    def lost(self, what: str, refused: Sequence[str]) -> TransportError:
        """The error where no snapshot reaches what is left, and what to do."""
        trimmed = f"; the journal was trimmed before offset {self.first}" if self.first else ""
        why = f" (not used: {'; '.join(refused[:3])})" if refused else ""
        return TransportError(
            f"{what}{trimmed}, and no snapshot reaches what is left{why}; put one back into "
            "[snapshots] directory, or give the service a new name: it then starts from the "
            "beginning of its inputs"
        )

    def entries(self, start: int, end: int) -> Iterator[tuple[int, JournalRecord]]:
        """Those from `start` up to `end`."""
        return entries(self.log, self.partition, start, end)

    def last(self, position: int) -> JournalRecord | None:
        """The last entry before a position; None where it is not kept any more."""
        for start in (max(self.first, position - _NEAR), self.first):
            last = None
            for _, last in self.entries(start, position):  # noqa: B007
                pass
            if last is not None:
                return last
        return None


@dataclass(frozen=True, slots=True)
class JournalOrigin:
    """What a journal is; `whole` says whether entry 0 itself is still there."""

    identity: IdentityRecord
    left: RemainingJournal
    whole: bool

    def objection(self, about: SnapshotInfo) -> str | None:
        """Why a snapshot cannot be gone on from here; None where it can."""
        if about.identity != mark_of(self.identity):
            return "of another service or configuration"
        return self.left.objection(about)


def locate(
    config: Config,
    log: Log,
    partition: Partition,
    end: int,
    store: SnapshotStore | None = None,
) -> JournalOrigin | None:
    """What the journal up to `end` is, checked against the configuration; None for an empty one.

    Parameters
    ----------
    store
        The snapshots of the shard: what a trimmed journal is known by.

    Raises
    ------
    ConfigError
        It is the journal of another configuration.
    TransportError
        It does not begin with entry 0, and no snapshot reaches what is left of it.
    """
    first = log.beginning_offsets([partition])[partition]
    entry = next((found for _, found in entries(log, partition, first, end)), None)
    if entry is None and first == 0:
        return None
    slack = transport_of(config.input.transport).offsets_after_commit
    left = RemainingJournal(log, partition, first, end, slack)
    whole = isinstance(entry, IdentityRecord)
    identity = entry if isinstance(entry, IdentityRecord) else _remembered(config, left, store)
    _same(config, identity, partition)
    return JournalOrigin(identity, left, whole)


def identity_in(
    config: Config,
    log: Log,
    partition: Partition,
    end: int,
    store: SnapshotStore | None = None,
) -> IdentityRecord | None:
    """The identity `locate` finds, and its errors."""
    origin = locate(config, log, partition, end, store)
    return None if origin is None else origin.identity


def expired(
    log: Log,
    positions: Mapping[Partition, int],
    left: Iterable[CommitRecord],
) -> str | None:
    """Which input lost records that the entries `left` still need; None where none did."""
    begins = log.beginning_offsets(list(positions))
    gone = {p for p, begin in begins.items() if positions[p] < begin}
    if not gone:
        return None
    for entry in left:
        for r in entry.ranges:
            p = Partition(r.topic, r.partition)
            if p in gone and r.first < begins[p]:
                return f"{p} has lost its records {positions[p]} to {begins[p] - 1}"
    return None


def _remembered(
    config: Config, left: RemainingJournal, store: SnapshotStore | None
) -> IdentityRecord:
    """The identity of a trimmed journal, from the newest snapshot that reaches what is left."""
    refused: list[str] = []

    def objection(about: SnapshotInfo) -> str | None:
        if about.entry is None or mark_of(about.entry) != about.identity:
            return "carries no identity"
        return left.objection(about)

    for part in [] if store is None else store.parts():
        for about, _ in part.newest(objection):
            if about.entry is not None:
                return about.entry
        refused += part.refused
    raise left.lost(
        f"the journal {left.partition.topic} does not begin with the identity of {config.name}, it "
        "was trimmed or belongs to another program",
        refused,
    )


def _same(config: Config, identity: IdentityRecord, partition: Partition) -> None:
    different = identity_difference(identity.identity, config.identity())
    if identity.name != config.name:
        different = [f"name: was {identity.name}, now {config.name}"]
    if different:
        raise ConfigError(
            f"the journal {partition.topic} belongs to another configuration "
            f"({'; '.join(different)}); change it back, or give this one a new name"
        )
