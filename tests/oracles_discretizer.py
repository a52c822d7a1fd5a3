"""Obvious twins of bins: every value kept, every interval tried."""

from __future__ import annotations

import math


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
    for k in range(len(ends) - 1):
        low, high = ends[k], ends[k + 1]
        first, below, last = k == 1 and len(edges) > 1, k == 0 and len(edges) > 1, high == math.inf
        if (low <= x if first else low < x) and (x < high if below or last else x <= high):
            return f"{'[' if first else '('}{low}, {high}{')' if below or last else ']'}"
    raise AssertionError(x)


def rank_error(values: list[float], cuts: list[float]) -> float:
    """The largest share by which a cut misses its part of the values."""
    n, bins, worst = len(values), len(cuts) + 1, 0.0
    for k, cut in enumerate(cuts, 1):
        below, upto = sum(v < cut for v in values), sum(v <= cut for v in values)
        want = n * k / bins
        worst = max(worst, (below - want) / n, (want - upto) / n)
    return worst
