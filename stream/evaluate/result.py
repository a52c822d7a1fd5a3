"""What came of one call: the result of its steps, and of several parts as one.

Rule: predictions have a column a label that was ever learned, in the order of the join. A learner's
own classes may change between two parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary, Label
from stream.drift.monitor import Alarm
from stream.errors import Reason
from stream.join.plan import Refused
from stream.learner.base import Predictions
from stream.learner.explain import Explanation

__all__ = ["Promotion", "Result", "by_code", "joined"]


class Promotion(NamedTuple):
    """Another model became champion: from which prediction on, which one, by what evidence.

    `event`, of the call, decided it: what comes behind it is the new champion's.
    """

    prediction: int
    name: str
    e_value: float
    event: int


@dataclass(slots=True)
class Result:
    """What came of `Events`.

    Parameters
    ----------
    predictions
        One an observation that was not rejected, in order.
    said
        Their class codes, -1 for none.
    learned
        How many steps learned; a correction, which takes back as much, is none.
    learned_before
        int64, one a prediction: how many of them before it.
    rejected
        Event to the reason its label was refused; such an observation has no prediction.
    refused
        Labels of events before that waited for their observation and were refused when it came.
    explanations
        One a prediction, where they were asked for.
    speakers
        From which prediction on who speaks, of several models; empty where there is but one.
    promotions
        Who became champion meanwhile.
    alarms
        Of drift, in order; each at its event.
    """

    predictions: Predictions
    said: NDArray[np.int64]
    learned: int
    learned_before: NDArray[np.int64]
    rejected: dict[int, Reason]
    refused: list[Refused] = field(default_factory=list)
    explanations: list[Explanation | None] | None = None
    speakers: list[tuple[int, str]] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)


def by_code(made: Predictions, labels: Dictionary) -> Predictions:
    """The predictions with a column a label that was ever learned."""
    if made.classes == labels.values:
        return made
    at = np.array([labels.codes[label] for label in made.classes], dtype=np.int64)
    proba = np.zeros((len(made), len(labels)))
    proba[:, at] = made.proba
    known = np.append(np.int64(0), np.maximum.accumulate(at + 1))[made.known]
    return Predictions(list(labels), proba, known)


def joined(parts: list[Result], labels: list[Label]) -> Result:
    """The results of one call's parts as one."""
    n = sum(len(part.predictions) for part in parts)
    proba, at, learned = np.zeros((n, len(labels))), 0, 0
    before: list[NDArray[np.int64]] = []
    rejected: dict[int, Reason] = {}
    refused: list[Refused] = []
    why: list[Explanation | None] | None = None
    speakers: list[tuple[int, str]] = []
    promotions: list[Promotion] = []
    for part in parts:
        made = part.predictions
        speakers += [(at + first, name) for first, name in part.speakers]
        promotions += [p._replace(prediction=at + p.prediction) for p in part.promotions]
        proba[at : at + len(made), : made.proba.shape[1]] = made.proba
        at += len(made)
        before.append(part.learned_before + learned)
        learned += part.learned
        rejected |= part.rejected
        refused += part.refused
        if part.explanations is not None:
            why = [*(why or []), *part.explanations]
    known = np.concatenate([part.predictions.known for part in parts])
    said = np.concatenate([part.said for part in parts])
    made = Predictions(labels, proba, known)
    learned_before = np.concatenate(before)
    alarms = [alarm for part in parts for alarm in part.alarms]
    counts = (learned, learned_before, rejected, refused)
    return Result(made, said, *counts, why, speakers, promotions, alarms)
