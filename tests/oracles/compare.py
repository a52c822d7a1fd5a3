"""The slow obvious twin of the paired comparison: lists, and a loop over the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import exp, log, sqrt

__all__ = ["brier", "e_value", "interval", "mixture", "runs"]


def blocks(values: Sequence[float], scale: int) -> list[float]:
    """The sums of the complete blocks of 2^scale values."""
    size = 2**scale
    return [sum(values[i : i + size]) for i in range(0, len(values) - size + 1, size)]


def scales(records: int) -> list[int]:
    """Those with 32 complete blocks, and that of single records."""
    return [0, *(s for s in range(1, 64) if records // 2**s >= 32)]


def e_value(wins: Sequence[int]) -> float:
    """The least mean of the products of all scales. `wins`: 1, -1, or 0 if they do not differ."""
    found = []
    for scale in scales(len(wins)):
        products = []
        for k in range(16):
            c = 2.0 ** (k - 4 + scale / 2)
            product = 1.0
            for v in blocks(wins, scale):
                product *= 1 + v / (c + abs(v))
            products.append(product)
        found.append(sum(products) / 16)
    return min(found)


def correlation(values: Sequence[float]) -> float:
    """Of neighbours, over its standard error; 0 if all are equal."""
    mean = sum(values) / len(values)
    off = [v - mean for v in values]
    spread = sum(o * o for o in off)
    both = sum(a * b for a, b in pairwise(off))
    return both / spread * sqrt(len(values)) if spread > 1e-9 * sum(v * v for v in values) else 0.0


def runs(values: Sequence[float]) -> bool:
    """Whether neighbouring blocks of the three largest scales are correlated, on average."""
    last = scales(len(values))[-3:]
    return sum(correlation(blocks(values, scale)) for scale in last) > 0.7 * len(last)


def brier(posterior: Sequence[float], true: int) -> float:
    """Sum of the squared misses."""
    return sum((p - (c == true)) ** 2 for c, p in enumerate(posterior))


def mixture(differences: Sequence[float], means: Sequence[float]) -> float:
    """The mixture supermartingale of what the differences have above their means."""
    total = 0.0
    for j in range(1, 21):
        rate = 0.5**j / 4
        exponent, so_far = 0.0, 0.0
        for n, (d, mean) in enumerate(zip(differences, means, strict=True)):
            foreseen = so_far / n if n else 0.0
            psi = (-log(1 - 4 * rate) - 4 * rate) / 16
            exponent += rate * (d - mean) - psi * (d - foreseen) ** 2
            so_far += d
        total += exp(exponent) / (j * (j + 1))
    return total


def symmetric(sums: Sequence[float], mean: float) -> float:
    """The mixture supermartingale of values that are symmetric about their mean."""
    total = sum(v - mean for v in sums)
    squares = sum((v - mean) ** 2 for v in sums)
    rates = [2.0 ** (6 - k) for k in range(32)]
    return sum(exp(rate * total - rate**2 * squares / 2) for rate in rates) / 32


def interval(differences: Sequence[float], level: float) -> tuple[float, float]:
    """Every mean that neither side's mixture of any scale has refuted at level / 2, by trying."""
    n = len(differences)
    mean = sum(differences) / n
    high = _last(mean, lambda m: mixture([-d for d in differences], [-m] * n) < 2 / level)
    bounds = [2 * mean - high, high]
    for scale in scales(n)[-3:]:
        sums = blocks(differences, scale)
        middle = sum(sums) / len(sums)
        off = _last(middle, partial(_holds, sums, level)) - middle
        bounds += [(middle - off) / 2**scale, (middle + off) / 2**scale]
    return max(min(bounds), -2.0), min(max(bounds), 2.0)


def _holds(sums: Sequence[float], level: float, mean: float) -> bool:
    """Whether the mixture of these blocks has not refuted a mean above theirs."""
    return symmetric([-v for v in sums], -mean) < 2 / level


def _last(low: float, holds: Callable[[float], bool]) -> float:
    """The largest number for which it holds."""
    step = 1e-6
    while holds(low + step):
        step *= 2
    high = low + step
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
