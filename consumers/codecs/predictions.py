"""A prediction as a record, and as a document of records for formats whose lists have items of one
type.

In JSON a probability is the pair of label and number; in Avro and Protobuf it is a record of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stream.data.schema import Label
from stream.learner.predictions import Explanation

__all__ = ["PredictionEncoder", "from_records", "to_records"]


def to_records(prediction: dict[str, Any]) -> dict[str, Any]:
    """The document with records instead of pairs.

    Examples
    --------
    >>> to_records({"probabilities": [["ok", 0.9]]})
    {'probabilities': [{'label': 'ok', 'probability': 0.9}]}
    """
    pairs = prediction["probabilities"]
    out = {**prediction, "probabilities": [{"label": y, "probability": p} for y, p in pairs]}
    if (evidence := prediction.get("evidence")) is not None:
        out["evidence"] = [{"label": label, "log_odds": odds} for label, odds in evidence]
    if (why := prediction.get("explanation")) is not None:
        top = [{"name": name, "log_odds": share} for name, share in why["top"]]
        out["explanation"] = {**why, "top": top}
    return out


def from_records(document: dict[str, Any]) -> dict[str, Any]:
    """The inverse. Of a document that is no prediction, it returns the document.

    Examples
    --------
    >>> from_records({"probabilities": [{"label": "ok", "probability": 0.9}], "decision": None})
    {'probabilities': [['ok', 0.9]]}
    >>> from_records({"amount": 7})
    {'amount': 7}
    """
    if not isinstance(document.get("probabilities"), list):
        return document
    out = {
        key: value
        for key, value in document.items()
        if value is not None or key not in ("decision", "explanation")
    }
    pairs = document["probabilities"]
    out["probabilities"] = [[each.get("label"), each.get("probability")] for each in pairs]
    if evidence := out.pop("evidence", None):
        out["evidence"] = [[each.get("label"), each.get("log_odds")] for each in evidence]
    if (why := out.get("explanation")) is not None:
        out["explanation"] = {
            **why,
            "top": [[each.get("name"), each.get("log_odds")] for each in why["top"]],
        }
    return out


class _Model(msgspec.Struct, gc=False):
    name: str
    type: str
    learned: int


class _Position(msgspec.Struct, gc=False):
    topic: str
    partition: int
    offset: int
    index: int | msgspec.UnsetType = msgspec.UNSET


class _Decision(msgspec.Struct):
    action: Label | None
    risk: float | None


class _Explanation(msgspec.Struct):
    against: Label
    log_odds: float
    top: list[tuple[str, float]]


class _Prediction(msgspec.Struct, gc=False):
    id: str
    prediction: Label | None
    probabilities: list[tuple[Label, float]]
    model: _Model
    position: _Position
    ts: int
    evidence: list[tuple[Label, float]] | msgspec.UnsetType = msgspec.UNSET
    decision: _Decision | msgspec.UnsetType = msgspec.UNSET
    explanation: _Explanation | msgspec.UnsetType = msgspec.UNSET


class PredictionEncoder:
    """Encoder of prediction records: they do not depend on the wall clock.

    Parameters
    ----------
    name, kind
        The model's name and type.
    explain
        How many of the largest contributions of features are written.
    write
        Encodes the document of a prediction in another wire format; None: as JSON.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        explain: int = 0,
        write: Callable[[dict[str, Any]], bytes] | None = None,
    ) -> None:
        self.name, self.kind, self.explain = name, kind, explain
        self._encode: Callable[[_Prediction], bytes] = msgspec.json.Encoder().encode
        if write is not None:
            encode: Callable[[dict[str, Any]], bytes] = write
            self._encode = lambda made: encode(msgspec.to_builtins(made))

    def encode(
        self,
        id_: str,
        best: Label | None,
        ranked: list[tuple[Label, float]],
        learned: int,
        position: tuple[str, int, int],
        ts: int,
        decision: tuple[Label | None, float | None] | None = None,
        why: Explanation | None = None,
        row: int | None = None,
        evidence: list[tuple[Label, float]] | None = None,
    ) -> bytes:
        """One prediction; `ranked` are the classes to write, the most probable first.

        `decision` is action and risk, `row` the index of the row in its message, and `evidence` has
        the labels of `ranked`. The record leaves out what is None.
        """
        model = _Model(self.name, self.kind, learned)
        made = msgspec.UNSET if decision is None else _Decision(*decision)
        shares: _Explanation | msgspec.UnsetType = msgspec.UNSET
        if why is not None:
            shares = _Explanation(why.against, why.log_odds, why.top(self.explain))
        place = _Position(*position, msgspec.UNSET if row is None else row)
        says = msgspec.UNSET if evidence is None else evidence
        return self._encode(_Prediction(id_, best, ranked, model, place, ts, says, made, shares))
