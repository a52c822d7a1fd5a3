"""A prediction as a document of records, for formats whose lists have items of one type.

In JSON a probability is the pair of label and number; in Avro and Protobuf it is a record of both.
"""

from __future__ import annotations

from typing import Any

__all__ = ["from_records", "to_records"]


def to_records(prediction: dict[str, Any]) -> dict[str, Any]:
    """The document with records instead of pairs.

    Examples
    --------
    >>> to_records({"probabilities": [["ok", 0.9]]})
    {'probabilities': [{'label': 'ok', 'probability': 0.9}]}
    """
    pairs = prediction["probabilities"]
    out = {**prediction, "probabilities": [{"label": y, "probability": p} for y, p in pairs]}
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
    if (why := out.get("explanation")) is not None:
        out["explanation"] = {
            **why,
            "top": [[each.get("name"), each.get("log_odds")] for each in why["top"]],
        }
    return out
