"""The message on a wrong number: of a configuration, and of an option of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NUMBERS", "wrong_number"]

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
