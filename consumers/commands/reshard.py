"""`headwater reshard`: give a service another number of shards, under the same name."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import ConfigArgument, JsonOption, Past, ReasonOption, write_snapshot

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.service.live import LiveShard, Progress, Sources
    from consumers.timetravel.old_shards import OldShards
    from consumers.timetravel.reshard import NewShard
    from consumers.transports.protocol import Log

__all__ = ["reshard"]


def reshard(
    config: ConfigArgument,
    shards: Annotated[
        int, typer.Option("--shards", metavar="N", min=1, max=1024, help="The new number.")
    ],
    journal: Annotated[
        str | None,
        typer.Option(
            "--journal",
            metavar="TOPIC",
            help="The journal of the new shards. By default NAME-journal-N.",
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Merge the models of old shards, where the records have expired.",
        ),
    ] = False,
    reason: ReasonOption = "",
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do it; without this option the shards are only shown."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Divide the records of a service among another number of shards, under the same name.

    CONFIG has the old number. Each new shard learns all records of its partitions again, from the
    inputs, while the service runs. Old and new shards are shown with their scores. With --yes the
    running service is fenced and ends with 3, its journals are closed, and the new journals begin
    where they end: published predictions stay, and no record is predicted twice or left out. Then
    set the number of shards and the journal in CONFIG as printed, and start the service.

    With --merge fewer shards get the merged models of the old ones, if these merge exactly. Nothing
    is learned again, so the inputs may have expired; scores start empty.

    \b
    Examples:
      headwater reshard visits.toml --shards 8
      headwater reshard visits.toml --shards 8 --reason "one process is too slow" --yes
      headwater reshard visits.toml --shards 2 --merge
    """
    from consumers.commands.meter import metered
    from consumers.commands.transport import open_chosen
    from consumers.config import load
    from consumers.service.warm_up import compile_kernels
    from consumers.timetravel.old_shards import load_old_shards

    settings = load(config)
    _, log = open_chosen(None, config, existing=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        _check_ran(config, settings, log)
        compile_kernels(settings, lambda line: typer.echo(line, err=True))
        progress = stack.enter_context(metered("records replayed"))
        old = load_old_shards(settings, log, shards, journal, progress)
        result, step = _before(old), _joined if merge else _learned_again
        step(old, result, reason, progress, yes=yes)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        return
    _show(result, config, yes=yes)


def _check_ran(path: Path, config: Config, log: Log) -> None:
    """ConfigError if a shard has never run, or a topic is missing."""
    from consumers.commands.past import consumed

    for number in range(config.scale.shards):
        consumed(path, config, log, number)


def _before(old: OldShards) -> dict[str, Any]:
    """What is moved, and the old shards with their scores."""
    several = len(old.shards) > 1
    return {
        "shards": {"old": old.config.scale.shards, "new": old.new.scale.shards},
        "journal": {"old": old.config.journal_topic, "new": old.new.journal_topic},
        "models": {
            f"old shard {n}" if several else "old": _scores(shard.live)
            for n, shard in enumerate(old.shards)
        },
        "snapshots": {},
    }


def _learned_again(
    old: OldShards, result: dict[str, Any], reason: str, progress: Progress, *, yes: bool
) -> None:
    """Let the new shards learn all records; with `yes` move the service."""
    from consumers.timetravel.reshard import Move

    move, now = Move(old), _now()
    result["records"] = move.records
    ready: list[NewShard] = []
    for number in range(old.new.scale.shards):
        shard = move.shard(number)
        if shard.begun:
            continue
        move.learn(shard, now, progress)
        result["models"][f"new shard {number}"] = _scores(shard.live)
        if yes:  # else one shard after the other is in memory
            ready.append(shard)
    if not yes:
        return
    _create_journal(old)
    move.swap(ready, now, reason, progress)
    for shard in ready:
        number = shard.found.journal.number
        result["models"][f"new shard {number}"] = _scores(shard.live)
        _snapshot(old, shard.found, shard.live, result, progress)


def _joined(
    old: OldShards, result: dict[str, Any], reason: str, progress: Progress, *, yes: bool
) -> None:
    """Merge the models of the old shards; with `yes` move the service."""
    from consumers.backfill.joined import begin_joined, check_joinable, joined

    check_joinable(old)
    if yes:
        _create_journal(old)
        old.close(_now(), reason)
    result["waiting"] = result["lost"] = 0
    for number in range(old.new.scale.shards):
        if old.begun(number):
            continue
        new = joined(old, number)
        result["waiting"] += new.waiting
        result["lost"] += new.lost
        if yes:
            live = begin_joined(old, new, _now())
            _snapshot(old, new.found, live, result, progress)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _create_journal(old: OldShards) -> None:
    topic = old.new.journal_topic
    if topic not in old.log.describe([topic]):
        old.log.create_topic(topic, old.new.scale.shards)


def _snapshot(
    old: OldShards, found: Sources, live: LiveShard, result: dict[str, Any], progress: Progress
) -> None:
    """Write a snapshot of a new shard, so that its first start replays nothing."""
    from consumers.snapshots.store import open_store

    number = found.journal.number
    of = Past(old.new, old.log, found, open_store(old.new, number), progress)
    result["snapshots"][str(number)] = write_snapshot(of, live)


def _scores(live: LiveShard) -> dict[str, Any]:
    from consumers.offline.evaluate import standings

    return standings(live.shard.view())[0]


def _show(result: dict[str, Any], path: Path, *, yes: bool) -> None:
    from consumers.commands.tables import show_models

    shards, topics = result["shards"], result["journal"]
    what = (
        f"{result['records']:,} records learned again" if "records" in result else "models merged"
    )
    typer.echo(f"shards      {shards['old']}, now {shards['new']}; {what}")
    if "waiting" in result:
        typer.echo(f"waiting     {result['waiting']:,} records for their label or observation")
    if result.get("lost"):
        typer.echo(f"lost        {result['lost']:,} more waited, and the inputs lost their records")
    show_models(result["models"])
    if not yes:
        typer.echo("nothing was changed; add --yes to do it")
        return
    typer.echo(f"journaled   {topics['old']} is closed, the new shards have {topics['new']}")
    for number, snapshot in result["snapshots"].items():
        typer.echo(f"snapshot    of shard {number}: {snapshot}")
    typer.echo(
        f"next        set these in {path}, then start the service:\n"
        f"              [scale] shards = {shards['new']}\n"
        f'              [journal] topic = "{topics["new"]}"'
    )
