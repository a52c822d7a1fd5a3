"""JSON with JSON Schemas of a registry: a record that its schema rejects is bad.

Rule: nothing is fetched. A schema refers to those that it was registered with, by their names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from consumers.base.errors import RecordError
from consumers.codecs.format import Document, Reader, WireFormat, Writer, guarded, shortened
from consumers.codecs.json_document import DEEPEST, parse, too_deep
from consumers.codecs.schemas import StoredSchema

__all__ = ["FORMAT"]

MOST_STEPS = 100_000  # of a pattern on one text, which can otherwise take time without a bound

_LABEL = {"type": ["null", "boolean", "integer", "string"]}
_TEXT, _INTEGER, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


def _pair(first: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "array", "items": [first, _NUMBER]}}


_PREDICTION = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Prediction",
    **_object(
        {
            "id": _TEXT,
            "prediction": _LABEL,
            "probabilities": _pair(_LABEL),
            "model": _object({"name": _TEXT, "type": _TEXT, "learned": _INTEGER}),
            "position": _object({"topic": _TEXT, "partition": _INTEGER, "offset": _INTEGER}),
            "ts": _INTEGER,
        },
        evidence=_pair(_LABEL),
        decision=_object({"action": _LABEL, "risk": {"type": ["null", "number"]}}),
        explanation=_object({"against": _LABEL, "log_odds": _NUMBER, "top": _pair(_TEXT)}),
    ),
}


def _predictions() -> tuple[str, StoredSchema]:
    text = json.dumps(_PREDICTION)
    return text, StoredSchema("JSON", text)


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    validator = _validator(schema)

    def decode(payload: bytes) -> Document:
        document = parse(payload)
        if not validator.is_valid(document):
            first = next(iter(validator.iter_errors(document)), None)
            why = "it is not valid" if first is None else shortened(ValueError(first.message))
            raise RecordError("unparsable", f"not JSON of its schema: {why}")
        return document

    return guarded(decode, "JSON")


def _validator(schema: StoredSchema) -> Any:
    import jsonschema_rs

    try:
        texts = [schema.text, *(text for _, text in schema.references)]
        if any(map(too_deep, texts)):
            raise ValueError(f"expected at most {DEEPEST} levels of nesting")
        resources = [(name, json.loads(text)) for name, text in schema.references]
        return jsonschema_rs.validator_for(
            json.loads(schema.text),
            registry=jsonschema_rs.Registry(resources) if resources else None,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_STEPS),
            offline=True,
        )
    except Exception as error:
        raise RecordError("unusable_schema", f"not a JSON Schema: {shortened(error)}") from None


def _writer(schema: StoredSchema) -> Writer:
    try:
        validator = _validator(schema)
    except RecordError as error:
        raise ValueError(error.detail) from None
    encode = msgspec.json.Encoder().encode

    def write(document: Mapping[str, Any]) -> bytes:
        value = encode(document)
        if not validator.is_valid(json.loads(value)):
            first = next(iter(validator.iter_errors(json.loads(value))), None)
            why = "it is not valid" if first is None else shortened(ValueError(first.message))
            raise ValueError(f"does not fit the JSON Schema: {why}")
        return value

    return write


FORMAT = WireFormat(
    name="json_schema",
    title="JSON",
    about="JSON with the JSON Schemas of a registry",
    schema_type="JSON",
    modules=("jsonschema_rs", "confluent_kafka"),
    reader=_reader,
    writer=_writer,
    predictions=_predictions,
)
