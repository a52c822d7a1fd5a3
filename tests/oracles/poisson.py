"""The obvious twin of PoissonNB: records kept, rates counted again for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum, inf, isnan, lgamma, log
from typing import Any

from stream.data.schema import Label
from tests.oracles.multinomial import softmax


def counts(x: dict[str, Any]) -> dict[str, float]:
    """Fields that the record has."""
    given = {k: float(v) for k, v in x.items() if v is not None}
    return {k: v for k, v in given.items() if not isnan(v)}


def log_poisson(x: float, rate: float) -> float:
    """By the definition: x log rate - rate - log x!."""
    if rate == 0.0:
        return 0.0 if x == 0.0 else -inf
    return x * log(rate) - rate - lgamma(x + 1.0)


@dataclass
class SlowPoissonNB:
    """Every learned record with its weight; (a + Σ w·x) / (b + Σ w) summed when asked."""

    a: float = 0.5
    b: float = 0.0
    half_life: float | None = None
    learned: list[tuple[dict[str, Any], Label, float]] = field(default_factory=list)

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        kept = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        self.learned = [(x, y, w * kept) for x, y, w in self.learned] + [(x, y, w)]

    def rate(self, name: str, y: Label | None) -> float | None:
        """The rate of the field in class y (None: in all); None where it never had the field."""
        seen = [
            (counts(x)[name], w)
            for x, label, w in self.learned
            if name in counts(x) and y in (None, label)
        ]
        if not seen:
            return None
        total, weight = fsum(w * x for x, w in seen), fsum(w for _, w in seen)
        return (self.a + total) / (self.b + weight)

    def joint_log_likelihood_one(self, x: dict[str, Any]) -> dict[Label, float]:
        joint: dict[Label, float] = {}
        for y in dict.fromkeys(label for _, label, _ in self.learned):
            weight = fsum(w for _, label, w in self.learned if label == y)
            terms = [log(weight / fsum(w for _, _, w in self.learned))]
            for name, value in counts(x).items():
                mine, everywhere = self.rate(name, y), self.rate(name, None)
                if everywhere is not None:
                    terms.append(log_poisson(value, everywhere if mine is None else mine))
            joint[y] = -inf if -inf in terms else fsum(terms)
        return joint

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        joint = self.joint_log_likelihood_one(x)
        if joint and max(joint.values()) == -inf:
            joint = {y: log(fsum(w for _, of, w in self.learned if of == y)) for y in joint}
        return softmax(joint)
