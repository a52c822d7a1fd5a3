"""Scores of keys from their definition: all scored records are kept, and counted when asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import exp, log, log1p
from typing import NamedTuple

DOUBT, FADES, FEWEST, QUIET, SHOWN, VOTES = 0.01, 0.998, 20, 1000, 10, 100
SMALLEST = 2.0**-52


class Scored(NamedTuple):
    """A labelled prediction: its number among all, the labels, and the probability of the true."""

    number: int
    true: Hashable
    predicted: Hashable
    p_true: float


def least(part: float, whole: float, evidence: float) -> float:
    """The share q below part / whole with whole · KL(part / whole, q) = evidence.

    By regula falsi on the logarithm of q, which shares nothing with halving an interval of q.
    """
    p = part / whole
    if p <= 0.0:
        return 0.0

    def gap(t: float) -> float:
        q = exp(t)
        found = part * (log(p) - t)
        if p < 1.0:
            found += (whole - part) * (log1p(-p) - log1p(-q))
        return found - evidence

    most = 0.0 if p >= 1.0 else (whole - part) * -log1p(-p)  # what the other term can take away
    low, high = log(p) - (evidence + 1.0 + most) / part, log(p)
    below, above = gap(low), gap(high)
    assert below > 0 > above
    for i in range(500):
        # Every third step halves, so that a flat side cannot stop it.
        t = (low + high) / 2 if i % 3 == 2 else low + below * (high - low) / (below - above)
        if (at := gap(t)) > 0:
            low, below = t, at
        else:
            high, above = t, at
    return exp(high)


@dataclass
class KeyTwin:
    """All keys with their records."""

    most: int | None = None
    quiet: int = QUIET
    scored: int = 0
    forgotten: int = 0
    records: dict[str, list[Scored]] = field(default_factory=lambda: defaultdict(list))

    def add(self, key: str | None, true: Hashable, predicted: Hashable, p_true: float) -> None:
        """One scored prediction."""
        if key is None:
            return
        if self.most is not None and key not in self.records and len(self.records) >= self.most:
            self._forget()
        self.scored += 1
        self.records[key].append(Scored(self.scored, true, predicted, max(p_true, SMALLEST)))

    def _forget(self) -> None:
        """The better half stays: those heard of lately, then those with most weight, then those
        scored last."""
        worth = [
            (self._heard(key), round(self.weights(key)[0], 9), self.records[key][-1].number, key)
            for key in self.records
        ]
        gone = sorted(worth)[: len(worth) // 2]
        for *_, key in gone:
            del self.records[key]
        self.forgotten += len(gone)

    def _heard(self, key: str) -> bool:
        return self.scored - self.records[key][-1].number <= self.quiet * len(self.records)

    def weights(self, key: str) -> tuple[float, float, float, float, float]:
        """Weight, errors, log losses, and what only the model and only the guess got right."""
        n = wrong = loss = won = lost = 0.0
        every = self.records[key]
        for i, one in enumerate(every):
            w, guess = FADES ** (len(every) - 1 - i), usual(s.true for s in every[:i])
            failed, missed = one.predicted != one.true, guess != one.true
            n, wrong, loss = n + w, wrong + w * failed, loss - w * log(one.p_true)
            if i:
                won, lost = won + w * (missed and not failed), lost + w * (failed and not missed)
        return n, wrong, loss, won, lost

    def heard(self) -> list[str]:
        """Keys that are not quiet."""
        return [key for key in self.records if self._heard(key)]

    def compared(self) -> list[str]:
        """Of them, those with enough records."""
        return [key for key in self.heard() if len(self.records[key]) >= FEWEST]

    def evidence(self) -> float:
        """By which a claim holds for all of them."""
        return log(max(len(self.compared()), 1) / DOUBT)

    def worse(self, key: str) -> bool:
        """Whether the guess is better, beyond chance."""
        *_, won, lost = self.weights(key)
        return lost > 0 and least(lost, won + lost, self.evidence()) > 0.5

    def worst(self) -> list[tuple[str, int, float, float, float]]:
        """Key, records, accuracy, log loss and the lower bound of the error rate of the worst."""
        found = []
        for key in self.compared():
            n, wrong, loss, *_ = self.weights(key)
            bound = least(wrong, n, self.evidence())
            found.append((key, len(self.records[key]), 1 - wrong / n, loss / n, bound))
        ranked = sorted(found, key=lambda row: -row[-1])
        return [row for row in ranked if row[-1] > 0][:SHOWN]


def usual(labels: Iterable[Hashable]) -> Hashable | None:
    """The label with most votes, by Boyer and Moore; None before the first."""
    found, votes = None, 0
    for label in labels:
        if votes == 0:
            found, votes = label, 1
        elif label == found:
            votes = min(votes + 1, VOTES)
        else:
            votes -= 1
    return found
