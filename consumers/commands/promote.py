"""`headwater promote`: make another model the champion."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import (
    ConfigArgument,
    JsonOption,
    Past,
    ReasonOption,
    ShardOption,
    past,
    write_snapshot,
)

if TYPE_CHECKING:
    from consumers.service.live import LiveShard

__all__ = ["promote"]


def promote(
    config: ConfigArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A challenger's name, or the service's name for [model]."
        ),
    ] = None,
    reason: ReasonOption = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Promote; without this option the models are only shown.")
    ] = False,
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the models and the evidence, or make a challenger the champion.

    The champion's predictions are written. The former champion becomes a challenger under its own
    name. The promotion is journaled, so every restart and every replay changes the champion at
    the same record. A running service is fenced and ends with 3; start it again.

    \b
    Examples:
      headwater promote visits.toml
      headwater promote visits.toml tree --reason "e-value 35" --yes
    """
    from consumers.base.errors import ConfigError
    from consumers.offline.evaluate import standings
    from consumers.service.promotion import named
    from consumers.service.recovery import rebuild

    if yes and name is None:
        raise ConfigError("--yes needs the NAME of the model to promote")
    with past(config, shard) as of:
        end = of.log.end_offsets([of.found.journal])[of.found.journal]
        live = rebuild(of.config, of.log, of.found, of.store, end=end, progress=of.progress)
        if name is not None:
            named(of.config, live, name)
        view = live.shard.view()
        result: dict[str, Any] = {"models": standings(view), "promotions": view.promotions}
        if name is not None and yes:
            result["journal_entry"], result["snapshot"] = _promote(of, live, name, reason)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        return
    from consumers.commands.tables import show_standings

    show_standings(result["models"])
    if name is not None and yes:
        typer.echo(f"journaled   record {result['journal_entry']}: {name} is champion from here on")
        typer.echo(f"snapshot    {result['snapshot']}")
    elif name is not None:
        typer.echo("nothing was changed; add --yes to do it")


def _promote(of: Past, live: LiveShard, name: str, reason: str) -> tuple[int, str]:
    """Fence the service, replay its journal to the end, and change the champion there."""
    from consumers.journal.reader import course
    from consumers.service.journal_end import check_journal
    from consumers.service.promotion import promote as journaled
    from consumers.service.recovery import write_again
    from consumers.service.replay import replay

    check_journal(of.config, of.log, of.found.journal, of.found.inputs, of.store)
    now = time.time_ns() // 1_000_000
    owner = of.log.owner(of.config.name, live.shard.spec.number, of.found.inputs)
    try:
        end = of.log.end_offsets([of.found.journal])[of.found.journal]
        ahead = course(of.log, of.found.journal, live.position, end)
        replay(of.log, of.found, live, end, ahead)
        write_again(of.log, live)  # before the snapshot, after which no start would do it
        entry = journaled(of.config, owner, of.found, live, name, now=now, reason=reason)
    finally:
        owner.close()
    return entry.seq, write_snapshot(of, live)
