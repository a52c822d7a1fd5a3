"""Decisions by a budget, by the definition: one record at a time, over all labels so far."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from stream.decision.budget import CANDIDATES

__all__ = ["SlowBudget"]


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

    @property
    def threshold(self) -> float | None:
        """The lowest candidate that few enough of the newest others reach; None: none."""
        if (1 - self.rate) ** len(self.others) > 0.05:
            return None
        newest = [p for p, _ in self.others[-min(ceil(10 / self.rate), 2**14) :]]
        most = max(int(0.8 * self.rate * (len(newest) + 1)) - 1, 0)
        return next((t for t in CANDIDATES.tolist() if sum(p >= t for p in newest) <= most), None)

    def flags(self, p: float) -> bool:
        """Whether a record is flagged."""
        threshold, false = self.threshold, sum(flagged for _, flagged in self.others)
        spare = false + 1 <= self.rate * (len(self.others) + 1)
        reached = threshold is not None and p >= threshold and p >= self.min_probability
        return self.ready and reached and spare

    def add(self, evidence: Sequence[tuple[float, bool]]) -> None:
        """Labels of others came."""
        self.others += evidence
