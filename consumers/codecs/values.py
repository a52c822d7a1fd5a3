"""Values of typed formats as JSON values: one rule for Avro, Protobuf, Parquet, Arrow, and what a
client sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from consumers.base.errors import RecordError

__all__ = ["MOST_DIGITS", "MOST_VALUES", "check_values", "json_value", "number_of"]

MOST_DIGITS = 4300  # of an integer: the most that Python converts to text
MOST_VALUES = 100_000  # of a record with a schema, beside one for each of its bytes


def check_values(values: int, size: int) -> None:
    """Raise RecordError if a record of `size` bytes has too many values for them."""
    if values > MOST_VALUES + size:
        raise RecordError("oversize", f"more than {MOST_VALUES + size:,} values in {size:,} bytes")


def json_value(value: Any, *, strict: bool = False) -> Any:
    """A value as it would be in JSON.

    Times become ISO 8601 texts, decimal numbers numbers, durations seconds, bytes in UTF-8 texts,
    NA and NaT of pandas None. Other bytes stay bytes, which fit no kind of field; with `strict`
    they are an error.

    Raises
    ------
    UnicodeDecodeError
        Bytes are not UTF-8, and `strict` is set.

    Examples
    --------
    >>> json_value({"when": date(2026, 11, 24), "price": Decimal("12.50"), "code": b"DE"})
    {'when': '2026-11-24', 'price': 12.5, 'code': 'DE'}
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(k): json_value(v, strict=strict) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each, strict=strict) for each in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat() if value == value else None  # NaT is a datetime
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return number_of(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            if strict:
                raise
    kind = type(value).__name__
    if kind in ("datetime64", "timedelta64"):  # numpy, which this module does not load
        moment = value.item()
        if isinstance(moment, int):  # of ns, which Python's types do not have
            with suppress(TypeError):  # a duration of months
                moment = value.astype(f"{kind}[us]").item()
        return str(value) if isinstance(moment, int) else json_value(moment)
    return None if kind == "NAType" else value


def number_of(value: Decimal) -> int | float:
    """An integer if the decimal has no digits after the point by its type, else a float."""
    _, digits, exponent = value.as_tuple()
    return int(value) if exponent == 0 and len(digits) <= MOST_DIGITS else float(value)
