"""Kernels of independent categories."""

from __future__ import annotations

from math import inf, log
from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import advance, scale_down

Floats = NDArray[float64]


class CategoryCounts(NamedTuple):
    """Counts of the values of D features in C classes.

    counts float64 (V, C): value v of feature j has the row start[j] + v. start int64 (D + 1,).
    seen float64 (D, C): the sum over a feature's values. values int64 (D,): m_j, 0 before the
    first. unit float64 (1,): the present value of a weight of 1 learned last.
    """

    counts: Floats
    start: NDArray[int64]
    seen: Floats
    values: NDArray[int64]
    unit: Floats


class Smoothing(NamedTuple):
    """alpha, or the m-estimate with p if m >= 0 (1/m_j if p < 0). zeros: smooth zeros only.

    shares float64 (any,), start int64 (D,): if start[j] >= 0, value v of feature j has the p
    shares[start[j] + v].
    """

    alpha: float
    m: float
    p: float
    zeros: bool
    shares: Floats
    start: NDArray[int64]


@kernel
def learn(code: Any, column: Any, c: int, w: float, domain: Any, s: Any) -> None:
    """Count the values code int64 (q,) of the features column int64 (q,) in class c.

    domain int64 (D,): the size of a feature's given domain; 0 if it has none.
    """
    for k in range(code.shape[0]):
        v = code[k]
        if v < 0:
            continue
        j = column[k]
        s.values[j] = max(s.values[j], domain[j], v + 1)
        s.counts[s.start[j] + v, c] += w
        s.seen[j, c] += w


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        scale_down(s.counts)
        scale_down(s.seen)


@kernel
def prior_share(v: int, j: int, values: int, g: Any) -> float:
    """The p of value v of feature j, one of `values`, for the m-estimate."""
    if g.start[j] >= 0:
        return float(g.shares[g.start[j] + v])
    return g.p if g.p >= 0.0 else 1.0 / values


@kernel
def log_share(n_v: float, n: float, p: float, values: int, unit: float, g: Any) -> float:
    """log of the smoothed share n_v of n, n > 0, or of its limit for the m-estimate."""
    if g.m >= 0.0:
        if n <= 0.0:
            return log(p) if p > 0.0 else -inf
        pseudo, strength = g.m * p * unit, g.m * unit
    else:
        pseudo, strength = g.alpha * unit, g.alpha * unit * values
    if g.zeros and n_v > 0.0:
        pseudo, strength = 0.0, 0.0
    return log(n_v + pseudo) - log(n + strength) if n_v + pseudo > 0.0 else -inf


@kernel
def add_term(v: int, j: int, known: int, g: Any, s: Any, out: Any) -> None:
    """Add the log probability of value v of feature j to out float64 (C,)."""
    if v < 0 or v >= s.values[j]:
        return  # missing, or never learned
    row = s.start[j] + v
    n_v, n = -1.0, 0.0
    p = prior_share(v, j, s.values[j], g) if g.m >= 0.0 else 0.0
    for c in range(known):
        if s.seen[j, c] > 0.0 or g.m >= 0.0:
            out[c] += log_share(s.counts[row, c], s.seen[j, c], p, s.values[j], s.unit[0], g)
            continue
        if n_v < 0.0:  # the feature was never seen in this class: use all classes
            n_v = 0.0
            for other in range(known):
                n_v += s.counts[row, other]
                n += s.seen[j, other]
        if n > 0.0:
            out[c] += log_share(n_v, n, p, s.values[j], s.unit[0], g)


@kernel
def terms(code: Any, column: Any, known: int, g: Any, s: Any, out: Any) -> None:
    """The log probability of each value code int64 (q,) in a row of out float64 (q, C)."""
    for k in range(code.shape[0]):
        add_term(code[k], column[k], known, g, s, out[k])


@kernel
def progressive(
    steps: Any, row: Any, code: Any, column: Any, domain: Any, g: Any, s: Any, joint: Any
) -> None:
    """Run the steps over rows of codes, adding to joint float64 (n_predictions, C).

    row int64 (m,): the row of each step in code int64 (n, q), whose columns are those of the
    features column int64 (q,). There is room for all classes and values.
    """
    op, y, w, known, growth = steps.op, steps.y, steps.w, steps.known, steps.growth
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            for f in range(column.shape[0]):
                add_term(code[row[i], f], column[f], known, g, s, joint[k])
            k += 1
        if op[i] != 0:
            if growth != 1.0:
                fade(s, growth)
            if column.shape[0] > 0:
                learn(code[row[i]], column, y[i], w[i] * s.unit[0], domain, s)
            known = max(known, y[i] + 1)
