"""What the predictions must say: one record after the other, by the learner's one-record calls.

Rule: of the code under test only `stream`'s learner, and of that none of the block forms the
service runs; the join is three dictionaries. Bounds and horizon are never reached here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from stream.base import Learner
from tests.faults.checker import Place
from tests.faults.seen import Seen

__all__ = ["predicted_by"]


def predicted_by(
    make: Callable[[], Learner], features: Collection[str], observations: str
) -> Callable[[list[Seen], Collection[Place]], Mapping[Place, Mapping[str, Any]]]:
    """An oracle of the checker for a model over these features."""

    def oracle(records: list[Seen], dead: Collection[Place]) -> Mapping[Place, Mapping[str, Any]]:
        learner, learned = make(), 0
        waiting: dict[str, dict[str, Any]] = {}
        early: dict[str, Any] = {}
        settled: set[str] = set()
        said: dict[Place, Mapping[str, Any]] = {}

        def learn(id_: str, x: dict[str, Any], label: Any) -> None:
            nonlocal learned
            learner.learn_one(x, label)
            learned += 1
            settled.add(id_)

        for record in records:
            place = Place(record.topic, record.partition, record.offset)
            if place in dead:
                continue
            try:
                told = json.loads(record.value or b"null")
            except ValueError:
                continue  # that its dead letter is missing, another check tells
            if not isinstance(told, dict):
                continue
            id_ = str(told["id"])
            if record.topic != observations:
                if id_ in waiting:
                    learn(id_, waiting.pop(id_), told["label"])
                elif id_ not in settled:
                    early.setdefault(id_, told["label"])
                continue
            x = {name: told[name] for name in features if name in told}
            proba = learner.predict_proba_one(x)
            ordered = sorted(proba.items(), key=lambda pair: -pair[1])
            said[place] = {
                "id": id_,
                "prediction": ordered[0][0] if ordered else None,
                "probabilities": [list(pair) for pair in ordered],
                "learned": learned,
            }
            if id_ in waiting or id_ in settled:
                continue
            if id_ in early:
                learn(id_, x, early.pop(id_))
            else:
                waiting[id_] = x
        return said

    return oracle
