"""The settings of a shard: the configuration, and the facts that are not in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import msgspec

from consumers.codecs.format import Document, FramedDocuments
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.mail_field import MailField
from consumers.codecs.raw import ChangeEvents, JsonDocuments, RawDocuments, reading, refused
from consumers.codecs.registry import wire_format
from consumers.codecs.rows import ByRow
from consumers.codecs.schemas import SchemaBook
from consumers.config import Config
from consumers.config.auto import DEFAULTS, Defaults
from consumers.config.learner import Trust
from consumers.mail.later import ignored_in
from consumers.shard.shape import OutputShape
from stream.data.schema import Label, Schema
from stream.decision import BayesDecision, Budget
from stream.drift import DriftRule
from stream.join.join import LabelJoin
from stream.join.reported import ReportedJoin

__all__ = ["ShardSpec"]

NOBODY = Trust()
PREDICTION_BYTES = 1024  # ids, names, position, headers of a dead letter
CLASS_BYTES = 32  # per class: posteriors, and arrays to sort and score them
PAIR_BYTES = 64  # per label or feature in a prediction, without its name


@dataclass(frozen=True)
class ShardSpec:
    """The configuration of a shard, and the facts that are not in it.

    Parameters
    ----------
    config
        The configuration, with the settings of the journal.
    schema
        The features.
    model
        The type of the model, as predictions show it.
    outputs
        The settings of outputs. A replay has those that were journaled.
    wire
        The format of the records: that of the topics, or JSON if they are those of files.
    number
        The number of the shard.
    max_classes
        How many classes the model may have.
    defaults
        Those with which the journal began.
    trusted
        Challengers whose state may be loaded from a pickle, or whose code may be imported.
    imported
        Where the model comes from with which it began, and how many labels it had learned; empty:
        it began with an empty one.
    changes
        The operations of change events whose rows are records, if records are change events.
    """

    config: Config
    schema: Schema
    model: str
    outputs: OutputShape
    wire: str = "json"
    number: int = 0
    max_classes: int = 256
    defaults: Defaults = DEFAULTS
    trusted: Trust = NOBODY
    imported: tuple[str, int] = ("", 0)
    changes: Collection[str] = ()

    @cached_property
    def label_topics(self) -> frozenset[str]:
        """Topics whose records are labels."""
        return frozenset(self.config.input_topics[1:])

    @cached_property
    def drift(self) -> DriftRule:
        """What is watched for drift."""
        return self.config.drift.rule

    @cached_property
    def parser(self) -> Mapping[str, str]:
        """Name to version of what parses the records; empty if nothing does."""
        return self.config.parser

    @cached_property
    def decision(self) -> BayesDecision | None:
        """The decision rule; None: no decisions."""
        outputs = self.outputs
        if outputs.losses is None and outputs.reject is None:
            return None
        losses = cast("Mapping[Label, Mapping[Label, float]] | None", outputs.losses)
        return BayesDecision(losses, outputs.reject)

    @cached_property
    def budget(self) -> Budget | None:
        """The budget of false positives; None without one. Then there is no `decision`."""
        outputs = self.outputs
        if outputs.budget is None:
            return None
        return Budget(*outputs.budget, *(outputs.doubt or (0, None)), outputs.flagged_from)

    @cached_property
    def max_rows(self) -> int:
        """How many rows a message has at most; 0 if the format has no such messages."""
        return 0 if wire_format(self.wire).rows is None else self.config.commit.usual_records

    @property
    def mail_field(self) -> str | None:
        """The field of a JSON observation that holds a mail in base64."""
        return self.config.input.mail_field(self.wire)

    def decoder(self, schemas: SchemaBook | None = None) -> JsonObservations:
        """A decoder of observations: in the wire format with these schemas, or without schemas in
        the JSON of requests and files."""
        identified = None if schemas is None else wire_format(self.wire).identified
        return self._decoder(self._observations(schemas), identified)

    def by_row(self, labels: JsonLabels) -> ByRow | None:
        """Makes records of the rows of messages; None if the format has no such messages."""
        rows = wire_format(self.wire).rows
        if rows is None:
            return None
        reader = rows.reader(self._decoder(lambda document: document))
        return ByRow(reader, labels, self.label_topics, self.schema)

    def _decoder(
        self,
        documents: Callable[[Any], Document] | None,
        identified: Callable[[bytes], str] | None = None,
    ) -> JsonObservations:
        config = self.config
        return JsonObservations(
            self.schema,
            config.input.id,
            config.input.label,
            config.values.texts,
            keep=config.values.on_bad_value == "missing",
            documents=documents,
            identified=identified,
            closed=wire_format(self.wire).fields is not None or self.mail_field is not None,
            as_text=config.input.numbers_as_text,
        )

    def label_decoder(self, schemas: SchemaBook | None = None) -> JsonLabels:
        """A decoder of label records: in the wire format with these schemas, or in JSON."""
        documents = self._documents(schemas, None)
        decode = ChangeEvents(self.changes, documents) if self.changes else documents
        labels = self.config.labels
        return JsonLabels(decode, labels.reporter, labels.max_weight)

    def join(self) -> LabelJoin:
        """The empty join."""
        labels = self.config.labels
        bounds = (
            labels.max_pending,
            labels.horizon_ms,
            self.max_classes,
            labels.corrections,
            labels.max_pending_bytes,
            labels.meaning_of_silence,
        )
        if labels.reporter is None:
            return LabelJoin(*bounds)
        return ReportedJoin(self.config.reporters.rules, *bounds)

    def _observations(
        self, schemas: SchemaBook | None
    ) -> Callable[[bytes | None], Document] | None:
        wire, field = wire_format(self.wire), self.mail_field
        parsed = wire_format("mail") if field is not None else wire
        if self.parser and (refuse := refused(self.parser, parsed.versions())) is not None:
            return refuse
        if field is not None:
            return MailField(field, ignored_in(self.parser))
        if wire.fields is None:
            documents = self._documents(schemas, self.config.input.reader_schema)
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

    def prediction_bytes(self, labels: Sequence[Label], models: int) -> int:
        """Largest size of a prediction by so many models, in memory or on the wire, without texts
        of its own record."""
        each = PREDICTION_BYTES + CLASS_BYTES * len(labels) * models
        if labels:
            longest = max(len(str(label).encode()) for label in labels)
            each += min(self.outputs.top, len(labels)) * (longest + PAIR_BYTES)
        if self.outputs.explain:  # a token is a text of its own record, so it is not counted
            longest = max((len(f.name.encode()) for f in self.schema.fields), default=0)
            each += self.outputs.explain * (longest + PAIR_BYTES)
        return each

    def registered(self, schema: int) -> ShardSpec:
        """The same settings with the id of the registered schema of predictions."""
        return replace(self, outputs=msgspec.structs.replace(self.outputs, schema=schema))

    def shaped(self, shape: OutputShape) -> ShardSpec:
        """The same settings with outputs of this shape.

        A limit for dead letters that the topic has since required always applies.
        """
        cut = self.outputs.cut
        if cut is not None:
            shape = msgspec.structs.replace(shape, cut=cut)
        return replace(self, outputs=shape)
