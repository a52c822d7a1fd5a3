"""Finds a wrongly predicted record and a later, very similar, rightly predicted one.

Rule: observation, published prediction and label are read from the topics. The later record was
predicted after the label of the first was learned, has the same true class, and is the most similar
one. This does not prove that the first record alone made the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream.data.schema import Label

__all__ = ["PredictedRecord", "Turn", "TurnSearch", "distance"]

MAX_WAITING = 100_000  # observations without a label; above it the oldest are evicted
MAX_WRONG = 24  # wrongly predicted records to compare with: the first ones
MAX_COMPARED = 20_000  # labels after which the search ends
_TEXT_WORDS = 4
CLOSE = 0.1  # of a number's range, within which two values count as close
_CLEARER = 0.05  # gain of probability by which an equally similar pair replaces the present one

Features = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PredictedRecord:
    """An observation and its prediction; `number` counts observations from 1."""

    number: int
    features: Features
    label: Label
    probabilities: tuple[tuple[Label, float], ...]
    learned: int

    def probability(self, label: Label) -> float:
        """The probability of a label; 0 if it is not among the most probable ones."""
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
        """Whether the two are similar: in at least half of their fields."""
        return 2 * self.near >= self.fields

    @property
    def gain(self) -> float:
        """The increase of the true label's probability."""
        return self.right.probability(self.truth) - self.wrong.probability(self.truth)

    @property
    def fields(self) -> int:
        """The number of their fields."""
        return len(self.wrong.features.keys() | self.right.features.keys())


class TurnSearch:
    """The search, record by record in the order of the topics.

    Attributes
    ----------
    best : Turn or None
        The most similar pair so far; among equally similar ones, a clear one.
    """

    def __init__(self) -> None:
        self.best: Turn | None = None
        self._features: dict[str, Features] = {}
        self._predicted: dict[str, PredictedRecord] = {}
        self._wrong: list[tuple[int, Label, PredictedRecord]] = []
        self._ranges: dict[str, tuple[float, float]] = {}
        self._observed = 0
        self._labelled = 0

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
        self._predicted[id] = PredictedRecord(
            self._observed, features, label, probabilities, learned
        )
        if len(self._predicted) > MAX_WAITING:
            del self._predicted[next(iter(self._predicted))]

    def answer(self, id: str, truth: object) -> None:  # noqa: A002
        """A label was published and learned."""
        self._labelled += 1
        prediction = self._predicted.pop(id, None)
        if prediction is None or self._labelled > MAX_COMPARED or not isinstance(truth, str | int):
            return
        if prediction.label == truth:
            for labelled, label, wrong in self._wrong:
                if label == truth and prediction.learned >= labelled:
                    self._consider(truth, wrong, prediction)
        elif len(self._wrong) < MAX_WRONG and truth in dict(prediction.probabilities):
            # A class that was not learned yet is not a fair example.
            self._wrong.append((self._labelled, truth, prediction))

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
