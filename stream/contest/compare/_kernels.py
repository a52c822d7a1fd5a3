"""Kernels of the paired comparison.

The winner is decided by sums, products and square roots, without logarithms, so that a threshold is
crossed at the same record on every processor.

A *scale* s has the blocks of 2^s compared records each.
"""

from __future__ import annotations

from math import exp, log, log1p, sqrt
from typing import Any

from stream.kernel import kernel

SCALES = 32
BLOCKS = 32  # a scale with fewer complete blocks is not used
BETS = 16
BOLDEST = 2.0**-4  # its c, in spreads of a block
ROOT = 1.4142135623730951
RICHEST = 1e300  # the wealth that a bet keeps at most
LARGE = 3  # of the largest scales the mean dependence of neighbouring blocks must be small
DEPENDENT = 0.7  # in standard errors
FEW, SAME, RUNS = 1, 2, 3
LARGEST = 1.7976931348623157e308
RANGE = 4.0  # a difference of two Brier scores is in [-2, 2]
RATES = 20  # 1/8, 1/16, …: the best one for any spread of the differences is near one of them
FASTEST, BLOCK_RATES = 64.0, 32  # 64, 32, …: as `RATES`, for sums of blocks


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
def bet(wealth: Any, at: int, value: float) -> float:
    """Multiply the wealths of a scale by what its bets on a block won. Returns the new sum.

    wealth float64 (SCALES, BETS), updated; at: the scale; value: records that the challenger won
    minus those it lost. A bet wins the share v / (c + |v|), which is odd in v, so that its mean is
    0 if v is symmetric about 0. c is 2^(at/2), the spread of a block, times powers of 2.
    """
    spread = (1.0 if at % 2 == 0 else ROOT) * float(1 << at // 2)
    c = BOLDEST * spread
    total = 0.0
    for k in range(BETS):
        wealth[at, k] = min(wealth[at, k] * (1.0 + value / (c + abs(value))), RICHEST)
        total += wealth[at, k]
        c *= 2.0
    return total


@kernel
def add(block: Any, value: float) -> None:
    """Add the value of a complete block to the sums of its scale.

    block float64 (6,), updated: sum, sum of squares, sum of products of neighbours, first value,
    last value, number of blocks.
    """
    if block[5] > 0.0:
        block[2] += block[4] * value
    else:
        block[3] = value
    block[0] += value
    block[1] += value * value
    block[4] = value
    block[5] += 1.0


@kernel
def dependence(block: Any) -> float:
    """The correlation of neighbouring blocks over its standard error; 0 if all are equal."""
    n = block[5]
    mean = block[0] / n
    spread = block[1] - n * mean * mean
    both = block[2] - mean * (2.0 * block[0] - block[3] - block[4]) + (n - 1.0) * mean * mean
    return both / spread * sqrt(n) if spread > 1e-9 * block[1] else 0.0


@kernel
def largest(counts: Any) -> int:
    """The largest scale with `BLOCKS` complete blocks, at least 0."""
    at = 0
    while at + 1 < SCALES and counts[0] >> (at + 1) >= BLOCKS:
        at += 1
    return at


@kernel
def undecided(records: int, changes: int, counts: Any, blocks: Any) -> int:
    """Why nothing is claimed: `FEW`, `SAME`, `RUNS`, or 0.

    records, changes: how many records and changes of the label are needed. counts, blocks: as those
    of `advance`.
    """
    if counts[0] < max(records, 1):
        return FEW
    if counts[3] < changes:
        return SAME
    top = largest(counts)
    first = max(top - LARGE + 1, 0)
    for what in range(2):
        total = 0.0
        for at in range(first, top + 1):
            total += dependence(blocks[at, what])
        if total > DEPENDENT * (top + 1 - first):
            return RUNS
    return 0


@kernel
def evidence(counts: Any, e_values: Any) -> Any:
    """The smallest e-value of all scales with enough blocks. e_values: as those of `advance`."""
    least = e_values[0]
    for at in range(1, largest(counts) + 1):
        least = min(least, e_values[at])
    return least


@kernel
def advance(
    champion: Any,
    challenger: Any,
    true: Any,
    lost: Any,
    spared: Any,
    start: int,
    stop: int,
    threshold: float,
    records: int,
    changes: int,
    counts: Any,
    sums: Any,
    wealth: Any,
    e_values: Any,
    parts: Any,
    blocks: Any,
) -> int:
    """Add scored records in order, up to the first after which the evidence suffices. Returns its
    index, or -1.

    champion, challenger int8 (k,): 1 right, 0 wrong, -1 the record is not compared; true int64
    (k,): class codes; lost, spared float64 (k,): Brier score of champion and challenger; start,
    stop: the range of records. threshold: the e-value that suffices, or inf. records, changes: as
    those of `undecided`.

    All others are updated. counts int64 (5,): compared, won, lost, changes of the label, last
    label. sums float64 (2,): sum of the differences, sum of squares of each difference minus its
    forecast. wealth float64 (SCALES, BETS): of each bet. e_values float64 (SCALES,): their sums.
    parts float64 (SCALES, 2): of the half of a block that is complete, what was won minus what was
    lost, and the difference. blocks float64 (SCALES, 2, 6): see `add`; of the same two.
    """
    for i in range(start, stop):
        if champion[i] < 0 or challenger[i] < 0:
            continue
        d = lost[i] - spared[i]
        off = d - (sums[0] / counts[0] if counts[0] > 0 else 0.0)
        counts[3] += counts[4] >= 0 and counts[4] != true[i]
        counts[4] = true[i]
        counts[0] += 1
        sums[0] += d
        sums[1] += off * off
        won = float(challenger[i]) - float(champion[i])
        if won > 0.0:
            counts[1] += 1
        elif won < 0.0:
            counts[2] += 1
        at, left = 0, counts[0]
        while at < SCALES:
            if won != 0.0:
                e_values[at] = bet(wealth, at, won)
            add(blocks[at, 0], won)
            add(blocks[at, 1], d)
            if left % 2 == 1:  # the first half of a larger block
                parts[at, 0], parts[at, 1] = won, d
                break
            won += parts[at, 0]
            d += parts[at, 1]
            left //= 2
            at += 1
        # Most records are done here, because the evidence is at most that of single records.
        if e_values[0] < threshold or evidence(counts, e_values) < threshold:
            continue
        if undecided(records, changes, counts, blocks) == 0:
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
def symmetric_excess(s: float, v: float) -> float:
    """Log of the mean of exp(λ s - λ² v / 2) over λ = FASTEST, FASTEST / 2, …

    Each is a supermartingale in s, a sum of values that are symmetric about 0 given those before,
    if v is the sum of their squares.
    """
    top, rate = -LARGEST, FASTEST
    for _ in range(BLOCK_RATES):
        top = max(top, rate * s - 0.5 * rate * rate * v)
        rate *= 0.5
    total, rate = 0.0, FASTEST
    for _ in range(BLOCK_RATES):
        total += exp(rate * s - 0.5 * rate * rate * v - top)
        rate *= 0.5
    return top + log(total / BLOCK_RATES)


@kernel
def block_radius(block: Any, level: float) -> float:
    """The distance from the mean of blocks that `symmetric_excess` refutes at level / 2.

    The mean of their distribution is farther with probability level / 2 on each side. block: see
    `add`. By bisection.
    """
    n = block[5]
    mean = block[0] / n
    spread = max(block[1] - n * mean * mean, 0.0)
    wanted = log(2.0 / level)
    low, high, doubled = 0.0, 1e-6, 0
    while doubled < 60 and symmetric_excess(n * high, spread + n * high * high) < wanted:
        high *= 2.0
        doubled += 1
    for _ in range(40):
        middle = 0.5 * (low + high)
        if symmetric_excess(n * middle, spread + n * middle * middle) < wanted:
            low = middle
        else:
            high = middle
    return high


@kernel
def bounds(counts: Any, sums: Any, blocks: Any, level: float, out: Any) -> None:
    """Bounds of the mean difference: those of single records and of the largest scales, whichever
    is farther. At least `BLOCKS` blocks of each must be complete. out float64 (2,)."""
    mean = sums[0] / counts[0]
    off = radius(sums[1], level) / counts[0]
    out[0], out[1] = mean - off, mean + off
    top = largest(counts)
    for at in range(max(top - LARGE + 1, 0), top + 1):
        size = float(1 << at)
        mean = blocks[at, 1, 0] / blocks[at, 1, 5] / size
        off = block_radius(blocks[at, 1], level) / size
        out[0], out[1] = min(out[0], mean - off), max(out[1], mean + off)
    out[0], out[1] = max(out[0], -2.0), min(out[1], 2.0)


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
