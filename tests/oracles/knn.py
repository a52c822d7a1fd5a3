"""The obvious twin of KNNClassifier: a list of dicts, sorted again for each question."""

from __future__ import annotations

from math import inf, isnan, sqrt
from typing import Any

from stream.data.schema import Label

Record = tuple[dict[str, Any], Label, float]


class SlowKNN:
    """The docstring of KNNClassifier read out loud."""

    def __init__(
        self,
        n_neighbors: int = 5,
        window: int = 1000,
        metric: str = "auto",
        p: float = 2.0,
        scale: str | None = "range",
        weights: str = "uniform",
    ) -> None:
        self.k, self.window, self.metric, self.p = n_neighbors, window, metric, p
        self.scale, self.weights = scale, weights
        self.records: list[Record] = []
        self.names: list[str] = []
        self.classes: list[Label] = []

    @staticmethod
    def clean(x: dict[str, Any]) -> dict[str, Any]:
        """Only what is there; truth values as numbers."""
        numbers = {k: float(v) if isinstance(v, bool | int) else v for k, v in x.items()}
        return {
            k: v
            for k, v in numbers.items()
            if v is not None and not (isinstance(v, float) and isnan(v))
        }

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        """Append, and let the oldest go."""
        kept = self.clean(x)
        self.names += sorted(name for name in kept if name not in self.names)
        self.classes += [y] if y not in self.classes else []
        self.records = [*self.records, (kept, y, w)][-self.window :]

    def values(self, name: str) -> list[Any]:
        """The values of an attribute that the records held have."""
        return [x[name] for x, _, _ in self.records if name in x]

    def unit(self, name: str) -> tuple[float, float]:
        """What a difference is multiplied with, and what a gap counts as."""
        values = self.values(name)
        if isinstance(values[0], str):
            return 1.0, 1.0
        spread = max(values) - min(values)
        if self.scale is None:
            return 1.0, spread
        if spread == 0:
            return 0.0, 1.0
        if self.scale == "range":
            return 1.0 / spread, 1.0
        shares = [(v - min(values)) / spread for v in values]
        mean = sum(shares) / len(shares)
        std = sqrt(sum((v - mean) ** 2 for v in shares) / len(shares))
        return 1.0 / spread / std, 1.0 / std

    def distances(self, x: dict[str, Any]) -> list[float]:
        """Of x to each record held."""
        units = {name: self.unit(name) for name in self.names if self.values(name)}
        nominal = any(isinstance(v, str) for name in units for v in self.values(name))
        strict = self.metric == "heom" or (self.metric == "auto" and nominal)
        if self.metric == "cosine":
            return [self.angle(x, r, units) for r, _, _ in self.records]
        out = []
        for record, _, _ in self.records:
            terms = []
            for name, (unit, gap) in units.items():
                if name not in x:
                    terms += [1.0] if strict else []
                elif self.metric == "hamming" or isinstance(x[name], str):
                    terms.append(float(x[name] != record.get(name)))
                elif name not in record:
                    terms.append(gap)
                else:
                    terms.append(abs(x[name] - record[name]) * unit)
            out.append(self.total(terms))
        return out

    def total(self, terms: list[float]) -> float:
        """The terms of the attributes as one distance."""
        if self.metric == "hamming":
            return sum(terms) / max(len(terms), 1)
        p = {"manhattan": 1.0, "chebyshev": inf, "minkowski": self.p}.get(self.metric, 2.0)
        if p == inf:
            return max(terms, default=0.0)
        return sum(t**p for t in terms) ** (1.0 / p)

    def angle(self, x: dict[str, Any], r: dict[str, Any], units: dict[str, Any]) -> float:
        """1 - cosine of two sparse vectors."""

        def vector(of: dict[str, Any]) -> dict[Any, float]:
            return {
                (k, v) if isinstance(v, str) else k: 1.0 if isinstance(v, str) else v * units[k][0]
                for k, v in of.items()
                if k in units
            }

        a, b = vector(x), vector(r)
        lengths = sqrt(sum(v * v for v in a.values())) * sqrt(sum(v * v for v in b.values()))
        if lengths == 0:
            return 1.0
        found = 1.0 - sum(v * b.get(k, 0.0) for k, v in a.items()) / lengths
        return max(round(found * 2**48) / 2**48, 0.0)  # parallel vectors tie

    def ball(self, x: dict[str, Any]) -> list[tuple[float, Record]]:
        """Distance and record of every neighbour: the K nearest, and who ties with the last."""
        found = list(zip(self.distances(self.clean(x)), self.records, strict=True))
        radius = sorted(d for d, _ in found)[: self.k][-1]
        return [(d, r) for d, r in found if d <= radius]

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        """Shares of the votes."""
        votes = dict.fromkeys(self.classes, 0.0)
        if not self.records:
            return {c: 1.0 / len(votes) for c in votes}
        near = self.ball(x)
        exact = any(d == 0 for d, _ in near)
        for d, (_, y, w) in near:
            if self.weights == "uniform":
                votes[y] += w
            elif exact:
                votes[y] += w if d == 0 else 0.0
            else:
                votes[y] += w / d
        return {c: v / sum(votes.values()) for c, v in votes.items()}
