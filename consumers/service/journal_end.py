"""Check that a journal has not lost its newest records.

Such a journal looks complete. A start would continue at its end, and predict the records after it
again. But the group's offsets are committed together with each journal record, and a snapshot is
written after its journal record. So neither is ever ahead of a complete journal.

Find traces of an earlier run when the journal is empty. Then this is not the first start.

A start without a journal creates an empty model at `[input] start`. If the journal was lost, or
`[journal] topic` was changed, that would predict every record again. So the start first looks for
what is committed with or after a journal: the group's offsets, snapshots, predictions. A first
commit that was aborted leaves no traces, and neither do new topics.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from consumers.base.converter import UNDECODABLE
from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.journal.model_parts import has_parts
from consumers.journal.records import InputsRecord, MovedRecord, mark_of
from consumers.schemas.translate import Translator
from consumers.service.differences import consumed
from consumers.snapshots.locate import JournalOrigin, RemainingJournal, locate
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from consumers.transports.registry import transport_of

__all__ = [
    "check_end",
    "check_first_start",
    "check_journal",
    "check_open",
    "check_snapshots",
    "moved_away",
    "traces",
]

BEGINNING = 4  # offsets among which record 0 is: on Kafka commits may have been aborted before it
PAUSE_SECONDS = 1.0  # longer than a broker takes to show all parts of a commit


def check_end(
    config: Config,
    origin: JournalOrigin,
    positions: Mapping[Partition, int],
    committed: Mapping[Partition, int],
    store: SnapshotStore,
) -> None:
    """Check that the journal has not lost its newest records.

    Parameters
    ----------
    positions
        The positions of the inputs at the journal's end.
    committed
        The group's committed offsets of the inputs, not newer than the journal's end.

    Raises
    ------
    ConfigError
        It has. The message says what is ahead of the journal and what to do. Or the service
        continues in another journal.
    """
    _check_open(origin.left)
    found = _offset(origin, positions, committed) or _snapshot(origin, store)
    if found is None:
        return
    ahead, otherwise = found
    raise ConfigError(
        f"the journal {origin.left.partition} of {config.name} has lost its newest records: it "
        f"ends at {origin.left.end}, but {ahead}. To continue there would predict records again. "
        f"Restore the journal topic, or give the service a new name; {otherwise}"
    )


def check_open(log: Log, journal: Partition) -> None:
    """Check that the service has not been moved to another number of shards, in another journal,
    and that no newer version writes this one.

    A process checks this before it becomes the owner, because that would fence the new shard of the
    same number, or the newer version.

    Raises
    ------
    ConfigError
        It has been moved.
    JournalFormatError
        The first or the last records are of a newer version.
    """
    first = log.beginning_offsets([journal])[journal]
    end = log.end_offsets([journal])[journal]
    left = RemainingJournal(log, journal, first, end, 0)
    left.last(min(end, first + BEGINNING))
    _check_open(left)


def _check_open(left: RemainingJournal) -> None:
    last = left.last(left.end)
    if isinstance(last, MovedRecord):
        raise moved_away(left.partition, last)


def moved_away(partition: Partition, last: MovedRecord) -> ConfigError:
    """The error of a start in a journal that ends with this record."""
    return ConfigError(
        f"the journal {partition} ends with record {last.seq}: the service was moved to "
        f"{counted(last.shards, 'shard')}, whose journal is {last.journal}. Set [scale] shards "
        f'= {last.shards} and [journal] topic = "{last.journal}". If headwater reshard was '
        "interrupted, run it again first, with the old configuration"
    )


def check_journal(
    config: Config,
    log: Log,
    journal: Partition,
    inputs: Collection[Partition],
    store: SnapshotStore,
) -> None:
    """The same for a journal that another process may be writing. Nothing is replayed.

    Raises
    ------
    ConfigError
        It has lost its newest records, or belongs to another configuration.
    """
    try:
        _look(config, log, journal, inputs, store)
    except ConfigError:
        # A running service may have committed, or written a snapshot, after its end was read.
        time.sleep(PAUSE_SECONDS)
        _look(config, log, journal, inputs, store)


def _look(
    config: Config,
    log: Log,
    journal: Partition,
    inputs: Collection[Partition],
    store: SnapshotStore,
) -> None:
    committed = log.committed(config.name, list(inputs))  # before the end, which may move
    origin = locate(config, log, journal, store)
    if origin is not None:
        check_end(config, origin, consumed(origin, store)[0], committed, store)


def _offset(
    origin: JournalOrigin, positions: Mapping[Partition, int], committed: Mapping[Partition, int]
) -> tuple[str, str] | None:
    """A committed offset ahead of the journal, and when that means something else."""
    ahead = {p: at for p, at in committed.items() if at > positions.get(p, 0)}
    if any(p not in positions for p in ahead):
        # The log may keep the offsets of partitions that no longer existed for a time.
        gone = _gone(origin)
        ahead = {p: at for p, at in ahead.items() if p in positions or p not in gone}
    for partition, at in sorted(ahead.items()):
        here = positions.get(partition, "no such partition")
        return (
            f"its group has committed {partition} {at} (at the journal's end: {here})",
            "if someone set the group's offsets by hand, set them back to the journal's",
        )
    return None


def _gone(origin: JournalOrigin) -> set[Partition]:
    """The partitions that the journal says do not exist any longer."""
    left = origin.left
    return {
        Partition(*each)
        for _, entry in left.entries(left.first, left.end)
        if isinstance(entry, InputsRecord)
        for each in entry.gone
    }


def _snapshot(origin: JournalOrigin, store: SnapshotStore) -> tuple[str, str] | None:
    """A snapshot ahead of the journal, and when that means something else."""
    mark = mark_of(origin.identity)
    own = store.of(mark)
    about = own.newest_after(origin.left.end)
    if about is None or about.identity != mark:
        return None
    last = origin.left.last(origin.left.end)
    if last is not None and last.seq >= about.seq:
        return None  # the journal lost this record and others while the service ran, and continued
    return (
        f"a snapshot contains its records up to position {about.position}",
        "if the whole log was restored to an earlier state on purpose, move the snapshots after "
        f"{origin.left.end} out of {own.directory}",
    )


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
    left = _left_snapshot(config, store)
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
        _left_snapshot(config, store),
        _predicted(config, log, inputs),
    )
    return [phrase for phrase in looks if phrase is not None]


def _offsets(config: Config, log: Log, inputs: Collection[Partition]) -> str | None:
    committed = log.committed(config.name, list(inputs))
    if not committed:
        return None
    shown = ", ".join(f"{partition} {at}" for partition, at in sorted(committed.items())[:3])
    return f"its group has committed offsets: {shown}{', …' if len(committed) > 3 else ''}"


def _left_snapshot(config: Config, store: SnapshotStore) -> str | None:
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
            except UNDECODABLE:
                continue
            place = Partition(made.position.topic, made.position.partition)
            if made.model.name in names and place in inputs:
                return f"its predictions in {topic}"
    return None
