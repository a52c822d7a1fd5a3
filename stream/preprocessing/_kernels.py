"""Kernels of bins chosen by class.

A histogram has disjoint closed intervals in rising order, and the weight of each class in each
interval. A value inside an interval is counted there; a value in a gap becomes a new interval. A
full histogram merges the neighbours that separate the classes least. Cut points are searched by
Fayyad and Irani's rule (1993) only at given numbers of records, so they depend on the records and
not on the split into blocks.
"""

from __future__ import annotations

from math import log, log2
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import first_not_below, whole_power


class Histogram(NamedTuple):
    """Intervals of one feature, and its cuts.

    low, high float64 (room,), counts float64 (room, C): the intervals. size int64 (1,): number of
    used intervals. cut float64 (bins - 1,): rising cut points. cuts int64 (1,): number of used cut
    points. learned int64 (1,): number of records with a value.
    """

    low: NDArray[float64]
    high: NDArray[float64]
    counts: NDArray[float64]
    size: NDArray[int64]
    cut: NDArray[float64]
    cuts: NDArray[int64]
    learned: NDArray[int64]


@kernel
def spread(n: Any) -> float:
    """The entropy of class weights n float64 (C,) times their sum, in nats; 0 for one class."""
    total, sum_of = 0.0, 0.0
    for c in range(n.shape[0]):
        if n[c] > 0.0:
            total += n[c]
            sum_of += n[c] * log(n[c])
    return float(max(total * log(total) - sum_of, 0.0)) if total > 0.0 else 0.0


@kernel
def loss(i: int, s: Any, both: Any) -> float:
    """The information lost by merging interval i with the next. both float64 (C,) is scratch."""
    for c in range(both.shape[0]):
        both[c] = s.counts[i, c] + s.counts[i + 1, c]
    return float(max(spread(both) - spread(s.counts[i]) - spread(s.counts[i + 1]), 0.0))


@kernel
def compress(s: Any, goal: int) -> None:
    """Merge neighbours until `goal` intervals are left, in order of loss, then of weight."""
    both = np.empty(s.counts.shape[1])
    n = s.size[0]
    cost, heavy = np.empty(n), np.empty(n)
    for i in range(n - 1):
        cost[i] = loss(i, s, both)
        heavy[i] = weight(both)
    while n > goal:
        at = 0
        for i in range(1, n - 1):
            if cost[i] < cost[at] or (cost[i] == cost[at] and heavy[i] < heavy[at]):
                at = i
        s.high[at] = s.high[at + 1]
        s.counts[at] += s.counts[at + 1]
        for i in range(at + 1, n - 1):
            s.low[i], s.high[i] = s.low[i + 1], s.high[i + 1]
            s.counts[i] = s.counts[i + 1]
            cost[i], heavy[i] = cost[i + 1], heavy[i + 1]
        n -= 1
        s.counts[n] = 0.0
        for i in range(max(at - 1, 0), min(at + 1, n - 1)):
            cost[i] = loss(i, s, both)
            heavy[i] = weight(both)
    s.size[0] = n


@kernel
def insert(x: float, c: int, w: float, s: Any) -> None:
    """Learn x of class c with weight w."""
    i = first_not_below(x, s.high, s.size[0])
    if i < s.size[0] and s.low[i] <= x:
        s.counts[i, c] += w
        return
    if s.size[0] == s.low.shape[0]:
        compress(s, s.low.shape[0] // 2)
        i = first_not_below(x, s.high, s.size[0])
        if i < s.size[0] and s.low[i] <= x:
            s.counts[i, c] += w
            return
    for k in range(s.size[0], i, -1):
        s.low[k], s.high[k] = s.low[k - 1], s.high[k - 1]
        s.counts[k] = s.counts[k - 1]
    s.low[i] = s.high[i] = x
    s.counts[i] = 0.0
    s.counts[i, c] = w
    s.size[0] += 1


@kernel
def weight(n: Any) -> float:
    """The sum of n float64 (C,)."""
    total = 0.0
    for c in range(n.shape[0]):
        total += n[c]
    return total


@kernel
def present(n: Any) -> int:
    """Number of classes with a weight in n float64 (C,)."""
    found = 0
    for c in range(n.shape[0]):
        found += int(n[c] > 0.0)
    return found


@kernel
def worth_it(whole: Any, left: Any, right: Any, gain: float) -> bool:
    """Whether a cut gains more than its description costs. Class weights float64 (C,), gain in
    nats.

    log2(N - 1) + log2(3^k - 2) - (k E - k1 E1 - k2 E2) bits, for k classes with entropy E.
    """
    total = weight(whole)
    if total <= 1.0 or gain <= 0.0:
        return False
    each = present(whole) * spread(whole) / total
    each -= present(left) * spread(left) / weight(left)
    each -= present(right) * spread(right) / weight(right)
    cost = log2(total - 1.0) + log2(whole_power(3.0, present(whole)) - 2.0) - each / log(2.0)
    return bool(gain / log(2.0) > cost)


@kernel
def best_cut(start: int, stop: int, above: Any, s: Any) -> Any:
    """The cut of intervals start … stop-1 that separates the classes best, if it is accepted.

    Returns the first interval above the cut (-1 if none is accepted) and its gain in nats.
    above float64 (room + 1, C) is scratch.
    """
    classes = s.counts.shape[1]
    above[stop] = 0.0
    for i in range(stop - 1, start - 1, -1):
        above[i] = above[i + 1] + s.counts[i]
    left = np.zeros(classes)
    at, least = -1, 0.0
    for i in range(start, stop - 1):
        left += s.counts[i]
        rest = spread(left) + spread(above[i + 1])
        if at < 0 or rest < least:
            at, least = i + 1, rest
    if at < 0:
        return -1, 0.0
    left[:] = 0.0
    for i in range(start, at):
        left += s.counts[i]
    gain = spread(above[start]) - least
    if worth_it(above[start], left, above[at], gain):
        return at, gain
    return -1, 0.0


@kernel
def between(i: int, s: Any) -> float:
    """The middle of the gap below interval i; the lower end if no double is between."""
    low, high = s.high[i - 1], s.low[i]
    middle = low + 0.5 * (high - low)
    return float(middle if low <= middle < high else low)


@kernel
def add_cut(x: float, s: Any) -> None:
    """Insert x into the cuts."""
    k = s.cuts[0]
    while k > 0 and s.cut[k - 1] > x:
        s.cut[k] = s.cut[k - 1]
        k -= 1
    s.cut[k] = x
    s.cuts[0] += 1


@kernel
def search(s: Any) -> None:
    """Add cuts between the present ones while there is room, in order of gain."""
    room = s.cut.shape[0] + 1
    first, last, at = np.zeros(room, int64), np.zeros(room, int64), np.full(room, -1)
    gain = np.zeros(room)
    above = np.zeros((s.low.shape[0] + 1, s.counts.shape[1]))
    spans, i = 0, 0
    for k in range(s.cuts[0] + 1):
        first[spans] = i
        while i < s.size[0] and (k == s.cuts[0] or s.low[i] <= s.cut[k]):
            i += 1
        last[spans] = i
        at[spans], gain[spans] = best_cut(first[spans], i, above, s)
        spans += 1
    while s.cuts[0] < s.cut.shape[0]:
        best = -1
        for k in range(spans):
            if at[k] >= 0 and (best < 0 or gain[k] > gain[best]):
                best = k
        if best < 0:
            return
        middle = at[best]
        add_cut(between(middle, s), s)
        first[spans], last[spans], last[best] = middle, last[best], middle
        for k in (best, spans):
            at[k], gain[k] = best_cut(first[k], last[k], above, s)
        spans += 1


@kernel
def follow(x: Any, op: Any, y: Any, w: Any, least: int, s: Any, low: Any, high: Any) -> None:
    """The bin (low, high] of each step's value. Learning steps are learned first.

    x, w float64 (m,), NaN where missing; op int8 (m,), PREDICT or LEARN; y int64 (m,): classes of
    learning steps. low, high float64 (m,): NaN if the value is missing or there is no cut. Cuts are
    searched when record number least · 2^k is learned.
    """
    for i in range(x.shape[0]):
        low[i] = high[i] = np.nan
        if x[i] != x[i]:
            continue
        if op[i] != 0:
            insert(x[i], y[i], w[i], s)
            s.learned[0] += 1
            n = s.learned[0]
            while n > least and n % 2 == 0:
                n //= 2
            if n == least:
                search(s)
        if s.cuts[0] == 0:
            continue
        k = 0
        while k < s.cuts[0] and s.cut[k] < x[i]:
            k += 1
        low[i] = s.cut[k - 1] if k > 0 else -np.inf
        high[i] = s.cut[k] if k < s.cuts[0] else np.inf
