"""Fields and labels of records with their kinds, and bounded dictionaries.

This file has the rules for bad input. Absent values, null and NaN are not evidence. A value of the
wrong kind, an infinite number and a number whose square would overflow raise `InvalidRecordError`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite, isnan, nan
from typing import Any, Literal, Self, cast, get_args

import numpy as np

from stream.errors import InvalidRecordError, SchemaError

__all__ = [
    "BUCKETS",
    "HEAVIEST",
    "KINDS",
    "LARGEST",
    "PER_NAME",
    "Dictionary",
    "Field",
    "Kind",
    "Label",
    "Schema",
    "binary",
    "category",
    "is_missing",
    "number",
    "plain_label",
    "text",
    "text_bytes",
]

Kind = Literal["numeric", "binary", "categorical", "text"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Label = str | int | bool
LONGEST_LABEL = 512  # characters

# The sum of 2**53 weighted squares of such numbers stays below the largest double.
LARGEST = 1e100
HEAVIEST = 2.0**53
NO_NUMBERS = (bool, str, np.timedelta64)  # the last one is an integer to numpy
NUMBERS = (float, int, np.floating, np.integer, Decimal)
NA_TYPES = ("NAType", "NaTType")  # of pandas, which is not imported for them
# A text is read as counts of hashed tokens, see `stream.text`.
BUCKETS = 2**20

# Bytes that a name needs in addition to its characters: a Python object and its dictionary entry.
PER_NAME = 200
NAMES_ROOM = 2**26  # bytes for the names of features, or for other names of that number


@dataclass(frozen=True, slots=True)
class Field:
    """A named feature and its kind."""

    name: str
    kind: Kind

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise SchemaError(f"the name of a field must be text, got a {_kind(self.name)}")
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            came = repr(self.kind) if isinstance(self.kind, str) else f"a {_kind(self.kind)}"
            raise SchemaError(f"field {self.name!r}: kind must be one of {KINDS}, got {came}")


@dataclass(frozen=True)
class Schema:
    """The declared features of a stream, in order.

    Examples
    --------
    >>> schema = Schema.of(price="numeric", colour="categorical", urgent="binary")
    >>> schema.numeric
    ('price', 'urgent')
    """

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.fields, tuple) or any(type(f) is not Field for f in self.fields):
            raise SchemaError("a schema is a tuple of fields; see Schema.of")
        names = [f.name for f in self.fields]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SchemaError(f"fields declared twice: {', '.join(twice)}")

    @classmethod
    def of(cls, **kinds: Kind) -> Schema:
        """A schema from keyword arguments name=kind."""
        return cls(tuple(Field(name, kind) for name, kind in kinds.items()))

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric and binary fields: the columns of floats."""
        return tuple(f.name for f in self.fields if f.kind in ("numeric", "binary"))

    @cached_property
    def categorical(self) -> tuple[str, ...]:
        """Names of the categorical fields."""
        return tuple(f.name for f in self.fields if f.kind == "categorical")

    @cached_property
    def text(self) -> tuple[str, ...]:
        """Names of the text fields."""
        return tuple(f.name for f in self.fields if f.kind == "text")


class Dictionary:
    """Values and their codes 0, 1, 2, … in the order they were added, up to a bound.

    Parameters
    ----------
    bound
        The largest number of values. More are rejected and counted in `overflow`.
    room
        The most bytes of its texts together: `text_bytes` and `PER_NAME` for each.

    Examples
    --------
    >>> d = Dictionary(bound=2)
    >>> d.add("a"), d.add("b"), d.add("a"), d.add("c"), d.overflow
    (0, 1, 0, -1, 1)
    """

    __slots__ = ("bound", "bytes", "codes", "overflow", "room", "values")

    def __init__(
        self, bound: int, values: Iterable[Hashable] = (), *, room: int = NAMES_ROOM
    ) -> None:
        self.bound, self.room = bound, room
        self.overflow = 0
        self.values: list[Any] = list(values)
        self.codes: dict[Any, int] = {v: i for i, v in enumerate(self.values)}
        self.bytes = sum(map(_cost, self.values))

    def renewed(self, values: Iterable[Hashable], overflow: int = 0) -> Self:
        """A dictionary with the same bounds and these values."""
        out = type(self)(self.bound, values, room=self.room)
        out.overflow = overflow
        return out

    def add(self, value: Hashable) -> int:
        """The code of `value`, a new one if needed; -1 if the bound is reached."""
        code = self.codes.get(value)
        if code is not None:
            return code
        cost = _cost(value)
        if len(self.values) >= self.bound or self.bytes + cost > self.room:
            self.overflow += 1
            return -1
        self.bytes += cost
        self.codes[value] = len(self.values)
        self.values.append(value)
        return len(self.values) - 1

    def remove(self, value: Hashable) -> None:
        """Forget `value`. Later codes are reduced by one. O(len)."""
        self.values.remove(value)
        self.bytes -= _cost(value)
        self.codes = {v: i for i, v in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self.codes

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)


def _cost(value: Hashable) -> int:
    return PER_NAME + text_bytes(value) if isinstance(value, str) else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, NUMBERS) and not isinstance(value, NO_NUMBERS)


def is_missing(value: Any) -> bool:
    """Whether a value is no evidence, whatever its field is: None, a NaN of any type of numbers,
    NaT, and pandas' NA.

    Examples
    --------
    >>> is_missing(None), is_missing(Decimal("NaN")), is_missing(np.datetime64("NaT"))
    (True, True, True)
    >>> is_missing(""), is_missing(0)
    (False, False)
    """
    if isinstance(value, float | np.floating):
        return bool(value != value)
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in NA_TYPES


def number(name: str, value: Any) -> float:
    """`value` as a float; NaN if it is missing.

    Raises
    ------
    InvalidRecordError
        It is not a number, is infinite, or is beyond `LARGEST`.

    Examples
    --------
    >>> number("x", 3), number("x", None)
    (3.0, nan)
    >>> number("x", "3")
    Traceback (most recent call last):
    stream.errors.InvalidRecordError: wrong_kind: field 'x' expects a number, got str
    """
    if value is None:
        return nan
    if not _is_number(value):
        if is_missing(value):
            return nan
        raise InvalidRecordError(
            "wrong_kind", f"field {name!r} expects a number, got {_kind(value)}"
        )
    try:
        x = nan if isinstance(value, Decimal) and value.is_nan() else float(value)
    except OverflowError:
        raise InvalidRecordError("out_of_range", f"field {name!r}: beyond ±{LARGEST:g}") from None
    if isfinite(x):
        if abs(x) > LARGEST:
            raise InvalidRecordError(
                "out_of_range", f"field {name!r}: {x:g} is beyond ±{LARGEST:g}"
            )
        return x + 0.0  # -0.0 becomes 0.0, because equal numbers must have equal bits
    if isnan(x):
        return nan
    raise InvalidRecordError("infinite", f"field {name!r} is {x}; send null if a value is missing")


def binary(name: str, value: Any) -> float:
    """`value` (true, false, 0 or 1) as 1.0 or 0.0; NaN if it is missing."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    if is_missing(value):
        return nan
    if _is_number(value):
        x = number(name, value)
        if x in (0.0, 1.0) or isnan(x):
            return x
    came = f"{value!r:.60}" if isinstance(value, str) or _is_number(value) else _kind(value)
    raise InvalidRecordError(
        "wrong_kind", f"field {name!r} expects true, false, 0 or 1, got {came}"
    )


def category(name: str, value: Any) -> str | None:
    """`value` (text, a number or a truth value) as text; None if it is missing.

    Examples
    --------
    >>> category("c", "red"), category("c", 3), category("c", 3.0), category("c", True)
    ('red', '3', '3', 'true')
    >>> category("c", 2**53 + 1)
    '9007199254740993'
    """
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if is_missing(value):
        return None
    if _is_number(value):
        x = number(name, value)
        if isinstance(value, int | np.integer | Decimal) and value == int(value):
            return str(int(value))  # as floats, neighbours of 2**53 are equal
        return str(int(x)) if x.is_integer() else repr(x)
    raise InvalidRecordError("wrong_kind", f"field {name!r} expects a category, got {_kind(value)}")


def text(name: str, value: Any) -> str | None:
    """Check that `value` is text; None if it is missing."""
    if isinstance(value, str) or value is None:
        return value
    if is_missing(value):
        return None
    raise InvalidRecordError("wrong_kind", f"field {name!r} expects text, got {_kind(value)}")


def plain_label(value: Any) -> Label:
    """`value` as a Python str, int or bool.

    Raises
    ------
    InvalidRecordError
        It is another type (a label is a name, not a measurement), too long, or not a 64-bit
        integer.
    """
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if (kind is str and len(value) <= LONGEST_LABEL) or kind is bool:
        return cast("str | bool", value)
    if kind is int and -(2**63) <= value < 2**63:
        return cast("int", value)
    raise InvalidRecordError(
        "label_kind",
        f"a label must be text of at most {LONGEST_LABEL} characters, a 64-bit integer or a truth "
        f"value, got {_kind(value)}",
    )


def text_bytes(value: str) -> int:
    """The bytes of a text for all limits: one for each character, four if not all are ASCII.

    It is at least the memory it needs, and the same on every machine, because limits decide what is
    learned.

    Examples
    --------
    >>> text_bytes("red"), text_bytes("né")
    (3, 8)
    """
    return len(value) if value.isascii() else 4 * len(value)


def _kind(value: Any) -> str:
    return type(value).__name__
