"""TargetEncoded, slowly: labels in plain dicts, and every sum made again for each prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from stream import Learner
from stream.mixture.target_encoded import names_of

__all__ = ["SlowTargetEncoded"]

Labels = list[tuple[int, Any, float]]  # number of the label, class, weight


class SlowTargetEncoded:
    """Each value has a list of its labels. What a record was predicted with is kept by its id."""

    def __init__(self, fields: Sequence[str], learner: Learner, max_categories: int) -> None:
        self.fields, self.learner, self.limit = list(fields), learner, max_categories
        self.classes: list[Any] = []
        self.labels: Labels = []
        self.of_value: dict[tuple[str, str], Labels] = {}
        self.waiting: dict[Any, dict[str, list[dict[Any, float]]]] = {}

    @property
    def encoded(self) -> list[str]:
        """Fields with more values than the limit."""
        learned = [field for field, _ in self.of_value]
        return [field for field in self.fields if learned.count(field) > self.limit]

    def weights(self, labels: Labels, half_life: float | None) -> dict[Any, float]:
        """The weight of each class among labels, faded."""
        now, out = len(self.labels), dict.fromkeys(self.classes, 0.0)
        for at, y, w in labels:
            out[y] += w * (1.0 if half_life is None else 0.5 ** ((now - at) / half_life))
        return out

    def shares(self, x: Mapping[str, Any]) -> dict[str, list[dict[Any, float]]]:
        """Of each field with a value, by all labels and by the newest: class to share."""
        out: dict[str, list[dict[Any, float]]] = {}
        for field in self.fields:
            if x.get(field) is not None:
                out[field] = []
                for half_life in (None, 100.0):
                    every = self.weights(self.labels, half_life)
                    own = self.weights(self.of_value.get((field, x[field]), []), half_life)
                    records = sum(every.values()) + len(self.classes)
                    odds = {c: own[c] / ((every[c] + 1.0) / records) + 4.0 for c in self.classes}
                    whole = sum(odds.values())
                    out[field].append({c: value / whole for c, value in odds.items()})
        return out

    def record(self, x: Mapping[str, Any], shares: Mapping[str, Any]) -> dict[str, Any]:
        """What the learner gets."""
        out = {name: value for name, value in x.items() if name not in self.encoded}
        for field in self.encoded:
            others = self.classes[1:9]
            columns = iter(names_of([field], others))
            for by in shares.get(field, []):
                for c in others:
                    name = next(columns)
                    if c in by:
                        out[name] = log(by[c] / by[self.classes[0]])
        return out

    def predict(self, x: Mapping[str, Any], id_: Any) -> dict[Any, float]:
        """The prediction of a record that waits for its label."""
        self.waiting[id_] = self.shares(x)
        return self.learner.predict_proba_one(self.record(x, self.waiting[id_]))

    def learn(self, x: Mapping[str, Any], y: Any, w: float, id_: Any) -> None:
        """Learn it with what it was predicted with; then count its label."""
        self.learner.learn_one(self.record(x, self.waiting.pop(id_)), y, w)
        if y not in self.classes:
            self.classes.append(y)
        label = (len(self.labels) + 1, y, w)
        self.labels.append(label)
        for field in self.fields:
            if x.get(field) is not None:
                self.of_value.setdefault((field, x[field]), []).append(label)
