"""Obvious twins of bins: every value kept, every interval tried."""

from __future__ import annotations

import math
from itertools import pairwise


def weighted_cuts(learned: list[tuple[float, float]], bins: int) -> list[float]:
    """The lowest value up to which k/bins of the weight was learned, for k = 1 … bins - 1."""
    total = math.fsum(w for _, w in learned)
    cuts = []
    for k in range(1, bins):
        at = [
            v for v, _ in learned if math.fsum(w for u, w in learned if u <= v) >= total * k / bins
        ]
        cuts.append(min(at))
    return cuts


def place(x: float, cuts: list[float]) -> str:
    """The name of a learned bin: how many cuts lie below."""
    return str(sum(cut < x for cut in cuts))


def interval(x: float, edges: list[float]) -> str:
    """The name of the only interval that holds x."""
    ends = [-math.inf, *edges, math.inf]
    for low, high in pairwise(ends):
        if low < x <= high:
            return f"({low}, {high}{')' if high == math.inf else ']'}"
    raise AssertionError(x)


def rank_error(values: list[float], cuts: list[float]) -> float:
    """The largest share by which a cut misses its part of the values."""
    n, bins, worst = len(values), len(cuts) + 1, 0.0
    for k, cut in enumerate(cuts, 1):
        below, upto = sum(v < cut for v in values), sum(v <= cut for v in values)
        want = n * k / bins
        worst = max(worst, (below - want) / n, (want - upto) / n)
    return worst


def entropy(labels: list[str]) -> float:
    """In bits."""
    n = len(labels)
    shares = [labels.count(y) / n for y in set(labels)]
    return -math.fsum(p * math.log2(p) for p in shares)


def mdl_cuts(learned: list[tuple[float, str]]) -> list[float]:
    """Fayyad and Irani's recursion, read out of their paper: every cut tried, all records kept."""
    ordered = sorted(learned)
    labels = [y for _, y in ordered]
    n, whole = len(ordered), entropy(labels) if labels else 0.0
    tried = []
    for i in range(1, n):
        (below, _), (above, _) = ordered[i - 1], ordered[i]
        if below < above:
            left, right = entropy(labels[:i]), entropy(labels[i:])
            tried.append(((i * left + (n - i) * right) / n, i, (below + above) / 2, left, right))
    if not tried:
        return []
    least = min(tried)[0]
    after, i, cut, left, right = next(t for t in tried if t[0] <= least + 1e-12)
    k, k1, k2 = len(set(labels)), len(set(labels[:i])), len(set(labels[i:]))
    delta = math.log2(3**k - 2) - (k * whole - k1 * left - k2 * right)
    if whole - after <= (math.log2(n - 1) + delta) / n:
        return []
    return [*mdl_cuts(ordered[:i]), cut, *mdl_cuts(ordered[i:])]


class MDLTwin:
    """All records of a feature; at record 32, 64, 128, … it is cut further between its cuts."""

    def __init__(self, first: int) -> None:
        self.due = first
        self.learned: list[tuple[float, str]] = []
        self.cuts: list[float] = []

    def learn(self, x: float, y: str) -> None:
        self.learned.append((x, y))
        if len(self.learned) == self.due:
            self.due *= 2
            ends = [-math.inf, *self.cuts, math.inf]
            for a, b in pairwise(ends):
                self.cuts += mdl_cuts([(v, c) for v, c in self.learned if a < v <= b])
            self.cuts.sort()
