"""`headwater rebuild`: the model at an earlier moment."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from consumers.commands.past import ConfigArgument, JsonOption, ShardOption, past

__all__ = ["rebuild"]


def rebuild(
    config: ConfigArgument,
    at: Annotated[
        str,
        typer.Option("--at", metavar="POSITION|TIME", help="A journal position, or a time (UTC)."),
    ],
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write the model as a snapshot to this file."
        ),
    ] = None,
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the model as it was at a journal position or a time, and print its scores.

    The replay starts from the newest snapshot before that moment, or from the beginning of the
    journal. It writes nothing except the exported file, which Python reads with
    `consumers.snapshots.exported.load_model(FILE)`.

    \b
    Examples:
      headwater rebuild visits.toml --at 1042
      headwater rebuild visits.toml --at 2026-11-20T17:00:00Z --export friday.hws
    """
    import msgspec

    from consumers.base.errors import ConfigError
    from consumers.commands import tables
    from consumers.journal.reader import cut_out
    from consumers.offline.evaluate import report
    from consumers.service.recovery import about_of
    from consumers.snapshots.format import to_bytes
    from consumers.snapshots.places import Directory
    from consumers.timetravel.moment import moment, rebuild_at

    if export is not None and export.exists():
        raise ConfigError(f"{export} exists already; choose another name")
    began = time.perf_counter()
    with past(config, shard) as of:
        when = moment(of.log, of.found.journal, at)
        live = rebuild_at(of.config, of.log, of.found, of.store, when, of.progress)
        entries, records = cut_out(of.log, of.found.journal, live.position)
    seconds = time.perf_counter() - began
    unsaved = live.shard.unsaved
    mark = None if unsaved else live.shard.fingerprint()
    if export is not None:
        if unsaved:
            raise ConfigError(f"{', '.join(unsaved)} cannot be saved; remove --export")
        key = of.config.snapshots.key
        data = to_bytes(about_of(of.config, live), live.shard.to_state(), key)
        Directory(export.parent).write(export.name, data)
    document = report(live.shard.view(), replayed=live.replayed, seconds=seconds, fingerprint=mark)
    document["dead_letter_details"] = {}
    source = {
        "journal": of.found.journal.topic,
        "position": live.position,
        "entries": live.seq,
        "cut_out": {"entries": entries, "records": records},
    }
    document = {"source": source, "moment": {"entry": when.seq, "clock": when.now}, **document}
    if as_json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    typer.echo(f"the model at {when}")
    tables.show(document)
    if export is not None:
        typer.echo(f"written to {export}")
