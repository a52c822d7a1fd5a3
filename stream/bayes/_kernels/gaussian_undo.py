"""Kernels that unlearn records of independent normal features. Self-contained.

The cells are those of the Gaussian kernels. In a chunk of eight lanes, row 0 is the anchor and row
1 the scale. Then come weight, mean, sum of squared deviations and variance over all classes, then
the same of each class.
"""

from __future__ import annotations

from math import isnan
from typing import Any

from numba import njit

LANES, HEAD, PER_CLASS = 8, 2, 4


@njit(cache=True)
def without(v: float, w: float, rounding: float, n: float, mean: float, m2: float) -> Any:
    """Weight, mean and sum of squares without v: Welford's update, inverted."""
    left = n - w
    if left <= rounding:
        return 0.0, 0.0, 0.0
    d = v - mean
    rest = m2 - d * d * (w * (n / left))
    return left, mean - d * (w / left), rest if rest > 1e-12 * m2 else 0.0  # else a rounding error


@njit(cache=True)
def unlearn(
    x: Any, source: Any, column: Any, c: int, w: float, own: float, total: float, s: Any
) -> None:
    """Unlearn x, float64 (p,), of weight w (in units) from class c.

    source, column int64 (q,): x[source[i]] belongs to lane column[i], counted over all chunks. own,
    total: a weight below which the rest is a rounding error, in the class and over all classes.
    """
    for i in range(source.shape[0]):
        value = x[source[i]]
        if isnan(value):
            continue
        j, k = column[i] // LANES, column[i] % LANES
        v = (value - s[j, 0, k]) * s[j, 1, k]
        for a, rounding in ((HEAD, total), (HEAD + PER_CLASS * (c + 1), own)):
            n, mean, m2 = s[j, a, k], s[j, a + 1, k], s[j, a + 2, k]
            s[j, a, k], s[j, a + 1, k], s[j, a + 2, k] = without(v, w, rounding, n, mean, m2)
