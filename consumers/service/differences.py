"""Compare the inputs with what a shard has consumed of them. This reads, and changes nothing.

A deleted and recreated topic keeps its name and starts at offset 0. A partition whose leader lost
records ends earlier and grows again. In both cases the consumed offsets hold other records, and
continuing would skip records that were never predicted. So the journal holds the id of each input
topic, and a shard the checksum of the last consumed records of each partition.

Rule: `headwater check` compares too, so this file imports no shard, which takes longer than the
comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from consumers.base.errors import InputChangedError
from consumers.base.records import Partition, Topic
from consumers.journal.checksum import RangeChecksum
from consumers.journal.reader import move_positions, update_inputs
from consumers.journal.records import (
    ChallengersRecord,
    MixRecord,
    Range,
    RollbackRecord,
    SchemasRecord,
    mark_of,
)
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.locate import JournalOrigin, RemainingJournal
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log

__all__ = [
    "Decision",
    "Differences",
    "changed",
    "consumed",
    "differences",
    "known_by",
    "restarted",
]

Decision = Literal["new", "same"]


@dataclass(slots=True)
class Differences:
    """The differences between the inputs and what was consumed.

    Parameters
    ----------
    topics
        The description of each input topic.
    renewed
        Topics with another id, unless nothing of them was consumed and all will be.
    changed
        Partitions whose last records differ or are missing, with the evidence.
    unknown
        Partitions of `renewed` topics whose last records have expired.
    added, gone
        Partitions that were not consumed so far, and those that no longer exist.
    """

    topics: dict[str, Topic]
    renewed: dict[str, str] = field(default_factory=dict)
    changed: dict[Partition, str] = field(default_factory=dict)
    unknown: list[Partition] = field(default_factory=list)
    added: list[Partition] = field(default_factory=list)
    gone: list[Partition] = field(default_factory=list)

    @property
    def again(self) -> list[Partition]:
        """Partitions that differ from what was consumed."""
        every = {*self.changed, *(p for p in self.unknown if p.topic in self.renewed)}
        return sorted(every)


def differences(
    log: Log,
    inputs: Sequence[Partition],
    positions: Mapping[Partition, int],
    topics: Mapping[str, str],
    tails: Mapping[Partition, Range],
) -> Differences:
    """Compare the inputs with what was consumed. This reads the last records of each partition.

    Parameters
    ----------
    inputs
        The present partitions.
    positions, topics, tails
        The consumer's positions, its known ids of the topics and the last consumed records.
    """
    described = log.describe(sorted({p.topic for p in inputs}))
    out = Differences(described)
    out.added = [p for p in inputs if p not in positions]
    out.gone = sorted(set(positions) - set(inputs))
    for topic, now in described.items():
        known = topics.get(topic, "")
        if known and now.id and known != now.id:
            # The new id is accepted if nothing was consumed and reading starts at its first record.
            own = {p: at for p, at in positions.items() if p.topic == topic}
            if own.keys() & out.gone or own.keys() & tails or log.beginning_offsets([*own]) != own:
                out.renewed[topic] = f"id {now.id}, where {known} was consumed"
    here = {p: at for p, at in positions.items() if p in inputs}
    out.changed, unknown = changed(log, here, tails)
    out.unknown = [p for p in unknown if p.topic in out.renewed]
    return out


def changed(
    log: Log, positions: Mapping[Partition, int], tails: Mapping[Partition, Range]
) -> tuple[dict[Partition, str], list[Partition]]:
    """Partitions that differ, with the evidence, and those that cannot be compared.

    Parameters
    ----------
    positions
        The consumer's positions.
    tails
        The last consumed records of each partition.
    """
    begins, ends = log.beginning_offsets(list(positions)), log.end_offsets(list(positions))
    out = {
        p: f"ends at {ends[p]}, but was consumed up to {at}"
        for p, at in positions.items()
        if ends[p] < at
    }
    out |= {
        p: f"ends at {ends[p]}, but its records up to {tail.end} were consumed"
        for p, tail in tails.items()
        if p in positions and p not in out and ends[p] < tail.end
    }
    kept = {p: t for p, t in tails.items() if p in positions and p not in out}
    unknown = [p for p, tail in kept.items() if begins[p] > tail.first]
    wanted = {p: tail for p, tail in kept.items() if begins[p] <= tail.first}
    again = {p: RangeChecksum() for p in wanted}
    starts = {p: tail.first for p, tail in wanted.items()}
    for chunk in log.read(starts, {p: tail.end for p, tail in wanted.items()}):
        again[chunk.partition].add(chunk)
    for p, tail in wanted.items():
        if (again[p].count, again[p].value) != (tail.count, tail.crc32):
            out[p] = f"has other records at offsets {tail.first} to {tail.end - 1}"
    return out, unknown


def restarted(
    seen: Differences, positions: Collection[Partition], decision: Decision | None = None
) -> list[Partition]:
    """The partitions that restart.

    Raises
    ------
    InputChangedError
        It is not clear whether they should.
    """
    if not seen.renewed and not seen.changed:
        return []
    if decision == "new":
        consumed = [p for p in positions if p not in seen.gone]
        return sorted(p for p in consumed if p.topic in seen.renewed or p in seen.changed)
    if decision == "same" and not seen.again:
        return []
    what = [f"{topic} has {why}" for topic, why in seen.renewed.items()]
    what += [f"{partition} {why}" for partition, why in seen.changed.items()]
    if decision == "same":
        what += [f"the last consumed records of {p} have expired" for p in seen.unknown]
        raise InputChangedError(
            f"--same-topic expects the consumed records, but {_some(what)}; restore the topic, or "
            "start it at its first record with --accept-new-topic"
        )
    raise InputChangedError(
        f"expected the consumed inputs, but {_some(what)}: the topic was deleted and "
        "recreated, or lost records; headwater run --accept-new-topic starts it at its first "
        "record, --same-topic continues at its position if it holds the same records (a "
        "restored or mirrored cluster)"
    )


def _some(what: Sequence[str]) -> str:
    more = f" (and {len(what) - 3} more)" if len(what) > 3 else ""
    return "; ".join(what[:3]) + more


def consumed(
    origin: JournalOrigin, store: SnapshotStore
) -> tuple[dict[Partition, int], dict[str, str], dict[Partition, Range]]:
    """Positions, topic ids and last records of a shard, from its newest snapshot and its journal.
    No model is built."""
    left, at = origin.left, 0
    positions = {Partition(t, n): start for t, n, start in origin.identity.starts}
    topics = dict(origin.identity.topics)
    tails: dict[Partition, Range] = {}
    for about, state in store.of(mark_of(origin.identity)).newest(origin.objection):
        at = about.position
        positions |= {Partition(t, n): p for t, n, p in state.nested("shard").header["positions"]}
        topics, tails = known_by(left, about, positions)
        break
    for _, entry in left.entries(max(at, left.first), left.end):
        move_positions(entry, positions)
        update_inputs(entry, topics, tails)
    return positions, topics, tails


def known_by(
    left: RemainingJournal, about: SnapshotInfo, positions: Mapping[Partition, int]
) -> tuple[dict[str, str], dict[Partition, Range]]:
    """The topic ids and the last consumed records at the end of a snapshot.

    The snapshot of a rollback, or of a promotion right after it, may hold those of the earlier
    point in time. The removed journal records then give the later ones.

    Parameters
    ----------
    positions
        The input positions of the snapshot's shard.
    """
    topics = dict(about.topics)
    tails = {Partition(r.topic, r.partition): r for r in about.tails}
    last = left.last(about.position)
    if isinstance(last, RollbackRecord | ChallengersRecord | SchemasRecord | MixRecord):
        tails = {p: tail for p, tail in tails.items() if tail.end == positions.get(p)}
        for _, entry in left.entries(left.first, about.position):
            update_inputs(entry, topics, tails)
    return topics, tails
