"""The slow obvious twin of GaussianNB: plain Python floats, one record at a time.

Rule: written from the formula, not from the kernel, and never imported by what they check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import exp, inf, log, pi


@dataclass
class Welford:
    """Weight, mean and squared deviations of shifted values."""

    n: float = 0.0
    mean: float = 0.0
    m2: float = 0.0

    def add(self, v: float, w: float) -> None:
        before = self.n
        self.n = before + w
        share = w * (1 / self.n) if before > 0 else 1.0
        d = v - self.mean
        self.mean += d * share
        self.m2 += d * d * (before * share)


@dataclass
class GaussianTwin:
    """Gaussian naive Bayes with dicts and math.log."""

    ddof: float = 0.0
    smoothing: float = 1e-9
    priors: Mapping[Hashable, float] | None = None
    weight: dict[Hashable, float] = field(default_factory=dict)
    anchor: dict[str, float] = field(default_factory=dict)
    inside: dict[Hashable, dict[str, Welford]] = field(default_factory=dict)
    total: dict[str, Welford] = field(default_factory=dict)

    def learn(self, x: Mapping[str, float], y: Hashable, w: float = 1.0) -> None:
        self.weight[y] = self.weight.get(y, 0.0) + w
        mine = self.inside.setdefault(y, defaultdict(Welford))
        for name in sorted(x):
            v = x[name] - self.anchor.setdefault(name, x[name])
            mine[name].add(v, w)
            self.total.setdefault(name, Welford()).add(v, w)

    def log_prior(self, y: Hashable) -> float:
        p = self.weight[y] / sum(self.weight.values())
        if self.priors is not None:
            p = self.priors.get(y, 0.0)
        return log(p) if p > 0 else -inf

    def joint(self, x: Mapping[str, float]) -> dict[Hashable, float]:
        out = {y: self.log_prior(y) for y in self.weight}
        for name, total in self.total.items():
            spread = total.m2 / total.n
            if name not in x or spread <= 0:
                continue
            v, extra = x[name] - self.anchor[name], self.smoothing * spread
            for y in out:
                of = self.inside[y].get(name)
                if of is None:
                    out[y] += normal(v, total.mean, spread + extra)
                    continue
                var = of.m2 / (of.n - self.ddof) if of.n > self.ddof else 0.0
                out[y] += normal(v, of.mean, var + extra)
        return out

    def posterior(self, x: Mapping[str, float]) -> dict[Hashable, float]:
        joint = self.joint(x)
        if joint and max(joint.values()) == -inf:
            joint = {y: self.log_prior(y) for y in joint}
        if joint and max(joint.values()) == -inf:  # no class has a prior: none is preferred
            joint = dict.fromkeys(joint, 0.0)
        top = max(joint.values(), default=0.0)
        parts = {y: exp(v - top) for y, v in joint.items()}
        return {y: part / sum(parts.values()) for y, part in parts.items()}


def normal(v: float, mean: float, var: float) -> float:
    """Log density; a point where the variance is 0."""
    if var <= 0:
        return 0.0 if v == mean else -inf
    return -0.5 * (log(2 * pi) + log(var) + (v - mean) ** 2 / var)
