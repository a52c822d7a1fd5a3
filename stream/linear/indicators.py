"""Categories and tokens of rows as indicators, and bins of numbers and pairs of values as more.

Rule: a category is the bucket of "field, unit separator, value", and so is the bin of a number. No
token has that character, so a category and a token are never the same text. They may still share
one of the 2**20 buckets. The bin of a number depends on the values learned before the step. So
there are indicators of numbers for each step of a block, not for each row.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats, Rows, rows_used
from stream.linear._kernels import crossed as kernels
from stream.linear._kernels.crossed import MOST_PAIRED
from stream.linear.bins import Bins
from stream.text import BUCKETS, bucket
from stream.text.bags import hashed_bags, named_buckets, without_numbers

__all__ = [
    "MOST_PAIRED",
    "Crossing",
    "Indicators",
    "crossed",
    "indicators",
    "named_crossed",
    "named_indicators",
]


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


class Crossing(NamedTuple):
    """What becomes an indicator: bins of numbers (0 for none), and pairs of values."""

    bins: int
    pairs: bool
    growth: float

    def buckets(self, names: list[str]) -> NDArray[np.int64]:
        """The bucket of each bin of each of these numbers."""
        return _buckets(tuple(names), self.bins).copy()


@lru_cache(maxsize=256)
def _buckets(names: tuple[str, ...], bins: int) -> NDArray[np.int64]:
    found = [[category_bucket(name, str(b)) for b in range(bins)] for name in names]
    return np.array(found, dtype=np.int64).reshape(len(names), bins)


def crossed(
    block: Block,
    source: NDArray[np.int64],
    column: NDArray[np.int64],
    crossing: Crossing,
    unit: Floats,
    bins: Bins,
) -> Indicators:
    """The indicators of each step; O(values² + tokens) a step. The bins learn.

    The numbers are block.rows.numeric[:, source], in the columns `column` of `bins`. unit: that of
    the state.
    """
    rows = block.rows
    used, bag = rows_used(block)
    plain, category = indicators(rows, used), categories(rows, used)
    names = [rows.numeric_names[j] for j in source.tolist()]
    fields = np.argsort(np.array([*names, *rows.categorical_names], dtype=object), kind="stable")
    values = min(fields.size, MOST_PAIRED)
    most = len(names) * (crossing.bins > 0) + values * (values - 1) // 2 * crossing.pairs
    start = np.zeros(len(block) + 1, dtype=np.int64)
    out = np.empty(int(np.diff(plain.start)[bag].sum()) + most * len(block), dtype=np.int64)
    kernels.cross(
        *(block.op, block.row, block.w, rows.numeric, source, column),
        *(unit.copy(), crossing.growth, bins),
        *(crossing.buckets(names), category, fields.astype(np.int64)),
        *(crossing.pairs, plain.start, bag, plain.bucket, start, out),
    )
    return Indicators(start, out[: start[-1]])


def named_crossed(
    rows: Rows, numbers: set[str], crossing: Crossing, found: Indicators
) -> dict[int, str]:
    """Bucket to the field of each bin, and to "a × b" for each pair of values, of the one row.

    `numbers`: those of the row that were learned. `found`: its indicators; O(bins · fields), as
    only pairs of buckets among them are named.
    """
    category = categories(rows, np.zeros(1, dtype=np.int64))[0].tolist()
    values = {n: [b] for n, b in zip(rows.categorical_names, category, strict=True) if b >= 0}
    learned, there = sorted(numbers), set(found.bucket.tolist())
    for name, buckets in zip(learned, crossing.buckets(learned).tolist(), strict=True):
        values[name] = [b for b in buckets if b in there]
    named = {b: name for name in learned for b in values[name]}
    paired = sorted(name for name in values if values[name])[: MOST_PAIRED * crossing.pairs]
    for one, other in combinations(paired, 2):
        for a, b in product(values[one], values[other]):
            named[int(kernels.pair_bucket(a, b))] = f"{one} × {other}"
    return named
