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
    from consumers.service.live import LiveShard, Progress
    from consumers.timetravel.reshard import Move, NewShard
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

    \b
    Examples:
      headwater reshard visits.toml --shards 8
      headwater reshard visits.toml --shards 8 --reason "one process is too slow" --yes
    """
    from consumers.commands.meter import metered
    from consumers.commands.transport import open_chosen
    from consumers.config import load
    from consumers.service.warm_up import compile_kernels
    from consumers.timetravel.reshard import planned

    settings = load(config)
    _, log = open_chosen(None, config, existing=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        _check_ran(config, settings, log)
        compile_kernels(settings, lambda line: typer.echo(line, err=True))
        progress = stack.enter_context(metered("records replayed"))
        move = planned(settings, log, shards, journal, progress)
        result = _moved(move, log, reason, progress) if yes else _previewed(move, progress)
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


def _previewed(move: Move, progress: Progress) -> dict[str, Any]:
    """All shards with their scores; one new shard after the other is in memory."""
    result, now = _old(move), time.time_ns() // 1_000_000
    for number in range(move.new.scale.shards):
        shard = move.shard(number)
        move.learn(shard, now, progress)
        result["models"][f"new shard {number}"] = _scores(shard.live)
    return result


def _moved(move: Move, log: Log, reason: str, progress: Progress) -> dict[str, Any]:
    """Move the shards, then write a snapshot of each new one."""
    from consumers.snapshots.store import open_store

    result, now = _old(move), time.time_ns() // 1_000_000
    if move.new.journal_topic not in log.describe([move.new.journal_topic]):
        log.create_topic(move.new.journal_topic, move.new.scale.shards)
    new = [move.shard(number) for number in range(move.new.scale.shards)]
    due: list[NewShard] = [shard for shard in new if not shard.begun]
    for shard in due:
        move.learn(shard, now, progress)
    move.swap(new, now, reason, progress)
    for shard in due:
        number = shard.found.journal.number
        of = Past(move.new, log, shard.found, open_store(move.new, number), progress)
        result["models"][f"new shard {number}"] = _scores(shard.live)
        result["snapshots"][str(number)] = write_snapshot(of, shard.live)
    return result


def _old(move: Move) -> dict[str, Any]:
    """The shards as they are."""
    several = len(move.old) > 1
    return {
        "shards": {"old": move.config.scale.shards, "new": move.new.scale.shards},
        "journal": {"old": move.config.journal_topic, "new": move.new.journal_topic},
        "records": move.records,
        "models": {
            f"old shard {n}" if several else "old": _scores(old.live)
            for n, old in enumerate(move.old)
        },
        "snapshots": {},
    }


def _scores(live: LiveShard) -> dict[str, Any]:
    from consumers.offline.evaluate import standings

    return standings(live.shard.view())[0]


def _show(result: dict[str, Any], path: Path, *, yes: bool) -> None:
    from consumers.commands.tables import show_models

    shards, topics = result["shards"], result["journal"]
    typer.echo(
        f"shards      {shards['old']}, now {shards['new']}; {result['records']:,} records learned "
        "again"
    )
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
