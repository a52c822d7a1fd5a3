"""The outcome of a batch: the records to write, and why a label is a dead letter.

Nothing here depends on the wall clock, so a repeated batch gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import RecordError
from consumers.base.records import (
    Batch,
    Header,
    Outgoing,
    OutgoingColumns,
    Partition,
    Record,
)
from consumers.codecs.prediction_block import PredictionBlock, encoded_block
from consumers.codecs.predictions import PredictionEncoder
from consumers.codecs.registry import prediction_writer, wire_format
from consumers.codecs.unused import noted
from consumers.shard.batches import SeenFields, record_of
from consumers.shard.spec import ShardSpec
from consumers.shard.views import DriftAlarm, Promoted
from stream.data.schema import LONGEST_LABEL, Label
from stream.decision import Decisions
from stream.decision.budget import decisions
from stream.errors import Reason
from stream.evaluate.progressive import Result
from stream.join.label_delay import LABELS_PER_CORRECTION, MOST_CORRECTIONS

__all__ = ["BadRecord", "EarlyLabel", "Outcome", "refusal"]

SHOWN = 60  # characters of a label
KINDS = {
    str: f"text of at most {LONGEST_LABEL} characters",
    int: "a 64-bit integer",
    bool: "a truth value",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    seen
        The observations, with the fields that were not used.
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
    types: Mapping[str, str]
    alarms: Sequence[DriftAlarm]
    promoted: Sequence[Promoted]
    early: Sequence[EarlyLabel]
    now: int
    seen: SeenFields
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
        if not len(self.ids):
            return []
        wire, outputs = self.spec.wire, self.spec.outputs
        as_json = prediction_writer(wire, outputs.schema) is None
        plain = as_json and not (outputs.explain or outputs.events or outputs.notes)
        return self._in_columns() if plain else list(self.one_by_one())

    def _in_columns(self) -> OutgoingColumns:
        batch, spec, observed = self.batch, self.spec, self.observed
        outputs = spec.outputs
        source, times = batch.source[observed], batch.timestamps[observed]
        decides = spec.decision is not None or spec.budget is not None
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
                outputs.top,
                self._decided() if decides else None,
            )
        )
        sizes = lengths.sum(axis=1)
        starts, times = sizes.cumsum() - sizes, np.minimum(times, self.now)
        numbers = np.array([p.number for p in batch.partitions], dtype=np.int64)
        to = numbers[source] % outputs.partitions
        return OutgoingColumns(outputs.predictions, data, starts, lengths, times, to)

    def one_by_one(self) -> Iterator[Outgoing]:
        """The prediction records, encoded one by one: the slow, obvious implementation."""
        spec, batch, all_made = self.spec, self.batch, self.result.predictions
        name, outputs, to = spec.config.name, spec.outputs, spec.outputs.predictions
        n, classes = len(self.observed), all_made.classes
        decided, headers = self._decided(), tuple[Header, ...]()
        content = wire_format(spec.wire).content_type
        columns = zip(
            self._encoders(),
            self.ids,
            self.result.predicted.tolist(),
            zip(all_made.ranked(outputs.top), all_made.ranked_evidence(outputs.top), strict=True),
            (self.result.learned_before + self.learned_before).tolist(),
            batch.source[self.observed].tolist(),
            batch.offsets[self.observed].tolist(),
            batch.rows(self.observed),
            batch.timestamps[self.observed].tolist(),
            [None] * n if decided is None else decided.done(),
            (self.result.explanations if outputs.explain else None) or [None] * n,
            map(self.seen.notes, self.observed.tolist()) if outputs.notes else [()] * n,
            strict=True,
        )
        for encoder, id_, predicted, says, learned, source, offset, row, ts, *rest in columns:
            (ranked, evidence), (topic, number) = says, batch.partitions[source]
            made, why, notes = rest
            best = None if predicted < 0 else classes[predicted]
            place = (topic, number, offset)
            more = (made, why, row, evidence)
            value = encoder.encode(id_, best, ranked, learned, place, ts, *more)
            out = number % outputs.partitions
            if outputs.events:
                headers = event_headers(name, (*place, row), id_, ts, content)
            value = noted(value, notes)
            yield Outgoing(to, id_.encode(), value, min(ts, self.now), headers, out)

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
            (at, (name, self.types[name]) if name else (spec.config.name, spec.model))
            for at, name in self.result.champions or [(0, "")]
        ]

    def _encoders(self) -> Iterator[PredictionEncoder]:
        """The encoder of each prediction: it names the model that made it."""
        spec, n, models = self.spec, len(self.observed), self._models()
        write = prediction_writer(spec.wire, spec.outputs.schema)
        for (at, model), (end, _) in pairwise([*models, (n, ("", ""))]):
            yield from repeat(PredictionEncoder(*model, spec.outputs.explain, write), end - at)

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
        outputs = self.spec.outputs
        for record, error, row in self.bad():
            headers: tuple[Header, ...] = (
                ("reason", error.reason.encode()),
                ("detail", error.detail.encode("utf-8", "backslashreplace")[:500]),
                ("topic", record.topic.encode()),
                ("partition", str(record.partition).encode()),
                ("offset", str(record.offset).encode()),
                ("version", outputs.version.encode()),
            )
            if row is not None:
                headers = (*headers, ("index", str(row).encode()))
            value, limit = record.value, outputs.cut
            if value is not None and limit is not None and len(value) > limit:
                headers = (*headers, ("cut_from_bytes", str(len(value)).encode()))
                value = value[:limit]
            to = outputs.dead_letters
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


def event_headers(
    name: str, place: tuple[str, int, int, int | None], id_: str, ts: int, content_type: str
) -> tuple[Header, ...]:
    """The headers of CloudEvents 1.0 in binary mode for one prediction.

    Source and id together name an event. The id is the place of the observation, so a prediction
    that is written again is the same event.

    Parameters
    ----------
    name
        The service.
    place
        Topic, partition and offset of the observation, and the index of its row or None.
    id_
        Its id.
    ts
        Its timestamp in ms. One that is no date is left out.
    content_type
        The media type of the value.

    Examples
    --------
    >>> place, media = ("visits", 0, 7, None), "application/json"
    >>> headers = event_headers("shop", place, "42", 1_795_260_104_702, media)
    >>> for header, value in headers:
    ...     print(header, value.decode())
    ce_specversion 1.0
    ce_type headwater.prediction
    ce_source /headwater/shop
    ce_id visits:0:7
    ce_subject 42
    content-type application/json
    ce_time 2026-11-21T11:21:44.702+00:00
    """
    at = ":".join(str(part) for part in place if part is not None)
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_type", b"headwater.prediction"),
        ("ce_source", f"/headwater/{name}".encode()),
        ("ce_id", at.encode()),
        ("ce_subject", id_.encode()),
        ("content-type", content_type.encode()),
    )
    try:
        time = (_EPOCH + timedelta(milliseconds=ts)).isoformat(timespec="milliseconds")
    except OverflowError:
        return headers
    return (*headers, ("ce_time", time.encode()))


def refusal(label: object, reason: Reason, first: Label | None) -> RecordError:
    """The error that makes a label a dead letter.

    Parameters
    ----------
    label, reason
        The label and the rule that refused it.
    first
        The first learned label, which fixed the kind; None if it is not known.

    Examples
    --------
    >>> refusal(1, "label_kind", True).detail
    'expected a truth value, like the first label, got the integer 1'
    """
    if reason == "max_classes":
        why = "exceeds [model] max_classes, or the classes that fit max_state_bytes"
        return RecordError(reason, f"label {_shown(label)} {why}")
    if reason == "reporter_rate":
        return RecordError(
            reason, "its reporter sent more than [reporters] max_labels_per_hour in this hour"
        )
    if reason == "correction_rate":
        return RecordError(
            reason,
            f"{MOST_CORRECTIONS:,} labels are corrected at once, and one more for each "
            f"{LABELS_PER_CORRECTION} labels learned; send it again later",
        )
    if reason != "label_kind":
        return RecordError(reason, f"label {_shown(label)} was refused")
    if first is None:
        expected = "{}, {} or {}, of the kind of the first label".format(*KINDS.values())
    else:
        expected = f"{KINDS[type(first)]}, like the first label"
    return RecordError(reason, f"expected {expected}, got {_described(label)}")


def _described(label: object) -> str:
    kind = type(label)
    if kind is str:
        long = f" of {len(label):,} characters" if len(label) > LONGEST_LABEL else ""  # type: ignore[arg-type]
        return f"the text{long} {_shown(label)}"
    names = {bool: "the truth value", int: "the integer", float: "the number"}
    return f"{names.get(kind, 'a ' + kind.__name__ + ',')} {_shown(label)}"


def _shown(label: object) -> str:
    """The label as JSON. A long one is cut."""
    try:
        text = repr(label) if isinstance(label, str) else json.dumps(label, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(label)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
