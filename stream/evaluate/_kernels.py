"""Kernels of progressive scores. Self-contained, so that the compiled form is never stale."""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy import empty, int64, true_divide, uint64

SMALLEST = 2.0**-52  # an unseen true class costs -log of this, never 0 and never infinity
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of the root of 1/2


@njit(cache=True)
def losses(p: Any) -> Any:
    """-log of each probability, float64 (n,).

    Many at once, as vectors, which the library's cannot be. The formula and its constants are of
    fdlibm's e_log.c: log(2^k (1 + f)), 1 + f between the roots of 1/2 and 2; error below 1 ulp.
    """
    out, power = empty(p.size), empty(p.size)
    bits = out.view(int64)
    for i in range(p.size):
        out[i] = max(p[i], SMALLEST)
    for i in range(p.size):
        k = (bits[i] - HALF_ROOT) >> 52
        power[i] = k
        bits[i] -= k << 52
    for i in range(p.size):
        k, f = power[i], out[i] - 1.0
        half = 0.5 * f * f
        r = true_divide(f, 2.0 + f)
        z = r * r
        u = z * z
        even = u * (0.3999999999940941908 + u * (0.2222219843214978396 + u * 0.1531383769920937332))
        odd = 0.2857142874366239149 + u * (0.1818357216161805012 + u * 0.1479819860511658591)
        odd = z * (0.6666666666666735130 + u * odd)
        low = r * (half + (odd + even)) + k * 1.90821492927058770002e-10
        out[i] = ((half - low) - f) - k * 6.93147180369123816490e-01
    return out


@njit(cache=True)
def baselines(op: Any, y: Any, label: Any, counts: Any, memory: Any, out: Any) -> None:
    """What majority and no-change would say at each predicting step.

    op int8, y int32 (m,): the steps; label int64 (L,): block label to class code; counts int64
    (C,): labels learned a class; memory int64 (2,): majority and last class so far, -1 for none,
    updated; out int64 (n_predictions, 2).
    """
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            out[k, 0] = memory[0]
            out[k, 1] = memory[1]
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            counts[c] += 1
            memory[1] = c
            if memory[0] < 0 or counts[c] > counts[memory[0]]:
                memory[0] = c


@njit(cache=True)
def score(
    true: Any,
    said: Any,
    p_true: Any,
    confusion: Any,
    sums: Any,
    fading: Any,
    factor: float,
    ring: Any,
    ring_loss: Any,
    at: int,
) -> int:
    """Add scored predictions in order; returns the ring's next place.

    true int64 (k,); said int64 (k, 3): class codes of model, majority, no-change, -1 for none;
    p_true float64 (k,): probability given to the true class; confusion int64 (C, C); sums and
    fading float64 (5,): scored, log loss, hits of the three; ring int32 (N, 4): true and the
    three; ring_loss float64 (N,).
    """
    costs = losses(p_true)
    for i in range(true.shape[0]):
        t, loss = true[i], costs[i]
        confusion[t, said[i, 0]] += 1
        sums[0] += 1.0
        sums[1] += loss
        fading[0] = factor * fading[0] + 1.0
        fading[1] = factor * fading[1] + loss
        ring[at, 0] = t
        ring_loss[at] = loss
        for b in range(3):
            hit = 1.0 if said[i, b] == t else 0.0
            sums[2 + b] += hit
            fading[2 + b] = factor * fading[2 + b] + hit
            ring[at, 1 + b] = said[i, b]
        at = (at + 1) % ring.shape[0]
    return at


@njit(cache=True)
def score_at_once(
    y: Any,
    label: Any,
    proba: Any,
    known: Any,
    counts: Any,
    memory: Any,
    confusion: Any,
    sums: Any,
    fading: Any,
    factor: float,
    ring: Any,
    ring_loss: Any,
    at: int,
) -> Any:
    """`baselines` and `score` of steps that each predict and then learn, with nothing between.

    proba float64 (n, C), known int64 (n,): the posteriors; the rest as of those two. Sums are kept
    in registers: the same additions in the same order. Returns the ring's next place and how many
    predictions named no class.
    """
    unscored, place, one, end = 0, uint64(at), uint64(1), uint64(ring.shape[0])
    majority, last = memory[0], memory[1]
    p_true = empty(y.shape[0])
    for i in range(y.shape[0]):
        p_true[i] = proba[i, label[y[i]]]
    costs = losses(p_true)
    n, loss, a, b, c = sums[0], sums[1], sums[2], sums[3], sums[4]
    n_, loss_, a_, b_, c_ = fading[0], fading[1], fading[2], fading[3], fading[4]
    for i in range(y.shape[0]):
        t = label[y[i]]
        if known[i] == 0:
            unscored += 1
        else:
            best, top = 0, proba[i, 0]
            for k in range(1, proba.shape[1]):
                p = proba[i, k]
                best, top = (k if p > top else best), (p if p > top else top)
            cost = costs[i]
            confusion[t, best] += 1
            ring_loss[place] = cost
            ring[place, 0], ring[place, 1] = t, best
            ring[place, 2], ring[place, 3] = majority, last
            place = place + one if place + one < end else uint64(0)
            hit = 1.0 if best == t else 0.0
            hit_b = 1.0 if majority == t else 0.0
            hit_c = 1.0 if last == t else 0.0
            n, n_ = n + 1.0, factor * n_ + 1.0
            loss, loss_ = loss + cost, factor * loss_ + cost
            a, a_ = a + hit, factor * a_ + hit
            b, b_ = b + hit_b, factor * b_ + hit_b
            c, c_ = c + hit_c, factor * c_ + hit_c
        counts[t] += 1
        last = t
        if majority < 0 or counts[t] > counts[majority]:
            majority = t
    memory[0], memory[1] = majority, last
    sums[0], sums[1], sums[2], sums[3], sums[4] = n, loss, a, b, c
    fading[0], fading[1], fading[2], fading[3], fading[4] = n_, loss_, a_, b_, c_
    return place, unscored
