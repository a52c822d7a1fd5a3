"""Kernels of normal features with a covariance.

A factor is stored by columns: row k of `factor` is column k of the Cholesky factor L. So every
inner loop runs along memory with independent lanes. With o.diagonal a factor has one column, the
diagonal, and the same loops treat features as independent. `s` (moments), `o` (settings) and `r`
(working memory) are defined in stream/bayes/moments.py. The number of features may grow within a
block.

A feature's scale is 1, or MAGNIFIED while all learned values are within NEAR of the anchor but not
equal, because their squares would underflow. Both are powers of two, so no digit changes. Densities
use scaled values, which shifts all classes equally.
"""

from __future__ import annotations

from math import hypot, inf, isnan, log, nan, pi, sqrt
from typing import Any

from numpy import true_divide

from stream.bayes._kernels.factor import EMPTIED
from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, LOWEST, advance

LOG_2PI = log(2.0 * pi)
FARTHEST = 1e150  # small enough that products do not overflow
SMALLEST = 1e-300  # the least variance whose inverse is finite
SINGULAR = 1e-26  # a pivot² below this share of the feature's sum of squares is a rounding error
OFF_SUPPORT = 1e-9  # distance from the support of a singular class, in standard deviations
FEW = 256.0  # up to this weight levels have the same precision, with few features
HIGHEST = 1e280  # the highest level that can be rounded
STEEPEST = sqrt(15.0 / 16.0)
FINEST = 5  # binary digits of a level after the first
NEAR, MAGNIFIED = 2.0**-200, 2.0**600
SKEW = 1.00070711  # so that whole numbers are not at the edge of rounding a level


@kernel
def update(a: Any, x: Any, start: int) -> None:
    """L L' += x x', the factor a float64 (W, W) by columns, from column `start`; x is
    overwritten."""
    for k in range(start, a.shape[0]):
        if x[k] == 0.0:
            continue
        row, u = a[k], x[k]
        t = row[k] * row[k] + u * u
        r = sqrt(t) if 1e-290 < t < 1e290 else hypot(row[k], u)
        c, z, row[k], x[k] = true_divide(row[k], r), true_divide(u, r), r, 0.0
        behind, left = row[k + 1 :], x[k + 1 :]  # slices are vectorised
        for j in range(behind.shape[0]):
            t = behind[j]
            behind[j] = c * t + z * left[j]
            left[j] = c * left[j] - z * t


@kernel
def downdate(a: Any, x: Any, start: int) -> None:
    """L L' -= x x'. At least a sixteenth must remain in every direction."""
    for k in range(start, a.shape[0]):
        row, behind, left = a[k], a[k, k + 1 :], x[k + 1 :]
        z = max(min(x[k] / row[k], STEEPEST), -STEEPEST) if row[k] > 0.0 else 0.0
        c = sqrt(1.0 - z * z)
        row[k], x[k] = c * row[k], 0.0
        for j in range(behind.shape[0]):
            behind[j] = true_divide(behind[j] - z * left[j], c)
            left[j] = c * left[j] - z * behind[j]


@kernel
def take_out(a: Any, less: Any, m: Any) -> None:
    """L L' -= diag(less), by way of the products m; rounding errors become 0; O(D³)."""
    d = a.shape[0]
    m[:] = 0.0
    for i in range(d):
        for j in range(i, d):
            for k in range(j, d):
                m[j, k] += a[i, j] * a[i, k]
    for k in range(d):
        held, a[k] = m[k, k], 0.0
        for i in range(k):
            held += a[i, k] * a[i, k]
        left = m[k, k] - less[k]
        for j in range(k, d if left > EMPTIED * held else k):
            a[k, j] = (m[k, j] if j > k else left) / sqrt(left)
        for i in range(k + 1, d):
            for j in range(i, d):
                m[i, j] -= a[k, i] * a[k, j]


@kernel
def weigh(c: int, s: Any, ddof: float, r: Any) -> None:
    """Set r.m: the weights by which class c's sums of squares are divided."""
    n, m, less = s.n, r.m, ddof * s.unit[0]
    first, behind = (c, c + 1) if s.factor.shape[0] > 1 else (0, n.shape[0])
    m[:] = 0.0
    for b in range(first, behind):
        for j in range(m.shape[0]):
            m[j] += n[b, j] - less if n[b, j] > 0.0 else 0.0


@kernel
def spreads(s: Any, r: Any) -> None:
    """Set r.spread: the variance of each feature over all classes."""
    spread, n, m2 = r.spread, s.total_n, s.total_m2
    for j in range(spread.shape[0]):
        spread[j] = true_divide(m2[j], n[j]) if n[j] > 0.0 else 0.0


@kernel
def log_scale(scale: float) -> float:
    """log(scale), usually 0."""
    return log(scale) if scale != 1.0 else 0.0


@kernel
def fit_scale(size: float, j: int, s: Any) -> None:
    """Set the scale of feature j for a value at this distance from its anchor."""
    old, new = s.scale[j], s.scale[j]
    # The extremes include unlearned values, but then squares are 0 too.
    constant = s.total_m2[j] == 0.0 and s.low[j] > -NEAR and s.high[j] < NEAR
    if old == 1.0 and 0.0 < size < NEAR and constant:
        new = MAGNIFIED
    elif old != 1.0 and size >= NEAR:
        new = 1.0
    if new == old:
        return
    by, s.scale[j] = new / old, new
    for a in (s.total_mean, s.low, s.high):
        a[j] *= by
    s.total_m2[j] = s.total_m2[j] * by * by
    s.mean[:, j] *= by
    if s.factor.shape[2] == s.factor.shape[1]:
        s.factor[:, :, j] *= by
    else:
        s.factor[:, j] *= by
    for g in range(s.level.shape[0]):
        s.level[g, j] = s.level[g, j] * by * by


@kernel
def density(v: float, mean: float, var: float, scale: float) -> float:
    """Log normal density of v. A variance of 0 is a point: log 1 at the point, log 0 elsewhere.

    A point has no unit, so its log is not scaled.
    """
    if var <= 0.0:
        return -log_scale(scale) if v == mean else -inf
    return max(-0.5 * (LOG_2PI + log(var) + (v - mean) * (v - mean) / var), LOWEST)


@kernel
def serve(s: Any, o: Any, r: Any) -> None:
    """Update s.level, also in s.factor; O(G D), plus O(D²) for each level that changes.

    A level is ridge times weight, rounded to few binary digits so that it seldom changes. It is a
    function of what was learned, not of the order. O(D³) if one falls below a sixteenth.
    """
    if s.level.shape[0] == 0:
        return
    spread, m, floor, x, share, features = r.spread, r.m, r.floor, r.x, o.ridge * SKEW, 0
    spreads(s, r)
    for j in range(m.shape[0]):
        features += s.total_n[j] > 0.0
    for g in range(s.level.shape[0]):
        weigh(g, s, o.ddof, r)
        level, most, digits, moved = s.level[g], FEW * s.unit[0], 0, 0
        for j in range(m.shape[0]):
            most = m[j] if m[j] > most else most
        while digits < FINEST and most >= (2 << digits) * (s.unit[0] * features):
            digits += 1
        split = 1.0 + (1 << (52 - digits))  # Veltkamp's splitting keeps 1 + digits
        for j in range(m.shape[0]):
            t = share * spread[j] * (m[j] if m[j] > 0.0 else 0.0)
            t = t if t < HIGHEST else HIGHEST
            floor[j] = t * split - (t * split - t)
        for j in range(m.shape[0]):
            moved += floor[j] != level[j]
        if moved == 0:
            continue
        own, moved = s.factor[g], 0
        for j in range(m.shape[0]):
            x[j] = level[j] if floor[j] < level[j] / 16.0 else 0.0
            level[j] -= x[j]
            moved += x[j] > 0.0
        if moved > 0:
            take_out(own, x, r.matrix)
            x[:] = 0.0
        for j in range(m.shape[0]):
            x[j] = sqrt(abs(floor[j] - level[j]))
            if floor[j] < level[j]:
                downdate(own, x, j)
            else:
                update(own, x, j)
            level[j] = floor[j]


@kernel
def sweep(a: Any, stop: int, exact: bool, diagonal: bool, r: Any) -> None:
    """Forward substitution: condition each of the first `stop` features on those before; O(D²).

    r.used, r.floor (added to a variance) and r.e (deviations, which become residuals) are inputs.
    r.var (pivot² + floor; 0: none) and r.square (standard score²) are outputs. exact: without a
    ridge. A pivot that is a rounding error by r.held, the feature's sum of squares, then becomes 0,
    and the rest of its column is moved to later features; O(D²), `a` is changed.
    """
    used, floor, e, held, x = r.used, r.floor, r.e, r.held, r.x
    var, square = r.var, r.square
    held[:] = 0.0
    for k in range(stop):
        if not used[k]:
            continue
        pivot = a[k, 0 if diagonal else k]
        whole = pivot * pivot + floor[k]
        if exact:
            held[k] += whole
            if whole <= SINGULAR * held[k]:
                whole = 0.0
                if not diagonal:
                    x[k + 1 :] = a[k, k + 1 :]
                    a[k] = 0.0
                    update(a, x, k + 1)
        inverse = true_divide(1.0, max(whole, SMALLEST)) if whole > 0.0 else 0.0
        var[k], square[k] = whole, e[k] * (e[k] * inverse)
        if diagonal or whole <= 0.0:
            continue
        step = max(min(e[k] * (pivot * inverse), FARTHEST), -FARTHEST)
        behind, e_behind = a[k, k + 1 :], e[k + 1 :]  # slices are vectorised
        for j in range(behind.shape[0]):
            e_behind[j] -= behind[j] * step
        if exact:
            held_behind = held[k + 1 :]
            for j in range(behind.shape[0]):
                held_behind[j] += behind[j] * behind[j]


@kernel
def reduce(own: Any, whole: bool, o: Any, r: Any) -> None:
    """Set r.matrix: `own` over the used features, O(D²) for each other feature; with shrinkage
    O(D³).

    The level on the diagonal does not change, because shrinkage affects only off-diagonal elements.
    """
    used, matrix, x, held, d = r.used, r.matrix, r.x, r.held, r.used.shape[0]
    matrix[:] = own
    if whole:
        return
    for k in range(d):  # remove the feature, and add its share to the later features
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
            x[j] = sqrt(o.shrinkage * held[j])
            update(matrix, x, j)


@kernel
def lengths(a: Any, s: Any, r: Any) -> None:
    """Set r.floor[k]: log of the squared length of a's row k, minus its parts along earlier rows;
    O(D³).

    Over the used features, in units of their values; `a` is overwritten. The product of lengths is
    the root of the pseudo-determinant for any choice of pivots. So a singular density does not
    depend on the order of features.
    """
    used, floor, m, scale = r.used, r.floor, r.m, s.scale
    for k in range(a.shape[0]):
        row, most, total = a[k], 0.0, 0.0
        for j in range(k, a.shape[0]):
            row[j] = true_divide(row[j], sqrt(m[j]) * scale[j]) if used[j] else 0.0
            most = max(most, abs(row[j]))
    for k in range(a.shape[0]):
        row, most, total = a[k], 0.0, 0.0
        for j in range(a.shape[0]):
            most = max(most, abs(row[j]))
        if most == 0.0:
            continue
        for j in range(a.shape[0]):
            row[j] = true_divide(row[j], most)
            total += row[j] * row[j]
        floor[k] = 2.0 * log(most) + log(total)
        for i in range(k + 1, a.shape[0]):
            share = 0.0
            for j in range(a.shape[0]):
                share += row[j] * a[i, j]
            for j in range(a.shape[0]):
                a[i, j] -= true_divide(share, total) * row[j]


@kernel
def class_terms(c: int, s: Any, o: Any, r: Any, each: bool) -> float:
    """log p(x | class c), the sum of r.term: the term of j is conditioned on the features before
    it.

    O(D²) if no feature of the class is missing, see `reduce`. Without `each`, logarithms are taken
    of products and are not in r.term.
    """
    if c == 0 or s.factor.shape[0] > 1:
        weigh(c, s, o.ddof, r)
    # Local names, because reading an array from `r` or `s` costs as much as a term.
    n, mean, value, spread, used, m = s.n[c], s.mean[c], r.value, r.spread, r.used, r.m
    e, floor, term, var, square, held = r.e, r.floor, r.term, r.var, r.square, r.held
    factor = s.factor[c if s.factor.shape[0] > 1 else 0]
    total, product, scale, singular = 0.0, 1.0, s.scale, False
    whole = o.shrinkage == 0.0 or o.diagonal
    for j in range(m.shape[0]):
        here = (value[j] == value[j]) & (spread[j] > 0.0) & (n[j] > 0.0) & (m[j] > 0.0)
        e[j] = (value[j] - mean[j]) * sqrt(m[j]) if here else 0.0
        floor[j] = o.ridge * spread[j] * m[j] if o.diagonal else 0.0
        used[j], term[j] = here, 0.0
    for j in range(m.shape[0]):
        if used[j]:
            continue
        if not o.diagonal and factor[j, j] != 0.0:
            whole = False
        if isnan(value[j]) or spread[j] <= 0.0:
            continue  # constant so far: every class has the same point, so the ratio is 1
        middle, wide = mean[j], o.ridge * spread[j]
        if n[j] <= 0.0:  # never seen in this class: use all classes
            middle, wide = s.total_mean[j], spread[j] + wide
        term[j] = density(value[j], middle, wide, scale[j])
    if whole and o.ridge > 0.0:
        sweep(factor, m.shape[0], False, o.diagonal, r)
    else:
        reduce(factor, whole, o, r)
        sweep(r.matrix, m.shape[0], o.ridge == 0.0, o.diagonal, r)
    for k in range(m.shape[0]):
        singular = singular or (used[k] and var[k] <= 0.0)
    if singular and not o.diagonal:
        lengths(r.matrix, s, r)
    for k in range(m.shape[0]):
        if singular and used[k] and not (o.diagonal and var[k] > 0.0):
            if var[k] > 0.0:
                term[k] = max(-0.5 * (LOG_2PI + floor[k] + square[k]), LOWEST)
            elif abs(e[k]) > OFF_SUPPORT * sqrt(held[k]):
                term[k] = -inf
            term[k] -= log_scale(scale[k])
        elif used[k]:
            v = true_divide(var[k], m[k])
            if each or not 1e-100 < v < 1e100:
                term[k] = max(-0.5 * (LOG_2PI + log(v) + square[k]), LOWEST)
            else:
                term[k] = max(-0.5 * (LOG_2PI + square[k]), LOWEST)
                product *= v
                if not 1e-200 < product < 1e200:
                    total, product = total - 0.5 * log(product), 1.0
        total += term[k]
    return total - 0.5 * log(product)


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        s.total_n[:] /= LARGEST_UNIT
        s.total_m2[:] /= LARGEST_UNIT
        s.n[:] /= LARGEST_UNIT
        s.factor[:] /= sqrt(LARGEST_UNIT)
        s.level[:] /= LARGEST_UNIT


@kernel
def fill(c: int, s: Any, o: Any, r: Any) -> Any:
    """Fill the gaps of r.value by conditional means; O(D³). Returns the number observed, and the
    total.

    r.matrix becomes the factor in another order (r.order): the observed features, then the gaps,
    each with its level. `serve` removes the level of the gaps later, because it is not a part of
    their uncertainty.
    """
    weigh(c, s, 0.0, r)
    own, order, p, q = s.factor[c if s.factor.shape[0] > 1 else 0], r.order, 0, 0
    value, mean, m = r.value, s.mean[c], r.m
    for gap in (False, True):
        for j in range(value.shape[0]):
            if s.n[c, j] > 0.0 and isnan(value[j]) == gap:
                order[q], r.used[q], r.floor[q] = j, True, 0.0
                r.e[q] = 0.0 if gap else (value[j] - mean[j]) * sqrt(m[j])
                p, q = p + (not gap), q + 1
    r.matrix[:] = 0.0
    for k in range(own.shape[0]):
        for i in range(q):
            r.x[i] = own[k, order[i]]
        update(r.matrix, r.x, 0)
    sweep(r.matrix, p, o.ridge == 0.0, False, r)
    for i in range(p, q):
        j = order[i]
        value[j] = mean[j] + max(min(-r.e[i] / sqrt(m[j]), 1e100), -1e100)
    return p, q


@kernel
def add(g: int, s: Any, o: Any, r: Any) -> None:
    """Add r.x r.x' to the sums of products of group g; r.x is overwritten."""
    own, x = s.factor[g], r.x
    if not o.diagonal:
        update(own, x, 0)
        return
    for j in range(own.shape[0]):
        own[j, 0], x[j] = hypot(own[j, 0], x[j]), 0.0


@kernel
def welford(w: float, value: Any, n: Any, mean: Any, x: Any) -> None:
    """Learn value float64 (D,), NaN if missing. x: the root of what it adds to the squares."""
    for j in range(value.shape[0]):
        here, before, after = value[j] == value[j], n[j], n[j] + w
        d = value[j] - mean[j] if here else 0.0
        n[j] = after if here else before
        mean[j] += d * true_divide(w, after)
        x[j] = d * sqrt(w * true_divide(before, after))


@kernel
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
    if gaps > 0 and not o.diagonal:
        if not o.fill:
            s.passed[0] += 1
            return
        p, q = fill(c, s, o, r)
    welford(w, value, n, s.mean[c], x)
    add(g, s, o, r)
    for i in range(p, q):  # the conditional covariance of the filled gaps
        for k in range(i, q):
            x[r.order[k]] = r.matrix[i, k] * sqrt(w / r.m[r.order[k]])
        add(g, s, o, r)
        if s.level.shape[0] > 0:  # it was included; `serve` removes it
            s.level[g, r.order[i]] *= 1.0 + w / r.m[r.order[i]]


@kernel
def progressive(
    steps: Any, x: Any, source: Any, column: Any, s: Any, o: Any, r: Any, joint: Any, terms: Any
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k]. terms float64
    (D, C): the terms of the last prediction, by feature; D may be 0.
    """
    known, k, anchor, value, term = steps.known, 0, s.anchor, r.value, r.term
    for i in range(steps.op.shape[0]):
        xi, value[:] = x[steps.row[i]], nan
        for f in range(source.shape[0]):
            v, j = xi[source[f]], column[f]
            if steps.op[i] != 0 and s.total_n[j] == 0.0 and not isnan(v):
                anchor[j] = v
            value[j] = (v - anchor[j]) * s.scale[j]
        if steps.op[i] != 1:
            spreads(s, r)
            for c in range(known):
                joint[k, c] += class_terms(c, s, o, r, terms.shape[0] > 0)
                if terms.shape[0] > 0:
                    terms[:, c] = term
            k += 1
        if steps.op[i] != 0:
            if steps.growth > 1.0:
                fade(s, steps.growth)
            for f in range(source.shape[0]):
                v, j = xi[source[f]], column[f]
                size = abs(v - anchor[j])
                # Called only if needed, because passing all arrays costs more than learning a
                # value.
                if 0.0 < size < NEAR or s.scale[j] != 1.0:
                    fit_scale(size, j, s)
                value[j] = (v - anchor[j]) * s.scale[j]
            learn(steps.y[i], steps.w[i] * s.unit[0], s, o, r)
            serve(s, o, r)
            known = max(known, steps.y[i] + 1)
