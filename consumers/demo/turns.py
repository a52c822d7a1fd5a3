"""Finds one record the model got wrong and a later, very similar one that it got right.

Rule: everything comes from the topics: the observation, the prediction as it was published, the
label. The later one was predicted after the label of the first was learned, has the same true
class, and is the most similar of those; nothing says that the first one alone made the
difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream.data.schema import Label

__all__ = ["PredictedRecord", "Turn", "TurnSearch", "distance"]

MAX_WAITING = 100_000  # observations whose label may still come; beyond it the oldest go
MAX_WRONG = 24  # wrong ones that are kept for comparison: the first ones
MAX_COMPARED = 20_000  # labels after which the search ends
_TEXT_WORDS = 4
CLOSE = 0.1  # of a number's range: so near that a person calls two values alike
_CLEARER = 0.05  # an equally similar pair is shown instead only if it is clearer by so much

Features = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PredictedRecord:
    """An observation and what was said of it; `number` counts observations from 1."""

    number: int
    features: Features
    label: Label
    probabilities: tuple[tuple[Label, float], ...]
    learned: int

    def probability(self, label: Label) -> float:
        """What it gave to a label; 0 where the label is not among the most probable."""
        return dict(self.probabilities).get(label, 0.0)


@dataclass(frozen=True, slots=True)
class Turn:
    """A wrong prediction, a right one of a similar record, and how similar: 0 is equal.

    `near` counts the fields that are equal or close.
    """

    truth: Label
    wrong: PredictedRecord
    right: PredictedRecord
    distance: float
    near: int

    @property
    def alike(self) -> bool:
        """Whether the two may be called similar: in half of their fields at least."""
        return 2 * self.near >= self.fields

    @property
    def gain(self) -> float:
        """By how much the probability of the truth rose."""
        return self.right.probability(self.truth) - self.wrong.probability(self.truth)

    @property
    def fields(self) -> int:
        """How many fields the two have."""
        return len(self.wrong.features.keys() | self.right.features.keys())


class TurnSearch:
    """The search, fed record by record as the topics have them.

    Attributes
    ----------
    best : Turn or None
        The most similar pair so far; of equally similar ones a clear one.
    """

    def __init__(self) -> None:
        self.best: Turn | None = None
        self._features: dict[str, Features] = {}
        self._said: dict[str, PredictedRecord] = {}
        self._wrong: list[tuple[int, Label, PredictedRecord]] = []
        self._ranges: dict[str, tuple[float, float]] = {}
        self._observed = 0
        self._told = 0

    def observe(self, id: str, features: Features) -> None:  # noqa: A002
        """An observation was published."""
        self._features[id] = features
        if len(self._features) > MAX_WAITING:
            del self._features[next(iter(self._features))]
        for name, value in features.items():
            if _is_number(value):
                low, high = self._ranges.get(name, (value, value))
                self._ranges[name] = (min(low, value), max(high, value))

    def predict(
        self,
        id: str,  # noqa: A002
        label: Label | None,
        probabilities: tuple[tuple[Label, float], ...],
        learned: int,
    ) -> None:
        """A prediction was published."""
        self._observed += 1
        features = self._features.pop(id, None)
        if label is None or features is None:
            return
        self._said[id] = PredictedRecord(self._observed, features, label, probabilities, learned)
        if len(self._said) > MAX_WAITING:
            del self._said[next(iter(self._said))]

    def answer(self, id: str, truth: object) -> None:  # noqa: A002
        """A label was published and learned."""
        self._told += 1
        said = self._said.pop(id, None)
        if said is None or self._told > MAX_COMPARED or not isinstance(truth, str | int):
            return
        if said.label == truth:
            for told, label, wrong in self._wrong:
                if label == truth and said.learned >= told:
                    self._consider(truth, wrong, said)
        elif len(self._wrong) < MAX_WRONG and truth in dict(said.probabilities):
            # A class it had never heard of would be no fair example.
            self._wrong.append((self._told, truth, said))

    def _consider(self, truth: Label, wrong: PredictedRecord, right: PredictedRecord) -> None:
        a, b, ranges = wrong.features, right.features, self._ranges
        far = (_difference(a.get(name), b.get(name), ranges.get(name)) for name in a.keys() | b)
        near = sum(1 for difference in far if difference <= CLOSE)
        new = Turn(truth, wrong, right, distance(a, b, ranges), near)
        best = self.best
        if (
            best is None
            or new.distance < best.distance
            or (new.distance == best.distance and new.gain > best.gain + _CLEARER)
        ):
            self.best = new


def distance(a: Features, b: Features, ranges: Mapping[str, tuple[float, float]]) -> float:
    """Gower's distance, 0 to 1: the mean over the fields, numbers relative to their range.

    Examples
    --------
    >>> distance({"x": 1, "c": "red"}, {"x": 3, "c": "red"}, {"x": (0, 4)})
    0.25
    """
    names = a.keys() | b.keys()
    total = sum(_difference(a.get(name), b.get(name), ranges.get(name)) for name in names)
    return total / len(names) if names else 0.0


def _difference(a: Any, b: Any, extent: tuple[float, float] | None) -> float:
    if a == b:
        return 0.0
    if _is_number(a) and _is_number(b):
        low, high = extent or (min(a, b), max(a, b))
        return min(abs(a - b) / (high - low), 1.0) if high > low else 1.0
    if isinstance(a, str) and isinstance(b, str) and len(a.split()) >= _TEXT_WORDS:
        mine, other = set(a.lower().split()), set(b.lower().split())
        return 1 - len(mine & other) / len(mine | other)
    return 1.0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
