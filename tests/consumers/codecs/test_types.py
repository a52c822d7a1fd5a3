"""What each door makes of each type of value: docs/types.md has it cell by cell."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest

from consumers.base.errors import RecordError
from headwater.records import prepare_features
from stream.data.rows import Rows
from stream.data.schema import Schema, binary, category
from stream.errors import InvalidRecordError
from tests.consumers.codecs.type_table import (
    CASES,
    DOORS,
    NAME,
    PAGE,
    PAGES,
    Case,
    Refused,
    cell,
    shown,
)
from tests.lint.sources import ROOT

NAMED = re.compile(
    r"got \w|has (the )?type \w|is -?inf|bytes that are not|a time outside|is no JSON value"
)
CELLS = [(door, case) for case in CASES for door in DOORS if door in case.given]


@cache
def committed() -> dict[tuple[str, str], str]:
    """Door and title of a case to what the page says."""
    found = {}
    doors: list[str] = []
    for line in (ROOT / PAGE).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        first, *cells = [part.strip() for part in line.strip("|").split(" | ")]
        if not first:
            doors = cells
            continue
        found |= {
            (door, first.strip("*")): text for door, text in zip(doors, cells, strict=True) if text
        }
    return found


@pytest.mark.parametrize(("door", "case"), CELLS, ids=lambda x: getattr(x, "title", x))
def test_page_says_what_a_door_makes_of_a_value(door: str, case: Case) -> None:
    """And who refuses a value names the field and the type."""
    found = cell(door, case)

    assert committed().get((door, case.title), "") == shown(door, case, found)
    if isinstance(found, Refused):
        assert f"'{NAME}'" in found.why
        assert NAMED.search(found.why), found.why


def test_page_has_no_other_cells() -> None:
    """A case that was removed leaves no row."""
    polars = {"Polars"} if find_spec("polars") is None else set()
    made = {(door, case.title) for door, case in CELLS} | {(door, "---") for door in DOORS}
    said = {key for key in committed() if key[0] not in polars}

    assert said - made == set()
    assert {door for doors in PAGES.values() for door in doors} == set(DOORS)


def test_client_sends_values_inside_objects_by_the_same_rule() -> None:
    """A value inside is no other one; what JSON has not is named by its field."""
    inner = {"price": Decimal("1.50"), "days": [date(2026, 11, 24)], "code": bytearray(b"DE")}
    [made] = prepare_features([{"shop": inner, "n": np.int64(3), "s": np.datetime64("NaT")}])

    shop = b'{"price":1.5,"days":["2026-11-24"],"code":"DE"}'
    assert made.value == b'{"shop":%s,"n":3,"s":null}' % shop
    for odd in (np.array([1.0]), {1: 2j}, object()):
        with pytest.raises(RecordError, match="in field 'odd'"):
            list(prepare_features([{"fine": 1, "odd": odd}]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "D", "M"])
def test_a_duration_of_numpy_is_no_number(unit) -> None:
    """It is an integer for numpy, whose meaning is in its unit."""
    for kind in ("numeric", "binary", "categorical", "text"):
        with pytest.raises(InvalidRecordError, match=r"field 'x' expects .*, got timedelta64"):
            Rows.declared([{"x": np.timedelta64(1, unit)}], Schema.of(x=kind))


def test_decimal_numbers_are_categories_and_truth_values_as_in_other_doors() -> None:
    """Whole ones exactly, however large."""
    values = [Decimal("12.50"), Decimal("3.0"), Decimal(2**70), Decimal("NaN")]

    assert [category("x", value) for value in values] == ["12.5", "3", str(2**70), None]
    assert [binary("x", Decimal(value)) for value in (0, 1)] == [0.0, 1.0]
