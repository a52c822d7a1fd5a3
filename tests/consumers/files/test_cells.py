"""Columns of cells that are read at once, against each cell alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.base.fields import MISSING
from consumers.files import cells as of_cells
from consumers.files.cells import CONVERTS, guessed, guessed_name, value_of, values_of
from consumers.files.formats import csv as csv_files
from consumers.files.source import read_records

HOSTILE = [
    *("1", "-1", "+1", "0", "-0", "-0.0", "00", "007", "0.5", ".5", "5.", "1e5", "1E+5", "0e3"),
    *("1e400", "-1e400", "1e-400", "nan", "NaN", "inf", "-Infinity", "1_000", "1,5", "1,000"),
    *("99999999999999999", "-99999999999999999", "123456789012345678", "1234567890123456789"),
    *("9" * 400, "0.1" * 2, "1" * 17 + ".0", "4.35", "2.2250738585072011e-308", "9007199254740993"),
    *(" 1", "1 ", "\t2", "1\n", "\xa01", "١", "", " ", "NA", " ? ", "-", "null", "true", "TRUE"),
    *("[1]", "1]", "[1", '"1"', "1,2", "{}", "\ud800", "é", "$3", "5 %", "1.0", "1.00", "x"),
]
CONVERTERS = [*CONVERTS.values(), *(guessed_name([c]) for c in ("1.0", "1", "true", "x"))]
CONVERTERS += [
    guessed(cells, mark)
    for cells in (["1"], ["1,000"], ["true"], ["$3"], ["x"])
    for mark in ("", ".", ",")
]
MISSINGS = [None, MISSING, frozenset({"-1", "x"}), frozenset({"", "0.50"})]
number = st.from_regex(
    r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


def same(found, expected) -> None:
    """The same values, of the same types, with the same bits."""
    assert list(map(type, found)) == list(map(type, expected))
    assert list(map(repr, found)) == list(map(repr, expected))


def columns_of(cells: list[str]) -> None:
    """A column by every converter."""
    for convert in CONVERTERS:
        for missing in MISSINGS:
            expected = [value_of(cell, convert, missing) for cell in cells]
            same(values_of(cells, convert, missing), expected)


@pytest.mark.parametrize("cell", HOSTILE)
def test_hostile_cells_at_once_are_those_one_by_one(cell) -> None:
    """Alone, among integers and among floats; and two that could make up for each other."""
    for cells in ([cell], ["1", cell, "2"], ["1.5", cell], [cell, "", "1,2"], ["7", cell, cell]):
        columns_of(cells)


@given(st.lists(number | st.sampled_from(HOSTILE), max_size=12))
def test_drawn_cells_at_once_are_those_one_by_one(cells) -> None:
    """Numbers are the nearest floats, as Python's."""
    columns_of(cells)


def test_plain_numbers_are_read_at_once(monkeypatch) -> None:
    """Else the tests above compare a way with itself."""
    monkeypatch.setattr(of_cells, "value_of", lambda *_: pytest.fail("one by one"))
    for convert in (guessed(["1"]), guessed_name(["1.0"]), CONVERTS["numeric"]):
        assert values_of(["1", "-20"], convert, MISSING) == [1, -20]
    assert values_of(["1", "2.5e3"], guessed(["1"], "."), MISSING) == [1, 2500.0]


LINES = ["a\nb", "a\r\nb", "a\r\n\rb\n"]
in_rows = st.sampled_from([*(c for c in HOSTILE if c != "\ud800"), *LINES])
whole = st.lists(in_rows, min_size=3, max_size=3)
table = st.lists(whole | whole | whole | st.lists(in_rows, max_size=4), max_size=30)


@given(rows=table, at_once=st.sampled_from([1, 3, 1000]), sampled=st.sampled_from([1, 3, 1000]))
def test_hostile_files_are_read_alike_by_columns_and_by_rows(
    tmp_path_factory, rows, at_once, sampled
) -> None:
    """The same records before the same error, however many rows are converted at once."""
    path = tmp_path_factory.mktemp("files") / "a.csv"
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([["x", "y", "id"], *rows])
    path.write_text(text.getvalue(), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "SAMPLED_ROWS", sampled)
        patch.setattr(csv_files, "AT_ONCE", at_once)
        fast = read(path)
        patch.setattr(csv_files, "AT_ONCE", 1)
        patch.setattr(csv_files, "_records", one_by_one)
        slow = read(path)
    assert fast == slow


def one_by_one(rows, columns):
    """The slow way."""
    return [
        {
            name: value
            for cell, (name, convert, missing) in zip(row, columns, strict=True)
            if name and (value := value_of(cell, convert, missing)) is not None
        }
        for row in rows
    ]


def read(path: Path) -> tuple[list[str], str]:
    """The records and the error of a file, as texts, so that types and bits are compared."""
    found: list[str] = []
    try:
        found.extend(map(repr, read_records(path, verbatim=["id"])))
    except ConfigError as error:
        return found, str(error)
    return found, ""


def test_records_before_a_damaged_row_are_read(tmp_path) -> None:
    """An error does not take the rows of its chunk with it."""
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 1500 + "3\n" + "4,5\n" * 10)

    records, error = read(path)

    assert len(records) == 1500
    assert "line 1502 has 1 cell, the header has 2" in error


def test_a_number_that_means_no_value_means_it_in_each_form() -> None:
    """`--missing -9999` was said, and pandas writes -9999.0: it was read as a temperature."""
    cells = ["-9999", "-9999.0", "-9999.00", "-9,999.0", "12.5"]
    found = values_of(cells, guessed(cells, "."), frozenset({"-9999"}))

    assert found == [None, None, None, None, 12.5]
