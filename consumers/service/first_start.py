"""What a service has left behind where its journal is empty: then this is no first start.

A start that finds no journal begins an empty model at `[input] start`. If the journal was lost, or
`[journal] topic` names another one than before, that would predict every record once more. So it
first looks at what else is committed with a journal, or after it: the group's offsets, snapshots,
predictions. Of a first commit that was aborted nothing is left, nor of topics just made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from consumers.transports.registry import transport_of

__all__ = ["check_first_start", "check_snapshots", "traces"]

LOOK_BACK = 200  # offsets at the end of each partition of the predictions; markers are among them


class _Position(msgspec.Struct):
    topic: str
    partition: int


class _Model(msgspec.Struct):
    name: str


class _Prediction(msgspec.Struct):
    model: _Model
    position: _Position


def check_first_start(
    config: Config, log: Log, shard: int, inputs: Collection[Partition], store: SnapshotStore
) -> None:
    """Whether a service whose journal is empty has never run.

    Raises
    ------
    ConfigError
        It has run; says what is left of it, and what to do.
    """
    _check(config, shard, traces(config, log, inputs, store))


def check_snapshots(config: Config, shard: int, store: SnapshotStore) -> None:
    """The same where the journal and an input, or the whole log, are not there: only snapshots
    can show that the service has run.

    Raises
    ------
    ConfigError
        It has run; says what is left of it, and what to do.
    """
    left = _snapshot(config, store)
    _check(config, shard, [] if left is None else [left])


def _check(config: Config, shard: int, left: Sequence[str]) -> None:
    if left:
        partition = Partition(config.journal_topic, shard)
        raise ConfigError(
            f"the journal {partition} of {config.name} is empty, but the service has run before "
            f"({'; '.join(left)}): to begin here would predict its records again. Name the "
            "journal it had in [journal] topic, or restore that topic; to begin an empty model on "
            "purpose, at [input] start, run once with --new-journal, or give the service a new "
            "name"
        )


def traces(
    config: Config, log: Log, inputs: Collection[Partition], store: SnapshotStore
) -> list[str]:
    """What is left of an earlier run of this shard, a phrase each; empty where there was none."""
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
        return None  # of a process that is gone, and its log with it
    for part in store.parts():
        for about, _ in part.newest(lambda about: None):
            if about.name == config.name:
                return f"a snapshot at journal position {about.position}"
    return None


def _predicted(config: Config, log: Log, inputs: Collection[Partition]) -> str | None:
    """Whether one of the last predictions is of this shard."""
    topic = config.predictions_topic
    parts = [Partition(topic, n) for n in range(log.topics().get(topic, 0))]
    if not parts:
        return None
    names = {config.name, *(challenger.name for challenger in config.challenger)}
    ends, begins = log.end_offsets(parts), log.beginning_offsets(parts)
    starts = {p: max(begins[p], ends[p] - LOOK_BACK) for p in parts}
    for fetched in log.read(starts, ends):
        for value in fetched.values:
            try:
                made = msgspec.json.decode(value or b"", type=_Prediction)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            place = Partition(made.position.topic, made.position.partition)
            if made.model.name in names and place in inputs:
                return f"predictions of it in {topic}"
    return None
