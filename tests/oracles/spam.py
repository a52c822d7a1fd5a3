"""The obvious twin of SpamScorer: dicts by feature, records that fade summed again."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, fsum, log, sqrt
from typing import Any

import numpy as np

from stream.data.block import Rows
from stream.data.schema import Label
from stream.text.features import named_features

Feature = tuple[int, int]  # view and key
VIEWS = range(7)
MEMORIES = SLOW, FAST = range(2)
NOBODY = "(not yet known)"


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


def single(x: float) -> float:
    """x in 32 bits, as weights are kept."""
    return float(np.float32(x))


@dataclass
class SlowSpamScorer:
    """Two classes: the second one against the first. More: each against the others."""

    half_life: float = 2_000.0
    learned: list[tuple[set[Feature], Label, tuple[float, float]]] = field(default_factory=list)
    weights: dict[tuple[int, Feature, Label], float] = field(default_factory=dict)
    squares: dict[tuple[int, Feature, Label], float] = field(default_factory=dict)
    bias: dict[tuple[int, Label], float] = field(default_factory=dict)
    final: dict[Label, tuple[float, float]] = field(default_factory=dict)
    slope: list[float] = field(default_factory=lambda: [1 / 3] * 3 + [1.0] + [1 / 9] * 3)
    slope_squares: list[float] = field(default_factory=lambda: [0.0] * 7)
    surprise: list[float] = field(default_factory=lambda: [0.0, 0.0])
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])

    @property
    def classes(self) -> list[Label]:
        return list(dict.fromkeys(y for _, y, _ in self.learned))

    @property
    def lives(self) -> tuple[float, float]:
        return self.half_life, 0.075 * self.half_life

    def features(self, x: dict[str, Any]) -> set[Feature]:
        """View and key of each feature."""
        rows = Rows.from_dicts([x], strings="text", truths="categorical")
        return {(found.view, found.key) for found in named_features(rows, 0)}

    def weight_of(self, m: int, label: Label | None, has: Feature | None = None) -> float:
        """The present weight of the records of a class (None: of all), or of those with `has`."""
        n = len(self.learned)
        return fsum(
            w[m] * 2.0 ** (-(n - 1 - i) / self.lives[m])
            for i, (found, y, w) in enumerate(self.learned)
            if (label is None or y == label) and (has is None or has in found)
        )

    def columns(self, classes: list[Label]) -> list[Label]:
        """The classes that have weights."""
        return classes if len(classes) > 2 else classes[1:]

    def prior(self, y: Label) -> float:
        """The log-odds of the class shares."""
        own, every = self.weight_of(SLOW, y), self.weight_of(SLOW, None)
        return log((own + 0.5) / (every - own + 0.5))

    def views(self, found: set[Feature], y: Label, m: int) -> dict[int, float]:
        """The evidence of each view in a memory for a class against the others."""
        own, every = self.weight_of(m, y), self.weight_of(m, None)
        out: dict[int, float] = {}
        for view in VIEWS:
            mine = [f for f in found if f[0] == view]
            if not mine:
                continue
            total = 0.0
            for f in mine:
                with_f = self.weight_of(m, y, f)
                floor = 0.25 / (every + 1.0)
                above = with_f / (own + 0.5) + floor
                below = (self.weight_of(m, None, f) - with_f) / (every - own + 0.5) + floor
                total += self.weights.get((m, f, y), 0.0) + 0.8 * log(above / below)
            out[view] = total / sqrt(len(mine))
            if m == SLOW:
                known = sum(self.weight_of(SLOW, None, f) > 0 for f in mine)
                out[view] += self.bias.get((view, y), 0.0) * min(4.0 * known / len(mine), 1.0)
        return out

    def both(self, found: set[Feature], y: Label) -> dict[int, float]:
        """The evidence of each view."""
        share = sigmoid(0.2 * (self.losses[SLOW] - self.losses[FAST]) - 5.0)
        slow, fast = (self.views(found, y, m) for m in MEMORIES)
        return {v: (1.0 - share) * z + share * fast[v] for v, z in slow.items()}

    def summed(self, views: dict[int, float]) -> float:
        """The weighted sum of views."""
        return fsum(self.slope[v] * z for v, z in views.items())

    def predict_proba_one(self, x: dict[str, Any], *, even: bool = False) -> dict[Label, float]:
        """The posterior of each class; `even`: with equal class shares."""
        found, classes = self.features(x), self.classes
        return self.posterior(found, classes)[1 if even else 0]

    def posterior(
        self, found: set[Feature], classes: list[Label]
    ) -> tuple[dict[Label, float], dict[Label, float]]:
        """The posteriors, and those with equal class shares."""
        if len(classes) < 2:
            alone = dict.fromkeys(classes, 1.0)
            return alone, alone
        columns = self.columns(classes)
        evidence = {y: self.summed(self.both(found, y)) for y in columns}
        whole = {
            y: e + self.prior(y) + self.final.get(y, (0.0, 0.0))[0] for y, e in evidence.items()
        }
        return normal(whole, classes), normal(evidence, classes)

    def split_column(self, classes: list[Label]) -> None:
        """Two classes that shared weights get their own."""
        first, second = classes[:2]
        for table, sign in ((self.weights, -1), (self.squares, 1), (self.bias, -1)):
            for what, value in list(table.items()):
                if what[-1] == second:
                    table[(*what[:-1], first)] = sign * value
        value, squares = self.final.get(second, (0.0, 0.0))
        self.final[first] = (-value, squares)

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        """Move biases, weights and the weights of the sum, and then count the record."""
        found, classes = self.features(x), self.classes
        if y not in classes:
            if len(classes) == 2:
                self.split_column(classes)
            if len(classes) == 1:
                self.rename(NOBODY, y)
            classes = [*classes, y]
        if len(classes) == 1:
            classes = [*classes, NOBODY]
        p, even = self.posterior(found, classes)
        columns = self.columns(classes)
        least = 5.0 / (5.0 + self.weight_of(SLOW, y))
        others = fsum(p for c, p in even.items() if c != y)
        known = set[Feature]().union(*(has for has, label, _ in self.learned if label == y))
        new = len(found - known) / max(len(found), 1)
        w *= max(min(max(others / 1e-7, new / 0.05), 1.0), 0.02, least)
        contradicts = 1.0 - min(even[y] / 0.1, 1.0)
        calm = 1.0 / (1.0 + 2.0 * max(self.surprise[0] - 1.5 - 0.2 * self.surprise[1], 0.0))
        part, of_bias = (
            max(max(min(even[y] / sure, 1.0), 0.02) * calm, least) for sure in (0.01, 0.1)
        )
        for k, left in enumerate((0.98, 0.998)):
            self.surprise[k] = left * self.surprise[k] + min(w, 1.0) * contradicts
        half = 1.0 if len(columns) == 1 else 0.5
        error = {c: half * part * w * ((y == c) - p[c]) for c in columns}
        views = {m: {c: self.views(found, c, m) for c in columns} for m in MEMORIES}
        self.move_sum(error, {c: self.both(found, c) for c in columns})
        for m in MEMORIES:
            sums = {c: self.summed(views[m][c]) for c in columns}
            loss = min(-log(normal(sums, classes)[y]), 2.0)
            self.losses[m] = 0.99 * self.losses[m] + min(w, 1.0) * loss
        for m in MEMORIES:
            for c in columns:
                self.move_views(m, c, y, views[m][c], found, ((part, 1.0)[m] * w, of_bias * w))
        self.learned.append((found, y, (part * w, w)))
        for m, f, c in self.squares:
            self.squares[m, f, c] *= 2.0 ** (-1.0 / self.lives[m])

    def move_views(
        self,
        m: int,
        c: Label,
        y: Label,
        views: dict[int, float],
        found: set[Feature],
        w: tuple[float, float],
    ) -> None:
        """The weights of a memory and column, and the biases."""
        for view, z in views.items():
            e = (y == c) - sigmoid(self.prior(c) + z)
            if m == SLOW:
                self.bias[view, c] = self.bias.get((view, c), 0.0) + min(0.2 * w[1], 1.0) * e
            mine = [f for f in found if f[0] == view]
            g = w[0] * e / sqrt(len(mine))
            for f in mine:
                squares = single(self.squares.get((m, f, c), 0.0) + min(g * g, 1e30))
                step = (
                    (1.2, 2.0)[m]
                    * g
                    / sqrt(squares + 1e-3 * (1.0 + (0.05, 0.0)[m] * self.weight_of(m, None, f)))
                )
                self.squares[m, f, c] = squares
                old = self.weights.get((m, f, c), 0.0)
                self.weights[m, f, c] = single(old - (0.002, 0.01)[m] * old + step)

    def move_sum(self, error: dict[Label, float], evidence: dict[Label, dict[int, float]]) -> None:
        """Of the views that the record has, and the bias."""
        for view in next(iter(evidence.values())):
            g = fsum(error[c] * z[view] for c, z in evidence.items())
            self.slope_squares[view] += g * g
            step = 0.02 * g / sqrt(self.slope_squares[view] + 1.0)
            self.slope[view] = min(max(self.slope[view] + step, 0.0), 100.0)
        for c, g in error.items():
            value, squares = self.final.get(c, (0.0, 0.0))
            squares += g * g
            self.final[c] = (value + 0.02 * g / sqrt(squares + 1.0), squares)

    def rename(self, old: Label, new: Label) -> None:
        """What was learned against a class that nobody had seen is the second class's."""
        for table in (self.weights, self.squares, self.bias):
            for what in [key for key in table if key[-1] == old]:
                table[(*what[:-1], new)] = table.pop(what)
        self.final[new] = self.final.pop(old)


def normal(scores: dict[Label, float], classes: list[Label]) -> dict[Label, float]:
    """Softmax of half the scores; for two classes the sigmoid of the one score."""
    if len(classes) == 2:
        f = scores[classes[1]]
        return {classes[0]: sigmoid(-f), classes[1]: sigmoid(f)}
    top = max(0.5 * s for s in scores.values())
    total = fsum(exp(0.5 * scores[y] - top) for y in classes)
    return {y: exp(0.5 * scores[y] - top) / total for y in classes}
