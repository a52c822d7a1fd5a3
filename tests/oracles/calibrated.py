"""The obvious twin of Calibrated: lists and formulas, predictions kept by id."""

from __future__ import annotations

from math import exp, log, sqrt
from sys import float_info
from typing import Any

from stream import Learner
from stream.data.schema import Label
from tests.oracles.mixture import SlowMixture

Shares = dict[Label, float]
MIXED_IN = (0.3, 0.01, 1e-6)
DAMPING = 0.01
FLOOR = 1e-6
# Where bins of the largest probability end, each in its bin.
ENDS = (
    *(0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96),
    *(0.975, 0.985, 0.99, 0.995, 0.999, 1.0),
)
PSEUDO = 30


def step(gradient: float, squares: float, rate: float) -> float:
    """Of AdaGrad, at most `rate` long."""
    return max(-rate, min(rate, rate * gradient / sqrt(DAMPING + squares)))


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

    With `hedge` there is a correction by bins too, and the distributions are experts of a mixture.
    """

    def __init__(self, learner: Learner, rate: float = 0.2, hedge: bool = False) -> None:
        self.learner, self.rate = learner, rate
        self.each = [Given(), Given(), Given()]
        self.mixture = SlowMixture(self.each, floor=FLOOR) if hedge else None
        self.in_bin: dict[float, list[tuple[bool, float]]] = {end: [] for end in ENDS}
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

    def by_bin(self, p: Shares) -> Shares:
        """The most probable class as often as it was right in this bin; the rest is shared out."""
        if len(p) < 2:
            return dict(p)
        most = max(p, key=p.__getitem__)
        seen = self.in_bin[self.end_of(p[most])]
        n = sum(w for _, w in seen)
        share = (sum(w for right, w in seen if right) + PSEUDO * p[most]) / (n + PSEUDO)
        others = sum(q for y, q in p.items() if y != most)
        alike = others < float_info.min
        rest = {y: 1 / (len(p) - 1) if alike else q / others for y, q in p.items()}
        return {y: share if y == most else (1 - share) * q for y, q in rest.items()}

    def end_of(self, top: float) -> float:
        """Of the bin of a largest probability."""
        return min((end for end in ENDS if top <= end), default=1.0)

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
            for expert, p in zip(self.each, (raw, corrected, self.by_bin(raw)), strict=True):
                expert.p = p
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
            best, v = max(raw, key=raw.__getitem__), min(w, 100.0)
            self.in_bin[self.end_of(raw[best])].append((best == y, v))
            now = self.corrected(raw)
            error = {c: now[c] - (c == y) for c in raw}
            for k in range(4):
                g = sum(error[c] * self.logs(raw, c)[k] for c in raw)
                self.slope_squares[k] += v * g * g
                moved = self.slope[k] - step(v * g, self.slope_squares[k], self.rate)
                self.slope[k] = max(0.0, moved)
            for c, g in error.items():
                self.bias_squares[c] += v * g * g
                self.bias[c] -= step(v * g, self.bias_squares[c], self.rate)
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
