"""From any state (first start, crash, rebalance, clean stop) to a live shard, by one path.

1. fence     the old owner can no longer commit; the caller has done that
2. locate    find the journal's end, record 0, and the newest valid snapshot up to the end
3. replay    process the journaled ranges since then in order, without writing outputs
4. go live   poll the inputs from their positions at the journal's end

There is no undo code: after any failure the shard in memory is discarded, and this starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from consumers.base.errors import (
    RESTART,
    ConfigError,
    DivergedError,
    FencedError,
    RecordsMissingError,
    TransportError,
)
from consumers.base.records import Partition
from consumers.codecs.registry import wire_format
from consumers.config import Config
from consumers.journal import model_parts
from consumers.journal import records as journal
from consumers.journal.model_parts import joined_parts
from consumers.journal.reader import Course, course
from consumers.journal.records import CommitRecord, IdentityRecord, StoredFile, mark_of
from consumers.service.beginning import begin
from consumers.service.differences import Decision, known_by
from consumers.service.inputs import settle
from consumers.service.journal_end import check_end, check_first_start, traces
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.partitioning import inputs_of
from consumers.service.promotion import adopt
from consumers.service.replay import replay
from consumers.shard.assembly import let_wait, shard_of, with_settings
from consumers.shard.shape import OutputShape
from consumers.shard.shard import Shard
from consumers.snapshots import model_file
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.key_files import KeyFiles, give_keys, keyed_learner, saved_state
from consumers.snapshots.locate import JournalOrigin, cpu, difference, expired, locate, versions
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner
from stream.data.schema import Field, Schema
from stream.data.state import State
from stream.errors import StateError

__all__ = [
    "CUT_OUT",
    "DIVERGED",
    "about_of",
    "begun",
    "load",
    "rebuild",
    "recover",
    "refusals",
    "relearned",
    "sources",
    "write_again",
]


# The objection to a snapshot that a rollback has removed from the history starts with this. It is
# an expected event.
CUT_OUT = "removed from the history"

# Number and offset of a `RelearnRecord` that is not written yet: after every record.
NO_RECORD = (2**62, 0)

# Errors of a replay whose initial state is not the journaled one: a diverging hash, or whatever a
# learner raises on numbers that it never wrote.
DIVERGED = (
    DivergedError,
    StateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def sources(config: Config, log: Log, shard: int = 0) -> Sources:
    """The partitions of a shard: every S-th of each input, starting with its own number.

    Raises
    ------
    ConfigError
        A topic is missing.
    """
    # Only its own topics are described, because a cluster may have thousands.
    known = log.describe(config.topics.values())
    topics = {topic: about.partitions for topic, about in known.items()}
    missing = [topic for topic in config.topics.values() if topic not in topics]
    if missing:
        raise ConfigError(
            f"no topic {', '.join(missing)} on {config.input.transport}; "
            "`headwater check CONFIG --create` creates missing topics"
        )
    labels, rows = frozenset(config.input_topics[1:]), wire_format(config.input.format).rows
    inputs = inputs_of(config, topics, shard)
    return Sources(
        inputs,
        labels,
        Partition(config.journal_topic, shard),
        topics[config.predictions_topic],
        max_bytes=config.commit.most_bytes(len(inputs)),
        measure=None if rows is None else rows.measure,
        mix=config.mix_topic,
    )


def recover(
    config: Config,
    log: Log,
    owner: Owner,
    found: Sources,
    store: SnapshotStore,
    *,
    now: int,
    progress: Progress = lambda done, total: None,
    warm: LiveShard | None = None,
    new_journal: bool = False,
    decision: Decision | None = None,
    keys: KeyFiles | None = None,
) -> LiveShard:
    """Bring the shard to the journal's end. `owner` must have fenced its predecessor.

    Parameters
    ----------
    now
        The wall clock in ms.
    progress
        Called with the records replayed and the records to replay.
    warm
        A shard that has followed the journal. It is continued if possible.
    new_journal
        Whether to start an empty journal although the service has run before.
    decision
        The operator's decision about inputs that differ from the consumed ones.
    keys
        The files of keys, for a model that keeps them on disk. None: it has all keys in memory.

    Raises
    ------
    ConfigError
        The journal is empty, and the service has run before; or it has lost its newest records.
    InputChangedError
        An input differs from what was consumed, and there is no decision.
    FencedError
        Another process has taken the shard over and committed since.
    """
    end = log.end_offsets([found.journal])[found.journal]
    # On Kafka an aborted first commit leaves journal offsets without a record.
    origin = locate(config, log, found.journal, store, end)
    if origin is None:
        if not new_journal:
            check_first_start(config, log, found.journal.number, found.inputs, store)
        replaced = traces(config, log, found.inputs, store)
        end = begin(config, log, owner, found, now=now, replaced=replaced)
        begun = _located(config, log, found, store, end)
        live = _rebuilt(config, log, found, store, begun, end, progress, keys)
    elif warm is not None and (ahead := _ahead_of(config, origin, found, warm)) is not None:
        warm.replayed, warm.rebuilt = 0, False
        try:
            replay(log, found, warm, end, ahead, progress)
            live = _moved(warm, store, keys)
        except (*DIVERGED, TransportError) as error:  # a bad snapshot, or inputs that expired
            live = _rebuilt(config, log, found, store, origin, end, progress, keys)
            live.news += (f"the followed shard is not used: its replay fails ({_line(error)})",)
    else:
        live = _rebuilt(config, log, found, store, origin, end, progress, keys)
    # A shard that was followed, or rebuilt by a command, has not asked the registry.
    live.shard.spec = live.shard.spec.registered(found.predictions_schema)
    if origin is not None:
        _check_end(config, owner, origin, live, store)
    write_again(log, live)
    save = partial(_save, config, store, live)
    settle(config, log, owner, found, live, save, now=now, decision=decision)
    adopt(config, owner, found, live, now)
    owner.seek(live.shard.positions)
    return live


def _moved(warm: LiveShard, store: SnapshotStore, keys: KeyFiles | None) -> LiveShard:
    """A shard that was followed, with its keys on disk if they should be."""
    learner = keyed_learner(warm.shard)
    if learner is not None and learner.residents is None and keys is not None:
        own = store.of(warm.identity)
        keys.place(own.directory, own.points)
        learner.keep_in(keys)
    return warm


def _check_end(
    config: Config, owner: Owner, origin: JournalOrigin, live: LiveShard, store: SnapshotStore
) -> None:
    """Check that the journal has not lost its newest records, and that they are not a successor's.

    A process that takes the shard over during this recovery commits after the end that was read.
    """
    try:
        check_end(config, origin, live.shard.positions, owner.committed(), store)
    except ConfigError:
        if not owner.overtaken():
            raise
        raise FencedError(
            f"expected to own shard {origin.left.partition.number} of {config.name}, but another "
            f"process has taken it over during the recovery; {RESTART}"
        ) from None


def _save(config: Config, store: SnapshotStore, live: LiveShard) -> None:
    own = store.of(live.identity)
    with own.locked():
        about = own.write(about_of(config, live), saved_state(live.shard))
    live.snapshots[about.position] = about.fingerprint


def write_again(log: Log, live: LiveShard) -> None:
    """Write the outputs of the last commit again, if they may be missing.

    With at least once, outputs are written after the commit. If the process died in between, they
    are missing. They are the same bytes in the same topics. A snapshot is written after them.
    """
    for outcome in live.last:
        outputs = [*outcome.predictions(), *outcome.dead_letters()]
        known = log.describe(sorted({r.topic for r in outputs}))
        counts = {topic: about.partitions for topic, about in known.items()}
        there = [r for r in outputs if (r.partition or 0) < counts.get(r.topic, 0)]
        log.append(there)
        gone = {r.topic for r in outputs} - {r.topic for r in there}
        live.news += tuple(
            f"outputs of the last commit cannot be written again: topic {topic} no longer exists"
            for topic in sorted(gone)
        )
    live.last = ()


def _ahead_of(
    config: Config, origin: JournalOrigin, found: Sources, live: LiveShard
) -> Course | None:
    """The journal after this shard; None if the journal does not continue it."""
    if origin.objection(about_of(config, live)) is not None:
        return None
    ahead = course(origin.left.log, found.journal, live.position, origin.left.end)
    return ahead if ahead.without(live.seq) is None else None


def rebuild(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    *,
    end: int,
    progress: Progress = lambda done, total: None,
) -> LiveShard:
    """The shard as the journal describes it up to `end`. Writes nothing."""
    return _rebuilt(
        config, log, found, store, _located(config, log, found, store, end), end, progress
    )


def relearned(
    config: Config,
    log: Log,
    found: Sources,
    origin: JournalOrigin,
    progress: Progress = lambda done, total: None,
) -> LiveShard:
    """The shard as it is at the end of `origin` if it has had the settings of `config` since record
    0. Writes nothing.

    The hashes of the journal belong to other settings, so none of them is compared. The checksums
    of the input records are.
    """
    identity = origin.identity.under(config.identity(), NO_RECORD)
    live, ahead = _from_nothing(config, found, replace(origin, identity=identity), ())
    replay(log, found, live, origin.left.end, ahead, progress)
    return live


def load(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore,
    *,
    end: int,
    before: int | None = None,
) -> tuple[LiveShard, Course]:
    """The shard with which a replay up to `end` starts, and the journal after it.

    Parameters
    ----------
    before
        Use a snapshot before this journal record, because a replay from that snapshot failed.
    """
    origin = _located(config, log, found, store, end)
    own = store.of(mark_of(origin.identity))
    loaded = next(_from_snapshots(config, origin, found, own, before), None)
    live, ahead = loaded or _from_nothing(config, found, origin, own.refused)
    live.refused = tuple(own.refused)
    return live, ahead


def _located(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, end: int
) -> JournalOrigin:
    origin = locate(config, log, found.journal, store, end)
    if origin is None:
        raise TransportError(f"the journal {found.journal.topic} is empty; run the service first")
    return origin


def _rebuilt(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    origin: JournalOrigin,
    end: int,
    progress: Progress,
    keys: KeyFiles | None = None,
) -> LiveShard:
    refused: tuple[str, ...] = ()
    lost: RecordsMissingError | None = None
    if store is not None:
        own = store.of(mark_of(origin.identity))
        if keys is not None:
            keys.place(own.directory, own.points)
        for live, ahead in _from_snapshots(config, origin, found, own, keys=keys):
            loaded = live.position
            try:
                replay(log, found, live, end, ahead, progress)
            except DIVERGED as error:
                # The journal is the truth: an older snapshot, or all records, may agree with it.
                why = f"its replay fails ({_line(error)}); an older snapshot is tried"
                own.refused.append(f"snapshot at {loaded}: {why}")
                continue
            except RecordsMissingError as error:
                # Its records are gone. An older one may still help, if this one was misread.
                lost = lost or error
                own.refused.append(f"snapshot at {loaded}: its replay fails ({_line(error)})")
                continue
            live.refused = tuple(own.refused)
            return live
        refused = tuple(own.refused)
    if lost is not None:
        raise lost
    live, ahead = _from_nothing(config, found, origin, refused)
    give_keys(live.shard, keys, None)
    live.refused = refused
    replay(log, found, live, end, ahead, progress)
    return live


def _line(error: Exception) -> str:
    return str(error) if isinstance(error, DivergedError) else f"{type(error).__name__}: {error}"


def _from_nothing(
    config: Config, found: Sources, origin: JournalOrigin, refused: Sequence[str]
) -> tuple[LiveShard, Course]:
    """The empty shard and the whole journal, if all records needed for a rebuild exist."""
    identity, left = origin.identity, origin.left
    if not origin.whole:
        raise left.lost(f"the model {config.name} cannot be rebuilt", refused)
    live = begun(config, identity, found, _imported(config, origin, refused))
    shard = live.shard
    _let_wait(config, origin, found, shard, refused)
    ahead, gone = _course(shard, found, origin, 0, 0)
    if gone:
        raise left.lost(f"the model {config.name} cannot be rebuilt, because {gone}", refused)
    return live, ahead


def begun(
    config: Config, identity: IdentityRecord, found: Sources, learned: State | None = None
) -> LiveShard:
    """The empty shard of an identity, at the beginning of its journal. `learned`: the state of an
    imported model."""
    shard = _empty(config, identity, found, learned)
    shard.positions = {Partition(t, n): at for t, n, at in identity.starts}
    live = LiveShard(shard, 0, 0, 0, mark_of(identity), _fields(identity), identity)
    live.topics = dict(identity.topics)
    return live


def _imported(config: Config, origin: JournalOrigin, refused: Sequence[str]) -> State | None:
    """The state of the model with which the journal began; None for an empty model."""
    model = origin.identity.model
    if model is None:
        return None
    return model_file.from_bytes(_stored(config, origin, model, refused))[1]


def _let_wait(
    config: Config, origin: JournalOrigin, found: Sources, shard: Shard, refused: Sequence[str]
) -> None:
    """Give the join the records that waited when the history before the journal ended."""
    history = origin.identity.history
    if history is None or history.waiting is None:
        return
    records = model_parts.from_bytes(_stored(config, origin, history.waiting, refused))
    # They fit the bounds together, but not each while the others come.
    other = _empty(config, origin.identity, found, shard.learner.to_state(), bounded=False)
    let_wait(shard, other, model_parts.batch_of(records), history.time or 0)


def _stored(
    config: Config, origin: JournalOrigin, file: StoredFile, refused: Sequence[str]
) -> bytes:
    """A file that the journal holds."""
    left = origin.left
    try:
        return joined_parts(left.log, left.partition, file, left.first, left.end)
    except TransportError as error:
        raise left.lost(f"the model {config.name} cannot be rebuilt: {error}", refused) from None


def _course(
    shard: Shard, found: Sources, origin: JournalOrigin, seq: int, position: int
) -> tuple[Course, str | None]:
    """The journal after `position`, and why it does not continue record `seq`; None if it does.

    The journal is read once for both, because reading a long one takes time.
    """
    ahead = course(origin.left.log, found.journal, position, origin.left.end)
    return ahead, _unreached(found, origin, ahead, seq, position, shard.positions)


def _unreached(
    found: Sources,
    origin: JournalOrigin,
    ahead: Course,
    seq: int,
    position: int,
    positions: Mapping[Partition, int],
) -> str | None:
    """Why the journal does not continue record `seq` with the inputs at `positions`."""
    reset = ahead.without(seq)
    if reset is not None:
        return f"{CUT_OUT} by record {reset}, a rollback"
    here = {p: at for p, at in positions.items() if p in found.inputs}

    def needed() -> Iterator[CommitRecord]:
        for _, e in origin.left.entries(position, origin.left.end):
            if isinstance(e, CommitRecord) and ahead.without(e.seq) is None:
                yield e

    replaced = next(filter(None, map(ahead.replaced, needed())), None) if ahead.begun else None
    return replaced or expired(origin.left.log, here, needed())


def refusals(
    config: Config, log: Log, store: SnapshotStore, shard: int = 0
) -> Callable[[SnapshotInfo, Mapping[Partition, int]], str | None]:
    """A function that gives the reason why a start would skip a valid snapshot.

    It takes the description of the snapshot and its input positions, and returns None for one that
    a start would use. Writes nothing.

    Raises
    ------
    ConfigError
        A topic is missing, or the journal belongs to another configuration.
    TransportError
        The log fails, or no snapshot reaches the remaining journal.
    """
    found = sources(config, log, shard)
    origin = locate(config, log, found.journal, store)
    if origin is None:
        return lambda about, positions: f"the journal {found.journal.topic} is empty"
    identity, first = origin.identity, origin.left.first
    mark = mark_of(identity)
    # A rollback removes only earlier records, so one summary serves every snapshot.
    ahead = course(log, found.journal, first, origin.left.end)

    def refusal(about: SnapshotInfo, positions: Mapping[Partition, int]) -> str | None:
        if about.identity != mark and about.entry.born == identity.born:
            return "of other settings than the model has now (headwater relearn or rollback)"
        if about.identity != mark:
            return f"of another journal, {about.identity[:8]}; this one is {mark[:8]}"
        at = max(about.position, first)
        return origin.objection(about) or _unreached(found, origin, ahead, about.seq, at, positions)

    return refusal


def _from_snapshots(
    config: Config,
    origin: JournalOrigin,
    found: Sources,
    store: SnapshotStore,
    before: int | None = None,
    keys: KeyFiles | None = None,
) -> Iterator[tuple[LiveShard, Course]]:
    """The valid snapshots that the journal continues, loaded, the newest first, with the journal
    after each."""
    identity = origin.identity

    def objection(about: SnapshotInfo) -> str | None:
        failed = before is not None and about.seq >= before
        return "its replay fails; an older snapshot is tried" if failed else origin.objection(about)

    for about, state in store.newest(objection):
        shard = _empty(config, identity, found)
        give_keys(shard, keys, store.directory)
        try:
            shard.load_state(state)
        except (StateError, KeyError, TypeError, ValueError) as error:
            store.refused.append(f"snapshot at {about.position}: {error}")
            continue
        # The transaction marker right after its journal record may have expired too.
        position = max(about.position, origin.left.first)
        ahead, gone = _course(shard, found, origin, about.seq, position)
        if gone:
            store.refused.append(f"snapshot at {about.position}: {gone}")
            continue
        at = (about.seq, position, about.now)
        live = LiveShard(shard, *at, about.identity, _fields(identity), identity, about.chain)
        live.loaded = (about.position, state.fingerprint())
        live.snapshots = dict([live.loaded])
        live.snapshot, live.differs, live.shape = about.now, difference(about), about.shape
        live.topics, live.tails = known_by(origin.left, about, shard.positions)
        if store.copied is not None:
            live.news = (f"the copy {store.copied} is used: no valid snapshot here is as new",)
        yield live, ahead


def about_of(config: Config, live: LiveShard) -> SnapshotInfo:
    """The description of a snapshot taken now."""
    number, at = live.shard.spec.number, (live.position, live.seq, live.now)
    made_by = versions()
    return SnapshotInfo(
        config.name,
        number,
        *at,
        live.identity,
        made_by,
        live.entry,
        live.chain,
        cpu=cpu(),
        topics=live.topics,
        tails=[tail for _, tail in sorted(live.tails.items())],
        shape=live.shape,
    )


def _empty(
    config: Config,
    identity: IdentityRecord,
    found: Sources,
    learned: State | None = None,
    *,
    bounded: bool = True,
) -> Shard:
    defaults, model = journal.defaults_of(identity), identity.model
    own = with_settings(config, identity.identity, defaults)
    if not bounded:  # the horizon is a setting of the identity too
        own = own.model_copy(update={"labels": own.labels.unbounded})
    cut, schema = found.largest_dead_letter, found.predictions_schema
    return shard_of(
        own,
        Schema(_fields(identity)),
        outputs=OutputShape.of(own, found.predictions_partitions, cut, schema),
        number=found.journal.number,
        defaults=defaults,
        learned=learned,
        imported=("", 0) if model is None else (str(model), model.labels),
    )


def _fields(identity: IdentityRecord) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name, kind in identity.fields)  # type: ignore[arg-type]
