"""`headwater relearn`: learn all records again with new settings of the model."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.base.counts import counted
from consumers.commands.past import (
    ConfigArgument,
    JsonOption,
    Past,
    ReasonOption,
    every_past,
    write_snapshot,
)
from consumers.offline.lateness import PENDING_BYTES

if TYPE_CHECKING:
    from consumers.service.live import LiveShard
    from consumers.timetravel.relearn import Relearned

__all__ = ["relearn"]

SILENT = (
    "with [labels] silence the labels are about what the old model published, so these scores do "
    "not compare the models fairly"
)


def relearn(
    config: ConfigArgument,
    reason: ReasonOption = "",
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Change the model; without this option both are only shown."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn all records again with the changed [model], [labels] or [scale] mix.

    Edit the configuration first. Of [labels], horizon, max_pending, max_pending_bytes and
    corrections can change: labels that came after the old horizon are then learned. The new model
    learns every record that the service has consumed, from journal and inputs, while the service
    runs. Both models are shown with their scores on these records, and what waits for labels. With
    --yes the change is journaled, for every shard: published predictions stay, and later ones are
    of the new model. A running service is fenced and ends with 3; start it again with the changed
    configuration.

    \b
    Examples:
      headwater relearn visits.toml
      headwater relearn visits.toml --reason "half_life 5000 is better" --yes
    """
    from consumers.timetravel.relearn import changed_settings, learned_again

    with every_past(config) as shards:
        silent = shards[0].config.labels.silence is not None
        differ = [changed_settings(of.config, of.log, of.found, of.store) for of in shards]
        # If no shard differs, the first one reports it.
        due = [of for of, changes in zip(shards, differ, strict=True) if changes] or shards[:1]
        result: dict[str, Any] = {
            "shards": [{"shard": n, "changes": changes} for n, changes in enumerate(differ)]
        }
        ready: list[Relearned] = []
        for of in due:
            both = learned_again(of.config, of.log, of.found, of.store, of.progress)
            result["shards"][of.found.journal.number] |= _compared(both)
            if yes:  # else one shard after the other is in memory
                ready.append(both)
            del both
        if yes:
            _swap(due, ready, reason, result["shards"])
    if as_json:
        import msgspec

        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        return
    _show(result["shards"], yes=yes)
    if silent:
        typer.echo(f"note        {SILENT}")


def _compared(both: Relearned) -> dict[str, Any]:
    """Both models with their scores on the same records."""
    from consumers.offline.evaluate import standings

    old, new = (standings(live.shard.view())[0] for live in (both.old, both.new))
    models = [{**old, "name": "old"}, {**new, "name": "new"}]
    waiting = {"old": _waiting(both.old), "new": _waiting(both.new)}
    return {"position": both.old.position, "models": models, "labels": waiting}


def _waiting(live: LiveShard) -> dict[str, int]:
    """What became of labels and observations, and how many observations wait now."""
    view, labels = live.shard.view(), live.shard.spec.config.labels
    found = {key: view.labels.get(key, 0) for key in ("joined", "late", "expired", "evicted")}
    return {**found, "waiting": view.pending, "max_pending": labels.max_pending}


def _swap(
    due: list[Past], ready: list[Relearned], reason: str, shards: list[dict[str, Any]]
) -> None:
    """Change the shards together, then write a snapshot of each new model."""
    from consumers.timetravel.relearn import swap

    now = time.time_ns() // 1_000_000
    done = swap(due[0].config, due[0].log, ready, now=now, reason=reason)
    for of, both, entry in zip(due, ready, done, strict=True):
        written = {"journal_entry": entry.seq, "snapshot": write_snapshot(of, both.new)}
        shards[of.found.journal.number] |= written


def _show(shards: list[dict[str, Any]], *, yes: bool) -> None:
    """Print what is changed, both models of each shard, and what was done."""
    from consumers.commands.tables import show_models

    several = len(shards) > 1
    for line in dict.fromkeys(line for s in shards for line in s["changes"]):
        numbers = [s["shard"] for s in shards if line in s["changes"]]
        where = "" if len(numbers) == len(shards) else f" (shards {_listed(numbers)})"
        typer.echo(f"changed     {line}{where}")
    if same := [s["shard"] for s in shards if not s["changes"]]:
        typer.echo(f"unchanged   shards {_listed(same)} have these settings already")
    models = {}
    for s in shards:
        for model in s.get("models", ()):
            of = f"shard {s['shard']} " if several else ""
            models[f"{of}{model['name']} {model['type']}"] = model
    show_models(models)
    for s in shards:
        of = f" of shard {s['shard']}" if several else ""
        for name, found in s.get("labels", {}).items():
            typer.echo(f"labels      {name}{of}: {_told(found)}")
    if not yes:
        typer.echo("nothing was changed; add --yes to do it")
    for s in shards if yes else ():
        if s["changes"]:
            of = f" of shard {s['shard']}" if several else ""
            typer.echo(
                f"journaled   record {s['journal_entry']}{of}: the model has the new settings"
            )
            typer.echo(f"snapshot    {s['snapshot']}")


def _told(found: Mapping[str, int]) -> str:
    """What became of labels and observations, in words.

    Examples
    --------
    >>> print(_told(dict(joined=9, late=0, expired=1, evicted=0, waiting=7, max_pending=100000)))
    9 joined, 1 observation expired; 7 of at most 100,000 wait, which take some 75 MB if all do
    """
    learned = [f"{found['joined']:,} joined"]
    late = [f"{found['late']:,} late"] if found["late"] else []
    gone = [
        f"{counted(found[key], 'observation')} {key}"
        for key in ("expired", "evicted")
        if found[key]
    ]
    megabytes = found["max_pending"] * PENDING_BYTES / 1e6
    return (
        f"{', '.join([*learned, *late, *gone])}; {found['waiting']:,} of at most "
        f"{found['max_pending']:,} wait, which take some {megabytes:,.0f} MB if all do"
    )


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
