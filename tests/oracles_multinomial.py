"""The obvious twin of MultinomialNB: dicts of token counts, nothing hashed, nothing compiled."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import exp, log
from typing import Any

from stream.schema import Label
from stream.text import tokens


class SlowMultinomialNB:
    """Counts of tokens a class; the formula of the docstring read out loud."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha
        self.weights: dict[Label, float] = {}
        self.counts: dict[Label, defaultdict[str, float]] = {}

    @staticmethod
    def bag(x: dict[str, Any]) -> dict[str, float]:
        """Tokens of texts, and names of positive numbers, with how often each came."""
        bag: Counter[str] = Counter()
        for name, value in x.items():
            if isinstance(value, str):
                bag.update(tokens(value))
            elif value is not None and value > 0:
                bag[name] += value
        return dict(bag)

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        self.weights[y] = self.weights.get(y, 0.0) + w
        counts = self.counts.setdefault(y, defaultdict(float))
        for token, times in self.bag(x).items():
            counts[token] += w * times

    def joint_log_likelihood_one(self, x: dict[str, Any]) -> dict[Label, float]:
        vocabulary = {token for counts in self.counts.values() for token in counts}
        joint = {}
        for y, counts in self.counts.items():
            joint[y] = log(self.weights[y] / sum(self.weights.values()))
            total = sum(counts.values()) + self.alpha * len(vocabulary)
            for token, times in self.bag(x).items():
                if token in vocabulary:
                    joint[y] += times * log((counts.get(token, 0.0) + self.alpha) / total)
        return joint

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        joint = self.joint_log_likelihood_one(x)
        odds = {y: exp(value - max(joint.values())) for y, value in joint.items()}
        return {y: value / sum(odds.values()) for y, value in odds.items()}
