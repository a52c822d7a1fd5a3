"""Kernels of Poisson counts."""

from __future__ import annotations

from math import inf, isnan, log, log1p, pi
from typing import Any, NamedTuple

from numpy import float64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import advance, scale_down

Floats = NDArray[float64]

LARGEST_RATE = 1e300  # of a count with a tiny weight and b = 0; so no term becomes infinite
FACTORIALS = 16  # below it, factorials are exact in floats and products of few factors


class CountTotals(NamedTuple):
    """Totals of D counts for C classes, all float64.

    weight, total (C, D): weight of the records that had the count, and the weighted sum of the
    counts. unit (1,): the present value of a weight of 1 learned last.
    """

    weight: Floats
    total: Floats
    unit: Floats


@kernel
def learn(x: Any, source: Any, column: Any, c: int, w: float, s: Any) -> None:
    """Add x, float64 (p,), to class c; x[source[k]] belongs to state column column[k]."""
    for k in range(source.shape[0]):
        value = x[source[k]]
        if not isnan(value):
            s.weight[c, column[k]] += w
            s.total[c, column[k]] += w * value


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        scale_down(s.weight)
        scale_down(s.total)


@kernel
def rate(weight: float, total: float, a: float, b: float) -> float:
    """The posterior mean of the rate, with a Gamma(a, b) prior."""
    return min((a + total) / (b + weight), LARGEST_RATE)


@kernel
def log_probability_at_mean(x: float) -> float:
    """log P(x) where the rate is x itself: x log x - x - log x!, without cancellation."""
    if x < FACTORIALS:
        factorial = 1.0
        for k in range(2, int(x) + 1):
            factorial *= k
        return x * log(x) - x - log(factorial) if x > 0.0 else 0.0
    r = 1.0 / x  # Stirling's series; from 16 on, the next term is below 2e-14
    q = r * r
    series = r * (1.0 / 12.0 - q * (1.0 / 360.0 - q * (1.0 / 1260.0 - q / 1680.0)))
    return -0.5 * log(2.0 * pi * x) - series


@kernel
def log_probability(x: float, mean: float) -> float:
    """log of exp(-mean) mean**x / x!, float64; -inf for a count above 0 with a mean of 0.

    By its distance from the mean (Loader 2000): the two large terms, x log x and log x!, cancel.
    """
    if x == 0.0:
        return -mean
    if mean == 0.0:
        return -inf
    at_mean: float = log_probability_at_mean(x)
    apart = x - mean
    if abs(apart) < 0.5 * mean:
        return at_mean - (x * log1p(apart / mean) - apart)
    return at_mean - (x * (log(x) - log(mean)) - apart)


@kernel
def add_term(value: float, j: int, known: int, a: float, b: float, s: Any, out: Any) -> None:
    """Add the log likelihood of `value` in state column j to out float64 (C,)."""
    if isnan(value):
        return
    weight, total = 0.0, 0.0
    for c in range(known):
        weight += s.weight[c, j]
        total += s.total[c, j]
    if weight <= 0.0:
        return
    everywhere = log_probability(value, rate(weight, total, a, b))
    for c in range(known):
        if s.weight[c, j] > 0.0:
            out[c] += log_probability(value, rate(s.weight[c, j], s.total[c, j], a, b))
        else:  # never seen in this class: use all classes
            out[c] += everywhere


@kernel
def terms(
    x: Any, source: Any, column: Any, known: int, a: float, b: float, s: Any, out: Any
) -> None:
    """The log likelihoods of x, float64 (p,): a row of out float64 (q, C) a count."""
    unit = s.unit[0]
    for k in range(source.shape[0]):
        add_term(x[source[k]], column[k], known, a * unit, b * unit, s, out[k])


@kernel
def progressive(
    steps: Any, x: Any, source: Any, column: Any, a: float, b: float, s: Any, joint: Any
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k].
    """
    known = steps.known
    k = 0
    for i in range(steps.op.shape[0]):
        xi = x[steps.row[i]]
        if steps.op[i] != 1:
            unit = s.unit[0]
            for f in range(source.shape[0]):
                add_term(xi[source[f]], column[f], known, a * unit, b * unit, s, joint[k])
            k += 1
        if steps.op[i] != 0:
            fade(s, steps.growth)
            c = steps.y[i]
            learn(xi, source, column, c, steps.w[i] * s.unit[0], s)
            known = max(known, c + 1)
