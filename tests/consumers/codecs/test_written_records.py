"""JSON written with a schema: the value that was given, or a refusal; never another value."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from consumers.codecs.format import framed
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import StoredSchema
from tests.consumers.codecs.test_wire_formats import AVRO_TYPES, PROTO, documents, stored

ANY = {"type": "long", "logicalType": "timestamp-millis"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
TRUTHS = {"type": "record", "name": "T", "fields": [{"name": "b", "type": "boolean"}]}


@pytest.fixture
def far_from_utc(monkeypatch) -> Iterator[None]:
    """A machine in another time zone."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def avro(kind: Any):
    """Format and schema of a record whose field x has this type."""
    wire = wire_format("avro")
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})
    return wire, stored(wire, text)


@pytest.fixture(scope="module")
def proto():
    """A schema with each kind of field. The first message is the one that is written."""
    wire = wire_format("protobuf")
    other = next(line for line in PROTO.splitlines(keepends=True) if "message Other" in line)
    return wire, stored(wire, PROTO.replace(other, "") + other)


@pytest.mark.parametrize(
    ("kind", "payload", "value"), [each for each in AVRO_TYPES if each[2] != b"\xff\xfe"]
)
def test_avro_value_has_the_encoding_of_the_specification(kind, payload, value) -> None:
    """The inverse of reading it. Items of arrays and maps may be in blocks with a size."""
    wire, schema = avro(kind)
    written = wire.writer(schema)({"x": value})

    if isinstance(kind, dict) and kind["type"] in ("array", "map"):
        assert documents(wire, schema)(framed(5, written)) == {"x": value}
    else:
        assert written == payload


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *[("boolean", value) for value in ("false", 0, 5, None, [])],
        *[("int", value) for value in (2**31, -(2**31) - 1, 1.5, True, "5", None)],
        *[("long", value) for value in (2**63, 1e300, 1.5, True, "5", float("inf"))],
        *[("float", value) for value in (1e300, True, "1")],
        *[("double", value) for value in (10**400, True, "1", None)],
        *[("string", value) for value in (5, True, None, "\ud800", ["a"])],
        *[("null", value) for value in ("x", 0, False)],
        *[(["null", "int"], value) for value in (2**31, "x", True, 1.5)],
        *[({"type": "enum", "name": "E", "symbols": ["a"]}, value) for value in ("b", 0, ["a"])],
        *[({"type": "fixed", "name": "F", "size": 2}, value) for value in ("abc", "a", 5)],
        *[({"type": "array", "items": "int"}, value) for value in (5, "ab", {"a": 1}, [True])],
        *[({"type": "map", "values": "int"}, value) for value in (5, [1], {"a": True})],
        *[(TRUTHS, value) for value in (5, "xy", {}, {"b": "false"}, [])],
        *[(DECIMAL, value) for value in ("abc", True, 1.255, 123456.0, float("nan"), None)],
        *[(ANY, value) for value in ("soon", 1.5, True, None)],
        *[({"type": "int", "logicalType": "date"}, value) for value in ("2026-02-30", 2**31)],
        ({"type": "string", "logicalType": "uuid"}, "not-a-uuid"),
    ],
)
def test_avro_value_that_does_not_fit_is_refused(kind, value) -> None:
    """fastavro writes most of them: "false" as True, 1.5 as 1, 2**31 as an `int` that Java cannot
    read."""
    wire, schema = avro(kind)

    with pytest.raises(ValueError, match="does not fit the Avro schema"):
        wire.writer(schema)({"x": value})


def test_avro_type_of_a_union_may_be_named_only() -> None:
    """It is of a referenced schema, or defined in an earlier field, also inside another branch."""
    more = {"type": "record", "name": "More", "fields": [{"name": "note", "type": "string"}]}
    inside = {"type": "record", "name": "In", "fields": [{"name": "m", "type": "More"}]}
    fields = [{"name": "x", "type": ["null", "More"]}, {"name": "y", "type": ["null", inside]}]
    wire = wire_format("avro")
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    referred = wire.compiled(StoredSchema("AVRO", text, (("More", json.dumps(more)),)))
    first = [{"name": "z", "type": more}]
    own = stored(wire, json.dumps({"type": "record", "name": "R", "fields": [*first, *fields]}))
    value = {"x": {"note": "n"}, "y": {"m": {"note": "o"}}}

    for schema, document in ((referred, value), (own, {"z": {"note": "a"}, **value})):
        written = wire.writer(schema)(document)
        assert documents(wire, schema)(framed(5, written)) == document
        with pytest.raises(ValueError, match="x: expected null or More"):
            wire.writer(schema)({**document, "x": {"note": 5}})


def test_avro_refusal_names_the_field() -> None:
    """Also inside others."""
    wire, schema = avro({"type": "map", "values": ["null", TRUTHS]})

    with pytest.raises(ValueError, match=r"schema: x: k: expected null or T, got \{'b': 1\}"):
        wire.writer(schema)({"x": {"k": {"b": 1}}})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2026-01-01T12:00:00", "2026-01-01T12:00:00+00:00"),
        ("2026-01-01T12:00:00-05:00", "2026-01-01T17:00:00+00:00"),
        ("2026-07-01", "2026-07-01T00:00:00+00:00"),
    ],
)
def test_time_without_a_zone_is_one_of_utc(far_from_utc, proto, given, read) -> None:
    """Not one of the machine that writes it: others write other records then."""
    for (wire, schema), name in ((avro(ANY), "x"), (proto, "at")):
        written = wire.writer(schema)({name: given})

        assert documents(wire, schema)(framed(5, written))[name] == read


@pytest.mark.parametrize(
    "document",
    [
        {"raw": "é"},
        {"raw": "YWI="},
        {"raw": "a"},
        {"colour": "BLUE"},
        {"took": 2.5},
        {"took": 3},
        {"maybe": 7.0},
        {"inner": {"b": "z"}},
        {"counts": {"k": 5}, "many": [1, 2]},
        {"free": {"a": [1.5, "b", None]}},
        {"wrapped": 0.5, "large": -(2**63)},
    ],
)
def test_protobuf_gives_back_what_was_written(proto, document) -> None:
    """A text of bytes is no base64."""
    wire, schema = proto
    found = documents(wire, schema)(framed(5, wire.writer(schema)(document)))

    assert {name: found[name] for name in document} == document


@pytest.mark.parametrize(
    "document",
    [
        {"colour": "GREEN"},
        {"many": [True]},
        {"amount": True},
        {"amount": 10**400},
        {"counts": {"k": "x"}},
        {"at": "soon"},
        {"took": True},
        {"inner": 5},
        {"inner": {"b": 5}},
    ],
)
def test_protobuf_value_that_does_not_fit_is_refused(proto, document) -> None:
    """Its library leaves out a name that the enum does not have."""
    wire, schema = proto

    with pytest.raises(ValueError, match="does not fit the Protobuf schema"):
        wire.writer(schema)(document)
