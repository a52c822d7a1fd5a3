"""Bins of numbers and pairs of values, as indicators beside those of the row.

Rule: the bin of a number depends on the moments learned before the step. So there are indicators
for each step of a block, not for each row.
"""

from __future__ import annotations

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
        inner = range(1, self.bins)
        return np.array([NormalDist().inv_cdf(i / self.bins) for i in inner], dtype=np.float64)

    def buckets(self, names: list[str]) -> NDArray[np.int64]:
        """The bucket of each bin of each of these numbers."""
        found = [[category_bucket(name, str(b)) for b in range(self.bins)] for name in names]
        return np.array(found, dtype=np.int64).reshape(len(names), self.bins)


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


def named_crossed(rows: Rows, crossing: Crossing) -> dict[int, str]:
    """Bucket to the field of each bin, and to "a × b" for each pair of values of the one row."""
    category = categories(rows, np.zeros(1, dtype=np.int64))[0].tolist()
    values = dict(zip(rows.categorical_names, ([b] for b in category), strict=True))
    buckets = crossing.buckets(list(rows.numeric_names)).tolist()
    values |= dict(zip(rows.numeric_names, buckets, strict=True))
    named = {b: name for name in rows.numeric_names for b in values[name]}
    for one in sorted(values):
        for other in sorted(values):
            if one < other and crossing.pairs:
                at = ((a, b) for a in values[one] for b in values[other] if min(a, b) >= 0)
                named |= {int(kernels.pair_bucket(a, b)): f"{one} × {other}" for a, b in at}
    return named
