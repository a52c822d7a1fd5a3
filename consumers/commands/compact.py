"""`headwater compact`: make the file of the embedded log smaller, also while a service runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, cast

import typer

from consumers.base.errors import ConfigError
from consumers.base.records import Partition
from consumers.commands.past import ConfigArgument
from consumers.transports.registry import local_path, transport_of

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.transports.protocol import Log
    from consumers.transports.sqlite.compaction import Compactor, FileSize
    from consumers.transports.sqlite.log import SqliteLog

__all__ = ["compact"]


def compact(
    config: ConfigArgument,
    keep: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Delete records that are older, such as 30d."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
) -> None:
    """Pack the records of an embedded log, and with --keep delete old ones.

    The service may run. Ages are measured from the newest record of a partition. Input records that
    a kept snapshot needs are never deleted, nor is the journal.

    \b
    Examples:
      headwater compact payments.toml
      headwater compact payments.toml --keep 30d --dry-run
    """
    from consumers.commands.transport import check_topics, open_chosen
    from consumers.config import load

    settings = load(config)
    url = settings.input.transport
    if not transport_of(url).compacts:
        raise ConfigError(
            f"expected the embedded log sqlite:FILE.db, got {url}; on Kafka set retention.ms of "
            "the topics (docs/operations.md)"
        )
    age = None if keep is None else _age(keep)
    _, opened = open_chosen(None, config, existing=True)
    log = cast("SqliteLog", opened)
    try:
        topics = log.topics()
        check_topics(settings, config, settings.topics.values(), topics)
        cuts = {} if age is None else _cuts(settings, log, topics, age)
        _show(log, cuts, dry_run=dry_run)
        if not dry_run:
            _work(settings, log, topics, cuts)
    finally:
        log.close()


def _age(keep: str) -> int:
    from consumers.base.units import duration_ms

    try:
        return duration_ms(keep)
    except ValueError as error:
        raise ConfigError(f"--keep: {error}") from None


def _cuts(
    config: Config, log: SqliteLog, topics: Mapping[str, int], age: int
) -> dict[Partition, int]:
    """Partition to the offset before which records are deleted."""

    inputs, compactor = _needed(config, log, topics), log.compactor()
    cuts = {}
    for topic in dict.fromkeys(config.topics.values()):
        if topic in config.own_topics:
            continue
        if others := compactor.readers(topic) - {config.name}:
            typer.echo(f"{topic}: kept, because {', '.join(sorted(others))} reads it too")
            continue
        for number in range(topics[topic]):
            partition = Partition(topic, number)
            cut = _by_age(log, partition, age)
            needs = inputs.get(partition, 0 if topic in config.input_topics else cut)
            cuts[partition] = min(cut, needs)
    return cuts


def _by_age(log: SqliteLog, partition: Partition, age: int) -> int:
    """The first offset that is younger than `age`, measured from the newest record."""
    begin, end = (of([partition])[partition] for of in (log.beginning_offsets, log.end_offsets))
    newest = None
    for chunk in log.read({partition: max(begin, end - 1)}, {partition: end}):
        newest = chunk.timestamps[-1]
    return begin if newest is None else log.offsets_at([partition], newest - age)[partition]


def _show(log: SqliteLog, cuts: Mapping[Partition, int], *, dry_run: bool) -> None:
    begins, ends = log.beginning_offsets(list(cuts)), log.end_offsets(list(cuts))
    does = "would be deleted" if dry_run else "to delete"
    for partition, cut in cuts.items():
        n, left = max(0, cut - begins[partition]), ends[partition] - begins[partition]
        typer.echo(f"{partition}: {n:,} of {left:,} records {does}")


def _work(
    config: Config, log: SqliteLog, topics: Mapping[str, int], cuts: Mapping[Partition, int]
) -> None:
    from consumers.commands.meter import Meter

    compactor = log.compactor()
    before = compactor.size()
    for partition, cut in cuts.items():
        with Meter("records deleted") as meter:
            _sliced(compactor.delete(partition, cut), meter.advance)
    for topic in dict.fromkeys(config.topics.values()):
        for number in range(topics[topic]):
            with Meter(f"records of {topic} packed") as meter:
                _sliced(compactor.pack(Partition(topic, number)), meter.advance)
    with Meter("bytes returned") as meter:
        _sliced(compactor.shrink(), meter.advance)
    compactor.checkpoint()
    _report(config, before, compactor)


def _sliced(slices: Iterable[int], advance: Callable[[int], None]) -> None:
    """Run slices. A pause as long as the slice leaves others half of the time to write."""
    began = time.monotonic()
    for done in slices:
        advance(done)
        time.sleep(time.monotonic() - began)
        began = time.monotonic()


def _report(config: Config, before: FileSize, compactor: Compactor) -> None:
    after = compactor.size()
    path = local_path(config.input.transport)
    typer.echo(f"{path}: {_mb(before.file)} before, {_mb(after.file)} now")


def _mb(n: int) -> str:
    return f"{n / 1e6:,.1f} MB"


def _needed(config: Config, log: Log, topics: Mapping[str, int]) -> dict[Partition, int]:
    """The first offset of each input partition that a snapshot of its shard needs.

    It includes the last consumed records, by which a start recognizes an input.

    Raises
    ------
    ConfigError
        A shard has no snapshot that a start would load, so every record is needed. Or the service
        was moved to other shards, and the snapshots of these do not say what is needed.
    """
    offsets: dict[Partition, int] = {}
    for shard in range(config.scale.shards):
        offsets |= _needed_by(config, log, topics, shard)
    return offsets


def _needed_by(
    config: Config, log: Log, topics: Mapping[str, int], shard: int
) -> dict[Partition, int]:
    from consumers.journal.records import mark_of
    from consumers.service.journal_end import check_open
    from consumers.service.partitioning import inputs_of
    from consumers.snapshots.locate import locate
    from consumers.snapshots.store import open_store

    store, journal = open_store(config, shard), Partition(config.journal_topic, shard)
    inputs = inputs_of(config, topics, shard)
    check_open(log, journal)
    origin = locate(config, log, journal, store)
    oldest: dict[Partition, int] | None = None
    found = () if origin is None else store.of(mark_of(origin.identity)).newest(origin.objection)
    for about, state in found:
        at = {Partition(t, n): p for t, n, p in state.nested("shard").header["positions"]}
        for tail in about.tails:
            partition = Partition(tail.topic, tail.partition)
            at[partition] = min(at.get(partition, 0), tail.first)
        before = at if oldest is None else oldest
        oldest = {p: min(at.get(p, 0), before.get(p, 0)) for p in inputs}
    if oldest is None:
        raise ConfigError(
            f"shard {shard} of {config.name} has no snapshot that a start would load, so every "
            "input record is needed; a clean stop of the service writes one"
        )
    return oldest
