"""Oracles of counts: joint tables of categories, and draws of tokens, by their formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from math import isnan, prod
from typing import Any

from mpmath import inf, log, mpf

from tests.programs.exact import EPS, CategoryOracle, Oracle, Term

__all__ = ["TableOracle", "TokenOracle"]


class TableOracle(CategoryOracle):
    """`CategoricalBayes`: (n_x + alpha) / (n + alpha · Π m_j), gaps summed over."""

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        held = [r for r in self.records if r.counts and r.x]
        values: dict[str, set[str]] = {}
        for r in held:
            for name, v in r.x.items():
                values.setdefault(name, set()).add(v)
        asked = {name: v for name, v in x.items() if v in values.get(name, ())}
        if not asked:
            return mpf(0), mpf(0)
        having = [r for r in held if asked.keys() <= r.x.keys()]
        if not having:
            return mpf(0), mpf(0)
        own = [r for r in having if r.y == y] or having
        n = sum(self.weight(r) for r in own)
        alike = [r for r in own if all(r.x[name] == v for name, v in asked.items())]
        n_x = sum((self.weight(r) for r in alike), mpf(0))
        outside = prod(len(found) for name, found in values.items() if name not in asked)
        every = prod(len(found) for found in values.values())
        top = n_x + self.alpha * outside
        error = EPS * (len(held) + self.learned + 8 + 4 * len(values))
        return (log(top / (n + self.alpha * every)) if top > 0 else -inf), error


class TokenOracle(Oracle):
    """`MultinomialNB`: Σ times · log((n_t + alpha) / (n + alpha · tokens))."""

    def __init__(self, alpha: float, half_life: float | None = None, priors: Any = None) -> None:
        super().__init__(half_life, priors)
        self.alpha = mpf(alpha)

    def features(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        out: Counter[str] = Counter()
        for name, value in x.items():
            if isinstance(value, str):
                out.update({word: mpf(n) for word, n in Counter(value.split()).items()})
            elif value is not None and not isnan(value) and value > 0:
                out[str(name)] += mpf(float(value))
        return dict(out)

    def likelihood(self, x: dict[str, Any], y: Hashable) -> Term:
        held = [r for r in self.records if r.counts]
        known = {t for r in held for t in r.x}
        n: Counter[str] = Counter()
        for r in held:
            if r.y == y:
                n.update({t: self.weight(r) * times for t, times in r.x.items()})
        total, value, error = sum(n.values(), mpf(0)), mpf(0), mpf(0)
        for t, times in x.items():
            if t in known:
                value += times * log((n[t] + self.alpha) / (total + self.alpha * len(known)))
                size = abs(log(n[t] + self.alpha)) + abs(log(total + self.alpha * len(known)))
                error += times * EPS * (len(held) + self.learned + 8) * (1 + size)
        # A sum that lost more than it holds has no digits; so do the counts below it.
        if any(not r.counts for r in self.records):
            ever = sum((r.w * sum(r.x.values(), mpf(0)) for r in self.records), mpf(0))
            error += EPS * self.learned * ever / self.alpha * sum(x.values(), mpf(0))
        return value, error
