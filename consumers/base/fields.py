"""A field of a document by its name, and ids, labels and times as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, Final

__all__ = ["field_of", "name_of", "timestamp_ms"]

# Epoch seconds reach this in the year 5138, epoch milliseconds did in March 1973.
_FIRST_MS: Final = 1e11
_END_OF_TIME: Final = 1 << 62  # the sum of a timestamp and a delay fits 64 bits
_EXACT: Final = 1 << 53  # below it a float has all digits of an integer


def field_of(record: Mapping[str, object], name: str) -> object:
    """The value of a field, None if absent; a dotted name is a path.

    Examples
    --------
    >>> field_of({"shop": {"city": "Bonn"}}, "shop.city")
    'Bonn'
    """
    if name in record or "." not in name:
        return record.get(name)
    found = _parent(record, name)
    return None if found is None else found[0].get(found[1])


def name_of(value: object) -> object:
    """An id or a label as it is compared: a number with a whole value is that integer.

    Programs write the integers of a column as 1.0 where other values of it are missing.

    Examples
    --------
    >>> [name_of(value) for value in (1.0, 0.5, "1.0", True, 2.0**53)]
    [1, 0.5, '1.0', True, 9007199254740992.0]
    """
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def timestamp_ms(value: object) -> int:
    """A time as ms since 1970: ISO 8601 (UTC without a zone), or a number of seconds or ms.

    Raises
    ------
    ValueError
        It is not a time, or before 1970.

    Examples
    --------
    >>> timestamp_ms("2024-03-01T12:00:00Z"), timestamp_ms(1709294400), timestamp_ms(1709294400000)
    (1709294400000, 1709294400000, 1709294400000)
    """
    ms = -1.0
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            ms = (zoned - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            ms = -1.0
    elif isinstance(value, int | float) and not isinstance(value, bool):
        ms = value * 1000 if abs(value) < _FIRST_MS else value
    if not (isfinite(ms) and 0 <= ms < _END_OF_TIME):
        raise ValueError(
            f"expected a time since 1970 (ISO 8601, or epoch seconds or ms), got {value!r}"
        )
    return int(ms)


def _parent(record: Mapping[str, object], name: str) -> tuple[Mapping[str, Any], str] | None:
    """The object with a field, and the name of the field in it."""
    if name in record:
        return record, name
    *path, last = name.split(".")
    inner: object = record
    for part in path:
        inner = inner.get(part) if isinstance(inner, dict) else None
    return (inner, last) if isinstance(inner, dict) and last in inner else None
