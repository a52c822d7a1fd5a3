"""`headwater replay`: progressive validation over a file, or a service's state from its journal.

Rule: nothing is written except the output on stdout and the requested report.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.file_replay import ReplayOptions, replay_file, say
from consumers.commands.meter import metered
from consumers.commands.past import ShardOption, check_shard, consumed
from consumers.commands.produce import LabelField, ReporterOption, TimeField, Types
from consumers.commands.rivals import Rival, compare_file, rivals
from consumers.commands.source import (
    ColumnsOption,
    DecimalOption,
    EncodingOption,
    FormatOption,
    QuoteOption,
    SepOption,
    opened,
)

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = ["replay"]

ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The configuration, a TOML file.")
]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="File, directory, quoted pattern or URL; with --compare, configurations before it.",
    ),
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", metavar="N|DURATION", help="Label delay: 50 (records), 90s, 7d."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N records.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="HTML",
        help="Write one page with all results; its charts need matplotlib.",
    ),
]
Details = Annotated[
    bool, typer.Option("--details", help="Every score, the classes and the confusion matrix.")
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Compare the [model] of several configurations.")
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Have river's own loop repeat it, and compare; 1 if they differ."
    ),
]
Journal = Annotated[bool, typer.Option("--journal", help="Rebuild the service from its journal.")]
At = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="POSITION",
        help="With --journal: end before this position (offset) of the journal, 1 to its end.",
    ),
]


def replay(
    config: ConfigFile,
    files: Files = None,
    label: LabelField = None,
    reporter: ReporterOption = None,
    delay: Delay = None,
    time_field: TimeField = None,
    types: Types = None,
    file_format: FormatOption = None,
    sep: SepOption = None,
    encoding: EncodingOption = None,
    quote: QuoteOption = None,
    columns: ColumnsOption = None,
    decimal: DecimalOption = None,
    limit: Limit = None,
    as_json: Json = False,
    details: Details = False,
    report: Report = None,
    compare: Compare = False,
    verify: Verify = False,
    from_journal: Journal = False,
    at: At = None,
    shard: ShardOption = 0,
) -> None:
    """Progressive validation: predict each record of a file, score it, learn it, without a broker.

    The same shard as in `headwater run` processes the records that `headwater produce` would write.
    Labels are inside the observations with [input] label. With --label or --delay they are records
    of their own, right after their observation or later, and --reporter names the field with who
    gave them. Without --time-field, records are 1 ms apart.
    With --compare the models of several configurations run on the same records, the first one as
    champion. If a model fails, the others run without it, its row has the reason; exit code 1.

    With --verify river's own evaluate.iter_progressive_val_score repeats the replay with the same
    model and delay, one record at a time: 0.2 to 4 ms each. All predictions and scores must be
    equal to the last bit; otherwise the exit code is 1.

    With --journal the inputs of one shard are replayed in the order of its journal; the service may
    keep running. The same position gives the same fingerprint. It leaves out the pickles of river
    models, which have other bytes each time, and says so; the predictions of such a model are
    compared with the journal.

    The fingerprint covers the times of the records. So a file that is replayed and the same file
    produced earlier have different fingerprints, unless both use --time-field.

    \b
    Examples:
      headwater replay visits.toml visits.csv.gz --label bought --delay 50 --report visits.html
      headwater replay visits.toml visits.csv.gz --label bought --delay 50 --verify
      headwater replay --compare bayes.toml tree.toml visits.csv.gz --label bought
      headwater replay visits.toml --journal --json
    """
    from consumers.base.errors import ConfigError
    from consumers.config import load

    if from_journal:
        given = (files, label, reporter, delay, time_field, types, limit, compare, verify)
        _check_alone(report, *given, file_format, sep, encoding, quote, columns, decimal)
        results = _from_journal(config, load(config), at, shard)
    else:
        if not files or at is not None or shard:
            raise ConfigError("expected FILE, or --journal and optionally --at POSITION, --shard N")
        *others, file = files
        settings, models = _models(config, others, compare, verify)
        source = opened(file, file_format, sep, encoding, quote, columns, decimal)
        asked = ReplayOptions(source, label, delay, time_field, types, limit, report, verify)
        asked = replace(asked, reporter=reporter)
        results = compare_file(models, asked) if settings is None else replay_file(settings, asked)
    _show(results, as_json, details)


def _check_alone(report: Path | None, *given: object) -> None:
    """Refuse options of a file where the journal is replayed."""
    from consumers.base.errors import ConfigError

    if report is not None:
        raise ConfigError(
            "--report draws how the scores of a file change from record to record; --journal "
            "replays a model without these points: give FILE, or print the scores by --json"
        )
    if any(given):
        raise ConfigError(
            "--journal replays what the service consumed; remove FILE and its options, --compare "
            "and --verify"
        )


def _show(results: dict[str, Any], as_json: bool, details: bool) -> None:
    """Print the results. Exit code 1 if river's own loop gave others, or a model failed."""
    if as_json:
        import json

        typer.echo(json.dumps(results))
    else:
        from consumers.commands.tables import show

        show(results, details=details)
    if "verification" in results and not results["verification"]["equal"]:
        say("headwater: --verify: river's own loop gives other results; expected a difference of 0")
        raise typer.Exit(1)
    if any(row.get("failed") for row in results["challengers"]):
        raise typer.Exit(1)


def _models(
    config: Path, others: list[str], compare: bool, verify: bool
) -> tuple[Config | None, list[Rival]]:
    """The configuration, or with --compare the models instead of it."""
    from consumers.base.errors import ConfigError
    from consumers.config import load

    if compare and verify:
        raise ConfigError("--verify: river's loop runs one model; remove --compare")
    if compare and others:
        return None, rivals([config, *map(Path, others)])
    if compare:
        raise ConfigError("--compare expects two configurations or more, and then FILE")
    if others:
        raise ConfigError(
            f"expected one FILE, got {len(others) + 1}; give a pattern in quotes ('*.csv') or "
            "their directory, or --compare with several configurations"
        )
    return load(config), []


def _dead_letters_of(config: Config, log: Log, reasons: Collection[str]) -> dict[str, Any]:
    """The first dead letter of each reason, read from the service's topic."""
    from consumers.base.records import Partition
    from consumers.commands.tail import up_to_now

    details: dict[str, Any] = {}
    topic = config.dead_letters_topic
    partitions = [Partition(topic, n) for n in range(log.topics().get(topic, 0))]
    if not reasons or not partitions:
        return details
    for record in up_to_now(log, log.beginning_offsets(partitions), headers=True):
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        reason = headers.get("reason", "")
        if reason in reasons and reason not in details:
            place = {k: int(headers[k]) for k in ("partition", "offset") if k in headers}
            of = {"detail": headers.get("detail", ""), "topic": headers.get("topic", "")}
            details[reason] = {**of, **place}
            if len(details) == len(reasons):
                break
    return details


def _from_journal(path: Path, config: Config, at: int | None, shard: int) -> dict[str, Any]:
    from consumers.base.errors import ConfigError
    from consumers.commands.transport import open_chosen
    from consumers.journal.reader import cut_out
    from consumers.offline.evaluate import fingerprint_of, report
    from consumers.service.recovery import rebuild
    from consumers.service.warm_up import compile_kernels

    check_shard(config, shard)
    _, log = open_chosen(None, path, existing=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        found = consumed(path, config, log, shard)
        end = log.end_offsets([found.journal])[found.journal]
        if at is not None and not 0 < at <= end:
            raise ConfigError(
                f"--at expects a position from 1 to {end}, the journal's end, not {at}"
            )
        compile_kernels(config, say)
        progress = stack.enter_context(metered("records replayed"))
        began = time.perf_counter()
        live = rebuild(config, log, found, None, end=end if at is None else at, progress=progress)
        seconds = time.perf_counter() - began
        entries, records = cut_out(log, found.journal, live.position)
        view = live.shard.view()
        details = _dead_letters_of(config, log, view.dead_letters.keys())
    mark = fingerprint_of(live.shard)
    results = report(view, replayed=live.replayed, seconds=seconds, fingerprint=mark)
    results["dead_letter_details"] = details
    source = {
        "journal": found.journal.topic,
        "position": live.position,
        "entries": live.seq,
        "cut_out": {"entries": entries, "records": records},
    }
    return {"source": source, **results}
