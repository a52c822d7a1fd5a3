"""The texts that mean "no value", as people and programs write them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

__all__ = ["MISSING", "is_missing"]

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
