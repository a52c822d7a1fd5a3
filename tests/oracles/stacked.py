"""The obvious twin of Mixture(stack=True): lists and formulas, predictions kept by id."""

from __future__ import annotations

from math import exp, log
from typing import Any

from stream import Learner
from stream.data.schema import Label
from tests.oracles.calibrated import Given, SlowCalibrated, step
from tests.oracles.mixture import Shares, SlowMixture, SlowNoChange

RATE, LITTLE = 0.02, 1e-6
OWN_RATES = (0.0, 0.01)


class SlowStacked:
    """A mixture; a softmax of slope · log p over its experts and itself; that by bins; and a
    mixture of the three. `rests`: the numbers of `SlowMixture` for rests."""

    def __init__(self, experts: list[Learner | SlowNoChange], *rests: Any) -> None:
        n = len(experts)
        self.mixture = SlowMixture(experts, *rests)
        self.each = [Given(), Given(), Given()]
        self.three = SlowMixture(self.each, floor=LITTLE, rates=OWN_RATES)
        self.bins = SlowCalibrated(Given())  # of which only the bins are used
        self.slope = [*[0.5 / n] * n, 0.5]
        self.slope_squares = [0.0] * (n + 1)
        self.bias: Shares = {}
        self.bias_squares: Shares = {}
        self.then: dict[Any, tuple[list[Shares], list[bool], Shares]] = {}

    def stacked(self, given: list[Shares], classes: list[Label]) -> Shares:
        """The softmax."""
        scores = {
            y: sum(s * log(p[y]) for s, p in zip(self.slope, given, strict=True)) + self.bias[y]
            for y in classes
        }
        total = sum(exp(score) for score in scores.values())
        return {y: exp(score) / total for y, score in scores.items()}

    def predict(self, x: dict[str, Any], key: Any) -> Shares:
        """The distribution; what it is made of is kept under `key`."""
        mixed = self.mixture.predict(x, key)
        found = self.mixture.then[key][0]
        given = [*(mixed if p is None else p for p in found), mixed]
        stacked = self.stacked(given, list(mixed))
        self.then[key] = given, [p is None for p in found], stacked
        for expert, p in zip(self.each, (mixed, stacked, self.bins.by_bin(stacked)), strict=True):
            expert.p = p
        return self.three.predict(x, key)

    def learn(self, x: dict[str, Any], y: Label, w: float, key: Any) -> None:
        """A gradient step from what was predicted under `key`; then all others learn."""
        given, rested, stacked = self.then.pop(key)
        if y in stacked:
            now = self.stacked(given, list(stacked))
            v = min(w, 100.0)
            error = {c: now[c] - (c == y) for c in stacked}
            for k, p in enumerate(given):
                g = sum(error[c] * log(p[c]) for c in stacked)
                if k < len(rested) and rested[k]:
                    continue
                self.slope_squares[k] += v * g * g
                moved = self.slope[k] - step(v * g, self.slope_squares[k], RATE)
                self.slope[k] = max(0.0, moved)
            for c, g in error.items():
                self.bias_squares[c] += v * g * g
                self.bias[c] -= step(v * g, self.bias_squares[c], RATE)
            best = max(stacked, key=stacked.__getitem__)
            self.bins.in_bin[self.bins.end_of(stacked[best])].append((best == y, v))
        self.three.learn(x, y, w, key)
        self.mixture.learn(x, y, w, key)
        self.bias.setdefault(y, 0.0)
        self.bias_squares.setdefault(y, 0.0)

    @property
    def weights(self) -> list[float]:
        """The share of each expert in the next prediction."""
        mixture, *rest = self.three.weights
        stack = sum(rest) / sum(self.slope)
        return [
            (mixture + stack * self.slope[-1]) * b + stack * s
            for b, s in zip(self.mixture.weights, self.slope[:-1], strict=True)
        ]
