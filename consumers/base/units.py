"""Durations, sizes, times and URLs as people write them. Pure; errors are ValueError.

Each message names what was expected, so that it can be shown unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from math import isfinite
from urllib.parse import unquote

from consumers.base.secrets import without_login

__all__ = [
    "EVERY",
    "decimal_marks",
    "duration_ms",
    "duration_text",
    "finite",
    "marks_text",
    "shown_url",
    "shown_urls",
    "size_bytes",
    "url_secrets",
    "utc_text",
]

EVERY = "*"  # stands for the columns that prove no decimal mark

_DECIMAL = re.compile(r"(?:(.+)=)?([.,])", re.DOTALL)
_DURATION_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SIZE_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_QUERY = r"[?&;][^=&;#\s]*=[^&;#\s'\"]+"  # a key of a URL's query, with its value
_LONGEST_MS = 36_500 * _DURATION_MS["d"]  # a century: sums of it and a timestamp fit int64


def decimal_marks(text: str) -> dict[str, str]:
    """Decimal marks by column: MARK for all columns, or FIELD=MARK, several separated by
    semicolons.

    Examples
    --------
    >>> decimal_marks(","), decimal_marks("price=,;weight=.")
    ({'*': ','}, {'price': ',', 'weight': '.'})
    """
    found: dict[str, str] = {}
    for each in text.split(";"):
        part = _DECIMAL.fullmatch(each.strip())
        if part is None:
            raise ValueError(
                f"expected a point or a comma, or FIELD=MARK such as 'price=,', got {each!r}"
            )
        found[(part[1] or EVERY).strip()] = part[2]
    return found


def marks_text(marks: Mapping[str, str]) -> str | None:
    """The text of decimal marks by column; None if no column has one.

    Examples
    --------
    >>> marks_text({"price": ",", "sum": ",", "n": ""}), marks_text({"price": ",", "weight": "."})
    (',', 'price=,;weight=.')
    """
    known = {name: mark for name, mark in marks.items() if mark in (".", ",")}
    if len(set(known.values())) < 2:
        return next(iter(known.values()), None)
    return ";".join(f"{name}={mark}" for name, mark in known.items() if ";" not in name)


def duration_ms(text: str) -> int:
    """A duration in milliseconds.

    Raises
    ------
    ValueError
        Not a number with a unit, shorter than 1 ms or longer than a century.

    Examples
    --------
    >>> duration_ms("7d"), duration_ms("1.5h"), duration_ms("250ms")
    (604800000, 5400000, 250)
    """
    expected = f'expected a duration such as "90s", "1.5h" or "7d" (ms, s, m, h, d), got {text!r}'
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?(ms|s|m|h|d)", text, re.ASCII)
    if not match:
        raise ValueError(expected)
    ms = round(float(match[1]) * _DURATION_MS[match[2]])
    if not 1 <= ms <= _LONGEST_MS:
        raise ValueError(f"{expected}; it must be between 1ms and 36500d")
    return ms


def duration_text(ms: int) -> str:
    """A duration in the largest unit that divides it: equal durations have equal texts.

    Examples
    --------
    >>> duration_text(604_800_000), duration_text(5_400_000), duration_text(250)
    ('7d', '90m', '250ms')
    """
    unit = next(unit for unit, size in _DURATION_MS.items() if ms % size == 0)
    return f"{ms // _DURATION_MS[unit]}{unit}"


def size_bytes(value: object) -> int:
    """A number of bytes, given as an integer or as text with a binary unit.

    Examples
    --------
    >>> size_bytes("1GiB"), size_bytes("1.5 KiB"), size_bytes(4096)
    (1073741824, 1536, 4096)
    """
    expected = f'expected a size such as "512MiB" or a whole number of bytes, got {_came(value)}'
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = isinstance(value, str) and re.fullmatch(
            r"(\d{1,18}(?:\.\d{1,9})?) ?(B|KiB|MiB|GiB|TiB)", value, re.ASCII
        )
        if not match:
            raise ValueError(expected)
        size = round(float(match[1]) * _SIZE_BYTES[match[2]])
    if not 1 <= size < 2**63:
        raise ValueError(f"{expected}; it must be positive")
    return size


def utc_text(value: object) -> str:
    """A date or time as ISO 8601 text in UTC; a time without a zone is UTC.

    Examples
    --------
    >>> utc_text("2024-03-01"), utc_text("2024-03-01T12:00:00.250+02:00")
    ('2024-03-01T00:00:00Z', '2024-03-01T10:00:00.250Z')
    """
    expected = f'expected a time such as "2024-03-01T12:00:00Z", got {_came(value)}'
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(expected) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError(expected)
    try:
        zoned = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError(expected) from None
    whole = "milliseconds" if zoned.microsecond else "seconds"
    return zoned.isoformat(timespec=whole).replace("+00:00", "Z")


def _came(value: object) -> str:
    """The received value for a message; not a table, because it can hold a password."""
    return "a table" if isinstance(value, dict) else repr(value)


def finite(value: object) -> bool:
    """Whether `value` has JSON values only, with finite numbers.

    Examples
    --------
    >>> finite({"a": [1, 0.5, "x", None]}), finite([float("inf")]), finite(date(2024, 3, 1))
    (True, False, False)
    """
    if isinstance(value, dict):
        return all(isinstance(k, str) and finite(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(finite(v) for v in value)
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str | bool | int)


def shown_url(url: str) -> str:
    """The URL for a message: without a login and without the values of its query.

    Examples
    --------
    >>> shown_url("https://me:secret@host/path?token=abc&X-Amz-Signature=def#part")
    'https://***@host/path?token=***&X-Amz-Signature=***#part'
    """
    return _hide_query(without_login(url))


def shown_urls(text: str) -> str:
    """A text for a message: each URL in it without its password and the values of its query.

    Examples
    --------
    >>> shown_urls("expected a topic, got 'https://me:secret@host/path?token=abc'")
    "expected a topic, got 'https://me:***@host/path?token=***'"
    """
    return _hide_query(re.sub(r"(://[^\s/:@]*:)[^\s/]+@", r"\1***@", text))


def url_secrets(url: str) -> list[str]:
    """The secrets in a URL, as written and percent-decoded.

    Examples
    --------
    >>> url_secrets("s3://me:p%40ssword@host/path?token=abc")
    ['p%40ssword', 'p@ssword', 'abc']
    """
    login = re.search(r"//[^/:@]*:([^/]*)@", url)
    written = [login[1]] if login else []
    written += [value[0].partition("=")[2] for value in re.finditer(_QUERY, url)]
    return [text for value in written for text in dict.fromkeys((value, unquote(value)))]


def _hide_query(text: str) -> str:
    return re.sub(_QUERY, lambda found: f"{found[0].partition('=')[0]}=***", text)
