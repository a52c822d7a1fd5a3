"""Slow obvious twins of the joint normal classifier: dense matrices, inverted at every question.

Rule: written from the formula, not from the kernel, and never imported by what they check.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class CovarianceTwin:
    """Joint normal classes over named features; ridge and shrinkage on the dense matrix."""

    names: Sequence[str]
    pooled: bool = False
    ddof: float = 0.0
    ridge: float = 0.0
    shrinkage: float = 0.0
    n: dict[Hashable, Floats] = field(default_factory=dict)
    mean: dict[Hashable, Floats] = field(default_factory=dict)
    scatter: dict[Hashable, Floats] = field(default_factory=dict)
    weight: dict[Hashable, float] = field(default_factory=dict)
    values: list[tuple[Floats, float]] = field(default_factory=list)

    def learn(self, x: Mapping[str, float], y: Hashable, w: float = 1.0) -> None:
        """Fill the gaps of features the class has seen, then Welford with outer products."""
        d = len(self.names)
        v = np.array([x.get(name, np.nan) for name in self.names])
        self.values.append((v, w))
        self.weight[y] = self.weight.get(y, 0.0) + w
        n, mean = self.n.setdefault(y, np.zeros(d)), self.mean.setdefault(y, np.zeros(d))
        of = self.scatter.setdefault(None if self.pooled else y, np.zeros((d, d)))
        gap = np.isnan(v) & (n > 0)
        if gap.any():
            given = ~np.isnan(v) & (n > 0)
            sigma = self.covariance(y, 0.0)
            line = sigma[np.ix_(gap, given)] @ np.linalg.inv(sigma[np.ix_(given, given)])
            v[gap] = mean[gap] + line @ (v[given] - mean[given])
            rest = sigma[np.ix_(gap, gap)] - line @ sigma[np.ix_(given, gap)]
        there = ~np.isnan(v)
        before = n[there].copy()
        n[there] += w
        off = np.zeros(d)
        off[there] = (v - mean)[there] * np.sqrt(w * before / n[there])
        mean[there] += (v - mean)[there] * w / n[there]
        of += np.outer(off, off)
        if gap.any():
            of[np.ix_(gap, gap)] += w * rest

    def covariance(self, y: Hashable, ddof: float) -> Floats:
        """Scatter over the roots of both features' weights."""
        m = self.n[y] - ddof
        if self.pooled:
            m = sum(np.where(n > 0, n - ddof, 0.0) for n in self.n.values())
        root = 1 / np.sqrt(np.where(m > 0, m, np.inf))
        return self.scatter[None if self.pooled else y] * np.outer(root, root)

    def spread(self) -> tuple[Floats, Floats]:
        """Mean and variance of each feature over all classes."""
        v = np.array([v for v, _ in self.values])
        w = np.array([w for _, w in self.values])[:, None] * ~np.isnan(v)
        v = np.nan_to_num(v)
        mean = (w * v).sum(axis=0) / w.sum(axis=0)
        return mean, (w * (v - mean) ** 2).sum(axis=0) / w.sum(axis=0)

    def joint(self, x: Mapping[str, float]) -> dict[Hashable, float]:
        """Log prior and log density of what x has, by inverse and determinant."""
        v = np.array([x.get(name, np.nan) for name in self.names])
        middle, spread = self.spread()
        out: dict[Hashable, float] = {}
        for y, weight in self.weight.items():
            out[y] = log(weight / sum(self.weight.values()))
            sigma = self.covariance(y, self.ddof)
            apart = sigma - np.diag(np.diag(sigma))
            sigma = sigma - self.shrinkage * apart + np.diag(self.ridge * spread)
            seen = ~np.isnan(v) & (self.n[y] > 0)
            out[y] += normal((v - self.mean[y])[seen], sigma[np.ix_(seen, seen)])
            for j in np.flatnonzero(~np.isnan(v) & (self.n[y] == 0)):
                wide = spread[j] * (1 + self.ridge)
                out[y] += normal(v[[j]] - middle[[j]], np.array([[wide]]))
        return out


def normal(off: Floats, sigma: Floats) -> float:
    """Log density at a deviation from the mean."""
    if not off.size:
        return 0.0
    _, logdet = np.linalg.slogdet(sigma)
    square = off @ np.linalg.solve(sigma, off)
    return float(-0.5 * (off.size * log(2 * pi) + logdet + square))


def two_pass(values: Floats, weights: Floats | None = None) -> NDArray[np.longdouble]:
    """Covariance (1/n) in extended precision: first the mean, then the products."""
    v = values.astype(np.longdouble)
    w = np.ones(len(v), np.longdouble) if weights is None else weights.astype(np.longdouble)
    total = w.sum()
    off = v - (w[:, None] * v).sum(axis=0) / total
    d = v.shape[1]
    return np.array(
        [[(w * off[:, i] * off[:, j]).sum() / total for j in range(d)] for i in range(d)]
    )


def exact_determinant(values: Sequence[Sequence[float]]) -> Fraction:
    """Of the covariance (1/n) of two columns, without rounding."""
    a = [Fraction(row[0]) for row in values]
    b = [Fraction(row[1]) for row in values]
    n = len(a)
    ma, mb = sum(a) / n, sum(b) / n
    aa = sum((x - ma) ** 2 for x in a) / n
    bb = sum((y - mb) ** 2 for y in b) / n
    ab = sum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True)) / n
    return aa * bb - ab * ab
