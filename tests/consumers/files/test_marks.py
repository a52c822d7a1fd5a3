"""Decimal marks of CSV columns: a number is read as it was meant, or the user is asked."""

from __future__ import annotations

from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import ConfigError
from consumers.base.units import marks_text
from consumers.files.format import Options
from consumers.files.source import FileSource

POINT, COMMA = ".", ","


def written(number: Decimal, mark: str, group: str) -> str:
    """A number as people write it: the oracle, which formats and never parses."""
    text = f"{number:,f}" if group else f"{number:f}"
    names = {",": group, ".": mark}
    return "".join(names.get(character, character) for character in text)


places = st.integers(0, 4)
styles = st.sampled_from([(".", ""), (",", ""), (".", ","), (",", "."), (",", "\xa0"), (".", "'")])
column = st.tuples(
    styles, places, st.lists(st.decimals(-99999, 99999, places=4), min_size=1, max_size=12)
)


def columns_of(drawn) -> tuple[dict[str, list[str]], dict[str, list[Decimal]], dict[str, str]]:
    """Columns of one file as texts, what they mean, and their marks."""
    texts, meant, marks = {}, {}, {}
    for n, ((mark, group), digits, values) in enumerate(drawn):
        rounded = [round(value, digits) + Decimal(0) for value in values]
        meant[f"c{n}"] = rounded
        texts[f"c{n}"] = [written(value, mark, group) for value in rounded]
        marks[f"c{n}"] = mark
    return texts, meant, marks


def is_proof(cell: str) -> bool:
    """Whether a number has one meaning: its last mark is not followed by three digits, or there
    are two kinds of marks, or more digits before the mark than a group has."""
    marks = [c for c in cell if c in ".,"]
    if not marks:
        return False
    before, after = cell.replace("-", "").replace(marks[-1], "|").rsplit("|", 1)
    grouped = len(set(marks)) > 1 or marks.count(marks[0]) > 1
    odd = any(c in "'\xa0" for c in before)
    return grouped or odd or len(after) != 3 or len(before) > 3 or before.startswith("0")


def file_of(path, texts) -> None:
    rows = map(";".join, zip_longest(*texts.values(), fillvalue=""))
    path.write_text("\n".join([";".join(texts), *rows]) + "\n", encoding="utf-8")


def found(path, meant, **options) -> list[list[object]]:
    said: list[str] = []
    source = FileSource(path, Options(sep=";", quote="none", **options), said.append)
    records = list(source.records())
    return [[r.get(name) for r in records if r.get(name) is not None] for name in meant]


@given(st.lists(column, min_size=1, max_size=3), st.data())
def test_a_number_is_read_as_meant_or_the_user_is_asked(tmp_path_factory, drawn, data) -> None:
    """One program writes a file, so all columns have one mark; each may group its thousands."""
    mark = data.draw(st.sampled_from([POINT, COMMA]))
    drawn = [(style, n, values) for style, n, values in drawn if style[0] == mark]
    if not drawn:
        return
    texts, meant, _ = columns_of(drawn)
    path = tmp_path_factory.mktemp("marks") / "a.csv"
    file_of(path, texts)

    asked = False
    try:
        read = found(path, meant)
    except ConfigError as error:
        asked = "no cell shows which" in str(error)
        read = found(path, meant, decimal=mark)
    proven = any(is_proof(cell) for cells in texts.values() for cell in cells)
    assert read == [list(map(float, values)) for values in meant.values()]
    assert not (asked and proven)


@given(st.lists(column, min_size=1, max_size=3))
def test_given_marks_are_obeyed_whatever_other_columns_have(tmp_path_factory, drawn) -> None:
    """Columns of one file may have different marks, if they are given."""
    texts, meant, marks = columns_of(drawn)
    path = tmp_path_factory.mktemp("marks") / "a.csv"
    file_of(path, texts)

    given_ = ";".join(f"{name}={mark}" for name, mark in marks.items())
    assert found(path, meant, decimal=given_) == [
        list(map(float, values)) for values in meant.values()
    ]


@pytest.mark.parametrize(
    "cells", [["950", "1.234", "12.500"], ["1,234"], ["$1,234", "$7"], ["-1.234", "unknown"] * 40]
)
def test_three_digits_after_every_mark_are_asked_about(tmp_path, cells) -> None:
    """1.234 is 1.234 or 1234: a factor of 1000 is never guessed."""
    path = tmp_path / "a.csv"
    if "unknown" in cells:
        cells = [*(f"{n}.234" for n in range(1, 50)), "unknown"]
    file_of(path, {"x": cells})

    with pytest.raises(ConfigError, match=r"column 'x': .* no cell shows which; say --decimal"):
        found(path, ["x"])


def test_a_blank_groups_thousands_before_decimals_and_nowhere_else(tmp_path) -> None:
    """`1 234,50` is French money, and `601 234 567` a Polish phone."""
    path = tmp_path / "a.csv"
    file_of(path, {"x": ["1 234,50", "12,25"], "phone": ["601 234 567", "601 234 568"]})

    assert found(path, ["x", "phone"]) == [[1234.5, 12.25], ["601 234 567", "601 234 568"]]


def test_ids_that_look_like_powers_of_ten_stay_text(tmp_path) -> None:
    """`12E5` and `1200000` are two ids. A measurement such as 1e-05 is still a number."""
    path = tmp_path / "a.csv"
    file_of(path, {"id": ["12E5", "7"], "label": ["1e-05", "0.5"], "x": ["12E5", "7"]})

    records = FileSource(path, Options(sep=";")).records(verbatim={"id", "label"})
    assert list(records) == [
        {"id": "12E5", "label": 1e-05, "x": 1_200_000.0},
        {"id": "7", "label": 0.5, "x": 7},
    ]


def test_another_column_that_proves_its_mark_decides_and_it_is_said(tmp_path) -> None:
    """One program writes all columns of a file; `init` writes the mark into the configuration."""
    path = tmp_path / "a.csv"
    file_of(path, {"x": ["950", "1.234"], "y": ["7,5", "8"]})
    said: list[str] = []

    source = FileSource(path, Options(sep=";"), said.append)
    assert [record["x"] for record in source.records()] == [950, 1234]
    assert any("decimal commas, as in other columns, in x: '1.234' is 1234" in s for s in said)
    assert marks_text(source.decimal_marks) == ","


def test_columns_that_prove_different_marks_decide_no_other_one(tmp_path) -> None:
    """Then the question stays."""
    path = tmp_path / "a.csv"
    file_of(path, {"x": ["1.234"], "y": ["7,5"], "z": ["7.5"]})

    with pytest.raises(ConfigError, match="column 'x'"):
        found(path, ["x"])


def test_a_later_cell_of_either_mark_is_no_number_where_no_mark_is_known(tmp_path) -> None:
    """The sample has no mark: 1.234 then stays a text, which a service counts; 2.5 is a number."""
    path = tmp_path / "a.csv"
    file_of(path, {"x": ["7"] * 1000 + ["1.234", "2.5", "1,234"]})

    assert found(path, ["x"])[0][1000:] == ["1.234", 2.5, "1,234"]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["2.50 €", "$3.00"], "'2.50 €' and '$3.00' have different units"),
        (["0.5", "50 %"], "'0.5' and '50 %' have different units"),
        (["$2.50", "3.00"], None),
        (["5 %", "50 %"], None),
    ],
)
def test_units_of_one_column_are_named(tmp_path: Path, cells: list[str], said: str | None) -> None:
    """Euros and dollars were one number, and nobody heard of it."""
    path, lines = tmp_path / "prices.csv", list[str]()
    path.write_text("price\n" + "".join(f"{cell}\n" for cell in cells))
    records = list(FileSource(path, say=lines.append).records())

    assert all(isinstance(record["price"], int | float) for record in records)
    found = [line for line in lines if "different units" in line]
    assert found == [] if said is None else f"column 'price': {said}" in found[0]
