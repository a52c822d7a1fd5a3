"""Kernels that remove records from a Cholesky factor.

A factor is stored by columns: row k of `a` is column k of L; see `comoments`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from stream.kernel import kernel

COLLAPSED = 1e-10  # share of a pivot² below which a subtraction has lost too many digits
EMPTIED = 1e-12  # share of a sum of squares below which the rest is a rounding error


@kernel
def downdate(a: Any, x: Any) -> bool:
    """L L' -= x x', a float64 (D, D); False, with both unusable, if a pivot collapses; O(D²)."""
    for k in range(a.shape[0]):
        if x[k] == 0.0:
            continue
        left = (a[k, k] - x[k]) * (a[k, k] + x[k])
        if left <= COLLAPSED * a[k, k] * a[k, k]:
            return False
        c = sqrt(left) / a[k, k]
        z = x[k] / a[k, k]
        a[k, k] = sqrt(left)
        for j in range(k + 1, a.shape[0]):
            a[k, j] = (a[k, j] - z * x[j]) / c
            x[j] = c * x[j] - z * a[k, j]
    return True


@kernel
def products(a: Any, out: Any) -> None:
    """The upper half of L L', out float64 (D, D); O(D³)."""
    out[:] = 0.0
    for i in range(a.shape[0]):
        for j in range(i, a.shape[0]):
            for k in range(j, a.shape[0]):
                out[j, k] += a[i, j] * a[i, k]


@kernel
def cholesky(m: Any, held: Any, least: Any, out: Any) -> None:
    """out: the factor of the upper half of m float64 (D, D), which is overwritten; O(D³).

    If a pivot is below the rounding error of held float64 (D,), its column has only the root of
    least float64 (D,), which is known to be in m's diagonal.
    """
    out[:] = 0.0
    for k in range(m.shape[0]):
        if m[k, k] <= EMPTIED * held[k]:
            out[k, k] = sqrt(least[k])
            continue
        root = sqrt(m[k, k])
        for j in range(k, m.shape[0]):
            out[k, j] = m[k, j] / root
        for i in range(k + 1, m.shape[0]):
            for j in range(i, m.shape[0]):
                m[i, j] -= out[k, i] * out[k, j]


@kernel
def rebuild(a: Any, x: Any, least: Any, out: Any) -> None:
    """out: the factor of L L' - x x', with a column of `least` where only a rounding error is left;
    O(D³)."""
    m = out.copy()
    products(a, m)
    held = x.copy()
    for k in range(a.shape[0]):
        held[k] = m[k, k]
        for j in range(k, a.shape[0]):
            m[k, j] -= x[k] * x[j]
    cholesky(m, held, least, out)
