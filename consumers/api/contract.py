"""The typed bodies of requests and answers; the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Any

import msgspec

from consumers.codecs.unused import Note

__all__ = [
    "NOT_USED",
    "Appended",
    "InferError",
    "InferInput",
    "InferOutput",
    "InferRequest",
    "InferResponse",
    "ModelMetadata",
    "ModelStatus",
    "OwnExplanation",
    "PredictionRecord",
    "Problem",
    "RecordPosition",
    "Rejection",
    "RspamdReply",
    "RspamdSymbol",
    "ServerMetadata",
    "TensorMetadata",
]

Label = str | int | bool
NOT_USED = "not_used"  # why a record is rejected with `strict`


class Problem(msgspec.Struct, omit_defaults=True):
    """Why a request was not answered as asked (RFC 9457)."""

    title: str
    status: int
    detail: str
    reason: str | None = None  # of a rejected record, as in a dead letter; or `NOT_USED`
    index: int | None = None  # of that record in the request, from 0
    records: list[RecordPosition] | None = None  # already written, so a retry writes them again


class RecordPosition(msgspec.Struct):
    """Where a record is in its topic."""

    topic: str
    partition: int
    offset: int


class PredictedPosition(RecordPosition):
    """Where an observation is. `index`: which row of its message, where messages have rows."""

    index: int | msgspec.UnsetType = msgspec.UNSET


class Champion(msgspec.Struct):
    """The model that predicted: name, type, and how many labels the service had learned."""

    name: str
    type: str
    learned: int


class DecidedAction(msgspec.Struct):
    """The action with the lowest risk; null if none is taken."""

    action: Label | None
    risk: float | None


class OwnExplanation(msgspec.Struct):
    """The features that changed the log-odds against another label most."""

    against: Label
    log_odds: float
    top: list[tuple[str, float]]


class PredictionRecord(msgspec.Struct, omit_defaults=True):
    """A prediction, as in the topic. `position` is the one of the model in the journal, or of the
    observation if it was recorded; `age_ms` is how long ago that model was the newest. `evidence`:
    what the record says for each label, whatever their shares, if the learner knows it. `notes`:
    the fields of the observation that were not used, at most 20."""

    id: str
    prediction: Label | None
    probabilities: list[tuple[Label, float]]
    model: Champion
    position: PredictedPosition
    ts: int
    age_ms: int | None = None
    evidence: list[tuple[Label, float]] | None = None
    decision: DecidedAction | None = None
    explanation: OwnExplanation | None = None
    notes: list[Note] = []


class Rejection(msgspec.Struct):
    """A record that cannot be predicted or written, with the reason of a dead letter; or with
    `not_used`, if the request was strict."""

    index: int
    reason: str
    detail: str


class Appended(msgspec.Struct):
    """The records are in the log."""

    records: list[RecordPosition]


class FieldOfModel(msgspec.Struct):
    """A feature and its kind."""

    name: str
    kind: str


class ModelStatus(msgspec.Struct):
    """The model of a shard: what it is, what it has learned, how good it is."""

    service: str
    shard: int
    name: str
    type: str
    learned: int
    observations: int
    predictions: int
    position: RecordPosition
    age_ms: int
    fields: list[FieldOfModel]
    classes: list[Label]
    experts: dict[str, float]
    scores: dict[str, dict[str, float | None]]


class RspamdSymbol(msgspec.Struct):
    """A symbol of rspamd: the verdict with its score; `options` are its reasons."""

    name: str
    score: float
    metric_score: float
    description: str
    options: list[str]


class RspamdReply(msgspec.Struct, rename={"message_id": "message-id"}):
    """A verdict as rspamd answers it. Scores are log-odds of spam; `action` is `add header` or
    `no action`, and `milter` has the header to add."""

    is_skipped: bool
    score: float
    required_score: float
    action: str
    symbols: dict[str, RspamdSymbol]
    message_id: str
    milter: dict[str, Any]


class TensorMetadata(msgspec.Struct):
    """A tensor of the Open Inference Protocol; -1 is any number of records."""

    name: str
    datatype: str
    shape: list[int]


class ServerMetadata(msgspec.Struct):
    """The server, as the Open Inference Protocol describes it."""

    name: str
    version: str
    extensions: list[str]


class ModelMetadata(msgspec.Struct):
    """The model, as the Open Inference Protocol describes it. It has no versions to ask for."""

    name: str
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class InferError(msgspec.Struct):
    """Why a request of the Open Inference Protocol was not answered as asked."""

    error: str


class InferInput(msgspec.Struct):
    """One field of all records: shape [n], or [n, 1] with flat or nested data; null is a missing
    value."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct):
    """Records by field."""

    inputs: list[InferInput]
    id: str = ""
    outputs: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {}


class InferOutput(msgspec.Struct):
    """`prediction` (BYTES, [n]) or `probabilities` (FP64, [n, classes]). If a value was not used,
    `prediction` has the parameter `notes`: those of each record."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class InferResponse(msgspec.Struct, omit_defaults=True):
    """The predictions; the classes are a parameter of `probabilities`. `model_version` is the
    journal position of the model."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str = ""
