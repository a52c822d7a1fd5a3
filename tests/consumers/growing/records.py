"""Records that grow: JSON, requests, Avro, Protobuf and Arrow."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from consumers.api.bodies import ProblemError, records_of
from consumers.base.errors import RecordError
from consumers.codecs.format import framed
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import parse
from consumers.codecs.registry import wire_format
from consumers.web.routes import JSON, LINES
from stream import Schema
from tests.consumers.arrow_tables import written
from tests.consumers.codecs.test_wire_formats import documents, stored
from tests.consumers.growing.rule import Construct, repeated

__all__ = ["RECORDS"]

MANY = 1 << 20  # records of a request, rows of a message
BLOCK = 64  # records, from which the compiled decoder is used
SCHEMA = Schema.of(
    amount="numeric", sure="binary", kind="categorical", text="text", **{"in.side": "numeric"}
)
SMALL = b'{"id": "0", "amount": 1}'

# Before the piece, the piece, after it.
_JSON: dict[str, tuple[bytes, bytes, bytes]] = {
    "text": (b'{"id": "1", "text": "', b"a", b'"}'),
    "escapes": (b'{"id": "1", "text": "', b"\\n", b'"}'),
    "escaped letters": (b'{"id": "1", "text": "', b"\\u00e9", b'"}'),
    "surrogate pairs": (b'{"id": "1", "text": "', b"\\ud83d\\ude00", b'"}'),
    "lone surrogates": (b'{"id": "1", "text": "', b"\\ud800", b'"}'),
    "other alphabets": (b'{"id": "1", "text": "', "你".encode(), b'"}'),
    "no UTF-8": (b'{"id": "1", "text": "', b"\xff", b'"}'),
    "NULs": (b'{"id": "1", "text": "', b"\0", b'"}'),
    "open text": (b'{"id": "1", "text": "', b"a", b""),
    "open texts": (b'{"id": "1", "text": ', b'"a', b""),
    "backslashes": (b'{"id": "1", "text": "', b"\\", b'"}'),
    "quotes": (b'{"id": "1", "text": ', b'"', b"}"),
    "category": (b'{"id": "1", "kind": "', b"a", b'"}'),
    "id": (b'{"id": "', b"1", b'"}'),
    "number of an id": (b'{"id": ', b"1", b"}"),
    "fields": (b'{"id": "1"', b', "x%d": 1', b"}"),
    "texts": (b'{"id": "1"', b', "x%d": "a"', b"}"),
    "names with escapes": (b'{"id": "1"', b', "\\u0061%d": 1', b"}"),
    "one field": (b'{"id": "1"', b', "amount": 1', b"}"),
    "one unknown field": (b'{"id": "1"', b', "x": 1', b"}"),
    "nested ones": (b'{"id": "1"', b', "in": {"side": 1}', b"}"),
    "dotted ones": (b'{"id": "1"', b', "in.side": 1', b"}"),
    "long name": (b'{"id": "1", "', b"a", b'": 1}'),
    "long dotted name": (b'{"id": "1", "', b"in.", b'": 1}'),
    "list": (b'{"id": "1", "x": [0', b", 1", b"]}"),
    "list of texts": (b'{"id": "1", "x": [0', b', "a"', b"]}"),
    "list of lists": (b'{"id": "1", "x": [0', b", []", b"]}"),
    "list of objects": (b'{"id": "1", "x": [0', b', {"a": 1}', b"]}"),
    "list of decimals": (b'{"id": "1", "x": [0', b", 0.1234567890123456789", b"]}"),
    "list of powers": (b'{"id": "1", "x": [0', b", 1e300", b"]}"),
    "list of long integers": (b'{"id": "1", "x": [0', b", " + b"9" * 4300, b"]}"),
    "list of truths": (b'{"id": "1", "x": [0', b", true, null", b"]}"),
    "lists in lists": (b'{"id": "1", "x": ', b"[", b""),
    "objects in objects": (b"", b'{"in": ', b""),
    "ends": (b'{"id": "1"}', b"}", b""),
    "brackets in a text": (b'{"id": "1", "text": "', b"[", b'"}'),
    "digits": (b'{"id": "1", "amount": ', b"9", b"}"),
    "digits after the point": (b'{"id": "1", "amount": 0.', b"9", b"}"),
    "zeros after the point": (b'{"id": "1", "amount": 0.', b"0", b"1}"),
    "digits of a power": (b'{"id": "1", "amount": 1e', b"9", b"}"),
    "zeros of a power": (b'{"id": "1", "amount": 1e', b"0", b"}"),
    "digits in a text": (b'{"id": "1", "amount": "', b"9", b'"}'),
    "spaces in a number": (b'{"id": "1", "amount": "', b" ", b'1"}'),
    "signs": (b'{"id": "1", "amount": ', b"-", b"1}"),
    "truth": (b'{"id": "1", "sure": "', b"true", b'"}'),
    "spaces": (b'{"id": "1",', b" ", b'"amount": 1}'),
    "lines": (b'{"id": "1",', b"\n", b'"amount": 1}'),
    "commas": (b'{"id": "1"', b",", b"}"),
    "colons": (b'{"id"', b":", b"1}"),
    "bytes before": (b"", b"\xef\xbb\xbf", SMALL),
    "label": (b'{"id": "1", "label": "', b"a", b'"}'),
    "labels": (b'{"id": "1"', b', "label": "a"', b"}"),
    "reporter": (b'{"id": "1", "label": "a", "reporter": "', b"a", b'"}'),
    "weight": (b'{"id": "1", "label": "a", "w": 1', b"0", b"}"),
}
_REQUESTS: dict[str, tuple[str, tuple[bytes, bytes, bytes]]] = {
    "list": (JSON, (b"[" + SMALL, b"," + SMALL, b"]")),
    "list of nothing": (JSON, (b"[0", b",0", b"]")),
    "lists in lists": (JSON, (b"", b"[", b"")),
    "lines": (LINES, (b"", SMALL + b"\n", b"")),
    "empty lines": (LINES, (b"", b"\n", b"")),
    "spaces": (LINES, (b"", b" ", b"")),
    "lines of spaces": (LINES, (b"", b"  \n", b"")),
    "spaces before": (JSON, (b"", b" ", SMALL)),
    "parameters of the type": (JSON + ";a" * 1000, (b"", b" ", SMALL)),
}


def _twice(n: int) -> bytes:
    """Objects in each other, each with a name twice, around a list."""
    depth = min(n, 120)
    numbers = b",".join([b"1.5"] * 64 * n)
    return b'{"id": "1", "x": 0, "x": ' * depth + b"[" + numbers + b"]" + b"}" * depth


def _json() -> dict[str, Construct]:
    observations = JsonObservations(SCHEMA, "id", "label")
    labels = JsonLabels(reporter="reporter")
    others = [b'{"id": "%d", "amount": 1}' % i for i in range(BLOCK)]
    told = [b'{"id": "%d", "label": "a"}' % i for i in range(BLOCK)]

    def slow(value: bytes) -> object:
        return parse(value), observations.slow(None, value)

    readers: dict[str, Callable[[bytes], object]] = {
        "JSON": lambda value: observations.decode([None], [value]),
        "JSON in a block": lambda v: observations.decode([None] * (BLOCK + 1), [*others, v]),
        "JSON, slowly": slow,
        "label": lambda value: labels.decode([None], [value]),
        "label in a block": lambda v: labels.decode([None] * (BLOCK + 1), [*told, v]),
    }
    made = {
        f"{title}, {name}": Construct(repeated(*each), read)
        for title, read in readers.items()
        for name, each in _JSON.items()
    }
    made |= {f"{title}, names twice": Construct(_twice, read) for title, read in readers.items()}
    for name, (kind, each) in _REQUESTS.items():
        made[f"request, {name}"] = Construct(repeated(*each), partial(_request, kind))
    return made


def _request(kind: str, body: bytes) -> object:
    """The records of a request. It may be refused."""
    try:
        return records_of(body, kind, MANY)
    except ProblemError as error:
        raise RecordError("unparsable", f"{error}") from None


# Avro.


def long_(number: int) -> bytes:
    """An integer as Avro writes it."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _sized(before: bytes, piece: bytes) -> Callable[[int], bytes]:
    """A text or bytes."""
    return lambda n: before + long_(len(piece) * n) + piece * n


def _items(piece: bytes) -> Callable[[int], bytes]:
    """An array or a map in one block."""
    return lambda n: long_(n) + piece * n + b"\0"


def _entries(n: int) -> bytes:
    """A map of distinct keys."""
    keys = (b"k%d" % i for i in range(n))
    return long_(n) + b"".join(long_(len(key)) + key + b"\2" for key in keys) + b"\0"


def _of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


_FIELDS = [{"name": f"n{i}", "type": "null"} for i in range(20)]
_RECORD = _of("record", name="N", fields=[{"name": "a", "type": "int"}, *_FIELDS])
_DECIMAL = _of("bytes", logicalType="decimal", precision=9, scale=2)
_AVRO: dict[str, tuple[Any, Callable[[int], bytes]]] = {
    "text": ("string", _sized(b"", b"a")),
    "other alphabets": ("string", _sized(b"", "你".encode())),
    "no UTF-8": ("string", _sized(b"", b"\xff")),
    "bytes": ("bytes", _sized(b"", b"\xff")),
    "decimal": (_DECIMAL, _sized(b"", b"\x7f")),
    "whole decimal": ({**_DECIMAL, "scale": 0}, _sized(b"", b"\x7f")),
    "zeros of a decimal": (_DECIMAL, _sized(b"", b"\0")),
    "decimals": (_of("array", items=_DECIMAL), _items(b"\x08\x01\x02\x03\x04")),
    "integers": (_of("array", items="long"), _items(b"\2")),
    "long integers": (_of("array", items="long"), _items(b"\xfe" + b"\xff" * 8 + b"\1")),
    "endless integer": ("long", repeated(b"", b"\xff")),
    "blocks": (_of("array", items="long"), repeated(b"", b"\2\2", b"\0")),
    "blocks with sizes": (_of("array", items="long"), repeated(b"", b"\1\2\2", b"\0")),
    "empty blocks": (_of("array", items="long"), repeated(b"", b"\1\2\2", b"\2")),
    "texts": (_of("array", items="string"), _items(b"\2a")),
    "doubles": (_of("array", items="double"), _items(struct.pack("<d", 0.1))),
    "truths": (_of("array", items="boolean"), _items(b"\1")),
    "unions": (_of("array", items=["null", "string"]), _items(b"\2\2a")),
    "no values": (_of("array", items=["null", "string"]), _items(b"\0")),
    "records": (_of("array", items=_RECORD), _items(b"\2")),
    "records in unions": (_of("array", items=["null", _RECORD]), _items(b"\2\2")),
    "arrays": (_of("array", items=_of("array", items="int")), _items(b"\2\2\0")),
    "enums": (_of("array", items=_of("enum", name="E", symbols=["a", "b"])), _items(b"\2")),
    "days": (_of("array", items=_of("int", logicalType="date")), _items(b"\2")),
    "times": (*(_of("array", items=_of("long", logicalType="timestamp-millis")), _items(b"\2")),),
    "uuids": (
        _of("array", items=_of("string", logicalType="uuid")),
        _items(b"\x48" + b"12345678-1234-5678-1234-567812345678"),
    ),
    "entries": (_of("map", values="int"), _entries),
    "one entry": (_of("map", values="int"), _items(b"\2k\2")),
    "entries of records": (_of("map", values=_RECORD), _items(b"\2k\2")),
    "bytes after the end": ("int", repeated(b"\2", b"a")),
    "branches": (["null", "string"], repeated(b"", b"\xfe", b"\1")),
}


def _avro() -> dict[str, Construct]:
    def reads(kind: Any) -> Callable[[bytes], object]:
        @cache
        def decode() -> Callable[[bytes], object]:
            wire = wire_format("avro")
            schema = _of("record", name="R", fields=[{"name": "x", "type": kind}])
            return documents(wire, stored(wire, json.dumps(schema)))

        return lambda value: decode()(framed(5, value))

    return {f"Avro, {name}": Construct(made, reads(kind)) for name, (kind, made) in _AVRO.items()}


# Protobuf.

PROTO = """syntax = "proto3";
import "google/protobuf/struct.proto";
message M {
  string text = 1; repeated int32 numbers = 2; repeated string texts = 3;
  map<string, int32> map = 4; repeated N many = 5; M inside = 6; bytes raw = 7;
  repeated E kinds = 8; map<string, N> ns = 9;
  google.protobuf.Struct any = 10; repeated double doubles = 11; int32 one = 12;
}
message N { int32 a = 1; string b = 2; }
enum E { A = 0; B = 1; }
"""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _long_field(number: int, piece: bytes) -> Callable[[int], bytes]:
    return lambda n: _field(number, piece * n)


def _keys(number: int, value: bytes) -> Callable[[int], bytes]:
    return lambda n: b"".join(_field(number, _field(1, b"k%d" % i) + value) for i in range(n))


def _messages(n: int) -> bytes:
    """Each in the one before."""
    heads: list[bytes] = []
    size = 0
    for _ in range(n):
        heads.append(_varint(6 << 3 | 2) + _varint(size))
        size += len(heads[-1])
    return b"".join(reversed(heads))


_PROTO: dict[str, Callable[[int], bytes]] = {
    "text": _long_field(1, b"a"),
    "other alphabets": _long_field(1, "你".encode()),
    "no UTF-8": _long_field(1, b"\xff"),
    "bytes": _long_field(7, b"\xff"),
    "packed numbers": _long_field(2, b"\1"),
    "long packed numbers": _long_field(2, b"\xff" * 9 + b"\1"),
    "numbers": repeated(b"", b"\x10\1"),
    "one number": repeated(b"", b"\x60\1"),
    "one text": repeated(b"", _field(1, b"a")),
    "doubles": _long_field(11, struct.pack("<d", 0.1)),
    "texts": repeated(b"", _field(3, b"a")),
    "kinds": _long_field(8, b"\1"),
    "unknown kinds": _long_field(8, b"\7"),
    "entries": _keys(4, b"\x10\1"),
    "one entry": repeated(b"", _field(4, _field(1, b"k") + b"\x10\1")),
    "entries of messages": _keys(9, _field(2, b"\x08\1")),
    "messages": repeated(b"", _field(5, b"\x08\1")),
    "empty messages": repeated(b"", _field(5, b"")),
    "messages in messages": _messages,
    "parts of one message": repeated(b"", _field(6, _field(1, b"a"))),
    "unknown numbers": repeated(b"", b"\x78\1"),
    "unknown texts": repeated(b"", _field(15, b"a")),
    "unknown groups": repeated(b"", b"\x7b\x7c"),
    "open groups": repeated(b"", b"\x7b"),
    "ends of groups": repeated(b"", b"\x7c"),
    "zeros": repeated(b"", b"\0"),
    "endless integer": repeated(b"\x10", b"\xff"),
    "struct": lambda n: _field(10, _keys(1, _field(2, b"\x20\1"))(n)),
    "lists of a struct": lambda n: _field(
        10, _field(1, _field(1, b"k") + _field(2, _field(6, _field(1, b"\x20\1") * n)))
    ),
}


def _protobuf() -> dict[str, Construct]:
    @cache
    def decode() -> Callable[[bytes], object]:
        wire = wire_format("protobuf")
        return documents(wire, stored(wire, PROTO))

    def read(value: bytes) -> object:
        return decode()(framed(5, b"\0" + value))

    return {f"Protobuf, {name}": Construct(made, read) for name, made in _PROTO.items()}


# Arrow.

COLUMNS: dict[str, Callable[[int], dict[str, Any]]] = {
    "rows": lambda n: {"amount": [0.5] * n},
    "texts": lambda n: {"text": [f"word {i}" for i in range(n)]},
    "one text": lambda n: {"id": ["1"], "text": ["a" * n]},
    "categories": lambda n: {"kind": [f"k{i}" for i in range(n)]},
    "one category": lambda n: {"kind": ["k"] * n},
    "truths": lambda n: {"sure": [True] * n},
    "nothing": lambda n: {"amount": [None] * n},
    "objects": lambda n: {"in": [{"side": 1.0}] * n},
    "numbers in texts": lambda n: {"amount": ["1.5"] * n},
    "words for a number": lambda n: {"amount": ["x"] * n},
    "lists": lambda n: {"text": [["a"]] * n},
    "long list": lambda n: {"id": ["1"], "text": [["a"] * n]},
    "infinities": lambda n: {"amount": [float("inf")] * n},
    "columns": lambda n: {"id": ["1"]} | {f"x{i}": [1] for i in range(n)},
    "columns of texts": lambda n: {"id": ["1"]} | {f"x{i}": ["a"] for i in range(n)},
    "long name": lambda n: {"id": ["1"], "x" * n: [1]},
    "labels": lambda n: {"label": [f"l{i}" for i in range(n)]},
    "whole ids": lambda n: {"id": list(range(n))},
    "repeated ids": lambda n: {"id": ["1"] * n},
}


def _arrow() -> dict[str, Construct]:
    observations = JsonObservations(SCHEMA, "id", "label", documents=lambda document: document)

    @cache
    def reader() -> Any:
        rows = wire_format("arrow").rows
        assert rows is not None
        return rows, rows.reader(observations)

    def read(value: bytes) -> object:
        rows, messages = reader()
        found = messages.read(value, MANY)
        return rows.measure(value), found, found.encode(0), found.as_json(found.count - 1)

    def every(value: bytes) -> object:
        return reader()[0].documents(value, MANY)

    made: dict[str, Construct] = {}
    for name, columns in COLUMNS.items():
        make = partial(_table, columns)
        made[f"Arrow, {name}"] = Construct(make, read)
        made[f"Arrow as documents, {name}"] = Construct(make, every)
    for name, rows in {"a row": 1, "four rows": 4}.items():
        batches = partial(_table, COLUMNS["rows"], rows=rows)
        made[f"Arrow, batches of {name}"] = Construct(batches, read)
    made["Arrow, metadata"] = Construct(_metadata, read)
    made["Arrow, dictionary"] = Construct(_dictionary, read)
    made["Arrow, types in types"] = Construct(_nested, read)
    for codec in ("lz4", "zstd"):
        packed = partial(_table, COLUMNS["texts"], codec=codec)
        made[f"Arrow, {codec}"] = Construct(packed, read)
    made["Arrow, zeros"] = Construct(repeated(b"\xff\xff\xff\xff", b"\0"), read)
    return made


def _table(columns: Callable[[int], dict[str, Any]], n: int, **how: Any) -> bytes:
    import pyarrow as pa

    found = columns(n)
    found.setdefault("id", [str(i) for i in range(len(next(iter(found.values()))))])
    return written(pa.table(found), **how)


def _metadata(n: int) -> bytes:
    import pyarrow as pa

    table = pa.table({"id": ["1"]})
    return written(table.replace_schema_metadata({f"k{i}": "v" for i in range(n)}))


def _dictionary(n: int) -> bytes:
    import pyarrow as pa

    kinds = pa.array([f"k{i}" for i in range(n)]).dictionary_encode()
    return written(pa.table({"id": [str(i) for i in range(n)], "kind": kinds}))


def _nested(n: int) -> bytes:
    """At most 60 lists in lists, around a list that grows."""
    import pyarrow as pa

    kind, value = pa.list_(pa.int64()), list(range(n))
    for _ in range(min(n, 60)):
        kind, value = pa.list_(kind), [value]
    return written(pa.table({"id": ["1"], "text": pa.array([value], kind)}))


RECORDS = _json() | _avro() | _protobuf() | _arrow()
