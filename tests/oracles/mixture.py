"""The obvious twin of Mixture: weights as plain numbers, predictions kept by id."""

from __future__ import annotations

from math import fsum
from typing import Any

from stream import Learner, NotLearnedError, NotSupportedError
from stream.data.schema import Label

RATES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
FLOOR = 0.001
# A weight of w makes the last bit of a probability w times as large: two of 1e6 are 1e-9 apart.
HEAVY = 1e4

Shares = dict[Label, float]


def floored(p: Shares, classes: list[Label], floor: float = FLOOR) -> Shares:
    """The distribution of an expert, with a share of the uniform one, by default a thousandth."""
    return {y: (1 - floor) * p.get(y, 0.0) + floor / len(classes) for y in classes}


class SlowNoChange:
    """The last label that was known at the prediction, with the share of labels that equaled it.
    half_life: of what is counted, in labels; half a record, added to each count, does not fade."""

    def __init__(self, half_life: float | None = None) -> None:
        self.kept = 1.0 if half_life is None else 0.5 ** (1 / half_life)
        self.counts: dict[Label, float] = {}
        self.stays, self.moves = 0.5, 0.5
        self.last: Label | None = None

    def predict_proba_one(self, x: dict[str, Any]) -> Shares:
        """As the shares of the classes, but for the last label."""
        if not self.counts:
            return {}
        total = fsum(self.counts.values())
        shares = {y: n / total for y, n in self.counts.items()}
        if len(shares) < 2 or self.last is None:
            return shares
        stay = self.stays / (self.stays + self.moves)
        others = fsum(p for y, p in shares.items() if y != self.last)
        rest = {y: (1 - stay) * p / others for y, p in shares.items()}
        return {**rest, self.last: stay}

    def learn(self, y: Label, w: float, before: Label | None) -> None:
        """Count a label; `before` was the last one at its prediction."""
        fade = lambda count: 0.5 + self.kept * (count - 0.5)  # noqa: E731
        self.counts = {each: fade(count) for each, count in self.counts.items()}
        self.stays, self.moves = fade(self.stays), fade(self.moves)
        self.counts[y] = self.counts.get(y, 0.5) + w
        if before is not None and y == before:
            self.stays += w
        elif before is not None:
            self.moves += w
        self.last = y


class SlowMixture:
    """Experts that are called one by one; Bayes' rule as in a textbook.

    Weights of 0 stay 0, so streams must be short. period, first, longest, least: of the rests, in
    labels, periods and weight; period 0: no expert rests. floor: as in `floored`. rates: of shares.
    """

    def __init__(
        self,
        experts: list[Learner | SlowNoChange],
        period: int = 0,
        first: int = 0,
        longest: int = 0,
        least: float = 0.0,
        floor: float = FLOOR,
        rates: tuple[float, ...] = RATES,
    ) -> None:
        n, self.floor, self.rates = len(experts), floor, rates
        self.period, self.first, self.longest, self.least = period, first, longest, least
        self.asleep: dict[int, int] = {}  # expert to the periods that are left
        self.pause = [1] * n
        self.sums = [0.0] * n
        self.labels = 0
        self.learned_by: list[set[int]] = []
        self.experts = experts
        self.classes: list[Label] = []
        self.under = [[1.0 / n] * n for _ in rates]
        self.bank = [1.0 / len(rates)] * len(rates)
        self.then: dict[Any, tuple[list[Shares], list[Shares], list[Label], list[Any]]] = {}

    @property
    def weights(self) -> list[float]:
        n = len(self.experts)
        return [
            fsum(v * own[i] for v, own in zip(self.bank, self.under, strict=True)) for i in range(n)
        ]

    def predict(self, x: dict[str, Any], key: Any) -> Shares:
        """The weighted distribution; those of the experts are kept under `key`."""
        classes = list(self.classes)
        given = [
            floored(e.predict_proba_one(x), classes, self.floor)
            if classes and i not in self.asleep
            else None
            for i, e in enumerate(self.experts)
        ]
        by_rate = []
        for own in self.under:
            pairs = [(v, p) for v, p in zip(own, given, strict=True) if p is not None]
            total = fsum(v for v, _ in pairs)
            by_rate.append({y: fsum(v * p[y] for v, p in pairs) / total for y in classes})
        lasts = [getattr(expert, "last", None) for expert in self.experts]
        self.then[key] = given, by_rate, classes, lasts
        return {y: fsum(v * p[y] for v, p in zip(self.bank, by_rate, strict=True)) for y in classes}

    def learn(self, x: dict[str, Any], y: Label, w: float, key: Any) -> None:
        """Weigh what was predicted under `key`; then every expert learns."""
        given, by_rate, classes, lasts = self.then.pop(key)
        if y in classes:
            awake = [p[y] for p in given if p is not None]
            top = max(*awake, *(p[y] for p in by_rate))
            learned = lambda p: max((p[y] / top) ** w, self.floor / len(classes))  # noqa: E731
            for k, rate in enumerate(self.rates):
                likelihood = [learned(by_rate[k] if p is None else p) for p in given]
                self.bank[k] *= learned(by_rate[k])
                joint = [a * b for a, b in zip(self.under[k], likelihood, strict=True)]
                total = fsum(joint)
                n = len(joint)
                self.under[k] = [(1 - rate) * v / total + rate / n for v in joint]
            whole = fsum(self.bank)
            self.bank = [v / whole for v in self.bank]
        if y not in self.classes:
            self.classes.append(y)
        self.sums = [s + v for s, v in zip(self.sums, self.weights, strict=True)]
        for i, (expert, last) in enumerate(zip(self.experts, lasts, strict=True)):
            if isinstance(expert, SlowNoChange):
                expert.learn(y, w, last)
            elif i not in self.asleep:
                expert.learn_one(x, y, w)
        self.learned_by.append(set(range(len(self.experts))) - set(self.asleep))
        self.tick()

    def tick(self) -> None:
        """Count a label. At the end of a period decide who rests; the two guesses never do."""
        self.labels += 1
        if not self.period or self.labels % self.period:
            return
        for i in range(2, len(self.experts)) if self.labels >= self.first else ():
            left = self.asleep.pop(i, 0) - 1
            if self.sums[i] / self.period >= self.least:
                self.pause[i] = 1
            elif left > 0:
                self.asleep[i] = left
            elif left < 0:  # it was awake
                self.asleep[i] = self.pause[i]
                self.pause[i] = min(2 * self.pause[i], self.longest)
        self.sums = [0.0] * len(self.experts)

    def correct(self, x: dict[str, Any], old: Label, new: Label, age: int) -> None:
        """Replace a label after which `age` were learned; experts that cannot unlearn learn it."""
        taught = self.learned_by[len(self.learned_by) - 1 - age]
        self.learned_by.append(set())
        for i, expert in enumerate(self.experts):
            if isinstance(expert, SlowNoChange):
                expert.counts[old] -= 1.0
                expert.counts[new] = expert.counts.get(new, 0.5) + 1.0
                expert.last = new if age == 0 else expert.last
            elif i in taught:
                try:
                    expert.correct_rows(expert.rows([x]), (old, 1.0), (new, 1.0), age)
                except (NotLearnedError, NotSupportedError):
                    expert.learn_one(x, new)
            elif i not in self.asleep:
                expert.learn_one(x, new)
        self.tick()
