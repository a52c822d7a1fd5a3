"""What the predictions must say: one record after the other, by the learner's one-record calls.

Rule: of the code under test only `stream`'s learner, and of that none of the block forms the
service runs; the join is three dictionaries. A rollback takes back a copy that was kept of all of
it. Bounds and horizon are never reached here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from stream.errors import NotLearnedError
from stream.learner.base import Learner
from tests.faults.checker import Entry, Place
from tests.faults.seen import Seen

__all__ = ["predicted_by"]


@dataclass
class _Model:
    """A learner and its join, as the words of their documentation have it."""

    learner: Learner
    corrections: bool
    learned: int = 0
    waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    early: dict[str, Any] = field(default_factory=dict)
    settled: dict[str, tuple[dict[str, Any], Any]] = field(default_factory=dict)

    def learn(self, id_: str, x: dict[str, Any], label: Any) -> None:
        """The first label of an observation."""
        self.learner.learn_one(x, label)
        self.learned += 1
        self.settled[id_] = x, label

    def observe(self, id_: str, x: dict[str, Any]) -> Mapping[str, Any]:
        """Predict first; then learn, if the label was here before."""
        proba = self.learner.predict_proba_one(x)
        ordered = sorted(proba.items(), key=lambda pair: -pair[1])
        said = {
            "id": id_,
            "prediction": ordered[0][0] if ordered else None,
            "probabilities": [list(pair) for pair in ordered],
            "learned": self.learned,
        }
        if id_ in self.early:
            self.learn(id_, x, self.early.pop(id_))
        elif id_ not in self.waiting and id_ not in self.settled:
            self.waiting[id_] = x
        return said

    def answer(self, id_: str, label: Any) -> None:
        """The first label counts; another one after it only as a correction."""
        if id_ in self.waiting:
            self.learn(id_, self.waiting.pop(id_), label)
        elif id_ not in self.settled:
            self.early.setdefault(id_, label)
        elif self.corrections and label != self.settled[id_][1]:
            x, old = self.settled[id_]
            try:
                self.learner.unlearn_one(x, old)
            except NotLearnedError:
                return
            self.learner.learn_one(x, label)
            self.settled[id_] = x, label


def predicted_by(
    make: Callable[[], Learner],
    features: Collection[str],
    observations: str,
    *,
    corrections: bool = False,
) -> Callable[[Sequence[Entry], Collection[Place]], Mapping[Place, Mapping[str, Any]]]:
    """An oracle of the checker for a model over these features."""

    def oracle(
        entries: Sequence[Entry], dead: Collection[Place]
    ) -> Mapping[Place, Mapping[str, Any]]:
        model = _Model(make(), corrections)
        returned_to = {entry.back_to for entry in entries}
        kept = {0: deepcopy(model)}
        said: dict[Place, Mapping[str, Any]] = {}
        for entry in entries:
            if entry.back_to is not None:
                model = deepcopy(kept.get(entry.back_to, model))  # else the journal is wrong
            for record in entry.records:
                place = Place(record.topic, record.partition, record.offset)
                told = None if place in dead else _told(record)
                if told is None:
                    continue
                if record.topic != observations:
                    model.answer(str(told["id"]), told["label"])
                else:
                    x = {name: told[name] for name in features if name in told}
                    said[place] = model.observe(str(told["id"]), x)
            if entry.seq in returned_to:
                kept[entry.seq] = deepcopy(model)
        return said

    return oracle


def _told(record: Seen) -> dict[str, Any] | None:
    """What a record says; that a broken one's dead letter is missing, another check tells."""
    try:
        told = json.loads(record.value or b"null")
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
