"""Categories and tokens of rows as indicators, and bins of numbers and pairs of values as more.

Rule: a category is the bucket of "field, unit separator, value", and so is the bin of a number. No
token has that character, so a category and a token are never the same text. They may still share
one of the 2**20 buckets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Rows
from stream.text import BUCKETS, bucket
from stream.text.bags import hashed_bags, named_buckets, without_numbers

__all__ = ["Indicators", "indicators", "named_indicators"]

SEPARATOR = "\x1f"
TRUNCATED = BUCKETS  # the key of a truncated text, after all buckets


class Indicators(NamedTuple):
    """Indicators of rows: row r has bucket[start[r]] … bucket[start[r + 1] - 1].

    All int64, each bucket once in a row, rising; a truncated text has -1 as its last one.
    """

    start: NDArray[np.int64]
    bucket: NDArray[np.int64]


def indicators(rows: Rows, used: NDArray[np.int64]) -> Indicators:
    """The indicators of the rows at `used`; O(categories + tokens). Texts may be encoded or not."""
    if not rows.categorical_names and not rows.text_names:
        none = np.zeros(0, dtype=np.int64)
        return Indicators(np.zeros(used.size + 1, dtype=np.int64), none)
    return _sets(rows, used, categories(rows, used))


def categories(rows: Rows, used: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each category of the rows at `used`, (rows, fields); -1 if missing."""
    out = np.full((used.size, len(rows.categorical_names)), -1, dtype=np.int64)
    for j, name in enumerate(rows.categorical_names):
        cells = rows.categorical[used, j].tolist()
        code = {cell: category_bucket(name, cell) for cell in set(cells) if cell is not None}
        out[:, j] = [code.get(cell, -1) for cell in cells]
    return out


def _sets(rows: Rows, used: NDArray[np.int64], found: NDArray[np.int64]) -> Indicators:
    width = TRUNCATED + 1  # a key is row · width + bucket
    at, column = np.nonzero(found >= 0)
    keys = [at * width + found[at, column]]
    if rows.text_names:
        bags = hashed_bags(without_numbers(rows), used)
        owner = np.repeat(np.arange(used.size), np.diff(bags.start))
        keys.append(owner * width + np.where(bags.bucket < 0, TRUNCATED, bags.bucket))
    row, sets = np.divmod(np.unique(np.concatenate(keys)), width)
    start = np.searchsorted(row, np.arange(used.size + 1))
    return Indicators(start, np.where(sets == TRUNCATED, -1, sets))


def category_bucket(name: str, value: str) -> int:
    """The bucket of a category of a field.

    Examples
    --------
    >>> category_bucket("colour", "red")
    916993
    """
    return bucket(f"{name}{SEPARATOR}{value}")


def named_indicators(rows: Rows) -> dict[int, str]:
    """Bucket to the category or the tokens of the one row that are in it; texts not encoded."""
    named = {int(b.removeprefix("bucket ")): token for b, token in named_buckets(rows).items()}
    for name, value in zip(rows.categorical_names, rows.categorical[0].tolist(), strict=True):
        if value is not None:
            b = category_bucket(name, value)
            named[b] = f"{named[b]} or {name}" if b in named else name
    return named
