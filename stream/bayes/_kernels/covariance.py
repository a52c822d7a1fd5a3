"""Kernels of normal features with a covariance. Self-contained: their compiled form is never stale.

A factor is kept by columns, row k of `factor` holding column k of the Cholesky factor L, so that
every inner loop runs along memory with independent lanes. A factor of one column holds the
diagonal alone: then the same loops are those of independent features. `o` (settings) and `r`
(working memory) are those of stream/bayes/covariance.py.
"""

from __future__ import annotations

from math import hypot, inf, isnan, log, nan, pi, sqrt
from typing import Any, NamedTuple

from numba import njit
from numpy import float64, int64
from numpy.typing import NDArray

Floats = NDArray[float64]

LOG_2PI = log(2.0 * pi)
LOWEST = -1e300  # a likelihood no double can hold; kept finite so that terms can be added
FARTHEST = 1e150  # so that nothing multiplied with it overflows
SMALLEST = 1e-300  # a variance whose inverse is a number
LARGEST_UNIT = 2.0**64  # as of the prior: beyond it, weights are scaled down by it, exactly
SINGULAR = 1e-26  # a pivot² below this share of the feature's sum of squares is rounding
OFF_SUPPORT = 1e-9  # distance from a singular class's support, in standard deviations


class Comoments(NamedTuple):
    """Joint moments of D features for C classes.

    n, mean float64 (C, D): weight and mean of x - anchor. factor float64 (G, D, W): that of the
    sums of products about the class means, G = C or 1 (pooled), W = D or 1 (diagonal). anchor,
    total_n, total_mean, total_m2 float64 (D,): first value, moments over all classes. unit float64
    (1,). passed, rebuilt int64 (1,): records left out for their gaps, factors rebuilt.
    """

    n: Floats
    mean: Floats
    factor: Floats
    anchor: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    unit: Floats
    passed: NDArray[int64]
    rebuilt: NDArray[int64]


@njit(cache=True)
def update(a: Any, x: Any, start: int) -> None:
    """L L' += x x', the factor a float64 (W, W) by columns, from column `start`. x is used up."""
    for k in range(start, a.shape[0]):
        if x[k] == 0.0:
            continue
        row = a[k]
        t = row[k] * row[k] + x[k] * x[k]
        r = sqrt(t) if 1e-290 < t < 1e290 else hypot(row[k], x[k])
        c = row[k] / r
        z = x[k] / r
        row[k] = r
        x[k] = 0.0
        behind, left = row[k + 1 :], x[k + 1 :]  # slices compile to many lanes
        for j in range(behind.shape[0]):
            t = behind[j]
            behind[j] = c * t + z * left[j]
            left[j] = c * left[j] - z * t


@njit(cache=True)
def place(x: Any, source: Any, column: Any, s: Any, value: Any) -> None:
    """value float64 (D,) of x float64 (p,): x[source[k]] belongs to state column column[k]."""
    anchor = s.anchor
    value[:] = nan
    for k in range(source.shape[0]):
        value[column[k]] = x[source[k]] - anchor[column[k]]


@njit(cache=True)
def weigh(c: int, s: Any, ddof: float, r: Any) -> None:
    """r.m: the weights that class c's sums of squares are divided by."""
    n, m, less = s.n, r.m, ddof * s.unit[0]
    if s.factor.shape[0] > 1:
        for j in range(m.shape[0]):
            m[j] = n[c, j] - less
        return
    m[:] = 0.0
    for b in range(n.shape[0]):
        for j in range(m.shape[0]):
            if n[b, j] > 0.0:
                m[j] += n[b, j] - less


@njit(cache=True)
def spreads(s: Any, r: Any) -> None:
    """r.spread: the variance of each feature over all classes."""
    spread, n, m2 = r.spread, s.total_n, s.total_m2
    for j in range(spread.shape[0]):
        spread[j] = m2[j] / n[j] if n[j] > 0.0 else 0.0


@njit(cache=True)
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    t = -0.5 * (LOG_2PI + log(var) + d * d / var)
    return t if t > LOWEST else LOWEST


@njit(cache=True)
def sweep(a: Any, stop: int, r: Any) -> None:
    """Forward substitution in the factor a: the first `stop` features given those before; O(D²).

    r.used, r.floor (added to a variance) and r.e (deviations, become residuals) are given. A
    conditional variance is pivot² and floor. The regression of a later feature on this one is
    damped as a ridge damps it, and the variance this leaves unexplained is given back to that
    feature (r.lost). r.held: sums of squares, which say when a pivot is rounding. Out come r.var
    (0: none), r.square (standard score²) and r.share (what is lost).
    """
    used, floor, e, lost, held = r.used, r.floor, r.e, r.lost, r.held
    var, square, share = r.var, r.square, r.share
    lost[:], held[:] = 0.0, 0.0
    for k in range(stop):
        if not used[k]:
            continue
        row = a[k]
        pivot = row[min(k, row.shape[0] - 1)]
        own = pivot * pivot
        if floor[k] <= 0.0:
            held[k] += own
            if own <= SINGULAR * held[k]:
                own, pivot = 0.0, 0.0
                if lost[k] <= SINGULAR * held[k]:
                    lost[k] = 0.0
        extra = lost[k] + floor[k]
        whole, inverse, part = own + extra, 0.0, 1.0
        if whole > 0.0:
            inverse = 1.0 / max(whole, SMALLEST)
            part = extra * inverse if own > 0.0 else 1.0
        score = e[k] * inverse
        step = max(min(score * pivot, FARTHEST), -FARTHEST) if pivot > 0.0 else 0.0
        var[k], square[k], share[k] = whole, e[k] * score, part
        if row.shape[0] == 1:
            continue
        behind, e_behind = row[k + 1 :], e[k + 1 :]  # slices compile to many lanes
        if floor[k] > 0.0:
            lost_behind = lost[k + 1 :]
            for j in range(behind.shape[0]):
                e_behind[j] -= behind[j] * step
                lost_behind[j] += behind[j] * behind[j] * part
        else:
            held_behind = held[k + 1 :]
            for j in range(behind.shape[0]):
                e_behind[j] -= behind[j] * step
                held_behind[j] += behind[j] * behind[j]
            if part > 0.0:
                for j in range(k + 1, row.shape[0]):
                    lost[j] += row[j] * row[j] * part


@njit(cache=True)
def reduce(own: Any, o: Any, r: Any) -> None:
    """r.matrix: the factor `own` over the features used, O(D²) for each left out; and shrunk,
    r.floor being added then, O(D³)."""
    used, floor, matrix, x, held = r.used, r.floor, r.matrix, r.x, r.held
    d = used.shape[0]
    matrix[:] = own
    for k in range(d):  # out of the joint density, its share in the later features put back
        if not used[k] and matrix[k, k] != 0.0:
            x[k + 1 :] = matrix[k, k + 1 :]
            matrix[k] = 0.0
            update(matrix, x, k + 1)
    if o.shrinkage == 0.0:
        return
    held[:] = 0.0
    for i in range(d):
        for j in range(i, d):
            held[j] += matrix[i, j] * matrix[i, j]
            matrix[i, j] *= sqrt(1.0 - o.shrinkage) if used[j] else 0.0
    for j in range(d):
        if used[j]:
            x[j] = sqrt(o.shrinkage * held[j] + floor[j])
            floor[j] = 0.0
            update(matrix, x, j)


@njit(cache=True)
def class_terms(c: int, s: Any, o: Any, r: Any) -> Any:
    """r.term: log p(value of j | the features before it, class c); 0 where there is none.

    Returns the factor it rests on; O(D²) where no feature of the class is missing, see `reduce`.
    """
    if c == 0 or s.factor.shape[0] > 1:
        weigh(c, s, o.ddof, r)
    # Names of their own: to take an array out of `r` or `s` costs as much as a term.
    n, mean, value, spread, used, m = s.n[c], s.mean[c], r.value, r.spread, r.used, r.m
    e, floor, term = r.e, r.floor, r.term
    factor = s.factor[c if s.factor.shape[0] > 1 else 0]
    width, last, root = factor.shape[1], 0.0, 0.0
    whole = o.shrinkage == 0.0 or width == 1
    for j in range(m.shape[0]):
        v = value[j]
        used[j] = False
        e[j], term[j] = 0.0, 0.0
        floor[j] = o.ridge * spread[j] * m[j]
        if isnan(v) or spread[j] <= 0.0:
            pass  # constant so far: every class has the same point, the ratio is 1
        elif n[j] <= 0.0:  # never seen in this class: as probable as anywhere
            term[j] = density(v, s.total_mean[j], spread[j] + o.ridge * spread[j])
        elif m[j] <= 0.0:
            term[j] = density(v, mean[j], o.ridge * spread[j])
        else:
            if m[j] != last:
                last, root = m[j], sqrt(m[j])
            used[j] = True
            e[j] = (v - mean[j]) * root
        if not used[j] and width > 1 and factor[j, j] != 0.0:
            whole = False
    if not whole:
        reduce(factor, o, r)
        factor = r.matrix
    sweep(factor, m.shape[0], r)
    var, square, held = r.var, r.square, r.held
    last, log_m = 0.0, 0.0
    for k in range(m.shape[0]):
        if not used[k]:
            continue
        if m[k] != last:
            last, log_m = m[k], log(m[k])
        if var[k] > 0.0:
            t = -0.5 * (LOG_2PI + (log(var[k]) - log_m) + square[k])
            term[k] = t if t > LOWEST else LOWEST
        elif abs(e[k]) > OFF_SUPPORT * sqrt(held[k]):
            term[k] = -inf
    return factor


@njit(cache=True)
def fade(s: Any, growth: float) -> None:
    """One more record: a weight of 1 counts `growth` times what it did."""
    s.unit[0] *= growth
    if s.unit[0] > LARGEST_UNIT:
        s.unit[0] /= LARGEST_UNIT
        s.total_n[:] /= LARGEST_UNIT
        s.total_m2[:] /= LARGEST_UNIT
        s.n[:] /= LARGEST_UNIT
        s.factor[:] /= sqrt(LARGEST_UNIT)


@njit(cache=True)
def fill(c: int, s: Any, o: Any, r: Any) -> Any:
    """Fill r.value's gaps by their conditional means; O(D³). How many are observed, and in all.

    r.matrix becomes the factor in another order (r.order), the observed before the gaps.
    """
    weigh(c, s, 0.0, r)
    spreads(s, r)
    q = 0
    for gap in (False, True):
        for j in range(r.m.shape[0]):
            if s.n[c, j] > 0.0 and isnan(r.value[j]) == gap:
                r.order[q] = j
                q += 1
        if not gap:
            p = q
    own = s.factor[c if s.factor.shape[0] > 1 else 0]
    r.matrix[:] = 0.0
    for k in range(own.shape[0]):
        for i in range(q):
            r.x[i] = own[k, r.order[i]] if r.order[i] >= k else 0.0
        update(r.matrix, r.x, 0)
    for i in range(q):
        j = r.order[i]
        r.used[i] = i < p
        r.e[i] = (r.value[j] - s.mean[c, j]) * sqrt(r.m[j]) if i < p else 0.0
        r.floor[i] = o.ridge * r.spread[j] * r.m[j]
    sweep(r.matrix, p, r)
    for i in range(p, q):
        j = r.order[i]
        r.value[j] = s.mean[c, j] + max(min(-r.e[i] / sqrt(r.m[j]), 1e100), -1e100)
    return p, q


@njit(cache=True)
def add_uncertainty(p: int, q: int, w: float, own: Any, r: Any) -> None:
    """Add the conditional covariance of what `fill` filled, w times, to the factor `own`."""
    for i in range(q):
        share = sqrt(w * r.share[i]) if i < p else sqrt(w)
        for k in range(max(i, p), q):
            j = r.order[k]
            r.x[j] = r.matrix[i, k] / sqrt(r.m[j]) * share
        update(own, r.x, 0)


@njit(cache=True)
def welford(w: float, value: Any, n: Any, mean: Any, x: Any) -> None:
    """Learn value float64 (D,), NaN where missing; x: the root of what it adds to the squares."""
    before, step, root = -1.0, 0.0, 0.0
    for j in range(value.shape[0]):
        x[j] = 0.0
        if not isnan(value[j]):
            if n[j] != before:  # mostly all features have the same weight
                before = n[j]
                step, root = w / (before + w), sqrt(w * (before / (before + w)))
            n[j] = before + w
            d = value[j] - mean[j]
            mean[j] += d * step
            x[j] = d * root


@njit(cache=True)
def learn(c: int, w: float, s: Any, o: Any, r: Any) -> None:
    """Learn r.value in class c."""
    own, value, x, n = s.factor[c if s.factor.shape[0] > 1 else 0], r.value, r.x, s.n[c]
    gaps, observed, p, q = 0, 0, 0, 0
    for j in range(value.shape[0]):
        if isnan(value[j]):
            gaps += n[j] > 0.0
        else:
            observed += 1
    if observed == 0:
        return
    total_m2 = s.total_m2
    welford(w, value, s.total_n, s.total_mean, x)
    for j in range(value.shape[0]):
        total_m2[j] += x[j] * x[j]
        x[j] = 0.0
    filled = own.shape[1] > 1 and gaps > 0
    if filled and not o.fill:
        s.passed[0] += 1
        return
    if filled:
        p, q = fill(c, s, o, r)
    welford(w, value, n, s.mean[c], x)
    if own.shape[1] > 1:
        update(own, x, 0)
    else:
        for j in range(own.shape[0]):
            own[j, 0] = hypot(own[j, 0], x[j])
            x[j] = 0.0
    if filled:
        add_uncertainty(p, q, w, own, r)


@njit(cache=True)
def terms(x: Any, source: Any, column: Any, known: int, s: Any, o: Any, r: Any, out: Any) -> None:
    """The terms of x float64 (p,): out float64 (q, C), a row a feature of `column`."""
    spreads(s, r)
    place(x, source, column, s, r.value)
    for c in range(known):
        class_terms(c, s, o, r)
        for k in range(column.shape[0]):
            out[k, c] = r.term[column[k]]


@njit(cache=True)
def served(c: int, s: Any, o: Any, r: Any) -> None:
    """The factor that predictions with r.value rest on: √r.var its diagonal, r.matrix the rest."""
    spreads(s, r)
    weigh(c, s, o.ddof, r)
    factor = class_terms(c, s, o, r)
    for k in range(r.m.shape[0]):
        for j in range(k + 1, factor.shape[1]):
            r.matrix[k, j] = factor[k, j] * sqrt(max(1.0 - r.share[k], 0.0))


@njit(cache=True)
def progressive(
    steps: Any, x: Any, source: Any, column: Any, s: Any, o: Any, r: Any, joint: Any
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k].
    """
    known, k, anchor, total_n, term = steps.known, 0, s.anchor, s.total_n, r.term
    for i in range(steps.op.shape[0]):
        xi = x[steps.row[i]]
        if steps.op[i] != 1:
            spreads(s, r)
            place(xi, source, column, s, r.value)
            for c in range(known):
                class_terms(c, s, o, r)
                for j in range(term.shape[0]):
                    joint[k, c] += term[j]
            k += 1
        if steps.op[i] != 0:
            if steps.growth > 1.0:
                fade(s, steps.growth)
            for f in range(source.shape[0]):
                if total_n[column[f]] == 0.0 and not isnan(xi[source[f]]):
                    anchor[column[f]] = xi[source[f]]
            place(xi, source, column, s, r.value)
            learn(steps.y[i], steps.w[i] * s.unit[0], s, o, r)
            known = max(known, steps.y[i] + 1)
