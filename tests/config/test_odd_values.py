"""Columns that are numbers for people and not for a decoder: `init` says what they are."""

from __future__ import annotations

import math

import pytest

from consumers.codecs.account import FieldsView, UnknownField
from consumers.config.sample import infer
from consumers.telemetry.field_lines import field_lines


@pytest.mark.parametrize(
    "form",
    ["{:.2f} kg", "({:.2f})", "\u2212{:.2f}", "{:.2f}-", '="{:.2f}"', "{:.1f} EUR", "EUR {:.1f}"],
)
@pytest.mark.parametrize("csv", [True, False])
def test_numbers_with_other_signs_are_called_so(form: str, csv: bool) -> None:
    """They were `strings`, of too many values for a category or one with 73."""
    records = [{"x": form.format(i / 7)} for i in range(200)]
    [field] = infer(records, set(), text=True, csv=csv)

    assert field.kind != "numeric"
    assert f"numbers with other signs, such as {form.format(0)!r}: only plain ones" in field.why


def test_digits_of_another_script_are_called_so() -> None:
    """Python reads them as numbers, and no decoder does."""
    wide = str.maketrans("0123456789.", "０１２３４５６７８９．")
    [field] = infer([{"x": f"{i / 7:.2f}".translate(wide)} for i in range(90)], set(), text=True)

    assert "numbers with other signs, such as '０．００'" in field.why


@pytest.mark.parametrize("texts", ["B-{}", "AB{}", "10.0.0.{}", "1.2.{}", "00{}", "{}a"])
def test_codes_are_no_numbers(texts: str) -> None:
    """Order numbers, addresses, versions."""
    [field] = infer([{"x": texts.format(i)} for i in range(90)], set(), text=True)

    assert "other signs" not in field.why


def test_infinite_values_are_no_numbers() -> None:
    """All of them were, and each was then a bad value."""
    some = [{"x": math.inf if i % 4 == 0 else i / 3, "w": -math.inf} for i in range(200)]
    w, x = infer(some, set(), text=True)

    assert (w.kind, w.why) == (None, "200 of 200 values are infinite, which no model supports")
    assert x.why == "150 of 200 values are numbers; the other 50 ('inf') count as missing"


def test_a_declared_name_is_not_called_undeclared() -> None:
    """A field with the whole name comes before that of an object; the other one is not used."""
    view = FieldsView(("a.b",), 9, {"a.b": 9}, {}, 9, {"a.b": UnknownField(9, "1")}, 0)

    assert field_lines(view) == [
        "not used within objects, because a field with the whole name comes first: 'a.b'"
    ]
