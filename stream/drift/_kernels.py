"""Kernels of detectors.

ADWIN adds in the same order as river, because an alarm depends on the last bit of a sum.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel

WIDTH, TOTAL, VARIANCE, BEFORE, AFTER = range(5)
ROWS, TICK = range(2)


class BucketWindow(NamedTuple):
    """A window as buckets: row r has sums of 2**r values, the oldest bucket first.

    total, variance float64 (R, K + 1): sum of a bucket, and of its squared deviations; used int64
    (R,): number of used buckets of a row. sums float64 (5,): count, sum and squared deviations of
    the values in the window, and the means before and after the last cut. clock int64 (2,): used
    rows, values since the start.
    """

    total: NDArray[float64]
    variance: NDArray[float64]
    used: NDArray[int64]
    sums: NDArray[float64]
    clock: NDArray[int64]


@kernel
def drop(n: int, r: int, s: Any) -> None:
    """Remove the n oldest buckets of row r."""
    s.used[r] -= n
    for k in range(s.used[r]):
        s.total[r, k] = s.total[r, k + n]
        s.variance[r, k] = s.variance[r, k + n]
    for k in range(s.used[r], s.used[r] + n):
        s.total[r, k] = s.variance[r, k] = 0.0


@kernel
def insert(x: float, s: Any) -> None:
    """Add a value. If a row is full, two of its buckets become one of the next row."""
    total, variance, used, sums = s.total, s.variance, s.used, s.sums
    total[0, used[0]], variance[0, used[0]] = x, 0.0
    used[0] += 1
    sums[WIDTH] += 1.0
    n = sums[WIDTH]
    if n > 1.0:
        d = x - sums[TOTAL] / (n - 1.0)
        sums[VARIANCE] += (n - 1.0) * d * d / n
    sums[TOTAL] += x
    r, size = 0, 1.0
    while used[r] == total.shape[1] and r + 1 < used.shape[0]:
        d = total[r, 0] / size - total[r, 1] / size
        k = used[r + 1]
        total[r + 1, k] = total[r, 0] + total[r, 1]
        variance[r + 1, k] = variance[r, 0] + variance[r, 1] + size * 0.5 * d * d
        used[r + 1] += 1
        s.clock[ROWS] = max(s.clock[ROWS], r + 2)
        drop(2, r, s)
        r, size = r + 1, 2.0 * size


@kernel
def forget_oldest(s: Any) -> None:
    """Remove the oldest bucket."""
    r = s.clock[ROWS] - 1
    n = 2.0**r
    sums, total = s.sums, s.total[r, 0]
    mean = total / n
    sums[WIDTH] -= n
    sums[TOTAL] -= total
    rest = sums[TOTAL] / sums[WIDTH]
    apart = n * sums[WIDTH] * (mean - rest) * (mean - rest) / (n + sums[WIDTH])
    sums[VARIANCE] -= s.variance[r, 0] + apart
    drop(1, r, s)
    if s.used[r] == 0:
        s.clock[ROWS] -= 1


@kernel
def cut(delta: float, least: float, s: Any) -> bool:
    """Whether the means before and after some cut differ."""
    sums = s.sums
    n0, n1, u0, u1 = 0.0, sums[WIDTH], 0.0, sums[TOTAL]
    spread = sums[VARIANCE] / sums[WIDTH]
    confidence = log(2.0 * log(sums[WIDTH]) / delta)
    for r in range(s.clock[ROWS] - 1, -1, -1):
        size = 2.0**r
        for k in range(s.used[r]):
            n0, n1 = n0 + size, n1 - size
            u0, u1 = u0 + s.total[r, k], u1 - s.total[r, k]
            if n0 < least or n1 < least or n1 <= 0.0:
                continue
            m = 1.0 / (n0 - least + 1.0) + 1.0 / (n1 - least + 1.0)
            bound = sqrt(2.0 * m * spread * confidence) + 2.0 / 3.0 * confidence * m
            if abs(u0 / n0 - u1 / n1) > bound:
                return True
    return False


@kernel
def adwin(values: Any, delta: float, every: int, least: int, grace: int, s: Any) -> int:
    """Add values until the mean has changed. Returns the index of that value, or -1.

    values float64 (n,). A cut is searched every `every` values, with at least `least` values on
    either side, if the window has more than `grace` values.
    """
    sums = s.sums
    for i in range(values.shape[0]):
        insert(values[i], s)
        s.clock[TICK] += 1
        if s.clock[TICK] % every != 0 or sums[WIDTH] <= grace:
            continue
        width, total, found = sums[WIDTH], sums[TOTAL], False
        while cut(delta, float(least), s):
            forget_oldest(s)
            found = True
        if found:
            sums[BEFORE] = (total - sums[TOTAL]) / (width - sums[WIDTH])
            sums[AFTER] = sums[TOTAL] / sums[WIDTH]
            return i
    return -1


@kernel
def farthest(a: Any, b: Any) -> int:
    """The largest difference of the counts of two samples of n: the Kolmogorov–Smirnov statistic
    times n.

    a, b float64 (n,), sorted; equal values are counted in both samples before the comparison.
    """
    n, i, j, most = a.shape[0], 0, 0, 0
    while i < n and j < n:
        x = min(a[i], b[j])
        while i < n and a[i] == x:
            i += 1
        while j < n and b[j] == x:
            j += 1
        most = max(most, abs(i - j))
    return most
