"""The obvious twins of learners of token counts: dicts, nothing hashed, nothing compiled."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import exp, fsum, inf, log
from typing import Any

from stream.data.schema import Label
from stream.text import tokens


def bag(x: dict[str, Any]) -> dict[str, float]:
    """Tokens of texts, and names of positive numbers, with how often each came."""
    bag: Counter[str] = Counter()
    for name, value in x.items():
        if isinstance(value, str):
            bag.update(tokens(value))
        elif value is not None and value > 0:
            bag[name] += value
    return dict(bag)


def softmax(joint: dict[Label, float]) -> dict[Label, float]:
    """The posterior of a joint log likelihood."""
    top = max(joint.values())
    odds = {y: exp(value - top) if top > -inf else 1.0 for y, value in joint.items()}
    return {y: value / sum(odds.values()) for y, value in odds.items()}


class SlowMultinomialNB:
    """Counts of tokens a class; the formula of the docstring read out loud."""

    def __init__(self, alpha: float = 1.0, half_life: float | None = None) -> None:
        self.alpha = alpha
        self.kept = 1.0 if half_life is None else 0.5 ** (1.0 / half_life)
        self.weights: dict[Label, float] = {}
        self.counts: dict[Label, defaultdict[str, float]] = {}

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        for label, old in self.counts.items():
            self.weights[label] *= self.kept
            for token in old:
                old[token] *= self.kept
        self.weights[y] = self.weights.get(y, 0.0) + w
        counts = self.counts.setdefault(y, defaultdict(float))
        for token, times in bag(x).items():
            counts[token] += w * times

    @property
    def vocabulary(self) -> set[str]:
        return {token for counts in self.counts.values() for token in counts}

    def joint_log_likelihood_one(self, x: dict[str, Any]) -> dict[Label, float]:
        vocabulary = self.vocabulary
        joint = {}
        for y, counts in self.counts.items():
            joint[y] = log(self.weights[y] / sum(self.weights.values()))
            if self.alpha == 0 and not any(counts.values()):  # as all classes together
                counts = {t: sum(c.get(t, 0.0) for c in self.counts.values()) for t in vocabulary}
            total = sum(counts.values()) + self.alpha * len(vocabulary)
            for token, times in bag(x).items():
                if token in vocabulary:
                    share = (counts.get(token, 0.0) + self.alpha) / total
                    joint[y] += times * log(share) if share > 0 else -inf
        return joint

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        joint = self.joint_log_likelihood_one(x)
        if joint and max(joint.values()) == -inf:
            joint = {y: log(w) for y, w in self.weights.items()}
        return softmax(joint)


class SlowComplementNB(SlowMultinomialNB):
    """Counts of the other classes; weights divided by their sum where `norm`."""

    def __init__(
        self, alpha: float = 1.0, norm: bool = False, half_life: float | None = None
    ) -> None:
        super().__init__(alpha, half_life)
        self.norm = norm

    def joint_log_likelihood_one(self, x: dict[str, Any]) -> dict[Label, float]:
        vocabulary = sorted(self.vocabulary)
        joint = {}
        for y in self.counts:
            others = [counts for label, counts in self.counts.items() if label != y]
            counts = {t: fsum(o.get(t, 0.0) for o in others) + self.alpha for t in vocabulary}
            total = fsum(counts.values())
            weights = {t: -log(n / total) for t, n in counts.items()}
            if self.norm:
                size = fsum(weights.values())
                weights = {t: w / size if len(weights) > 1 else 0.0 for t, w in weights.items()}
            joint[y] = fsum(n * weights[t] for t, n in bag(x).items() if t in weights)
        return joint
