"""Whatever was registered, a schema is used or is a dead letter with a reason: no start ends."""

from __future__ import annotations

import errno
import json
import random
from typing import Any

import pytest

from consumers.base.errors import RecordError, RegistryError
from consumers.codecs.format import shortened
from consumers.codecs.formats import protobuf
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import StoredSchema
from tests.consumers.schemas.answers import Case, Session, answers, encoded, registry_of, wrong_with

PROTO = 'syntax = "proto3"; message M { int32 a = 1; }'
OTHER = 'syntax = "proto3"; message N { int32 a = 1; }'
AVRO = '{"type": "record", "name": "R", "fields": [], "doc": "%s"}'


def _case(name: str, text: str, *names: Any, **more: Any) -> Case:
    """An answer with references of these names."""
    kind = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}[name]
    references = [{"name": each, "subject": "s", "version": 1} for each in names]
    answer = {"schema": text, "schemaType": kind, "references": references} | more
    return Case(name, encoded(answer), {"s": encoded({"schema": OTHER})}, True)


def _doubling(reference: str) -> str:
    """A schema that refers twice to one that refers twice to another one, 60 times."""
    steps = {
        f"a{i}": {"$anchor": f"n{i}", "allOf": [{"$ref": reference % (i + 1)}] * 2}
        for i in range(60)
    }
    return json.dumps({"$id": "x", "$ref": reference % 0, "$defs": steps | {"a60": True}})


UNUSABLE = {
    "name of 300 characters": (_case("protobuf", PROTO, "a" * 300), "a reference has the name"),
    "name of 10,000 characters": (_case("protobuf", PROTO, "a/" * 5000), "10,000 characters"),
    "file and folder": (_case("protobuf", PROTO, "a", "a/b"), "the folder of another one"),
    "NUL": (_case("protobuf", PROTO, "a\0b"), "a reference has the name"),
    "number": (_case("protobuf", PROTO, 5), "as text, got int"),
    "no name": (_case("avro", AVRO, None), "as text, got NoneType"),
    "surrogate in a name": (_case("json_schema", "{}", "\ud800"), "lone surrogate"),
    "surrogate in a doc": (_case("avro", AVRO % "\ud800"), "lone surrogate"),
    "surrogate in a text": (_case("protobuf", f"{PROTO} //\ud800"), "lone surrogate"),
    "surrogate in a type": (_case("avro", AVRO, schemaType="\ud800"), "lone surrogate"),
    "type of a megabyte": (_case("avro", AVRO, schemaType="x" * 2**20), "its type has"),
    "characters of six bytes": (_case("avro", AVRO % ("\1" * 2**17)), "bytes in JSON"),
}


@pytest.mark.parametrize(("case", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_schema_that_ended_every_start_is_unusable(case, why) -> None:
    """Each was another exception, at this start and at the next one."""
    assert wrong_with(case, random.Random(1)) == ""

    registry = registry_of(case.wire)
    registry._client._rest_client.session = Session(case)
    assert why in registry.schema(7).error


@pytest.mark.parametrize("reference", ["#/$defs/a%d", "#n%d", "x#/$defs/a%d"])
def test_references_that_double_are_refused(reference: str) -> None:
    """By pointers, by names and by documents: a record would be checked for years."""
    schema = StoredSchema("JSON", _doubling(reference))

    with pytest.raises(RecordError, match=r"unusable_schema: .* more than 100,000 times"):
        wire_format("json_schema").reader(schema, None)


def test_schema_that_leads_back_to_itself_is_used() -> None:
    """Through all of 2,000 definitions, deeper than the stack."""
    node = {
        f"a{i}": {"items": {"$ref": f"#/$defs/a{(i + 1) % 2000}"}, "properties": {"x": True}}
        for i in range(2000)
    }
    schema = StoredSchema("JSON", json.dumps({"$ref": "#/$defs/a0", "$defs": node}))

    read = wire_format("json_schema").reader(schema, None)

    assert read(b'{"x": [[1]]}') == {"x": [[1]]}


def test_reference_with_the_name_of_the_schema_itself_is_another_file() -> None:
    """The compiler's own name for the schema was taken, and its text was that of the reference."""
    text = 'syntax = "proto3"; import "schema.proto"; message M { N n = 1; }'
    wire = wire_format("protobuf")

    stored = wire.compiled(StoredSchema("PROTOBUF", text, (("schema.proto", OTHER),)))

    assert list(protobuf.file_of(stored).message_types_by_name) == ["M"]


def test_reference_that_is_named_twice_hides_no_other() -> None:
    """Two schemas may need the same third one; it is read once."""
    case = _case("json_schema", "{}", "a.json", "a.json", "b.json")
    registry = registry_of(case.wire)
    registry._client._rest_client.session = Session(case)

    assert [name for name, _ in registry.schema(7).references] == ["a.json", "b.json"]


def test_full_disk_is_no_fault_of_a_schema(monkeypatch) -> None:
    """Its records wait, as while the registry does not answer."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(protobuf, "_descriptors", full)

    with pytest.raises(RegistryError, match="No space left"):
        wire_format("protobuf").compiled(StoredSchema("PROTOBUF", PROTO))


def test_half_a_character_in_a_message_can_be_written() -> None:
    """A library quotes the schema, and the detail of a dead letter is UTF-8."""
    assert shortened(ValueError("no type \ud800")) == "no type ?"


@pytest.mark.parametrize(("compiled", "count"), [(0.0, 3000), (1.0, 12)])
def test_hostile_answers_end_as_a_schema_or_a_reason(compiled, count) -> None:
    """The short form of `tests.long.registry_fuzz`."""
    rng = random.Random(7)

    found = [
        (case, wrong_with(case, rng)) for case in (answers(rng, compiled) for _ in range(count))
    ]

    assert [each for each in found if each[1]] == []
