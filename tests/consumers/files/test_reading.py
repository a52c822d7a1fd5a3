"""JSONL and CSV files: what is read, and the one line for each way a file can be wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from math import isnan
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError
from consumers.files.source import FileSource, read_records
from tests.waiting import growth

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file, compressed where its name says so."""

    def written(name: str, content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


def column(path: Path, name: str = "x") -> list[object]:
    """One column of a CSV, None where a cell is empty."""
    return [record.get(name) for record in read_records(path)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "A.CSV"])
def test_csv_is_read_with_types(write: Write, name: str) -> None:
    """Integers are int, other numbers float, the rest text; the suffix says what the file is."""
    path = write(name, 'n,x,word\n1,2.5,one\n-3,1e3,"two, three"\n')

    records = list(read_records(path))

    assert records == [
        {"n": 1, "x": 2.5, "word": "one"},
        {"n": -3, "x": 1000.0, "word": "two, three"},
    ]
    assert [type(v) for v in records[0].values()] == [int, float, str]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz"])
def test_jsonl_is_read_with_empty_lines_skipped(write: Write, name: str) -> None:
    """A line is an object; empty lines, as at the end of many files, are none."""
    path = write(name, '{"a": 1}\n\n{"a": {"b": [null, true, "é"]}}\r\n\n')

    assert list(read_records(path)) == [{"a": 1}, {"a": {"b": [None, True, "é"]}}]


@pytest.mark.parametrize(("name", "body"), [("a.csv", "x\n1\n"), ("a.jsonl", '{"x": 1}')])
def test_byte_order_mark_is_no_part_of_the_first_name(write: Write, name: str, body: str) -> None:
    """Spreadsheets put one at the start."""
    path = write(name, b"\xef\xbb\xbf" + body.encode())

    assert list(read_records(path)) == [{"x": 1}]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0", "0.5", "-0.25", "+7"], [0, 0.5, -0.25, 7]),
        (["007", "12"], ["007", "12"]),
        (["-01", "12"], ["-01", "12"]),
        (["1", "two"], ["1", "two"]),
        (["1", "", "3"], [1, None, 3]),
        (["1", "NaN"], [1, None]),
        (["1", "NA", "N/A", "?", "-", " ? ", "None", "null", "-1"], [1, *[None] * 7, -1]),
        (["NA", "NA"], [None, None]),
        (["red", "NA", " - ", "none", "NAB"], ["red", None, None, "none", "NAB"]),
        (["true", "NA", "false"], [True, None, False]),
        (["007", "?"], ["007", None]),
        (["1", "inf"], ["1", "inf"]),
        (["1_000"], ["1_000"]),
        (["1e999"], ["1e999"]),
        ([" 1", "2 "], [1, 2]),
        (["1,234.5", "7"], [1234.5, 7]),
        (["0,5", "1.234,5", "12"], [0.5, 1234.5, 12]),
        (["1,234", "0,5"], [1.234, 0.5]),
        (["$1.50", "-$2"], [1.5, -2]),
        (["3 €", "4,5 €"], [3, 4.5]),
        (["5%", "12.5 %"], [5, 12.5]),
        (["$", "€5"], ["$", "€5"]),
        (["007,5", "1,5"], ["007,5", "1,5"]),
        (["1,2,3", "4,5"], ["1,2,3", "4,5"]),
        (["12345678901234567890123"], [12345678901234567890123]),
        (["999999999999999999", "1000000000000000001"], [10**18 - 1, 10**18 + 1]),
        (["1" * 301], [float("1" * 301)]),
        (["True", "1"], ["True", "1"]),
    ],
)
def test_column_is_numeric_only_if_every_cell_is_a_plain_number(
    write: Write, cells: list[str], expected: list[object]
) -> None:
    """A leading zero, or one cell that is not a number, makes the whole column text."""
    path = write("a.csv", "x,y\n" + "".join(f'"{cell}",1\n' for cell in cells))

    assert column(path) == expected


@pytest.mark.parametrize(
    ("odd", "numbers"),
    [
        (["missing", "n/d"], True),
        (["A1", "B2"], False),
        (["007"], False),
        (["a", "b", "c", "d"], False),
        (["missing"] * 101, False),
    ],
)
def test_few_words_among_measurements_do_not_make_them_text(
    write: Write, odd: list[str], numbers: bool
) -> None:
    """`missing` among a hundred numbers is no value; codes, and more words, are texts."""
    cells = [f"{i / 4}" for i in range(100)] + odd
    path = write("a.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))

    assert [isinstance(v, float) for v in column(path)] == [numbers] * 100 + [False] * len(odd)


def test_few_numbers_with_a_word_are_a_category(write: Write) -> None:
    """`4`, `f`, `r` are kinds of drives: no number may be lost, or the word."""
    path = write("a.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in ["4", "f", "8"] * 50))

    assert column(path) == ["4", "f", "8"] * 50


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "x;y\n0.5;b, c\n"),
        ("a.csv", "x;y\n0,5;b, c\n"),
        ("a.csv", "x\ty\n0.5\tb, c\n"),
        ("a.tsv", "x\ty\n0.5\tb, c\n"),
        ("a.csv.gz", "x|y\n0.5|b, c\n"),
        ("a.csv", 'x, y\n0.5, "b, c"\n'),
        ("a.csv", 'x,y,,\n0.5,"b, c",,\n'),
        ("a.csv", 'x,y\n0.5,"b, c",\n'),
        ("a.csv", 'x,y\n,\n0.5,"b, c"\n,\n'),
    ],
)
def test_other_separators_and_empty_columns_are_read(write: Write, name: str, content: str) -> None:
    """What spreadsheets write: semicolons, tabs, decimal commas, empty columns and rows."""
    path = write(name, content)

    assert list(read_records(path)) == [{"x": 0.5, "y": "b, c"}]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_does_not_decide_the_decimal_mark(write: Write, separator: str) -> None:
    """`1,234` is below two in one file with semicolons, and above a thousand in another."""
    path = write("a.csv", f"x{separator}y\n1,234{separator}a\n")

    with pytest.raises(ConfigError, match=r"'1,234' is 1234 or 1\.234, and no cell shows which"):
        column(path)


def test_columns_with_equal_names_get_numbers_and_it_is_said(write: Write) -> None:
    """Tables that were joined have them; a free name is taken."""
    path = write("a.csv", "x,y,x,x_2,x\n1,2,3,4,5\n")
    said: list[str] = []

    [record] = FileSource(path, say=said.append).records()
    assert record == {"x": 1, "y": 2, "x_3": 3, "x_2": 4, "x_4": 5}
    assert [line.partition("csv: ")[2] for line in said] == [
        "the header has column 'x' again: it is read as 'x_3'",
        "the header has column 'x' again: it is read as 'x_4'",
    ]


def test_a_label_whose_name_two_columns_have_is_an_error(write: Write) -> None:
    """Nobody knows which one is meant."""
    path = write("a.csv", "x,y,y\n1,2,3\n")

    with pytest.raises(ConfigError, match="column 'y' twice, and it is the id or the label"):
        list(read_records(path, verbatim=["y"]))


def test_first_column_without_a_name_has_the_names_of_the_rows(write: Write) -> None:
    """As pandas and R write them."""
    path = write("a.csv", ",x\n0,5\n1,6\n")

    assert list(read_records(path)) == [{"index": 0, "x": 5}, {"index": 1, "x": 6}]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.0", "0.0", ""], [1, 0, None]),
        (["1.0", "0.5"], [1.0, 0.5]),
        (["5%", "10%"], ["5%", "10%"]),
        (["1,5", "2,5"], ["1,5", "2,5"]),
        (["01.0", "02.0"], ["01.0", "02.0"]),
    ],
)
def test_whole_labels_with_a_decimal_point_are_integers(
    write: Write, cells: list[str], expected: list[object]
) -> None:
    """pandas writes integers so beside empty cells; other labels stay as they are."""
    path = write("a.csv", "y,x\n" + "".join(f'"{cell}",1\n' for cell in cells))

    labels = [record.get("y") for record in read_records(path, verbatim=("y",))]

    assert labels == expected
    assert list(map(type, labels)) == list(map(type, expected))


def test_first_thousand_rows_decide_and_a_later_word_stays_a_string(write: Write) -> None:
    """The service rejects that record; the others keep their numbers."""
    path = write("a.csv", "x\n" + "1\n" * 1000 + "two\n3\n007\n")
    early = write("b.csv", "x\n" + "1\n" * 999 + "two\n3\n")

    assert column(path)[999:] == [1, "two", 3, "007"]
    assert column(early)[998:] == ["1", "two", "3"]


def test_late_text_for_missing_is_missing(write: Write) -> None:
    """After the rows that decide the kinds, `NA` is no string."""
    path = write("a.csv", "x\n" + "1\n" * 1000 + "NA\n2\n")

    assert column(path)[999:] == [1, None, 2]


def test_own_list_of_missing_texts_replaces_the_default(write: Write) -> None:
    """An empty cell is missing in any case, and NaN is never a number."""
    path = write("a.csv", "x,y\n1,NA\n-999,?\n,nan\nnan,3\n")

    own = list(read_records(path, missing=["-999"]))

    assert own == [{"x": 1, "y": "NA"}, {"y": "?"}, {"y": "nan"}, {"y": "3"}]
    assert list(read_records(path, missing=[]))[1] == {"x": -999, "y": "?"}


def test_ids_and_labels_are_missing_only_if_they_are_empty(write: Write) -> None:
    """`+` and `-` are classes, `NA` is a country, and None is a diagnosis."""
    path = write("a.csv", "id,x,y\nNA,-,-\n-,1,+\n?,2,\n")

    assert list(read_records(path, verbatim=("id", "y"))) == [
        {"id": "NA", "y": "-"},
        {"id": "-", "x": 1, "y": "+"},
        {"id": "?", "x": 2},
    ]


def test_types_override_what_would_be_guessed(write: Write) -> None:
    """Codes stay text, padded numbers become numbers, truth values become such."""
    path = write("a.csv", "code,padded,flag,note\n12,007,true,5\n13,008,0,6\n")
    types = {"code": "categorical", "padded": "numeric", "flag": "binary", "note": "text"}

    records = list(read_records(path, types))

    assert records[0] == {"code": "12", "padded": 7, "flag": True, "note": "5"}
    assert records[1] == {"code": "13", "padded": 8, "flag": 0, "note": "6"}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["True", "FALSE", "false"], [True, False, False]),
        (["true", "", "false"], [True, None, False]),
        (["true", "yes"], ["true", "yes"]),
        (["true"] * 1000 + ["maybe"], [True] * 1000 + ["maybe"]),
    ],
)
def test_column_of_true_and_false_is_one_of_truth_values(
    write: Write, cells: list[str], expected: list[object]
) -> None:
    """In any case, by the same first 1,000 cells; a later word stays a string."""
    path = write("a.csv", "x,y\n" + "".join(f"{cell},1\n" for cell in cells))

    assert column(path) == expected


def test_cell_with_line_breaks_is_one_cell(write: Write) -> None:
    """Quoted line breaks neither end a record nor count as one."""
    path = write("a.csv", 'x,y\n"a\nb",1\n')

    assert list(read_records(path)) == [{"x": "a\nb", "y": 1}]


def test_cell_as_long_as_a_record_may_be_is_read(write: Write) -> None:
    """Texts beyond csv's own bound of 128 KiB are no fault of the file."""
    path = write("a.csv", "x\n" + "w" * (1 << 20) + "\n")

    assert len(str(column(path)[0])) == 1 << 20


def test_jsonl_keeps_nan_and_infinity_for_the_service_to_judge(write: Write) -> None:
    """Python writes them, though JSON has none."""
    path = write("a.jsonl", '{"x": NaN, "y": Infinity}\n')

    (record,) = read_records(path)

    assert isinstance(record["x"], float)
    assert isnan(record["x"])
    assert json.dumps(record["y"]) == "Infinity"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2 is not JSON (Expecting value at byte 7)"),
        ("app.log", '{"a": 1}\n', "give --format jsonl"),
        ("Junk", "From a@b Mon Jan 1\nSubject: x\n\n", "it looks like mail: give --format mbox"),
        ("7", "Return-Path: <a@b.org>\nSubject: x\n\n", "it looks like mail: give --format eml"),
        ("app.log", "a,b\n1,2\n", "convert it, or give --format"),
        ("a.jsonl", "[1, 2]\n", "line 1 is JSON but not an object, got [1, 2]"),
        ("a.jsonl", '[{"a": 1}]\n', "one JSON object; --format json reads an array"),
        ("a.jsonl", b'{"\xc3\xa4": "\xff"}\n', "line 1, byte 9: 0xff is not UTF-8"),
        ("a.jsonl", "[" * 100_000, "line 1 is nested too deeply"),
        (
            "a.csv",
            b"x\n" * 600_000 + b"a\xe9\n",
            "line 600001, byte 2: 0xe9 is not UTF-8; correct the file, or name its encoding, for "
            "example --encoding cp1252",
        ),
        ("a.csv", "x,y\n1,2\n1,2,3\n", "line 3 has 3 cells, the header has 2"),
        ("a.csv", "x,y,z\n1,2,3\n1,2\n", "line 3 has 2 cells, the header has 3; leave a cell"),
        ("a.csv", "x,y\n1\n", "line 2 has 1 cell, the header has 2"),
        ("a.csv", "# sales of May\nx,y\n1,2\n", "has 2 cells, the header has 1; remove lines"),
        ("a.csv", "x;y\n1;2;3\n", "line 2 has 3 cells, the header has 2"),
        ("a.csv", "x,\n1,2\n", "a column without a name"),
        ("a.csv", "", "expected a header line"),
        ("a.xlsx", "x", "expected a file name ending in .arrow"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    write: Write, name: str, content: str | bytes, said: str
) -> None:
    """The line names the file, the place and what was expected."""
    path = write(name, content)

    with pytest.raises(ConfigError) as caught:
        list(read_records(path))

    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_damaged_and_unreadable_files_are_config_errors(tmp_path: Path) -> None:
    """What the device says is told in our words."""
    damaged = tmp_path / "a.csv.gz"
    damaged.write_bytes(b"x,y\n")
    cut = tmp_path / "b.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-12])
    folder = tmp_path / "c.csv"
    folder.mkdir()

    for path, said in (
        (tmp_path / "none.csv", "no such file; check the name"),
        (damaged, "damaged gzip file .*; fetch it again"),
        (cut, "damaged gzip file .*; fetch it again"),
        (folder, "the directory has no files; check the name"),
    ):
        with pytest.raises(ConfigError, match=said):
            list(read_records(path))


def test_types_of_unknown_columns_and_kinds_are_refused(write: Write) -> None:
    """A slip of the pen must not be ignored."""
    path = write("a.csv", "colour,size\nred,1\n")

    with pytest.raises(ConfigError, match="no column 'color'; it has colour, size"):
        list(read_records(path, {"color": "categorical"}))
    with pytest.raises(ConfigError, match="expected one of numeric, binary"):
        list(read_records(path, {"size": "number"}))


def test_many_columns_are_read_in_proportion(write: Write) -> None:
    """Whether two have one name is not asked of each pair: 40,000 columns took half a minute."""
    few, many = (
        write(f"{n}.csv", ",".join(map(str, range(n))) + "\n" + "1," * (n - 1) + "1")
        for n in (2_500, 20_000)
    )

    def read(path: Path) -> int:
        [record] = read_records(path)
        return len(record)

    assert read(many) == 20_000
    assert growth(lambda: read(few), lambda: read(many)) < 32  # half of a square
