"""Kernels of independent normal features. Self-contained: their compiled form is never stale."""

from __future__ import annotations

from math import inf, isnan, log, pi
from typing import Any, NamedTuple

from numba import njit
from numpy import float64
from numpy.typing import NDArray

Floats = NDArray[float64]

LOG_2PI = log(2.0 * pi)
# A term below this is a likelihood no double can hold; kept finite so that terms can be added.
LOWEST = -1e300
LARGEST_UNIT = 2.0**64  # as of the prior: beyond it, weights are scaled down by it, exactly


class Moments(NamedTuple):
    """Moments of D features for C classes, all float64.

    n, mean, m2 (C, D): weight, mean and sum of squared deviations of x - anchor a class. anchor
    (D,): the first value learned. total_n, total_mean, total_m2 (D,): the same over all classes.
    unit (1,): what a weight of 1 learned last counts.
    """

    n: Floats
    mean: Floats
    m2: Floats
    anchor: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    unit: Floats


@njit(cache=True)
def learn(x: Any, source: Any, column: Any, c: int, w: float, s: Any) -> None:
    """Welford's update of class c by x, float64 (p,).

    source, column int64 (q,): x[source[k]] belongs to state column column[k].
    """
    for k in range(source.shape[0]):
        value = x[source[k]]
        if isnan(value):
            continue
        j = column[k]
        if s.total_n[j] == 0.0:
            s.anchor[j] = value
        v = value - s.anchor[j]
        # In this form a sum of squares never falls, whatever the weights.
        before = s.n[c, j]
        s.n[c, j] = before + w
        d = v - s.mean[c, j]
        s.mean[c, j] += d * (w / s.n[c, j])
        s.m2[c, j] += d * d * (w * (before / s.n[c, j]))
        before = s.total_n[j]
        s.total_n[j] = before + w
        d = v - s.total_mean[j]
        s.total_mean[j] += d * (w / s.total_n[j])
        s.total_m2[j] += d * d * (w * (before / s.total_n[j]))


@njit(cache=True)
def fade(s: Any, growth: float) -> None:
    """One more record: a weight of 1 counts `growth` times what it did."""
    s.unit[0] *= growth
    if s.unit[0] > LARGEST_UNIT:
        s.unit[0] /= LARGEST_UNIT
        for j in range(s.total_n.shape[0]):
            s.total_n[j] /= LARGEST_UNIT
            s.total_m2[j] /= LARGEST_UNIT
            for c in range(s.n.shape[0]):
                s.n[c, j] /= LARGEST_UNIT
                s.m2[c, j] /= LARGEST_UNIT


@njit(cache=True)
def without(v: float, w: float, n: float, mean: float, m2: float) -> Any:
    """Weight, mean and sum of squares after taking v back; Welford's update solved for before."""
    left = n - w
    if left <= 1e-9 * w:  # nothing but rounding
        return 0.0, 0.0, 0.0
    d = v - mean
    rest = m2 - d * d * (w * (n / left))
    return left, mean - d * (w / left), rest if rest > 1e-12 * m2 else 0.0  # or only rounding


@njit(cache=True)
def unlearn(x: Any, source: Any, column: Any, c: int, w: float, s: Any) -> None:
    """Take x, float64 (p,), of weight w (in units) back from class c."""
    for k in range(source.shape[0]):
        value = x[source[k]]
        if isnan(value):
            continue
        j = column[k]
        v = value - s.anchor[j]
        s.n[c, j], s.mean[c, j], s.m2[c, j] = without(v, w, s.n[c, j], s.mean[c, j], s.m2[c, j])
        s.total_n[j], s.total_mean[j], s.total_m2[j] = without(
            v, w, s.total_n[j], s.total_mean[j], s.total_m2[j]
        )


@njit(cache=True)
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    t = -0.5 * (LOG_2PI + log(var) + d * d / var)
    return t if t > LOWEST else LOWEST


@njit(cache=True)
def add_term(
    value: float, j: int, known: int, ddof: float, smoothing: float, s: Any, out: Any
) -> None:
    """Add the log density of `value` in state column j to out float64 (C,)."""
    if isnan(value) or s.total_n[j] <= 0.0:
        return
    spread = s.total_m2[j] / s.total_n[j]
    if spread <= 0.0:
        return  # constant so far: every class has the same point, the ratio is 1
    v = value - s.anchor[j]
    extra = smoothing * spread
    for c in range(known):
        n = s.n[c, j]
        if n <= 0.0:  # never seen in this class: no evidence, as probable as anywhere
            out[c] += density(v, s.total_mean[j], spread + extra)
            continue
        var = s.m2[c, j] / (n - ddof) if n > ddof else 0.0
        out[c] += density(v, s.mean[c, j], var + extra)


@njit(cache=True)
def terms(
    x: Any, source: Any, column: Any, known: int, ddof: float, smoothing: float, s: Any, out: Any
) -> None:
    """The log densities of x, float64 (p,): a row of out float64 (q, C) a feature."""
    for k in range(source.shape[0]):
        add_term(x[source[k]], column[k], known, ddof * s.unit[0], smoothing, s, out[k])


@njit(cache=True)
def progressive(
    steps: Any,
    x: Any,
    source: Any,
    column: Any,
    ddof: float,
    smoothing: float,
    s: Any,
    joint: Any,
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k].
    """
    known = steps.known
    k = 0
    for i in range(steps.op.shape[0]):
        xi = x[steps.row[i]]
        if steps.op[i] != 1:
            for f in range(source.shape[0]):
                add_term(xi[source[f]], column[f], known, ddof * s.unit[0], smoothing, s, joint[k])
            k += 1
        if steps.op[i] != 0:
            fade(s, steps.growth)
            c = steps.y[i]
            learn(xi, source, column, c, steps.w[i] * s.unit[0], s)
            known = max(known, c + 1)
