"""Lines of a CSV that are no records: sums, counts and units. They are read, and reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.files.cells import is_no_record
from consumers.files.source import FileSource

ROWS = [f"{i},{('bonn', 'köln')[i % 2]},{i % 9}.5,{'yn'[i % 2]}" for i in range(1, 41)]
HEADER = "id,town,amount,back"
FIRST, LAST = "the first line after the header", "the last line"


def read(tmp_path: Path, *lines: str) -> tuple[list[dict[str, object]], list[str]]:
    """The records of a file of these lines, and what is reported of it."""
    path, said = tmp_path / "export.csv", list[str]()
    path.write_text("\n".join(lines) + "\n")
    records = list(FileSource(path, say=said.append).records(verbatim={"id", "back"}))
    return records, [line.removeprefix(f"{path}: ") for line in said]


@pytest.mark.parametrize(
    "footer",
    [
        *(
            "Total,,164.0,",
            "Summe:,,164.0,",
            "Grand total,40,164.0,",
            "Anzahl,40,,",
            "(40 rows),,,",
        ),
        "Ende der Liste,,,",
    ],
)
def test_sum_of_the_same_width_is_named(tmp_path: Path, footer: str) -> None:
    """It was a record with the id `Total` and the largest amount, and nobody heard of it."""
    records, said = read(tmp_path, HEADER, *ROWS, footer)

    assert len(records) == len(ROWS) + 1
    assert [line.partition(" looks like no record")[0] for line in said] == [LAST]
    assert f"({footer.replace(',', ', ').strip(', ')}" in said[0]
    assert said[0].endswith("remove it if it is a sum, a count or a line of units")


def test_sum_after_many_rows_is_named(tmp_path: Path) -> None:
    """The first rows, which decide the columns, end before it."""
    _, said = read(tmp_path, HEADER, *ROWS * 60, "Total,,9840.0,")

    assert [line.partition(" looks like no record")[0] for line in said] == [LAST]


def test_units_are_named_and_no_column_is_text_for_them(tmp_path: Path) -> None:
    """As programs of measurement write them below the names."""
    records, said = read(tmp_path, HEADER, "-,-,°C,-".replace("-", "#"), *ROWS)

    assert [line.partition(" looks like no record")[0] for line in said] == [FIRST]
    assert records[0]["amount"] == "°C"
    assert all(isinstance(record["amount"], float) for record in records[1:])


@pytest.mark.parametrize(
    "row", ["41,bonn,NA,y", "41,,2.5,", "x41,bonn,2.5,y", "41,Total,2.5,y", "41,bonn,,n"]
)
def test_records_with_a_missing_or_odd_value_are_records(tmp_path: Path, row: str) -> None:
    """A text in place of one number is a value that does not fit, and is counted as such."""
    assert read(tmp_path, HEADER, *ROWS, row)[1] == []


@pytest.mark.parametrize(("amount", "said"), [("184.0", [LAST]), ("99.0", [])])
def test_sum_with_all_cells_is_named(tmp_path: Path, amount: str, said: list[str]) -> None:
    """Its ids are texts, and its other cells are filled: only the sum shows it."""
    rows = [f"o{row}" for row in ROWS]
    found = read(tmp_path, HEADER, *rows, f"TOTAL,bonn,{amount},n")[1]

    assert [line.partition(" looks like no record")[0] for line in found] == said


def test_few_rows_show_nothing() -> None:
    """Two rows have no usual kinds."""
    assert not is_no_record(["Total", "", "3"], [["a", "b", "1"], ["a", "c", "2"]])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1},\n{"a": 2},\n', "a comma follows the object); every line must be one JSON "),
        ('[\n{"a": 1},\n{"a": 2}\n]\n', "an array begins); every line must be one JSON "),
    ],
)
def test_array_in_lines_is_called_so(tmp_path: Path, text: str, why: str) -> None:
    """`Extra data at byte 9` is no advice."""
    path = tmp_path / "rows.jsonl"
    path.write_text(text)

    with pytest.raises(ConfigError, match=re.escape(why)) as error:
        list(FileSource(path).records())
    assert str(error.value).endswith(("remove these commas", "--format json reads an array"))
