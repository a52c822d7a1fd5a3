"""Slow obvious twins of the joint normal classifier: dense matrices, factored at every question.

Rule: written from the formula, in extended precision, not from the kernel, and never imported by
what they check.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, frexp, ldexp, log, log2, pi

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.longdouble]


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
        v = self.row(x)
        n, mean = self.n.setdefault(y, zeros(d)), self.mean.setdefault(y, zeros(d))
        level = self.level(y)  # of what was learned before
        self.values.append((v.copy(), w))
        self.weight[y] = self.weight.get(y, 0.0) + w
        of = self.scatter.setdefault(None if self.pooled else y, zeros(d, d))
        gap = np.isnan(v) & (n > 0)
        if gap.any():
            given = ~np.isnan(v) & (n > 0)
            sigma = self.covariance(y, 0.0)
            across = sigma[np.ix_(given, gap)]
            m = self.divisor(y, 0.0)
            ridge = np.diag(level / np.where(m > 0, m, 1))  # of what is observed, not of the gap
            line = solved((sigma + ridge)[np.ix_(given, given)], across)
            v[gap] = mean[gap] + (v[given] - mean[given]) @ line
            rest = sigma[np.ix_(gap, gap)] - across.T @ line
        there = ~np.isnan(v)
        before = n[there].copy()
        n[there] += w
        off = zeros(d)
        off[there] = (v - mean)[there] * np.sqrt(w * before / n[there])
        mean[there] += (v - mean)[there] * w / n[there]
        of += np.outer(off, off)
        if gap.any():
            of[np.ix_(gap, gap)] += w * rest

    def row(self, x: Mapping[str, float]) -> Floats:
        """The values, NaN for none."""
        return np.array([x.get(name, np.nan) for name in self.names], np.longdouble)

    def divisor(self, y: Hashable, ddof: float) -> Floats:
        """The weights that the sums of products of the class are divided by."""
        if self.pooled:
            return sum(np.where(n > 0, n - ddof, 0.0) for n in self.n.values())
        return self.n[y] - ddof

    def level(self, y: Hashable) -> Floats:
        """The ridge, times the weight, in as many binary digits as it is served in."""
        if not self.values:
            return zeros(len(self.names))
        m = np.maximum(self.divisor(y, self.ddof), 0)
        features = sum(sum(n[j] for n in self.n.values()) > 0 for j in range(len(self.names)))
        digits = 1 + min(max(floor(log2(max(256.0, float(max(m))) / features)), 0), 5)
        return np.array([rounded(v, digits) for v in self.ridge * self.spread()[1] * m])

    def covariance(self, y: Hashable, ddof: float) -> Floats:
        """Scatter over the roots of both features' weights."""
        m = self.divisor(y, ddof)
        root = 1 / np.sqrt(np.where(m > 0, m, np.inf))
        return self.scatter[None if self.pooled else y] * np.outer(root, root)

    def spread(self) -> tuple[Floats, Floats]:
        """Mean and variance of each feature over all classes."""
        v = np.array([v for v, _ in self.values])
        w = np.array([w for _, w in self.values], np.longdouble)[:, None] * ~np.isnan(v)
        v = np.nan_to_num(v)
        n = np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        mean = (w * v).sum(axis=0) / n
        return mean, (w * (v - mean) ** 2).sum(axis=0) / n

    def joint(self, x: Mapping[str, float]) -> dict[Hashable, float]:
        """Log prior and log density of what x has, by inverse and determinant."""
        v = self.row(x)
        middle, spread = self.spread()
        out: dict[Hashable, float] = {}
        for y, weight in self.weight.items():
            out[y] = log(weight / sum(self.weight.values()))
            sigma = self.covariance(y, self.ddof)
            apart = sigma - np.diag(np.diag(sigma))
            m = self.divisor(y, self.ddof)
            ridge = np.diag(self.level(y) / np.where(m > 0, m, 1))
            sigma = sigma - self.shrinkage * apart + ridge
            seen = ~np.isnan(v) & (self.n[y] > 0) & (spread > 0)
            out[y] += normal((v - self.mean[y])[seen], sigma[np.ix_(seen, seen)])
            for j in np.flatnonzero(~np.isnan(v) & (self.n[y] == 0) & (spread > 0)):
                wide = spread[j] * (1 + self.ridge)
                out[y] += normal(v[[j]] - middle[[j]], np.array([[wide]]))
        return out


def normal(off: Floats, sigma: Floats) -> float:
    """Log density at a deviation from the mean."""
    if not off.size:
        return 0.0
    logdet = 2 * np.log(np.diag(cholesky(sigma))).sum()
    square = off @ solved(sigma, off)
    return float(-0.5 * (off.size * log(2 * pi) + logdet + square))


def zeros(*shape: int) -> Floats:
    """In extended precision."""
    return np.zeros(shape, np.longdouble)


def rounded(v: float, digits: int) -> float:
    """To so many binary digits; what lies half way is moved by 1.00070711, as it is served."""
    part, exponent = frexp(float(v) * 1.00070711)
    return ldexp(round(ldexp(part, digits)), exponent - digits)


def cholesky(a: Floats) -> Floats:
    """The lower triangle, row by row."""
    low = zeros(*a.shape)
    for i in range(len(a)):
        for j in range(i + 1):
            rest = a[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(rest) if i == j else rest / low[j, j]
    return low


def solved(a: Floats, b: Floats) -> Floats:
    """The solution of a x = b: forward and back through the triangle."""
    low, x = cholesky(a), b.astype(np.longdouble)
    for i in range(len(a)):
        x[i] = (x[i] - low[i, :i] @ x[:i]) / low[i, i]
    for i in reversed(range(len(a))):
        x[i] = (x[i] - low[i + 1 :, i] @ x[i + 1 :]) / low[i, i]
    return x


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
