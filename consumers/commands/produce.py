"""`headwater produce`: write a file to a topic, and its labels later to another topic.

Rule: the whole file is read once before anything is written, so that a damaged file writes nothing
to the log. Then it is read again and written in chunks, in the order of time. Standard input is
written when it arrives (`produce_pipe`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.base.errors import ConfigError
from consumers.commands.meter import Meter
from consumers.commands.source import (
    ColumnsOption,
    DecimalOption,
    EncodingOption,
    FormatOption,
    QuoteOption,
    SepOption,
    Survey,
    opened,
    pipe_of,
    say_unit,
    survey,
    types_of,
)
from consumers.commands.transport import ConfigOption, TransportOption, open_chosen
from consumers.commands.wire import in_format, in_messages, register, send, translator_of
from consumers.transports.registry import transport_of

if TYPE_CHECKING:
    from consumers.base.records import Outgoing
    from consumers.commands.used import UsedFields
    from consumers.config import Config
    from consumers.config.input import InputConfig
    from consumers.files.pipe import Pipe
    from consumers.files.source import FileSource
    from consumers.offline.feed import LateLabels, ReporterField
    from consumers.schemas.translate import Translator
    from consumers.transports.protocol import Log

__all__ = ["produce"]

MESSAGE_ROWS = 1_000  # the default message of Kafka has 1 MiB: 1 kB for each

Rate = Annotated[
    float | None, typer.Option("--rate", metavar="R", help="Observations per second, in real time.")
]
LabelTopic = Annotated[
    str | None, typer.Option("--label-topic", metavar="T", help="Send the labels here, later.")
]
LabelField = Annotated[
    str | None, typer.Option("--label", metavar="FIELD", help="Field that holds the label.")
]
ReporterOption = Annotated[
    str | None, typer.Option("--reporter", metavar="FIELD", help="Field with who gave the label.")
]
Delay = Annotated[
    str, typer.Option("--delay", metavar="N|DURATION", help="Label delay: 50 (records), 90s, 7d.")
]
TimeField = Annotated[
    str | None,
    typer.Option(
        "--time-field", metavar="F", help="Field with the time; at:us names its unit too."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--types", metavar="F=KIND", help="Kind of a CSV column; may be repeated."),
]
IdField = Annotated[
    str | None,
    typer.Option(
        "--id-field", metavar="F", help="Field with the id [CONFIG's, or id]; numbered if absent."
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option("--partitions", metavar="N", min=1, help="Partitions of created topics (1)."),
]
AnyTopic = Annotated[
    bool, typer.Option("--any-topic", help="Allow topics that CONFIG does not read.")
]
Create = Annotated[bool, typer.Option("--create", help="Create missing topics on Kafka too.")]
FileArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="File, directory, quoted pattern, URL, or - for stdin."),
]
Register = Annotated[
    list[str] | None,
    typer.Option(
        "--register",
        metavar="[TOPIC=]FILE",
        help="Register the schema in FILE first; may be repeated.",
    ),
]
InEnvelopes = Annotated[
    bool, typer.Option("--envelope", help="Stdin has the lines of `tail --envelope`.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE",
        help="Store the positions of `tail --resume FILE --no-advance` after each write.",
    ),
]


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to write to.")],
    file: FileArgument,
    transport: TransportOption = None,
    config: ConfigOption = None,
    rate: Rate = None,
    label_topic: LabelTopic = None,
    label: LabelField = None,
    reporter: ReporterOption = None,
    delay: Delay = "0",
    time_field: TimeField = None,
    types: Types = None,
    file_format: FormatOption = None,
    sep: SepOption = None,
    encoding: EncodingOption = None,
    quote: QuoteOption = None,
    columns: ColumnsOption = None,
    decimal: DecimalOption = None,
    id_field: IdField = None,
    partitions: Partitions = None,
    any_topic: AnyTopic = False,
    create: Create = False,
    register_schema: Register = None,
    envelope: InEnvelopes = False,
    resume: Resume = None,
) -> None:
    """Write the records of a file to a topic, and their labels later to another.

    The key of an observation is its id. Timestamps are 1 ms apart and end now; with --rate they
    are the present time, with --time-field the file's times. From stdin (-), JSON lines by default,
    records are written as they arrive. CONFIG's [input] has their format and registered schema.

    The first rows decide how a CSV is read. The kinds for --types are numeric, binary, categorical,
    text. CONFIG's [values] missing lists the missing values. Records without an id are numbered,
    starting at the number of records in the topic.
    If TOPIC is the one of CONFIG's labels, the file holds labels: each record needs the id of its
    observation and a label, in the fields id and label or those of --id-field and --label. A field
    that has the name of CONFIG's [labels] reporter is kept; --reporter names another one.

    \b
    Examples:
      headwater produce visits visits.jsonl --transport sqlite:feed.db
      headwater produce outcomes labels.csv --config visits.toml --id-field visit --label bought
      headwater produce visits visits.csv.gz --config visits.toml \\
          --label-topic outcomes --label bought --delay 50 --types zip=categorical
      tail -f visits.jsonl | headwater produce visits - --config visits.toml
    """
    pipe = pipe_of(file, rate=rate, delay=delay, envelope=envelope, resume=resume)
    place = file if pipe is None else pipe.file
    source = opened(place, file_format, sep, encoding, quote, columns, decimal)
    kinds = types_of(types or [], source)
    settings = _settings(config) if transport is None else None
    read = None if settings is None else settings.input
    who = _reporter(settings, reporter)
    alone = _alone(read, topic, label_topic, label, id_field, who)
    beside = (label, who if reporter else None) if alone is None else (None, None)
    late = _late_labels(topic, label_topic, delay, *beside)
    name, wire = _id_field(read, topic, id_field, alone), translator_of(settings)
    feed = RecordsToWrite(source, kinds, topic, late, name, time_field, settings, alone, wire)
    _check_times(rate, time_field, late, envelope=envelope)
    _compare(config, None if any_topic else read, topic, label_topic)
    register(wire, feed.topics, register_schema or [])
    found, (url, log) = (survey_of(feed) if pipe is None else None), open_chosen(transport, config)
    with closing(log):
        make_topics(log, url, feed.topics, partitions, create=create)
        if found is not None:
            write(log, feed, found, rate)
        elif pipe is not None:
            _pour(log, feed, pipe, envelope=envelope, resume=resume)


def _check_times(
    rate: float | None, time_field: str | None, late: LateLabels | None, *, envelope: bool
) -> None:
    if rate is not None and not 0 < rate < 1e9:
        raise ConfigError(f"expected --rate above 0, got {rate:g}")
    if rate is not None and time_field is not None:
        raise ConfigError("--rate takes the present time, --time-field the file's; give one")
    if envelope and (late or time_field):
        raise ConfigError("--envelope keeps records as they are; remove the other options")


def _alone(
    read: InputConfig | None,
    topic: str,
    label_topic: str | None,
    label: str | None,
    id_field: str | None,
    reporter: ReporterField | None,
) -> LabelsAlone | None:
    """Where the file has labels, if it has labels only."""
    if read is None or topic != read.labels or label_topic is not None:
        return None
    return LabelsAlone(label, (id_field,) if id_field else ("id", read.id), reporter)


def _id_field(
    read: InputConfig | None, topic: str, given: str | None, alone: LabelsAlone | None
) -> str:
    """The field with the id: labels with another id than the service reads would be lost."""
    if alone is not None:
        return "id"
    if given is not None:
        return given
    return read.id if read is not None and read.observations == topic else "id"


@dataclass(frozen=True, slots=True)
class LabelsAlone:
    """Where a file of labels without observations has the label and the id: names of fields.

    `label`: None is `label`. `ids`: the first one that a record has.
    """

    label: str | None
    ids: tuple[str, ...]
    reporter: ReporterField | None = None


@dataclass(frozen=True, slots=True)
class RecordsToWrite:
    """The records to write, read from the files again each time.

    `settings` is the configuration that says where labels are and which texts are missing values.
    With `alone` the records are labels.
    """

    source: FileSource
    kinds: Mapping[str, str]
    topic: str
    labels: LateLabels | None
    id_field: str
    time_field: str | None
    settings: Config | None = None
    alone: LabelsAlone | None = None
    translator: Translator | None = None

    @property
    def kind(self) -> str:
        """What the records are, in the singular."""
        return "observation" if self.alone is None else "label"

    @property
    def changes(self) -> tuple[str, ...]:
        """The operations of change events whose rows are the records; () without them."""
        return () if self.settings is None else self.settings.input.changes

    @property
    def most_rows(self) -> int:
        """How many observations are written as one message, where messages have rows."""
        limit = MESSAGE_ROWS if self.settings is None else self.settings.commit.usual_records
        return min(MESSAGE_ROWS, limit)

    def count(self, record: Outgoing) -> int:
        """How many of the records are in one record of the log."""
        if self.translator is None:
            return 1
        return self.translator.count(record.topic, record.value)

    @property
    def topics(self) -> list[str]:
        """Topic of the observations, then that of the labels if there is one."""
        return [self.topic] if self.labels is None else [self.topic, self.labels.topic]

    @property
    def _declared(self) -> frozenset[str]:
        """The declared fields of these records."""
        settings, of = self.settings, self.topic
        if settings is None or settings.input.observations != of or self.alone is not None:
            return frozenset()
        return frozenset(settings.features or ())

    def records(self, used: UsedFields | None = None) -> Iterator[Mapping[str, object]]:
        """The records in the order of the file. `used` looks at their fields."""
        from consumers.base.fields import MISSING
        from consumers.offline.feed import label_records, rows_of

        settings, late = self.settings, None if self.labels is None else self.labels.field
        inside = None if settings is None else settings.input.label
        alone = self.alone or LabelsAlone(
            None, (), None if self.labels is None else self.labels.reporter
        )
        who = alone.reporter and alone.reporter.inside
        records = self.source.records(
            self.kinds,
            missing=MISSING if settings is None else settings.values.texts,
            # `label` is the field of a label record, which a file may hold too.
            verbatim={self.id_field, "label", inside, late, who, alone.label, *alone.ids},
            marks=None if settings is None else settings.files.marks,
            declared=self._declared,
        )
        records = rows_of(records, self.changes)
        found = records if used is None else used.passed(records)
        if self.alone is None:
            return found
        return label_records(
            found,
            str(self.source),
            label=alone.label,
            ids=alone.ids,
            time_field=self.time_field,
            reporter=alone.reporter,
        )


def survey_of(feed: RecordsToWrite) -> Survey:
    """The survey of the records to write, each of which fits its schema."""
    say_unit(feed.records(), feed.time_field)
    found = survey(feed.records(), str(feed.source), feed.labels, feed.time_field, feed.id_field)
    if feed.translator is not None:
        _check_schema(feed)
    return found


def _check_schema(feed: RecordsToWrite) -> None:
    """Encode every record once, so that one that does not fit is found before any is written."""
    from consumers.offline.feed import as_events, timed

    records = timed(feed.records(), feed.topic, start=0, id_field=feed.id_field, labels=feed.labels)
    records = as_events(records, feed.changes)
    with Meter("records encoded") as meter:
        for message in in_messages(feed.translator, records, 1, feed.most_rows):
            meter.advance(feed.count(message))


def write(log: Log, feed: RecordsToWrite, found: Survey, rate: float | None) -> None:
    """Write all records, then report the counts, also after Ctrl-C."""
    from consumers.base.fields import time_of
    from consumers.offline.feed import as_events, due_seconds, step_ms, timed, trailing_labels

    used = _used(feed)
    records: Iterable[Mapping[str, object]] = feed.records(used)
    if not found.in_order and feed.time_field is not None:
        name = feed.time_field  # this needs all records in memory
        records = sorted(records, key=lambda record: time_of(record, name))
    first = _held(log, feed.topic) if found.without_id else 0
    start = time.time_ns() // 1_000_000
    if rate is None:
        start -= found.records + trailing_labels(found.records, feed.labels)
    outgoing = timed(
        records,
        feed.topic,
        start=start,
        step_ms=step_ms(rate),
        time_field=feed.time_field,
        id_field=feed.id_field,
        first_id=first,
        labels=feed.labels,
        ahead=True,
    )
    kind = feed.kind
    began = time.monotonic()
    counts = dict.fromkeys(feed.topics, 0)

    def wrote(chunk: list[Outgoing]) -> None:
        rows = Counter(record.topic for record in chunk)
        if feed.translator is not None:
            rows = Counter()
            for record in chunk:
                rows[record.topic] += feed.count(record)
        for topic, count in rows.items():
            counts[topic] += count
        meter.advance(rows.total())

    try:
        with Meter("records written", found.records + found.labels) as meter:
            pace = None if rate is None else due_seconds(start, rate)
            count = log.topics()[feed.topic]
            events = as_events(outgoing, feed.changes)
            messages = in_messages(feed.translator, events, count, feed.most_rows)
            send(log, messages, pace=pace, wrote=wrote)
    except KeyboardInterrupt:
        typer.echo(f"stopped: {_summary(counts, kind)}")
        raise
    typer.echo(f"{_summary(counts, kind)} in {time.monotonic() - began:.1f} s")
    if found.without_id:
        typer.echo(_made_ids(found, feed.id_field, first))
    for line in used.lines():
        typer.echo(line)


def _used(feed: RecordsToWrite) -> UsedFields:
    """Says what the service of the configuration does not use of the first records."""
    from consumers.base.fields import TimeField
    from consumers.commands.used import UsedFields

    settings, late, alone = feed.settings, feed.labels, feed.alone
    times = set() if feed.time_field is None else {TimeField.of(feed.time_field).name}
    if alone is not None:
        who = set() if alone.reporter is None else {alone.reporter.inside}
        return UsedFields(settings, labels={alone.label or "label", *alone.ids, "w"} | who | times)
    read = settings if settings and feed.topic == settings.input.observations else None
    return UsedFields(read, {feed.id_field} | times | (set() if late is None else {late.field}))


def _pour(
    log: Log, feed: RecordsToWrite, pipe: Pipe, *, envelope: bool, resume: Path | None
) -> None:
    """Write the records of stdin when they arrive, then report the counts, whatever ended it."""
    from consumers.base.fields import field_of
    from consumers.commands.produce_pipe import moments, pour, unwrapped
    from consumers.offline.feed import as_events, timed
    from consumers.transports.positions import Positions

    found, counts, used = Survey(), dict.fromkeys(feed.topics, 0), _used(feed)
    kept = None
    if resume is not None:
        pipe.begin()  # `tail` creates the file of positions before its first line
        kept = Positions.read(resume)

    def wrote(chunk: list[Outgoing]) -> None:
        for record in chunk:
            counts[record.topic] += 1
        meter.advance(len(chunk))

    def counted() -> Iterator[Mapping[str, object]]:
        for record in feed.records(used):
            found.records += 1
            found.without_id += field_of(record, feed.id_field) is None
            yield record

    first, began = _held(log, feed.topic), time.monotonic()
    records: Iterable[tuple[Outgoing, tuple[int, int] | None]]
    if envelope:
        lines = used.passed(feed.source.records(), inside="value")
        records = unwrapped(lines, feed.topic, feed.id_field, kept, feed.translator)
    else:
        plain = timed(
            counted(),
            feed.topic,
            start=0,
            id_field=feed.id_field,
            first_id=first,
            labels=feed.labels,
            moment=moments(feed.time_field),
        )
        events = as_events(plain, feed.changes)
        records = ((record, None) for record in in_format(feed.translator, events))
    try:
        with Meter("records written") as meter:
            ended = pour(log, pipe, iter(records), wrote, kept)
    except BaseException:
        typer.echo(f"stopped: {_summary(counts, feed.kind)}")
        raise
    if ended:
        typer.echo(f"stopped: {_summary(counts, feed.kind)}")
    else:
        typer.echo(f"{_summary(counts, feed.kind)} in {time.monotonic() - began:.1f} s")
    if found.without_id:
        typer.echo(_made_ids(found, feed.id_field, first))
    for line in used.lines():
        typer.echo(line)
    if ended:
        raise typer.Exit(128 + ended)


def _held(log: Log, topic: str) -> int:
    """The number of records a topic has had: no earlier record has this number as its id."""
    from consumers.base.records import Partition

    ends = log.end_offsets([Partition(topic, n) for n in range(log.topics()[topic])])
    return sum(ends.values())


def _made_ids(found: Survey, name: str, first: int) -> str:
    """The ids that were assigned, because nothing else shows them."""
    if found.without_id < found.records:
        some = f"no field {name!r} in {found.without_id:,} of {found.records:,} records"
        return f"{some}: their ids are record numbers from {first} on"
    last = first + found.records - 1
    made = f"id {first}" if first == last else f"ids {first} to {last}"
    return f"no field {name!r}: {made} assigned; --id-field uses another field"


def _settings(config: Path | None) -> Config | None:
    from consumers.config import load

    return None if config is None else load(config)


def _compare(
    config: Path | None, read: InputConfig | None, topic: str, label_topic: str | None
) -> None:
    """Check that the configuration reads these topics; labels can also be produced alone. None: any
    topic will do.

    Raises
    ------
    ConfigError
        It does not read one of them: probably a typo, which would create an unused topic.
    """
    if read is None or (topic == read.labels and label_topic is None):
        return
    pairs: list[tuple[str, str, str | None]] = [("observations", topic, read.observations)]
    if label_topic is not None:
        pairs.append(("labels", label_topic, read.labels))
    wrong = [
        f"{came!r} (its [input] {key} is {repr(expected) if expected else 'not set'})"
        for key, came, expected in pairs
        if came != expected
    ]
    if wrong:
        raise ConfigError(
            f"{config} does not read {' and '.join(wrong)}; correct the name, or give --any-topic; "
            "nothing was written"
        )


def _reporter(settings: Config | None, given: str | None) -> ReporterField | None:
    """Where a file names who gave a label, and the field of the label record.

    Raises
    ------
    ConfigError
        A field is given, and the service would not read it.
    """
    from consumers.offline.feed import ReporterField

    named = None if settings is None else settings.labels.reporter
    if given is None:
        return None if named is None else ReporterField(named, named)
    if settings is not None and named is None:
        raise ConfigError(
            "--reporter: [labels] reporter is not set, so the service would not read it; set it, "
            "or remove --reporter"
        )
    return ReporterField(given, named or ReporterField(given).named)


def _late_labels(
    topic: str,
    label_topic: str | None,
    delayed: str,
    label: str | None,
    reporter: ReporterField | None,
) -> LateLabels | None:
    from consumers.offline.feed import LateLabels, parse_delay

    delay = parse_delay(delayed)
    if label_topic is None and label is None and not delay and reporter is None:
        return None
    if label_topic is None or label is None:
        raise ConfigError(
            "labels need --label-topic T and --label FIELD; give both, or produce labels alone: "
            "TOPIC is that of the labels in --config CONFIG, without --delay"
        )
    if label_topic == topic:
        raise ConfigError(f"observations and labels both go to {topic!r}; give each a topic")
    return LateLabels(label_topic, label, delay, reporter)


def make_topics(
    log: Log, url: str, topics: list[str], partitions: int | None, *, create: bool
) -> None:
    """Create missing topics; on a transport where an operator does so, only if `create`.

    Raises
    ------
    ConfigError
        One is missing and `create` is off, or has another number of partitions than given.
    """
    have = log.topics()
    for topic in topics:
        count = have.get(topic)
        if count is None and not create and not transport_of(url).creates_topics:
            raise ConfigError(f"{url} has no topic {topic!r}; create it, or give --create")
        if count is not None and partitions not in (None, count):
            raise ConfigError(
                f"topic {topic!r} has {count} partitions, got --partitions {partitions}; remove it"
            )
    for topic in topics:
        if topic not in have:
            log.create_topic(topic, partitions or 1)


def _summary(counts: Mapping[str, int], kind: str) -> str:
    kinds = zip((kind, "label"), counts.items(), strict=False)
    return ", ".join(
        f"{count:,} {kind}{'' if count == 1 else 's'} to {topic}" for kind, (topic, count) in kinds
    )
