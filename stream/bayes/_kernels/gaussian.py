"""Kernels of independent normal features.

The moments of D features for C classes are cells `s`, float64 (chunks, 6 + 4 C, 8), of
(x - anchor) · scale: a chunk has eight features in adjacent lanes, so that one instruction
processes all eight. Rows of a chunk: the anchor (the first learned value) and the scale; weight,
mean, sum of squared deviations and variance over all classes; then these four of each class in
turn. Unused lanes and spare classes have weight 0. Variances are functions of the moments and not
state: each call computes them, then learning updates them; -inf or NaN if nothing was learned. A
unit, float64 (1,), is the present value of a weight of 1 learned last.

The scale is 1, or MAGNIFIED while all learned values are within NEAR of the anchor but not equal,
because their squares would underflow. Both are powers of two, so no digit changes.

Learning is Welford's update, in a form in which a sum of squares never decreases for any weights,
the first mean is exact, and a lane without a value does not change by a bit. Predicting sums
squares over variances, and multiplies variances so that a chunk needs one logarithm: `below` are
the products whose logarithms are subtracted later, all at once.

A chunk without evidence changes no sum. So the terms of a row are added in the same order in any
block.

`evidence` and `learn` process eight lanes with the instructions of one (`lanes`). Indices are
unsigned, so the compiler omits the wrap-around of negative ones. Divisions follow numpy's rules,
without a check for 0.
"""

from __future__ import annotations

from math import exp, inf, isnan, log, pi
from typing import Any

from numpy import empty, full, int8, int64, ones, true_divide, uint64

from stream.bayes._kernels.lanes import HEAD, LANES, evidence, learn, outlying
from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, LOWEST, advance, normalise_row, take_logs

LOG_2PI = log(2.0 * pi)
TINY, SCALE = 1e-290, 2.0**600  # a weight whose inverse might overflow; the scale for it

PER_CLASS = 4  # rows of moments for each class
# Offsets in a chunk, in numbers: of the first lane of a row; MEAN … are relative to a weight.
TOTAL, CLASSES, A_CLASS = (uint64(8 * i) for i in (HEAD, HEAD + PER_CLASS, PER_CLASS))
NEAR = 2.0**-200
MAGNIFIED = 2.0**600  # with it, even the square of the smallest double has full precision


@kernel
def variance(m2: float, n: float, ddof: float) -> float:
    """m2 / (n - ddof), with the bits of learning; 0 if it is not yet known. n > 0."""
    found: float = 0.0
    if ddof > 0.0:
        if n > ddof:
            found = true_divide(m2, n - ddof)
    else:
        scale = 1.0 if n > TINY else SCALE
        found = m2 * true_divide(1.0, scale * n) * scale
    return found


@kernel
def look(ddof: float, s: Any) -> None:
    """Write the variances; -inf if nothing was learned.

    Learning does not update them if records fade (because all weights may be scaled at once), with
    a ddof, or after a tiny weight.
    """
    for j in range(s.shape[0]):
        for a in range(HEAD, s.shape[1], PER_CLASS):
            off = ddof if a > HEAD else 0.0
            for k in range(s.shape[2]):
                n = s[j, a, k]
                s[j, a + 3, k] = variance(s[j, a + 2, k], n, off) if n > 0.0 else -inf


@kernel
def fade(s: Any, unit: Any, growth: float) -> int:
    """Advance the unit by one record: new weights count `growth` times as much. 1 if s was scaled
    down."""
    if not advance(unit, growth):
        return 0
    scale_down(s)
    return 1


@kernel
def scale_down(s: Any) -> None:
    """Divide all weights and sums of squares by LARGEST_UNIT."""
    for j in range(s.shape[0]):
        for a in range(HEAD, s.shape[1], PER_CLASS):
            for k in range(s.shape[2]):
                s[j, a, k] /= LARGEST_UNIT
                s[j, a + 2, k] /= LARGEST_UNIT


@kernel
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v. A variance of 0 is a point: log 1 at the point, log 0 elsewhere."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    return float(max(-0.5 * (LOG_2PI + log(var) + true_divide(d * d, var)), LOWEST))


@kernel
def term(value: float, j: int, k: int, c: int, ddof: float, smoothing: float, s: Any) -> float:
    """Log density of `value` in lane k of chunk j and class c; 0 if it is not evidence."""
    n = s[j, HEAD, k]
    spread = variance(s[j, HEAD + 2, k], n, 0.0) if n > 0.0 else 0.0
    # Constant so far: every class has the same point, so the ratio is 1.
    if isnan(value) or spread <= 0.0:
        return 0.0
    a, scale = HEAD + PER_CLASS * (c + 1), s[j, 1, k]
    mean, var = s[j, HEAD + 1, k], spread  # never seen in this class: use all classes
    if s[j, a, k] > 0.0:
        mean, var = s[j, a + 1, k], variance(s[j, a + 2, k], s[j, a, k], ddof)
    found = density((value - s[j, 0, k]) * scale, mean, var + smoothing * spread)
    # A point has no unit, so its density is not scaled.
    return float(found - log(scale) if scale != 1.0 and found == 0.0 else found)


@kernel
def terms(
    x: Any, source: Any, column: Any, ddof: float, smoothing: float, s: Any, out: Any
) -> None:
    """The log densities of x, float64 (p,): a row of out float64 (q, C) for each feature."""
    for i in range(source.shape[0]):
        j, k = column[i] // LANES, column[i] % LANES
        for c in range(out.shape[1]):
            found = term(x[source[i]], j, k, c, ddof, smoothing, s)
            out[i, c] += found + (log(s[j, 1, k]) if found != 0.0 else 0.0)


@kernel
def fits(j: int, k: int, s: Any) -> bool:
    """Whether lane k of chunk j, in scale 1, may be magnified: all values equal, near the anchor.

    The anchor may be far, if its record was unlearned.
    """
    for a in range(HEAD, s.shape[1], PER_CLASS):
        if s[j, a + 2, k] != 0.0 or abs(s[j, a + 1, k]) >= NEAR:
            return False
    return True


@kernel
def fit_scale(xs: Any, i: Any, j: int, s: Any) -> None:
    """Set the scale of the lanes of chunk j for the row at xs[i]; see the top of this file."""
    for k in range(LANES):
        size, old, new = abs(xs[i + uint64(k)] - s[j, 0, k]), s[j, 1, k], s[j, 1, k]
        if old == 1.0 and 0.0 < size < NEAR and fits(j, k, s):
            new = MAGNIFIED
        elif old != 1.0 and size >= NEAR:
            new = 1.0
        if new != old:
            by, s[j, 1, k] = new / old, new
            for a in range(HEAD, s.shape[1], PER_CLASS):
                # A mean is never -0.0, which a record without a value here would make 0.0.
                s[j, a + 1, k] = s[j, a + 1, k] * by + 0.0
                s[j, a + 2, k] = s[j, a + 2, k] * by * by


@kernel
def unusual(xs: Any, i: Any, j: int, c: int, ddof: float, smoothing: float, s: Any) -> float:
    """The log densities of the row at xs[i] in the lanes of chunk j, one by one."""
    total = 0.0
    for k in range(LANES):
        total += term(xs[i + uint64(k)], j, k, int64(c), ddof, smoothing, s)
    return total


@kernel
def subtract_logs(p: Any, out: Any) -> None:
    """Subtract log(p) / 2 from out, both float64 (n,). p > 0 has full precision; it is changed."""
    take_logs(p)
    for i in range(p.size):
        out[i] -= 0.5 * p[i]


@kernel
def progressive(
    steps: Any, x: Any, ddof: float, smoothing: float, cells: Any, unit: Any, joint: Any
) -> int:
    """Run the steps over x float64 (n, 8 · chunks), adding to joint float64 (n_predictions, C).

    steps: op … growth as in `Steps`. Returns how often the weights of all chunks have to be scaled
    down; those of the chunks in cells were.
    """
    op, row, y, w, known, growth = steps
    s, xs, out = cells.reshape(cells.size), x.reshape(x.size), joint.reshape(joint.size)
    height, below = uint64(cells.shape[1] * LANES), ones(joint.size)
    fresh, lasting, at, downs = False, growth == 1.0 and ddof == 0.0, uint64(0), 0
    for m in range(op.shape[0]):
        i = uint64(row[m]) * uint64(x.shape[1])
        if op[m] != 1:
            if not fresh:
                look(ddof * unit[0], cells)
                fresh = lasting
            for j in range(uint64(cells.shape[0])):
                b, r = j * height, i + j * uint64(LANES)
                for c in range(uint64(known)):
                    a = b + CLASSES + c * A_CLASS
                    squares, product, usual = evidence(xs, r, s, b, a, smoothing)
                    if not usual:
                        out[at + c] += unusual(xs, r, j, c, ddof * unit[0], smoothing, cells)
                        continue
                    if j > 0:
                        if squares == 0.0 and product == 1.0:  # no evidence in this chunk
                            continue
                        if below[at + c] != 1.0:
                            squares += log(below[at + c])
                    out[at + c] -= 0.5 * squares
                    below[at + c] = product
            at += uint64(joint.shape[1])
        if op[m] != 0:
            if growth != 1.0:
                downs += fade(cells, unit, growth)
            amount = w[m] * unit[0]
            scale = 1.0 if amount > TINY else SCALE
            for j in range(uint64(cells.shape[0])):
                b, r = j * height, i + j * uint64(LANES)
                if outlying(xs, r, s, b):
                    fit_scale(xs, r, int64(j), cells)
                    fresh = False
                learn(xs, r, s, b, b + TOTAL, amount, scale)  # over all classes, and of its class
                learn(xs, r, s, b, b + CLASSES + uint64(y[m]) * A_CLASS, amount, scale)
            known, fresh = max(known, y[m] + 1), fresh and amount > TINY
    subtract_logs(below, out)
    return downs


@kernel
def prior_of(op: Any, y: Any, w: Any, known: int, weight: Any, joint: Any, seen: Any) -> None:
    """`progressive` of the prior's kernels, if it is learned and never fades."""
    logs = empty(weight.shape[0])
    for c in range(weight.shape[0]):
        logs[c] = log(weight[c]) if weight[c] > 0.0 else -inf
    at = 0
    for m in range(op.shape[0]):
        if op[m] != 1:
            for c in range(known):
                joint[at, c] = logs[c]
            seen[at] = known
            at += 1
        if op[m] != 0:
            c = y[m]
            weight[c] += w[m]
            logs[c] = log(weight[c])
            known = max(known, c + 1)


@kernel
def normalise(joint: Any, prior: Any, seen: Any) -> None:
    """`normalise` of the prior's kernels, for two classes without an unpredictable branch."""
    for at in range(joint.shape[0]):
        known = seen[at]
        if known == 2 and max(joint[at, 0], joint[at, 1]) > -inf:
            first, second = joint[at, 0], joint[at, 1]
            other = exp(-abs(first - second))
            share = true_divide(1.0, 1.0 + other)
            joint[at, 0] = share if first >= second else other * share
            joint[at, 1] = share if second >= first else other * share
            continue
        normalise_row(joint, prior, at, known)


@kernel
def posterior(
    steps: Any, code: Any, weight: Any, x: Any, how: Any, s: Any, out: Any, seen: Any
) -> None:
    """Prior, `progressive` and posterior in one call, if nothing fades.

    steps: op, row, y, w, known as in `Steps`, but y int32 (m,) is an index into the class codes
    code int64 (L + 1,); the last one, -1, is for no label. weight float64 (C,): weights of the
    prior. how: ddof, smoothing. Outputs: posteriors in out float64 (n_predictions, C), initially
    zeros, and the number of known classes in seen.
    """
    op, row, y, w, known = steps
    c = code[y]
    prior_of(op, c, w, known, weight, out, seen)
    prior = out.copy()
    progressive((op, row, c, w, known, 1.0), x, *how, s, ones(1), out)
    normalise(out, prior, seen)


@kernel
def learn_row(x: Any, c: int, w: float, weight: Any, smoothing: float, s: Any) -> None:
    """`posterior` of one learning step; x float64 (1, 8 · chunks). It has few arrays, because each
    costs time in a call."""
    op, i, f = full(1, 1, int8), full(2, c, int64), full(2, 1.0)
    i[0], f[0] = 0, w
    progressive((op, i[:1], i[1:], f[:1], c + 1, 1.0), x, 0.0, smoothing, s, f[1:], x[:0])
    weight[c] += w


@kernel
def answer_row(
    x: Any, weight: Any, ddof: float, smoothing: float, s: Any, unit: Any, out: Any
) -> None:
    """`posterior` of one predicting step; x float64 (1, 8 · chunks), unit (1,), out (1, C)."""
    known = weight.shape[0]
    op, i, f, prior = full(1, 0, int8), full(2, known, int64), full(1, 1.0), empty((1, known))
    i[0] = 0
    for c in range(known):
        prior[0, c] = log(weight[c]) if weight[c] > 0.0 else -inf
        out[0, c] = prior[0, c]
    progressive((op, i[:1], i[1:], f, known, 1.0), x, ddof, smoothing, s, unit, out)
    normalise(out, prior, i[1:])


@kernel
def without(v: float, w: float, rounding: float, n: float, mean: float, m2: float) -> Any:
    """Weight, mean and sum of squares without v: Welford's update, inverted."""
    left = n - w
    if left <= rounding:
        return 0.0, 0.0, 0.0
    d = v - mean
    rest = m2 - d * d * (w * (n / left))
    return left, mean - d * (w / left), rest if rest > 1e-12 * m2 else 0.0  # else a rounding error


@kernel
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
