"""The values of an Arrow column as JSON values: one rule for files and for messages.

Rule: a value becomes what it would be in JSON. Times become ISO 8601 texts, decimal numbers floats,
durations seconds. NaN becomes None, because both mean "no value".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from consumers.codecs.values import json_value

__all__ = ["UnreadableTypeError", "UnreadableValueError", "column_values", "plain_type"]

_NOT_TEXT = "bytes that are not UTF-8"
_NO_DATE = "a time outside the years 1 to 9999"

_SAFE = ("integer", "floating", "boolean", "string", "large_string", "string_view", "null")


class TimeOutsideYears:
    """A time outside the years 1 to 9999, which fits no kind of field."""

    def __repr__(self) -> str:
        return _NO_DATE


class UnreadableTypeError(ValueError):
    """The type of a column has no JSON values."""


class UnreadableValueError(ValueError):
    """A row has a value that JSON cannot have. `row` is its number in the column."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


def column_values(column: Any, *, strict: bool) -> Sequence[object]:
    """The values of a column, None for a row without one.

    Parameters
    ----------
    strict
        Whether bytes that are not UTF-8, and times outside the years 1 to 9999, are an error; else
        they are values that fit no kind of field.

    Raises
    ------
    UnreadableTypeError
        The type of the column has no JSON values.
    UnreadableValueError
        A row has such a value, and `strict` is set.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        return [value if value == value else None for value in column.to_pylist()]
    if any(getattr(pa.types, f"is_{each}")(kind) for each in _SAFE):
        values: list[object] = column.to_pylist()
        return values
    if pa.types.is_dictionary(kind):
        return _by_code(column, strict=strict)
    try:
        values = _listed(column.cast(plain_type(kind), safe=False), strict=strict)
    except UnreadableValueError:
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UnreadableTypeError(str(error)) from None
    out: list[object] = []
    for value in values:
        try:
            out.append(_plain(value, strict=strict))
        except UnicodeDecodeError:
            raise UnreadableValueError(len(out), _NOT_TEXT) from None
    return out


def _listed(column: Any, *, strict: bool) -> list[object]:
    """The Python values of a column."""
    with suppress(OverflowError):
        values: list[object] = column.to_pylist()
        return values
    values = []
    for scalar in column:
        try:
            values.append(scalar.as_py())
        except OverflowError:
            if strict:
                raise UnreadableValueError(len(values), _NO_DATE) from None
            values.append(TimeOutsideYears())
    return values


def _by_code(column: Any, *, strict: bool) -> Sequence[object]:
    """The values of a dictionary, each of which exists once."""
    codes: list[int | None] = column.indices.to_pylist()
    try:
        values = column_values(column.dictionary, strict=strict)
    except UnreadableValueError as error:
        row = next((row for row, code in enumerate(codes) if code == error.row), None)
        if row is None:  # no row has it
            return _by_code(column.dictionary_decode().dictionary_encode(), strict=strict)
        raise UnreadableValueError(row, str(error)) from None
    return [None if code is None else values[code] for code in codes]


def plain_type(kind: Any) -> Any:
    """The type whose Python values do not depend on how the file was written."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind):  # pyarrow 26 casts nulls within a slice to nulls of another length
        return pa.bool_()
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name == "arrow.uuid" else plain_type(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp(_unit(kind), "UTC" if kind.tz is not None else None)
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_duration(kind):
        return pa.duration(_unit(kind))
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def _unit(kind: Any) -> str:
    """The unit of a type, but microseconds for nanoseconds. In a finer one a value may not fit."""
    unit: str = kind.unit
    return "us" if unit == "ns" else unit


def _plain(value: Any, *, strict: bool) -> object:
    """A value as it would be in JSON."""
    if isinstance(value, float):
        return value if value == value else None
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):  # a map
            return {
                str(_plain(key, strict=strict)): _plain(each, strict=strict) for key, each in value
            }
        return [_plain(each, strict=strict) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each, strict=strict) for key, each in value.items()}
    return json_value(value, strict=strict)
