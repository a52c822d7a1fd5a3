"""The obvious twin of Mixture: weights as plain numbers, predictions kept by id."""

from __future__ import annotations

from math import fsum
from typing import Any

from stream import Learner
from stream.data.schema import Label

RATES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
FLOOR = 0.001

Shares = dict[Label, float]


def floored(p: Shares, classes: list[Label]) -> Shares:
    """The distribution of an expert, with a thousandth of the uniform one."""
    return {y: (1 - FLOOR) * p.get(y, 0.0) + FLOOR / len(classes) for y in classes}


class SlowNoChange:
    """The last label that was known at the prediction, with the share of labels that equaled it."""

    def __init__(self) -> None:
        self.counts: dict[Label, float] = {}
        self.stays, self.moves = 0.5, 0.5
        self.last: Label | None = None

    def predict_proba_one(self, x: dict[str, Any]) -> Shares:
        """As the shares of the classes, but for the last label."""
        if not self.counts:
            return {}
        total = fsum(self.counts.values())
        shares = {y: n / total for y, n in self.counts.items()}
        if len(shares) < 2 or self.last is None:
            return shares
        stay = self.stays / (self.stays + self.moves)
        others = fsum(p for y, p in shares.items() if y != self.last)
        rest = {y: (1 - stay) * p / others for y, p in shares.items()}
        return {**rest, self.last: stay}

    def learn(self, y: Label, w: float, before: Label | None) -> None:
        """Count a label; `before` was the last one at its prediction."""
        self.counts[y] = self.counts.get(y, 0.5) + w
        if before is not None and y == before:
            self.stays += w
        elif before is not None:
            self.moves += w
        self.last = y


class SlowMixture:
    """Experts that are called one by one; Bayes' rule as in a textbook.

    Weights of 0 stay 0, so streams must be short.
    """

    def __init__(self, experts: list[Learner | SlowNoChange]) -> None:
        n = len(experts)
        self.experts = experts
        self.classes: list[Label] = []
        self.under = [[1.0 / n] * n for _ in RATES]
        self.bank = [1.0 / len(RATES)] * len(RATES)
        self.then: dict[Any, tuple[list[Shares], list[Shares], list[Label], list[Any]]] = {}

    @property
    def weights(self) -> list[float]:
        n = len(self.experts)
        return [
            fsum(v * own[i] for v, own in zip(self.bank, self.under, strict=True)) for i in range(n)
        ]

    def predict(self, x: dict[str, Any], key: Any) -> Shares:
        """The weighted distribution; those of the experts are kept under `key`."""
        classes = list(self.classes)
        given = [floored(e.predict_proba_one(x), classes) if classes else {} for e in self.experts]
        by_rate = [
            {y: fsum(v * p[y] for v, p in zip(own, given, strict=True)) for y in classes}
            for own in self.under
        ]
        lasts = [getattr(expert, "last", None) for expert in self.experts]
        self.then[key] = given, by_rate, classes, lasts
        return {
            y: fsum(w * p[y] for w, p in zip(self.weights, given, strict=True)) for y in classes
        }

    def learn(self, x: dict[str, Any], y: Label, w: float, key: Any) -> None:
        """Weigh what was predicted under `key`; then every expert learns."""
        given, by_rate, classes, lasts = self.then.pop(key)
        if y in classes:
            likelihood = [p[y] ** w for p in given]
            for k, rate in enumerate(RATES):
                self.bank[k] *= by_rate[k][y] ** w
                joint = [a * b for a, b in zip(self.under[k], likelihood, strict=True)]
                total = fsum(joint)
                n = len(joint)
                self.under[k] = [(1 - rate) * v / total + rate / n for v in joint]
            whole = fsum(self.bank)
            self.bank = [v / whole for v in self.bank]
        if y not in self.classes:
            self.classes.append(y)
        for expert, last in zip(self.experts, lasts, strict=True):
            if isinstance(expert, SlowNoChange):
                expert.learn(y, w, last)
            else:
                expert.learn_one(x, y, w)
