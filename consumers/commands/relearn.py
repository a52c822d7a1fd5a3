"""`headwater relearn`: learn all records again with new settings of the model."""

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
    past,
    write_snapshot,
)

if TYPE_CHECKING:
    from consumers.timetravel.relearn import Relearned

__all__ = ["relearn"]


def relearn(
    config: ConfigArgument,
    reason: ReasonOption = "",
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Change the model; without this option both are only shown."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn all records again with the changed [model] or [labels] corrections.

    Edit the configuration first. The new model learns every record that the service has consumed,
    from journal and inputs, while the service runs. Both models are shown with their scores on
    these records. With --yes the change is journaled: published predictions stay, and later ones
    are of the new model. A running service is fenced and ends with 3; start it again with the
    changed configuration.

    \b
    Examples:
      headwater relearn visits.toml
      headwater relearn visits.toml --reason "half_life 5000 is better" --yes
    """
    from consumers.timetravel.relearn import learned_again

    with past(config, 0) as of:
        both = learned_again(of.config, of.log, of.found, of.store, of.progress)
        result = _compared(both)
        if yes:
            result["journal_entry"], result["snapshot"] = _swap(of, both, reason)
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        return
    from consumers.commands.tables import show_models

    for line in both.changes:
        typer.echo(f"changed     {line}")
    show_models({f"{m['name']} {m['type']}": m for m in result["models"]})
    if yes:
        typer.echo(f"journaled   record {result['journal_entry']}: the model has the new settings")
        typer.echo(f"snapshot    {result['snapshot']}")
    else:
        typer.echo("nothing was changed; add --yes to do it")


def _compared(both: Relearned) -> dict[str, Any]:
    """Both models with their scores on the same records, and what differs."""
    from consumers.offline.evaluate import standings

    old, new = (standings(live.shard.view())[0] for live in (both.old, both.new))
    models = [{**old, "name": "old"}, {**new, "name": "new"}]
    return {"changes": both.changes, "position": both.old.position, "models": models}


def _swap(of: Past, both: Relearned, reason: str) -> tuple[int, str]:
    """Fence the service, let both models learn what it has consumed since, and journal it."""
    from consumers.service.journal_end import check_journal
    from consumers.timetravel.relearn import swap

    check_journal(both.before, of.log, of.found.journal, of.found.inputs, of.store)
    now = time.time_ns() // 1_000_000
    owner = of.log.owner(of.config.name, of.found.journal.number, of.found.inputs)
    try:
        entry = swap(of.config, of.log, owner, of.found, both, now=now, reason=reason)
    finally:
        owner.close()
    return entry.seq, write_snapshot(of, both.new)
