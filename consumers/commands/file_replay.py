"""Replay a file through a shard, with one model or several: `headwater replay FILE`.

Rule: errors of the requested report are found before any work is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from consumers.commands.meter import Meter
from consumers.commands.source import Survey, say_unit, survey, types_of

if TYPE_CHECKING:
    from consumers.base.records import Batch, Outgoing
    from consumers.config import Config
    from consumers.files.source import FileSource
    from consumers.offline.columns import ColumnFeed
    from consumers.offline.feed import LateLabels
    from consumers.offline.plot import CurvePoint
    from consumers.offline.verify import FileVerifier
    from consumers.shard.shard import Outcome, Shard
    from consumers.shard.views import ShardView
    from stream.data.schema import Schema

__all__ = [
    "Entrants",
    "ModelFailedError",
    "ReplayOptions",
    "replay_file",
    "say",
    "verified",
]

LOOKED_AT = 500  # records whose fields are those of the file


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of a file replay.

    Parameters
    ----------
    source
        The records.
    label, delay, time_field, types, limit, reporter
        The options.
    report
        Where to write the report; None without one.
    verify
        Whether river's own loop repeats the replay.
    """

    source: FileSource
    label: str | None = None
    delay: str | None = None
    time_field: str | None = None
    types: Sequence[str] | None = None
    limit: int | None = None
    report: Path | None = None
    verify: bool = False
    reporter: str | None = None


@dataclass(frozen=True, slots=True)
class Entrants:
    """The models of `replay --compare`.

    Parameters
    ----------
    configs, names
        The configuration and the name of each, the champion first.
    lost
        The rows of the models that failed before.
    """

    configs: Sequence[Config]
    names: Sequence[str]
    lost: Sequence[Mapping[str, Any]]


class ModelFailedError(Exception):
    """One of the entrants could not be made, or failed at a record.

    Parameters
    ----------
    number
        Which one, the champion being 0.
    reason
        The error, in one line.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number, self.reason = number, reason


def replay_file(
    config: Config, asked: ReplayOptions, entrants: Entrants | None = None
) -> dict[str, Any]:
    """Replay a file and return the results as JSON values.

    Parameters
    ----------
    entrants
        The model of `config` and challengers instead of those of `config`.

    Raises
    ------
    ModelFailedError
        One of the entrants failed.
    """
    from consumers.base.errors import ConfigError
    from consumers.base.fields import TimeField, time_of
    from consumers.offline.evaluate import late_labels
    from consumers.offline.feed import LateLabels, parse_delay

    _check_outputs(asked, again=entrants is not None and bool(entrants.lost))
    if asked.verify and asked.reporter:
        raise ConfigError("--verify: river's loop knows no reporters; remove --reporter")
    delay = None if asked.delay is None else parse_delay(asked.delay)
    kinds = types_of(asked.types or (), asked.source)
    topic, id_field = config.input.observations, config.input.id
    verbatim = frozenset({id_field, "label", asked.label, asked.reporter, config.input.label})
    how = (verbatim, config.values.texts, config.files.marks, config.input.changes)
    feed = _Feed(asked.source, kinds, asked.limit, topic, id_field, asked.time_field, *how)
    say_unit(feed.records(), asked.time_field)
    fields = {name for record in islice(feed.records(), LOOKED_AT) for name in record}
    late = late_labels(
        config, label=asked.label, delay=delay, reporter=asked.reporter, fields=fields
    )
    feed = replace(feed, labels=late)
    inside = late or LateLabels("", str(config.input.label))
    plain = not (asked.verify or asked.reporter)
    tables, found = _first_reading(config, feed, inside, columns=plain)
    read: Callable[[], Iterable[Mapping[str, object]]] = feed.records
    if not found.in_order and (time_field := asked.time_field) is not None:
        # This needs all records in memory.
        ordered = sorted(read(), key=lambda record: time_of(record, time_field))
        read = partial(iter, ordered)

    schema = _schema(config, feed, read())
    shard = _shard(config, schema, feed) if entrants is None else _met(entrants, schema, feed)
    total = found.records + (found.labels if late is not None else 0)
    at = None if asked.time_field is None else TimeField.of(asked.time_field).name
    read_too = [name for name in (at, asked.label, asked.reporter) if name is not None]
    run = _Run(config, shard, total, asked.report is not None, entrants is not None, read_too)
    verifier = _verifier(config, shard, feed) if asked.verify else None
    lateness = asked.delay if isinstance(delay, timedelta) else delay or 0
    source = {"file": str(asked.source), "label": inside.field, "delay": lateness if late else None}
    note = None if verifier is None else verifier.note
    cut: Callable[[int], Iterator[Batch]]
    cut = tables.batches if tables is not None else partial(_cut, config, shard, feed, read)
    results = {"source": source, **run.through(cut, note)}
    if verifier is not None:
        twice = read(), feed.outgoing(read())
        results["verification"] = verified(verifier, *twice, shard.view(), found.records)
    if entrants is not None:
        results["challengers"] = [*_standings(shard, entrants.names), *entrants.lost]
        run.rename(entrants.names)
    _write_outputs(asked, results, run)
    return results


def _first_reading(
    config: Config, feed: _Feed, inside: LateLabels, *, columns: bool
) -> tuple[ColumnFeed | None, Survey]:
    """The records as columns, None if one of them has to be read as JSON; and their counts. Warns
    of declared fields that no record has."""
    tables = _tables(config, feed) if columns else None
    absent = set(config.features or ())
    found = None if tables is None else _surveyed(tables, absent)
    if found is None:
        tables, absent = None, set(config.features or ())
        records = _searched(feed.records(), absent)
        found = survey(records, str(feed.source), inside, feed.time_field, feed.id_field)
    for name in sorted(absent):
        say(
            f"warning: field {name!r} of [features] is in no record of {feed.source}; "
            "check its name"
        )
    return tables, found


def _tables(config: Config, feed: _Feed) -> ColumnFeed | None:
    """The columns of the files, if they have any and their fields are known."""
    tables, lines = feed.source.tables, feed.source.lines
    if (tables or lines) is None or config.parser or config.input.changes:
        return None  # the features are in the bytes of a field, or in the row of an event
    from consumers.base.errors import ConfigError
    from consumers.offline.columns import LineFeed, TableFeed

    try:
        schema = _schema(config, feed, feed.records())
    except ConfigError:
        return None  # the survey of the records finds the first error of the file
    options: dict[str, Any] = {
        "topic": feed.topic,
        "id_field": feed.id_field,
        "label_field": config.input.label,
        "labels": feed.labels,
        "time_field": feed.time_field,
        "limit": feed.limit,
    }
    if lines is not None:
        return LineFeed(lines, schema, **options)
    return None if tables is None else TableFeed(tables, schema, **options)


def _surveyed(tables: ColumnFeed, absent: set[str]) -> Survey | None:
    """The counts of tables, None if a record has to be read as JSON; removes from `absent` the
    fields that occur."""
    with Meter("records read") as meter:
        found = tables.survey(meter.advance)
    if found is None:
        return None
    absent -= found.fields
    return Survey(found.records, found.labels)


def _searched(
    records: Iterable[Mapping[str, object]], absent: set[str]
) -> Iterator[Mapping[str, object]]:
    """The same records; removes the fields that they have from `absent`."""
    from consumers.base.fields import field_of

    for record in records:
        if absent:
            absent -= {name for name in absent if field_of(record, name) is not None}
        yield record


def _verifier(config: Config, shard: Shard, feed: _Feed) -> FileVerifier:
    from consumers.offline.verify import FileVerifier, check_verifiable

    check_verifiable(config)
    return FileVerifier(shard, feed.topic, feed.labels)


def verified(
    verifier: FileVerifier,
    records: Iterable[Mapping[str, object]],
    outgoing: Iterable[Outgoing],
    view: ShardView,
    total: int,
    metered: bool = True,
) -> dict[str, Any]:
    """Have river's loop repeat a run; the result as JSON values.

    Parameters
    ----------
    records, outgoing, view
        See `FileVerifier.compare`.
    total
        The number of records.
    metered
        Whether progress is shown.
    """
    from consumers.offline.verify import verdict

    began = time.perf_counter()
    with Meter("records verified by river", total) as meter:
        progress = meter.advance if metered else lambda _: None
        found = verifier.compare(records, outgoing, view, progress)
    seconds = time.perf_counter() - began
    made = verdict(found, verifier.left_out(), len(view.challengers))
    return {**made, "seconds": seconds}


def _check_outputs(asked: ReplayOptions, *, again: bool) -> None:
    if asked.report is not None:
        from consumers.report import LACKING, check_report, drawn

        check_report(asked.report)
        if not (drawn() or again):
            say(f"note: {asked.report} will have no charts: {LACKING}")


def _write_outputs(asked: ReplayOptions, results: dict[str, Any], run: _Run) -> None:
    if asked.report is not None:
        from consumers.report import write_report

        write_report(asked.report, results, run.points)


@dataclass(frozen=True, slots=True)
class _Feed:
    """The first records of a file, as `produce` would write them."""

    source: FileSource
    kinds: Mapping[str, str]
    limit: int | None
    topic: str
    id_field: str
    time_field: str | None
    verbatim: Collection[str | None]
    missing: Collection[str]
    marks: Mapping[str, str]
    changes: Sequence[str] = ()
    labels: LateLabels | None = None

    def records(self) -> Iterator[dict[str, object]]:
        from consumers.offline.feed import rows_of

        missing, verbatim = self.missing, self.verbatim
        records = self.source.records(
            self.kinds, missing=missing, verbatim=verbatim, marks=self.marks
        )
        return islice(rows_of(records, self.changes), self.limit)

    def outgoing(self, records: Iterable[Mapping[str, object]]) -> Iterator[Outgoing]:
        from consumers.offline.feed import timed

        # From 0, not from now, so that the same file always gives the same bits.
        return timed(
            records,
            self.topic,
            start=0,
            time_field=self.time_field,
            id_field=self.id_field,
            labels=self.labels,
        )


def _shard(config: Config, schema: Schema, feed: _Feed) -> Shard:
    """The empty shard."""
    from consumers.offline.evaluate import file_shard

    return file_shard(config, schema, feed.labels)


def _met(entrants: Entrants, schema: Schema, feed: _Feed) -> Shard:
    """The empty shard of the first model, with the others as challengers "1", "2" and so on.

    Raises
    ------
    ModelFailedError
        One of them cannot be made.
    """
    from consumers.base.errors import HeadwaterError
    from consumers.config.learner import Trust
    from consumers.shard.challengers import ChallengerSet, challenger_block
    from stream.errors import StreamError

    number, blocks = 0, {}
    code = {(str(i), m) for i, each in enumerate(entrants.configs) for m in each.model.trust_python}
    try:
        alone = entrants.configs[0].model_copy(update={"challenger": ()})
        shard = _shard(alone, schema, feed)
        shard.spec = replace(shard.spec, trusted=Trust(code=frozenset(code)))
        for number, config in enumerate(entrants.configs[1:], 1):
            blocks[str(number)] = challenger_block(config.model)
            there = ChallengerSet(dict(blocks))
            there.imported(shard.spec.trusted, blocks)
            shard.set_challengers(there)
    except (HeadwaterError, StreamError) as error:
        type_ = entrants.configs[number].model.type
        raise ModelFailedError(number, str(error).split(f"{type_}: ", 1)[-1]) from None
    return shard


def _standings(shard: Shard, names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each model that did not fail."""
    from consumers.offline.evaluate import standings

    rows = zip(standings(shard.view()), names, strict=True)
    return [{**row, "name": name, "failed": None} for row, name in rows]


def _schema(config: Config, feed: _Feed, records: Iterable[Mapping[str, object]]) -> Schema:
    """The declared features; without any, those inferred from the first observations."""
    from consumers.config.sample import SAMPLE_SIZE
    from consumers.service.beginning import schema_from

    if config.declared_schema is not None:
        return config.declared_schema
    first = feed.outgoing(islice(records, SAMPLE_SIZE))
    return schema_from((r.value for r in first if r.topic == feed.topic), config)


def _cut(
    config: Config,
    shard: Shard,
    feed: _Feed,
    read: Callable[[], Iterable[Mapping[str, object]]],
    size: int,
) -> Iterator[Batch]:
    """The records as JSON, in batches of `size`."""
    from consumers.offline.evaluate import batches

    labels = sorted(shard.spec.label_topics)
    outgoing = feed.outgoing(read())
    return batches(outgoing, config.input.observations, labels, size, config.commit.most_bytes())


@dataclass(slots=True)
class _Run:
    """A shard during a replay; it collects the points of a curve if `drawn`. The error of a model
    is a `ModelFailedError` if it is `compared`. `others`: fields that are read although they are
    not declared."""

    config: Config
    shard: Shard
    total: int
    drawn: bool
    compared: bool = False
    others: Collection[str] = ()
    points: list[CurvePoint] = field(default_factory=list)

    def through(
        self,
        cut: Callable[[int], Iterator[Batch]],
        note: Callable[[Outcome], None] | None = None,
    ) -> dict[str, Any]:
        """Process the whole feed; returns the results. `cut` returns its batches of a given size,
        `note` gets each outcome."""
        import msgspec

        from consumers.codecs.account import FieldAccount, names_of
        from consumers.offline import plot
        from consumers.offline.evaluate import fingerprint_of, report
        from consumers.service.warm_up import compile_kernels
        from consumers.telemetry.field_lines import field_lines

        config, shard = self.config, self.shard
        compile_kernels(config, say)
        size = config.commit.usual_records
        apart = -(-self.total // plot.POINTS)
        if self.drawn:
            size = min(size, apart)
        details: dict[str, dict[str, Any]] = {}
        account = FieldAccount(names_of(shard.spec.schema))
        records = looked = 0
        began = time.perf_counter()
        with Meter("records replayed", self.total) as meter:
            for batch in cut(size):
                # The clock of a file is its newest record, as in consumers.offline.evaluate.
                outcome = self._processed(batch)
                _note(details, outcome)
                account.add(outcome.seen.tally(account.counted))
                if note is not None:
                    note(outcome)
                records += len(batch)
                meter.advance(len(batch))
                if self.drawn and (records - looked >= apart or records == self.total):
                    looked = records
                    self.points.append(plot.point(shard.view()))
        seconds = time.perf_counter() - began
        mark = fingerprint_of(shard)
        results = report(shard.view(), replayed=records, seconds=seconds, fingerprint=mark)
        results["fields"] = msgspec.to_builtins(account.view())
        results["fields_in_words"] = field_lines(account.view(), self.others)
        return {**results, "dead_letter_details": details}

    def _processed(self, batch: Batch) -> Outcome:
        from consumers.shard.batches import Commit

        commit = Commit(drift=self.shard.drift_change)  # None after the first batch
        try:
            return self.shard.process(batch, int(batch.timestamps.max()), commit)
        except Exception as error:
            failed = self.shard.running
            if failed is None or not self.compared:
                raise
            raise ModelFailedError(int(failed or 0), _reason(error)) from error

    def rename(self, names: Sequence[str]) -> None:
        """Rename the models, the champion first."""
        self.points = [
            p._replace(challengers=dict(zip(names[1:], p.challengers.values(), strict=True)))
            for p in self.points
        ]


def _note(details: dict[str, dict[str, Any]], outcome: Outcome) -> None:
    """Keep the detail and the position of the first dead letter of each reason."""
    for record, error, _ in outcome.bad():
        if error.reason not in details:
            place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            details[error.reason] = {"detail": error.detail, **place}


def _reason(error: Exception) -> str:
    from stream.errors import StreamError

    text = " ".join(str(error).split())
    return text if isinstance(error, StreamError) else f"{type(error).__name__}: {text}"


def say(line: str) -> None:
    """Print a line for the user on stderr."""
    typer.echo(line, err=True)
