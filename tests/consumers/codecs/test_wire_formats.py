"""Records with schemas: values as in JSON, and no bytes are an exception."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest

from consumers.base.errors import RecordError
from consumers.codecs.format import FramedDocuments, WireFormat, framed, schema_ids
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import LARGEST_RECORD
from consumers.codecs.registry import prediction_as_json, prediction_writer, wire_format
from consumers.codecs.schemas import MOST_SCHEMAS, SchemaBook, StoredSchema
from stream import Schema
from tests.consumers.schemas.registered import FORMATS, SCHEMAS

PREDICTION = {
    "id": "7",
    "prediction": False,
    "probabilities": [[False, 0.98], [True, 0.02]],
    "model": {"name": "shop", "type": "auto", "learned": 1200},
    "position": {"topic": "visits", "partition": 0, "offset": 0},
    "ts": 1_795_260_104_702,
}
WHY = {"against": True, "log_odds": 1.5, "top": [["amount", 0.25], ["(prior)", -0.5]]}
VISIT = {"id": "7", "amount": 2.5, "shop": {"city": "Bonn"}}


def stored(wire: WireFormat, text: str, *references: tuple[str, str]) -> StoredSchema:
    """A schema as the journal has it."""
    return wire.compiled(StoredSchema(wire.schema_type, text, references))


def documents(wire: WireFormat, schema: StoredSchema, readers: str | None = None):
    """A decoder that knows the schema by the id 5."""
    book = SchemaBook()
    book.add(5, schema)
    return FramedDocuments(wire, book, readers)


@pytest.fixture(scope="module", params=FORMATS)
def visits(request):
    """Format, schema and one record of visits."""
    wire = wire_format(request.param)
    schema = stored(wire, SCHEMAS[request.param]["visits"])
    return wire, schema, framed(5, wire.writer(schema)(VISIT))


@pytest.mark.parametrize("name", ["json", *FORMATS])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"prediction": None, "probabilities": []},
        {"prediction": "a", "probabilities": [["a", 1.0]], "explanation": WHY},
        {"prediction": -(2**63), "probabilities": [[2**63 - 1, 0.5]]},
        {"prediction": "a", "probabilities": [["a", 1.0]], "evidence": [["a", 0.0]]},
        {"evidence": [[7, -1.5], [True, 1.5]]},
        {"decision": {"action": None, "risk": None}},
        {"decision": {"action": "pay", "risk": 0.0}},
    ],
)
def test_prediction_of_every_format_is_the_one_in_json(name, changes) -> None:
    """Also labels of each kind, zeros, and what is null or absent."""
    made = PREDICTION | changes
    write = prediction_writer(name, 9) or (lambda document: json.dumps(document).encode())

    assert json.loads(prediction_as_json(name, write(made))) == made


def test_typed_record_gives_the_columns_of_the_same_json(visits) -> None:
    """The twin: numbers, a dotted name, id and missing value, by the fast and the slow path."""
    wire, schema, value = visits
    fields = Schema.of(amount="numeric", **{"shop.city": "categorical"})
    typed = JsonObservations(fields, "id", None, documents=documents(wire, schema))
    plain = JsonObservations(fields, "id", None)
    without = framed(5, wire.writer(schema)({"id": "8", "shop": {"city": "Rom"}}))

    found = typed.decode([None, None], [value, without])
    expected = plain.decode(
        [None, None], [json.dumps(VISIT).encode(), b'{"id":"8","shop":{"city":"Rom"}}']
    )

    assert found.ids == expected.ids == ["7", "8"]
    assert found.rows.numeric.tobytes() == expected.rows.numeric.tobytes()
    assert found.rows.categorical.tolist() == expected.rows.categorical.tolist()
    assert found.rejected == {}
    assert typed.slow(None, value) == plain.slow(None, json.dumps(VISIT).encode())


UNIQUE = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
AVRO_TYPES: list[tuple[Any, bytes, Any]] = [
    ("boolean", b"\x01", True),
    ("long", b"\x03", -2),
    ("float", struct.pack("<f", 0.5), 0.5),
    ("bytes", b"\x04DE", "DE"),
    ("bytes", b"\x04\xff\xfe", b"\xff\xfe"),
    (["null", "string"], b"\x00", None),
    (["null", "string"], b"\x02\x02a", "a"),
    ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, b"\x02", "b"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        b"\x02",
        "1970-01-01T00:00:00.001000+00:00",
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        b"\x02",
        "1970-01-01T00:00:00.000001+00:00",
    ),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, b"\x00", "1970-01-01T00:00:00"),
    ({"type": "int", "logicalType": "date"}, b"\x02", "1970-01-02"),
    (
        {"type": "long", "logicalType": "timestamp-nanos"},
        b"\xd0\x0f",
        "1970-01-01T00:00:00.000001+00:00",
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-nanos"},
        b"\xcf\x0f",
        "1969-12-31T23:59:59.999999",
    ),
    (UNIQUE, b"0123456789abcdef", "30313233-3435-3637-3839-616263646566"),
    ({"type": "int", "logicalType": "time-millis"}, b"\xd0\x0f", "00:00:01"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, b"\x02\x7d", 1.25),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 0}, b"\x02\x7d", 125),
    ({"type": "array", "items": "int"}, b"\x04\x02\x04\x00", [1, 2]),
    ({"type": "map", "values": "int"}, b"\x02\x02a\x02\x00", {"a": 1}),
    ({"type": "fixed", "name": "X", "size": 2}, b"DE", "DE"),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), AVRO_TYPES)
def test_avro_value_is_what_it_would_be_in_json(kind, payload, expected) -> None:
    """By the specification's own encoding, not by the library that decodes."""
    wire = wire_format("avro")
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})

    assert documents(wire, stored(wire, text))(framed(5, payload)) == {"x": expected}


COLOUR = {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}
# Type, payload of an index from the beginning, its value, and payloads of indexes from the end.
FROM_THE_END = [
    (["null", "int"], b"\x02\x0e", 7, [b"\x01\x0e", b"\x03", b"\x04"]),
    (COLOUR, b"\x02", "blue", [b"\x01", b"\x03", b"\x05", b"\x04"]),
    (["null", COLOUR], b"\x02\x00", "red", [b"\x02\x01", b"\x01\x00"]),
    ({"type": "array", "items": COLOUR}, b"\x02\x02\x00", ["blue"], [b"\x02\x01\x00"]),
    (
        {"type": "map", "values": ["int", "null"]},
        b"\x02\x02a\x00\x02\x00",
        {"a": 1},
        [b"\x02\x02a\x01\x00"],
    ),
]


@pytest.mark.parametrize("readers", [False, True])
@pytest.mark.parametrize(("kind", "good", "expected", "bad"), FROM_THE_END)
def test_avro_index_from_the_end_of_a_list_is_a_dead_letter(
    kind, good, expected, bad, readers
) -> None:
    """A negative number of a branch or of a symbol, as in Python's lists; also by the name."""
    wire = wire_format("avro")
    fields = [{"name": "x", "type": kind}, {"name": "y", "type": ["null", "int"]}]
    if kind is COLOUR:
        fields[1]["type"] = "Colour"
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    decode = documents(wire, stored(wire, text), text if readers else None)
    last = "red" if kind is COLOUR else None

    assert decode(framed(5, good + b"\x00")) == {"x": expected, "y": last}
    for payload in [*(each + b"\x00" for each in bad), good + b"\x01", good + b"\x03\x0e"]:
        with pytest.raises(RecordError, match="no branch or symbol has the number") as caught:
            decode(framed(5, payload))
        assert caught.value.reason == "unparsable"


def test_avro_union_of_records_is_read_by_its_branch() -> None:
    """A schema may be a union itself, of types of another schema too."""
    wire = wire_format("avro")
    other = json.dumps({"type": "record", "name": "B", "fields": [{"name": "c", "type": COLOUR}]})
    text = json.dumps([{"type": "record", "name": "A", "fields": []}, "B"])
    decode = documents(wire, stored(wire, text, ("B", other)))

    assert decode(framed(5, b"\x02\x02")) == {"c": "blue"}
    for payload in (b"\x01\x02", b"\x02\x01", b"\x04"):
        with pytest.raises(RecordError, match="no branch or symbol"):
            decode(framed(5, payload))


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
enum Colour { RED = 0; BLUE = 7; }
message Other { int32 a = 1; message Inner { string b = 1; } }
message All {
  double amount = 1; optional double maybe = 2; Colour colour = 3; repeated int32 many = 4;
  map<string, int64> counts = 5; oneof one { string text = 6; int64 number = 7; }
  google.protobuf.Timestamp at = 8; google.protobuf.Duration took = 9;
  google.protobuf.DoubleValue wrapped = 10; google.protobuf.Struct free = 11;
  bytes raw = 12; Other.Inner inner = 13; int64 large = 14;
}
"""


@pytest.fixture(scope="module")
def proto():
    """A schema with each kind of field."""
    wire = wire_format("protobuf")
    return wire, stored(wire, PROTO)


def test_protobuf_values_are_what_they_would_be_in_json(proto) -> None:
    """Absent fields without presence have their defaults; those with presence are missing."""
    decode = documents(*proto)
    message = (
        b"\x18\x07"  # colour = BLUE
        b"\x22\x02\x01\x02"  # many
        b"\x2a\x05\x0a\x01k\x10\x05"  # counts
        b"\x38\x09"  # number, of the oneof
        b"\x42\x02\x08\x01"  # at: one second
        b"\x4a\x08\x08\x02\x10\x80\xca\xb5\xee\x01"  # took: 2.5 s
        b"\x52\x00"  # wrapped: present, zero
        b"\x62\x02\xff\xfe"  # raw: not UTF-8
        b"\x6a\x03\x0a\x01z"  # inner
        b"\x70\xff\xff\xff\xff\xff\xff\xff\xff\x7f"  # large
    )

    assert decode(framed(5, b"\x02\x02" + message)) == {
        "amount": 0.0,
        "colour": "BLUE",
        "many": [1, 2],
        "counts": {"k": 5},
        "number": 9,
        "at": "1970-01-01T00:00:01+00:00",
        "took": 2.5,
        "wrapped": 0.0,
        "raw": b"\xff\xfe",
        "inner": {"b": "z"},
        "large": 2**63 - 1,
    }


def test_message_indexes_name_a_message_inside_another(proto) -> None:
    """`[0]` may be one zero byte; `[0, 0]` is Other.Inner; others are bad."""
    decode = documents(*proto)

    assert decode(framed(5, b"\x00\x08\x03")) == {"a": 3}
    assert decode(framed(5, b"\x02\x00\x08\x03")) == {"a": 3}
    assert decode(framed(5, b"\x04\x00\x00\x0a\x01z")) == {"b": "z"}
    for payload in (b"", b"\x02", b"\x02\x09", b"\x04\x00\x02", b"\x01", b"\xff" * 9, b"\x40" * 40):
        with pytest.raises(RecordError) as caught:
            decode(framed(5, payload))
        assert caught.value.reason == "unparsable"


def test_schema_refers_to_others_that_were_registered(visits) -> None:
    """By name, in each format; a missing one makes the schema unusable."""
    wire, _, _ = visits
    texts = {
        "avro": (
            {"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]},
            {"type": "record", "name": "B", "fields": [{"name": "id", "type": "string"}]},
        ),
        "json_schema": (
            {"properties": {"b": {"$ref": "b.json"}}},
            {"type": "object", "required": ["id"]},
        ),
    }
    name = {"avro": "B", "json_schema": "b.json", "protobuf": "b/b.proto"}[wire.name]
    if wire.name == "protobuf":
        main = 'syntax = "proto3"; import "b/b.proto"; message A { B b = 1; }'
        other = 'syntax = "proto3"; message B { string id = 1; }'
    else:
        main, other = map(json.dumps, texts[wire.name])
    schema = stored(wire, main, (name, other))
    record = framed(5, wire.writer(schema)({"b": {"id": "x"}}))

    assert documents(wire, schema)(record) == {"b": {"id": "x"}}
    with pytest.raises(RecordError) as caught:
        documents(wire, stored(wire, main))(record)
    assert caught.value.reason == "unusable_schema"


RECURSIVE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
NULLS = {"type": "array", "items": "null"}


def _within(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("avro", json.dumps(RECURSIVE)),
        ("avro", _within(NULLS)),
        ("avro", _within("nothing")),
        ("avro", "[" * 100_000),
        ("avro", "no schema"),
        ("json_schema", '{"type": 7}'),
        ("json_schema", '{"$ref": "http://127.0.0.1:9/x"}'),
        ("json_schema", "[]"),
        ("json_schema", "[" * 100_000),
    ],
)
def test_schema_without_a_bound_is_not_used(name, text) -> None:
    """A million levels or values need a few bytes, and would end the process."""
    wire = wire_format(name)

    for payload in (b"\x02" * 1_000_000, b"\xfe" * 9 + b"\x01"):
        with pytest.raises(RecordError) as caught:
            documents(wire, stored(wire, text))(framed(5, payload))
        assert caught.value.reason == "unusable_schema"


@pytest.mark.parametrize("text", ["no schema", 'syntax = "proto3"; message A { B b = 1; }', "abcd"])
def test_protobuf_schema_that_does_not_compile_is_not_used(text) -> None:
    """The compiler's message is kept."""
    with pytest.raises(RecordError, match="not a Protobuf schema") as caught:
        stored(wire_format("protobuf"), text)

    assert caught.value.reason == "unusable_schema"


@pytest.mark.parametrize(
    "name", ["grpc_tools.py", "grpc_tools/protoc.py", "os.py", "sitecustomize.py"]
)
def test_schema_that_a_protobuf_schema_refers_to_is_never_run(tmp_path, name) -> None:
    """Its name may be that of a module of the compiler, and its text a program."""
    seen = tmp_path / "seen"
    program = f"open({str(seen)!r}, 'w').close()"
    main = 'syntax = "proto3"; message M { int32 a = 1; }'

    found = stored(wire_format("protobuf"), main, (name, program))

    assert found.error == ""
    assert not seen.exists()


def test_schema_of_another_type_is_not_used(visits) -> None:
    """Its bytes could be read by it, into nonsense."""
    wire, schema, value = visits
    other = StoredSchema("THRIFT", schema.text)

    with pytest.raises(RecordError, match="expected a schema of the type") as caught:
        documents(wire, other)(value)

    assert caught.value.reason == "unusable_schema"


def test_bad_bytes_of_every_kind_are_reasons(visits) -> None:
    """Random, cut, changed and lengthened records: a document or a reason, at once."""
    wire, schema, value = visits
    decode = documents(wire, schema)
    rng = random.Random(7)
    reasons = {"unparsable", "unknown_schema", "oversize"}
    found = [outcome(decode, record) for record in hostile(value, rng, 1500)]

    errors = [each for each in found if isinstance(each, RecordError)]
    assert len(errors) > 500
    assert {error.reason for error in errors} == reasons
    assert max(len(error.detail) for error in errors) < 500
    assert all(isinstance(each, dict | RecordError) for each in found)


def outcome(decode, record: bytes | None) -> object:
    """The document of a record, or why it has none."""
    try:
        return decode(record)
    except RecordError as error:
        return error


def hostile(value: bytes, rng: random.Random, count: int):
    """Records made of a good one."""
    yield from (None, b"", b"\x00", value[:4], value[:5], value + b"\x00", b"{}", b"\x00" * 2000)
    yield b"\x00" * (LARGEST_RECORD + 1)
    for n in range(len(value)):
        yield value[:n]
    for _ in range(count):
        head, body = bytearray(value[:5]), bytearray(value[5:])
        how = rng.randrange(6)
        if how == 0:
            body = bytearray(rng.randbytes(rng.randrange(60)))
        elif how == 1:
            body[rng.randrange(len(body))] = rng.randrange(256)
        elif how == 2:  # a huge length
            at = rng.randrange(len(body))
            body[at : at + 1] = b"\xff" * rng.randrange(1, 12)
        elif how == 3:
            head[rng.randrange(5)] = rng.randrange(256)
        elif how == 4:  # deep, or long
            body = bytearray(rng.choice([b"\x02", b"[", b'{"a":', b"\x0a\xff", b"\x5a\x7f"]) * 5000)
        else:
            body *= rng.randrange(2, 5)
        yield bytes(head + body)


def test_label_of_every_format_is_a_label() -> None:
    """Id, label, and the weight where it is given."""
    for name in FORMATS:
        wire = wire_format(name)
        schema = stored(wire, SCHEMAS[name]["bought"])
        value = framed(5, wire.writer(schema)({"id": "7", "label": "yes"}))

        found = JsonLabels(documents=documents(wire, schema)).decode([None, b"k"], [value, b"\x00"])

        assert (found.ids[0], found.labels[0], found.weights[0]) == ("7", "yes", 1.0)
        assert found.rejected[1].reason == "unparsable"


def test_full_book_replaces_its_oldest_schema() -> None:
    """And a saved one is the same one."""
    book = SchemaBook()
    for id_ in range(MOST_SCHEMAS + 1):
        book.add(id_, StoredSchema("AVRO", f'"{id_}"', (("n", "t"),)))
    again = SchemaBook()
    again.load(json.loads(json.dumps(book.to_header())))

    assert 0 not in book
    assert 1 in book
    assert (len(book), book.replaced) == (MOST_SCHEMAS, 1)
    assert list(again) == list(book)
    assert again.replaced == 1


def test_ids_in_a_batch_are_those_of_records_that_are_decoded() -> None:
    """Each once; not of JSON, nor of records that are too large."""
    large = framed(9, b"x" * LARGEST_RECORD)

    assert schema_ids([framed(3, b"a"), None, b"{}", framed(1, b""), framed(3, b"b"), large]) == [
        3,
        1,
    ]
