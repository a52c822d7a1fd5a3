"""Protobuf by protobuf's own runtime, with schemas of a registry.

Rule: a schema is compiled once, when the registry returns it, and stored as the descriptors of its
files. So a replay needs no compiler, and a new compiler changes nothing that was learned.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from consumers.base.errors import RecordError, RegistryError
from consumers.codecs.bounds import MessageCounter, read_varint, signed
from consumers.codecs.format import Check, Document, Reader, WireFormat, Writer, guarded, shortened
from consumers.codecs.predictions import from_records, to_records
from consumers.codecs.schemas import LARGEST_SCHEMA, StoredSchema
from consumers.codecs.values import json_value

__all__ = ["FORMAT", "file_of"]

COMPILE_SECONDS = 60
LONGEST_PART = 200  # bytes between two slashes in the name of a reference
MOST_INDEXES = 16  # of a message inside messages
LONGEST_INDEX = 5  # bytes of each
_MAIN = "schema.proto"
_BROUGHT = re.compile(r"google/protobuf/(?:compiler/)?[a-z0-9_]{1,50}\.proto")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The messages of a prediction: name, type, and how many. A label is one of three kinds, or none.
_PREDICTION: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Prediction": (
        ("id", "string", ""),
        ("prediction", "Label", ""),
        ("probabilities", "Probability", "repeated"),
        ("model", "Model", ""),
        ("position", "Position", ""),
        ("ts", "int64", ""),
        ("evidence", "Evidence", "repeated"),
        ("decision", "Decision", ""),
        ("explanation", "Explanation", ""),
    ),
    "Label": (("text", "string", "kind"), ("number", "int64", "kind"), ("truth", "bool", "kind")),
    "Probability": (("label", "Label", ""), ("probability", "double", "")),
    "Evidence": (("label", "Label", ""), ("log_odds", "double", "")),
    "Model": (("name", "string", ""), ("type", "string", ""), ("learned", "int64", "")),
    "Position": (("topic", "string", ""), ("partition", "int32", ""), ("offset", "int64", "")),
    "Decision": (("action", "Label", ""), ("risk", "double", "optional")),
    "Explanation": (
        ("against", "Label", ""),
        ("log_odds", "double", ""),
        ("top", "Contribution", "repeated"),
    ),
    "Contribution": (("name", "string", ""), ("log_odds", "double", "")),
}


@cache
def _predictions() -> tuple[str, StoredSchema]:
    """The schema of predictions as text, and as descriptors, both from one table."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

    lines = ['syntax = "proto3";', "package headwater;"]
    files = FileDescriptorSet()
    file = files.file.add(name=_MAIN, package="headwater", syntax="proto3")
    for name, fields in _PREDICTION.items():
        message = file.message_type.add(name=name)
        lines.append(f"message {name} {{")
        for number, (field, kind, how) in enumerate(fields, 1):
            label = "LABEL_REPEATED" if how == "repeated" else "LABEL_OPTIONAL"
            made = message.field.add(name=field, number=number, label=label)
            if kind in _PREDICTION:
                made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".headwater.{kind}"
            else:
                made.type = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
            lines.append(
                f"  {how + ' ' if how not in ('', 'kind') else ''}{kind} {field} = {number};"
            )
            if how in ("kind", "optional"):
                oneof = how if how == "kind" else f"_{field}"
                made.proto3_optional = how == "optional"
                if not any(each.name == oneof for each in message.oneof_decl):
                    message.oneof_decl.add(name=oneof)
                made.oneof_index = len(message.oneof_decl) - 1
        if fields[0][2] == "kind":
            start = len(lines) - len(fields)
            lines[start:] = ["  oneof kind {", *(f"  {each}" for each in lines[start:]), "  }"]
        lines.append("}")
    return "\n".join(lines) + "\n", _stored(files)


def _stored(files: Any) -> StoredSchema:
    """The descriptors of files, the schema's own last."""
    return StoredSchema("PROTOBUF", base64.b64encode(files.SerializeToString()).decode())


def _compiled(schema: StoredSchema) -> StoredSchema:
    """The descriptors of a schema, which a registry returns as text or as descriptors itself."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    try:
        main, *others = (
            FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
            for text in (schema.text, *(text for _, text in schema.references))
        )
    except (binascii.Error, ValueError, RecursionError):
        files = _protoc(schema)
    except Exception as error:  # the runtime's own class, which has no public name
        raise _unusable(shortened(error)) from None
    else:
        files = FileDescriptorSet(file=[*others, main])
        for (name, _), file in zip(schema.references, others, strict=True):
            file.name = name
        if not files.file[-1].message_type:  # four letters are base64 of something
            files = _protoc(schema)
    stored = _stored(files)
    _used(stored)
    return stored


def _unusable(why: str) -> RecordError:
    return RecordError("unusable_schema", f"not a Protobuf schema: {why}")


def _files(schema: StoredSchema) -> tuple[dict[str, str], str]:
    """Path to text of the schema and those it refers to, and its own path, which none of them has.

    Raises
    ------
    RecordError
        A reference has no name of a file, or is a file and the folder of another one.
    """
    folders: set[str] = set()
    for name, _ in schema.references:
        parts = name.split("/")
        wrong = (each in ("", ".", "..") or len(each.encode()) > LONGEST_PART for each in parts)
        if any(wrong) or "\0" in name or "\\" in name:
            raise _unusable(f"a reference has the name {shortened(ValueError(repr(name)))}")
        folders.update("/".join(parts[:i]) for i in range(1, len(parts)))
    texts = dict(schema.references)
    for name in folders & texts.keys():
        raise _unusable(f"a reference has the name {name!r}, which is the folder of another one")
    main = _MAIN
    while main in texts or main in folders:
        main = f"_{main}"
    return {main: schema.text, **texts}, main


def _protoc(schema: StoredSchema) -> Any:
    """Compile the text.

    Raises
    ------
    RegistryError
        This host cannot do it now.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    texts, main = _files(schema)
    try:
        with TemporaryDirectory(prefix="headwater-schema-") as name:
            data = _descriptors(Path(name), texts, main)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise _unusable(f"its references are no files: {shortened(error)}") from None
    except OSError as error:  # of this host, such as a full disk
        raise RegistryError(f"a schema cannot be compiled now: {error}") from None
    if len(data) > LARGEST_SCHEMA // 2:
        raise _unusable(
            f"its descriptors have {len(data):,} bytes, at most {LARGEST_SCHEMA // 2:,}"
        )
    return FileDescriptorSet.FromString(data)


def _descriptors(folder: Path, texts: Mapping[str, str], main: str) -> bytes:
    """What protoc makes of files, in a process of its own, because they come from other programs.

    `-P`: nothing is imported from the folder, whose files have the names of the references.
    """
    sources, out = folder / "sources", folder / "descriptors"
    for file, text in texts.items():
        (sources / file).parent.mkdir(parents=True, exist_ok=True)
        (sources / file).write_text(text, encoding="utf-8")
    program = (
        "import sys, grpc_tools, os; from grpc_tools import protoc; "
        "sys.exit(protoc.main(['', '-I', os.path.join(os.path.dirname(grpc_tools.__file__), "
        "'_proto'), *sys.argv[1:]]))"
    )
    files = ["-I", ".", "--include_imports", "--descriptor_set_out", str(out), main]
    try:
        done = subprocess.run(  # noqa: S603  this interpreter
            [sys.executable, "-P", "-c", program, *files],
            cwd=sources,
            capture_output=True,
            timeout=COMPILE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise _unusable(f"protoc did not end within {COMPILE_SECONDS} s") from None
    if done.returncode or not out.exists():
        raise _unusable(shortened(ValueError(done.stderr.decode("utf-8", "replace"))))
    return out.read_bytes()


def file_of(schema: StoredSchema) -> Any:
    """The file of a compiled schema, as protobuf's runtime describes it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return _pool(FileDescriptorSet.FromString(base64.b64decode(schema.text, validate=True)))


def _pool(files: Any) -> Any:
    """The pool of all files and of those that protobuf brings, and the schema's own file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import Default, DescriptorPool

    pool, added = DescriptorPool(), set[str]()
    for file in files.file:
        for name in file.dependency:
            if name not in added and all(each.name != name for each in files.file):
                own = FileDescriptorProto()
                _import(name)
                Default().FindFileByName(name).CopyToProto(own)
                pool.Add(own)
                added.add(name)
        pool.Add(file)
        added.add(file.name)
    return pool.FindFileByName(files.file[-1].name)


def _import(name: str) -> None:
    """Import the module of a file that protobuf brings, which adds it to the default pool."""
    from importlib import import_module

    if _BROUGHT.fullmatch(name):
        import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")


def _used(schema: StoredSchema) -> Any:
    """The file of a compiled schema. RecordError if it cannot be used."""
    try:
        return file_of(schema)
    except Exception as error:
        raise _unusable(shortened(error)) from None


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    from google.protobuf.message_factory import GetMessageClass

    file = _used(schema)
    messages: dict[tuple[int, ...], Any] = {}

    def decode(payload: bytes) -> Document:
        indexes, start = _indexes(payload)
        made = messages.get(indexes)
        if made is None:
            made = messages[indexes] = GetMessageClass(_message(file, indexes))
        found: Document = _document(made.FromString(payload[start:]))
        return found

    return guarded(decode, "Protobuf")


def _counter(schema: StoredSchema) -> Check:
    file = _used(schema)
    counter = MessageCounter(file)

    def check(payload: bytes) -> None:
        indexes, start = _indexes(payload)
        counter(_message(file, indexes).full_name, payload, start)

    return check


def _indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its file the payload is, and where it starts: the first one as one zero."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= MOST_INDEXES:
        raise RecordError(
            "unparsable", f"expected up to {MOST_INDEXES} message indexes, got {count}"
        )
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag integer, and where it ends."""
    try:
        value, at = read_varint(payload, at, len(payload), LONGEST_INDEX)
    except ValueError:
        raise RecordError(
            "unparsable", "expected message indexes before the message, got other bytes"
        ) from None
    return signed(value), at


def _message(file: Any, indexes: tuple[int, ...]) -> Any:
    """The descriptor of a message by its place in its file."""
    found, siblings = None, list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(siblings):
            raise RecordError(
                "unparsable", f"its schema has no message at {list(indexes)}, which it names"
            )
        found = siblings[index]
        siblings = list(found.nested_types)
    return found


def _document(message: Any) -> Any:
    """A message as JSON values, by the names of its fields."""
    special = _SPECIAL.get(message.DESCRIPTOR.full_name)
    if special is not None:
        return special(message)
    document: Document = {}
    for field in message.DESCRIPTOR.fields:
        name = field.name
        if _is_map(field):
            document[name] = {
                json_value(k) if isinstance(k, str) else str(k): _value(
                    field.message_type.fields_by_name["value"], v
                )
                for k, v in getattr(message, name).items()
            }
        elif field.is_repeated:
            document[name] = [_value(field, each) for each in getattr(message, name)]
        elif not field.has_presence or message.HasField(name) or field.has_default_value:
            document[name] = _value(field, getattr(message, name))
    return document


def _is_map(field: Any) -> bool:
    return (
        field.is_repeated
        and field.message_type is not None
        and field.message_type.GetOptions().map_entry
    )


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _document(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return json_value(value)


def _timestamp(message: Any) -> str:
    return (
        _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    ).isoformat()


def _of_struct_value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    return value if kind in ("number_value", "string_value", "bool_value") else _document(value)


_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": lambda m: m.seconds + m.nanos / 1e9,
    "google.protobuf.Struct": lambda m: {k: _of_struct_value(v) for k, v in m.fields.items()},
    "google.protobuf.ListValue": lambda m: [_of_struct_value(v) for v in m.values],
    "google.protobuf.Value": _of_struct_value,
    **{
        f"google.protobuf.{kind}Value": lambda m: json_value(m.value)
        for kind in (
            *("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"),
        )
    },
}


def _writer(schema: StoredSchema) -> Writer:
    from google.protobuf import json_format
    from google.protobuf.message_factory import GetMessageClass

    try:
        file = file_of(schema)
        made = GetMessageClass(_message(file, (0,)))
    except Exception as error:
        raise ValueError(f"not a Protobuf schema: {shortened(error)}") from None

    def encode(document: Mapping[str, Any]) -> bytes:
        message = made()
        try:
            typed = _typed(document, made.DESCRIPTOR)
            json_format.ParseDict(typed, message, ignore_unknown_fields=True)
        except (json_format.ParseError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"does not fit the Protobuf schema: {shortened(error)}") from None
        payload: bytes = message.SerializeToString(deterministic=True)
        return b"\0" + payload

    return encode


def _typed(document: Mapping[str, Any], message: Any) -> dict[str, Any]:
    """A document as `json_format` reads it, without the fields that the message does not have.

    It takes texts of bytes as base64, leaves out unknown names of an enum, and writes a truth value
    as the number 1. So texts are encoded here, and the others are a ValueError.
    """
    fields = {name: f for f in message.fields for name in (f.name, f.json_name)}
    out = {}
    for name, value in document.items():
        field = fields.get(name)
        if field is None or value is None:
            continue
        try:
            out[name] = _of_field(value, field)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    return out


def _of_field(value: Any, field: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry and isinstance(value, Mapping):
        of_value = entry.fields_by_name["value"]
        return {k: _of_one(v, of_value) for k, v in value.items()}
    if isinstance(value, list):
        return [_of_one(each, field) for each in value]
    return _of_one(value, field)


def _of_one(value: Any, field: Any) -> Any:
    kind, message = field.type, field.message_type
    if message is not None and not isinstance(value, list):
        known = _KNOWN.get(message.full_name)
        if known is not None:
            return known(value)
        own = message.file.package != "google.protobuf" and not message.GetOptions().map_entry
        return _typed(value, message) if own and isinstance(value, Mapping) else value
    if kind == field.TYPE_BYTES and isinstance(value, str):
        return base64.b64encode(value.encode()).decode()
    if kind == field.TYPE_ENUM and isinstance(value, str):
        if value not in field.enum_type.values_by_name:
            raise ValueError(f"{field.enum_type.name} has no {value[:100]!r}")
    elif kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        if isinstance(value, bool):
            raise ValueError(f"expected a number, got {value}")
        return float(value) if isinstance(value, int) else value
    return value


def _moment(value: Any) -> Any:
    """A time without a zone is one of UTC, as in Avro."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value  # such as one with nanoseconds
    return value if moment.tzinfo is not None else moment.replace(tzinfo=UTC).isoformat()


def _seconds(value: Any) -> Any:
    """Seconds, as the reader returns a duration."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.9f}s" if number else value


_KNOWN: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _moment,
    "google.protobuf.Duration": _seconds,
}


def _labelled(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A prediction with `convert` applied to each label in it."""
    if isinstance(value, list):
        return [_labelled(each, convert) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: convert(each)
        if name in ("prediction", "label", "action", "against")
        else _labelled(each, convert)
        for name, each in value.items()
    }


def _to_message(label: Any) -> dict[str, Any]:
    """A label as the message of its kind; without a kind, there is no label."""
    if label is None:
        return {}
    kind = "truth" if isinstance(label, bool) else "number" if isinstance(label, int) else "text"
    return {kind: label}


def _from_message(label: Any) -> Any:
    return next(iter(label.values()), None) if isinstance(label, Mapping) else label


def _to_wire(prediction: Document) -> Document:
    out: Document = _labelled(to_records(prediction), _to_message)
    return out


def _from_wire(document: Document) -> Document:
    if not isinstance(document.get("probabilities"), list):
        return document
    out: Document = _labelled(document, _from_message)
    out.setdefault("prediction", None)
    if (made := out.get("decision")) is not None:
        out["decision"] = {"action": None, "risk": None, **made}
    return from_records(out)


FORMAT = WireFormat(
    name="protobuf",
    title="Protobuf",
    about="Protobuf with the schemas of a registry",
    schema_type="PROTOBUF",
    modules=("google.protobuf", "grpc_tools", "confluent_kafka"),
    reader=_reader,
    counter=_counter,
    writer=_writer,
    compiled=_compiled,
    predictions=_predictions,
    to_wire=_to_wire,
    from_wire=_from_wire,
    content_type="application/protobuf",
)
