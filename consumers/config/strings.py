"""What the strings of a field are: names, codes, or numbers that are written as text. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from math import isnan

__all__ = ["LEADING_ZERO", "LONGEST_ID", "form_of"]

LONGEST_ID = 64  # characters
LEADING_ZERO = re.compile(r"[+-]?0\d")


def form_of(name: str, strings: list[str], *, csv: bool) -> str:
    """What the strings are; for numbers as strings, why they stay text and how to change that."""
    parsed = sum(1 for s in strings if _parses(s))
    if (decorated := _decorated(strings)) is not None:
        return f"numbers with other signs, such as {decorated[:20]!r}: only plain ones are numbers"
    if 2 * parsed < len(strings):
        return "strings"
    zeros = any(LEADING_ZERO.match(s) for s in strings)
    if not csv:
        if zeros:
            return "codes with leading zeros"
        if parsed == 1:
            return "1 is a number written as a string; send it as a JSON number for numeric"
        return f"{parsed:,} are numbers written as strings; send them as JSON numbers for numeric"
    numeric = shlex.quote(f"{name}=numeric")
    if parsed == len(strings) and zeros:
        return (
            f"kept as text because of leading zeros; `produce --types {numeric}` makes it a number"
        )
    if parsed == len(strings):
        return (
            "kept as text, because some after the sample are no plain numbers; "
            f"`produce --types {numeric}` makes them missing"
        )
    some = "1 is a plain number" if parsed == 1 else f"{parsed:,} are plain numbers"
    return f"kept as text, because only {some}"


# A number with a unit, in brackets as a loss, with the sign after it, as a formula of Excel, as a
# duration, or with digits that are not 0 to 9.
_SPACE = r"[ \xa0\u202f]"
_DIGITS = r"\d+(?:[.,'\xa0\u202f]\d{3})*(?:[.,\u066b\uff0e]\d+)?"
_DECORATED = re.compile(
    rf"(?:[A-Z]{{3}}{_SPACE}|[€$£¥]{_SPACE}?)?[-+\u2212]?{_DIGITS}"
    rf"(?:[-+]|{_SPACE}[^\W\d]{{1,4}}|{_SPACE}?[%‰°²³µ€$£¥/]\w{{0,4}})?"
    rf"|\([€$£]?{_DIGITS}\)|=\"[-+]?{_DIGITS}\"|\d+:\d\d(?::\d\d)?"
)


def _decorated(strings: Sequence[str]) -> str | None:
    """The first string that is a number with something around it, if all are numbers so."""
    if not all(len(s) <= LONGEST_ID and _DECORATED.fullmatch(s.strip()) for s in strings):
        return None
    odd = (s.strip() for s in strings if not _parses(s) or not s.isascii())
    return next(odd, None)


def _parses(value: str) -> bool:
    try:
        return not isnan(float(value))
    except ValueError:
        return False
