"""Kernels of the paired comparison.

The winner is decided by sums and products, without logarithms, so that a threshold is crossed at
the same record on every processor.
"""

from __future__ import annotations

from math import exp, log, log1p
from typing import Any

from stream.kernel import kernel

STEP = 2.0**64  # the evidence is kept as a number near 1 and a power of this
LARGEST = 1.7976931348623157e308
RANGE = 4.0  # a difference of two Brier scores is in [-2, 2]
RATES = 20  # 1/8, 1/16, …: the best one for any spread of the differences is near one of them


@kernel
def brier(proba: Any, row: Any, true: Any, out: Any) -> None:
    """Brier score of predictions: sum over the classes of (p - [class is true])², in [0, 2].

    proba float64 (n, C); row int64 (k,): index into proba; -1 for a missing prediction, which costs
    1. true int64 (k,): class codes; a class without a column has probability 0. out float64 (k,).
    """
    for i in range(row.shape[0]):
        if row[i] < 0:
            out[i] = 1.0
            continue
        total = 0.0
        for c in range(proba.shape[1]):
            p = proba[row[i], c]
            miss = p - 1.0 if c == true[i] else p
            total += miss * miss
        if true[i] >= proba.shape[1]:
            total += 1.0
        out[i] = min(total, 2.0)


@kernel
def short(behind: int, ahead: int) -> Any:
    """The e-value if at most as many records favour the challenger (`behind`) as the champion
    (`ahead`).

    2ⁿ⁺¹ ∫ p^behind (1-p)^ahead dp over [1/2, 1], as the hypergeometric series of the incomplete
    beta function: every term is positive. O(√n) terms if both numbers are similar.
    """
    total, term = 1.0, 1.0
    above, below = float(behind + ahead + 2), 2.0 * (ahead + 2.0)
    while term > total * 2.0**-54:
        term *= above / below
        total += term
        above += 1.0
        below += 2.0
    return total / (2.0 * (ahead + 1.0))


@kernel
def evidence(wins: int, losses: int, mantissa: float, power: int) -> Any:
    """The e-value; mantissa · STEP**power is 2ⁿ wins! losses! / (n+1)!, its two-sided form."""
    if wins <= losses:
        return short(wins, losses)
    both = mantissa
    for _ in range(power):
        if both > LARGEST / (2.0 * STEP):
            return LARGEST
        both *= STEP
    return 2.0 * both - short(losses, wins)


@kernel
def advance(
    champion: Any,
    challenger: Any,
    lost: Any,
    spared: Any,
    start: int,
    stop: int,
    threshold: float,
    counts: Any,
    sums: Any,
) -> int:
    """Add scored records in order, up to the first after which the evidence suffices. Returns its
    index, or -1.

    champion, challenger int8 (k,): 1 right, 0 wrong, -1 the record is not compared; lost, spared
    float64 (k,): Brier score of champion and challenger; start, stop: the range of records.
    threshold: the e-value that suffices, or inf. counts int64 (4,), updated: compared, won, lost,
    power of the evidence. sums float64 (3,), updated: mantissa of the evidence, sum of the
    differences, sum of squares of each difference minus its forecast.
    """
    for i in range(start, stop):
        if champion[i] < 0 or challenger[i] < 0:
            continue
        d = lost[i] - spared[i]
        off = d - (sums[1] / counts[0] if counts[0] > 0 else 0.0)
        counts[0] += 1
        sums[1] += d
        sums[2] += off * off
        if champion[i] != challenger[i]:
            same = counts[1] if challenger[i] == 1 else counts[2]
            sums[0] *= 2.0 * (same + 1.0) / (counts[1] + counts[2] + 2.0)
            if challenger[i] == 1:
                counts[1] += 1
            else:
                counts[2] += 1
            if sums[0] > STEP:
                sums[0] /= STEP
                counts[3] += 1
            elif sums[0] < 1.0 / STEP and counts[3] > 0:
                sums[0] *= STEP
                counts[3] -= 1
        # Most records need no series, because the two-sided form bounds the evidence.
        if counts[1] <= counts[2] or (counts[3] == 0 and 2.0 * sums[0] < threshold):
            continue
        if evidence(counts[1], counts[2], sums[0], counts[3]) >= threshold:
            return i
    return -1


@kernel
def excess(s: float, v: float) -> float:
    """Log of the mixture of exp(λ s - ψ(λ) v) over λ = 2^-j / RANGE with weight 1 / (j (j + 1)).

    ψ(λ) = (-log(1 - RANGE λ) - RANGE λ) / RANGE²: each is a supermartingale in s, the sum of
    differences of two Brier scores minus their expectations. v is `sums[2]` of `advance`.
    """
    top = -LARGEST
    for j in range(1, RATES + 1):
        share = 0.5**j
        psi = (-log1p(-share) - share) / (RANGE * RANGE)
        top = max(top, share / RANGE * s - psi * v)
    total = 0.0
    for j in range(1, RATES + 1):
        share = 0.5**j
        psi = (-log1p(-share) - share) / (RANGE * RANGE)
        total += exp(share / RANGE * s - psi * v - top) / (j * (j + 1.0))
    return top + log(total)


@kernel
def radius(v: float, level: float) -> float:
    """The s at which `excess` reaches log(2 / level). The sum exceeds it with probability level /
    2.

    By bisection, exact to a few bits.
    """
    wanted = log(2.0 / level)
    high = 1.0
    while excess(high, v) < wanted:
        high *= 2.0
    low = 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if excess(middle, v) < wanted:
            low = middle
        else:
            high = middle
    return high


@kernel
def fade(right: Any, cost: Any, start: int, stop: int, factor: float, sums: Any) -> None:
    """Add costs in order. The weight of each is `factor` times that of the next one.

    right int8 (k,): -1 if the record does not count. cost float64 (k,). start, stop: the range of
    records. sums float64 (2,), updated: weight and weighted cost.
    """
    for i in range(start, stop):
        if right[i] >= 0:
            sums[0] = factor * sums[0] + 1.0
            sums[1] = factor * sums[1] + cost[i]
