"""Decisions by a budget, by the definition: one record at a time, over all labels so far."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from stream.decision.budget import CANDIDATES

__all__ = ["SlowBudget"]

SHARES = {0.0: 0.8, 0.2: 0.05, 0.5: 0.05, 0.8: 0.05, 0.95: 0.05}


class SlowBudget:
    """All labelled others with their probability and whether they were flagged."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.others: list[tuple[float, bool]] = []

    def passes(self, false: int, n: int) -> bool:
        """Whether one of the tests says that a threshold with so many of n is below the budget."""
        for times, share in SHARES.items():
            q = times * self.rate
            if false and not q:
                continue
            ratio = (n - false) * (log(1 - q) - log(1 - self.rate))
            ratio += false * (log(q) - log(self.rate)) if false else 0.0
            if ratio >= log(1 / (0.05 * share)):
                return True
        return False

    @property
    def threshold(self) -> float | None:
        """The least strict candidate that passes; None: none."""
        n, ps = len(self.others), [p for p, _ in self.others]
        for t in CANDIDATES.tolist():
            if self.passes(sum(p >= t for p in ps), n):
                return float(t)
        return None

    def flags(self, p: float) -> bool:
        """Whether a record is flagged."""
        threshold, false = self.threshold, sum(flagged for _, flagged in self.others)
        spare = false + 1 <= self.rate * (len(self.others) + 1)
        return threshold is not None and p >= threshold and spare

    def add(self, evidence: Sequence[tuple[float, bool]]) -> None:
        """Labels of others came."""
        self.others += evidence
