"""`headwater backfill`: a new service that has learned its history."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from consumers.commands.meter import Meter
from consumers.commands.past import ConfigArgument, JsonOption
from consumers.commands.source import (
    ColumnsOption,
    DecimalOption,
    EncodingOption,
    FormatOption,
    QuoteOption,
    SepOption,
    opened,
    say_unit,
    types_of,
)

if TYPE_CHECKING:
    from consumers.backfill.fit import Fitted
    from consumers.backfill.learn import HistoryPlan, Learned
    from consumers.backfill.manifest import FileSpan, Manifest, OffsetSpan, Reading
    from consumers.base.records import Partition
    from consumers.codecs.account import FieldsView
    from consumers.config import Config
    from consumers.service.importing import HistoryToImport
    from consumers.service.live import Sources
    from consumers.transports.protocol import Log

__all__ = ["backfill"]

SHOWN, SPANS = 20, 3  # splits of a plan, and ranges of a split, that are shown
ANY_CORE = "local[*]"  # Spark on this machine

Run = Callable[["HistoryPlan", Callable[[int], None]], Iterator["Fitted"]]


SourceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[SOURCE]",
        help="Files: a file, a directory, a pattern or a URL. Without it, the input topics.",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Learn observations before this time (UTC)."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="Learn labels before it; by default --until."),
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--labels", metavar="FILES", help="Files with the labels, joined by the id."),
]
IdOption = Annotated[
    str | None,
    typer.Option("--id-field", metavar="F", help="Field with the id; default [input] id."),
]
LabelOption = Annotated[
    str | None, typer.Option("--label", metavar="F", help="Field with the label.")
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time-field", metavar="F", help="Field with the time; at:us names its unit too."
    ),
]
LabelTimeOption = Annotated[
    str | None,
    typer.Option("--label-time", metavar="F", help="Field with the time when the label came."),
]
OffsetsOption = Annotated[
    str | None,
    typer.Option(
        "--offsets",
        metavar="F,F",
        help="Fields with partition and offset of a record in the topic of observations.",
    ),
]
TypesOption = Annotated[
    list[str] | None,
    typer.Option("--types", metavar="FIELD=KIND", help="Kinds of the columns of a CSV."),
]
EngineOption = Annotated[
    Literal["local", "spark"], typer.Option("--engine", help="Where splits are learned.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes here; default 1, or one a core for 2 million records or more.",
    ),
]
MasterOption = Annotated[str, typer.Option("--master", metavar="URL", help="The master of Spark.")]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeat it."),
]
SplitOption = Annotated[
    int, typer.Option("--split", metavar="N", min=1, help="Records of a split.")
]
PlanOption = Annotated[bool, typer.Option("--plan", help="Print the splits, and learn nothing.")]
NewJournalOption = Annotated[
    bool,
    typer.Option("--new-journal", help="Start a new journal although the service has run before."),
]


def backfill(
    config: ConfigArgument,
    source: SourceArgument = None,
    until: UntilOption = None,
    as_of: AsOfOption = None,
    labels: LabelsOption = None,
    id_field: IdOption = None,
    label: LabelOption = None,
    time_field: TimeOption = None,
    label_time: LabelTimeOption = None,
    offsets: OffsetsOption = None,
    types: TypesOption = None,
    file_format: FormatOption = None,
    sep: SepOption = None,
    encoding: EncodingOption = None,
    quote: QuoteOption = None,
    columns: ColumnsOption = None,
    decimal: DecimalOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    master: MasterOption = ANY_CORE,
    conf: ConfOption = None,
    split: SplitOption = 250_000,
    plan: PlanOption = False,
    new_journal: NewJournalOption = False,
    as_json: JsonOption = False,
) -> None:
    """Learn a history, then start a new service with the model. `headwater run` continues it.

    The history is in files, or, without SOURCE, in the input topics up to --until. It is divided
    into splits, which are learned apart and merged in a fixed order: the same splits give the same
    model, bit for bit, on every engine. A model that cannot be merged exactly learns all records
    in order, on one core. The service must not have run before. It starts at the offsets where the
    history ends; after files, at --until, or where [input] start says. Predictions are not
    written. Observations that still wait for a label are joined by the service, and not scored.

    \b
    Examples:
      headwater backfill visits.toml --until 2026-11-01
      headwater backfill visits.toml 'visits-*.parquet' --time-field at --until 2026-11-01
      headwater backfill visits.toml visits/ --labels orders.parquet --label bought
      headwater backfill visits.toml s3://lake/visits/ --engine spark --master spark://host:7077
    """
    from consumers.config.load import log_of

    run = _engine(engine, workers, master, conf or ())
    times = {"until": _moment("--until", until), "as_of": _moment("--as-of", as_of)}
    how = (file_format, sep, encoding, quote, columns, decimal)
    fields = (id_field, label, time_field, label_time)
    _check_options(source, *how, labels, *fields, offsets, types)
    settings = _settings(config)
    how = (*how[:-1], ";".join(filter(None, (settings.files.decimal, decimal))) or None)
    reading = _reading(source, how, fields, offsets, types or ())
    with closing(log_of(settings)) as log:
        plans = _plans(config, settings, log, source, labels, reading, times, split)
        for name in plans[0].absent:
            typer.echo(
                f"warning: field {name!r} is in none of the first records of {source}; check its "
                "name",
                err=True,
            )
        if plan:
            _show_plans(plans, as_json=as_json)
            return
        _check(config, settings, log, new_journal=new_journal)
        _learn_and_begin(settings, log, plans, run, new_journal=new_journal, as_json=as_json)


def _learn_and_begin(
    config: Config,
    log: Log,
    plans: Sequence[HistoryPlan],
    run: Run,
    *,
    new_journal: bool,
    as_json: bool,
) -> None:
    """Learn the histories of all shards, then begin all shards: an error leaves none begun."""
    from consumers.base.errors import ConfigError
    from consumers.service.warm_up import compile_kernels

    due = _due(config, log, plans)
    if not due:
        typer.echo(f"{config.name} began with this history before; nothing was written")
        return
    compile_kernels(config, lambda line: typer.echo(line, err=True))
    began = time.perf_counter()
    ready = [(each, shards, _learn(each, run)) for each, shards in due]
    if not any(learned.total("learned") for _, _, learned in ready):
        raise ConfigError(
            f"no label was learned from {plans[0].job.manifest.source}; check the fields of label "
            "and id, and that labels come after their observations"
        )
    for each, shards, learned in ready:
        _begin(config, log, learned, shards, new_journal=new_journal)
        _report(each, learned, time.perf_counter() - began, as_json=as_json)


def _fields_in_words(reading: Reading, fields: FieldsView | None) -> list[str]:
    """Which fields of the records were not used."""
    from consumers.base.fields import TimeField
    from consumers.telemetry.field_lines import field_lines

    if fields is None:
        return []
    times = [TimeField.of(each).name for each in (reading.time_field, reading.label_time) if each]
    others = [*times, *reading.offsets, *filter(None, (reading.id, reading.label))]
    return field_lines(fields, others)


def _settings(path: Path) -> Config:
    """The configuration. ConfigError if its log is a private one."""
    from consumers.base.errors import ConfigError
    from consumers.config import load
    from consumers.transports.registry import transport_of

    config = load(path)
    url = config.input.transport
    if transport_of(url).private:
        raise ConfigError(f"backfill needs a log that outlives this command, got {url}")
    return config


def _reading(
    source: str | None,
    how: Sequence[str | None],
    fields: tuple[str | None, ...],
    offsets: str | None,
    types: Sequence[str],
) -> Reading:
    """How files are read."""
    from consumers.backfill.manifest import Reading
    from consumers.base.errors import ConfigError

    if source is None:
        return Reading()
    place = [name.strip() for name in offsets.split(",")] if offsets is not None else []
    if offsets is not None and (len(place) != 2 or not all(place)):
        raise ConfigError(f"expected --offsets PARTITION,OFFSET as two fields, got {offsets!r}")
    names = ("format", "sep", "encoding", "quote", "columns", "decimal")
    options = dict(zip(names, how, strict=True))
    id_field, label, time_field, label_time = fields
    files = opened(source, *how)
    kinds = types_of(types, files)
    say_unit(files.records(kinds), time_field)
    return Reading(id_field, label, time_field, label_time, place, kinds, options)


def _moment(option: str, text: str | None) -> int | None:
    from consumers.base.errors import ConfigError
    from consumers.base.fields import timestamp_ms

    if text is None:
        return None
    try:
        return timestamp_ms(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _check_options(source: str | None, *options: object) -> None:
    """ConfigError if options of files are given for topics."""
    from consumers.base.errors import ConfigError

    if source is None and any(option is not None for option in options):
        raise ConfigError(
            "expected SOURCE, because options of files are given; topics have times and labels of "
            "their own"
        )


def _engine(name: str, workers: int | None, master: str, conf: Sequence[str]) -> Run:
    """Runs the splits of a plan."""
    from consumers.backfill.engines import local, spark
    from consumers.base.errors import ConfigError

    if name == "local":
        if conf or master != ANY_CORE:
            raise ConfigError("--master and --conf are for --engine spark; give it, or remove them")
        return lambda plan, progress: local.run(
            plan.job, plan.job.manifest.splits, progress, workers
        )
    if workers is not None:
        raise ConfigError("--workers is for --engine local; --master says how many Spark has")
    settings = {}
    for pair in conf:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise ConfigError(f"expected --conf KEY=VALUE, got {pair!r}")
        settings[key] = value
    return lambda plan, progress: spark.run(
        plan.job, plan.job.manifest.splits, progress, master, settings
    )


def _check(file: Path, config: Config, log: Log, *, new_journal: bool) -> None:
    """The topics exist and the service has not run: reported before anything is learned."""
    from consumers.commands.run import prepare_topics
    from consumers.service.journal_end import check_first_start
    from consumers.service.recovery import sources
    from consumers.snapshots.store import open_store

    prepare_topics(file, config, log)
    for shard in range(config.scale.shards):
        found, store = sources(config, log, shard), open_store(config, shard)
        if not new_journal and not log.end_offsets([found.journal])[found.journal]:
            check_first_start(config, log, shard, found.inputs, store, importing=True)


def _plans(
    file: Path,
    config: Config,
    log: Log,
    source: str | None,
    labels: str | None,
    reading: Any,
    times: dict[str, int | None],
    size: int,
) -> list[HistoryPlan]:
    """One plan for all shards, or one for each: a topic's partitions belong to a shard."""
    from consumers.backfill.learn import plan_files, plan_log
    from consumers.base.errors import ConfigError
    from consumers.commands.transport import check_topics
    from consumers.shard.models import build_model

    build_model(config)  # report at once that it cannot mix
    if source is not None and config.scale.mix is not None:
        raise ConfigError(
            "[scale] mix and files exclude each other: each shard would begin with the whole "
            "history, and the mix would count it once for each; learn it from the input topics, "
            "whose partitions belong to one shard each"
        )
    if source is not None:
        return [plan_files(config, source, labels, reading, size=size, **times)]
    described = log.describe(config.input_topics)
    check_topics(config, file, config.input_topics, described)
    topics = {topic: about.partitions for topic, about in described.items()}
    plans = [
        plan_log(config, log, _inputs(config, topics, shard), size=size, **times)
        for shard in range(config.scale.shards)
    ]
    if not any(each.job.manifest.splits for each in plans):
        before = "" if times["until"] is None else " before --until"
        raise ConfigError(f"{config.input.observations} has no observations{before}")
    return plans


def _inputs(config: Config, topics: Mapping[str, int], shard: int) -> Sources:
    """What a shard reads. Its own topics need not exist."""
    from consumers.base.records import Partition
    from consumers.service.live import Sources
    from consumers.service.partitioning import inputs_of

    journal, labels = Partition(config.journal_topic, shard), frozenset(config.input_topics[1:])
    return Sources(inputs_of(config, topics, shard), labels, journal, predictions_partitions=1)


def _due(
    config: Config, log: Log, plans: Sequence[HistoryPlan]
) -> list[tuple[HistoryPlan, list[int]]]:
    """The plans, each with its shards that are not begun.

    If one shard is not begun, the others may have begun with any history: this command was
    interrupted, and other records may have come since. ConfigError if one began otherwise.
    """
    from consumers.service.importing import began_with_history
    from consumers.service.recovery import sources
    from consumers.snapshots.store import open_store

    def begun(shard: int, manifest: str | None) -> bool:
        found, store = sources(config, log, shard), open_store(config, shard)
        return began_with_history(config, log, found, store, manifest)

    every = range(config.scale.shards)
    own = [plans[0] if len(plans) == 1 else plans[shard] for shard in every]
    missing = [shard for shard in every if not begun(shard, None)]
    if not missing:
        for shard in every:
            begun(shard, own[shard].job.manifest.sha256)
        return []
    shards = {id(each): [n for n in missing if own[n] is each] for each in plans}
    return [(each, shards[id(each)]) for each in plans if shards[id(each)]]


def _learn(plan: HistoryPlan, run: Run) -> Learned:
    from consumers.backfill.learn import learned

    if plan.job.manifest.ordered:
        typer.echo(
            f"{plan.job.manifest.ordered}: all records are learned in order, on one core", err=True
        )
    with Meter("records learned") as meter:
        return learned(plan, run(plan, meter.advance))


def _begin(
    config: Config, log: Log, learned: Learned, shards: Sequence[int], *, new_journal: bool
) -> None:
    """Begin the journal of these shards with the model."""
    from dataclasses import replace

    from consumers.commands.meter import metered
    from consumers.service.importing import import_model
    from consumers.service.recovery import sources
    from consumers.snapshots.store import open_store

    with ExitStack() as stack:
        progress = stack.enter_context(metered("parts written"))
        for shard in shards:
            found, store = sources(config, log, shard), open_store(config, shard)
            history = replace(learned.history, starts=_starts(config, log, found, learned.history))
            now = time.time_ns() // 1_000_000
            import_model(
                config,
                log,
                found,
                store,
                learned.model,
                now=now,
                new_journal=new_journal,
                progress=progress,
                history=history,
            )


def _starts(
    config: Config, log: Log, found: Sources, history: HistoryToImport
) -> Mapping[Partition, int]:
    """Where the inputs of a shard continue: at the offsets of the history, at its time, or where
    [input] start says. ConfigError if the history has offsets that the topic does not have."""
    from consumers.base.errors import ConfigError
    from consumers.service.beginning import starts_of_inputs

    ends, known = history.starts or {}, log.end_offsets(found.inputs)
    count = log.describe([config.input.observations])[config.input.observations].partitions
    for partition, end in sorted(ends.items()):
        if partition.number >= count:
            raise ConfigError(
                f"the history has records of partition {partition.number}, and the topic "
                f"{partition.topic} has {count}; --offsets names the partition first"
            )
        if partition in known and end > known[partition]:
            raise ConfigError(
                f"the history ends at offset {end} of {partition}, and the topic ends at "
                f"{known[partition]}: its offsets are those of another topic; remove --offsets"
            )
    starts = dict(starts_of_inputs(config, log, found))
    if history.until is not None:
        starts |= log.offsets_at(found.inputs, history.until)
        # Labels before `until` may belong to observations that are not in the files.
        early = min(history.until, history.until if history.as_of is None else history.as_of)
        labels = [p for p in found.inputs if p.topic in found.label_topics]
        starts |= log.offsets_at(labels, early) if labels else {}
    return {partition: ends.get(partition, at) for partition, at in starts.items()}


def _show_plans(plans: Sequence[HistoryPlan], *, as_json: bool) -> None:
    from consumers.base.counts import counted

    for plan in plans:
        manifest = plan.job.manifest
        if as_json:
            sys.stdout.write(manifest.to_bytes().decode() + "\n")
            continue
        typer.echo(f"{'manifest':11} {manifest.sha256}")
        typer.echo(f"{'source':11} {manifest.source}")
        if manifest.ordered:
            typer.echo(f"{'in order':11} {manifest.ordered}")
        typer.echo(f"{'splits':11} {counted(len(manifest.splits), 'split')}")
        for split in manifest.splits[:SHOWN]:
            spans = ", ".join(_span(manifest, span) for span in split.spans[:SPANS])
            more = ", …" if len(split.spans) > SPANS else ""
            typer.echo(f"{split.number:11} {spans}{more}")
        if len(manifest.splits) > SHOWN:
            typer.echo(f"{'…':>11} --json prints all")


def _span(manifest: Manifest, span: OffsetSpan | FileSpan) -> str:
    """A range of records in words."""
    from consumers.backfill.manifest import OffsetSpan

    if isinstance(span, OffsetSpan):
        return f"{span.topic}[{span.partition}] from {span.first:,} to before {span.end:,}"
    name = manifest.files[span.file].name
    if span.groups is None:
        return name
    last = f" to {span.groups[-1]}" if len(span.groups) > 1 else ""
    return f"{name}, row groups {span.groups[0]}{last}: {span.rows:,} rows"


def _report(plan: HistoryPlan, learned: Learned, seconds: float, *, as_json: bool) -> None:
    import msgspec

    from consumers.backfill.learn import totals

    fields = learned.fields
    scored, manifest, splits = learned.total("scored"), plan.job.manifest, learned.splits
    result: dict[str, Any] = {
        "service": manifest.service,
        "shard": manifest.shard,
        "source": manifest.source,
        "manifest": manifest.sha256,
        "splits": len(splits),
        "in_order": manifest.ordered or None,
        "records": learned.total("records"),
        "learned": learned.total("learned"),
        "waiting": learned.waiting,
        "evicted": learned.evicted,
        "scored": scored,
        "accuracy_of_splits": learned.total("correct") / scored if scored else None,
        "log_loss_of_splits": sum(s.log_loss for s in splits) / scored if scored else None,
        "dead_letters": totals(splits, "dead_letters"),
        "overflows": totals(splits, "overflows"),
        "labels": totals(splits, "outcomes"),
        "fields": msgspec.to_builtins(fields),
        "fields_in_words": _fields_in_words(manifest.reading, fields),
        "fingerprint": learned.model.info.fingerprint,
        "sha256": learned.model.record.sha256,
        "seconds": seconds,
    }
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    """The result in lines."""
    from consumers.base.counts import counted, printable

    rate = result["records"] / result["seconds"] if result["seconds"] else 0.0
    lines = {
        "history": f"{result['source']}: {result['records']:,} records in "
        f"{counted(result['splits'], 'split')}, {result['seconds']:,.1f} s ({rate:,.0f}/s)",
        "manifest": result["manifest"],
        "learned": f"{result['learned']:,} labels",
        "waiting": f"{counted(result['waiting'], 'record')} still without counterpart",
    }
    if result["evicted"]:
        lines["evicted"] = (
            f"{counted(result['evicted'], 'record')} more would wait beyond [labels] max_pending "
            "or max_pending_bytes"
        )
    if late := result["labels"].get("late", 0):
        lines["late"] = f"{counted(late, 'label')} after [labels] horizon: not learned"
    if result["scored"]:
        lines["accuracy"] = (
            f"{result['accuracy_of_splits']:.4f} of {result['scored']:,} predictions, each by the "
            "model of its split, which began empty"
        )
    for name, key in (("dead", "dead_letters"), ("overflows", "overflows")):
        if result[key]:
            lines[name] = ", ".join(f"{n:,} {reason}" for reason, n in result[key].items())
    lines["fingerprint"] = result["fingerprint"]
    lines["journal"] = f"{result['service']}: begins with this model"
    for name, value in lines.items():
        typer.echo(f"{name:11} {value}")
    for line in result["fields_in_words"]:
        typer.echo(f"{'fields':11} {printable(line)}")
