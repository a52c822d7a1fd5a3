"""A field of a document by its name; ids, labels, times and texts that mean "no value", as people
and programs write them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

__all__ = [
    "EXACT",
    "MISSING",
    "UNITS",
    "TimeField",
    "converted",
    "field_of",
    "is_missing",
    "key_of",
    "name_of",
    "number_in",
    "time_of",
    "timestamp_ms",
    "unit_of",
]

_NUMBER = re.compile(r" *[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? *", re.ASCII)
LONGEST_NUMBER = 400  # characters


# The default list of pandas, and two that people write by hand. The empty text covers blank cells.
MISSING: Final = frozenset(
    {
        *("", "?", "-"),
        *("NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A"),
        *("NaN", "nan", "-NaN", "-nan", "null", "NULL", "None"),
        *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)


def is_missing(text: str, missing: Collection[str] = MISSING) -> bool:
    """Whether a text means "no value", with or without spaces around it.

    Examples
    --------
    >>> [text for text in ("NA", " ? ", "", "none", "0") if is_missing(text)]
    ['NA', ' ? ', '']
    """
    return text in missing or text.strip() in missing


def number_in(text: str) -> float | None:
    """The number that a text is, with a decimal point; None if it is no number.

    Databases and money libraries write decimal numbers so, because JSON's lose digits.

    Examples
    --------
    >>> [number_in(text) for text in ("12.50", " -3 ", "1e3", "12,50", "0x1", "nan")]
    [12.5, -3.0, 1000.0, None, None, None]
    """
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    return float(text)


_END_OF_TIME: Final = 1 << 62  # the sum of a timestamp and a delay fits 64 bits
EXACT: Final = 1 << 53  # below it a float has all digits of an integer

# Units of a number of time, and how many are a second. Moments from March 1973 to the year 2286
# have 9 or 10 digits in seconds, 12 or 13 in ms, and so on: the size of a number says its unit.
UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_SECOND: Final = 10**8
_LAST_SECOND: Final = 10**10


class TimeField(NamedTuple):
    """A field with a time, and the unit of its numbers; None: their size says it.

    Examples
    --------
    >>> TimeField.of("at"), TimeField.of("shop:at:us")
    (TimeField(name='at', unit=None), TimeField(name='shop:at', unit='us'))
    """

    name: str
    unit: str | None

    @staticmethod
    @cache
    def of(text: str) -> TimeField:
        """What an option names: a field, or a field and the unit of its numbers."""
        name, colon, unit = text.rpartition(":")
        return TimeField(name, unit) if colon and unit in UNITS else TimeField(text, None)


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


def converted(record: Mapping[str, object], names: Collection[str]) -> dict[str, object]:
    """The record with the numbers that are texts in these fields as numbers.

    Examples
    --------
    >>> converted({"pay": {"amount": "12.50"}, "zip": "07"}, {"pay.amount"})
    {'pay': {'amount': 12.5}, 'zip': '07'}
    """
    out = dict(record)
    for name in names:
        value = field_of(out, name)
        number = number_in(value) if isinstance(value, str) else None
        if number is not None:
            out = _replaced(out, [name] if name in out else name.split("."), number)
    return out


def _replaced(
    record: Mapping[str, object], path: Sequence[str], value: object
) -> dict[str, object]:
    """A copy with another value at a path of objects."""
    first, *rest = path
    inner = record[first]
    if rest and isinstance(inner, Mapping):
        value = _replaced(inner, rest, value)
    return {**record, first: value}


def name_of(value: object) -> object:
    """An id or a label as it is compared: a number with a whole value is that integer.

    Programs write the integers of a column as 1.0 where other values of it are missing.

    Examples
    --------
    >>> [name_of(value) for value in (1.0, 0.5, "1.0", True, 2.0**53)]
    [1, 0.5, '1.0', True, 9007199254740992.0]
    """
    if type(value) is float and value.is_integer() and abs(value) < EXACT:
        return int(value)
    return value


def key_of(id_: object) -> bytes | None:
    """The key of a record with this id; None for a text that is cut within a character.

    Half of a surrogate pair has no bytes in UTF-8, and any other byte would be another id.

    Examples
    --------
    >>> key_of(7), key_of("né"), key_of("a\\ud83d")
    (b'7', b'n\\xc3\\xa9', None)
    """
    try:
        return str(id_).encode()
    except UnicodeEncodeError:
        return None


def time_of(record: Mapping[str, object], field: str) -> int:
    """The time in a field as ms since 1970; for `field` see `TimeField`.

    Raises
    ------
    ValueError
        See `timestamp_ms`.
    """
    name, unit = TimeField.of(field)
    return timestamp_ms(field_of(record, name), unit)


def unit_of(value: object) -> str | None:
    """The unit of a number by its size; None for another value, and for a size that no unit has.

    Examples
    --------
    >>> [unit_of(value) for value in (1709294400, 1709294400e6, 20240331, "2024-03-31")]
    ['s', 'us', None, None]
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = ((unit, value // per_second) for unit, per_second in UNITS.items())
    return next((unit for unit, at in seconds if _FIRST_SECOND <= at < _LAST_SECOND), None)


def timestamp_ms(value: object, unit: str | None = None) -> int:
    """A time as ms since 1970: ISO 8601 (UTC without a zone), or a number.

    Parameters
    ----------
    unit
        That of a number. None: its size says whether it is seconds, ms, µs or ns.

    Raises
    ------
    ValueError
        It is not a time, is before 1970, or its size does not say its unit.

    Examples
    --------
    >>> timestamp_ms("2024-03-01T12:00:00Z"), timestamp_ms(1709294400), timestamp_ms(1709294400000)
    (1709294400000, 1709294400000, 1709294400000)
    >>> timestamp_ms(5, "s")
    5000
    """
    ms: float = -1
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            ms = (zoned - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            ms = -1
    elif isinstance(value, int | float) and not isinstance(value, bool):
        known = unit or unit_of(value)
        if known is None and isfinite(value) and value >= 0:
            raise ValueError(
                f"expected a time, got {value!r}, which is no moment from 1973 to 2286 in s, ms, "
                "µs or ns; name its unit after the field, as in at:s, at:ms, at:us or at:ns"
            )
        if known is not None:
            per_second = UNITS[known]
            exact = isinstance(value, int)
            ms = value * 1000 // per_second if exact else value * 1000 / per_second
    if not (isfinite(ms) and 0 <= ms < _END_OF_TIME):
        raise ValueError(
            f"expected a time since 1970 (ISO 8601, or epoch s, ms, µs or ns), got {value!r}"
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
