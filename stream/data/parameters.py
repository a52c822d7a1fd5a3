"""Checks of the parameters of learners, with the same rules for all.

Rule: truth values and texts are not numbers. NumPy's scalars are numbers and become Python's. An
invalid value raises a SchemaError with one line: the parameter, what was expected, what came.
"""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from stream.data.schema import LARGEST
from stream.errors import SchemaError

__all__ = ["check_half_life", "flag", "mapping", "names", "number", "one_of", "shown", "whole"]

T = TypeVar("T")


def number(
    name: str, value: Any, low: float = -LARGEST, high: float = LARGEST, *, above: bool = False
) -> float:
    """Check that `value` is a number from `low` to `high`, and return a float. NaN and infinity are
    rejected.

    Parameters
    ----------
    name
        The name in the error.
    above
        Whether it must be greater than `low`.

    Raises
    ------
    SchemaError
        It is not a number, or out of range.

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
        # Compared before the conversion, because an int may be larger than every float.
        enough = plain > low if above else plain >= low
        if enough and plain <= high:
            return float(plain)
    raise SchemaError(f"{name} must be a number {_range(low, high, above)}, got {shown(value)}")


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Check that `value` is a whole number from `low` to `high`. Floats, such as 2.0, are rejected.

    Raises
    ------
    SchemaError
        It is not a whole number, or out of range.

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
    """Check that `value` is True or False. Texts are rejected.

    Raises
    ------
    SchemaError
        It is not a truth value.

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


def check_half_life(half_life: Any) -> float | None:
    """Check that `half_life` is None or a number of at least 1.

    Examples
    --------
    >>> check_half_life(None), check_half_life(500)
    (None, 500.0)
    """
    return None if half_life is None else number("half_life", half_life, 1.0)


def one_of(name: str, value: T, known: Iterable[Any]) -> T:
    """Check that `value` is one of the texts (or None) in `known`.

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
    options = ", ".join("None" if choice is None else f'"{choice}"' for choice in choices)
    raise SchemaError(f"{name} must be one of {options}, got {shown(value)}")


def mapping(name: str, value: Any, what: str) -> Mapping[Any, Any]:
    """Check that `value` is a mapping. `what` names its keys and values in the error.

    Raises
    ------
    SchemaError
        It is not a mapping.

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
    """Check that `value` is a list, tuple or set of texts, and return a list. A single text is
    rejected.

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
    """`value` for an error message: one line of bounded length.

    Examples
    --------
    >>> shown("no"), len(shown(10**400)) < 50
    ("'no'", True)
    """
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # Python does not print integers of more than about 4,300 digits
        return "a number too long to print"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _range(low: float, high: float, above: bool) -> str:
    least, most = (f"{bound:g}".replace("e+", "e") for bound in (low, high))
    if above:
        return f"greater than {least} and at most {most}"
    return f"within ±{most}" if low == -high else f"from {least} to {most}"
