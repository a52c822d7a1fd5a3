"""The slow obvious twin of the paired comparison: exact fractions, a loop a record."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, exp, log

__all__ = ["brier", "e_value", "interval", "mixture"]


def e_value(wins: int, losses: int) -> Fraction:
    """2ⁿ⁺¹ ∫ pʷ (1-p)ˡ dp over [1/2, 1], by the binomial theorem, exactly."""
    total = Fraction(0)
    for i in range(losses + 1):
        power = wins + i + 1
        term = (1 - Fraction(1, 2**power)) / power
        total += (-1) ** i * comb(losses, i) * term
    return 2 ** (wins + losses + 1) * total


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


def interval(differences: Sequence[float], level: float) -> tuple[float, float]:
    """Every mean that neither side's mixture has refuted at level / 2, by trying them."""
    n = len(differences)
    mean = sum(differences) / n
    low, high = mean, mean + 4.0
    for _ in range(100):
        middle = (low + high) / 2
        if mixture([-d for d in differences], [-middle] * n) < 2 / level:
            low = middle
        else:
            high = middle
    return max(2 * mean - low, -2.0), min(low, 2.0)
