"""`headwater init`: infer a configuration from a sample, write it, and give the reasons."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from consumers.base.counts import counted, first_ones
from consumers.base.errors import ConfigError
from consumers.base.fields import MISSING, converted, field_of, unit_of
from consumers.commands.declare import Declaration, FieldsOption, PerOption, SchemaOption, declare
from consumers.commands.proposal import (
    ID,
    BudgetOption,
    NameOption,
    OutputOption,
    SpamOption,
    about_changes,
    check_directory,
    check_new,
    checked_name,
    doubts,
    id_of_records,
    no_field,
    quoted,
    relative,
    write,
    write_filter,
)
from consumers.commands.source import (
    ColumnsOption,
    DecimalOption,
    EncodingOption,
    FormatOption,
    QuoteOption,
    SepOption,
    flags,
    moment_text,
    opened,
    zones_text,
)
from consumers.commands.used import lines_of
from consumers.offline.lateness import FEWEST, PENDING_BYTES
from consumers.transports.registry import forms, transport_of

if TYPE_CHECKING:
    from consumers.commands.sampled import Sampled
    from consumers.config.propose import ModelChoice, Source, Waiting
    from consumers.config.sample import InferredField
    from consumers.files.source import FileSource
    from consumers.offline.lateness import Lateness
    from consumers.offline.look import Arrivals
    from consumers.offline.pitfalls import Pitfalls

__all__ = ["init"]

Records = Sequence[Mapping[str, Any]]

LIKELY_LABELS = ("label", "class", "target", "y", "outcome", "fraud", "is_fraud", "spam")
FIRST_OF_NUMBERS_MS = 946_684_800_000  # 2000; few programs wrote epochs for data before it
FIRST_TIME_MS = 315_532_800_000  # 1980; smaller values of a field named like a time are counts
IN_A_FILE = (  # why a model is worse than guessing
    "either the fields do not show the label, or the records are not in the order of their time"
)
NO_SOURCE = (
    "expected a file or a topic to look at, got none; give one, or the fields by --fields or "
    "--schema"
)
DELAY = 50  # records: the label delay in the printed commands, as in the README


class _Asked(NamedTuple):
    """The options."""

    source: str
    file: FileSource | None
    name: str
    label: str | None
    labels: str | None
    transport: str | None
    output: Path
    missing: list[str] | None = None
    registry: str | None = None
    per: str | None = None

    @property
    def texts(self) -> frozenset[str]:
        """The texts for missing values."""
        return MISSING if self.missing is None else frozenset(self.missing)


SourceArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE|TOPIC", help="A file, directory, pattern or URL, or a topic."),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="TEXT",
        help="A text for missing values, instead of NA, ? and so on; may be repeated.",
    ),
]


IdFieldOption = Annotated[
    str | None,
    typer.Option("--id-field", metavar="F", help="The field with the id; by default id."),
]
LabelOption = Annotated[
    str | None, typer.Option(metavar="FIELD", help="The field that holds the label.")
]
LabelsOption = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="The topic of labels that come later.")
]
RegistryOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The registry with the schemas of the topics."),
]


def init(
    source: SourceArgument = None,
    label: LabelOption = None,
    labels: LabelsOption = None,
    transport: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"Where the topics are: {forms(private=False)}."),
    ] = None,
    registry: RegistryOption = None,
    id_field: IdFieldOption = None,
    per: PerOption = None,
    fields: FieldsOption = None,
    schema: SchemaOption = None,
    name: NameOption = None,
    output: OutputOption = None,
    missing: MissingOption = None,
    file_format: FormatOption = None,
    sep: SepOption = None,
    encoding: EncodingOption = None,
    quote: QuoteOption = None,
    columns: ColumnsOption = None,
    decimal: DecimalOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    spam: SpamOption = False,
    budget: BudgetOption = None,
    no_look: Annotated[
        bool, typer.Option("--no-look", help="Only infer fields: no checks, and no other models.")
    ] = False,
) -> None:
    """Infer the fields of a feed from a sample, choose a model, write a configuration that runs.

    It compares models on the first 20,000 records, beside guessing. It warns of fields that may not
    be known before the label, of ids, and of sorted labels. Before there are records, --fields or
    --schema declares the fields.

    \b
    Examples:
      headwater init phishing.csv --label is_phishing
      headwater init orders --labels refunds --transport kafka://localhost:9092
      headwater init payments --fields amount:numeric,country --label fraud
      headwater init orders.csv --label returned --per shop
      headwater init --spam filter
    """
    from consumers.config.propose import service_name

    if spam or budget is not None:
        if per:
            raise ConfigError("--per and --spam exclude each other; give one")
        write_filter(spam, source, file_format, name, output, budget, force=force)
        return
    how = (file_format, sep, encoding, quote, columns, decimal)
    if fields or schema:
        given = Declaration(source, fields or (), schema, label, labels, transport, id_field, per)
        declare(given, name, output, missing, how, force=force)
        return
    if source is None:
        raise ConfigError(NO_SOURCE)
    _check_of_labels(label, labels)
    file = _file(source, transport, how)
    name = checked_name(name) if name else service_name(_stem(file) if file else source)
    output = output or Path(f"{name}.toml")
    check_new(output, force=force)
    if file and transport:
        check_directory(transport)
    asked = _Asked(source, file, name, label, labels, transport, output, missing, registry, per)
    origin, time_field = _proposed(asked, id_field, look=not no_look)
    typer.echo(f"\nwrote {output}; next:")
    for line in _next_steps(origin, file, label, output, time_field):
        typer.echo(f"  {line}")


def _check_of_labels(label: str | None, labels: str | None) -> None:
    """ConfigError unless at most one is given, and `labels` is no file."""
    if label and labels:
        raise ConfigError("--label and --labels exclude each other; give one")
    if labels and os.path.isfile(labels):
        raise ConfigError(
            f"--labels takes a topic, and {labels} is a file; leave it out, and send its labels by "
            f"`headwater produce TOPIC {shlex.quote(labels)} --label FIELD`"
        )


def _proposed(asked: _Asked, id_field: str | None, *, look: bool) -> tuple[Source, str | None]:
    """Infer, explain and write the configuration. Returns its source, and the field of the time."""
    from consumers.base.units import marks_text
    from consumers.config.load import parse
    from consumers.config.propose import ONE_CLASS, choose, doubtful, toml, with_key
    from consumers.config.sample import SAMPLE_SIZE, fields_of_mail, infer
    from consumers.offline.pitfalls import Pitfalls

    source, file, name, label, labels, transport, output, missing, registry, per = asked
    looked = _looked(asked, id_field, look=look)
    records = looked.records[:SAMPLE_SIZE]
    if label:
        warnings = _check_label(label, looked.records, source)
    else:
        warnings = [*looked.lacking, *doubtful([each for each, _ in looked.labels.values()])]
    id_field, about_id = id_of_records(id_field, label, looked, source, numbered=file is not None)
    warnings += doubts(looked, id_field)
    csv = file is not None and not file.format.typed
    but = {id_field, label or id_field}
    after = looked.records[SAMPLE_SIZE:]
    later = (lambda field: (field_of(r, field) for r in after)) if look else None
    if looked.wire == "mail":
        fields = fields_of_mail()
    else:
        texts, many = asked.texts, not per
        fields = infer(records, but, text=True, many=many, csv=csv, missing=texts, later=later)
    fields = with_key(fields, per) if per and looked.wire != "mail" else fields
    choice, found = choose(fields, mail=looked.wire == "mail", per=per), Pitfalls()
    came = looked.records
    if as_text := {each.name for each in fields if each.as_text}:
        numbers = [converted(record, as_text) for record in looked.records]
        looked = replace(looked, records=numbers)
    if look:
        found, choice, worse = _look(looked, fields, choice, id_field, asked)
        if not found.in_order:  # it says more than that the sample has one class
            warnings = [each for each in warnings if not each.startswith(ONE_CLASS)]
        warnings += [*found.lines(), *worse]
    origin = _origin(source, file, name, label, labels, transport, output, len(records), id_field)
    marks = None if file is None else marks_text(file.decimal_marks)
    origin = replace(origin, registry=registry, format=looked.wire, decimal=marks)
    origin = replace(origin, changes=looked.changes)
    late = _lateness(looked, id_field) if labels and file is None else None
    origin = replace(origin, waiting=None if late is None else _waiting(late))
    text = toml(origin, fields, choice, found.fields, missing)
    # --name and URLs are the user's, so this may be refused.
    config = parse(text, source=str(output), directory=output.parent)
    for line in about_changes(looked):
        typer.echo(line)
    _explain(source, looked.records, len(records), fields, label, labels, choice, about_id)
    if late is not None and late.delays:
        typer.echo(_about_delays(late, origin.waiting))
    time_field = _time(records, label, origin) if file else None
    explained = [each.name for each in fields if each.kind is None]
    for line in lines_of(came, config, {id_field, *filter(None, (label, time_field)), *explained}):
        typer.echo(line)
    for warning in warnings:
        typer.echo(f"warning: {warning}")
    write(output, text)
    return origin, time_field


def _file(source: str, transport: str | None, how: Sequence[str | None]) -> FileSource | None:
    """`source` as files; None if it is a topic."""
    from consumers.files.places import place_of

    if Path(source).exists() or place_of(source).name != "file":
        return opened(source, *how)
    if any(how):
        option = next(compress(("format", "sep", "encoding", "quote", "columns", "decimal"), how))
        raise ConfigError(f"no file {source}; --{option} is for files: check the name or remove it")
    if transport is None:
        raise ConfigError(
            f"no file {source}; if it is a topic, name its log: --transport sqlite:FILE.db or "
            "--transport kafka://HOST:PORT"
        )
    return None


def _stem(file: FileSource) -> str:
    return file.name.split(".")[0] or file.name.strip(".")


def _looked(asked: _Asked, id_field: str | None, *, look: bool) -> Sampled:
    """The first records: those that are looked at, or a sample to infer fields from."""
    from consumers.commands.sampled import LOOKED_AT, of_file, of_topic
    from consumers.config.sample import SAMPLE_SIZE

    most = LOOKED_AT if look else SAMPLE_SIZE
    if asked.file is not None:
        if asked.registry is not None:
            raise ConfigError("--registry is for topics, files have no such schemas; remove it")
        return of_file(asked.file, most, asked.texts, verbatim=(asked.label, id_field or ID))
    return of_topic(asked.source, asked.labels, asked.transport or "", most, asked.registry)


def _check_label(label: str, records: Records, source: str) -> list[str]:
    """Warnings about the labels; ConfigError if they cannot be learned."""
    from consumers.config.propose import check_labels, other_kinds
    from consumers.config.sample import SAMPLE_SIZE

    every = values = [field_of(record, label) for record in records]
    if all(value is None for value in values):
        raise ConfigError(no_field(label, records, source))
    if len(set(map(str, values))) > 1:
        values = values[:SAMPLE_SIZE]
    warnings = check_labels(label, values, first_ones(len(values), "record"))
    return warnings + other_kinds(label, every)


def _look(
    looked: Sampled,
    fields: Sequence[InferredField],
    choice: ModelChoice,
    id_field: str,
    asked: _Asked,
) -> tuple[Pitfalls, ModelChoice, list[str]]:
    """What is wrong with the records, the model that learns them best, and whether even that is
    worse than guessing."""
    from consumers.commands.file_replay import say
    from consumers.commands.meter import metered
    from consumers.offline.look import compared
    from consumers.offline.pitfalls import Pitfalls, pitfalls
    from consumers.service.warm_up import WAITS, announced
    from consumers.telemetry.advice import CHECKS, finding
    from stream.data.schema import Schema
    from stream.kernel.tiers import machine_first

    arrivals, how = _arrivals(looked, id_field, asked)
    if arrivals is None:
        return Pitfalls(), choice, []
    name = asked.label or "the label"
    with metered("fields checked") as progress:
        of = (fields, looked.records, arrivals.labels, name, progress)
        found = pitfalls(*of, missing=asked.texts)
    with announced(say, note=WAITS), machine_first(), metered("records scored") as progress:
        schema = Schema.of(**{f.name: f.kind for f in fields if f.kind is not None})
        given = (looked.records, schema, arrivals, choice)
        look = compared(
            *given,
            id_field=id_field,
            missing=asked.texts,
            in_order=found.in_order,
            progress=progress,
        )
    if look is None:
        return found, choice, []
    head = f"{first_ones(look.records, 'record').capitalize()}, {how}:"
    worse = finding(look.choice.model, look.worse)
    advice = CHECKS if asked.file is None else IN_A_FILE
    warnings = [] if worse is None else [f"{worse}; {advice}"]
    return found, replace(look.choice, scores=[head, *look.lines()]), warnings


def _arrivals(looked: Sampled, id_field: str, asked: _Asked) -> tuple[Arrivals | None, str]:
    """When labels come, and that as text; None without labels."""
    from consumers.commands.sampled import id_of
    from consumers.config.sections import LabelsConfig
    from consumers.offline.look import Arrivals

    if asked.label is not None:
        values = [field_of(record, asked.label) for record in looked.records]
        if asked.file is not None:
            return Arrivals(values, DELAY), f"each label {DELAY} records late"
        return Arrivals(values), "each label inside its record"
    if asked.labels is None or asked.file is not None:  # a file has no topic of labels
        return None, ""
    ids = [id_of(r, key, id_field) for r, key in zip(looked.records, looked.keys, strict=True)]
    given = [looked.labels.get(id_ or "", (None, 0)) for id_ in ids]
    late = [at - time for (_, at), time in zip(given, looked.times, strict=True)]
    horizon = _lateness(looked, id_field).horizon(LabelsConfig().horizon_ms)
    how = "labels as late as in the topic"
    return Arrivals([y for y, _ in given], late, looked.times, horizon), how


def _lateness(looked: Sampled, id_field: str) -> Lateness:
    """How late the labels of a topic come."""
    from consumers.commands.sampled import id_of
    from consumers.offline.lateness import lateness

    ids = [id_of(r, key, id_field) for r, key in zip(looked.records, looked.keys, strict=True)]
    labels = ((id_, at) for id_, (_, at) in looked.labels.items())
    return lateness(zip(ids, looked.times, strict=True), labels)


def _waiting(found: Lateness) -> Waiting | None:
    """The keys of [labels] for such labels; None if the defaults suffice."""
    from consumers.base.units import duration_text
    from consumers.config.propose import Waiting
    from consumers.config.sections import LabelsConfig

    usual = LabelsConfig()
    horizon, pending = found.horizon(usual.horizon_ms), found.pending(usual.max_pending)
    if len(found.delays) < FEWEST or (horizon, pending) == (usual.horizon_ms, usual.max_pending):
        return None
    return Waiting(found.told, duration_text(horizon), pending)


def _about_delays(found: Lateness, waiting: Waiting | None) -> str:
    """How late labels come, and what was written for it."""
    if waiting is None:
        return found.told
    megabytes = waiting.max_pending * PENDING_BYTES / 1e6
    return (
        f"{found.told}: [labels] horizon = {waiting.horizon}, max_pending = "
        f"{waiting.max_pending:,}, which take some {megabytes:,.0f} MB if all wait"
    )


def _time(records: Records, label: str | None, origin: Source) -> str | None:
    """The field with the time of the records, or None; prints what it found.

    None on a broker, because retention uses the time: it could delete old records at once.
    """
    from consumers.config.sample import named_like_a_time
    from consumers.config.sections import LabelsConfig

    found = {}
    expires = transport_of(origin.transport).expires
    for name in () if expires else records[0]:
        if named_like_a_time(name) and name not in (label, origin.id):
            times = _times(records, name)
            if times is not None:
                found[name] = times
    if len(found) != 1:
        others = {} if found else _dated(records, {label, origin.id})
        if others and not expires:
            typer.echo(f"time: `produce --time-field {quoted(others)}` would use it: only dates")
            _say_unsorted(others)
        if found:
            typer.echo(f"time: `produce --time-field {quoted(found)}` would use one")
            _say_unsorted(found)
        return None
    _say_unsorted(found)
    [(name, times)] = found.items()
    times = sorted(times)
    late = max((b - a for a, b in zip(times, times[DELAY:], strict=False)), default=0)
    if label and late >= LabelsConfig().horizon_ms:
        typer.echo(
            f"time {name}: not used: {DELAY} records take longer than [labels] horizon there, "
            "so labels would be late"
        )
        return None
    units = dict.fromkeys(filter(None, (unit_of(record.get(name)) for record in records)))
    read = f" in {' and '.join(units)}" if units else ""
    zones = zones_text([record.get(name) for record in records])
    typer.echo(
        f"time {name}: every value is a time{read}, from {moment_text(times[0])} to "
        f"{moment_text(times[-1])}; `produce --time-field {name}` uses it"
    )
    if zones is not None:
        typer.echo(f"time {name}: {zones}")
    if units and times[-1] < FIRST_OF_NUMBERS_MS:
        typer.echo(
            f"warning: time {name}: numbers of so early a time often count from another year, as "
            "ticks of .NET, FILETIME and times of a Mac do: convert them to ISO 8601"
        )
    return name


def _times(records: Records, name: str) -> list[int] | None:
    """The times in a field; None unless every record has one."""
    from consumers.base.fields import timestamp_ms

    try:
        times = [timestamp_ms(record.get(name)) for record in records]
    except ValueError:
        return None
    return times if min(times) >= FIRST_TIME_MS else None


def _dated(records: Records, but: set[str | None]) -> dict[str, list[int]]:
    """Fields whose values are all dates as text, whatever their names, with their times."""
    texts = [n for n in records[0] if n not in but and isinstance(records[0][n], str)]
    dated = [n for n in texts if not any(str(r.get(n)).isdecimal() for r in records)]
    found = ((n, _times(records, n)) for n in dated)
    return {n: times for n, times in found if times is not None}


def _say_unsorted(found: Mapping[str, Sequence[int]]) -> None:
    """Say that records are in the order of none of these times: scores then have another order than
    the service."""
    if any(list(times) in (sorted(times), sorted(times, reverse=True)) for times in found.values()):
        return
    typer.echo(
        f"warning: the records are not in the order of {' or '.join(found)}: sort the file by it "
        "and repeat this, because a service gets the records in the order of time"
    )


def _origin(
    source: str,
    file: FileSource | None,
    name: str,
    label: str | None,
    labels: str | None,
    transport: str | None,
    output: Path,
    n: int,
    id_field: str,
) -> Source:
    from consumers.config.propose import Source

    sample = f"{counted(n, 'record')} of {file.name if file else source}"
    if file is None:
        url = relative(transport or "", output.parent)
        return Source(name, url, source, labels, label, sample, id_field)
    # `produce` sends the file's labels later, to their own topic, as in production.
    topic = labels or (f"{name}-labels" if label else None)
    url = relative(transport, output.parent) if transport else f"sqlite:{name}.db"
    return Source(name, url, name, topic, None, sample, id_field)


def _explain(
    source: str,
    records: Records,
    sampled: int,
    fields: Sequence[InferredField],
    label: str | None,
    labels: str | None,
    choice: ModelChoice,
    about_id: str | None,
) -> None:
    typer.echo(f"{source}: {counted(sampled, 'record')} sampled")
    width = max(len(field.name) for field in fields)
    for field in fields:
        typer.echo(f"  {field.name:<{width}}  {field.kind or 'left out':<11}  {field.about}")
    if about_id:
        typer.echo(about_id)
    if label:
        typer.echo(_label_line(label, records))
    elif not labels:
        typer.echo("no label: nothing will be learned; give --label FIELD or --labels TOPIC")
        likely = [f.name for f in fields if f.name.lower() in LIKELY_LABELS]
        if likely:
            typer.echo(f"if {likely[0]!r} is the label, give --label {likely[0]}")
    typer.echo(f"model {choice.model}: {choice.why}")
    for line in choice.scores:
        typer.echo(f"  {line}".rstrip())


def _label_line(label: str, records: Records) -> str:
    from stream.decision.risk import named

    found: list[Any] = [field_of(record, label) for record in records]
    values = [v for v in found if v is not None]
    counts = Counter(named(v) for v in values).most_common()
    shown = ", ".join(f"{value} {count}" for value, count in counts[:5])
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    none = len(records) - len(values)
    missing = f"; missing in {none:,} of {counted(len(records), 'record')}" if none else ""
    return f"label {label}: {counted(len(counts), 'class', 'classes')}: {shown}{more}{missing}"


def _next_steps(
    origin: Source, file: FileSource | None, label: str | None, output: Path, time_field: str | None
) -> list[str]:
    config = shlex.quote(str(output))
    check = f"headwater check {config} --create"
    run = f"headwater run {config}"
    if file is None:
        return [check, run]
    words = shlex.join([str(file), *flags(file)])
    produce = f"headwater produce {origin.observations} {words} --config {config}"
    if origin.id != ID:
        produce += f" --id-field {shlex.quote(origin.id)}"
    if label:
        produce += f" --label-topic {origin.labels} --label {shlex.quote(label)} --delay {DELAY}"
    stamped = f" --time-field {shlex.quote(time_field)}" if time_field else ""
    does = "learns" if label else "predicts nothing before a label is learned"
    see = "it learn" if label else "records arrive"
    if time_field:
        see += f"; records then have the present time, not that in {time_field}"
    return [
        f"{check}    # creates the topics",
        f"{produce}{stamped}    # all at once",
        f"{run}    # {does}, and waits for more records",
        f"{produce} --rate 50    # or this, in another terminal, to see {see}",
    ]
