"""Decisions by a budget, by the definition: one record at a time, over all labels so far."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from stream.decision.budget import CANDIDATES

__all__ = ["SlowBudget"]

SHARES = {0.0: 0.8, 0.2: 0.05, 0.5: 0.05, 0.8: 0.05, 0.95: 0.05}


class SlowBudget:
    """All labelled others with their probability and whether they were flagged."""

    def __init__(
        self,
        rate: float,
        min_learned: int = 0,
        unsure: float | None = None,
        min_probability: float = 0.0,
    ) -> None:
        self.rate, self.min_learned, self.unsure = rate, min_learned, unsure
        self.min_probability = min_probability
        self.others: list[tuple[float, bool]] = []
        self.labels = [0, 0]  # of others, and of the flagged label

    @property
    def ready(self) -> bool:
        """Whether there are enough labels of both."""
        return all(n >= self.min_learned for n in self.labels)

    def doubts(self, p: float) -> bool:
        """Whether a record is unsure."""
        if not self.ready:
            return True
        return self.unsure is not None and p >= self.unsure and not self.flags(p)

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
        reached = threshold is not None and p >= threshold and p >= self.min_probability
        return self.ready and reached and spare

    def add(self, evidence: Sequence[tuple[float, bool]]) -> None:
        """Labels of others came."""
        self.others += evidence
