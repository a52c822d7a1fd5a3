"""Parquet and Arrow IPC: values as in a JSON file, and one line for each damage."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.codecs.arrow.values import UnreadableValueError, column_values
from consumers.files.source import read_records

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Write = Callable[[Any, Path], None]


def as_file(table: Any, path: Path) -> None:
    """Arrow IPC with the magic of a file."""
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=3)


def as_stream(table: Any, path: Path) -> None:
    """Arrow IPC without it."""
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)


WRITERS: dict[str, Write] = {
    "a.parquet": lambda table, path: pq.write_table(table, path, row_group_size=3),
    "a.pq": lambda table, path: pq.write_table(table, path, compression="zstd", version="1.0"),
    "a.arrow": as_file,
    "a.arrows": as_stream,
    "a.feather": as_file,
}
NOON = datetime(2024, 3, 1, 12, 0, 0, 5)
COLUMNS = [
    (pa.int8(), [1, None], [1, None]),
    (pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0]),
    (pa.float32(), [0.5, float("nan")], [0.5, None]),
    (pa.float64(), [float("inf"), None], [float("inf"), None]),
    (pa.bool_(), [True, False], [True, False]),
    (pa.large_string(), ["é", ""], ["é", ""]),
    (pa.dictionary(pa.int8(), pa.string()), ["DE", None], ["DE", None]),
    (pa.binary(), [b"DE", None], ["DE", None]),
    (pa.null(), [None, None], [None, None]),
    (pa.date32(), [date(2024, 3, 1), None], ["2024-03-01", None]),
    (pa.timestamp("ns"), [NOON, None], ["2024-03-01T12:00:00.000005", None]),
    (
        pa.timestamp("ms", "Europe/Berlin"),
        [datetime(2024, 3, 1, 12, tzinfo=UTC), None],
        ["2024-03-01T12:00:00+00:00", None],
    ),
    (pa.time32("s"), [time(1, 2, 3), None], ["01:02:03", None]),
    (pa.duration("ms"), [timedelta(milliseconds=1500), None], [1.5, None]),
    (pa.decimal128(5, 2), [Decimal("1.50"), None], [1.5, None]),
    (pa.decimal128(5, 0), [Decimal("7"), None], [7, None]),
    (pa.list_(pa.float64()), [[1.5, None], []], [[1.5, None], []]),
    (
        pa.struct([("d", pa.date32()), ("n", pa.int64())]),
        [{"d": date(2024, 3, 1), "n": 1}, None],
        [{"d": "2024-03-01", "n": 1}, None],
    ),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None], [{"a": 1}, None]),
]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("kind", "values", "expected"), COLUMNS, ids=lambda x: str(x)[:20])
def test_value_is_what_it_would_be_in_a_json_file(
    tmp_path: Path, name: str, kind: Any, values: list[Any], expected: list[Any]
) -> None:
    """With missing values left out."""
    table = pa.table({"x": pa.array(values, kind), "n": [1, 2]})
    try:
        WRITERS[name](table, tmp_path / name)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow cannot write {kind} there")

    found = list(read_records(tmp_path / name))

    assert found == [{"n": n} if x is None else {"x": x, "n": n} for n, x in enumerate(expected, 1)]
    json.dumps(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each example of a property writes its files over those of the one before."""
    return tmp_path_factory.mktemp("examples")


@given(
    records=st.lists(
        st.fixed_dictionaries(
            {
                "n": st.integers(-(2**63), 2**63 - 1) | st.none(),
                "x": st.floats(allow_nan=False) | st.none(),
                "s": st.text(st.characters(codec="utf-8"), max_size=5) | st.none(),
                "b": st.booleans() | st.none(),
                "at": st.datetimes(timezones=st.just(UTC)) | st.none(),
            }
        ),
        max_size=20,
    ),
    name=st.sampled_from(sorted(WRITERS)),
)
def test_table_is_read_as_it_was_written(
    folder: Path, records: list[dict[str, Any]], name: str
) -> None:
    """In any number of row groups and batches."""
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("x", pa.float64()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    WRITERS[name](pa.Table.from_pylist(records, schema), folder / name)

    expected = [
        {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in record.items()
            if value is not None
        }
        for record in records
    ]
    assert list(read_records(folder / name)) == expected


def test_time_of_another_zone_is_the_same_moment(tmp_path: Path) -> None:
    """`--time-field` takes it."""
    east = timezone(timedelta(hours=2))
    table = pa.table({"at": pa.array([datetime(2024, 3, 1, 12, tzinfo=east)])})
    pq.write_table(table, tmp_path / "a.parquet")

    assert list(read_records(tmp_path / "a.parquet")) == [{"at": "2024-03-01T10:00:00+00:00"}]


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_and_cut_files_are_one_line(tmp_path: Path, name: str) -> None:
    """A stream that was cut too, although its first batches are whole."""
    path = tmp_path / name
    WRITERS[name](pa.table({"x": list(range(1000))}), path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"x,y\n1,2\n" * 9, b""):
        path.write_bytes(damaged)

        with pytest.raises(ConfigError, match=r"damaged (Parquet|Arrow IPC) file") as caught:
            list(read_records(path))

        assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_name_their_row(tmp_path: Path) -> None:
    """A hash, for example."""
    pq.write_table(pa.table({"x": [b"a", b"b", b"\xff"]}), tmp_path / "a.parquet", row_group_size=2)

    with pytest.raises(ConfigError, match="row 3: column 'x' has bytes that are not UTF-8"):
        list(read_records(tmp_path / "a.parquet"))


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "a.parquet"])
def test_damage_inside_a_batch_is_one_line(tmp_path: Path, name: str) -> None:
    """The file is whole, and an index, an offset or a text in it is not: pyarrow does not look."""
    texts = pa.array(["unlikely", "improbable"])
    table = pa.table({"x": texts, "y": texts.dictionary_encode()})
    path = tmp_path / name
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    if name != "a.arrow":
        WRITERS[name](table, path)
    if name == "a.parquet":
        pq.write_table(table, path, compression="none")
    whole = path.read_bytes()
    damages = [(b"unlikely", b"un\xffikely"), (b"improbable", b"imp\xffobable")]
    if name != "a.parquet":
        index, offset = struct.pack("<ii", 0, 1), struct.pack("<iii", 0, 8, 18)
        damages += [(index, struct.pack("<ii", 0, 7)), (offset, struct.pack("<iii", 0, 9999, 18))]
    for good, bad in damages:
        assert good in whole
        path.write_bytes(whole.replace(good, bad))

        with pytest.raises(ConfigError, match=r"damaged (Parquet|Arrow IPC) file") as caught:
            list(read_records(path))

        assert "\n" not in str(caught.value)


TEMPORAL = {  # to the ticks of a day
    pa.date32(): 1,
    pa.timestamp("s"): 86_400,
    pa.timestamp("ms", "UTC"): 86_400_000,
    pa.timestamp("us"): 86_400_000_000,
    pa.timestamp("ns", "UTC"): 86_400_000_000_000,
}


@given(
    st.sampled_from(sorted(TEMPORAL, key=str)),
    st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 3_000_000).map(lambda n: n * 86_400),
)
def test_time_is_that_of_the_calendar_or_an_error(kind: Any, ticks: int) -> None:
    """Also far from now: `infinity` in PostgreSQL is the last microsecond of 64 bits."""
    day = TEMPORAL[kind]
    ticks = ticks % 2**32 - 2**31 if kind == pa.date32() else ticks
    column = pa.array([0, ticks], pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    try:
        since = abs(ticks) * 86_400_000_000 // day  # a part of a microsecond is cut off
        moment = datetime(1970, 1, 1) + timedelta(microseconds=since if ticks > 0 else -since)
        expected = (moment.date() if kind == pa.date32() else moment).isoformat()
        expected += "+00:00" if getattr(kind, "tz", None) else ""
    except OverflowError:
        with pytest.raises(UnreadableValueError, match="outside the years 1 to 9999") as caught:
            column_values(column, strict=True)

        assert caught.value.row == 1
        assert "outside the years 1 to 9999" in repr(column_values(column, strict=False)[1])
    else:
        assert column_values(column, strict=True)[1] == expected


def test_time_that_is_no_date_names_its_row(tmp_path: Path) -> None:
    """The line says what is wrong there."""
    times = pa.array([0, 2**63 - 1]).view(pa.timestamp("us"))
    pq.write_table(pa.table({"at": times}), tmp_path / "a.parquet", row_group_size=1)

    with pytest.raises(ConfigError, match="row 2: column 'at' has a time outside the years 1 to"):
        list(read_records(tmp_path / "a.parquet"))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """One of them would be lost."""
    table = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")

    with pytest.raises(ConfigError, match="two columns are named 'x'"):
        list(read_records(tmp_path / "a.parquet"))


def test_compressed_parquet_is_refused(tmp_path: Path) -> None:
    """It is compressed inside, and its end is read first."""
    (tmp_path / "a.parquet.gz").write_bytes(b"\x1f\x8b")

    with pytest.raises(ConfigError, match="Parquet is compressed inside; decompress the file"):
        list(read_records(tmp_path / "a.parquet.gz"))


def test_without_pyarrow_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigError, match=r"pip install 'pyarrow>="):
        list(read_records(tmp_path / "a.parquet"))


def test_parquet_at_a_url_is_read(tmp_path: Path) -> None:
    """Its end is read first, by the file system of the URL."""
    fsspec = pytest.importorskip("fsspec")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    fsspec.filesystem("memory").pipe_file(
        "/tables/a.parquet", (tmp_path / "a.parquet").read_bytes()
    )

    assert list(read_records("memory://tables/a.parquet")) == [{"x": 1}, {"x": 2}]
