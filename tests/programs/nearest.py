"""The oracle of nearest neighbours: distances to a hundred digits, all records looked at."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import pairwise
from typing import Any

from mpmath import inf, mp, mpf

from tests.programs.exact import Answer, Oracle, Record, plain

__all__ = ["NearestOracle"]

SURE = mpf(10) ** -10  # distances that differ by less, relatively, may tie in doubles
SMALL = mpf(10) ** -120


class NearestOracle(Oracle):
    """The docstring of `KNNClassifier`, with every distance exact."""

    def __init__(
        self,
        n_neighbors: int = 5,
        window: int = 1000,
        metric: str = "auto",
        p: float = 2.0,
        scale: str | None = "range",
        weights: str = "uniform",
    ) -> None:
        super().__init__()
        self.k, self.window, self.metric, self.p = n_neighbors, window, metric, mpf(p)
        self.scale, self.by_distance = scale, weights == "distance"

    def features(self, x: Mapping[Any, Any]) -> dict[str, Any]:
        texts = {str(k): v for k, v in x.items() if isinstance(v, str)}
        return {**plain(x), **texts}

    def held(self) -> list[Record]:
        """The newest records, as many as the window has."""
        return [r for r in self.records if r.counts][-self.window :]

    def unit(self, name: str, held: list[Record]) -> tuple[Any, Any]:
        """What a difference is multiplied with, and what a gap counts as."""
        values = [r.x[name] for r in held if name in r.x]
        if isinstance(values[0], str):
            return mpf(1), mpf(1)
        spread = max(values) - min(values)
        if self.scale is None:
            return mpf(1), spread
        if spread == 0:
            return mpf(0), mpf(1)
        if self.scale == "range":
            return 1 / spread, mpf(1)
        mean = sum(values) / len(values)
        std = mp.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        return 1 / std, spread / std

    def answer(self, x: Mapping[Any, Any]) -> Answer:
        known, held, given = self.classes(), self.held(), self.features(x)
        if not known:
            return Answer({}, 0.0)
        if not held:
            return Answer(dict.fromkeys(known, 1 / len(known)), 0.0)
        names = sorted({name for r in held for name in r.x})
        units = {name: self.unit(name, held) for name in names}
        far = [self.distance(given, r.x, units, held) for r in held]
        if any(v is None for v in far):
            return Answer(dict.fromkeys(known, 0.0), float("inf"))
        ranked = sorted(far)
        radius = ranked[: self.k][-1]
        votes = dict.fromkeys(known, mpf(0))
        nearest = ranked[0]
        for r, d in zip(held, far, strict=True):
            if d <= radius:
                votes[r.y] += r.w * self.ballot(d, nearest)
        total = sum(votes.values())
        error = 1e-9 if self.decided(held, far, radius, nearest) else float("inf")
        return Answer({y: float(v / total) for y, v in votes.items()}, error)

    def ballot(self, d: Any, nearest: Any) -> Any:
        if not self.by_distance:
            return mpf(1)
        if nearest == 0:
            return mpf(d == 0)
        return nearest / d

    def decided(self, held: list[Record], far: list[Any], radius: Any, nearest: Any) -> bool:
        """Whether doubles know who is in the ball: those at its edge are equal, or well apart."""
        if self.by_distance and 0 < nearest < SMALL and radius > SMALL:
            return False
        edge = [i for i, d in enumerate(far) if abs(d - radius) <= SURE * (radius + d)]
        alike = all(held[i].x == held[j].x for i, j in pairwise(edge))
        # Where differences cancel, rounding of what they are of decides.
        return alike and (radius == 0 or radius > SMALL or self.metric != "cosine")

    def distance(
        self, x: dict[str, Any], r: dict[str, Any], units: dict[str, Any], held: list[Record]
    ) -> Any:
        """Of x to one record; None where it lies at a turn of rounding."""
        if self.metric == "cosine":
            return self.angle(x, r, units)
        nominal = any(isinstance(v, str) for other in held for v in other.x.values())
        strict = self.metric == "heom" or (self.metric == "auto" and nominal)
        terms = []
        for name, (unit, gap) in units.items():
            if name not in x:
                terms += [mpf(1)] if strict else []
            elif self.metric == "hamming" or isinstance(x[name], str):
                terms.append(mpf(x[name] != r.get(name)))
            elif name not in r:
                terms.append(gap)
            else:
                terms.append(abs(x[name] - r[name]) * unit)
        if self.metric == "hamming":
            return sum(terms) / max(len(terms), 1)
        power = {"manhattan": mpf(1), "chebyshev": inf, "minkowski": self.p}.get(
            self.metric, mpf(2)
        )
        if power == inf:
            return max(terms, default=mpf(0))
        total = sum((t**power for t in terms), mpf(0))
        return total ** (1 / power) if total > 0 else mpf(0)

    def angle(self, x: dict[str, Any], r: dict[str, Any], units: dict[str, Any]) -> Any:
        def vector(of: dict[str, Any]) -> dict[Hashable, Any]:
            return {
                (k, v) if isinstance(v, str) else k: mpf(1)
                if isinstance(v, str)
                else v * units[k][0]
                for k, v in of.items()
                if k in units
            }

        a, b = vector(x), vector(r)
        length = mp.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
        if length == 0:
            return mpf(1)
        steps = (1 - sum(v * b.get(k, mpf(0)) for k, v in a.items()) / length) * 2**48
        if abs(abs(steps - mp.floor(steps)) - mpf("0.5")) < mpf("0.1"):
            return None
        return max(mp.nint(steps) / 2**48, mpf(0))
