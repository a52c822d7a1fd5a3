"""Bins of numbers and pairs of values, as indicators beside those of the row.

Rule: the bin of a number depends on the moments learned before the step. So there are indicators
for each step of a block, not for each row.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats, Rows, rows_used
from stream.linear._kernels import crossed as kernels
from stream.linear._kernels.crossed import MOST_PAIRED
from stream.linear._kernels.logistic import Linear
from stream.linear.indicators import Indicators, categories, category_bucket, indicators

__all__ = ["MOST_PAIRED", "Crossing", "crossed", "named_crossed"]


class Crossing(NamedTuple):
    """What becomes an indicator: bins of numbers (0 for none), and pairs of values."""

    bins: int
    pairs: bool
    growth: float

    @property
    def cuts(self) -> Floats:
        """Where bins end, in standard deviations: bins of equal weight if numbers are normal."""
        return np.array(_cuts(self.bins), dtype=np.float64)

    def buckets(self, names: list[str]) -> NDArray[np.int64]:
        """The bucket of each bin of each of these numbers."""
        return _buckets(tuple(names), self.bins).copy()


@lru_cache(maxsize=64)
def _cuts(bins: int) -> tuple[float, ...]:
    return tuple(NormalDist().inv_cdf(i / bins) for i in range(1, bins))


@lru_cache(maxsize=256)
def _buckets(names: tuple[str, ...], bins: int) -> NDArray[np.int64]:
    found = [[category_bucket(name, str(b)) for b in range(bins)] for name in names]
    return np.array(found, dtype=np.int64).reshape(len(names), bins)


def crossed(
    block: Block,
    source: NDArray[np.int64],
    column: NDArray[np.int64],
    crossing: Crossing,
    s: Linear,
) -> Indicators:
    """The indicators of each step; O(values² + tokens) a step.

    The numbers are block.rows.numeric[:, source], in the columns `column` of the state `s`.
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
        *(s.unit.copy(), crossing.growth, s.n.copy(), s.mean.copy(), s.m2.copy()),
        *(crossing.buckets(names), crossing.cuts, category, fields.astype(np.int64)),
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
