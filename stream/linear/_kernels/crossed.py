"""Kernels of bins and pairs: the indicators that depend on what was learned before a step."""

from __future__ import annotations

from math import isnan
from typing import Any

from numpy import empty, int64, uint64

from stream.kernel import kernel
from stream.linear._kernels.binned import fade, learn_row

MOST_PAIRED = 16  # values of a record that are paired with each other
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Knuth's multiplicative hashing
BUCKET_BITS = 20


@kernel
def pair_bucket(a: int, b: int) -> int:
    """The bucket of two values at once, by their buckets in any order."""
    key = (uint64(min(a, b)) << uint64(BUCKET_BITS)) | uint64(max(a, b))
    return int((key * uint64(GOLDEN)) >> uint64(64 - BUCKET_BITS))


@kernel
def add_pairs(values: Any, found: int, out: Any, at: int) -> int:
    """Write the pairs of the first MOST_PAIRED of values[:found] to out[at:]; return the end."""
    for i in range(min(found, MOST_PAIRED)):
        for k in range(i):
            out[at] = pair_bucket(values[k], values[i])
            at += 1
    return at


@kernel
def cross(
    op: Any,
    row: Any,
    w: Any,
    x: Any,
    source: Any,
    column: Any,
    unit: Any,
    growth: float,
    b: Any,
    bins: Any,
    category: Any,
    order: Any,
    pairs: bool,
    plain: Any,
    bag: Any,
    bucket: Any,
    start: Any,
    out: Any,
) -> None:
    """Write the indicators of each step: those of its row, the bins of its numbers, and pairs; and
    learn the bins.

    op int8, row int64, w float64 (m,): as in `Block`. x float64 (n, p), source, column int64 (q,):
    as in `standardise`. unit float64 (1,): a copy, which advances here as it will in the state.
    b: `Bins`; they learn. bins int64 (q, b) or (q, 0): the bucket of each bin of a number. category
    int64 (rows used, c): the bucket of each category, -1 if missing. order int64 (q + c,): numbers,
    then categories, by name. The indicators of a row are bucket[plain[bag[i]]] …
    bucket[plain[bag[i] + 1] - 1]; those of step i become out[start[i]] … out[start[i + 1] - 1], all
    int64.
    """
    values, at, binned = empty(order.shape[0], int64), 0, bins.shape[1] > 0
    learned, cut = b.n, b.cut
    for i in range(op.shape[0]):
        r = bag[i]
        for k in range(plain[r], plain[r + 1]):
            out[at] = bucket[k]
            at += 1
        found = 0
        for field in order:
            k = field - source.shape[0]
            if k >= 0 and category[r, k] >= 0:
                values[found] = category[r, k]
                found += 1
            elif k < 0 and binned:
                value, j = x[row[i], source[field]], column[field]
                if isnan(value) or learned[j] <= 0.0:
                    continue
                below = 0  # few cuts; a search by halves would be slow, as it cannot be foreseen
                for c in range(cut.shape[1]):
                    below += cut[j, c] < value
                values[found] = bins[field, below]
                out[at] = values[found]
                at, found = at + 1, found + 1
        if pairs:
            at = add_pairs(values, found, out, at)
        start[i + 1] = at
        if op[i] != 0 and binned:
            fade(unit, growth, b)
            learn_row(x, row[i], w[i] * unit[0], source, column, b)
