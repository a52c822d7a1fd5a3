"""The obvious twin of LogisticRegression: dicts by name, one gradient step a record."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, fsum, log, sqrt
from typing import Any

from stream.data.schema import Label
from stream.text import tokens

Name = tuple[str, str]  # kind and name of a feature


def softmax(scores: dict[Label, float]) -> dict[Label, float]:
    """exp(score) as shares."""
    top = max(scores.values())
    total = fsum(exp(s - top) for s in scores.values())
    return {y: exp(s - top) / total for y, s in scores.items()}


@dataclass
class SlowLogisticRegression:
    """Records that fade are kept and summed again; weights are moved as the formula says. Bins are
    those of fewer than 128 records, of which none is left out."""

    learning_rate: float = 0.5
    l2: float = 0.0
    start: str = "naive_bayes"
    text: tuple[str, ...] = ()
    half_life: float | None = None
    n_bins: int | None = None
    pairs: bool = False
    had: list[tuple[list[Name], Label, float]] = field(default_factory=list)
    learned: list[tuple[dict[str, Any], Label, float]] = field(default_factory=list)
    weights: dict[tuple[Name, Label], float] = field(default_factory=dict)
    squares: dict[tuple[Name, Label], float] = field(default_factory=dict)

    @property
    def classes(self) -> list[Label]:
        return list(dict.fromkeys(y for _, y, _ in self.learned))

    def seen(self, name: str) -> list[tuple[float, float]]:
        """The learned values of a number, with their weights."""
        return [(v[name], w) for v, _, w in self.learned if _is_number(v.get(name))]

    def numbers(self, x: dict[str, Any]) -> dict[str, float]:
        """Present numbers that some learned record had, in standard deviations, at most 3."""
        out = {}
        for name, value in x.items():
            if not _is_number(value):
                continue
            if seen := self.seen(name):
                mean, spread = _moments(seen)
                z = 0.0 if spread == 0.0 else (value - mean) / spread
                out[name] = max(-3.0, min(3.0, z))
        return out

    def indicators(self, x: dict[str, Any]) -> list[Name]:
        """Categories, truth values, words and bins of the record, and pairs of values."""
        found: set[Name] = set()
        values: dict[str, str] = {}
        for name, value in x.items():
            if isinstance(value, str) and name in self.text:
                found |= {("token", token) for token in tokens(value)}
            elif isinstance(value, str | bool):
                values[name] = str(value)
        if self.n_bins:
            for name in self.numbers(x):
                cuts = even_cuts(self.seen(name), self.n_bins)
                values[name] = f"bin {sum(cut < x[name] for cut in cuts)}"
        found |= set(values.items())
        if self.pairs:
            first = sorted(values)[:16]
            found |= {
                (f"{a} × {b}", f"{values[a]} × {values[b]}") for a in first for b in first if a < b
            }
        return sorted(found)

    def features(self, x: dict[str, Any]) -> dict[Name, float]:
        """Feature to value, divided by the root of their number."""
        numbers, indicators = self.numbers(x), self.indicators(x)
        root = sqrt(max(len(numbers) + len(indicators), 1))
        out = {("number", name): z / root for name, z in numbers.items()}
        return out | dict.fromkeys(indicators, 1.0 / root)

    def weight(self, feature: Name, y: Label) -> float:
        """The learned weight, plus half of the log-odds of naive Bayes if they are the start."""
        own = self.weights.get((feature, y), 0.0)
        return own + (0.5 * self.naive(feature, y) if self.start == "naive_bayes" else 0.0)

    def naive(self, feature: Name, y: Label) -> float:
        kind, name = feature
        if kind == "number":
            seen = self.seen(name)
            here = [(v[name], w) for v, c, w in self.learned if _is_number(v.get(name)) and c == y]
            mean, spread = _moments(seen)
            if not here or spread == 0.0:
                return 0.0
            weight = fsum(w for _, w in here)
            return weight / (weight + 1.0) * (_moments(here)[0] - mean) / spread
        if not any(feature in had for had, _, _ in self.had):
            return 0.0
        having = fsum(w for had, c, w in self.had if c == y and feature in had)
        return log((having + 0.1) / (fsum(w for _, c, w in self.learned if c == y) + 0.2))

    def scores(self, x: dict[str, Any], classes: list[Label]) -> dict[Label, float]:
        total = fsum(w for _, _, w in self.learned) + 0.5 * len(classes)
        features = self.features(x)
        out = {}
        for y in classes:
            share = fsum(w for _, c, w in self.learned if c == y) + 0.5
            parts = [log(share / total), self.weights.get((("bias", ""), y), 0.0)]
            parts += [self.weight(name, y) * value for name, value in features.items()]
            out[y] = fsum(parts)
        return out

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        return softmax(self.scores(x, self.classes)) if self.learned else {}

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        classes = list(dict.fromkeys([*self.classes, y]))
        p = softmax(self.scores(x, classes))
        features, had = self.features(x), self.indicators(x)
        kept = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        self.learned = [(x, y, w * kept) for x, y, w in self.learned]
        self.had = [(before, y, w * kept) for before, y, w in self.had]
        self.squares = {name: square * kept for name, square in self.squares.items()}
        for c in classes:
            error = w * ((c == y) - p[c])
            self._step(("bias", ""), c, error, w)
            for name, value in features.items():
                if value:
                    penalty = self.l2 * self.weights.get((name, c), 0.0)
                    self._step(name, c, error * value - penalty, w)
        self.learned.append((x, y, w))
        self.had.append((had, y, w))

    def _step(self, feature: Name, y: Label, gradient: float, w: float) -> None:
        at, before = (feature, y), self.squares.get((feature, y), 0.0)
        self.squares[at] = before + gradient**2 / max(w, 1.0)
        step = self.learning_rate * gradient / sqrt(before + gradient**2 + 0.01)
        self.weights[at] = self.weights.get(at, 0.0) + step


def even_cuts(seen: list[tuple[float, float]], bins: int) -> list[float]:
    """Each bin gets its share of the weight that is left, to the nearest value."""
    weights = {v: fsum(w for u, w in seen if u == v) for v in sorted(v for v, _ in seen)}
    cuts: list[float] = []
    here: list[float] = []
    for value in weights:
        if len(cuts) == bins - 1:
            break
        left = fsum(w for v, w in weights.items() if not cuts or v > cuts[-1])
        share, weight = left / (bins - len(cuts)), fsum(weights[v] for v in here)
        if here and abs(weight + weights[value] - share) > abs(share - weight):
            cuts.append(here[-1])
            here = []
        here.append(value)
    return cuts + [max(weights)] * (bins - 1 - len(cuts))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _moments(values: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean and standard deviation of weighted values."""
    weight = fsum(w for _, w in values)
    if len({v for v, _ in values}) == 1:
        return values[0][0], 0.0
    mean = fsum(w * v for v, w in values) / weight
    return mean, sqrt(fsum(w * (v - mean) ** 2 for v, w in values) / weight)
