"""The settings of a shard, and the outcome of a batch: the records to write.

Nothing here depends on the wall clock, so a repeated batch gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from operator import itemgetter
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import RecordError
from consumers.base.missing import MISSING
from consumers.base.records import (
    Batch,
    Header,
    Outgoing,
    OutgoingColumns,
    Partition,
    Record,
)
from consumers.codecs.changes import ChangeEvents
from consumers.codecs.format import Document
from consumers.codecs.framing import FramedDocuments
from consumers.codecs.json import (
    JsonLabels,
    JsonObservations,
)
from consumers.codecs.mail_field import MailField
from consumers.codecs.prediction_block import PredictionBlock, encoded_block
from consumers.codecs.predictions import PredictionEncoder
from consumers.codecs.raw import JsonDocuments, RawDocuments, reading, refused
from consumers.codecs.registry import prediction_writer, wire_format
from consumers.codecs.rows import ByRow
from consumers.codecs.schemas import SchemaBook
from consumers.config.auto import DEFAULTS, Defaults
from consumers.config.learner import Trust
from consumers.mail.later import ignored_in
from consumers.shard.batches import record_of
from consumers.shard.cloudevents import event_headers
from consumers.shard.views import DriftAlarm, FieldCheck, Promoted
from stream.data.schema import Label, Schema
from stream.decision import BayesDecision, Budget, Decisions
from stream.decision.budget import decisions
from stream.drift import DriftRule
from stream.evaluate.progressive import Result
from stream.evaluate.quality import LAST
from stream.join.join import DAY_MS, UNBOUNDED, LabelJoin
from stream.join.reported import ReportedJoin
from stream.join.reporters import ReporterRules
from stream.join.silence import Silence

NOBODY = Trust()

__all__ = [
    "EarlyLabel",
    "Outcome",
    "OutputShape",
    "ShardSpec",
]

PREDICTION_BYTES = 1024  # ids, names, position, headers of a dead letter
CLASS_BYTES = 32  # per class: posteriors, and arrays to sort and score them
PAIR_BYTES = 64  # per label or feature in a prediction, without its name


class EarlyLabel(NamedTuple):
    """An early label that was refused when its observation arrived: index of the observation in the
    batch, the record of the label, and the reason."""

    at: int
    record: Record
    error: RecordError


class BadRecord(NamedTuple):
    """A record that becomes a dead letter, and why. `row`: the index of a row in its message."""

    record: Record
    error: RecordError
    row: int | None = None


class OutputShape(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings that decide bytes and topic of outputs, except those that the model depends on.

    The configuration may change them at any start, so each change is journaled. `cut` is how many
    bytes of the original record a dead letter keeps at most, `version` the version of the code,
    `losses` and `reject` are those of [decision], `budget` has label and rate of its
    `max_false_positive_rate`, `doubt` its `min_learned` and `unsure` if one is set, `flagged_from`
    its `min_probability`, `schema` is the id of the registered schema of predictions, and with
    `events` predictions have the headers of CloudEvents.
    """

    predictions: str
    dead_letters: str
    partitions: int
    top: int
    version: str = ""
    explain: int = 0
    cut: int | None = None
    losses: dict[str, dict[str, float]] | None = None
    reject: float | None = None
    budget: tuple[str, float] | None = None
    schema: int = 0
    events: bool = False
    doubt: tuple[int, float | None] | None = None
    flagged_from: float = 0.0

    @property
    def text(self) -> bytes:
        """The settings in one line, for comparison: the order of losses counts."""
        return msgspec.json.encode(self)

    @property
    def rule(self) -> Budget | None:
        """The budget of false positives; None without one."""
        if self.budget is None:
            return None
        return Budget(*self.budget, *(self.doubt or (0, None)), self.flagged_from)


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """The settings of a shard.

    Parameters
    ----------
    name, model, number
        The service, the model's type, the shard's number.
    schema
        The features.
    id_field, label_field
        Fields of an observation.
    label_topics
        Topics whose records are labels.
    predictions, dead_letters
        Output topics.
    predictions_partitions
        How many partitions the predictions topic has.
    top
        How many classes a prediction shows.
    explain
        How many features a prediction explains; 0: no explanation.
    largest_dead_letter
        Bytes of the original record that a dead letter keeps at most; None: all.
    max_pending, max_pending_bytes, horizon, max_classes, corrections, silence
        Parameters of the join.
    reporter_field, reporters
        The field of a label record that names its reporter, and the settings about reporters;
        None: all labels count alike.
    defaults
        Those with which the journal began.
    missing
        Texts that mean "no value" in a numeric or binary field.
    as_text
        Numeric fields in which a text that is a number stands for it.
    changes, skip_tombstones
        The operations of change events whose rows are records, if records are change events; and
        whether records without a value are ignored.
    keep_bad
        Whether a value that cannot be used is taken as missing.
    max_dead_letter_ratio
        Limit of the breaker.
    version
        Version of the code, for the headers of dead letters.
    decision
        The decision rule; None: no decisions.
    budget
        The budget of false positives; None: no budget. `decision` is None then.
    window
        Recent scores cover this many records.
    trusted
        Challengers whose state may be loaded from a pickle, or whose code may be imported.
    drift
        The drift rule.
    wire
        The wire format of all records.
    reader_schema
        The schema to which observations are converted; None: each keeps its own.
    mail_field
        The field of a JSON observation that holds a mail in base64.
    parser
        Name to version of what parses the records; empty if nothing does.
    predictions_schema
        The id of the registered schema of predictions; 0: the format has none.
    cloudevents
        Whether predictions have the headers of CloudEvents.
    imported
        Where the model comes from with which it began, and how many labels it had learned; empty:
        it began with an empty one.
    mixes
        How many shards mix what they have learned; 0: each learns alone.
    max_rows
        How many rows a message has at most, if the wire format has such messages.
    """

    name: str
    model: str
    schema: Schema
    id_field: str
    label_field: str | None
    label_topics: Collection[str]
    predictions: str
    dead_letters: str
    predictions_partitions: int = 1
    number: int = 0
    top: int = 10
    explain: int = 0
    largest_dead_letter: int | None = None
    max_pending: int = 100_000
    max_pending_bytes: int = UNBOUNDED
    horizon: int = 7 * DAY_MS
    max_classes: int = 256
    corrections: bool = False
    silence: Silence | None = None
    reporter_field: str | None = None
    reporters: ReporterRules | None = None
    defaults: Defaults = DEFAULTS
    missing: Collection[str] = MISSING
    as_text: Collection[str] = ()
    changes: Collection[str] = ()
    skip_tombstones: bool = False
    keep_bad: bool = False
    max_dead_letter_ratio: float = 1.0
    version: str = ""
    decision: BayesDecision | None = None
    budget: Budget | None = None
    window: int = LAST
    trusted: Trust = NOBODY
    drift: DriftRule = field(default_factory=DriftRule)
    wire: str = "json"
    reader_schema: str | None = None
    mail_field: str | None = None
    parser: Mapping[str, str] = field(default_factory=dict)
    predictions_schema: int = 0
    cloudevents: bool = False
    imported: tuple[str, int] = ("", 0)
    max_rows: int = 0
    mixes: int = 0

    def decoder(self, schemas: SchemaBook | None = None) -> JsonObservations:
        """A decoder of observations: in the wire format with these schemas, or without schemas in
        the JSON of requests and files."""
        identified = None if schemas is None else wire_format(self.wire).identified
        return self._decoder(self._observations(schemas), identified)

    def by_row(self, labels: JsonLabels) -> ByRow:
        """Makes records of the rows of messages, if the wire format has such messages."""
        rows = wire_format(self.wire).rows
        reader = None if rows is None else rows.reader(self._decoder(lambda document: document))
        return ByRow(reader, labels, self.label_topics, self.schema)

    def _decoder(
        self,
        documents: Callable[[Any], Document] | None,
        identified: Callable[[bytes], str] | None = None,
    ) -> JsonObservations:
        return JsonObservations(
            self.schema,
            self.id_field,
            self.label_field,
            self.missing,
            keep=self.keep_bad,
            documents=documents,
            identified=identified,
            as_text=self.as_text,
        )

    def label_decoder(self, schemas: SchemaBook) -> JsonLabels:
        """A decoder of label records in the wire format, with these schemas."""
        documents = self._documents(schemas, None)
        if self.changes:
            return JsonLabels(ChangeEvents(self.changes, documents), self.reporter_field)
        return JsonLabels(documents, self.reporter_field)

    def join(self) -> LabelJoin:
        """The empty join."""
        bounds = (
            self.max_pending,
            self.horizon,
            self.max_classes,
            self.corrections,
            self.max_pending_bytes,
            self.silence,
        )
        if self.reporters is None:
            return LabelJoin(*bounds)
        return ReportedJoin(self.reporters, *bounds)

    def _observations(
        self, schemas: SchemaBook | None
    ) -> Callable[[bytes | None], Document] | None:
        wire = wire_format(self.wire)
        parsed = wire_format("mail") if self.mail_field is not None else wire
        if self.parser and (refuse := refused(self.parser, parsed.versions())) is not None:
            return refuse
        if self.mail_field is not None:
            return MailField(self.mail_field, ignored_in(self.parser))
        if wire.fields is None:
            documents = self._documents(schemas, self.reader_schema)
            if self.changes and schemas is not None:
                return ChangeEvents(self.changes, documents)
            return documents
        wire = reading(wire, self.parser)
        return JsonDocuments(wire) if schemas is None else RawDocuments(wire)

    def _documents(
        self, schemas: SchemaBook | None, reader_schema: str | None
    ) -> FramedDocuments | None:
        wire = wire_format(self.wire)
        if schemas is None or not wire.schema_type:
            return None
        return FramedDocuments(wire, schemas, reader_schema)

    @property
    def shape(self) -> OutputShape:
        """The present settings of outputs."""
        rule = self.decision
        return OutputShape(
            self.predictions,
            self.dead_letters,
            self.predictions_partitions,
            self.top,
            self.version,
            self.explain,
            self.largest_dead_letter,
            None if rule is None else msgspec.to_builtins(rule.losses, str_keys=True),
            None if rule is None else rule.reject_loss,
            None if self.budget is None else (self.budget.label, float(self.budget.rate)),
            self.predictions_schema,
            self.cloudevents,
            _doubt(self.budget),
            0.0 if self.budget is None else float(self.budget.min_probability),
        )

    def prediction_bytes(self, labels: Sequence[Label], models: int) -> int:
        """Largest size of a prediction by so many models, in memory or on the wire, without texts
        of its own record."""
        each = PREDICTION_BYTES + CLASS_BYTES * len(labels) * models
        if labels:
            longest = max(len(str(label).encode()) for label in labels)
            each += min(self.top, len(labels)) * (longest + PAIR_BYTES)
        if self.explain:  # a token is a text of its own record, so it is not counted
            longest = max((len(f.name.encode()) for f in self.schema.fields), default=0)
            each += self.explain * (longest + PAIR_BYTES)
        return each

    def shaped(self, shape: OutputShape | None) -> ShardSpec:
        """The same settings with outputs of this shape; None: the present shape.

        A limit for dead letters that the topic has since required always applies.
        """
        if shape is None:
            return self
        rule = None
        if shape.losses is not None or shape.reject is not None:
            losses = cast("Mapping[Label, Mapping[Label, float]] | None", shape.losses)
            rule = BayesDecision(losses, shape.reject)
        cut = shape.cut if self.largest_dead_letter is None else self.largest_dead_letter
        return replace(
            self,
            predictions=shape.predictions,
            dead_letters=shape.dead_letters,
            predictions_partitions=shape.partitions,
            top=shape.top,
            version=shape.version,
            explain=shape.explain,
            largest_dead_letter=cut,
            decision=rule,
            budget=shape.rule,
            predictions_schema=shape.schema,
            cloudevents=shape.events,
        )


def _doubt(budget: Budget | None) -> tuple[int, float | None] | None:
    """`min_learned` and `unsure`; None for the defaults."""
    doubt = None if budget is None else (budget.min_learned, budget.unsure)
    return None if doubt == (0, None) else doubt


@dataclass(slots=True)
class Outcome:
    """The outcome of a batch.

    Parameters
    ----------
    batch, result
        The input, and the results of the model.
    observed
        int64: index in the batch of each predicted observation, in order.
    ids
        The id of each.
    learned_before
        How many labels had been learned before the first step.
    rejected
        Index in the batch to the reason why that record is a dead letter.
    labels
        Label outcome to how many this batch added.
    digest
        64-bit hash of all predictions, scores and alarms.
    types
        Challenger to its type.
    alarms
        Drift alarms.
    promoted
        Promotions, in order.
    early
        Refused early labels, with their records. They become dead letters too.
    now
        The journaled clock in ms. No output has a later timestamp.
    fields
        Which declared fields the first observations have; None if they were not checked.
    found_bad
        The result of `bad`, which the caller leaves out.
    """

    spec: ShardSpec
    batch: Batch
    result: Result
    observed: NDArray[np.int64]
    ids: Sequence[str]
    learned_before: int
    rejected: dict[int, RecordError]
    labels: Mapping[str, int]
    digest: bytes
    types: Mapping[str, str] = field(default_factory=dict)
    alarms: Sequence[DriftAlarm] = ()
    promoted: Sequence[Promoted] = ()
    early: Sequence[EarlyLabel] = ()
    now: int = UNBOUNDED
    fields: FieldCheck | None = None
    found_bad: list[BadRecord] | None = None

    @property
    def against(self) -> NDArray[np.bool_] | None:
        """Which records of the batch are decided otherwise than the label of silence asks.

        None without silence.
        """
        if self.result.against is None:
            return None
        out = np.zeros(len(self.batch), dtype=np.bool_)
        out[self.observed] = self.result.against
        return out

    def predictions(self) -> Sequence[Outgoing]:
        """The prediction records, in order. Encoded on request: a replay does not need them.

        By columns where possible, which gives the bytes of `one_by_one`.
        """
        spec = self.spec
        as_json = prediction_writer(spec.wire, spec.predictions_schema) is None
        plain = as_json and not spec.explain and not spec.cloudevents
        return self._in_columns() if plain and len(self.ids) else list(self.one_by_one())

    def _in_columns(self) -> OutgoingColumns:
        batch, spec, observed = self.batch, self.spec, self.observed
        source, times = batch.source[observed], batch.timestamps[observed]
        data, lengths = encoded_block(
            PredictionBlock(
                self._models(),
                self.ids,
                self.result.predictions,
                self.result.predicted,
                self.result.learned_before + self.learned_before,
                batch.partitions,
                source,
                batch.offsets[observed],
                None if batch.index is None else batch.index[observed],
                times,
                spec.top,
                self._decided(),
            )
        )
        sizes = lengths.sum(axis=1)
        starts, times = sizes.cumsum() - sizes, np.minimum(times, self.now)
        numbers = np.array([p.number for p in batch.partitions], dtype=np.int64)
        to = numbers[source] % spec.predictions_partitions
        return OutgoingColumns(spec.predictions, data, starts, lengths, times, to)

    def one_by_one(self) -> Iterator[Outgoing]:
        """The prediction records, encoded one by one: the slow, obvious implementation."""
        spec, batch, all_made = self.spec, self.batch, self.result.predictions
        n, classes = len(self.observed), all_made.classes
        decided, headers = self._decided(), tuple[Header, ...]()
        content = wire_format(spec.wire).content_type
        columns = zip(
            self._encoders(),
            self.ids,
            self.result.predicted.tolist(),
            all_made.ranked(spec.top),
            (self.result.learned_before + self.learned_before).tolist(),
            batch.source[self.observed].tolist(),
            batch.offsets[self.observed].tolist(),
            batch.rows(self.observed),
            batch.timestamps[self.observed].tolist(),
            [None] * n if decided is None else decided.done(),
            (self.result.explanations if spec.explain else None) or [None] * n,
            strict=True,
        )
        for encoder, id_, predicted, ranked, learned, source, offset, row, ts, made, why in columns:
            topic, number = batch.partitions[source]
            best = None if predicted < 0 else classes[predicted]
            place = (topic, number, offset)
            value = encoder.encode(id_, best, ranked, learned, place, ts, made, why, row)
            out = number % spec.predictions_partitions
            if spec.cloudevents:
                headers = event_headers(spec.name, (*place, row), id_, ts, content)
            yield Outgoing(spec.predictions, id_.encode(), value, min(ts, self.now), headers, out)

    def _decided(self) -> Decisions | None:
        """The decisions; None without decisions."""
        spec, result = self.spec, self.result
        made = result.verdicts
        if spec.budget is not None and made is not None:
            return decisions(spec.budget, result.predictions, made.flagged, made.unsure)
        return None if spec.decision is None else spec.decision.decide_many(result.predictions)

    def _models(self) -> list[tuple[int, tuple[str, str]]]:
        """From which prediction on a model made them; its name and type."""
        spec = self.spec
        return [
            (at, (name, self.types[name]) if name else (spec.name, spec.model))
            for at, name in self.result.champions or [(0, "")]
        ]

    def _encoders(self) -> Iterator[PredictionEncoder]:
        """The encoder of each prediction: it names the model that made it."""
        spec, n, models = self.spec, len(self.observed), self._models()
        write = prediction_writer(spec.wire, spec.predictions_schema)
        for (at, model), (end, _) in pairwise([*models, (n, ("", ""))]):
            yield from repeat(PredictionEncoder(*model, spec.explain, write), end - at)

    def bad(self) -> Sequence[BadRecord]:
        """The records that are dead letters, in order, with the reason."""
        if self.found_bad is None:
            batch, due = self.batch, [(i, None, error) for i, error in self.rejected.items()]
            late = [(e.at, e.record, e.error) for e in self.early]
            self.found_bad = [
                BadRecord(record_of(batch, i), error, batch.row(i))
                if early is None
                else BadRecord(early, error)
                for i, early, error in sorted([*due, *late], key=itemgetter(0))
            ]
        return self.found_bad

    def dead_letters(self) -> Iterator[Outgoing]:
        """The dead letters: the original bytes, with reason and source in the headers."""
        for record, error, row in self.bad():
            headers: tuple[Header, ...] = (
                ("reason", error.reason.encode()),
                ("detail", error.detail.encode("utf-8", "backslashreplace")[:500]),
                ("topic", record.topic.encode()),
                ("partition", str(record.partition).encode()),
                ("offset", str(record.offset).encode()),
                ("version", self.spec.version.encode()),
            )
            if row is not None:
                headers = (*headers, ("index", str(row).encode()))
            value, limit = record.value, self.spec.largest_dead_letter
            if value is not None and limit is not None and len(value) > limit:
                headers = (*headers, ("cut_from_bytes", str(len(value)).encode()))
                value = value[:limit]
            to = self.spec.dead_letters
            yield Outgoing(to, record.key, value, min(record.timestamp, self.now), headers, 0)

    def ahead(self) -> list[tuple[Partition, int, int]]:
        """Records whose outputs carry the journaled clock: partition, offset, ms ahead of it.

        A topic refuses records too far ahead (`message.timestamp.after.max.ms`). Inputs and outputs
        may have different limits, so one such record would fail every commit that contains it. The
        time in the value is unchanged.
        """
        batch, observed = self.batch, self.observed
        late = observed[batch.timestamps[observed] > self.now].tolist()
        return [(*batch.place(i), int(batch.timestamps[i]) - self.now) for i in late] + [
            (Partition(r.topic, r.partition), r.offset, r.timestamp - self.now)
            for r, _, _ in self.bad()
            if r.timestamp > self.now
        ]
