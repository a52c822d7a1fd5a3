"""The obvious twin of Calibrated: lists and formulas, predictions kept by id."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

from stream import Learner
from stream.data.schema import Label
from tests.oracles.mixture import SlowMixture

Shares = dict[Label, float]
MIXED_IN = (0.3, 0.01, 1e-6)
DAMPING = 0.01
FLOOR = 1e-6


class Given:
    """An expert that predicts what it is given."""

    def __init__(self) -> None:
        self.p: Shares = {}

    def predict_proba_one(self, x: dict[str, Any]) -> Shares:
        return self.p

    def learn_one(self, x: dict[str, Any], y: Label, w: float) -> None:
        """Nothing."""


class SlowCalibrated:
    """A learner that is called record by record, and the softmax of its logarithms.

    With `hedge` both distributions are the experts of a mixture.
    """

    def __init__(self, learner: Learner, rate: float = 0.2, hedge: bool = False) -> None:
        self.learner, self.rate = learner, rate
        self.both = [Given(), Given()]
        self.mixture = SlowMixture(self.both, floor=FLOOR) if hedge else None
        self.classes: list[Label] = []
        self.slope = [0.0, 1.0, 0.0, 0.0]
        self.slope_squares = [0.0, 0.0, 0.0, 0.0]
        self.bias: Shares = {}
        self.bias_squares: Shares = {}
        self.then: dict[Any, tuple[Shares, Shares]] = {}
        self.said: tuple[list[tuple[float, bool, float]], ...] = ([], [])

    def corrected(self, p: Shares) -> Shares:
        """The softmax over the classes of `p`."""
        if not p:
            return {}
        scores = {y: self._score(p, y) for y in p}
        total = sum(exp(score) for score in scores.values())
        return {y: exp(score) / total for y, score in scores.items()}

    def _score(self, p: Shares, y: Label) -> float:
        pairs = zip(self.slope, self.logs(p, y), strict=True)
        return sum(s * z for s, z in pairs) + self.bias[y]

    def logs(self, p: Shares, y: Label) -> list[float]:
        """The logarithms, and whether it is the most probable class."""
        most = max(p, key=p.__getitem__)
        return [*(log((1 - e) * p[y] + e / len(p)) for e in MIXED_IN), float(y == most)]

    def predict(self, x: dict[str, Any], key: Any) -> Shares:
        """The distribution; both are kept under `key`."""
        found = self.learner.predict_proba_one(x)
        raw = {y: found.get(y, 0.0) for y in self.classes}
        said = corrected = self.corrected(raw)
        if self.mixture is not None:
            self.both[0].p, self.both[1].p = raw, corrected
            said = self.mixture.predict(x, key)
        self.then[key] = raw, said
        return said

    def learn(self, x: dict[str, Any], y: Label, w: float, key: Any) -> None:
        """A gradient step from what was predicted under `key`; then the learner learns."""
        raw, said = self.then.pop(key)
        if self.mixture is not None:
            self.mixture.learn(x, y, w, key)
        if y in raw:
            for p, record in zip((raw, said), self.said, strict=True):
                best = max(p, key=p.__getitem__)
                record.append((p[best], best == y, w))
            now = self.corrected(raw)
            error = {c: w * (now[c] - (c == y)) for c in raw}
            for k in range(4):
                g = sum(error[c] * self.logs(raw, c)[k] for c in raw)
                self.slope_squares[k] += g * g
                moved = self.slope[k] - self.rate * g / sqrt(DAMPING + self.slope_squares[k])
                self.slope[k] = max(0.0, moved)
            for c, g in error.items():
                self.bias_squares[c] += g * g
                self.bias[c] -= self.rate * g / sqrt(DAMPING + self.bias_squares[c])
        if y not in self.classes:
            self.classes.append(y)
            self.bias[y] = self.bias_squares[y] = 0.0
        self.learner.learn_one(x, y, w)

    def calibration_error(self, which: int) -> float:
        """Over 10 bins of the largest probability."""
        bins: dict[int, list[tuple[float, bool, float]]] = {}
        for p, right, w in self.said[which]:
            bins.setdefault(min(int(p * 10), 9), []).append((p, right, w))
        total = sum(w for record in bins.values() for _, _, w in record)
        return (
            sum(abs(sum(w * (p - right) for p, right, w in record)) for record in bins.values())
            / total
        )
