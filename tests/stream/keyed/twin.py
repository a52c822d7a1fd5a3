"""The slow, obvious twin of `PerKeyNB`: it keeps all records, and sums them for each prediction."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, fsum, inf, log, pi
from typing import Any

GRID = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, inf)


@dataclass
class Sums:
    """Weight, and the values with their weights."""

    pairs: list[tuple[Any, float]] = field(default_factory=list)

    @property
    def n(self) -> float:
        return fsum(w for _, w in self.pairs)

    def share_of(self, value: Any) -> float:
        return fsum(w for v, w in self.pairs if v == value)

    def capped(self, most: float) -> Sums:
        """The same values, with all weights scaled so that they are at most `most` together."""
        n = self.n
        by = most / n if n > most else 1.0
        return Sums([(v, w * by) for v, w in self.pairs])

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.pairs + other.pairs)

    def mean(self) -> float:
        return fsum(v * w for v, w in self.pairs) / self.n

    def variance(self) -> float:
        mean = self.mean()
        return fsum((v - mean) ** 2 * w for v, w in self.pairs) / self.n


class Twin:
    """`PerKeyNB` over records with numbers and categories. Nothing is bounded."""

    def __init__(self, per: str, strength: float | None, alpha: float, smoothing: float) -> None:
        self.per, self.strength, self.alpha, self.smoothing = per, strength, alpha, smoothing
        self.learned: list[tuple[dict[str, Any], Any, float]] = []
        self.classes: list[Any] = []
        self.evidence = [0.0] * (len(GRID) + 2)
        self.fit: dict[str, list[float]] = {}
        self.records = 0

    def sums(self, key: Any, name: str | None, label: Any, most: float) -> Sums:
        """The values of a feature in a class: the key's own, and the others' as a prior."""
        own, others = Sums(), Sums()
        for x, y, w in self.learned:
            value = 1 if name is None else x.get(name)
            if value is not None and (label is None or y == label):
                mine = key is not None and x.get(self.per) == key
                (own if mine else others).pairs.append((value, w))
        return own + others.capped(most)

    def term(self, x: dict[str, Any], name: str, most: float) -> list[float]:
        value, key = x[name], x.get(self.per)
        if isinstance(value, str):
            return self.categories(key, name, value, most)
        per_class = [self.sums(key, name, c, most) for c in self.classes]
        everywhere = sum(per_class, Sums())
        spread = everywhere.variance() if everywhere.n > 0 else 0.0
        if spread <= 0.0:
            return [0.0] * len(self.classes)
        out = []
        for of in per_class:
            used = of if of.n > 0 else everywhere
            var = used.variance() + self.smoothing * spread
            out.append(-0.5 * (log(2 * pi * var) + (value - used.mean()) ** 2 / var))
        return out

    def categories(self, key: Any, name: str, value: str, most: float) -> list[float]:
        values = {v for x, _, _ in self.learned if (v := x.get(name)) is not None}
        if value not in values:
            return [0.0] * len(self.classes)
        out = []
        for c in self.classes:
            for label in (c, None):  # None: all classes, for a class that never had the feature
                own = self.sums(key, name, label, 0.0)
                whole = self.sums(None, name, label, inf)
                others, others_v = whole.n - own.n, whole.share_of(value) - own.share_of(value)
                if own.n > 0 or (most > 0 and others > 0):
                    break
            else:
                out.append(0.0)
                continue
            m, alpha = len(values), self.alpha
            if most == 0:
                p = (own.share_of(value) + alpha) / (own.n + alpha * m)
            else:
                base, weight = (others_v + alpha) / (others + alpha * m), others + alpha * m
                weight = min(weight, most)
                p = (own.share_of(value) + weight * base) / (own.n + weight)
            out.append(log(p) if p > 0 else -inf)
        return out

    def prior(self, key: Any, most: float) -> list[float]:
        own = dict.fromkeys(self.classes, 0.0)
        others = dict(own)
        for x, y, w in self.learned:
            (own if key is not None and x.get(self.per) == key else others)[y] += w
        total = fsum(others.values())
        by = most / total if total > most else 1.0
        n = {c: own[c] + by * others[c] for c in self.classes}
        whole = fsum(n.values())
        return [log(n[c] / whole) if n[c] > 0 else -inf for c in self.classes]

    def features(self, x: dict[str, Any]) -> list[str]:
        return [name for name, v in x.items() if name != self.per and v is not None]

    def terms(self, x: dict[str, Any], pick: int | None) -> dict[str, list[float]]:
        """pick: an index into GRID; behind it the best of each feature, and then that of the prior
        only; None: fixed."""

        def most(name: str) -> float:
            if pick is None:
                return float(self.strength)  # type: ignore[arg-type]
            if pick == len(GRID) or (pick > len(GRID) and name == "(prior)"):
                return GRID[self.best(name)]
            return GRID[min(pick, len(GRID) - 1)]

        out = {"(prior)": self.prior(x.get(self.per), most("(prior)"))}
        return out | {name: self.term(x, name, most(name)) for name in self.features(x)}

    def best(self, name: str) -> int:
        fit = self.fit.get(name, [0.0] * len(GRID))
        return max(range(len(GRID)), key=lambda g: (fit[g], g))

    def chosen(self) -> int | None:
        if self.strength is not None:
            return None
        one = max(range(len(GRID)), key=lambda g: (self.evidence[g], g))
        for more in (len(GRID), len(GRID) + 1):
            one = more if self.evidence[more] > self.evidence[one] else one
        return one

    def posterior(self, terms: dict[str, list[float]]) -> list[float]:
        joint = [sum(term[c] for term in terms.values()) for c in range(len(self.classes))]
        top = max(joint)
        if top == -inf:
            joint = terms["(prior)"]
            top = max(joint)
        shares = [exp(v - top) if top > -inf else 1.0 for v in joint]
        return [share / fsum(shares) for share in shares]

    def predict(self, x: dict[str, Any]) -> dict[Any, float]:
        if not self.classes:
            return {}
        return dict(zip(self.classes, self.posterior(self.terms(x, self.chosen())), strict=True))

    def learn(self, x: dict[str, Any], y: Any, w: float = 1.0) -> None:
        if self.strength is None:
            if y in self.classes and (self.records < 1000 or self.records % 8 == 0):
                self.compare(x, self.classes.index(y))
            self.records += 1
        if y not in self.classes:
            self.classes.append(y)
        self.learned.append((x, y, w))

    def compare(self, x: dict[str, Any], c: int) -> None:
        every = [self.terms(x, pick) for pick in range(len(GRID) + 2)]
        for pick, terms in enumerate(every):
            joint = [sum(term[k] for term in terms.values()) for k in range(len(self.classes))]
            p = 0.0 if max(joint) == -inf else self.posterior(terms)[c]
            self.evidence[pick] = self.evidence[pick] * 0.999 + log(max(p, 2.0**-52))
        for name in every[0]:
            fit = self.fit.setdefault(name, [0.0] * len(GRID))
            whole = every[len(GRID) - 1][name][c]
            for g in range(len(GRID) - 1):
                term = every[g][name][c]
                fit[g] += 0.0 if term == whole else min(max(term - whole, -10.0), 10.0)
