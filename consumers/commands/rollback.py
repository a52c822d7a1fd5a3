"""`headwater rollback`: remove what a model has learned since a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.commands.past import (
    ConfigArgument,
    Past,
    ReasonOption,
    ShardOption,
    past,
    write_snapshot,
)

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.service.live import LiveShard
    from consumers.timetravel.rollback import RollbackSpan

__all__ = ["rollback"]


def rollback(
    config: ConfigArgument,
    to: Annotated[
        str,
        typer.Option("--to", metavar="POSITION|TIME", help="A journal position, or a time (UTC)."),
    ],
    reason: ReasonOption = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Roll back; without this option the effect is only shown.")
    ] = False,
    shard: ShardOption = 0,
) -> None:
    """Return to the model as it was at a journal position or a time.

    Later records stay consumed and their predictions stay published. What was learned from them is
    removed, also after a restart, because the rollback is journaled. A running service is fenced
    and ends with 3; start it again.

    \b
    Examples:
      headwater rollback visits.toml --to 2026-11-20T17:00:00Z
      headwater rollback visits.toml --to 1042 --reason "labels of the 20th were wrong" --yes
    """
    from consumers.base.errors import ConfigError
    from consumers.timetravel.moment import moment, rebuild_at
    from consumers.timetravel.rollback import cut_from

    with past(config, shard) as of:
        when = moment(of.log, of.found.journal, to)
        cut = cut_from(of.log, of.found, when)
        if not cut.entries:
            raise ConfigError(f"no journal record after {when}: nothing to remove")
        live = rebuild_at(of.config, of.log, of.found, of.store, when, of.progress)
        _show(cut, live, of.config)
        if not yes:
            typer.echo("nothing was changed; add --yes to do it")
            return
        _cut(of, live, reason)


def _show(cut: RollbackSpan, live: LiveShard, config: Config) -> None:
    from consumers.base.counts import counted
    from consumers.config.model import identity_difference

    view = live.shard.view()
    typer.echo(
        f"back to     {cut.to}: {view.observations:,} observations, {view.learned:,} learned"
    )
    removed = counted(cut.entries, "journal record")
    typer.echo(
        f"removed     {removed} with {counted(cut.records, 'input record')}, up to {cut.last}"
    )
    if changes := identity_difference(live.entry.identity, config.identity()):
        several = "roll back the other shards too, then " if config.scale.shards > 1 else ""
        typer.echo(
            f"settings    the model had others at that moment ({'; '.join(changes)}): {several}"
            "change the configuration back before the next start"
        )


def _cut(of: Past, live: LiveShard, reason: str) -> None:
    from consumers.service.journal_end import check_journal
    from consumers.timetravel.rollback import roll_back, write_last_outputs

    check_journal(of.config, of.log, of.found.journal, of.found.inputs, of.store)
    now = time.time_ns() // 1_000_000
    owner = of.log.owner(of.config.name, live.shard.spec.number, of.found.inputs)
    try:
        unwritten = write_last_outputs(of.config, of.log, of.found, of.store, live)
        reset = roll_back(of.log, owner, of.found, live, now=now, reason=reason)
    finally:
        owner.close()
    if unwritten is not None:
        typer.echo(f"not written {unwritten}")
    typer.echo(f"journaled   record {reset.seq}: the model is that of record {reset.to}")
    if not live.shard.unsaved:
        typer.echo(f"snapshot    {write_snapshot(of, live)}")
