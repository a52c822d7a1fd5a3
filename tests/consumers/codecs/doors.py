"""The ways of a document into a service, for one property: a value is used as written, or named.

Rule: a document is encoded here by hand, and what a value stands for is written down here by hand.
So nothing is shared with what is tested.
"""

from __future__ import annotations

import base64
import csv
import json
import re
import struct
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from consumers.base.errors import RecordError
from consumers.codecs.arrow.messages import ArrowMessages, message_of
from consumers.codecs.encoded import encoded
from consumers.codecs.format import FramedDocuments, framed
from consumers.codecs.json import DecodedObservations, JsonObservations
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import SchemaBook, StoredSchema
from consumers.codecs.unused import BadValue, Note
from consumers.files.source import read_records
from stream.data.schema import Schema

__all__ = ["DOORS", "Document", "broken", "empty_objects", "leaves", "written"]

Document = dict[str, Any]
Names = tuple[str, ...]
NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
SHOWN = {"12 %": 12.0, "$3": 3.0, "1,234.5": 1234.5}  # cells that are numbers for people
IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def leaves(value: Any, above: Names = ()) -> Iterator[tuple[Names, Any]]:
    """Every value of a document that is no object, with its path."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from leaves(each, (*above, name))
        else:
            yield (*above, name), each


def empty_objects(value: Any, above: Names = ()) -> Iterator[Names]:
    """The path of every object of a document that has no leaf."""
    for name, each in value.items():
        if isinstance(each, dict):
            if next(leaves(each), None) is None:
                yield (*above, name)
            yield from empty_objects(each, (*above, name))


def broken(document: Document, path: Names, other: Any) -> Document:
    """The document with another value at a path."""
    first, *rest = path
    if rest:
        return {**document, first: broken(document[first], tuple(rest), other)}
    return {**document, first: list(other) if isinstance(other, tuple) else other}


def written(kind: str, value: Any) -> Any:
    """The value of a field for a value of JSON, by the rules of docs/records.md."""
    if kind in ("numeric", "binary"):
        return float(value)
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


class Door:
    """Decodes a document as its bytes in one format, and names what is not used of it.

    Parameters
    ----------
    schema, id_field, label, missing
        As of `JsonObservations`.
    """

    broken: Any = ()  # a list, which no field takes

    def __init__(
        self, schema: Schema, id_field: str, label: str | None, missing: Collection[str]
    ) -> None:
        self._names = (schema, id_field, label)
        self._missing = missing
        self._codec = JsonObservations(*self._names, missing, keep=True, **self.how())

    def how(self) -> dict[str, Any]:
        """More arguments of the decoder."""
        return {}

    def possible(self, document: Document) -> Document:
        """The document without what the format cannot say."""
        return document

    def encoded(self, document: Document) -> bytes:
        """The bytes of the document."""
        return json.dumps(document).encode()

    def decode(self, document: Document) -> DecodedObservations:
        """What is made of the bytes."""
        return self._codec.decode([b"key"], [self.encoded(document)])

    def decoded(self, document: Document) -> Any:
        """All that is made of a document: its values, id, label and bad values; or why it is
        rejected."""
        try:
            found = self.decode(document)
        except RecordError as error:
            return error.reason
        if not len(found.ids):
            return "no row"
        if found.rejected:
            return found.rejected[0].reason
        return found.rows.dicts()[0], found.ids[0], repr(found.labels[0]), found.bad

    def notes(self, document: Document, bad: Sequence[BadValue]) -> list[Note]:
        """What is not used of it."""
        return self._codec.notes(self.encoded(document), bad)

    def is_absent(self, name: str, kind: str | None, value: Any) -> bool:
        """Whether a value means missing."""
        text = isinstance(value, str) and kind in ("numeric", "binary")
        return value is None or value != value or (text and value.strip() in self._missing)

    def as_written(self, kind: str, value: Any) -> Any:
        """The value of a field."""
        return written(kind, value)


class Documents(Door):
    """As JSON whose documents another decoder makes."""

    def how(self) -> dict[str, Any]:
        return {"documents": json.loads}


class Arrow(Door):
    """A message of one row."""

    def how(self) -> dict[str, Any]:
        return {"documents": lambda document: document}

    def encoded(self, document: Document) -> bytes:
        return message_of([document])

    def decode(self, document: Document) -> DecodedObservations:
        (found,) = ArrowMessages(self._codec).read(self.encoded(document), 1).decoded
        return found

    def notes(self, document: Document, bad: Sequence[BadValue]) -> list[Note]:
        row = ArrowMessages(self._codec).read(self.encoded(document), 1).as_json(0)
        return JsonObservations(*self._names, keep=True).notes(row, bad)


class Framed(Door):
    """A record with a schema of its own."""

    wire: str

    def how(self) -> dict[str, Any]:
        return {"documents": lambda value: self._documents(value)}

    def encoded(self, document: Document) -> bytes:
        schema, payload = self.with_schema(document)
        book = SchemaBook()
        book.add(5, schema)
        self._documents = FramedDocuments(wire_format(self.wire), book, None)
        return framed(5, payload)

    def with_schema(self, document: Document) -> tuple[StoredSchema, bytes]:
        """A schema for the document, and its bytes by it."""
        raise NotImplementedError


class Avro(Framed):
    """A record of Avro; an object whose values have one type is a map."""

    wire = "avro"

    def possible(self, document: Document) -> Document:
        return identifiers(document)

    def with_schema(self, document: Document) -> tuple[StoredSchema, bytes]:
        self._count = 0
        kind, payload = self._record(document)
        return StoredSchema("AVRO", json.dumps(kind)), payload

    def _record(self, value: Document) -> tuple[Any, bytes]:
        self._count += 1
        name, each = f"R{self._count}", {name: self._of(inner) for name, inner in value.items()}
        fields = [{"name": name, "type": kind} for name, (kind, _) in each.items()]
        payload = b"".join(payload for _, payload in each.values())
        return {"type": "record", "name": name, "fields": fields}, payload

    def _of(self, value: Any) -> tuple[Any, bytes]:
        if value is None:
            return ["string", "null"], b"\2"
        if isinstance(value, bool):
            return "boolean", bytes([value])
        if isinstance(value, int):
            return "long", zigzag(value)
        if isinstance(value, float):
            return ["null", "double"], b"\2" + struct.pack("<d", value)
        if isinstance(value, str):
            return "string", zigzag(len(value.encode())) + value.encode()
        if isinstance(value, list):
            items = zigzag(len(value)) + b"".join(map(zigzag, value)) if value else b""
            return {"type": "array", "items": "long"}, items + b"\0"
        made = {name: self._of(inner) for name, inner in value.items()}
        kinds = [kind for kind, _ in made.values()]
        if not kinds or any(kind != kinds[0] or isinstance(kind, dict) for kind in kinds):
            return self._record(value)
        entries = b"".join(
            zigzag(len(name.encode())) + name.encode() + payload
            for name, (_, payload) in made.items()
        )
        return {"type": "map", "values": kinds[0]}, zigzag(len(made)) + entries + b"\0"


class Protobuf(Framed):
    """A message of Protobuf; an object whose values have one type is a `Struct`."""

    wire = "protobuf"

    def possible(self, document: Document) -> Document:
        return identifiers(document)

    def with_schema(self, document: Document) -> tuple[StoredSchema, bytes]:
        files = FileDescriptorSet()
        file = files.file.add(name="made.proto", package="made", syntax="proto2")
        file.dependency.append("google/protobuf/struct.proto")
        payload = self._message(document, file.message_type.add(name="M"), ".made.M")
        text = base64.b64encode(files.SerializeToString()).decode()
        return StoredSchema("PROTOBUF", text), b"\0" + payload

    def _message(self, value: Document, kind: Any, path: str) -> bytes:
        """The bytes of a message, whose fields are added to its type."""
        of, out = FieldDescriptorProto, b""
        for number, (name, inner) in enumerate(value.items(), 1):
            field = kind.field.add(name=name, number=number, label=of.LABEL_OPTIONAL)
            if isinstance(inner, bool):
                field.type, made = of.TYPE_BOOL, tagged(number, int(inner))
            elif isinstance(inner, int):
                field.type, made = of.TYPE_INT64, tagged(number, inner)
            elif isinstance(inner, float):
                field.type, made = of.TYPE_DOUBLE, tagged(number, inner)
            elif isinstance(inner, str):
                field.type, made = of.TYPE_STRING, tagged(number, inner.encode())
            elif isinstance(inner, list):
                field.type, field.label = of.TYPE_INT64, of.LABEL_REPEATED
                made = b"".join(tagged(number, each) for each in inner)
            elif isinstance(inner, dict):
                field.type = of.TYPE_MESSAGE
                if len(kinds := set(map(type, inner.values()))) == 1 and kinds != {int}:
                    field.type_name = ".google.protobuf.Struct"
                    made = tagged(number, struct_of(inner))
                else:
                    nested = kind.nested_type.add(name=f"N{number}")
                    field.type_name = f"{path}.N{number}"
                    made = tagged(number, self._message(inner, nested, field.type_name))
            else:  # not set
                field.type, made = of.TYPE_STRING, b""
            out += made
        return out


class Csv(Door):
    """A file with one row, which is sent as its record."""

    broken = "another text"

    def possible(self, document: Document) -> Document:
        return {
            name: cell_of(value)
            for name, value in document.items()
            if name and not isinstance(value, dict | list)
        }

    def encoded(self, document: Document) -> bytes:
        """The bytes of the record that is read; RecordError if no row is."""
        _, id_field, label = self._names
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.csv"
            with path.open("w", encoding="utf-8", newline="") as stream:
                rows = csv.writer(stream)
                rows.writerow([*document, "beside"])
                rows.writerow([*document.values(), "x"])
            read = read_records(path, missing=self._missing, verbatim=(id_field, label))
            record = dict(next(iter(read)))
        del record["beside"]
        return encoded(record)

    def is_absent(self, name: str, kind: str | None, value: Any) -> bool:
        verbatim = name in self._names[1:]
        nothing = value.strip() in self._missing or value.strip().lower() == "nan"
        return value == "" or (not verbatim and nothing)

    def as_written(self, kind: str, value: Any) -> Any:
        cell = value.strip()
        if cell in ("true", "false"):
            return written(kind, cell == "true")
        number = SHOWN.get(cell)
        if number is None and NUMBER.fullmatch(cell):
            number = int(cell) if cell.lstrip("+-").isdigit() else float(cell)
        return written(kind, value if number is None else number)


def identifiers(document: Document) -> Document:
    """The document without the names that formats with schemas do not have."""
    return {
        name: identifiers(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if IDENTIFIER.fullmatch(name)
    }


def cell_of(value: Any) -> str:
    """A value of JSON as a cell."""
    if isinstance(value, bool):
        return json.dumps(value)
    return "" if value is None else str(value)


def varint(value: int) -> bytes:
    """Seven bits a byte, as both formats have integers."""
    value &= 2**64 - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def zigzag(value: int) -> bytes:
    """An integer of Avro."""
    return varint(2 * value if value >= 0 else -2 * value - 1)


def tagged(number: int, value: float | bytes) -> bytes:
    """A field of a message of Protobuf."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def struct_of(value: Document) -> bytes:
    """A message `google.protobuf.Struct`."""
    entries = (tagged(1, name.encode()) + tagged(2, value_of(v)) for name, v in value.items())
    return b"".join(tagged(1, entry) for entry in entries)


def value_of(value: Any) -> bytes:
    """A message `google.protobuf.Value`."""
    if value is None:
        return tagged(1, 0)
    if isinstance(value, bool):
        return tagged(4, int(value))
    if isinstance(value, int | float):
        return tagged(2, float(value))
    if isinstance(value, str):
        return tagged(3, value.encode())
    if isinstance(value, dict):
        return tagged(5, struct_of(value))
    return tagged(6, b"".join(tagged(1, value_of(each)) for each in value))


DOORS: dict[str, type[Door]] = {
    "json": Door,
    "documents": Documents,
    "arrow": Arrow,
    "avro": Avro,
    "protobuf": Protobuf,
    "csv": Csv,
}
