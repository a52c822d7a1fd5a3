"""Kernels of normal features with a covariance. Self-contained: their compiled form is never stale.

A factor is kept by columns, row k of `factor` holding column k of the Cholesky factor L, so that
every inner loop runs along memory with independent lanes. A factor of one column holds the
diagonal alone: then the same loops are those of independent features. `o` (settings) and `r`
(working memory) are those of stream/bayes/covariance.py.
"""

from __future__ import annotations

from math import frexp, hypot, inf, isnan, log, nan, pi, sqrt
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
FEW = 256.0  # a weight up to which levels are as fine as at it, the features being few
FINEST = 5  # binary digits of a level beyond the first
SKEW = 1.00070711  # so that whole numbers do not lie where the rounding of a level turns


class Comoments(NamedTuple):
    """Joint moments of D features for C classes.

    n, mean float64 (C, D): weight and mean of x - anchor. factor float64 (G, D, W): that of the
    sums of products about the class means, G = C or 1 (pooled), W = D or 1 (diagonal). served
    float64 (G, D, D): that of the sums and, on their diagonal, level float64 (G, D), the ridge as
    `serve` rounds it; G = 0 where it is not so read. anchor, total_n, total_mean, total_m2, low,
    high float64 (D,): first value, moments and extremes over all classes. unit float64 (1,).
    passed, rebuilt int64 (1,): records left out for their gaps, factors rebuilt.
    """

    n: Floats
    mean: Floats
    factor: Floats
    served: Floats
    level: Floats
    anchor: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    low: Floats
    high: Floats
    unit: Floats
    passed: NDArray[int64]
    rebuilt: NDArray[int64]


@njit(cache=True)
def update(a: Any, x: Any, start: int, sign: float) -> None:
    """L L' += sign x x', the factor a float64 (W, W) by columns, from column `start`; x is used up.
    sign -1: what is left is known to be at least half of what was, in every direction."""
    for k in range(start, a.shape[0]):
        if x[k] == 0.0:
            continue
        row, u = a[k], x[k]
        t = row[k] * row[k] + sign * u * u
        if 1e-290 < t < 1e290:
            r = sqrt(t)
        else:
            r = hypot(row[k], u) if sign > 0.0 else sqrt(row[k] - u) * sqrt(row[k] + u)
        c, z, back = row[k] / r, u / r, sign * (u / r)
        row[k], x[k] = r, 0.0
        behind, left = row[k + 1 :], x[k + 1 :]  # slices compile to many lanes
        for j in range(behind.shape[0]):
            t = behind[j]
            behind[j] = c * t + back * left[j]
            left[j] = c * left[j] - z * t


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
def spreads(s: Any, r: Any) -> int:
    """r.spread: the variance of each feature over all classes. How many have been learned."""
    spread, n, m2, learned = r.spread, s.total_n, s.total_m2, 0
    for j in range(spread.shape[0]):
        spread[j] = m2[j] / n[j] if n[j] > 0.0 else 0.0
        learned += n[j] > 0.0
    return learned


@njit(cache=True)
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    return max(-0.5 * (LOG_2PI + log(var) + (v - mean) * (v - mean) / var), LOWEST)


@njit(cache=True)
def serve(s: Any, o: Any, r: Any) -> None:
    """Bring s.level to where it belongs, and s.served with it; O(G D), O(D²) for each that moves.

    A level is ridge times weight in so few binary digits that it seldom moves: a function of what
    was learned, not of its order. NaN: served is to be made anew.
    """
    if s.served.shape[0] == 0:
        return
    spread, m, floor, x, unit, share = r.spread, r.m, r.floor, r.x, s.unit[0], o.ridge * SKEW
    features = max(spreads(s, r), 1)
    for g in range(s.served.shape[0]):
        weigh(g, s, o.ddof, r)
        level, own, most, moved, anew = s.level[g], s.served[g], FEW * unit, 0, False
        for j in range(m.shape[0]):
            most = m[j] if m[j] > most else most
        digits = min(max(frexp(most / unit / features)[1] - 1, 0), FINEST)
        split = 2.0 ** (52 - digits) + 1.0  # Veltkamp's: leaves 1 + digits
        for j in range(m.shape[0]):
            t = share * spread[j] * (m[j] if m[j] > 0.0 else 0.0)
            floor[j] = t * split - (t * split - t)
        for j in range(m.shape[0]):
            moved += floor[j] != level[j]
        if moved == 0:
            continue
        for j in range(m.shape[0]):
            anew |= not 2.0 * floor[j] >= level[j]  # NaN, or too far down to keep its digits
        if anew:
            own[:], level[:] = s.factor[g], 0.0
        for j in range(m.shape[0]):
            more = floor[j] - level[j]
            if more != 0.0:
                level[j], x[j] = floor[j], sqrt(abs(more))
                update(own, x, j, 1.0 if more > 0.0 else -1.0)


@njit(cache=True)
def sweep(given: Any, stop: int, exact: bool, r: Any) -> None:
    """Forward substitution in a factor: the first `stop` features given those before; O(D²).

    r.used, r.floor (added to a variance) and r.e (deviations, become residuals) are given. Out
    come r.var (pivot² and floor; 0: none) and r.square (standard score²).
    exact: without a ridge. A pivot that r.held, the feature's sum of squares, shows to be rounding
    is 0 then, and what is behind it belongs to the features behind, in r.matrix; O(D²).
    """
    used, floor, e, held, x = r.used, r.floor, r.e, r.held, r.x
    var, square, a = r.var, r.square, given
    held[:] = 0.0
    for k in range(stop):
        if not used[k]:
            continue
        row = a[k]
        pivot = row[min(k, row.shape[0] - 1)]
        whole = pivot * pivot + floor[k]
        if exact:
            held[k] += whole
            if whole <= SINGULAR * held[k]:
                whole = 0.0
                if row.shape[0] > 1:
                    r.matrix[:] = a
                    a = r.matrix
                    x[k + 1 :] = a[k, k + 1 :]
                    a[k] = 0.0
                    update(a, x, k + 1, 1.0)
        inverse = 1.0 / max(whole, SMALLEST) if whole > 0.0 else 0.0
        var[k], square[k] = whole, e[k] * (e[k] * inverse)
        if row.shape[0] == 1 or whole <= 0.0:
            continue
        step = max(min(e[k] * (pivot * inverse), FARTHEST), -FARTHEST)
        behind, e_behind = row[k + 1 :], e[k + 1 :]  # slices compile to many lanes
        for j in range(behind.shape[0]):
            e_behind[j] -= behind[j] * step
        if exact:
            held_behind = held[k + 1 :]
            for j in range(behind.shape[0]):
                held_behind[j] += behind[j] * behind[j]


@njit(cache=True)
def reduce(own: Any, o: Any, r: Any) -> None:
    """r.matrix: `own` over the features used, O(D²) for each other; shrunk and floored, O(D³)."""
    used, floor, matrix, x, held, d = r.used, r.floor, r.matrix, r.x, r.held, r.used.shape[0]
    matrix[:] = own
    for k in range(d):  # out of the joint density, its share in the later features put back
        if not used[k] and matrix[k, k] != 0.0:
            x[k + 1 :] = matrix[k, k + 1 :]
            matrix[k] = 0.0
            update(matrix, x, k + 1, 1.0)
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
            update(matrix, x, j, 1.0)


@njit(cache=True)
def class_terms(c: int, s: Any, o: Any, r: Any) -> None:
    """r.term: log p(value of j | the features before it, class c); 0 where there is none.

    O(D²) where no feature of the class is missing, see `reduce`.
    """
    if c == 0 or s.factor.shape[0] > 1:
        weigh(c, s, o.ddof, r)
    # Names of their own: to take an array out of `r` or `s` costs as much as a term.
    n, mean, value, spread, used, m = s.n[c], s.mean[c], r.value, r.spread, r.used, r.m
    e, floor, term = r.e, r.floor, r.term
    served = s.served.shape[0] > 0
    factor = (s.served if served else s.factor)[c if s.factor.shape[0] > 1 else 0]
    width, last, root = factor.shape[1], 0.0, 0.0
    whole = o.shrinkage == 0.0 or width == 1
    for j in range(m.shape[0]):
        v = value[j]
        used[j], e[j], term[j] = False, 0.0, 0.0
        floor[j] = 0.0 if served else o.ridge * spread[j] * m[j]
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
    sweep(factor, m.shape[0], o.ridge == 0.0, r)
    var, square, held = r.var, r.square, r.held
    for k in range(m.shape[0]):
        if used[k] and var[k] > 0.0:
            term[k] = max(-0.5 * (LOG_2PI + log(var[k] / m[k]) + square[k]), LOWEST)
        elif used[k] and abs(e[k]) > OFF_SUPPORT * sqrt(held[k]):
            term[k] = -inf


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
        s.served[:] /= sqrt(LARGEST_UNIT)
        s.level[:] /= LARGEST_UNIT


@njit(cache=True)
def fill(c: int, s: Any, o: Any, r: Any) -> Any:
    """Fill r.value's gaps by their conditional means; O(D³). How many are observed, and in all.

    r.matrix becomes the factor in another order (r.order): the observed with their ridge, then the
    gaps without, for it is no uncertainty of theirs and is there again when they are read.
    """
    weigh(c, s, 0.0, r)
    spreads(s, r)
    own, order, p, q = s.factor[c if s.factor.shape[0] > 1 else 0], r.order, 0, 0
    value, mean, m = r.value, s.mean[c], r.m
    for gap in (False, True):
        for j in range(value.shape[0]):
            if s.n[c, j] > 0.0 and isnan(value[j]) == gap:
                order[q], r.used[q], r.floor[q] = j, True, 0.0
                r.e[q] = 0.0 if gap else (value[j] - mean[j]) * sqrt(m[j])
                p, q = p + (not gap), q + 1
    r.matrix[:] = 0.0
    for k in range(own.shape[0] + p):
        if k < own.shape[0]:
            for i in range(q):
                r.x[i] = own[k, order[i]]
        else:
            i = k - own.shape[0]
            r.x[i] = sqrt(o.ridge * r.spread[order[i]] * m[order[i]])
        update(r.matrix, r.x, 0, 1.0)
    sweep(r.matrix, p, o.ridge == 0.0, r)
    for i in range(p, q):
        j = order[i]
        value[j] = mean[j] + max(min(-r.e[i] / sqrt(m[j]), 1e100), -1e100)
    return p, q


@njit(cache=True)
def add(g: int, s: Any, r: Any) -> None:
    """Add r.x r.x' to the sums of products of group g; it is used up."""
    own, x = s.factor[g], r.x
    if s.served.shape[0] > 0:
        r.y[:] = x
        update(s.served[g], r.y, 0, 1.0)
    if own.shape[1] > 1:
        update(own, x, 0, 1.0)
        return
    for j in range(own.shape[0]):
        own[j, 0], x[j] = hypot(own[j, 0], x[j]), 0.0


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
    g, value, x, n = c if s.factor.shape[0] > 1 else 0, r.value, r.x, s.n[c]
    low, high, total_m2 = s.low, s.high, s.total_m2
    gaps, observed, p, q = 0, 0, 0, 0
    for j in range(value.shape[0]):
        if isnan(value[j]):
            gaps += n[j] > 0.0
        else:
            observed += 1
            low[j], high[j] = min(low[j], value[j]), max(high[j], value[j])
    if observed == 0:
        return
    welford(w, value, s.total_n, s.total_mean, x)
    for j in range(value.shape[0]):
        total_m2[j] += x[j] * x[j]
        x[j] = 0.0
    if s.factor.shape[2] > 1 and gaps > 0:
        if not o.fill:
            s.passed[0] += 1
            return
        p, q = fill(c, s, o, r)
    welford(w, value, n, s.mean[c], x)
    add(g, s, r)
    for i in range(p, q):  # the conditional covariance of what filled the gaps
        for k in range(i, q):
            j = r.order[k]
            x[j] = r.matrix[i, k] / sqrt(r.m[j]) * sqrt(w)
        add(g, s, r)


@njit(cache=True)
def progressive(
    steps: Any, x: Any, source: Any, column: Any, s: Any, o: Any, r: Any, joint: Any, terms: Any
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k]. terms float64
    (D, C): what the last prediction added, by feature; D may be 0.
    """
    known, k, anchor, value, term = steps.known, 0, s.anchor, r.value, r.term
    for i in range(steps.op.shape[0]):
        xi, value[:] = x[steps.row[i]], nan
        for f in range(source.shape[0]):
            v, j = xi[source[f]], column[f]
            if steps.op[i] != 0 and s.total_n[j] == 0.0 and not isnan(v):
                anchor[j] = v
            value[j] = v - anchor[j]
        if steps.op[i] != 1:
            spreads(s, r)
            for c in range(known):
                class_terms(c, s, o, r)
                for j in range(term.shape[0]):
                    joint[k, c] += term[j]
                if terms.shape[0] > 0:
                    terms[:, c] = term
            k += 1
        if steps.op[i] != 0:
            if steps.growth > 1.0:
                fade(s, steps.growth)
            learn(steps.y[i], steps.w[i] * s.unit[0], s, o, r)
            serve(s, o, r)
            known = max(known, steps.y[i] + 1)
