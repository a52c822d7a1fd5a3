"""The texts that mean "no value" or a number, as people and programs write them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["MISSING", "is_missing", "number_in"]

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
