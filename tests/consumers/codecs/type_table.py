"""docs/types.md: what each door makes of a value of each type, as a run finds it.

    python -m tests.consumers.codecs.type_table

This writes the page, for which Polars must be installed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer

from consumers.base.errors import ConfigError, RecordError
from consumers.codecs.arrow.messages import ArrowMessages
from consumers.codecs.encoded import encoded
from consumers.codecs.format import FramedDocuments, framed
from consumers.codecs.formats.protobuf import file_of
from consumers.codecs.json import DecodedObservations, JsonObservations
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import SchemaBook, StoredSchema
from consumers.files.source import read_records
from headwater.records import prepare_features
from stream.data.frame_rows import rows_of
from stream.data.frames import mini_batch
from stream.data.rows import Rows
from stream.data.schema import Field, Schema
from stream.errors import InvalidRecordError, SchemaError
from tests.lint.sources import ROOT

__all__ = ["CASES", "DOORS", "NAME", "PAGE", "PAGES", "Case", "Refused", "cell", "page", "shown"]

PAGE = "docs/types.md"
NAME = "x"  # the field
MARK = "<!-- {} by python -m tests.consumers.codecs.type_table -->"
NOTHING = object()  # a door that has no such type

Decode = Callable[[JsonObservations], DecodedObservations]


class Refused(NamedTuple):
    """Why a door does not take a value."""

    why: str


class Case(NamedTuple):
    """A value, and how each door has it: the name of its type there, and the value."""

    title: str
    given: Mapping[str, tuple[str, Any]]


# Doors.


def learn_one(value: Any) -> Any:
    """A dict of a learner."""
    return _of_rows(lambda: Rows.from_dicts([{NAME: value}]))


def client(value: Any) -> Any:
    """A dict of headwater.Client, as the service reads it."""
    try:
        [made] = prepare_features([{NAME: value}])
    except RecordError as error:
        return Refused(error.detail)
    return _of_json(made.value)


def frame(value: Any) -> Any:
    """A table of a learner."""
    return _of_rows(lambda: rows_of(mini_batch(value)))


def table(column: Any) -> Any:
    """A column of Arrow, of a learner."""
    return frame(pa.table({NAME: column}))


def message(column: Any) -> Any:
    """A message of Arrow on the wire."""
    batch = pa.record_batch([pa.array(["7"] * len(column)), column], names=["id", NAME])
    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)

    def decode(codec: JsonObservations) -> DecodedObservations:
        (found,) = ArrowMessages(codec).read(sink.getvalue(), 10).decoded
        return found

    return _found(decode, documents=lambda document: document)


def parquet(column: Any) -> Any:
    """A file of Parquet, read and sent as a service gets it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        try:
            pq.write_table(pa.table({"id": ["7"], NAME: column}), path)
        except pa.ArrowNotImplementedError:
            return NOTHING
        return _of_file(path)


def csv(cell: str) -> Any:
    """A cell of a CSV."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text(f"id,{NAME}\n7,{cell}\n", encoding="utf-8")
        return _of_file(path)


def in_json(text: str) -> Any:
    """A value of JSON: on the wire, over HTTP, and in a file of JSON lines."""
    value = f'{{"id":"7","{NAME}":{text}}}'
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(value, encoding="utf-8")
        of_file, of_wire = _of_file(path), _of_json(value.encode())
    assert of_file == of_wire, (of_file, of_wire)
    return of_wire


def avro(given: tuple[Any, Any]) -> Any:
    """A field of a record of Avro."""
    kind, value = given
    fields = [{"name": "id", "type": "string"}, {"name": NAME, "type": kind}]
    schema = {"type": "record", "name": "R", "fields": fields}
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(schema), {"id": "7", NAME: value})
    return _framed("avro", StoredSchema("AVRO", json.dumps(schema)), stream.getvalue())


PROTO = """
syntax = "proto3";
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
enum Country { NONE = 0; DE = 1; }
message Shop { int64 zip = 1; }
"""


def protobuf(given: tuple[str, Callable[[Any], None]]) -> Any:
    """A field of a message of Protobuf."""
    from google.protobuf.message_factory import GetMessageClass

    kind, fill = given
    text = f"{PROTO} message R {{ string id = 1; {kind} {NAME} = 2; }}"
    wire = wire_format("protobuf")
    schema = wire.compiled(StoredSchema("PROTOBUF", text))
    made = GetMessageClass(file_of(schema).message_types_by_name["R"])(id="7")
    fill(made)
    return _framed("protobuf", schema, b"\2\2" + made.SerializeToString())  # the second message


DOORS: dict[str, Callable[[Any], Any]] = {
    "learn_one": learn_one,
    "Client": client,
    "pandas": frame,
    "Polars": frame,
    "Arrow table": table,
    "JSON": in_json,
    "CSV": csv,
    "Arrow": message,
    "Parquet": parquet,
    "Avro": avro,
    "Protobuf": protobuf,
}
PAGES = {
    "From Python": ["learn_one", "Client", "pandas", "Polars", "Arrow table"],
    "From topics, requests and files": ["JSON", "CSV", "Arrow", "Parquet"],
    "With schemas": ["Avro", "Protobuf"],
}


def _of_rows(made: Callable[[], Rows]) -> Any:
    """The only cell of rows of undeclared features."""
    try:
        rows = made()
    except (InvalidRecordError, SchemaError) as error:
        return Refused(str(error))
    return rows.dicts()[0].get(NAME)


def _of_json(value: bytes) -> Any:
    return _found(lambda codec: codec.decode([b"7"], [value]))


def _of_file(path: Path) -> Any:
    try:
        [record] = read_records(path, verbatim=("id",))
    except ConfigError as error:
        return Refused(str(error))
    return _of_json(encoded(record))


def _framed(name: str, schema: StoredSchema, payload: bytes) -> Any:
    book = SchemaBook()
    book.add(5, schema)
    documents = FramedDocuments(wire_format(name), book, None)
    value = framed(5, payload)
    return _found(lambda codec: codec.decode([None], [value]), documents=documents)


def _found(decode: Decode, **how: Any) -> Any:
    """The value of the field: a number, else a truth value, else a category; or why not."""
    refused: Refused | None = None
    for kind in ("numeric", "binary", "categorical"):
        codec = JsonObservations(Schema((Field(NAME, kind),)), "id", None, (), **how)  # type: ignore[arg-type]
        try:
            found = decode(codec)
        except RecordError as error:
            return Refused(error.detail)
        if found.rejected:
            refused = refused or Refused(found.rejected[0].detail)
            continue
        value = found.rows.dicts()[0].get(NAME)
        return bool(value) if kind == "binary" and value is not None else value
    return refused


# Values.

MOMENT = datetime(2026, 11, 24, 9, 30, 0, 250_000)
ZONED = MOMENT.replace(tzinfo=UTC)
SPAN = timedelta(seconds=90, milliseconds=500)
UNIQUE = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def _column(values: Any, kind: Any = None) -> dict[str, tuple[str, Any]]:
    """The same column by the three doors of Arrow."""
    made = values if isinstance(values, pa.Array) else pa.array(values, kind)
    name = str(made.type).removeprefix("extension<arrow.").rstrip(">").partition("<")[0]
    name = name.replace("[", " of ").rstrip("]")
    return dict.fromkeys(("Arrow table", "Arrow", "Parquet"), (name, made))


def _python(value: Any, name: str = "") -> dict[str, tuple[str, Any]]:
    """The same value in a dict of a learner and of a client."""
    kind = name or type(value).__name__
    return {"learn_one": (kind, value), "Client": (kind, value)}


def _pandas(values: list[Any], kind: str) -> tuple[str, Any]:
    return kind, pd.DataFrame({NAME: pd.Series(values, dtype=kind)})


def _polars(values: list[Any], kind: str) -> dict[str, tuple[str, Any]]:
    """A frame of Polars, if it is installed; `kind` as Polars writes it."""
    with suppress(ImportError):
        import polars as pl

        dtype = eval(f"pl.{kind}", {"pl": pl})  # a type of the table below
        return {"Polars": (kind, pl.DataFrame({NAME: pl.Series(values, dtype=dtype)}))}
    return {}


def _avro(kind: Any, value: Any) -> tuple[str, Any]:
    shown = kind if isinstance(kind, str) else kind.get("logicalType", kind["type"])
    return shown, (kind, value)


def _protobuf(kind: str, value: Any) -> tuple[str, Any]:
    return kind, (kind, lambda made: setattr(made, NAME, value))


def _of_message(kind: str, fill: Callable[[Any], None]) -> tuple[str, Any]:
    return kind, (kind, lambda made: fill(getattr(made, NAME)))


CASES: list[Case] = [
    Case("integer 3", {
        **_python(3), "pandas": _pandas([3], "int64"), **_polars([3], "Int64"),
        **_column([3], pa.int64()), "CSV": ("", "3"), "JSON": ("", "3"),
        "Avro": _avro("long", 3), "Protobuf": _protobuf("int64", 3),
    }),
    Case("integer 3, of numpy or nullable", {
        **_python(np.int32(3)), "pandas": _pandas([3], "Int64"), **_polars([3], "UInt8"),
        **_column([3], pa.uint8()), "Avro": _avro("int", 3),
        "Protobuf": _of_message("google.protobuf.Int64Value", lambda m: setattr(m, "value", 3)),
    }),
    Case("integer 2⁷⁰", {
        **_python(2**70), "pandas": _pandas([2**70], "object"), **_polars([2**70], "Int128"),
        "CSV": ("", str(2**70)), "JSON": ("", str(2**70)),
    }),
    Case("float 0.5", {
        **_python(0.5), "pandas": _pandas([0.5], "float64"), **_polars([0.5], "Float64"),
        **_column([0.5], pa.float64()), "CSV": ("", "0.5"), "JSON": ("", "0.5"),
        "Avro": _avro("double", 0.5), "Protobuf": _protobuf("double", 0.5),
    }),
    Case("float 0.1 of 32 bits", {
        **_python(np.float32(0.1)), "pandas": _pandas([0.1], "float32"),
        **_polars([0.1], "Float32"), **_column([0.1], pa.float32()),
        "Avro": _avro("float", 0.1), "Protobuf": _protobuf("float", 0.1),
    }),
    Case("float 0.5 of 16 bits", {
        **_python(np.float16(0.5)), "pandas": _pandas([0.5], "float16"),
        **_column([np.float16(0.5)], pa.float16()),
    }),
    Case("infinity", {
        **_python(float("inf")), "pandas": _pandas([float("inf")], "float64"),
        **_polars([float("inf")], "Float64"), **_column([float("inf")], pa.float64()),
        "CSV": ("", "inf"), "JSON": ("", "Infinity"), "Avro": _avro("double", float("inf")),
        "Protobuf": _protobuf("double", float("inf")),
    }),
    Case("decimal 12.50", {
        **_python(Decimal("12.50")), "pandas": _pandas([Decimal("12.50")], "object"),
        **_polars([Decimal("12.50")], "Decimal(10, 2)"),
        **_column([Decimal("12.50")], pa.decimal128(10, 2)), "CSV": ("", "12.50"),
        "JSON": ("", "12.50"),
        "Avro": _avro(_logical("bytes", "decimal", precision=10, scale=2), Decimal("12.50")),
    }),
    Case("decimal 12.50 of 256 bits", _column([Decimal("12.50")], pa.decimal256(50, 2))),
    Case("decimal 12, without a scale", {
        **_python(Decimal(12)), **_polars([Decimal(12)], "Decimal(10, 0)"),
        **_column([Decimal(12)], pa.decimal128(10, 0)),
        "Avro": _avro(_logical("bytes", "decimal", precision=10), Decimal(12)),
    }),
    Case("text 12.50", {
        **_python("12.50"), "pandas": _pandas(["12.50"], "str"), **_polars(["12.50"], "String"),
        **_column(["12.50"], pa.string()), "JSON": ("", '"12.50"'),
        "Avro": _avro("string", "12.50"), "Protobuf": _protobuf("string", "12.50"),
    }),
    Case("text DE", {
        **_python("DE"), "pandas": _pandas(["DE"], "str"), **_polars(["DE"], "String"),
        **_column(["DE"], pa.string()), "CSV": ("", "DE"), "JSON": ("", '"DE"'),
        "Avro": _avro("string", "DE"), "Protobuf": _protobuf("string", "DE"),
    }),
    Case("text DE, of another type", {
        **_python(np.str_("DE")), "pandas": _pandas(["DE"], "string"),
        **_column(["DE"], pa.large_string()),
        "Protobuf": _of_message("google.protobuf.StringValue", lambda m: setattr(m, "value", "DE")),
    }),
    Case("text DE, as a view", _column(["DE"], pa.string_view())),
    Case("text DE, by its runs", _column(
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["DE"]))
    )),
    Case("category DE", {
        "pandas": _pandas(["DE"], "category"), **_polars(["DE"], "Categorical"),
        **_column(["DE"], pa.dictionary(pa.int32(), pa.string())),
        "Avro": _avro({"type": "enum", "name": "C", "symbols": ["DE"]}, "DE"),
        "Protobuf": _protobuf("Country", 1),
    }),
    Case("category 3", {
        "pandas": _pandas([3], "category"),
        **_column([3], pa.dictionary(pa.int32(), pa.int64())),
    }),
    Case("true", {
        **_python(True), "pandas": _pandas([True], "bool"), **_polars([True], "Boolean"),
        **_column([True], pa.bool_()), "CSV": ("", "true"), "JSON": ("", "true"),
        "Avro": _avro("boolean", True), "Protobuf": _protobuf("bool", True),
    }),
    Case("true, of numpy or nullable", {
        **_python(np.bool_(True), "numpy.bool"), "pandas": _pandas([True], "boolean"),
        "Protobuf": _of_message("google.protobuf.BoolValue", lambda m: setattr(m, "value", True)),
    }),
    Case("bytes DE", {
        **_python(b"DE"), "pandas": _pandas([b"DE"], "object"), **_polars([b"DE"], "Binary"),
        **_column([b"DE"], pa.binary()), "Avro": _avro("bytes", b"DE"),
        "Protobuf": _protobuf("bytes", b"DE"),
    }),
    Case("bytes FF, which are not UTF-8", {
        **_python(b"\xff"), **_column([b"\xff"], pa.large_binary()),
        "Avro": _avro({"type": "fixed", "name": "F", "size": 1}, b"\xff"),
        "Protobuf": _protobuf("bytes", b"\xff"),
    }),
    Case("date", {
        **_python(MOMENT.date()), "pandas": _pandas([MOMENT.date()], "object"),
        **_polars([MOMENT.date()], "Date"), **_column([MOMENT.date()], pa.date32()),
        "CSV": ("", "2026-11-24"), "JSON": ("", '"2026-11-24"'),
        "Avro": _avro(_logical("int", "date"), MOMENT.date()),
    }),
    Case("date, of another type", {
        **_python(np.datetime64("2026-11-24")), **_column([MOMENT.date()], pa.date64()),
    }),
    Case("time stamp", {
        **_python(MOMENT), "pandas": _pandas([MOMENT], "datetime64[ns]"),
        **_polars([MOMENT], "Datetime"), **_column([MOMENT], pa.timestamp("us")),
        "Avro": _avro(_logical("long", "local-timestamp-micros"), MOMENT),
    }),
    Case("time stamp with a zone", {
        **_python(ZONED), "pandas": _pandas([ZONED], "datetime64[ns, UTC]"),
        **_polars([ZONED], "Datetime('us', 'UTC')"), **_column([ZONED], pa.timestamp("ms", "UTC")),
        "Avro": _avro(_logical("long", "timestamp-millis"), ZONED),
        "Protobuf": _of_message("google.protobuf.Timestamp", lambda m: m.FromDatetime(MOMENT)),
    }),
    Case("time stamp of ns", {
        **_python(np.datetime64("2026-11-24T09:30:00.250000001")),
        **_column([1_795_512_600_250_000_001], pa.timestamp("ns")),
        "Avro": _avro(_logical("long", "timestamp-nanos"), 1_795_512_600_250_000_001),
    }),
    Case("time stamp of the year 20000", _column([568_971_820_800], pa.timestamp("s"))),
    Case("time stamp of pandas", _python(pd.Timestamp(MOMENT))),
    Case("time", {
        **_python(MOMENT.time()), "pandas": _pandas([MOMENT.time()], "object"),
        **_polars([MOMENT.time()], "Time"), **_column([MOMENT.time()], pa.time64("us")),
        "Avro": _avro(_logical("long", "time-micros"), MOMENT.time()),
    }),
    Case("time, of another type", {
        **_column([time(9, 30)], pa.time32("s")),
        "Avro": _avro(_logical("int", "time-millis"), MOMENT.time()),
    }),
    Case("duration of 90.5 s", {
        **_python(SPAN), "pandas": _pandas([SPAN], "timedelta64[ns]"),
        **_polars([SPAN], "Duration"), **_column([SPAN], pa.duration("ms")),
        "Avro": _avro({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
                      bytes(11) + b"\x80"),
        "Protobuf": _of_message("google.protobuf.Duration", lambda m: m.FromTimedelta(SPAN)),
    }),
    Case("duration of ns", {
        **_python(np.timedelta64(90_500_000_000, "ns")),
        **_column([90_500_000_000], pa.duration("ns")),
    }),
    Case("UUID", {
        **_python(UNIQUE), "pandas": _pandas([UNIQUE], "object"),
        **_column([UNIQUE.bytes], pa.uuid()),
        "Avro": _avro(_logical("string", "uuid"), UNIQUE),
    }),
    Case("UUID of 16 bytes", {
        "Avro": _avro({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
                      UNIQUE.bytes),
        "Protobuf": _protobuf("bytes", UNIQUE.bytes),
    }),
    Case("nothing", {
        **_python(None), "pandas": _pandas([None], "object"), **_polars([None], "Null"),
        **_column([None], pa.null()), "CSV": ("", ""), "JSON": ("", "null"),
        "Avro": ("null", (["null", "double"], None)),
        "Protobuf": ("optional double", ("optional double", lambda made: None)),
    }),
    Case("NaN", {
        **_python(float("nan")), "pandas": _pandas([float("nan")], "float64"),
        **_polars([float("nan")], "Float64"), **_column([float("nan")], pa.float64()),
        "CSV": ("", "NaN"), "JSON": ("", "NaN"), "Avro": _avro("double", float("nan")),
        "Protobuf": _protobuf("double", float("nan")),
    }),
    Case("NA of pandas", {**_python(pd.NA), "pandas": _pandas([pd.NA], "Int64")}),
    Case("NaT of pandas", {**_python(pd.NaT), "pandas": _pandas([pd.NaT], "datetime64[ns]")}),
    Case("not set", {"Protobuf": ("int64", ("int64", lambda made: None))}),
    Case("list [3]", {
        **_python([3]), "pandas": _pandas([[3]], "object"), **_polars([[3]], "List(pl.Int64)"),
        **_column([[3]], pa.list_(pa.int64())), "JSON": ("", "[3]"),
        "Avro": _avro({"type": "array", "items": "long"}, [3]),
        "Protobuf": ("repeated", ("repeated int64", lambda made: made.x.append(3))),
    }),
    Case("list [3], as a view", _column([[3]], pa.list_view(pa.int64()))),
    Case("map {zip: 3}", _column([[("zip", 3)]], pa.map_(pa.string(), pa.int64()))),
    Case("object {zip: 3}", {
        **_python({"zip": 3}), "pandas": _pandas([{"zip": 3}], "object"),
        **_polars([{"zip": 3}], "Struct({'zip': pl.Int64})"),
        **_column([{"zip": 3}], pa.struct([("zip", pa.int64())])), "JSON": ("", '{"zip":3}'),
        "Avro": _avro({"type": "map", "values": "long"}, {"zip": 3}),
        "Protobuf": _of_message("Shop", lambda m: setattr(m, "zip", 3)),
    }),
    Case("value 3 of any type", {
        "Avro": ("union", (["null", "string", "long"], 3)),
        "Protobuf": _of_message(
            "google.protobuf.Value", lambda m: setattr(m, "number_value", 3)
        ),
    }),
    Case("value 3 of a union", _column(
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([3])])
    )),
    Case("complex number", {**_python(1j), "pandas": _pandas([1j], "complex128")}),
]  # fmt: skip


# The page.


def cell(door: str, case: Case) -> Any:
    """What the door makes of the value: a number, a truth value, a text, None or `Refused`; or
    NOTHING."""
    return DOORS[door](case.given[door][1]) if door in case.given else NOTHING


def shown(door: str, case: Case, found: Any) -> str:
    """The text of a cell, for what was found there."""
    if found is NOTHING:
        return ""
    kind = case.given[door][0]
    before = f"`{kind}`: " if kind else ""
    if isinstance(found, Refused):
        return f"{before}refused"
    if found is None:
        return f"{before}missing"
    if isinstance(found, bool):
        return f"{before}{str(found).lower()}"
    return before + (f"{found:.17g}" if isinstance(found, float) else f'`"{found}"`')


def tables() -> str:
    """The tables of the page."""
    parts = []
    for title, doors in PAGES.items():
        cells = [[shown(door, case, cell(door, case)) for door in doors] for case in CASES]
        rows = [[f"**{case.title}**", *row] for case, row in zip(CASES, cells, strict=True)]
        rows = [row for row in rows if any(row[1:])]
        lines = [["", *doors], ["---"] * (1 + len(doors)), *rows]
        parts += [f"## {title}", "", *("| " + " | ".join(row) + " |" for row in lines), ""]
    return "\n".join(parts)


def page(text: str) -> str:
    """The page with the tables of this run between its marks."""
    begin, end = MARK.format("Made"), MARK.format("End of what is made")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{tables()}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """Write the page."""
    path = ROOT / PAGE
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
