"""The parameters of learners, checked by one set of rules.

Rule: a truth value is no number and a text is none; NumPy's scalars are, and become Python's own.
Whatever cannot be used is a SchemaError in one line: the parameter, what was expected, what came.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from stream.data.schema import LARGEST
from stream.errors import SchemaError

__all__ = ["flag", "mapping", "names", "number", "one_of", "shown", "whole"]

T = TypeVar("T")


def number(
    name: str, value: Any, low: float = -LARGEST, high: float = LARGEST, *, above: bool = False
) -> float:
    """`value` as a float, if it is a number from `low` to `high`; NaN and infinity are none.

    Parameters
    ----------
    name
        What the error calls it.
    above
        Whether it must be greater than `low`.

    Raises
    ------
    SchemaError
        It is no number, or out of range.

    Examples
    --------
    >>> number("ridge", 0), number("ridge", np.float32(0.5))
    (0.0, 0.5)
    >>> number("ridge", "0.1", low=0)
    Traceback (most recent call last):
    stream.errors.SchemaError: ridge must be a number from 0 to 1e100, got '0.1'
    """
    plain = _plain(value)
    if isinstance(plain, float | int | np.floating) and not isinstance(plain, bool):
        # Compared before it is converted: an int may be beyond every float.
        enough = plain > low if above else plain >= low
        if enough and plain <= high:
            return float(plain)
    raise SchemaError(f"{name} must be a number {_range(low, high, above)}, got {shown(value)}")


def whole(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int, if it is a whole number from `low` to `high`; 2.0 is none.

    Raises
    ------
    SchemaError
        It is no whole number, or out of range.

    Examples
    --------
    >>> whole("window", 2.5, 1, 100)
    Traceback (most recent call last):
    stream.errors.SchemaError: window must be a whole number from 1 to 100, got 2.5
    """
    plain = _plain(value)
    if isinstance(plain, int) and not isinstance(plain, bool) and low <= plain <= high:
        return plain
    raise SchemaError(f"{name} must be a whole number from {low} to {high}, got {shown(value)}")


def flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False; a text, which would count as true, is neither.

    Raises
    ------
    SchemaError
        It is no truth value.

    Examples
    --------
    >>> flag("norm", "false")
    Traceback (most recent call last):
    stream.errors.SchemaError: norm must be true or false, got 'false'
    """
    plain = _plain(value)
    if isinstance(plain, bool):
        return plain
    raise SchemaError(f"{name} must be true or false, got {shown(value)}")


def one_of(name: str, value: T, known: Iterable[Any]) -> T:
    """`value`, if it is one of the texts (or None) in `known`.

    Raises
    ------
    SchemaError
        It is another.

    Examples
    --------
    >>> one_of("variance", "mle", ("ml", "sample"))
    Traceback (most recent call last):
    stream.errors.SchemaError: variance must be one of "ml", "sample", got 'mle'
    """
    choices = list(known)
    for choice in choices:
        if value is choice or (isinstance(value, str) and value == choice):
            return cast("T", choice)
    told = ", ".join("None" if choice is None else f'"{choice}"' for choice in choices)
    raise SchemaError(f"{name} must be one of {told}, got {shown(value)}")


def mapping(name: str, value: Any, what: str) -> Mapping[Any, Any]:
    """`value`, if it is a mapping; `what` says of which to which, for the error.

    Raises
    ------
    SchemaError
        It is none.

    Examples
    --------
    >>> mapping("domains", [], "feature to its values")
    Traceback (most recent call last):
    stream.errors.SchemaError: domains must be a mapping from feature to its values, got []
    """
    if isinstance(value, Mapping):
        return value
    raise SchemaError(f"{name} must be a mapping from {what}, got {shown(value)}")


def names(name: str, value: Any) -> list[str]:
    """`value` as a list, if it is a list, tuple or set of texts; one text is none.

    Raises
    ------
    SchemaError
        It is another.

    Examples
    --------
    >>> names("text", "body")
    Traceback (most recent call last):
    stream.errors.SchemaError: text must be a list of names, got 'body'; write ['body']
    """
    listed = isinstance(value, Collection) and not isinstance(value, str | Mapping | np.ndarray)
    if listed and all(isinstance(each, str) for each in value):
        return list(value)
    came = shown(value)
    hint = f"; write [{came}]" if isinstance(value, str) else ""
    raise SchemaError(f"{name} must be a list of names, got {came}{hint}")


def shown(value: Any) -> str:
    """`value` as errors show it: in one line of bounded length.

    Examples
    --------
    >>> shown("no"), len(shown(10**400)) < 50
    ("'no'", True)
    """
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # Python does not write integers of more than some 4,300 digits
        return "a number too long to be written"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _range(low: float, high: float, above: bool) -> str:
    least, most = (f"{bound:g}".replace("e+", "e") for bound in (low, high))
    if above:
        return f"greater than {least} and at most {most}"
    return f"within ±{most}" if low == -high else f"from {least} to {most}"
