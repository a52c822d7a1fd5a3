"""Kernels of independent normal features. Self-contained: their compiled form is never stale.

The moments of D features for C classes are cells `s`, float64 (chunks, 5 + 4 C, 8), of x - anchor:
features lie side by side in lanes, eight a chunk, so that one instruction does all eight. Rows of
a chunk: the anchor (the first value learned); weight, mean, sum of squared deviations and variance
over all classes; then those four of each class in turn. A lane that is nobody's weighs 0. Variances
are functions of the moments and no state: a call looks at them anew, then learning keeps them up
to date; -inf or NaN where nothing was seen. A unit, float64 (1,), is what a weight of 1 learned
last counts.

To learn is Welford's update, in a form in which a sum of squares never falls, whatever the weights,
a first mean is exact, and a lane without a value stays what it was, to the bit. To predict,
squares over variances are summed, and variances multiplied for one logarithm a chunk. Of a row,
scratch `t` holds the squares over variances, the variances and x - anchor, eight of each; `below`
the products whose logarithms are still to be subtracted, all together.

What makes vectors of the loops over lanes: their number is read from the array, for of a constant
number the compiler makes straight code; indices are unsigned, so none can count from the end; a
loop writes at a known distance from where it reads, or into another array; what depends on a lane
is chosen by value, not by a jump. Divisions are numpy's: the processor's, without a check for zero.
All of it stands in one function, for a call a record would cost more than a logarithm.
"""

from __future__ import annotations

from math import exp, inf, isnan, log, pi
from typing import Any, NamedTuple

from numba import njit
from numpy import empty, float64, full, int8, int64, ones, true_divide, uint64
from numpy.typing import NDArray

Floats = NDArray[float64]

LOG_2PI, TWO_PI = log(2.0 * pi), 2.0 * pi
# A term below this is a likelihood no double can hold; kept finite so that terms can be added.
LOWEST = -1e300
LARGEST_UNIT = 2.0**64  # as of the prior: beyond it, weights are scaled down by it, exactly
SMALL, LARGE = 2.0**-120, 2.0**120  # a product of eight between them keeps all its digits
TINY, SCALE = 1e-290, 2.0**600  # a weight whose inverse might overflow, and what keeps it

LANES = 8
HEAD, PER_CLASS = 1, 4  # rows before the weights over all classes, and of them and each class
# Places in a chunk, in numbers: of the first lane of a row; those of MEAN … from that of a weight.
TOTAL, CLASSES, A_CLASS = (uint64(8 * i) for i in (HEAD, HEAD + PER_CLASS, PER_CLASS))
MEAN, M2, VAR = (uint64(8 * i) for i in (1, 2, 3))
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of the root of 1/2
VALUE = uint64(16)  # in t: see `progressive`
ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT = (uint64(i) for i in range(9))


class Moments(NamedTuple):
    """The moments under the names they have in a state, all float64.

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
def variance(m2: float, n: float, ddof: float) -> float:
    """m2 / (n - ddof), with the bits of learning; 0 where it is not known yet. n > 0."""
    found: float = 0.0
    if ddof > 0.0:
        if n > ddof:
            found = true_divide(m2, n - ddof)
    else:
        scale = 1.0 if n > TINY else SCALE
        found = m2 * true_divide(1.0, scale * n) * scale
    return found


@njit(cache=True)
def look(ddof: float, s: Any) -> None:
    """Write the variances: -inf where nothing was seen.

    Learning does not keep them where records fade, for all weights may be scaled at once and ddof
    is then no constant; nor with a ddof; nor after a tiny weight.
    """
    for j in range(s.shape[0]):
        for a in range(HEAD, s.shape[1], PER_CLASS):
            off = ddof if a > HEAD else 0.0
            for k in range(s.shape[2]):
                n = s[j, a, k]
                s[j, a + 3, k] = variance(s[j, a + 2, k], n, off) if n > 0.0 else -inf


@njit(cache=True)
def fade(s: Any, unit: Any, growth: float) -> None:
    """One more record: a weight of 1 counts `growth` times what it did."""
    unit[0] *= growth
    if unit[0] > LARGEST_UNIT:
        unit[0] /= LARGEST_UNIT
        for j in range(s.shape[0]):
            for k in range(s.shape[2]):
                for a in range(HEAD, s.shape[1], PER_CLASS):
                    s[j, a, k] /= LARGEST_UNIT
                    s[j, a + 2, k] /= LARGEST_UNIT


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
    """Take x, float64 (p,), of weight w (in units) back from class c.

    source, column int64 (q,): x[source[i]] is of lane column[i], counted over all chunks.
    """
    for i in range(source.shape[0]):
        value = x[source[i]]
        if isnan(value):
            continue
        j, k = column[i] // LANES, column[i] % LANES
        v = value - s[j, 0, k]
        for a in (HEAD, HEAD + PER_CLASS * (c + 1)):
            n, mean, m2 = s[j, a, k], s[j, a + 1, k], s[j, a + 2, k]
            s[j, a, k], s[j, a + 1, k], s[j, a + 2, k] = without(v, w, n, mean, m2)


@njit(cache=True)
def density(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    t = -0.5 * (LOG_2PI + log(var) + true_divide(d * d, var))
    return t if t > LOWEST else LOWEST


@njit(cache=True)
def term(value: float, j: int, k: int, c: int, ddof: float, smoothing: float, s: Any) -> float:
    """Log density of `value` in lane k of chunk j and class c; 0 where it is no evidence."""
    n = s[j, HEAD, k]
    spread = variance(s[j, HEAD + 2, k], n, 0.0) if n > 0.0 else 0.0
    # Constant so far, every class has the same point: the ratio is 1.
    if isnan(value) or spread <= 0.0:
        return 0.0
    a = HEAD + PER_CLASS * (c + 1)
    mean, var = s[j, HEAD + 1, k], spread  # never seen in this class: as probable as anywhere
    if s[j, a, k] > 0.0:
        mean, var = s[j, a + 1, k], variance(s[j, a + 2, k], s[j, a, k], ddof)
    found: float = density(value - s[j, 0, k], mean, var + smoothing * spread)
    return found


@njit(cache=True)
def terms(
    x: Any, source: Any, column: Any, ddof: float, smoothing: float, s: Any, out: Any
) -> None:
    """The log densities of x, float64 (p,): a row of out float64 (q, C) a feature."""
    for i in range(source.shape[0]):
        j, k = column[i] // LANES, column[i] % LANES
        for c in range(out.shape[1]):
            out[i, c] += term(x[source[i]], j, k, c, ddof, smoothing, s)


@njit(cache=True)
def summed(t: Any) -> float:
    """The sum of t[0 … 8]."""
    left = (t[ZERO] + t[FOUR]) + (t[TWO] + t[SIX])
    return float(left + ((t[ONE] + t[FIVE]) + (t[THREE] + t[SEVEN])))


@njit(cache=True)
def product(t: Any) -> float:
    """The product of t[8 … 16]."""
    u = EIGHT
    left = (t[u] * t[u + FOUR]) * (t[u + TWO] * t[u + SIX])
    return float(left * ((t[u + ONE] * t[u + FIVE]) * (t[u + THREE] * t[u + SEVEN])))


@njit(cache=True)
def unusual(xs: Any, i: Any, j: int, c: int, ddof: float, smoothing: float, s: Any) -> float:
    """The log densities of the row at xs[i] in the lanes of chunk j, one by one."""
    total = 0.0
    for k in range(LANES):
        total += term(xs[i + uint64(k)], j, k, int64(c), ddof, smoothing, s)
    return total


@njit(cache=True)
def subtract_logs(p: Any, out: Any) -> None:
    """Subtract log(p) / 2 from out, both float64 (n,); p > 0, of full precision, is used up.

    Many at once, as vectors, which the library's cannot be. The formula and its constants are of
    fdlibm's e_log.c: log(2^k (1 + f)), 1 + f between the roots of 1/2 and 2; error below 1 ulp.
    """
    if p.size == 0:
        return
    bits, power = p.view(int64), empty(p.size)
    for i in range(p.size):
        k = (bits[i] - HALF_ROOT) >> 52
        power[i] = k
        bits[i] -= k << 52
    for i in range(p.size):
        k, f = power[i], p[i] - 1.0
        half = 0.5 * f * f
        r = true_divide(f, 2.0 + f)
        z = r * r
        u = z * z
        even = u * (0.3999999999940941908 + u * (0.2222219843214978396 + u * 0.1531383769920937332))
        odd = 0.2857142874366239149 + u * (0.1818357216161805012 + u * 0.1479819860511658591)
        odd = z * (0.6666666666666735130 + u * odd)
        low = r * (half + (odd + even)) + k * 1.90821492927058770002e-10
        out[i] -= 0.5 * (k * 6.93147180369123816490e-01 - ((half - low) - f))


@njit(cache=True)
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    growth: float,
    x: Any,
    ddof: float,
    smoothing: float,
    cells: Any,
    unit: Any,
    joint: Any,
) -> None:
    """Run the steps over x float64 (n, 8 · chunks), adding to joint float64 (n_predictions, C)."""
    s, xs, out = cells.reshape(cells.size), x.reshape(x.size), joint.reshape(joint.size)
    lanes, height = uint64(cells.shape[2]), uint64(cells.shape[1] * cells.shape[2])
    t, below = empty(3 * LANES), ones(joint.size)
    fresh, lasting, at = False, growth == 1.0 and ddof == 0.0, ZERO
    for m in range(op.shape[0]):
        i = uint64(row[m]) * uint64(x.shape[1])
        if op[m] != 1:
            if not fresh:
                look(ddof * unit[0], cells)
                fresh = lasting
            for j in range(cells.shape[0]):
                b, r = uint64(j) * height, i + uint64(j) * lanes
                for c in range(uint64(known)):
                    a, odd = b + CLASSES + c * A_CLASS, 0
                    for k in range(lanes):
                        v, spread = xs[r + k] - s[b + k], s[b + TOTAL + VAR + k]
                        evident = (v == v) & (spread > 0.0)
                        var = s[a + VAR + k] + smoothing * spread
                        d = v - s[a + MEAN + k] if evident else 0.0
                        var = var if evident else 1.0
                        t[k] = true_divide(d * d, var)
                        t[EIGHT + k] = TWO_PI * var if evident else 1.0
                        odd += 0 if (var > SMALL) & (var < LARGE) else 1
                    if odd > 0:
                        out[at + c] += unusual(xs, r, j, c, ddof * unit[0], smoothing, cells)
                        continue
                    out[at + c] -= 0.5 * summed(t) + (0.5 * log(below[at + c]) if j > 0 else 0.0)
                    below[at + c] = product(t)
            at += uint64(joint.shape[1])
        if op[m] != 0:
            if growth != 1.0:
                fade(cells, unit, growth)
            amount = w[m] * unit[0]
            scale = 1.0 if amount > TINY else SCALE
            for j in range(cells.shape[0]):
                b, r = uint64(j) * height, i + uint64(j) * lanes
                for k in range(lanes):
                    t[VALUE + k] = xs[r + k] - s[b + k]
                a = b + TOTAL
                for _ in range(2):  # what is over all classes, and then the class
                    for k in range(lanes):
                        v, n, mean, m2 = t[VALUE + k], s[a + k], s[a + MEAN + k], s[a + M2 + k]
                        here, var = v == v, s[a + VAR + k]
                        after = n + (amount if here else 0.0)
                        inverse = true_divide(1.0, scale * after)
                        share = scale * amount * inverse if here & (n > 0.0) else 1.0
                        d = v - mean if here else 0.0
                        m2 = m2 + d * d * (n * share)
                        s[a + k] = after
                        s[a + MEAN + k] = mean + d * share
                        s[a + M2 + k] = m2
                        s[a + VAR + k] = m2 * inverse if here else var
                    a = b + CLASSES + uint64(y[m]) * A_CLASS
            known, fresh = max(known, y[m] + 1), fresh and amount > TINY
    subtract_logs(below, out)


@njit(cache=True)
def prior_of(op: Any, y: Any, w: Any, known: int, weight: Any, joint: Any, seen: Any) -> None:
    """`progressive` of the prior's kernels where it is learned and never fades."""
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


@njit(cache=True)
def normalise(joint: Any, prior: Any, seen: Any) -> None:
    """That of the prior's kernels; of two classes without a jump that nobody can foresee."""
    for at in range(joint.shape[0]):
        known = seen[at]
        if known == 2 and max(joint[at, 0], joint[at, 1]) > -inf:
            first, second = joint[at, 0], joint[at, 1]
            other = exp(-abs(first - second))
            share = true_divide(1.0, 1.0 + other)
            joint[at, 0] = share if first >= second else other * share
            joint[at, 1] = share if second >= first else other * share
            continue
        top = -inf
        for c in range(known):
            top = max(top, joint[at, c])
        if top == -inf:
            for c in range(known):
                joint[at, c] = prior[at, c]
                top = max(top, joint[at, c])
        total = 0.0
        for c in range(known):
            lower = joint[at, c] - top if top > -inf else 0.0
            joint[at, c] = exp(lower) if lower < 0.0 else 1.0
            total += joint[at, c]
        share = true_divide(1.0, total)
        for c in range(known):
            joint[at, c] *= share


@njit(cache=True)
def posterior(
    op: Any,
    row: Any,
    y: Any,
    code: Any,
    w: Any,
    known: int,
    weight: Any,
    x: Any,
    ddof: float,
    smoothing: float,
    s: Any,
    out: Any,
    seen: Any,
) -> None:
    """`progressive` between the prior and the posterior, in one call, where nothing fades.

    y int32 (m,): index into code int64 (L + 1,), of classes; the last for no label, -1. weight
    float64 (C,): the prior's. To out float64 (n_predictions, C), zeros, come posteriors, to
    seen int64 (n_predictions,) how many classes were known.
    """
    c = code[y]
    prior_of(op, c, w, known, weight, out, seen)
    prior = out.copy()
    progressive(op, row, c, w, known, 1.0, x, ddof, smoothing, s, ones(1), out)
    normalise(out, prior, seen)


@njit(cache=True)
def learn_row(x: Any, c: int, w: float, weight: Any, smoothing: float, s: Any) -> None:
    """`posterior` of one learning step; x float64 (1, 8 · chunks). An array costs a call: few."""
    op, i, f = full(1, 1, int8), full(2, c, int64), full(2, 1.0)
    i[0], f[0] = 0, w
    progressive(op, i[:1], i[1:], f[:1], c + 1, 1.0, x, 0.0, smoothing, s, f[1:], x[:0])
    weight[c] += w


@njit(cache=True)
def answer_row(x: Any, weight: Any, ddof: float, smoothing: float, s: Any, out: Any) -> None:
    """`posterior` of one predicting step; x float64 (1, 8 · chunks), out (1, C)."""
    known = weight.shape[0]
    op, i, f, prior = full(1, 0, int8), full(2, known, int64), full(2, 1.0), empty((1, known))
    i[0] = 0
    for c in range(known):
        prior[0, c] = log(weight[c]) if weight[c] > 0.0 else -inf
        out[0, c] = prior[0, c]
    progressive(op, i[:1], i[1:], f[:1], known, 1.0, x, ddof, smoothing, s, f[1:], out)
    normalise(out, prior, i[1:])
