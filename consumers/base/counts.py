"""Numbers of things, texts of records, and wrong numbers, in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NUMBERS", "counted", "first_ones", "printable", "wrong_number"]


def counted(n: int, one: str, more: str | None = None) -> str:
    """A number and its noun; `more` is the plural where an s is not enough.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(2, "entry", "entries")
    ('1 record', '1,200 records', '2 entries')
    """
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def first_ones(n: int, one: str) -> str:
    """The first `n` of something, with its noun.

    Examples
    --------
    >>> first_ones(1, "record"), first_ones(1200, "record")
    ('the first record', 'the first 1,200 records')
    """
    return f"the first {one}" if n == 1 else f"the first {counted(n, one)}"


def printable(text: str) -> str:
    """A text from a record, with its control codes and invisible characters escaped.

    Examples
    --------
    >>> printable("né"), printable("a\\x1b[31m")
    ('né', "'a\\\\x1b[31m'")
    """
    return text if text.isprintable() and text else repr(text)


_BOUNDS = {  # by pydantic's error types: in words, and the key of the bound
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
    "greater_than": ("more than", "gt"),
    "less_than": ("less than", "lt"),
}
NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}  # of texts


def wrong_number(detail: Mapping[str, Any]) -> str | None:
    """What was expected and what came, by an error of pydantic; None for one of another type.

    Examples
    --------
    >>> wrong_number({"type": "less_than_equal", "ctx": {"le": 65535}, "input": 99999})
    'expected at most 65,535, got 99,999'
    >>> wrong_number({"type": "greater_than", "ctx": {"gt": 0.0}, "input": "-0.5"})
    'expected more than 0, got -0.5'
    """
    if detail["type"] in NUMBERS:
        return f"expected {NUMBERS[detail['type']]}, got {detail['input']!r}"
    if detail["type"] not in _BOUNDS:
        return None
    words, key = _BOUNDS[detail["type"]]
    return f"expected {words} {_number(detail['ctx'][key])}, got {_number(detail['input'])}"


def _number(value: object) -> str:
    """A number as text. An option is a text already."""
    if isinstance(value, str):
        return f"{int(value):,}" if value.isdecimal() else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int | float) else repr(value)
