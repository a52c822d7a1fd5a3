"""Answers of a registry that anybody may have filled: good schemas, damaged in one to four places.

Each ends as a schema that decodes records or refuses them, or as `unusable_schema`. Only what no
registry answers (a schema that is no text) is a RegistryError, and nothing is another exception.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from confluent_kafka.schema_registry._sync import schema_registry_client

from consumers.base.errors import RecordError, RegistryError
from consumers.codecs.format import FramedDocuments, framed
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import LARGEST_SCHEMA, SchemaBook, StoredSchema
from consumers.config.serve import RegistryConfig
from consumers.schemas.client import SchemaRegistry
from tests.consumers.schemas.registered import SCHEMAS

__all__ = ["Case", "Session", "answers", "encoded", "registry_of", "wrong_with"]

TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
WIDE = {
    "avro": (
        '{"type":"record","name":"W","namespace":"n","aliases":["V"],"fields":[{"name":"u",'
        '"type":["null",{"type":"enum","name":"E","symbols":["a","b"],"default":"a"}],"default":'
        'null},{"name":"m","type":{"type":"map","values":{"type":"array","items":{"type":"fixed",'
        '"name":"F","size":4}}}},{"name":"d","type":{"type":"bytes","logicalType":"decimal",'
        '"precision":9,"scale":2}},{"name":"t","type":{"type":"long","logicalType":'
        '"timestamp-micros"}},{"name":"f","type":"F"},{"name":"r","type":"n.Other","doc":"x"}]}'
    ),
    "protobuf": (
        'syntax = "proto2"; package p; import "other.proto"; import "google/protobuf/struct.proto";'
        " message W { optional int32 a = 1 [default = 3]; repeated double d = 2 [packed = true];"
        " map<string, W> m = 3; oneof o { string s = 4; bytes b = 5; } optional group G = 6 {"
        " optional W w = 1; } extensions 100 to 200; enum E { X = 0; Y = -1; } optional E e = 7;"
        " optional google.protobuf.Struct st = 8; } extend W { optional W x = 100; }"
    ),
    "json_schema": (
        '{"$schema":"http://json-schema.org/draft-07/schema#","$id":"w","definitions":{"p":{'
        '"type":"string","pattern":"^(a+)+$","maxLength":9}},"type":"object","properties":{"a":{'
        '"$ref":"#/definitions/p"},"b":{"type":"array","items":{"type":"number","multipleOf":0.1},'
        '"uniqueItems":true},"c":{"$ref":"other.json"},"d":{"enum":[1,"x",null]}},"patternProper'
        'ties":{"^x":{"format":"date"}},"required":["a"],"if":{"not":{"const":1}},"then":true}'
    ),
}
OTHERS = {
    "avro": '{"type":"record","name":"Other","namespace":"n","fields":[]}',
    "protobuf": 'syntax = "proto3"; message Other { int32 a = 1; }',
    "json_schema": '{"type":"object"}',
}
NAMES = [
    *("other.proto", "other.json", "n.Other", "a", "a/b", "a/b/c", "a.proto", "schema.proto"),
    *("schema.proto/x", "_schema.proto", "/a", "../a", "a/../b", "./a", "a//b", "a\\b", "", " "),
    *("grpc_tools.py", "google/protobuf/struct.proto", "google/protobuf/../x.proto", "-I", "-"),
    *("a\0b", "\ud800", "a\udfff/b", "é/é", "x" * 300, "x/" * 300 + "x", "y" * 5000),
    *("descriptors", "reserved"),
    *(
        "sources",
        "out/descriptors",
        "google/protobuf",
        "google",
        "con",
        "a:b",
        "\n",
        "http://[",
        "#",
    ),
    *(
        "out/descriptors",
        "#",
        "file:///etc/passwd",
        "urn:x",
        "%00",
        "?",
        "\u202e",
        "\U0001f600" * 60,
    ),
]
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 5, 2**31, 2**63, -(2**64), 10**400, 0.5, 1e308, [], {}, [[]]),
    *("", "\0", "\ud800", "\udc00x", "x" * 2000, "null", "AVRO", "a\nb", "é", "\U0001f600" * 500),
    *({"a": {"a": {}}}, ["null"], [None], {"$ref": "#"}, {"type": "record"}, {"": ""}, "string"),
]
PIECES = [
    *("{", "}", '"', ";", "\\", "\0", "\ud800", "= 536870912", "= 0", "= -1", "import", "message"),
    *(
        "repeated",
        "//",
        "/*",
        "[",
        "]",
        '"type":',
        "record",
        "\U0001f600",
        "1e999",
        "\ufeff",
        "syntax",
    ),
    *(
        "option message_set_wire_format = true;",
        "reserved 1;",
        "stream",
        '"$ref":"#"',
        "<",
        "extend",
    ),
]


class Case(NamedTuple):
    """An answer. `shaped`: it is one as a registry gives it, whatever the schema is."""

    wire: str
    answer: bytes
    versions: dict[str, bytes]
    shaped: bool


def answers(rng: random.Random, compiled: float) -> Case:
    """One answer, with the schemas it refers to. `compiled`: the share of texts of Protobuf, each
    of which starts a compiler."""
    name = "protobuf" if rng.random() < compiled else rng.choice(["avro", "json_schema"])
    many = rng.choice([0, 0, 0, 1, 1, 2, 3, 120 if rng.random() < 0.05 else 1])
    versions: dict[str, bytes] = {}
    shaped = True
    subjects = [_subject(rng) for _ in range(many)]
    for subject in subjects:
        text = _text(rng, name) if rng.random() < 0.5 else OTHERS[name]
        inner = [_reference(rng, rng.choice(subjects))] if rng.random() < 0.3 else None
        made, fits = _answer(rng, name, text, inner)
        shaped &= fits
        versions[str(subject)] = encoded(made | {"subject": "s", "version": 1, "id": 3})
    references = [_reference(rng, subject) for subject in subjects]
    answer, fits = _answer(rng, name, _text(rng, name), references)
    return Case(name, encoded(answer), versions, shaped and fits)


def wrong_with(case: Case, rng: random.Random) -> str:
    """What must not happen and did; "" if nothing."""
    wire = wire_format(case.wire)
    registry = registry_of(case.wire)
    registry._client._rest_client.session = Session(case)
    try:
        stored = registry.schema(7)
    except RegistryError as error:
        return f"a registry's answer is an outage: {error}" if case.shaped else ""
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(stored, StoredSchema):
        return f"no schema: {stored!r}"
    try:
        return _used(wire, stored, rng)
    except BaseException as error:
        return f"where it is used: {type(error).__name__}: {error}"


@cache
def registry_of(name: str) -> SchemaRegistry:
    return SchemaRegistry(wire_format(name), RegistryConfig(url="http://registry.example"))


def _used(wire: Any, stored: StoredSchema, rng: random.Random) -> str:
    """Journal the schema, decode records of it, and write one."""
    journaled = msgspec.json.encode(stored)
    if len(journaled) > 2 * LARGEST_SCHEMA + 20_000:
        return f"its journal record has {len(journaled):,} bytes"
    book = SchemaBook()
    book.add(7, msgspec.json.decode(journaled, type=StoredSchema))
    decode = FramedDocuments(wire, book, None)
    for payload in (b"", b"\0", b'{"a":"aab","b":[0.3]}', rng.randbytes(20), b"\0\x0a\x02\x08\x01"):
        try:
            msgspec.json.encode(decode(framed(7, payload)))
        except RecordError as error:
            error.detail.encode()
            if stored.error and error.reason != "unusable_schema":
                return f"it is {error.reason} and not unusable_schema"
    with suppress(ValueError):
        wire.writer(stored)({"id": "a", "a": "aa", "amount": 1.0})
    return ""


class Session:
    """The HTTP client of a registry with one schema and those that it refers to."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def _response(self, status: int, content: bytes) -> Any:
        found: Any = schema_registry_client.Response  # httpx has several names
        return found(status, content=content)

    def request(self, method: str, url: str, **_: object) -> Any:
        """The answer to a request."""
        path = url.removeprefix("http://registry.example/")
        if path.startswith("schemas/ids/"):
            return self._response(200, self._case.answer)
        subject = unquote(path.split("/")[1], errors="surrogatepass")
        found = self._case.versions.get(subject)
        if found is None:
            return self._response(404, b'{"error_code": 40401, "message": "none"}')
        return self._response(200, found)


def encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()


def _answer(
    rng: random.Random, name: str, text: str, references: list[Any] | None
) -> tuple[dict[str, Any], bool]:
    """An answer, and whether a registry gives such ones."""
    made: dict[str, Any] = {"schema": text, "schemaType": TYPES[name]}
    shaped = True
    if references:
        made["references"] = references
        values = [value for each in references for value in each.values()]
        shaped = not any(isinstance(value, list | dict) for value in values)
    if rng.random() < 0.1:
        made["schemaType"] = rng.choice([*TYPES.values(), *ODD])
        shaped &= made["schemaType"] is None or isinstance(made["schemaType"], str)
    if rng.random() < 0.03:
        key = rng.choice(["schema", "references", "metadata", "ruleSet", "id", "guid", "version"])
        made[key], shaped = rng.choice(ODD), False
    return made, shaped


def _subject(rng: random.Random) -> Any:
    return rng.choice(["s", "t", "other", *NAMES, *(ODD if rng.random() < 0.2 else [])])


def _reference(rng: random.Random, subject: Any) -> dict[str, Any]:
    name = rng.choice(NAMES if rng.random() < 0.9 else ODD)
    version = 1 if rng.random() < 0.9 else rng.choice(ODD)
    made = {"name": name, "subject": subject, "version": version}
    if rng.random() < 0.05:
        del made[rng.choice(list(made))]
    return made


def _text(rng: random.Random, name: str) -> str:
    """A schema, perhaps damaged as a text, as a tree, or too large."""
    text = rng.choice([WIDE[name], SCHEMAS[name]["visits"], SCHEMAS[name]["bought"]])
    kind = rng.random()
    if kind < 0.15:
        return text
    if kind < 0.18:
        return text + rng.choice([" ", "\U0001f600", "\1", "//x\n"]) * rng.randrange(300_000)
    if name != "protobuf" and kind < 0.8:
        tree = json.loads(text)
        for _ in range(rng.randint(1, 4)):
            tree = _damaged(rng, tree)
        return json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    for _ in range(rng.randint(1, 4)):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + rng.choice([0, 1, 5, 40]))
        put = rng.choice(PIECES) * rng.choice([1, 1, 1, 2, 400]) if rng.random() < 0.7 else ""
        text = text[:at] + put + text[end:]
    return text


def _damaged(rng: random.Random, tree: Any) -> Any:
    """The tree with one of its values replaced, removed, moved or wrapped."""
    if rng.random() < 0.15 or not isinstance(tree, dict | list) or not tree:
        kind = rng.randrange(4)
        if kind == 0:
            return [tree, tree]
        if kind == 1:
            for _ in range(rng.choice([1, 3, 60, 150])):
                tree = {"type": "array", "items": tree}
            return tree
        return rng.choice(ODD)
    if isinstance(tree, list):
        at = rng.randrange(len(tree))
        return [
            *tree[:at],
            *([_damaged(rng, tree[at])] * rng.choice([0, 1, 1, 1, 2])),
            *tree[at + 1 :],
        ]
    key = rng.choice(list(tree))
    others = dict(tree)
    value = _damaged(rng, others.pop(key))
    if rng.random() < 0.9:
        other = rng.choice([*tree, "type", "$ref", "\ud800", "", "logicalType", "$defs", "\0"])
        others[key if rng.random() < 0.8 else other] = value
    return others
