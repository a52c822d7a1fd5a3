"""Values of a record are bounded before they are decoded, because many need no bytes at all."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from consumers.base.errors import RecordError
from consumers.codecs import bounds, values
from consumers.codecs.format import WireFormat, framed
from consumers.codecs.formats import protobuf
from consumers.codecs.registry import wire_format
from tests.consumers.codecs.test_wire_formats import documents, outcome, stored

NOTHING = [{"name": f"n{i}", "type": "null"} for i in range(290)]
NULLS = {"type": "record", "name": "N", "fields": NOTHING}
ITEM = {
    "type": "record",
    "name": "I",
    "fields": [
        {"name": "one", "type": "boolean"},
        {"name": "n", "type": NULLS},
        *({"name": f"m{i}", "type": "N"} for i in range(290)),
    ],
}


def _ints(count: int) -> str:
    return " ".join(f"optional int32 f{i} = {i};" for i in range(1, count + 1))


WIDE = f"message N {{ {_ints(2999)} }}"
PROTOS = {
    "repeated": ("message M { repeated N a = 3; }", b"\x1a\x00"),
    "map": ("message M { map<string, N> a = 3; }", b"\x1a\x00"),
    "extension": ("message M { extensions 3; } extend M { repeated N a = 3; }", b"\x1a\x00"),
    "group": (
        "message M { repeated group A = 3 { extensions 9; } } extend M.A { repeated N b = 9; }",
        b"\x1b\x4a\x00\x1c",
    ),
    "nested": (
        "message M { repeated O a = 3; } message O { repeated N b = 1; }",
        b"\x1a\x02\x0a\x00",
    ),
}


def _record(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})


def _long(number: int) -> bytes:
    """As Avro writes it."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


AVROS = {
    "array": ({"type": "array", "items": ITEM}, _long(80) + b"\0" * 80 + b"\0"),
    "blocks": ({"type": "array", "items": ITEM}, (_long(-1) + _long(1) + b"\0") * 80 + b"\0"),
    "map": ({"type": "map", "values": NULLS}, _long(5000) + b"\0" * 5000 + b"\0"),
    "union": ({"type": "array", "items": ["null", ITEM]}, _long(80) + b"\2\0" * 80 + b"\0"),
}


@pytest.mark.parametrize(("kind", "payload"), AVROS.values(), ids=AVROS)
def test_small_avro_record_with_millions_of_values_is_a_dead_letter(kind, payload) -> None:
    """Nulls in the items of an array need no bytes; they were 2 s and 0.4 GB for 93 bytes."""
    wire = wire_format("avro")
    decode = documents(wire, stored(wire, _record(kind)))

    _is_refused_at_once(decode, payload)


@pytest.mark.parametrize(("text", "item"), PROTOS.values(), ids=PROTOS)
def test_small_protobuf_record_with_millions_of_values_is_a_dead_letter(text, item) -> None:
    """A message has all its fields, also in an extension, which no document has but the parser."""
    wire = wire_format("protobuf")
    decode = documents(wire, stored(wire, f'syntax = "proto2"; {text} {WIDE}'))

    _is_refused_at_once(decode, b"\0" + item * 2000)


def _is_refused_at_once(decode, payload: bytes) -> None:
    begun = time.process_time()
    found = outcome(decode, framed(5, payload))

    assert isinstance(found, RecordError)
    assert found.reason == "oversize"
    assert "values in" in found.detail
    assert time.process_time() - begun < 0.5


INTEGERS = _long(200_000) + b"\2" * 200_000 + b"\0"
ENTRIES = _long(100_000) + b"\2a\2\0" * 100_000 + b"\0"  # key, branch, empty text
LONG = {
    "avro integers": ("avro", _record({"type": "array", "items": "int"}), INTEGERS),
    "avro entries": ("avro", _record({"type": "map", "values": ["null", "string"]}), ENTRIES),
    "avro bytes": ("avro", _record(["bytes", {"type": "array", "items": "int"}]),
                   b"\0" + _long(2**19) + bytes(2**19)),
    "protobuf fields that are not known": (
        *("protobuf", 'syntax = "proto3"; message M { int32 a = 1; }', b"\0" + b"\x78\1" * 2**18),
    ),
    "protobuf fields beside a message": (
        *("protobuf", f'syntax = "proto2"; message M {{ repeated N a = 3; }} {WIDE}'),
        b"\0\x1a\0" + b"\x78\1" * 2**17,
    ),
    "protobuf elements": (
        "protobuf",
        'syntax = "proto3"; message M { repeated int32 a = 1; N n = 2; } message N {}',
        b"\0\x0a" + b"\x80\x80\x10" + b"\1" * 2**18,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "payload"), LONG.values(), ids=LONG)
def test_record_whose_length_bounds_its_values_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, payload: bytes
) -> None:
    """Counting 260 KB value by value in Python took longer than decoding them."""
    wire = wire_format(name)
    decode = documents(wire, stored(wire, text))
    monkeypatch.setattr(bounds, "_Walk", None)
    monkeypatch.setattr(bounds, "_count", None)

    assert isinstance(outcome(decode, framed(5, payload)), dict)


@pytest.mark.parametrize("kind", ["bytes", {"type": "fixed", "name": "F", "size": 2000}])
def test_long_decimal_number_is_a_dead_letter(kind: Any) -> None:
    """32 KB of one took 84 ms, and four times as many bytes sixteen times as long."""
    wire = wire_format("avro")
    whole = kind if isinstance(kind, dict) else {"type": kind}
    decimal = {**whole, "logicalType": "decimal", "precision": 9, "scale": 2}
    decode = documents(wire, stored(wire, _record(["null", decimal])))
    size = b"" if isinstance(kind, dict) else _long(2000)

    found = outcome(decode, framed(5, b"\2" + size + b"\x7f" * 2000))

    assert isinstance(found, RecordError)
    assert (found.reason, "at most 1,786" in found.detail) == ("oversize", True)


def test_values_of_an_avro_record_are_those_that_are_decoded(monkeypatch) -> None:
    """The twin: what is decoded, counted afterwards, for random schemas and records."""
    wire, rng = wire_format("avro"), random.Random(5)
    for _ in range(150):
        kind = _avro_type(rng, 3, [0])
        schema = stored(wire, _record(kind))
        value = _avro_value(rng, kind)
        payload = wire.writer(schema)({"x": value})
        counted = 1 + _values(kind, value)  # and the record around it

        _has_exactly(monkeypatch, wire, schema, payload, counted)


def test_values_of_a_protobuf_record_are_those_that_are_decoded(monkeypatch) -> None:
    """The twin: fields of every message, elements of lists, entries of maps with their values."""
    wire = wire_format("protobuf")
    schema = stored(
        wire,
        'syntax = "proto3"; message M { int32 a = 1; repeated N n = 2; map<string, N> m = 3; '
        "repeated double d = 4; repeated string s = 5; N one = 6; map<string, int32> i = 7; } "
        "message N { int32 a = 1; string b = 2; N again = 3; repeated fixed32 f = 4; }",
    )
    n = {"a": 1, "b": "x", "again": {"f": [1, 2, 3]}}
    document = {"n": [n, {}], "m": {"k": n, "l": {}}, "d": [1.0, 2.0]}
    document |= {"s": ["a"], "one": {}, "i": {"a": 1}}
    of_n = 2 * 5 + 3  # it and the one inside, each with its four fields, and the list
    counted = 8 + (of_n + 5) + (3 + of_n + 3 + 5) + 2 + 1 + 5 + 3

    _has_exactly(monkeypatch, wire, schema, wire.writer(schema)(document), counted)


def test_protobuf_messages_are_counted_where_there_may_be_too_many(monkeypatch) -> None:
    """The twin: all payloads are counted value by value. Their tags may be longer than needed."""
    monkeypatch.setattr(bounds, "MOST_VALUES", 40)
    monkeypatch.setattr(values, "MOST_VALUES", 40)
    wire, rng = wire_format("protobuf"), random.Random(3)
    fields = "repeated N a = 3; repeated N b = 500; repeated group G = 20 { repeated N c = 9; "
    fields += _ints(8) + " }"
    text = f'syntax = "proto2"; message M {{ {fields} }} message N {{ {_ints(9)} }}'
    file = protobuf.file_of(stored(wire, text))
    counter = bounds.MessageCounter(file)
    begins = [b"\x1a", b"\x9a\0", b"\x9a\x80\0", b"\xa2\x1f", b"\xa2\x9f\0"]
    pieces = [
        *(each + b"\0" for each in begins),
        b"\xa3\1\x4a\0\xa4\1",
        b"\xa3\1\xa4\1",
        b"\x78\1",
        b"\x7a\2ab",
    ]
    seen = Counter[bool]()
    for _ in range(400):
        payload = b"".join(rng.choices(pieces, k=rng.randrange(12)))
        found = [
            _reason(partial(counter, "M", payload, 0)),
            _reason(partial(bounds._count, payload, 0, counter._types["M"])),
        ]
        assert found[0] == found[1], payload
        seen[bool(found[0])] += 1
    assert min(seen[False], seen[True]) > 50


def _reason(check: Callable[[], None]) -> str:
    try:
        check()
    except RecordError as error:
        return error.reason
    return ""


def _has_exactly(monkeypatch, wire: WireFormat, schema, payload: bytes, counted: int) -> None:
    """A bound of one value less refuses the record."""
    decode = documents(wire, schema)
    assert isinstance(outcome(decode, framed(5, payload)), dict)
    with monkeypatch.context() as patched:
        patched.setattr(bounds, "MOST_VALUES", -(2**30))
        patched.setattr(bounds, "MOST_VALUES", -(2**30))
        for most in (counted, counted - 1):
            patched.setattr(values, "MOST_VALUES", most - len(payload))
            refused = isinstance(outcome(decode, framed(5, payload)), RecordError)
            assert refused == (most < counted), (payload, counted)


def _avro_type(rng: random.Random, depth: int, made: list[int]) -> Any:
    plain = ["null", "boolean", "int", "double", "string", "bytes"]
    kind = rng.choice(plain + ["deep"] * 6 * (depth > 0))
    if kind != "deep":
        return kind
    inner = _avro_type(rng, depth - 1, made)
    made[0] += 1
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": rng.choice(["null", "float"])}]
    record = {"type": "record", "name": f"T{made[0]}", "fields": fields}
    items = {**record, "fields": [{"name": "n", "type": "boolean"}, *fields]}  # an item needs bytes
    array, entries = {"type": "array", "items": items}, {"type": "map", "values": inner}
    return rng.choice([record, array, entries, ["null", record]])


def _avro_value(rng: random.Random, kind: Any) -> Any:
    if isinstance(kind, list):
        return None if rng.random() < 0.3 else _avro_value(rng, kind[1])
    if isinstance(kind, str):
        one = {
            "null": None,
            "boolean": True,
            "int": -70,
            "float": 0.5,
            "double": 0.5,
            "string": "añ",
            "bytes": "x" * 70,
        }
        return one[kind]
    if kind["type"] == "record":
        return {field["name"]: _avro_value(rng, field["type"]) for field in kind["fields"]}
    count = rng.choice([0, 1, 2, 70])
    if kind["type"] == "array":
        return [_avro_value(rng, kind["items"]) for _ in range(count)]
    return {f"k{i}": _avro_value(rng, kind["values"]) for i in range(count)}


def _values(kind: Any, value: Any) -> int:
    """How many values, counted after decoding: the obvious way."""
    if isinstance(kind, list):
        return 1 if value is None else _values(kind[1], value)
    if isinstance(kind, str):
        return 1
    if kind["type"] == "record":
        return 1 + sum(_values(f["type"], value[f["name"]]) for f in kind["fields"])
    if kind["type"] == "array":
        return 1 + sum(_values(kind["items"], each) for each in value)
    return 1 + sum(_values(kind["values"], each) for each in value.values())
