"""Find traces of an earlier run when the journal is empty. Then this is not the first start.

A start without a journal creates an empty model at `[input] start`. If the journal was lost, or
`[journal] topic` was changed, that would predict every record again. So the start first looks for
what is committed with or after a journal: the group's offsets, snapshots, predictions. A first
commit that was aborted leaves no traces, and neither do new topics.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.journal.model_parts import has_parts
from consumers.schemas.translate import Translator
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from consumers.transports.registry import transport_of

__all__ = ["check_first_start", "check_snapshots", "traces"]

LOOK_BACK = 200  # offsets at the end of each predictions partition, including markers


class _Position(msgspec.Struct):
    topic: str
    partition: int


class _Model(msgspec.Struct):
    name: str


class _Prediction(msgspec.Struct):
    model: _Model
    position: _Position


_decode_prediction = msgspec.json.Decoder(_Prediction).decode


def check_first_start(
    config: Config,
    log: Log,
    shard: int,
    inputs: Collection[Partition],
    store: SnapshotStore,
    *,
    importing: bool = False,
) -> None:
    """Check that a service with an empty journal has never run.

    Parameters
    ----------
    importing
        Whether a model is imported, which may repeat an import that was interrupted.

    Raises
    ------
    ConfigError
        It has run, or the import of a model was interrupted. The message says what to do.
    """
    _check(config, shard, traces(config, log, inputs, store))
    partition = Partition(config.journal_topic, shard)
    journal = log.describe([partition.topic]).get(partition.topic)
    there = journal is not None and shard < journal.partitions
    if not importing and there and has_parts(log, partition):
        raise ConfigError(
            f"an import of a model into the journal {partition} of {config.name} was interrupted: "
            "run headwater import or headwater backfill again; to start with an empty model, run "
            "once with --new-journal"
        )


def check_snapshots(config: Config, shard: int, store: SnapshotStore) -> None:
    """Check the snapshots only, if the journal and an input, or the whole log, do not exist.

    Raises
    ------
    ConfigError
        It has run. The message lists the traces and what to do.
    """
    left = _snapshot(config, store)
    _check(config, shard, [] if left is None else [left])


def _check(config: Config, shard: int, left: Sequence[str]) -> None:
    if left:
        partition = Partition(config.journal_topic, shard)
        raise ConfigError(
            f"the journal {partition} of {config.name} is empty, but the service has run before "
            f"({'; '.join(left)}): a new journal would predict its records again. Set [journal] "
            "topic to the journal it had, or restore that topic; to start with an empty model on "
            "purpose, at [input] start, run once with --new-journal, or give the service a new "
            "name"
        )


def traces(
    config: Config, log: Log, inputs: Collection[Partition], store: SnapshotStore
) -> list[str]:
    """The traces of an earlier run of this shard, one phrase each."""
    looks = (
        _offsets(config, log, inputs),
        _snapshot(config, store),
        _predicted(config, log, inputs),
    )
    return [phrase for phrase in looks if phrase is not None]


def _offsets(config: Config, log: Log, inputs: Collection[Partition]) -> str | None:
    committed = log.committed(config.name, list(inputs))
    if not committed:
        return None
    shown = ", ".join(f"{partition} {at}" for partition, at in sorted(committed.items())[:3])
    return f"its group has committed offsets: {shown}{', …' if len(committed) > 3 else ''}"


def _snapshot(config: Config, store: SnapshotStore) -> str | None:
    if transport_of(config.input.transport).private:
        return None  # the log of an earlier process no longer exists
    for part in store.parts():
        for about, _ in part.newest(lambda about: None):
            if about.name == config.name:
                return f"a snapshot at journal position {about.position}"
    return None


def _predicted(config: Config, log: Log, inputs: Collection[Partition]) -> str | None:
    """A phrase if one of the last predictions belongs to this shard."""
    topic = config.predictions_topic
    if (known := log.describe([topic]).get(topic)) is None:
        return None
    parts = [Partition(topic, n) for n in range(known.partitions)]
    names = {config.name, *(challenger.name for challenger in config.challenger)}
    translator = Translator(config)
    ends, begins = log.end_offsets(parts), log.beginning_offsets(parts)
    starts = {p: max(begins[p], ends[p] - LOOK_BACK) for p in parts}
    for fetched in log.read(starts, ends):
        for value in fetched.values:
            try:
                made = _decode_prediction(translator.as_json(value or b""))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            place = Partition(made.position.topic, made.position.partition)
            if made.model.name in names and place in inputs:
                return f"its predictions in {topic}"
    return None
