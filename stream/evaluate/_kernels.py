"""Kernels of progressive scores. Self-contained, so that the compiled form is never stale.

The last N scored predictions stand in a ring: one is a column of `codes` int32 (4, N), the true
class and what model, majority and no-change said (-1: nothing), one of `told` float64 (5, N), log
loss, confidence, Brier, and log loss and Brier of the prior, and a row of `posterior` float64
(N, R), what the model gave to the first R classes. The next one comes to `at`.

Sums come in pairs: over all time, and fading. Instead of fading what was, what is new weighs more;
where its weight grows too large, all are scaled down by a power of two, which is exact. `confusion`
float64 (C, C, 2) is by [true, said]; `baselines` float64 (2, C + 1, 2, 2) by [majority or
no-change, 1 + said, right]; `calibration` float64 (B, 2, 2, 2) by [confidence, right, how many or
their confidences]; `sums` float64 (6, 2) are how many, log loss, Brier, the prior's two, and what
the last one weighed.

`counts` int64 (C,) are the labels learned a class; `memory` float64 (4,) the class most of them are
of and the last, -1 for none, how many they are, and the sum of the squares of `counts`.

What makes vectors of loops, or keeps them short: indices are unsigned, so none can count from the
end; what depends on a record is chosen by value, not by a jump; divisions are numpy's; where a
weight goes is found for many at once, before any is added.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy import empty, int32, int64, true_divide, uint64

SMALLEST = 2.0**-52  # an unseen true class costs -log of this, never 0 and never infinity
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of the root of 1/2
LARGEST, SCALE = 2.0**64, 2.0**-64
ZERO, ONE, TWO = uint64(0), uint64(1), int32(2)


@njit(cache=True)
def losses(p: Any) -> Any:
    """-log of each probability, float64 (n,)."""
    out = p.copy()
    _lose(out, empty(p.size))
    return out


@njit(cache=True)
def _lose(p: Any, power: Any) -> None:
    """Put -log of each probability in its place; p and scratch `power` float64 (n,).

    Many at once, as vectors, which the library's cannot be. The formula and its constants are of
    fdlibm's e_log.c: log(2^k (1 + f)), 1 + f between the roots of 1/2 and 2; error below 1 ulp.
    """
    bits = p.view(int64)
    for i in range(p.size):
        p[i] = max(p[i], SMALLEST)
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
        p[i] = ((half - low) - f) - k * 6.93147180369123816490e-01


@njit(cache=True)
def baselines(
    op: Any, y: Any, label: Any, counts: Any, memory: Any, said: Any, prior: Any, squares: Any
) -> None:
    """What majority, no-change and prior would say at each predicting step.

    op int8, y int32 (m,): the steps, which are counted; label int64 (L,): block label to class
    code. Written: said int64 (n_predictions, 2); prior float64 (n_predictions, C), the share of
    each class in the labels; squares float64 (n_predictions,), the sum of the squares of these.
    """
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            said[k, 0], said[k, 1] = int64(memory[0]), int64(memory[1])
            share = true_divide(1.0, max(memory[2], 1.0))
            for c in range(counts.shape[0]):
                prior[k, c] = float(counts[c]) * share
            squares[k] = memory[3] * share * share
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            memory[2] += 1.0
            memory[3] += 2.0 * counts[c] + 1.0
            counts[c] += 1
            memory[1] = c
            majority = int64(memory[0])
            if majority < 0 or counts[c] > counts[majority]:
                memory[0] = c


@njit(cache=True)
def score(
    true: Any,
    said: Any,
    proba: Any,
    prior: Any,
    squares: Any,
    at: int,
    codes: Any,
    told: Any,
    posterior: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> int:
    """Write down scored predictions and add them up, in order; the ring's next place.

    true int64 (k,); said int64 (k, 3): class codes of model, majority, no-change, -1 for none but
    the model; proba float64 (k, C): posteriors; prior, squares: as `baselines` wrote them.
    """
    for i in range(true.shape[0]):
        t = true[i]
        codes[0, at] = t
        codes[1, at], codes[2, at], codes[3, at] = said[i, 0], said[i, 1], said[i, 2]
        total = 0.0
        for k in range(proba.shape[1]):
            total += proba[i, k] * proba[i, k]
        told[0, at] = proba[i, t]
        told[1, at] = proba[i, said[i, 0]]
        told[2, at] = (1.0 - 2.0 * proba[i, t]) + total
        told[3, at] = prior[i, t]
        told[4, at] = (1.0 - 2.0 * prior[i, t]) + squares[i]
        for k in range(min(proba.shape[1], posterior.shape[1])):
            posterior[at, k] = proba[i, k]
        at += 1
        if at == posterior.shape[0] or i + 1 == true.shape[0]:
            begin = max(at - i - 1, 0)
            _add(begin, at, codes, told, confusion, baselines, calibration, sums, factor)
            at %= posterior.shape[0]
    return at


@njit(cache=True)
def score_at_once(
    y: Any,
    label: Any,
    proba: Any,
    known: Any,
    counts: Any,
    memory: Any,
    at: int,
    codes: Any,
    told: Any,
    posterior: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> int:
    """`baselines` and `score` of steps that each predict and then learn, with nothing between.

    proba float64 (n, C), contiguous, known int64 (n,): the posteriors; the rest as of those two.
    -1, and nothing done, where a prediction named no class.
    """
    unnamed, begin = 0, 0
    for i in range(known.shape[0]):
        unnamed += known[i] == 0
    if unnamed:
        return -1
    while begin < y.shape[0]:
        n = min(y.shape[0] - begin, posterior.shape[0] - at)
        end = at + n
        mine = proba[begin : begin + n]
        _write(y[begin : begin + n], label, mine, counts, memory, codes, told, at)
        _keep(mine, posterior[at:end])
        _add(at, end, codes, told, confusion, baselines, calibration, sums, factor)
        begin, at = begin + n, end % posterior.shape[0]
    return at


@njit(cache=True)
def _write(
    y: Any, label: Any, proba: Any, counts: Any, memory: Any, codes: Any, told: Any, at: int
) -> None:
    """Write down predictions and learn their labels, one by one."""
    end = at + y.shape[0]
    true, model = codes[0][at:end], codes[1][at:end]
    by_majority, by_last = codes[2][at:end], codes[3][at:end]
    loss, sure, brier = told[0][at:end], told[1][at:end], told[2][at:end]
    prior, prior_brier = told[3][at:end], told[4][at:end]
    majority, last, squares = int64(memory[0]), int64(memory[1]), memory[3]
    most = counts[majority] if majority >= 0 else 0
    for i in range(uint64(y.shape[0])):
        t = uint64(label[uint64(y[i])])
        best: Any = ZERO
        top = proba[i, ZERO]
        total = top * top
        for k in range(ONE, uint64(proba.shape[1])):
            p = proba[i, k]
            total += p * p
            best, top = (k if p > top else best), (p if p > top else top)
        true[i], model[i], by_majority[i], by_last[i] = t, best, majority, last
        n = counts[t]
        loss[i], sure[i], brier[i] = proba[i, t], top, total
        prior[i], prior_brier[i] = float(n), squares
        squares += 2.0 * n + 1.0
        n += 1
        counts[t] = n
        last = int64(t)
        majority, most = (last if n > most else majority), (n if n > most else most)
    for i in range(y.shape[0]):
        share = true_divide(1.0, max(memory[2] + i, 1.0))
        p = prior[i] * share
        prior[i], prior_brier[i] = p, (1.0 - 2.0 * p) + prior_brier[i] * share * share
        brier[i] = (1.0 - 2.0 * loss[i]) + brier[i]
    memory[0], memory[1], memory[2], memory[3] = majority, last, memory[2] + y.shape[0], squares


@njit(cache=True)
def _keep(proba: Any, out: Any) -> None:
    """The posteriors of the first classes; most often of all, whose rows lie side by side."""
    if proba.shape[1] == out.shape[1]:
        here, there = proba.reshape(proba.size), out.reshape(out.size)
        for i in range(proba.size):
            there[i] = here[i]
        return
    for i in range(proba.shape[0]):
        for k in range(min(proba.shape[1], out.shape[1])):
            out[i, k] = proba[i, k]


@njit(cache=True)
def _add(
    at: int,
    end: int,
    codes: Any,
    told: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> None:
    """Add what stands at … end - 1, where losses are still probabilities, to what is counted."""
    power, places = empty(end - at), empty(4 * (end - at), int32)
    _lose(told[0][at:end], power)
    _lose(told[3][at:end], power)
    _place(codes, told[1][at:end], at, confusion.shape[0], calibration.shape[0], places)
    said, base = confusion.reshape(confusion.size), baselines.reshape(baselines.size)
    bins = calibration.reshape(calibration.size)
    if sums[5, 1] * factor ** (end - at) < 0.5 * LARGEST:  # far enough, however it is rounded
        _count(at, 0, end - at, told, places, said, base, bins, sums, factor)
        return
    for i in range(end - at):
        if sums[5, 1] * factor >= LARGEST:
            for pairs in (said, base, bins, sums.reshape(sums.size)):
                for k in range(1, pairs.size, 2):
                    pairs[k] *= SCALE
        _count(at, i, i + 1, told, places, said, base, bins, sums, factor)


@intrinsic
def add_pair(typing: Any, pairs: Any, at: Any, one: Any, other: Any) -> Any:
    """Add to pairs[at] and pairs[at + 1] in one; pairs float64 (n,), contiguous, at int32.

    Of two additions the compiler makes two, for a weight that changes and one that does not.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = ir.VectorType(ir.DoubleType(), 2)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), both.as_pointer())
        new = ir.Constant(both, ir.Undefined)
        for lane in (0, 1):
            new = builder.insert_element(new, args[2 + lane], ir.Constant(ir.IntType(32), lane))
        builder.store(builder.fadd(builder.load(place, align=8), new), place, align=8)
        return context.get_dummy_value()

    return types.void(pairs, at, one, other), code


@njit(cache=True)
def _count(
    at: int,
    begin: int,
    end: int,
    told: Any,
    places: Any,
    said: Any,
    base: Any,
    bins: Any,
    sums: Any,
    factor: float,
) -> None:
    """Add those at + begin … at + end - 1 where `places` says."""
    m = places.size // 4
    by_said, by_majority = places[begin:end], places[m + begin : m + end]
    by_last, by_sure = places[2 * m + begin : 2 * m + end], places[3 * m + begin : 3 * m + end]
    begin, end = at + begin, at + end
    sure, loss, brier = told[1][begin:end], told[0][begin:end], told[2][begin:end]
    prior_loss, prior_brier = told[3][begin:end], told[4][begin:end]
    n, a, b, c, d = sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0]
    n_, a_, b_ = sums[0, 1], sums[1, 1], sums[2, 1]
    c_, d_, w = sums[3, 1], sums[4, 1], sums[5, 1]
    for i in range(uint64(end - begin)):
        w *= factor
        add_pair(said, by_said[i], 1.0, w)
        add_pair(base, by_majority[i], 1.0, w)
        add_pair(base, by_last[i], 1.0, w)
        add_pair(bins, by_sure[i], 1.0, w)
        add_pair(bins, by_sure[i] + TWO, sure[i], w * sure[i])
        n, n_ = n + 1.0, n_ + w
        a, a_ = a + loss[i], a_ + w * loss[i]
        b, b_ = b + brier[i], b_ + w * brier[i]
        c, c_ = c + prior_loss[i], c_ + w * prior_loss[i]
        d, d_ = d + prior_brier[i], d_ + w * prior_brier[i]
    sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0] = n, a, b, c, d
    sums[0, 1], sums[1, 1], sums[2, 1], sums[3, 1], sums[4, 1] = n_, a_, b_, c_, d_
    sums[5, 1] = w


@njit(cache=True)
def _place(codes: Any, sure: Any, at: int, classes: int, bins: int, out: Any) -> None:
    """Where in `confusion`, `baselines` (twice) and `calibration` the pairs of each begin."""
    end = at + sure.size
    true, said = codes[0][at:end], codes[1][at:end]
    majority, last = codes[2][at:end], codes[3][at:end]
    by_said, by_majority, by_last, by_sure = _quarters(out)
    one, two, four, n_classes, most = int32(1), int32(2), int32(4), int32(classes), int32(bins - 1)
    of_last = two * (two * n_classes + two)
    for i in range(sure.size):
        by_said[i] = two * (n_classes * true[i] + said[i])
    for i in range(sure.size):
        by_majority[i] = two * (two * (majority[i] + one) + int32(majority[i] == true[i]))
    for i in range(sure.size):
        by_last[i] = of_last + two * (two * (last[i] + one) + int32(last[i] == true[i]))
    for i in range(sure.size):
        k = min(int32(sure[i] * float(bins)), most)
        by_sure[i] = four * (two * k + int32(said[i] == true[i]))


@njit(cache=True)
def _quarters(whole: Any) -> Any:
    """Four arrays that lie one behind the other."""
    n = whole.size // 4
    return whole[:n], whole[n : 2 * n], whole[2 * n : 3 * n], whole[3 * n :]
