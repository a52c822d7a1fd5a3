"""Kernels of independent normal features. Self-contained: their compiled form is never stale.

The moments of D features for C classes are one array `s`, float64 (4 + 3 C, D), of x - anchor:
its rows are the anchor (the first value learned); weight, mean and sum of squared deviations over
all classes; then those three of each class in turn. A unit, float64 (1,), is what a weight of 1
learned last counts.

Predictions look at a glance `g`, float64 (2 + 2 C, q), over q columns of a block: the anchor, NaN
where a feature is no evidence; what smoothing adds to each variance; then mean and variance of
each class in turn, a variance of -inf where it has never seen the feature. It is a function of
the moments alone, so it does not matter where a block begins.

Arrays are few, and divisions numpy's (the processor's, without a check for zero): both because
calls inside the loop over records, and so their arguments, are what it costs most.
"""

from __future__ import annotations

from math import exp, inf, isnan, log, nan, pi
from typing import Any, NamedTuple

from numba import njit
from numpy import arange, float64, true_divide
from numpy.typing import NDArray

Floats = NDArray[float64]

LOG_2PI = log(2.0 * pi)
# A term below this is a likelihood no double can hold; kept finite so that terms can be added.
LOWEST = -1e300
LARGEST_UNIT = 2.0**64  # as of the prior: beyond it, weights are scaled down by it, exactly
SMALL, LARGE = 1e-150, 1e150  # between them a product of a few numbers keeps all its digits
TINY, SCALE = 1e-290, 2.0**600  # a weight whose inverse might overflow, and what keeps it

ANCHOR, TOTAL, CLASSES, PER_CLASS = 0, 1, 4, 3  # rows of s
SHIFT, EXTRA, GLANCES, PER_GLANCE = 0, 1, 2, 2  # rows of g
ROW, ANSWER, GLANCE = 0, 1, 2  # rows of a desk: the record, the answer, and then g


class Moments(NamedTuple):
    """The moments under the names they have in a state: views of `s`, all float64.

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
def learn(
    x: Any, i: int, source: Any, column: Any, c: int, w: float, smoothing: float, s: Any, g: Any
) -> None:
    """Welford's update of class c by row i of x, float64 (n, p), in s and, of no ddof, in g.

    source, column int64 (q,): x[i, source[k]] belongs to state column column[k].
    """
    a = CLASSES + PER_CLASS * c
    b = GLANCES + PER_GLANCE * c
    scale = 1.0 if w > TINY else SCALE
    scaled = scale * w
    for k in range(source.shape[0]):
        value = x[i, source[k]]
        if isnan(value):
            continue
        j = column[k]
        if s[TOTAL, j] == 0.0:
            s[ANCHOR, j] = value
        v = value - s[ANCHOR, j]
        # In this form a sum of squares never falls, whatever the weights; a first mean is exact.
        before = s[a, j]
        after = before + w
        inverse = true_divide(1.0, scale * after)
        share = scaled * inverse if before > 0.0 else 1.0
        d = v - s[a + 1, j]
        mean = s[a + 1, j] + d * share
        m2 = s[a + 2, j] + d * d * (before * share)
        s[a, j] = after
        s[a + 1, j] = mean
        s[a + 2, j] = m2
        g[b, k] = mean
        g[b + 1, k] = m2 * inverse
        before = s[TOTAL, j]
        after = before + w
        inverse = true_divide(1.0, scale * after)
        share = scaled * inverse if before > 0.0 else 1.0
        d = v - s[TOTAL + 1, j]
        m2 = s[TOTAL + 2, j] + d * d * (before * share)
        s[TOTAL, j] = after
        s[TOTAL + 1, j] += d * share
        s[TOTAL + 2, j] = m2
        spread = m2 * inverse
        g[SHIFT, k] = s[ANCHOR, j] if spread > 0.0 else nan
        g[EXTRA, k] = smoothing * spread


@njit(cache=True)
def variance(m2: float, n: float, ddof: float) -> float:
    """m2 / (n - ddof), with the bits of `learn`; 0 where it is not known yet. n > 0."""
    found: float = 0.0
    if ddof > 0.0:
        if n > ddof:
            found = true_divide(m2, n - ddof)
    else:
        scale = 1.0 if n > TINY else SCALE
        found = m2 * true_divide(1.0, scale * n) * scale
    return found


@njit(cache=True)
def look(column: Any, ddof: float, smoothing: float, s: Any, g: Any) -> None:
    """Write the glance of state columns `column`, int64 (q,)."""
    for k in range(column.shape[0]):
        j = column[k]
        n = s[TOTAL, j]
        spread = variance(s[TOTAL + 2, j], n, 0.0) if n > 0.0 else 0.0
        g[SHIFT, k] = s[ANCHOR, j] if spread > 0.0 else nan
        g[EXTRA, k] = smoothing * spread
        for c in range((s.shape[0] - CLASSES) // PER_CLASS):
            a = CLASSES + PER_CLASS * c
            b = GLANCES + PER_GLANCE * c
            n = s[a, j]
            g[b, k] = s[a + 1, j]
            g[b + 1, k] = variance(s[a + 2, j], n, ddof) if n > 0.0 else -inf


@njit(cache=True)
def fade(s: Any, unit: Any, growth: float) -> None:
    """One more record: a weight of 1 counts `growth` times what it did."""
    unit[0] *= growth
    if unit[0] > LARGEST_UNIT:
        unit[0] /= LARGEST_UNIT
        for a in range(TOTAL, s.shape[0], PER_CLASS):
            for j in range(s.shape[1]):
                s[a, j] /= LARGEST_UNIT
                s[a + 2, j] /= LARGEST_UNIT


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
        v = value - s[ANCHOR, j]
        for a in (CLASSES + PER_CLASS * c, TOTAL):
            s[a, j], s[a + 1, j], s[a + 2, j] = without(v, w, s[a, j], s[a + 1, j], s[a + 2, j])


@njit(cache=True)
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    t = -0.5 * (LOG_2PI + log(var) + true_divide(d * d, var))
    return t if t > LOWEST else LOWEST


@njit(cache=True)
def term(value: float, j: int, c: int, ddof: float, smoothing: float, s: Any) -> float:
    """Log density of `value` in state column j and class c; 0 where it is no evidence."""
    n = s[TOTAL, j]
    spread = variance(s[TOTAL + 2, j], n, 0.0) if n > 0.0 else 0.0
    # Constant so far, every class has the same point: the ratio is 1.
    if isnan(value) or spread <= 0.0:
        return 0.0
    a = CLASSES + PER_CLASS * c
    mean, var = s[TOTAL + 1, j], spread  # never seen in this class: as probable as anywhere
    if s[a, j] > 0.0:
        mean, var = s[a + 1, j], variance(s[a + 2, j], s[a, j], ddof)
    found: float = density(value - s[ANCHOR, j], mean, var + smoothing * spread)
    return found


@njit(cache=True)
def terms(
    x: Any, source: Any, column: Any, ddof: float, smoothing: float, s: Any, out: Any
) -> None:
    """The log densities of x, float64 (p,): a row of out float64 (q, C) a feature."""
    for k in range(source.shape[0]):
        for c in range(out.shape[1]):
            out[k, c] += term(x[source[k]], column[k], c, ddof, smoothing, s)


@njit(cache=True)
def add_usual(x: Any, i: int, source: Any, known: int, g: Any, joint: Any, at: int) -> bool:
    """Add the log densities of row i of x, float64 (n, p), to joint[at], float64 (C,).

    Squared deviations over variances are summed as one fraction, whose denominator is the product
    of the variances: a division and a logarithm for all features together, or for as many as stay
    in range. Returns whether a feature was left out because it alone is not.
    """
    left = False
    for c in range(known):
        b = GLANCES + PER_GLANCE * c
        total = 0.0
        above, below, counted = 0.0, 1.0, 0
        for k in range(source.shape[0]):
            v = x[i, source[k]] - g[SHIFT, k]
            if isnan(v):
                continue
            var = g[b + 1, k] + g[EXTRA, k]
            d = v - g[b, k]
            square = d * d
            higher, wider = above * var + square * below, below * var
            if SMALL < wider < LARGE and higher < LARGE:
                above, below, counted = higher, wider, counted + 1
            elif SMALL < var < LARGE and square < LARGE:
                total += counted * LOG_2PI + log(below) + true_divide(above, below)
                above, below, counted = square, var, 1
            else:
                left = True
        total += counted * LOG_2PI + log(below) + true_divide(above, below)
        joint[at, c] -= 0.5 * total
    return left


@njit(cache=True)
def add_unusual(
    x: Any,
    i: int,
    source: Any,
    column: Any,
    known: int,
    ddof: float,
    smoothing: float,
    s: Any,
    g: Any,
    joint: Any,
    at: int,
) -> None:
    """Add what `add_usual` has left out, by the same condition."""
    for k in range(source.shape[0]):
        value = x[i, source[k]]
        for c in range(known):
            b = GLANCES + PER_GLANCE * c
            var = g[b + 1, k] + g[EXTRA, k]
            d = value - g[SHIFT, k] - g[b, k]
            if not (SMALL < var < LARGE and d * d < LARGE):
                joint[at, c] += term(value, column[k], c, ddof, smoothing, s)


@njit(cache=True)
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    growth: float,
    x: Any,
    source: Any,
    column: Any,
    ddof: float,
    smoothing: float,
    s: Any,
    unit: Any,
    g: Any,
    joint: Any,
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k].
    """
    fading = growth != 1.0
    fresh = False
    at = 0
    for m in range(op.shape[0]):
        if op[m] != 1:
            off = ddof * unit[0]
            if not fresh:
                look(column, off, smoothing, s, g)
            # Where records fade, all weights may be scaled at once, and ddof is no constant.
            fresh = not fading and ddof == 0.0
            if add_usual(x, row[m], source, known, g, joint, at):
                add_unusual(x, row[m], source, column, known, off, smoothing, s, g, joint, at)
            at += 1
        if op[m] != 0:
            if fading:
                fade(s, unit, growth)
            learn(x, row[m], source, column, y[m], w[m] * unit[0], smoothing, s, g)
            known = max(known, y[m] + 1)
            fresh = fresh and w[m] > TINY


@njit(cache=True)
def learn_row(desk: Any, c: int, w: float, smoothing: float, s: Any) -> None:
    """Learn the record on the desk, whose values are in the order of s, without fading."""
    every = arange(s.shape[1])
    learn(desk, ROW, every, every, c, w, smoothing, s, desk[GLANCE:])


@njit(cache=True)
def answer_row(desk: Any, weight: Any, ddof: float, smoothing: float, s: Any) -> None:
    """Write to the desk the posterior of the record on it; weight float64 (C,): the prior's.

    Its first and last lines are `log_or_none` and `normalise` of the prior's kernels, for a file
    calls only its own functions; that they say the same is one of the laws.
    """
    every = arange(s.shape[1])
    known = weight.shape[0]
    g = desk[GLANCE:]
    top = -inf
    look(every, ddof, smoothing, s, g)
    for c in range(known):
        desk[ANSWER, c] = log(weight[c]) if weight[c] > 0.0 else -inf
    if add_usual(desk, ROW, every, known, g, desk, ANSWER):
        add_unusual(desk, ROW, every, every, known, ddof, smoothing, s, g, desk, ANSWER)
    for c in range(known):
        top = max(top, desk[ANSWER, c])
    if top == -inf:
        for c in range(known):
            desk[ANSWER, c] = log(weight[c]) if weight[c] > 0.0 else -inf
            top = max(top, desk[ANSWER, c])
    total = 0.0
    for c in range(known):
        lower = desk[ANSWER, c] - top if top > -inf else 0.0
        desk[ANSWER, c] = exp(lower) if lower < 0.0 else 1.0
        total += desk[ANSWER, c]
    share = true_divide(1.0, total)
    for c in range(known):
        desk[ANSWER, c] *= share
