"""`headwater replay`: progressive validation over a file, or a service's state from its journal.

Rule: nothing is written but the report (stdout) and the picture that was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.meter import Meter, metered
from consumers.commands.produce import LabelField, TimeField, Types, parse_types, survey

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.events import ShardView
    from consumers.feed import LateLabels
    from consumers.records import Outgoing
    from consumers.shard import Outcome, Shard
    from consumers.transports.protocol import Log

__all__ = ["replay"]

LOOKED_AT = 500  # records whose fields count as those of the file
LONGEST_NAME = 60  # of a file, in the title of a picture


ConfigFile = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The configuration, a TOML file.")
]
File = Annotated[Path | None, typer.Argument(metavar="FILE", help="JSONL or CSV, also .gz.")]
Delay = Annotated[
    str | None,
    typer.Option("--delay", metavar="N|DURATION", help="How late labels are: 50, 90s, 7d."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N records.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="PNG", help="Draw accuracy and log loss over the file."),
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
    file: File = None,
    label: LabelField = None,
    delay: Delay = None,
    time_field: TimeField = None,
    types: Types = None,
    limit: Limit = None,
    as_json: Json = False,
    plot: Plot = None,
    from_journal: Journal = False,
    at: At = None,
) -> None:
    """Progressive validation: predict each record of a file, score it, learn it, without a broker.

    It is the shard of `headwater run` on the file as `headwater produce` would write it. Labels
    are those inside the observations where [input] label says so; with --label or --delay they
    come as records of their own, right after their observation or later. Without --time-field,
    records are 1 ms apart.

    With --journal the service's own inputs are replayed, in the order its journal says. Nothing is
    written and the service may go on; the same position gives the same fingerprint.

    The fingerprint covers the times of the records: a file replayed, and the same file as it was
    produced earlier, differ in it unless both take their times from --time-field.

    \b
    Examples:
      headwater replay visits.toml visits.csv.gz --label bought --delay 50 --plot curve.png
      headwater replay visits.toml --journal --json
    """
    from consumers.config import load
    from consumers.errors import ConfigError

    settings = load(config)
    if from_journal:
        given = (file, label, delay, time_field, types, limit, plot)
        if any(value is not None for value in given if value != []):
            raise ConfigError(
                "--journal replays what the service consumed; leave out FILE and its options, "
                "--plot included"
            )
        told = _from_journal(config, settings, at)
    else:
        if file is None or at is not None:
            raise ConfigError("expected FILE, or --journal, perhaps with --at POSITION")
        told = _from_file(settings, file, label, delay, time_field, types or [], limit, plot)
    if as_json:
        import json

        typer.echo(json.dumps(told))
    else:
        from consumers.commands.tables import show

        show(told)


@dataclass(frozen=True, slots=True)
class _Feed:
    """The first records of a file, as `produce` would write them."""

    file: Path
    kinds: Mapping[str, str]
    limit: int | None
    topic: str
    id_field: str
    time_field: str | None
    labels: LateLabels | None = None

    def records(self) -> Iterator[dict[str, object]]:
        from consumers.files import read_records

        return islice(read_records(self.file, self.kinds), self.limit)

    def outgoing(self, records: Iterable[Mapping[str, object]]) -> Iterator[Outgoing]:
        from consumers.feed import timed

        # From 0 on, not from now: the same file gives the same bits at any time.
        return timed(
            records,
            self.topic,
            start=0,
            time_field=self.time_field,
            id_field=self.id_field,
            labels=self.labels,
        )


def _from_file(
    config: Config,
    file: Path,
    label: str | None,
    delay_text: str | None,
    time_field: str | None,
    types: list[str],
    limit: int | None,
    picture: Path | None,
) -> dict[str, Any]:
    from consumers.errors import ConfigError
    from consumers.feed import LateLabels, field_of, parse_delay, timestamp_ms
    from consumers.files import format_of
    from consumers.replay import late_labels

    if picture is not None:
        from consumers.plot import check

        check(picture)
    delay = None if delay_text is None else parse_delay(delay_text)
    kinds = parse_types(types)
    if kinds and format_of(file) != "csv":
        raise ConfigError(f"{file}: --types is for CSV, JSON has types of its own; leave it out")
    topic, id_field = config.input.observations, config.input.id
    feed = _Feed(file, kinds, limit, topic, id_field, time_field)
    fields = {name for record in islice(feed.records(), LOOKED_AT) for name in record}
    late = late_labels(config, label=label, delay=delay, fields=fields)
    feed = replace(feed, labels=late)
    inside = late or LateLabels("", str(config.input.label))
    found = survey(feed.records(), file, inside, time_field, id_field)
    read: Callable[[], Iterable[Mapping[str, object]]] = feed.records
    if not found.in_order and time_field is not None:
        # Everything is in memory then.
        ordered = sorted(read(), key=lambda record: timestamp_ms(field_of(record, time_field)))
        read = partial(iter, ordered)

    shard = _shard(config, feed, read())
    total = found.records + (found.labels if late is not None else 0)
    told = _run(config, shard, feed.outgoing(read()), total, picture, file.name)
    lateness = delay_text if isinstance(delay, timedelta) else delay or 0
    source = {"file": str(file), "label": inside.field, "delay": lateness if late else None}
    return {"source": source, **told}


def _shard(config: Config, feed: _Feed, records: Iterable[Mapping[str, object]]) -> Shard:
    """The empty shard, its features inferred from the first observations where not declared."""
    from consumers.config.sample import SAMPLE_SIZE
    from consumers.recovery import schema_from
    from consumers.replay import file_shard

    schema = config.declared_schema
    if schema is None:
        first = feed.outgoing(islice(records, SAMPLE_SIZE))
        schema = schema_from((r.value for r in first if r.topic == feed.topic), config)
    return file_shard(config, schema, feed.labels)


def _run(
    config: Config,
    shard: Shard,
    feed: Iterator[Outgoing],
    total: int,
    picture: Path | None,
    data: str,
) -> dict[str, Any]:
    from consumers import plot
    from consumers.compiled import compile_kernels
    from consumers.replay import batches, report

    compile_kernels(config, _say)
    size = config.commit.max_records
    apart = -(-total // plot.POINTS)
    if picture is not None:
        size = min(size, apart)
    points: list[plot.Point] = []
    details: dict[str, dict[str, Any]] = {}
    records = drawn = 0
    began = time.perf_counter()
    with Meter("records replayed", total) as meter:
        cut = batches(feed, config.input.observations, sorted(shard.spec.label_topics), size)
        for batch in cut:
            # The clock of a file is its newest record, as in consumers.replay.
            outcome = shard.process(batch, int(batch.timestamps.max()))
            if outcome.rejected:
                _note(details, outcome)
            records += len(batch)
            meter.advance(len(batch))
            if picture is not None and (records - drawn >= apart or records == total):
                drawn, view = records, shard.view()
                scores = {window: s.plain() for window, s in view.quality.scores.items()}
                points.append(plot.Point(view.observations, scores))
    seconds = time.perf_counter() - began
    view = shard.view()
    if picture is not None:
        plot.draw(picture, points, _title(view, data))
    told = report(view, records=records, seconds=seconds, fingerprint=_fingerprint(shard))
    return {**told, "dead_letter_details": details}


def _note(details: dict[str, dict[str, Any]], outcome: Outcome) -> None:
    """Keep the first dead letter of each reason: what was wrong, and where it came from."""
    batch = outcome.batch
    for i, error in sorted(outcome.rejected.items()):
        if error.reason not in details:
            source = batch.partitions[batch.source[i]]
            offset = int(batch.offsets[i])
            place = {"topic": source.topic, "partition": source.number, "offset": offset}
            details[error.reason] = {"detail": error.detail, **place}


def _dead_letters_of(config: Config, log: Log, reasons: Collection[str]) -> dict[str, Any]:
    """The same of a service that ran: its first dead letter of each reason, from their topic."""
    from consumers.commands.tail import up_to_now
    from consumers.records import Partition

    details: dict[str, Any] = {}
    topic = config.dead_letters_topic
    partitions = [Partition(topic, n) for n in range(log.topics().get(topic, 0))]
    if not reasons or not partitions:
        return details
    for record in up_to_now(log, log.beginning_offsets(partitions), headers=True):
        said = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        reason = said.get("reason", "")
        if reason in reasons and reason not in details:
            place = {k: int(said[k]) for k in ("partition", "offset") if k in said}
            of = {"detail": said.get("detail", ""), "topic": said.get("topic", "")}
            details[reason] = {**of, **place}
            if len(details) == len(reasons):
                break
    return details


def _title(view: ShardView, data: str) -> str:
    accuracy = view.quality.scores["all"].accuracy
    right = "nothing scored" if accuracy is None else f"accuracy {100 * accuracy:.2f} %"
    return f"{view.name} ({view.model}) on {data[-LONGEST_NAME:]}: {right}"


def _from_journal(path: Path, config: Config, at: int | None) -> dict[str, Any]:
    from consumers.commands.transport import open_chosen
    from consumers.compiled import compile_kernels
    from consumers.errors import ConfigError
    from consumers.recovery import rebuild, sources
    from consumers.replay import report

    _, log = open_chosen(None, path, existing=True)
    with ExitStack() as stack:
        stack.callback(log.close)
        found = sources(config, log)
        end = log.end_offsets([found.journal])[found.journal]
        if end == log.beginning_offsets([found.journal])[found.journal]:
            raise ConfigError(
                f"the journal {found.journal.topic} is empty; `headwater run {path}` fills it"
            )
        if at is not None and not 0 < at <= end:
            raise ConfigError(
                f"--at expects a position from 1 to {end}, the journal's end, not {at}"
            )
        compile_kernels(config, _say)
        progress = stack.enter_context(metered("records replayed"))
        began = time.perf_counter()
        live = rebuild(config, log, found, None, end=end if at is None else at, progress=progress)
        seconds = time.perf_counter() - began
        view = live.shard.view()
        details = _dead_letters_of(config, log, view.dead_letters.keys())
    mark = _fingerprint(live.shard)
    told = report(view, records=live.replayed, seconds=seconds, fingerprint=mark)
    told["dead_letter_details"] = details
    source = {"journal": found.journal.topic, "position": live.position, "entries": live.seq}
    return {"source": source, **told}


def _fingerprint(shard: Shard) -> str | None:
    """None for a model whose state may not be saved, so that there is nothing to compare with."""
    return None if shard.unsaved else shard.fingerprint()


def _say(line: str) -> None:
    typer.echo(line, err=True)
