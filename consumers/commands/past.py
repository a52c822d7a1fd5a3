"""Shared by the commands that read a service's past: its log, its snapshots, a progress bar."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.commands.meter import metered

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.service.live import LiveShard, Progress, Sources
    from consumers.snapshots.store import SnapshotStore
    from consumers.transports.protocol import Log

__all__ = [
    "ConfigArgument",
    "JsonOption",
    "Past",
    "ReasonOption",
    "ShardOption",
    "check_shard",
    "consumed",
    "every_past",
    "past",
    "write_snapshot",
]

ConfigArgument = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The configuration, a TOML file.")
]
ShardOption = Annotated[
    int, typer.Option("--shard", metavar="N", min=0, help="The shard's number.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the journal.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_shard(config: Config, shard: int) -> None:
    """Raise ConfigError if there is no such shard, because nothing would be found for it."""
    from consumers.base.errors import ConfigError

    last = config.scale.shards - 1
    if shard > last:
        expected = f"a number from 0 to {last}" if last else "0, the only shard"
        raise ConfigError(f"--shard expects {expected} ([scale] shards), got {shard}")


@dataclass(frozen=True, slots=True)
class Past:
    """A service's journal, inputs and snapshots, opened for reading."""

    config: Config
    log: Log
    found: Sources
    store: SnapshotStore
    progress: Progress


@contextmanager
def past(path: Path, shard: int) -> Iterator[Past]:
    """Open them; a progress bar shows a replay of more than a second."""
    from consumers.commands.transport import open_chosen
    from consumers.config import load
    from consumers.service.warm_up import compile_kernels
    from consumers.snapshots.store import open_store

    config = load(path)
    check_shard(config, shard)
    _, log = open_chosen(None, path, existing=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        found = consumed(path, config, log, shard)
        compile_kernels(config, lambda line: typer.echo(line, err=True))
        progress = stack.enter_context(metered("records replayed"))
        yield Past(config, log, found, open_store(config, shard), progress)


@contextmanager
def every_past(path: Path) -> Iterator[list[Past]]:
    """The same for each shard of the service, over one log."""
    from consumers.snapshots.store import open_store

    with past(path, 0) as first:
        config, log = first.config, first.log
        others = [
            replace(first, found=consumed(path, config, log, n), store=open_store(config, n))
            for n in range(1, config.scale.shards)
        ]
        yield [first, *others]


def consumed(path: Path, config: Config, log: Log, shard: int) -> Sources:
    """The topics and partitions that the service consumed.

    Raises
    ------
    ConfigError
        It has not run yet, or its journal is gone, or a topic is.
    """
    from consumers.base.errors import ConfigError
    from consumers.base.records import Partition
    from consumers.commands.transport import check_topics
    from consumers.service.journal_end import check_first_start, check_snapshots
    from consumers.service.partitioning import inputs_of
    from consumers.service.recovery import sources
    from consumers.snapshots.store import open_store

    there = log.describe(config.topics.values())
    topics = {topic: about.partitions for topic, about in there.items()}
    journal = Partition(config.journal_topic, shard)
    if shard >= topics.get(journal.topic, 0) or not log.end_offsets([journal])[journal]:
        store = open_store(config, shard)
        if all(topic in topics for topic in config.input_topics):
            check_first_start(config, log, shard, inputs_of(config, topics, shard), store)
        else:
            check_snapshots(config, shard, store)
        raise ConfigError(
            f"the journal {journal} is empty: the service {config.name} has not run yet; "
            f"start it with `headwater run {shlex.quote(str(path))}`"
        )
    check_topics(config, path, config.topics.values(), topics)
    return sources(config, log, shard)


def write_snapshot(of: Past, live: LiveShard) -> str:
    """Write a snapshot of the shard; returns its path, or the reason without one.

    The caller has fenced the service. Without a snapshot the next start is slower, nothing is lost.
    """
    from consumers.base.errors import SnapshotError, SnapshotsHeldError
    from consumers.service.recovery import about_of
    from consumers.snapshots.format import name_of

    if unsaved := live.shard.unsaved:
        return f"none: {', '.join(unsaved)} cannot be saved"
    part = of.store.of(live.identity)
    try:
        with part.locked():
            about = part.write(about_of(of.config, live), live.shard.to_state())
            return str(part.directory / name_of(about))
    except SnapshotsHeldError:
        return (
            "none: the fenced process holds the directory until it ends; no action is needed, the "
            "next start replays from an older snapshot"
        )
    except SnapshotError as error:
        return f"none: {error}"
