"""Avro by fastavro, with schemas of a registry.

Rule: a schema whose records could need a deep stack or endless memory is not used at all, because
the decoder would end the process: one that contains itself, and arrays of items without bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from io import BytesIO
from math import isfinite
from typing import Any
from uuid import UUID

from consumers.base.errors import RecordError
from consumers.codecs.bounds import Counter, shape_of
from consumers.codecs.format import Check, Document, Reader, WireFormat, Writer, guarded, shortened
from consumers.codecs.json_document import DEEPEST, too_deep
from consumers.codecs.predictions import from_records, to_records
from consumers.codecs.schemas import StoredSchema
from consumers.codecs.values import json_value

__all__ = ["FORMAT"]

_BOUNDS: dict[Any, float] = {
    "int": 2**31,
    "long": 2**63,
    "float": float.fromhex("0x1.fffffep+127"),
    "double": sys.float_info.max,
}
_TYPES: dict[Any, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "bytes": bytes,
    "fixed": bytes,
}

_OWN = "headwater-"  # before the name of a logical type that is read here, and not by fastavro
_DECIMAL = f"{_OWN}decimal"
_NANOS = ("timestamp-nanos", "local-timestamp-nanos")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_DECIMAL = 1786  # bytes of a decimal number: `MOST_DIGITS` have as many

_LABEL = ["null", "boolean", "long", "string"]
_PREDICTION = {
    "type": "record",
    "name": "Prediction",
    "namespace": "headwater",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "prediction", "type": _LABEL},
        {
            "name": "probabilities",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Probability",
                    "fields": [
                        {"name": "label", "type": _LABEL},
                        {"name": "probability", "type": "double"},
                    ],
                },
            },
        },
        {
            "name": "model",
            "type": {
                "type": "record",
                "name": "Model",
                "fields": [
                    {"name": "name", "type": "string"},
                    {"name": "type", "type": "string"},
                    {"name": "learned", "type": "long"},
                ],
            },
        },
        {
            "name": "position",
            "type": {
                "type": "record",
                "name": "Position",
                "fields": [
                    {"name": "topic", "type": "string"},
                    {"name": "partition", "type": "int"},
                    {"name": "offset", "type": "long"},
                ],
            },
        },
        {"name": "ts", "type": "long"},
        {
            "name": "evidence",
            "default": None,
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Evidence",
                        "fields": [
                            {"name": "label", "type": _LABEL},
                            {"name": "log_odds", "type": "double"},
                        ],
                    },
                },
            ],
        },
        {
            "name": "decision",
            "default": None,
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Decision",
                    "fields": [
                        {"name": "action", "type": _LABEL},
                        {"name": "risk", "type": ["null", "double"]},
                    ],
                },
            ],
        },
        {
            "name": "explanation",
            "default": None,
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Explanation",
                    "fields": [
                        {"name": "against", "type": _LABEL},
                        {"name": "log_odds", "type": "double"},
                        {
                            "name": "top",
                            "type": {
                                "type": "array",
                                "items": {
                                    "type": "record",
                                    "name": "Contribution",
                                    "fields": [
                                        {"name": "name", "type": "string"},
                                        {"name": "log_odds", "type": "double"},
                                    ],
                                },
                            },
                        },
                    ],
                },
            ],
        },
    ],
}


def _predictions() -> tuple[str, StoredSchema]:
    text = json.dumps(_PREDICTION)
    return text, StoredSchema("AVRO", text)


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    from fastavro import schemaless_reader
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{_DECIMAL}"] = partial(
            _decimal, LOGICAL_READERS[f"{kind}-decimal"]
        )
    LOGICAL_READERS[f"fixed-{_OWN}uuid"] = _uuid
    for logical in _NANOS:
        LOGICAL_READERS[f"long-{_OWN}{logical}"] = _moment
    named: dict[str, Any] = {}
    written = _parsed(schema, named, own=True)
    strict = _strict(written)
    if isinstance(strict, dict):  # as parsed, it is not parsed for each record
        types = {name: _strict(each) for name, each in named.items()}
        strict |= {"__fastavro_parsed": True, "__named_schemas": types}
    wanted = None if readers_schema is None else _parsed(StoredSchema("AVRO", readers_schema))

    def decode(payload: bytes) -> Document:
        stream = BytesIO(payload)
        try:
            document = schemaless_reader(stream, strict, None)
        except KeyError as error:
            why = f"no branch or symbol has the number {error}"
            raise RecordError("unparsable", f"not Avro of its schema: {why}") from None
        if wanted is not None:
            stream.seek(0)
            document = schemaless_reader(stream, written, wanted)
        if not isinstance(document, dict):
            raise RecordError("unparsable", f"expected an Avro record, got {_kind(document)}")
        if left := len(payload) - stream.tell():
            raise RecordError("unparsable", f"not Avro of its schema: {left:,} bytes after its end")
        found: Document = json_value(document)
        return found

    return guarded(decode, "Avro")


def _decimal(read: Callable[..., Decimal], value: bytes, *schemas: Any) -> Decimal:
    """A decimal number. RecordError if it is too long: its digits take the square of its bytes."""
    if len(value) > MOST_DECIMAL:
        raise RecordError(
            "oversize", f"a decimal number of {len(value):,} bytes, at most {MOST_DECIMAL:,}"
        )
    return read(value, *schemas)


def _uuid(value: bytes, *schemas: Any) -> UUID | bytes:
    """A UUID of 16 bytes; with another size the logical type is ignored, as Avro says."""
    return UUID(bytes=value) if len(value) == 16 else value


def _moment(value: int, schema: Mapping[str, Any], *schemas: Any) -> datetime:
    """A time in ns, without the digits that Python's times do not have."""
    zoned = _EPOCH + timedelta(microseconds=value // 1000)
    return zoned.replace(tzinfo=None) if "local" in schema["logicalType"] else zoned


def _counter(schema: StoredSchema) -> Check:
    named: dict[str, Any] = {}
    return Counter(shape_of(_parsed(schema, named), named))


def _kind(value: object) -> str:
    return type(value).__name__


def _strict(schema: Any) -> Any:
    """A parsed schema whose branches and symbols are found by number only, not from their end, and
    whose decimal numbers are read by `_decimal`.

    fastavro takes them from a list, in which -1 is the last one. A dict has no key -1.
    """
    if isinstance(schema, list):
        return {"type": "union", **dict(enumerate(map(_strict, schema)))}
    if not isinstance(schema, dict):
        return schema
    changed = {key: _strict(schema[key]) for key in ("type", "items", "values") if key in schema}
    if schema.get("logicalType") == "decimal":
        changed["logicalType"] = _DECIMAL
    if "fields" in schema:
        changed["fields"] = [{**each, "type": _strict(each["type"])} for each in schema["fields"]]
    if "symbols" in schema:
        changed["symbols"] = dict(enumerate(schema["symbols"]))
    return {**schema, **changed}


def _with_own(schema: Any) -> Any:
    """A schema as JSON, with our names of the logical types that fastavro does not know."""
    if isinstance(schema, list):
        return list(map(_with_own, schema))
    if not isinstance(schema, dict):
        return schema
    out = {key: _with_own(value) for key, value in schema.items()}
    kind, logical = schema.get("type"), schema.get("logicalType")
    if (kind == "fixed" and logical == "uuid") or (kind == "long" and logical in _NANOS):
        out["logicalType"] = f"{_OWN}{logical}"
    return out


def _parsed(schema: StoredSchema, named: dict[str, Any] | None = None, *, own: bool = False) -> Any:
    """The schema as fastavro uses it; its types are added to `named`. RecordError if it cannot be
    used. `own`: for reading, with our logical types."""
    from fastavro import parse_schema

    named = {} if named is None else named
    try:
        texts = [*(text for _, text in schema.references), schema.text]
        if any(map(too_deep, texts)):
            raise ValueError(f"expected at most {DEEPEST} levels of nesting")
        for text in texts:
            tree = json.loads(text)
            parsed = parse_schema(_with_own(tree) if own else tree, named)
        shape_of(parsed, named)
    except Exception as error:
        raise RecordError("unusable_schema", f"not an Avro schema: {shortened(error)}") from None
    return parsed


def _check_reader(text: str) -> str:
    try:
        _parsed(StoredSchema("AVRO", text))
    except RecordError as error:
        raise ValueError(error.detail) from None
    return json.dumps(json.loads(text), sort_keys=True)


def _writer(schema: StoredSchema) -> Writer:
    from fastavro import schemaless_writer

    try:
        parsed = _parsed(schema)
    except RecordError as error:
        raise ValueError(error.detail) from None
    named = parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}

    def encode(document: Mapping[str, Any]) -> bytes:
        stream = BytesIO()
        try:
            schemaless_writer(stream, parsed, _typed(document, parsed, named))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"does not fit the Avro schema: {shortened(error)}") from None
        return stream.getvalue()

    return encode


def _typed(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """A JSON value as the Python value that fastavro writes for this schema.

    fastavro writes nearly any value: a text as the truth value True, 1.5 as the integer 1, an
    integer beyond 32 bits as `int`. So what is no value of the schema is a ValueError here.
    """
    if isinstance(schema, str):
        return _typed(value, named[schema], named) if schema in named else _plain(value, schema)
    if isinstance(schema, list):
        return None if value is None else _of_union(value, schema, named)
    if logical := schema.get("logicalType"):
        return _logical(value, logical, schema["type"])
    kind = schema["type"]
    if kind == "record" and isinstance(value, Mapping):
        fields = {f["name"]: f["type"] for f in schema["fields"]}
        return {k: _of_field(k, v, fields[k], named) for k, v in value.items() if k in fields}
    if kind == "array" and isinstance(value, list | tuple):
        return [_typed(each, schema["items"], named) for each in value]
    if kind == "map" and isinstance(value, Mapping):
        return {k: _of_field(k, v, schema["values"], named) for k, v in value.items()}
    if kind == "enum" and value in schema["symbols"]:
        return value
    return _plain(value, kind)


def _of_field(name: str, value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    try:
        return _typed(value, schema, named)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from None


def _plain(value: Any, kind: Any) -> Any:
    """A value of a type without a logical type; a number is written as the type has it."""
    if kind in _BOUNDS and isinstance(value, int | float) and not isinstance(value, bool):
        if kind in ("float", "double"):
            value = float(value)
            fits = not isfinite(value) or abs(value) <= _BOUNDS[kind]
        else:
            fits = isinstance(value, int) or value.is_integer()
            value = int(value) if fits else value
            fits = fits and -_BOUNDS[kind] <= value < _BOUNDS[kind]
        if fits:
            return value
    if isinstance(value, _TYPES.get(kind, ())):
        return value
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode()
    raise ValueError(f"expected {kind}, got {_shown(value)}")


def _shown(value: object) -> str:
    return shortened(ValueError(repr(value)))


def _of_union(value: Any, branches: list[Any], named: Mapping[str, Any]) -> Any:
    """The value for the first branch that takes it."""
    from fastavro import validate

    for branch in branches:
        try:
            typed = _typed(value, branch, named)
            whole = named.get(branch, branch) if isinstance(branch, str) else branch
            if isinstance(whole, dict):  # as parsed, it knows the types that it names
                whole = {**whole, "__fastavro_parsed": True, "__named_schemas": named}
            if validate(typed, whole, raise_errors=False, strict=False):
                return typed
        except (TypeError, ValueError, KeyError, OverflowError):
            continue
    names = (b if isinstance(b, str) else b.get("name", b["type"]) for b in branches)
    raise ValueError(f"expected {' or '.join(map(str, names))}, got {_shown(value)}")


def _logical(value: Any, logical: str, kind: Any) -> Any:
    if logical == "decimal" and isinstance(value, int | float | str):
        try:
            number = Decimal(str(value))
        except ArithmeticError:
            number = Decimal("nan")
        if not number.is_finite():
            raise ValueError(f"expected a decimal number, got {_shown(value)}")
        return number
    if not isinstance(value, str):
        return _plain(value, kind)
    if logical == "date":
        return date.fromisoformat(value)
    if logical.startswith("time-"):
        return time.fromisoformat(value)
    if logical in _NANOS:
        moment = datetime.fromisoformat(value)
        zoned = moment if moment.tzinfo and logical == _NANOS[0] else moment.replace(tzinfo=UTC)
        return (zoned - _EPOCH) // timedelta(microseconds=1) * 1000
    if logical.startswith("timestamp"):
        moment = datetime.fromisoformat(value)
        # fastavro would read a time without a zone in that of the machine.
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if logical.startswith("local-timestamp"):
        return datetime.fromisoformat(value)
    if logical == "uuid" and kind in ("string", "fixed"):
        return str(UUID(value)) if kind == "string" else UUID(value).bytes
    return _plain(value, kind)


FORMAT = WireFormat(
    name="avro",
    title="Avro",
    about="Avro with the schemas of a registry",
    schema_type="AVRO",
    modules=("fastavro", "confluent_kafka"),
    reader=_reader,
    counter=_counter,
    writer=_writer,
    predictions=_predictions,
    to_wire=to_records,
    from_wire=from_records,
    content_type="application/avro",
    check_reader=_check_reader,
)
