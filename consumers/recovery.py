"""From nothing, a crash, a rebalance or a clean stop to a live shard: one path.

1. fence     the old owner can commit nothing more
2. locate    the journal's end, entry 0, the newest good snapshot at or before the end
3. replay    the ranges journaled since, in the journal's order, output muted
4. go live   poll from where the journal ends

There is no undo code: whatever went wrong, the shard in memory is dropped, this begins again."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator

import msgspec

from consumers import journal
from consumers.codecs.json import parse
from consumers.config import Config, identity_difference, infer, schema_of
from consumers.config.sample import SAMPLE_SIZE
from consumers.errors import ConfigError, RecordError, TransportError
from consumers.history import Live, Progress, Sources, entries, replay
from consumers.journal import Identity
from consumers.models import build, classes_that_fit, explained, spoken
from consumers.records import Outgoing, Partition
from consumers.shard import Shard, Spec
from consumers.snapshots.format import About
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner
from stream.errors import StateError
from stream.schema import Field, Schema

__all__ = [
    "identity_in",
    "rebuild",
    "recover",
    "schema_from",
    "shard_of",
    "sources",
]


def sources(config: Config, log: Log) -> Sources:
    """The partitions to work with.

    Raises
    ------
    ConfigError
        A topic is missing.
    """
    topics = log.topics()
    missing = [topic for topic in config.topics.values() if topic not in topics]
    if missing:
        raise ConfigError(
            f"no topic {', '.join(missing)} on {config.input.transport}; "
            "`headwater check CONFIG --create` makes missing topics"
        )
    labels = frozenset(config.input_topics[1:])
    return Sources(
        tuple(Partition(t, n) for t in config.input_topics for n in range(topics[t])),
        labels,
        Partition(config.journal_topic, 0),
        topics[config.predictions_topic],
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
) -> Live:
    """Bring the shard to the journal's end; `owner` has fenced its predecessor already.

    Parameters
    ----------
    now
        The wall clock in ms.
    progress
        Called with the records replayed and the records to replay.
    """
    end = log.end_offsets([found.journal])[found.journal]
    # On Kafka an aborted first commit leaves offsets without a record behind.
    if identity_in(config, log, found.journal, end) is None:
        end = _first_start(config, log, owner, found, now)
    live = rebuild(config, log, found, store, end=end, progress=progress)
    owner.seek(live.shard.positions)
    return live


def rebuild(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    *,
    end: int,
    progress: Progress = lambda done, total: None,
) -> Live:
    """The shard as the journal describes it up to `end`; writes nothing."""
    identity = identity_in(config, log, found.journal, end)
    if identity is None:
        raise TransportError(f"the journal {found.journal.topic} is empty; run the service first")
    mark = _mark(identity)
    store = store.of(mark) if store is not None else None
    live = _from_snapshot(config, identity, mark, found, store, end)
    if live is None:
        shard = _empty(config, identity, found)
        shard.positions = {Partition(t, n): at for t, n, at in identity.starts}
        live = Live(shard, 0, 0, 0, mark, _fields(identity))
    if store is not None:
        live.refused = tuple(store.refused)
    _fit_inputs(live.shard, found)
    replay(log, found, live, end, progress)
    return live


def _fit_inputs(shard: Shard, found: Sources) -> None:
    """Partitions added to a topic since the first start are consumed from their beginning."""
    gone = sorted(set(shard.positions) - set(found.inputs))
    if gone:
        raise TransportError(
            f"{gone[0]}, which was consumed, is gone; the model cannot be rebuilt without it: "
            "bring the topic back, or give the service a new name"
        )
    shard.positions |= {p: 0 for p in found.inputs if p not in shard.positions}


def _first_start(config: Config, log: Log, owner: Owner, found: Sources, now: int) -> int:
    """Write entry 0; the journal's end after it."""
    if config.input.start == "earliest":
        starts = log.beginning_offsets(found.inputs)
    elif config.input.start == "latest":
        starts = log.end_offsets(found.inputs)
    else:
        starts = log.offsets_at(found.inputs, config.input.start_ms or 0)
    schema = config.declared_schema or schema_from(_sample(config, log, found), config)
    entry = Identity(
        config.name,
        0,
        config.identity(),
        [(f.name, f.kind) for f in schema.fields],
        [(p.topic, p.number, at) for p, at in sorted(starts.items())],
        born=uuid.uuid4().hex,
    )
    record = Outgoing(
        found.journal.topic, b"0", journal.encode(entry), now, (), found.journal.number
    )
    return owner.commit([], record, starts) + 1


def schema_from(values: Iterable[bytes | None], config: Config) -> Schema:
    """The features that the first observations, as they lie in the topic, show; never text.

    Raises
    ------
    ConfigError
        There are none yet, or none a model could use.
    """
    records = []
    for value in values:
        try:
            records.append(parse(value))
        except RecordError:
            continue
    exclude = {config.input.id, config.input.label or config.input.id}
    schema = schema_of(infer(records[:SAMPLE_SIZE], exclude, text=False))
    if not schema.fields:
        raise ConfigError(
            f"[features] is not given and the {len(records)} observations of "
            f"{config.input.observations} show none; declare [features] or feed the topic first"
        )
    return schema


def _sample(config: Config, log: Log, found: Sources) -> Iterator[bytes | None]:
    """The first observations of each partition, read without consuming them."""
    parts = [p for p in found.inputs if p.topic == config.input.observations]
    starts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    ends = {p: min(end, starts[p] + SAMPLE_SIZE) for p, end in ends.items()}
    for fetched in log.read(starts, ends):
        yield from fetched.values


def identity_in(config: Config, log: Log, partition: Partition, end: int) -> Identity | None:
    """Entry 0 of the journal, checked against the configuration; None where there is no entry.

    Raises
    ------
    ConfigError
        It is the journal of another configuration.
    TransportError
        It does not begin with entry 0.
    """
    first = log.beginning_offsets([partition])[partition]
    entry = next((found for _, found in entries(log, partition, first, end)), None)
    if entry is None and first == 0:
        return None
    if not isinstance(entry, Identity):
        raise TransportError(
            f"the journal {partition.topic} does not begin with the identity of {config.name}; "
            "it was trimmed or belongs to another program: give the service a new name"
        )
    different = identity_difference(entry.identity, config.identity())
    if entry.name != config.name:
        different = [f"name: was {entry.name}, now {config.name}"]
    if different:
        raise ConfigError(
            f"the journal {partition.topic} belongs to another configuration "
            f"({'; '.join(different)}); change it back, or give this one a new name"
        )
    return entry


def _from_snapshot(
    config: Config,
    identity: Identity,
    mark: str,
    found: Sources,
    store: SnapshotStore | None,
    end: int,
) -> Live | None:
    """The newest good snapshot, loaded."""
    if store is None:
        return None

    def objection(about: About) -> str | None:
        if about.identity != mark:
            return "of another service or configuration"
        if about.position > end:
            return f"ahead of the journal, which ends at {end}"
        return None

    for about, state in store.newest(objection):
        shard = _empty(config, identity, found)
        try:
            shard.load_state(state)
        except (StateError, KeyError, TypeError, ValueError) as error:
            store.refused.append(f"snapshot at {about.position}: {error}")
            continue
        fields = _fields(identity)
        return Live(
            shard,
            about.seq,
            about.position,
            about.now,
            mark,
            fields,
            about.chain,
            snapshot=about.now,
        )
    return None


def shard_of(
    config: Config,
    schema: Schema,
    *,
    label_field: str | None,
    label_topics: Collection[str],
    predictions_partitions: int = 1,
    largest_dead_letter: int | None = None,
) -> Shard:
    """The empty shard of a configuration."""
    learner = build(config.model)
    spec = Spec(
        name=config.name,
        model=spoken(config.model.type),
        schema=schema,
        id_field=config.input.id,
        label_field=label_field,
        label_topics=label_topics,
        predictions=config.predictions_topic,
        dead_letters=config.dead_letters_topic,
        predictions_partitions=predictions_partitions,
        top=config.output.top,
        explain=explained(config.output.explain, learner),
        largest_dead_letter=largest_dead_letter,
        max_pending=config.labels.max_pending,
        horizon=config.labels.horizon_ms,
        max_classes=classes_that_fit(config.model, learner),
        decision=config.decision.rule,
    )
    return Shard(spec, learner)


def _empty(config: Config, identity: Identity, found: Sources) -> Shard:
    return shard_of(
        config,
        Schema(_fields(identity)),
        label_field=config.input.label,
        label_topics=found.label_topics,
        predictions_partitions=found.predictions_partitions,
        largest_dead_letter=found.largest_dead_letter,
    )


def _fields(identity: Identity) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name, kind in identity.fields)  # type: ignore[arg-type]


def _mark(identity: Identity) -> str:
    text = msgspec.json.encode(msgspec.to_builtins(identity), order="sorted")
    return hashlib.sha256(text).hexdigest()
