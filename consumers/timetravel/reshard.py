"""Give a service another number of shards, under the same name.

1. learn   each new shard learns the records of its partitions, beside the service
2. close   the journals of the old shards, see `consumers.timetravel.old_shards`
3. follow  the new shards learn what the old ones have consumed since
4. begin   the journal of each new shard is written, as one transaction

A new shard is the shard of a service that has had this number of shards since record 0: it learns
the same records, in an order that only depends on them. Its journal holds the commits in which it
has learned them. Their predictions are not written again. If the process dies, a later call
continues: new shards whose journal is empty are learned again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import msgspec

from consumers.base.errors import ConfigError, TransportError
from consumers.base.failpoints import reach
from consumers.base.records import Batch, Partition
from consumers.codecs.format import schema_ids
from consumers.codecs.schemas import StoredSchema
from consumers.config.sections import MOST_RECORDS
from consumers.journal import records as journal
from consumers.journal.merge import Merge
from consumers.journal.reader import ends_of, entries
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    InputsRecord,
    JournalRecord,
    LaterRecord,
    RollbackRecord,
    SchemasRecord,
    mark_of,
)
from consumers.service.commit import advance_unpublished
from consumers.service.live import LiveShard, Progress, Sources, apply_schemas
from consumers.service.recovery import begun
from consumers.shard.batches import Skip
from consumers.snapshots.locate import JournalOrigin
from consumers.timetravel.old_shards import OldShards

__all__ = ["Move", "NewShard"]


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


def _check_whole(origin: JournalOrigin) -> None:
    if not origin.whole:
        raise ConfigError(
            f"the journal {origin.left.partition} was trimmed before offset {origin.left.first}: "
            "it does not say any more which records the service has consumed; give the service a "
            "new name"
        )


class Move:
    """A service between two numbers of shards.

    Parameters
    ----------
    old
        The shards of the old number.

    Raises
    ------
    ConfigError
        The records of the inputs alone do not make the model, or some have expired.
    """

    def __init__(self, old: OldShards) -> None:
        self.old, self._log, self._new = old, old.log, old.new
        self._consumed = _Consumed({}, {})
        self._read = [0] * len(old.shards)  # how far the journal of each was read
        for shard in old.shards:
            _check_whole(shard.origin)
            identity = shard.origin.identity
            starts = {Partition(topic, number): at for topic, number, at in identity.starts}
            self._consumed.starts |= starts
            self._consumed.ends |= starts
            self._consumed.topics |= dict(identity.topics)
        self._look()
        self._check_retained()

    @property
    def records(self) -> int:
        """How many offsets the new shards learn."""
        return sum(self._consumed.ends.values()) - sum(self._consumed.starts.values())

    def _check_retained(self) -> None:
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
        inputs = [p for p in self.old.inputs(number) if p in self._consumed.starts]
        journaled = Partition(self._new.journal_topic, number)
        found = replace(self.old.shards[0].found, inputs=tuple(inputs), journal=journaled)
        identity = self._identity(number, found.inputs)
        live = begun(self._new, identity, found)
        live.position = 1  # after record 0
        return NewShard(found, live, begun=self.old.begun(number))

    def _identity(self, number: int, inputs: Sequence[Partition]) -> IdentityRecord:
        """Record 0 of a new shard, with the rules of the old ones."""
        consumed, first = self._consumed, self.old.shards[0].origin.identity
        names = {p.topic for p in inputs}
        topics = {topic: id_ for topic, id_ in consumed.topics.items() if topic in names}
        return msgspec.structs.replace(
            first,
            shard=number,
            identity=self._new.identity(),
            starts=[(p.topic, p.number, consumed.starts[p]) for p in sorted(inputs)],
            born=uuid.uuid4().hex,
            replaces=[],
            topics=topics,
            relearned=None,
            moved=self.old.origin,
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
        now = max(now, *(old.live.now for old in self.old.shards))
        live, inputs = shard.live, shard.found.inputs
        ends = {p: self._consumed.ends[p] for p in inputs}
        total = sum(ends.values()) - sum(self._consumed.starts[p] for p in inputs)
        for batch in self._batches(shard, ends, now):
            skips = self._consumed.within(batch)
            # A message may have more rows than are allowed today.
            most = max(self._consumed.max_rows, live.shard.spec.max_rows)
            clock = max(now, live.now)
            self._know_schemas(shard, batch, clock)
            shard.entries.append(advance_unpublished(live, batch, clock, skips, max_rows=most))
            left = sum(ends.values()) - sum(live.shard.positions[p] for p in inputs)
            progress(total - left, total)
        for partition, end in ends.items():
            if live.shard.positions[partition] != end:
                raise TransportError(
                    f"{partition} ends at {live.shard.positions[partition]}, and the service has "
                    f"consumed its records up to {end}: they no longer exist"
                )

    def _know_schemas(self, shard: NewShard, batch: Batch, now: int) -> None:
        """Journal the schemas of a batch that the shard does not know, from the old journals.

        Of this batch only and in its order, as a service does it: they are part of the state. Each
        alone, because all together may be larger than a record of the journal may be.
        """
        live, known = shard.live, self._consumed.schemas
        if not known:
            return
        for id_ in schema_ids(batch.values):
            if id_ in known and id_ not in live.shard.schemas:
                entry = SchemasRecord(**live.heading(now), schemas=[(id_, known[id_])])
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

        def size() -> int:
            # Not [commit] max_records, because the whole journal is one transaction.
            return min(MOST_RECORDS, live.shard.records_within(found.max_bytes))

        now = max(now, live.now)
        with closing(self._log.read(starts, upto, demand=merge)) as chunks:
            yield from merge.batches(
                zip(chunks), size, ends=ends, now=now, max_bytes=found.max_bytes
            )

    def swap(self, shards: Sequence[NewShard], now: int, reason: str, progress: Progress) -> None:
        """Close the old journals, and begin the new ones. The running service is fenced.

        Parameters
        ----------
        shards
            All new shards, which have learned what the old ones had consumed.

        Raises
        ------
        ConfigError
            See `OldShards.close`.
        FencedError, TransportError
            From an owner. Call it again: what is closed and begun stays so.
        """
        self.old.follow()
        self._look()
        # Beside the service, so that it is down for a shorter time.
        self._catch_up(shards, now, progress)
        self.old.close(now, reason, self._look)
        self._catch_up(shards, now, progress)
        for shard in shards:
            if not shard.begun:
                self._begin(shard)

    def _look(self) -> None:
        """Read what the old journals have since the last call."""
        for i, old in enumerate(self.old.shards):
            for at, entry in entries(
                self._log, old.found.journal, self._read[i], old.live.position
            ):
                self._consumed.add(entry)
                self._read[i] = at + 1

    def _catch_up(self, shards: Sequence[NewShard], now: int, progress: Progress) -> None:
        for shard in shards:
            if not shard.begun:
                self.learn(shard, now, progress)

    def _begin(self, shard: NewShard) -> None:
        """Write the journal of a new shard. Its owner is fenced, if there is one."""
        live, at = shard.live, shard.found.journal
        last = shard.entries[-1].seq if shard.entries else 0
        moved = msgspec.structs.replace(self.old.origin, last=last)
        live.entry = msgspec.structs.replace(live.entry, moved=moved)
        live.identity = mark_of(live.entry)
        records = [journal.written(entry, at, entry.now) for entry in (live.entry, *shard.entries)]
        self.old.check_not_begun(at.number)  # before a service that has started would be fenced
        with closing(self._log.owner(self._new.name, at.number, shard.found.inputs)) as owner:
            self.old.check_not_begun(at.number)
            end = owner.commit(records[:-1], records[-1], live.shard.positions)
        live.position, shard.begun = end + 1, True
        reach("reshard_begun")
