"""Give a service another number of shards, under the same name.

1. learn   each new shard learns the records of its partitions, beside the service
2. close   a `MovedRecord` ends the journal of each old shard, and fences its owner
3. follow  the new shards learn what the old ones have consumed since
4. begin   the journal of each new shard is written, as one transaction

A new shard is the shard of a service that has had this number of shards since record 0: it learns
the same records, in an order that only depends on them. Its journal holds the commits in which it
has learned them. Their predictions are not written again.

Nothing is changed before the first `MovedRecord`. After it, a start with the old number of shards
is refused. If the process dies then, a later call continues: a `MovedRecord` names the new journal,
closed journals stay closed, and new shards whose journal is empty are learned again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import pairwise

import msgspec

from consumers.base.errors import ConfigError, TransportError
from consumers.base.failpoints import reach
from consumers.base.records import Batch, Partition
from consumers.codecs.schemas import StoredSchema
from consumers.config import Config
from consumers.config.sections import MOST_RECORDS
from consumers.config.units import counted
from consumers.journal import records as journal
from consumers.journal.merge import Merge
from consumers.journal.reader import course, entries
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    InputsRecord,
    JournalRecord,
    LaterRecord,
    MovedFrom,
    MovedRecord,
    RollbackRecord,
    SchemasRecord,
    mark_of,
)
from consumers.service.commit import advance_unpublished
from consumers.service.journal_end import check_journal
from consumers.service.live import LiveShard, Progress, Sources, apply_schemas, ends_of
from consumers.service.partitioning import input_objections
from consumers.service.recovery import begun, inputs_of, rebuild, sources, write_again
from consumers.service.replay import replay
from consumers.shard.batches import Skip
from consumers.snapshots.locate import JournalOrigin, locate
from consumers.snapshots.store import SnapshotStore, open_store
from consumers.transports.protocol import Log, Owner

__all__ = ["Move", "NewShard", "OldShard", "planned"]


@dataclass(slots=True)
class OldShard:
    """A shard of the present number.

    Parameters
    ----------
    origin
        Its identity.
    live
        The shard at the end of its journal.
    moved
        The last record of its journal, if that is closed.
    """

    found: Sources
    store: SnapshotStore
    origin: JournalOrigin
    live: LiveShard
    moved: MovedRecord | None


@dataclass(slots=True)
class NewShard:
    """A shard of the new number: its state, and the journal that it will have.

    Parameters
    ----------
    begun
        Whether its journal was written by an earlier call.
    """

    found: Sources
    live: LiveShard
    begun: bool = False
    entries: list[LaterRecord] = field(default_factory=list)


@dataclass(slots=True)
class _Consumed:
    """What the old shards have consumed, by their journals.

    Parameters
    ----------
    starts, ends
        Of each input partition.
    skips
        The records of each partition that were not processed.
    max_rows
        The most rows that a message was allowed to have.
    """

    starts: dict[Partition, int]
    ends: dict[Partition, int]
    skips: dict[Partition, list[Skip]] = field(default_factory=dict)
    schemas: dict[int, StoredSchema] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    max_rows: int = 0

    def add(self, entry: JournalRecord) -> None:
        """Add a journal record of an old shard.

        Raises
        ------
        ConfigError
            The records of the inputs alone do not make the model.
        """
        if isinstance(entry, RollbackRecord):
            raise ConfigError(
                f"journal record {entry.seq} is a rollback: the new shards would learn what it has "
                "removed; give the service a new name"
            )
        if isinstance(entry, CommitRecord):
            self.ends |= ends_of(entry)
            self.topics |= entry.topics
            self.max_rows = max(self.max_rows, entry.max_rows)
            for skip in entry.skips:
                self.skips.setdefault(Partition(*skip[:2]), []).append(skip)
        elif isinstance(entry, InputsRecord):
            self._change(entry)
        elif isinstance(entry, SchemasRecord):
            self.schemas |= dict(entry.schemas)

    def _change(self, entry: InputsRecord) -> None:
        added = {Partition(topic, number): at for topic, number, at in entry.starts}
        again = [*(added.keys() & self.starts.keys()), *(Partition(*gone) for gone in entry.gone)]
        if again:
            raise ConfigError(
                f"{min(again)} was recreated or removed at journal record {entry.seq}: its earlier "
                "records no longer exist, and the new shards cannot learn them; give the service "
                "a new name"
            )
        self.starts |= added
        self.ends |= added
        self.topics |= entry.topics

    def within(self, batch: Batch) -> list[Skip]:
        """The records of a batch that are not processed."""
        return [
            skip
            for partition, (first, end, _) in batch.ranges.items()
            for skip in self.skips.get(partition, ())
            if first <= skip[2] < end
        ]


def with_shards(config: Config, shards: int, topic: str) -> Config:
    """The configuration with another number of shards and another journal."""
    scale = config.scale.model_copy(update={"shards": shards})
    other = config.journal.model_copy(update={"topic": topic})
    return config.model_copy(update={"scale": scale, "journal": other})


def planned(
    config: Config,
    log: Log,
    shards: int,
    topic: str | None,
    progress: Progress = lambda done, total: None,
) -> Move:
    """Check that a service can be moved, and load its shards. Nothing is written.

    Parameters
    ----------
    config
        With the old number of shards.
    shards
        The new number.
    topic
        The new journal. None: a name that is free, or the one of a call that was interrupted.

    Raises
    ------
    ConfigError
        It cannot.
    TransportError
        From the log; or journal or inputs have lost records.
    """
    _check_settings(config, shards)
    old = [_old(config, log, number, progress) for number in range(config.scale.shards)]
    _check_same([shard.origin for shard in old])
    moved = [shard.moved for shard in old if shard.moved is not None]
    for record in moved:
        if record.shards != shards or topic not in (None, record.journal):
            raise ConfigError(
                f"the journal {config.journal_topic} ends with a move to "
                f"{counted(record.shards, 'shard')} in {record.journal}; run reshard with "
                f"--shards {record.shards}"
            )
    name = moved[0].journal if moved else topic or _free(config, log, shards)
    new = with_shards(config, shards, name)
    for objection in input_objections(new, log):
        raise ConfigError(objection)
    _check_topic(config, log, new, resumed=bool(moved))
    move = Move(config, new, log, old)
    move.check()
    return move


def _check_settings(config: Config, shards: int) -> None:
    if shards == config.scale.shards:
        raise ConfigError(f"{config.name} already has [scale] shards = {shards}: nothing to move")
    if config.scale.mix is not None:
        raise ConfigError(
            "reshard does not support [scale] mix, because the topic of the mix has a partition "
            "for each shard: remove mix, run headwater relearn, then reshard"
        )
    if config.labels.silence is not None:
        raise ConfigError(
            "reshard does not support [labels] silence, because what silence teaches depends on "
            "the predictions that the old shards published: give the service a new name"
        )


def _old(config: Config, log: Log, number: int, progress: Progress) -> OldShard:
    found, store = sources(config, log, number), open_store(config, number)
    if number >= log.describe([found.journal.topic])[found.journal.topic].partitions:
        raise ConfigError(f"the journal {found.journal} does not exist: run the service first")
    end = log.end_offsets([found.journal])[found.journal]
    origin = locate(config, log, found.journal, end, store)
    if origin is None:
        raise ConfigError(f"the journal {found.journal} is empty: run the service first")
    if not origin.whole:
        raise ConfigError(
            f"the journal {found.journal} was trimmed before offset {origin.left.first}: it does "
            "not say any more which records the service has consumed; give the service a new name"
        )
    if origin.identity.model is not msgspec.UNSET:
        raise ConfigError(
            "reshard does not support a service that began with an imported model or a history: "
            "the records that the model learned are not in its inputs; give the service a new name"
        )
    live = rebuild(config, log, found, store, end=end, progress=progress)
    if live.shard.champion:
        raise ConfigError(
            f"the challenger {live.shard.champion} is the champion of shard {number}, and new "
            "shards begin with the model of [model]: run headwater promote CONFIG "
            f"{config.name}{f' --shard {number}' if number else ''} --yes first"
        )
    last = origin.left.last(end)
    return OldShard(found, store, origin, live, last if isinstance(last, MovedRecord) else None)


def _check_same(origins: Sequence[JournalOrigin]) -> None:
    """The rules of the journals, which the new ones keep, must be the same."""
    for a, b in pairwise(origin.identity for origin in origins):
        for name in ("merge", "join", "codec", "auto", "river", "fields"):
            if getattr(a, name) != getattr(b, name):
                raise ConfigError(
                    f"the journals of shards {a.shard} and {b.shard} differ in {name}, because "
                    "they were begun by different versions; give the service a new name"
                )


def _free(config: Config, log: Log, shards: int) -> str:
    """The name of a journal that does not exist, or that is empty."""
    base, number = f"{config.name}-journal-{shards}", 1
    while True:
        name = base if number == 1 else f"{base}-{number}"
        if name != config.journal_topic and not _filled(log, name):
            return name
        number += 1


def _filled(log: Log, topic: str) -> list[Partition]:
    """The partitions of a journal that have a record."""
    known = log.describe([topic]).get(topic)
    parts = [Partition(topic, n) for n in range(0 if known is None else known.partitions)]
    firsts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    return [p for p in parts if next(entries(log, p, firsts[p], ends[p]), None) is not None]


def _check_topic(config: Config, log: Log, new: Config, *, resumed: bool) -> None:
    topic, shards = new.journal_topic, new.scale.shards
    if topic in config.topics.values():
        raise ConfigError(f"{topic} is another topic of the service; give one with --journal")
    known = log.describe([topic]).get(topic)
    if known is not None and known.partitions != shards:
        raise ConfigError(
            f"the journal {topic} needs {counted(shards, 'partition')} and has {known.partitions}; "
            "give another one with --journal"
        )
    if not resumed and (filled := _filled(log, topic)):
        raise ConfigError(f"{filled[0]} is not empty; give another journal with --journal")


class Move:
    """A service between two numbers of shards.

    Parameters
    ----------
    config, new
        The configuration with the old and the new number of shards.
    old
        The shards of the old number, at the end of their journals.
    """

    def __init__(self, config: Config, new: Config, log: Log, old: Sequence[OldShard]) -> None:
        self.config, self.new, self.old = config, new, old
        self._log = log
        self._consumed = _Consumed({}, {})
        self._read = [0] * len(old)  # how far the journal of each was read
        for shard in old:
            identity = shard.origin.identity
            starts = {Partition(topic, number): at for topic, number, at in identity.starts}
            self._consumed.starts |= starts
            self._consumed.ends |= starts
            self._consumed.topics |= dict(identity.topics or {})
        self._look()

    @property
    def records(self) -> int:
        """How many offsets the new shards learn."""
        return sum(self._consumed.ends.values()) - sum(self._consumed.starts.values())

    def check(self) -> None:
        """Check that every record can be read again. ConfigError if some have expired."""
        starts = self._consumed.starts
        begins = self._log.beginning_offsets(sorted(starts))
        for partition in sorted(starts):
            if starts[partition] < min(begins[partition], self._consumed.ends[partition]):
                raise ConfigError(
                    f"{partition} has lost its records {starts[partition]} to "
                    f"{begins[partition] - 1}, which the new shards would have to learn; give the "
                    "service a new name"
                )

    def shard(self, number: int) -> NewShard:
        """A new shard that has learned nothing.

        Raises
        ------
        ConfigError
            Its journal was begun, and is not that of the move.
        """
        topics = {
            t: about.partitions for t, about in self._log.describe(self.new.topics.values()).items()
        }
        inputs = [p for p in inputs_of(self.new, topics, number) if p in self._consumed.starts]
        journaled = Partition(self.new.journal_topic, number)
        found = replace(self.old[0].found, inputs=tuple(inputs), journal=journaled)
        identity = self._identity(number, found.inputs)
        live = begun(self.new, identity, found)
        live.position = 1  # after record 0
        return NewShard(found, live, begun=self._begun(journaled, inputs))

    def _begun(self, at: Partition, inputs: Sequence[Partition]) -> bool:
        """Whether an earlier call has written a journal. Then the journal is whole."""
        if at not in _filled(self._log, at.topic):
            return False
        first, end = self._log.beginning_offsets([at])[at], self._log.end_offsets([at])[at]
        head = next(entry for _, entry in entries(self._log, at, first, end))
        last = max(entry.seq for _, entry in entries(self._log, at, first, end))
        if not isinstance(head, IdentityRecord) or not inputs:
            return True  # it was trimmed since, or the shard had nothing to learn
        if head.moved is msgspec.UNSET:
            raise ConfigError(
                f"the journal {at} was begun with an empty model, by a start with --new-journal, "
                "so the move cannot be continued; give the service a new name"
            )
        if last < head.moved.last:
            raise ConfigError(
                f"the journal {at} ends before record {head.moved.last}: the call that wrote it "
                f"died, and {self.new.input.transport} has no transactions. Delete the topic "
                f"{at.topic}, then run the command again"
            )
        return True

    def _identity(self, number: int, inputs: Sequence[Partition]) -> IdentityRecord:
        """Record 0 of a new shard, with the rules of the old ones."""
        consumed, first = self._consumed, self.old[0].origin.identity
        names = {p.topic for p in inputs}
        topics = {topic: id_ for topic, id_ in consumed.topics.items() if topic in names}
        return msgspec.structs.replace(
            first,
            shard=number,
            identity=self.new.identity(),
            starts=[(p.topic, p.number, consumed.starts[p]) for p in sorted(inputs)],
            born=uuid.uuid4().hex,
            replaces=[],
            topics=topics or msgspec.UNSET,
            relearned=msgspec.UNSET,
            moved=MovedFrom(self.config.journal_topic, self.config.scale.shards, 0),
        )

    def learn(self, shard: NewShard, now: int, progress: Progress) -> None:
        """Let a new shard learn what the old ones have consumed.

        Parameters
        ----------
        now
            The clock in ms when the move began, for its journal.
        progress
            Called with the records learned and the records to learn.

        Raises
        ------
        TransportError
            Records are missing.
        """
        # Not before the clocks with which the old shards have consumed the records: a timestamp
        # more than a minute ahead of the clock is ignored.
        now = max(now, *(old.live.now for old in self.old))
        self._know_schemas(shard, now)
        live, inputs = shard.live, shard.found.inputs
        ends = {p: self._consumed.ends[p] for p in inputs}
        total = sum(ends.values()) - sum(self._consumed.starts[p] for p in inputs)
        for batch in self._batches(shard, ends, now):
            skips = self._consumed.within(batch)
            # A message may have more rows than are allowed today.
            most = max(self._consumed.max_rows, live.shard.spec.max_rows)
            clock = max(now, live.now)
            shard.entries.append(advance_unpublished(live, batch, clock, skips, max_rows=most))
            left = sum(ends.values()) - sum(live.shard.positions[p] for p in inputs)
            progress(total - left, total)
        for partition, end in ends.items():
            if live.shard.positions[partition] != end:
                raise TransportError(
                    f"{partition} ends at {live.shard.positions[partition]}, and the service has "
                    f"consumed its records up to {end}: they no longer exist"
                )

    def _know_schemas(self, shard: NewShard, now: int) -> None:
        """Journal the schemas of the records that follow.

        Each alone, because all together may be larger than a record of the journal may be.
        """
        live = shard.live
        known = {id_ for e in shard.entries if isinstance(e, SchemasRecord) for id_, _ in e.schemas}
        for each in sorted((i, s) for i, s in self._consumed.schemas.items() if i not in known):
            entry = SchemasRecord(live.seq + 1, max(now, live.now), live.chain, [each])
            apply_schemas(entry, live)
            live.advance_past(entry, live.position)
            shard.entries.append(entry)

    def _batches(self, shard: NewShard, ends: Mapping[Partition, int], now: int) -> Iterator[Batch]:
        """The records from the positions of a shard up to `ends`, merged, commit by commit."""
        live, found = shard.live, shard.found
        starts = {p: at for p, at in live.shard.positions.items() if at < ends[p]}
        if not starts:
            return
        merge = Merge(found.inputs, found.label_topics, 2 * found.max_bytes, found.measure)
        merge.seek(live.shard.positions)
        upto = {p: ends[p] for p in starts}
        over = False
        with closing(self._log.read(starts, upto, demand=merge)) as chunks:
            while True:
                # Not [commit] max_records, because the whole journal is one transaction.
                size = min(MOST_RECORDS, live.shard.records_within(found.max_bytes))
                batch = None
                if over or len(merge) >= size or merge.nbytes >= found.max_bytes:
                    batch = merge.take(
                        size, ends, now=max(now, live.now), wait=not over, max_bytes=found.max_bytes
                    )
                if batch is not None:
                    yield batch
                elif over:
                    return
                else:
                    chunk = next(chunks, None)
                    over = chunk is None
                    merge.add([] if chunk is None else [chunk])

    def swap(self, shards: Sequence[NewShard], now: int, reason: str, progress: Progress) -> None:
        """Close the old journals, and begin the new ones. The running service is fenced.

        Parameters
        ----------
        shards
            All new shards, which have learned what the old ones had consumed.

        Raises
        ------
        ConfigError
            Something was journaled since that cannot be moved, or an old journal has lost records.
            Nothing was changed.
        FencedError, TransportError
            From an owner. Call it again: what is closed and begun stays so.
        """
        self._follow()
        self._catch_up(
            shards, now, progress
        )  # beside the service, so that it is down for less time
        with ExitStack() as stack:
            owners: list[tuple[OldShard, Owner]] = []
            for old in self.old:
                if old.moved is None:
                    found = old.found
                    check_journal(self.config, self._log, found.journal, found.inputs, old.store)
                    owner = self._log.owner(self.config.name, found.journal.number, found.inputs)
                    stack.callback(owner.close)
                    owners.append((old, owner))
            self._follow()
            for old, _ in owners:
                write_again(self._log, old.live)
            reach("reshard_fenced")
            for old, owner in owners:
                self._close(old, owner, now, reason)
        self._catch_up(shards, now, progress)
        for shard in shards:
            if not shard.begun:
                self._begin(shard)

    def _follow(self) -> None:
        """Let the old shards learn what the service has consumed since."""
        for old in self.old:
            live, at = old.live, old.found.journal
            end = self._log.end_offsets([at])[at]
            ahead = course(self._log, at, live.position, end)
            if ahead.without(live.seq) is not None or ahead.relearned is not None:
                raise ConfigError(
                    f"the journal {at} was rolled back or re-learned meanwhile: nothing was "
                    "changed; run reshard again"
                )
            replay(self._log, old.found, live, end, ahead)
            if live.shard.champion:
                raise ConfigError(
                    f"the challenger {live.shard.champion} became the champion meanwhile: nothing "
                    "was changed; promote the model of [model] first"
                )
        self._look()

    def _look(self) -> None:
        """Read what the old journals have since the last call."""
        for i, old in enumerate(self.old):
            for at, entry in entries(
                self._log, old.found.journal, self._read[i], old.live.position
            ):
                if isinstance(entry, MovedRecord) and old.moved is None:
                    raise ConfigError(
                        f"another call of headwater reshard has closed the journal "
                        f"{old.found.journal} meanwhile, and this one has changed nothing; run "
                        "the command again"
                    )
                self._consumed.add(entry)
                self._read[i] = at + 1

    def _close(self, old: OldShard, owner: Owner, now: int, reason: str) -> None:
        live = old.live
        entry = MovedRecord(
            live.seq + 1,
            max(now, live.now),
            live.chain,
            self.new.scale.shards,
            self.new.journal_topic,
            reason,
            live.entry.settings,
        )
        record = journal.written(entry, old.found.journal, entry.now)
        at = owner.commit([], record, live.shard.positions)
        live.advance_past(entry, at)
        old.moved = entry
        reach("reshard_closed")

    def _catch_up(self, shards: Sequence[NewShard], now: int, progress: Progress) -> None:
        for shard in shards:
            if not shard.begun:
                self.learn(shard, now, progress)

    def _begin(self, shard: NewShard) -> None:
        """Write the journal of a new shard. Its owner is fenced, if there is one."""
        live, at = shard.live, shard.found.journal
        last = shard.entries[-1].seq if shard.entries else 0
        moved = MovedFrom(self.config.journal_topic, self.config.scale.shards, last)
        live.entry = msgspec.structs.replace(live.entry, moved=moved)
        live.identity = mark_of(live.entry)
        records = [journal.written(entry, at, entry.now) for entry in (live.entry, *shard.entries)]
        self._check_not_begun(at)  # before a service that has started since would be fenced
        with closing(self._log.owner(self.new.name, at.number, shard.found.inputs)) as owner:
            self._check_not_begun(at)
            end = owner.commit(records[:-1], records[-1], live.shard.positions)
        live.position, shard.begun = end + 1, True
        reach("reshard_begun")

    def _check_not_begun(self, at: Partition) -> None:
        if at in _filled(self._log, at.topic):
            raise ConfigError(f"another call has begun the journal {at}; run reshard again")
