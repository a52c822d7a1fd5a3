"""`headwater rebuild`: the model at an earlier moment."""

from __future__ import annotations

import sys
import time
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
    shard: ShardOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the model as it was at a journal position or a time, and print its scores.

    The replay starts from the newest snapshot before that moment, or from the beginning of the
    journal. It writes nothing. `headwater export --at` writes the model of that moment to a file.

    \b
    Examples:
      headwater rebuild visits.toml --at 1042
      headwater rebuild visits.toml --at 2026-11-20T17:00:00Z --json
    """
    import msgspec

    from consumers.commands import tables
    from consumers.journal.reader import cut_out
    from consumers.offline.evaluate import fingerprint_of, report
    from consumers.timetravel.moment import moment, rebuild_at

    began = time.perf_counter()
    with past(config, shard) as of:
        when = moment(of.log, of.found.journal, at)
        live = rebuild_at(of.config, of.log, of.found, of.store, when, of.progress)
        entries, records = cut_out(of.log, of.found.journal, live.position)
    seconds = time.perf_counter() - began
    mark = fingerprint_of(live.shard)
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
