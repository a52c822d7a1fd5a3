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
VIEWS = range(4)
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
    learned: list[tuple[set[Feature], Label, float]] = field(default_factory=list)
    weights: dict[tuple[Feature, Label], float] = field(default_factory=dict)
    squares: dict[tuple[Feature, Label], float] = field(default_factory=dict)
    bias: dict[tuple[int, Label], float] = field(default_factory=dict)
    final: dict[Label, tuple[float, float]] = field(default_factory=dict)
    slope: list[float] = field(default_factory=lambda: [1 / 3, 1 / 3, 1 / 3, 1.0])
    slope_squares: list[float] = field(default_factory=lambda: [0.0] * 4)
    losses: list[tuple[float, float]] = field(default_factory=list)  # since the last change
    excess: float = 0.0
    forgotten: list[int] = field(default_factory=list)  # records learned before each change

    @property
    def classes(self) -> list[Label]:
        return list(dict.fromkeys(y for _, y, _ in self.learned))

    def features(self, x: dict[str, Any]) -> set[Feature]:
        """View and key of each feature."""
        rows = Rows.from_dicts([x], strings="text", truths="categorical")
        return {(found.view, found.key) for found in named_features(rows, 0)}

    def weight_of(self, label: Label | None, has: Feature | None = None) -> float:
        """The present weight of the records of a class (None: of all), or of those with `has`."""
        n = len(self.learned)
        return fsum(
            w * 2.0 ** (-(n - 1 - i) / self.half_life) / 8.0 ** sum(i < at for at in self.forgotten)
            for i, (found, y, w) in enumerate(self.learned)
            if (label is None or y == label) and (has is None or has in found)
        )

    def columns(self, classes: list[Label]) -> list[Label]:
        """The classes that have weights."""
        return classes if len(classes) > 2 else classes[1:]

    def score(self, found: set[Feature], y: Label) -> tuple[float, float, dict[int, float]]:
        """Prior, score and evidence of each view for a class against the others."""
        own, every = self.weight_of(y), self.weight_of(None)
        prior = log((own + 0.5) / (every - own + 0.5))
        out: dict[int, float] = {}
        for view in VIEWS:
            mine = [f for f in found if f[0] == view]
            if not mine:
                continue
            total = 0.0
            for f in mine:
                with_f = self.weight_of(y, f)
                floor = 0.5 / (every + 1.0)
                above = with_f / (own + 0.5) + floor
                below = (self.weight_of(None, f) - with_f) / (every - own + 0.5) + floor
                total += self.weights.get((f, y), 0.0) + 0.8 * log(above / below)
            out[view] = self.bias.get((view, y), 0.0) + total / sqrt(len(mine))
        final, _ = self.final.get(y, (0.0, 0.0))
        score = prior + final + fsum(self.slope[v] * z for v, z in out.items())
        return prior, score, out

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        """The posterior of each class."""
        return self.posterior(self.features(x), self.classes)

    def posterior(self, found: set[Feature], classes: list[Label]) -> dict[Label, float]:
        """Softmax of half the scores; for two classes the sigmoid of the one score."""
        if len(classes) < 2:
            return dict.fromkeys(classes, 1.0)
        if len(classes) == 2:
            _, f, _ = self.score(found, classes[1])
            return {classes[0]: sigmoid(-f), classes[1]: sigmoid(f)}
        halves = {y: 0.5 * self.score(found, y)[1] for y in classes}
        top = max(halves.values())
        total = fsum(exp(h - top) for h in halves.values())
        return {y: exp(h - top) / total for y, h in halves.items()}

    def split_column(self, classes: list[Label]) -> None:
        """Two classes that shared weights get their own."""
        first, second = classes[:2]
        for table, sign in ((self.weights, -1), (self.squares, 1), (self.bias, -1)):
            for (what, y), value in list(table.items()):
                if y == second:
                    table[(what, first)] = sign * value
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
        p = self.posterior(found, classes)
        columns = self.columns(classes)
        scored = {c: self.score(found, c) for c in columns}
        half = 1.0 if len(columns) == 1 else 0.5
        error = {c: half * w * ((y == c) - p[c]) for c in columns}
        self.move_sum(error, {c: z for c, (_, _, z) in scored.items()})
        for c, (prior, _, z) in scored.items():
            for view, evidence in z.items():
                e = (y == c) - sigmoid(prior + evidence)
                self.bias[view, c] = self.bias.get((view, c), 0.0) + min(0.2 * w, 1.0) * e
                mine = [f for f in found if f[0] == view]
                g = w * e / sqrt(len(mine))
                for f in mine:
                    squares = single(self.squares.get((f, c), 0.0) + min(g * g, 1e30))
                    step = 0.8 * g / sqrt(squares + 1e-3)
                    self.squares[f, c] = squares
                    old = self.weights.get((f, c), 0.0)
                    self.weights[f, c] = single(old - 0.002 * old + step)
        self.watch(-log(p[y]), w)
        self.learned.append((found, y, w))
        for key in self.squares:
            self.squares[key] *= 2.0 ** (-1.0 / self.half_life)

    def watch(self, loss: float, w: float) -> None:
        """Forget, if the losses have risen."""
        w, loss = min(w, 1.0), min(loss, 2.0)
        n = len(self.losses)
        fades = [2.0 ** (-(n - 1 - i) / self.half_life) for i in range(n)]
        total = fsum(fade * w * loss for fade, (loss, w) in zip(fades, self.losses, strict=True))
        number = fsum(fade * w for fade, (_, w) in zip(fades, self.losses, strict=True))
        mean = (total + 0.69 * 20) / (number + 20)
        self.excess = max(self.excess + w * (loss - 2 * mean - 0.05), 0.0)
        self.losses.append((loss, w))
        if self.excess <= 8.0:
            return
        self.excess, self.losses = 0.0, []
        self.forgotten.append(len(self.learned) + 1)
        for table, kept in ((self.weights, 0.25), (self.bias, 0.25), (self.squares, 0.125)):
            for key in table:
                table[key] *= kept

    def move_sum(self, error: dict[Label, float], evidence: dict[Label, dict[int, float]]) -> None:
        """Of the views that the record has, and the bias."""
        for view in next(iter(evidence.values())):
            g = fsum(error[c] * z[view] for c, z in evidence.items())
            self.slope_squares[view] += g * g
            step = 0.03 * g / sqrt(self.slope_squares[view] + 1.0)
            self.slope[view] = min(max(self.slope[view] + step, 0.0), 100.0)
        for c, g in error.items():
            value, squares = self.final.get(c, (0.0, 0.0))
            squares += g * g
            self.final[c] = (value + 0.03 * g / sqrt(squares + 1.0), squares)

    def rename(self, old: Label, new: Label) -> None:
        """What was learned against a class that nobody had seen is the second class's."""
        for table in (self.weights, self.squares, self.bias):
            for what, y in [key for key in table if key[1] == old]:
                table[what, new] = table.pop((what, y))
        self.final[new] = self.final.pop(old)
