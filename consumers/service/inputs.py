"""Whether the inputs are still the logs that were consumed, and which partitions they have.

A topic that is deleted and made again keeps its name and begins at offset 0; one whose leader lost
records ends earlier and grows again. Either way the offsets that were consumed hold other records,
and to go on from them would pass over records that nobody predicted. So the journal knows the id of
each input topic, and a shard the checksum of the records it consumed last of each partition. Both
are compared at each start, whenever an owner begins again, and while it runs: a topic's id before
records of it are committed, its last records after the election of a leader. An operator decides
what a difference means, and the decision is an entry of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from consumers.base.errors import ConfigError, InputChangedError, TransportError
from consumers.base.records import Partition, Topic
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.checksum import RangeChecksum
from consumers.journal.records import (
    ChallengersRecord,
    CommitRecord,
    InputsRecord,
    Range,
    RollbackRecord,
    mark_of,
)
from consumers.service.live import LiveShard, Sources, learn_inputs, move, pass_inputs
from consumers.service.partitioning import objections
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.locate import JournalOrigin, RemainingJournal
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner

__all__ = ["Decision", "InputWatch", "begin_again", "consumed", "differences", "known_by", "settle"]

Decision = Literal["new", "same"]
LOOK_SECONDS = 0.05  # records of a log that was not looked at for longer are not committed,
SHARE = 50  # or for as many times as long as the look takes: it may cost a fiftieth of the time
IDLE_SECONDS = 1.0  # between two looks at most, also while there is nothing to commit
OBJECT_SECONDS = 60.0  # between two questions whether shards allow partitions that were refused


@dataclass(slots=True)
class Differences:
    """How the inputs differ from what was consumed.

    Parameters
    ----------
    topics
        What the log says of each input topic.
    renewed
        Topics whose id is another one.
    changed
        Partitions whose last records are others, or fewer, and what shows it.
    unknown
        Partitions of `renewed` topics whose last records are not kept any more.
    added, gone
        Partitions that were not consumed so far, and those that are not there any more.
    """

    topics: dict[str, Topic]
    renewed: dict[str, str] = field(default_factory=dict)
    changed: dict[Partition, str] = field(default_factory=dict)
    unknown: list[Partition] = field(default_factory=list)
    added: list[Partition] = field(default_factory=list)
    gone: list[Partition] = field(default_factory=list)

    @property
    def again(self) -> list[Partition]:
        """Partitions that are not what was consumed."""
        every = {*self.changed, *(p for p in self.unknown if p.topic in self.renewed)}
        return sorted(every)


def differences(
    log: Log,
    inputs: Sequence[Partition],
    positions: Mapping[Partition, int],
    topics: Mapping[str, str],
    tails: Mapping[Partition, Range],
) -> Differences:
    """Compare the inputs with what was consumed of them; reads the last records of each.

    Parameters
    ----------
    inputs
        Partitions that there are now.
    positions, topics, tails
        Where the consumer stands, the ids of the topics and the last records as it knows them.
    """
    told = log.describe(sorted({p.topic for p in inputs}))
    out = Differences(told)
    for topic, now in told.items():
        known = topics.get(topic, "")
        if known and now.id and known != now.id:
            out.renewed[topic] = f"id {now.id}, where {known} was consumed"
    out.added = [p for p in inputs if p not in positions]
    out.gone = sorted(set(positions) - set(inputs))
    here = {p: at for p, at in positions.items() if p in inputs}
    out.changed, unknown = changed(log, here, tails)
    out.unknown = [p for p in unknown if p.topic in out.renewed]
    return out


def changed(
    log: Log, positions: Mapping[Partition, int], tails: Mapping[Partition, Range]
) -> tuple[dict[Partition, str], list[Partition]]:
    """Partitions that are not what was consumed, and what shows it; those that cannot be compared.

    Parameters
    ----------
    positions
        Where the consumer stands.
    tails
        The last records it consumed of each partition.
    """
    begins, ends = log.beginning_offsets(list(positions)), log.end_offsets(list(positions))
    out = {
        p: f"ends at {ends[p]}, where {at} was reached"
        for p, at in positions.items()
        if ends[p] < at
    }
    out |= {
        p: f"ends at {ends[p]}, where its records up to {tail.end} were consumed"
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
            out[p] = f"holds other records at offsets {tail.first} to {tail.end - 1}"
    return out, unknown


def settle(
    config: Config,
    log: Log,
    owner: Owner,
    found: Sources,
    live: LiveShard,
    save: Callable[[], None],
    *,
    now: int,
    decision: Decision | None = None,
) -> None:
    """Bring the shard's inputs to what the log has, as far as that is clear; `live.news` says so.

    Parameters
    ----------
    save
        Writes a snapshot of `live`: what was consumed of a topic that begins again cannot be
        replayed any more.
    decision
        What an operator says of inputs that are others: `new` begins them again, `same` goes on.

    Raises
    ------
    InputChangedError
        An input is not what was consumed, and there is no decision, or it does not hold.
    ConfigError
        Partitions were added, and shards do not allow it.
    TransportError
        A partition is gone; or from the owner.
    """
    seen = differences(log, found.inputs, live.shard.positions, live.topics, live.tails)
    live.described = seen.topics
    ids = {topic: known.id for topic, known in seen.topics.items() if known.id}
    live.adopting = {t: made for t, made in ids.items() if t not in live.topics}
    if without := [topic for topic in seen.topics if topic not in ids]:
        live.news += (f"{', '.join(without)}: no topic id, known by the last records alone",)
    again = begin_again(seen, live.shard.positions, decision)
    gone = [p for p in seen.gone if p.topic in seen.renewed and decision == "new"]
    if len(gone) < len(seen.gone):
        left = next(p for p in seen.gone if p not in gone)
        raise TransportError(
            f"{left}, which was consumed, is gone; the model cannot go on without it: "
            "bring the topic back, or give the service a new name"
        )
    if seen.added and config.scale.shards > 1:
        for objection in objections(config, log):
            raise ConfigError(objection)
    if not (again or gone or seen.added or seen.renewed):
        if decision is not None:
            live.news += (f"no input has changed: --{_FLAGS[decision]} changes nothing",)
        return
    if again or gone:
        if live.shard.unsaved:
            raise ConfigError(
                f"{', '.join(live.shard.unsaved)} is not kept in snapshots, so the model would be "
                "lost at the next start: give the service a new name"
            )
        save()
    starts = log.beginning_offsets([*again, *seen.added])
    why = _FLAGS[decision] if decision and (seen.renewed or seen.changed) else "partitions added"
    topics = live.adopting | {topic: ids[topic] for topic in seen.renewed}
    _write(owner, found, live, starts, gone, topics, why, now)
    live.news += _news(seen, again, starts, decision)


_FLAGS: Mapping[Decision, str] = {"new": "accept-new-topic", "same": "same-topic"}


def begin_again(
    seen: Differences, positions: Collection[Partition], decision: Decision | None = None
) -> list[Partition]:
    """The partitions that begin again.

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
        what += [f"the last records consumed of {p} have expired" for p in seen.unknown]
        raise InputChangedError(
            f"--same-topic expects the records that were consumed, {_some(what)}; restore the "
            "topic, or begin it at its first record with --accept-new-topic"
        )
    raise InputChangedError(
        f"expected the inputs that were consumed, {_some(what)}: the topic was deleted and made "
        "again, or lost records; headwater run --accept-new-topic begins it at its first record, "
        "--same-topic goes on where it stood if it holds the same records (a restored or "
        "mirrored cluster)"
    )


def _some(what: Sequence[str]) -> str:
    more = f" (and {len(what) - 3} more)" if len(what) > 3 else ""
    return "; ".join(what[:3]) + more


def _write(
    owner: Owner,
    found: Sources,
    live: LiveShard,
    starts: Mapping[Partition, int],
    gone: Collection[Partition],
    topics: dict[str, str],
    reason: str,
    now: int,
) -> None:
    """Follow the entry and commit it; where that fails, the shard in memory is dropped."""
    entry = InputsRecord(
        live.seq + 1,
        max(now, live.now),
        live.chain,
        [(*p, at) for p, at in sorted(starts.items())],
        [(*p,) for p in gone],
        topics,
        reason,
    )
    pass_inputs(entry, live)
    record = journal.written(entry, found.journal, entry.now)
    at = owner.commit([], record, live.shard.positions)
    live.stand_after(entry, at)
    live.adopting = {}


def _news(
    seen: Differences,
    again: Collection[Partition],
    starts: Mapping[Partition, int],
    decision: Decision | None,
) -> tuple[str, ...]:
    news = [f"{p} begins again at offset {starts[p]}" for p in sorted(again)]
    news += [f"{p} was added and is read from offset {starts[p]}" for p in seen.added]
    if decision == "same":
        news += [f"{topic} has a new id and the same records: gone on" for topic in seen.renewed]
    return tuple(news)


def consumed(
    origin: JournalOrigin, store: SnapshotStore
) -> tuple[dict[Partition, int], dict[str, str], dict[Partition, Range]]:
    """Where a shard stands, the ids of its topics and its last records, from its newest snapshot
    and its journal; no model is built."""
    left, at = origin.left, 0
    positions = {Partition(t, n): start for t, n, start in origin.identity.starts}
    topics: dict[str, str] = {}
    tails: dict[Partition, Range] = {}
    for about, state in store.of(mark_of(origin.identity)).newest(origin.objection):
        at = about.position
        positions |= {Partition(t, n): p for t, n, p in state.nested("shard").header["positions"]}
        topics, tails = known_by(left, about, positions)
        break
    for _, entry in left.entries(max(at, left.first), left.end):
        move(entry, positions)
        learn_inputs(entry, topics, tails)
    return positions, topics, tails


def known_by(
    left: RemainingJournal, about: SnapshotInfo, positions: Mapping[Partition, int]
) -> tuple[dict[str, str], dict[Partition, Range]]:
    """The ids of the topics and the last records consumed, where a snapshot ends.

    One of an older program does not tell the records; the entry it ends with then tells those of
    its partitions. One that a rollback wrote, or a promotion behind it, may tell what was known at
    the moment that was gone back to: the entries that were cut out tell more.

    Parameters
    ----------
    positions
        Where the shard of the snapshot stands.
    """
    topics = dict(about.topics)
    tails = {Partition(r.topic, r.partition): r for r in about.tails}
    last = left.last(about.position)
    if isinstance(last, RollbackRecord | ChallengersRecord):
        tails = {p: tail for p, tail in tails.items() if tail.end == positions.get(p)}
        for _, entry in left.entries(left.first, about.position):
            learn_inputs(entry, topics, tails)
    elif not tails and isinstance(last, CommitRecord):
        learn_inputs(last, topics, tails)
    return topics, tails


class InputWatch:
    """Looks at the inputs of a shard that runs.

    Parameters
    ----------
    log
        Asked in the thread of the loop.
    live
        The shard, at the moment its owner begins.
    clock
        Seconds.
    """

    def __init__(
        self, config: Config, log: Log, found: Sources, live: LiveShard, clock: Callable[[], float]
    ) -> None:
        self._config, self._log, self._clock = config, log, clock
        self._inputs = found.inputs
        self._seen = live.described  # an election since then has not been looked into
        self._tails: dict[Partition, Range] = {}  # at the last look that found nothing
        self._at = self._asked_at = self._objected_at = float("-inf")
        self._missing = False
        self._took = 0.0
        self._objection = ""
        self.unread: list[Partition] = []
        self.look(live)

    def due(self, *, idle: bool) -> bool:
        """Whether the last look is too long ago to commit what was polled since.

        An idle shard does not ask a log each time that did not answer.
        """
        if idle:
            return self._clock() - self._asked_at >= IDLE_SECONDS
        patience = min(max(LOOK_SECONDS, SHARE * self._took), IDLE_SECONDS)
        return self._clock() - self._at >= patience

    @property
    def objection(self) -> str:
        """Why partitions that were added are not read; empty where all are."""
        return self._objection if self.unread else ""

    def look(self, live: LiveShard) -> bool:
        """Ask the log; whether there are partitions to begin with.

        Raises
        ------
        InputChangedError
            An input is not what was consumed.
        TransportError
            The log does not answer, or an input is gone.
        """
        names = sorted({p.topic for p in self._inputs})
        self._asked_at = self._clock()
        now = self._log.describe(names)
        self._took = self._clock() - self._asked_at
        self._missing = self._present(names, now)
        for topic in names:
            self._check(topic, now[topic], live)
        moved = [p for p in self._inputs if self._epoch(now, p) > self._epoch(self._seen, p)]
        if self._seen and moved:
            self._compare(moved, live)
        # From when the log was asked: what happens while records are compared is not seen yet.
        self._seen, self._tails, self._at = now, dict(live.tails), self._asked_at
        shards, own = self._config.scale.shards, live.entry.shard
        every = [Partition(t, n) for t in names for n in range(own, now[t].partitions, shards)]
        self.unread = [p for p in every if p not in live.shard.positions]
        return bool(self.unread) and not self._refused()

    def _present(self, names: Sequence[str], now: Collection[str]) -> bool:
        """An error where a topic is missing; only the second time in a row is it believed."""
        missing = [topic for topic in names if topic not in now]
        if not missing:
            return False
        before, self._missing = self._missing, True
        error = InputChangedError if before else TransportError
        raise error(
            f"expected the input topic {missing[0]}, it was deleted; restore it, or make it again "
            "and run with --accept-new-topic"
        )

    def _check(self, topic: str, now: Topic, live: LiveShard) -> None:
        known = live.adopting.get(topic) or live.topics.get(topic, "")
        if known and now.id and known != now.id:
            raise InputChangedError(
                f"{topic} was deleted and made again while it was consumed: expected id {known}, "
                f"it has {now.id}; headwater run --accept-new-topic begins it at its first record"
            )

    def _compare(self, moved: Sequence[Partition], live: LiveShard) -> None:
        """After an election: whether the new leader has what was consumed, then and since."""
        positions = {p: live.shard.positions[p] for p in moved}
        for tails in (self._tails, live.tails):
            for partition, why in changed(self._log, positions, tails)[0].items():
                raise InputChangedError(
                    f"{partition} {why}: its new leader has lost records that were consumed; "
                    "headwater run --accept-new-topic begins it at its first record"
                )

    def _epoch(self, topics: Mapping[str, Topic], partition: Partition) -> int:
        epochs = topics[partition.topic].epochs if partition.topic in topics else ()
        return epochs[partition.number] if partition.number < len(epochs) else -1

    def _refused(self) -> bool:
        """Whether shards do not allow the new partitions; asked again now and then."""
        if self._config.scale.shards == 1:
            return False
        if self._clock() - self._objected_at >= OBJECT_SECONDS:
            self._objection = next(iter(objections(self._config, self._log)), "")
            self._objected_at = self._clock()
        return bool(self._objection)
