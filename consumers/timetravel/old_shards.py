"""The shards of a service that gets another number of them: loaded, followed, and closed.

A closed journal ends with a `MovedRecord`, which names the journal of the new shards. After it, a
start with the old number of shards is refused. Nothing is changed before the first `MovedRecord`.
If the process dies then, a later call continues: closed journals stay closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.failpoints import reach
from consumers.base.records import Partition
from consumers.config import Config
from consumers.journal.reader import course, entries
from consumers.journal.records import IdentityRecord, JournalRecord, MovedFrom, MovedRecord
from consumers.service.commit import amend
from consumers.service.journal_end import check_journal
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.partitioning import input_objections, inputs_of
from consumers.service.recovery import rebuild, sources, write_again
from consumers.service.replay import replay
from consumers.snapshots.locate import JournalOrigin, locate
from consumers.snapshots.store import SnapshotStore, open_store
from consumers.transports.protocol import Log, Owner

__all__ = ["OldShard", "OldShards", "load_old_shards"]


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


def with_shards(config: Config, shards: int, topic: str) -> Config:
    """The configuration with another number of shards and another journal."""
    scale = config.scale.model_copy(update={"shards": shards})
    other = config.journal.model_copy(update={"topic": topic})
    return config.model_copy(update={"scale": scale, "journal": other})


class OldShards:
    """All shards of the present number.

    Parameters
    ----------
    config, new
        The configuration with the old and the new number of shards.
    log
        The log of the service.
    shards
        At the end of their journals.
    """

    def __init__(self, config: Config, new: Config, log: Log, shards: Sequence[OldShard]) -> None:
        self.config, self.new, self.log, self.shards = config, new, log, shards

    @property
    def origin(self) -> MovedFrom:
        """What record 0 of a new journal says of them."""
        return MovedFrom(self.config.journal_topic, self.config.scale.shards, 0)

    def inputs(self, number: int) -> list[Partition]:
        """The input partitions of a new shard."""
        known = self.log.describe(self.new.input_topics)
        topics = {topic: about.partitions for topic, about in known.items()}
        return list(inputs_of(self.new, topics, number))

    def begun(self, number: int) -> bool:
        """Whether an earlier call has written the journal of a new shard.

        Raises
        ------
        ConfigError
            It is not that of the move, or not whole.
        """
        at, written = self._written(number)
        head = next(written, None)
        if head is None:
            return False
        last = max((entry.seq for entry in written), default=head.seq)
        if not isinstance(head, IdentityRecord) or not self.inputs(number):
            return True  # it was trimmed since, or the shard had nothing to learn
        if head.moved is None:
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

    def check_not_begun(self, number: int) -> None:
        """ConfigError if another call has written the journal of a new shard meanwhile."""
        at, written = self._written(number)
        if next(written, None) is not None:
            raise ConfigError(f"another call has begun the journal {at}; run reshard again")

    def _written(self, number: int) -> tuple[Partition, Iterator[JournalRecord]]:
        """The journal of a new shard, and its records; none if it does not exist."""
        at = Partition(self.new.journal_topic, number)
        known = self.log.describe([at.topic]).get(at.topic)
        there = known is not None and number < known.partitions
        return at, _records(self.log, at) if there else iter(())

    def follow(self) -> None:
        """Let the old shards learn what the service has consumed since."""
        for old in self.shards:
            live, at = old.live, old.found.journal
            end = self.log.end_offsets([at])[at]
            ahead = course(self.log, at, live.position, end)
            if ahead.without(live.seq) is not None or ahead.relearned is not None:
                raise ConfigError(
                    f"the journal {at} was rolled back or re-learned meanwhile: nothing was "
                    "changed; run reshard again"
                )
            replay(self.log, old.found, live, end, ahead)
            if live.moved is not None and old.moved is None:
                raise ConfigError(
                    f"another call of headwater reshard has closed the journal {at} meanwhile, "
                    "and this one has changed nothing; run the command again"
                )
            if live.shard.champion:
                raise ConfigError(
                    f"the challenger {live.shard.champion} became the champion meanwhile: nothing "
                    "was changed; promote the model of [model] first"
                )

    def close(self, now: int, reason: str, check: Callable[[], None] = lambda: None) -> None:
        """Close their journals. The running service is fenced.

        Parameters
        ----------
        check
            Called when all are fenced and followed. If it raises, nothing was changed.

        Raises
        ------
        ConfigError
            Something was journaled since that cannot be moved, or a journal has lost records.
            Nothing was changed.
        FencedError, TransportError
            From an owner. What is closed stays so.
        """
        with ExitStack() as stack:
            owners: list[tuple[OldShard, Owner]] = []
            for old in self.shards:
                if old.moved is None:
                    found = old.found
                    # It also ends the transaction of a call that was killed, which would hide the
                    # committed offsets for its time limit.
                    owner = self.log.owner(self.config.name, found.journal.number, found.inputs)
                    stack.callback(owner.close)
                    owners.append((old, owner))
                    check_journal(self.config, self.log, found.journal, found.inputs, old.store)
            self.follow()
            check()
            for old, _ in owners:
                write_again(self.log, old.live)
            reach("reshard_fenced")
            for old, owner in owners:
                self._close(old, owner, now, reason)

    def _close(self, old: OldShard, owner: Owner, now: int, reason: str) -> None:
        live = old.live
        scale, topic = self.new.scale, self.new.journal_topic
        entry = MovedRecord(**live.heading(now), shards=scale.shards, journal=topic, reason=reason)
        amend(owner, live, old.found.journal, entry)
        old.moved = entry
        reach("reshard_closed")


def load_old_shards(
    config: Config,
    log: Log,
    shards: int,
    topic: str | None,
    progress: Progress = lambda done, total: None,
) -> OldShards:
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
    return OldShards(config, new, log, old)


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
    origin = locate(config, log, found.journal, store)
    if origin is None:
        raise ConfigError(f"the journal {found.journal} is empty: run the service first")
    if origin.identity.model is not None:
        raise ConfigError(
            "reshard does not support a service that began with an imported model or a history: "
            "the records that the model learned are not in its inputs; give the service a new name"
        )
    end = origin.left.end
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
    """What the new journals take from the old ones must be the same."""
    for a, b in pairwise(origin.identity for origin in origins):
        for name in ("auto", "fields"):
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
    return [p for p in parts if next(_records(log, p), None) is not None]


def _records(log: Log, journaled: Partition) -> Iterator[JournalRecord]:
    """The records of a journal."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    return (entry for _, entry in entries(log, journaled, first, end))


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
    if not resumed and (there := _filled(log, topic)):
        raise ConfigError(f"{there[0]} is not empty; give another journal with --journal")
