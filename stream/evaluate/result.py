"""The result of one call: predictions, learned steps, alarms and promotions.

Rule: predictions have one column for each label that was ever learned, in the order of the join,
because the classes of a learner may change between two parts of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary, Label
from stream.decision.budget import Verdicts
from stream.drift.watch import Alarm
from stream.errors import Reason
from stream.join.plan import Refused
from stream.learner.base import Predictions
from stream.learner.predictions import Explanation, connected

__all__ = ["Promotion", "Result", "Timed", "Verification", "by_code", "joined"]


class Promotion(NamedTuple):
    """Another model became champion: which one, from which prediction on, and the evidence.

    `event`, an event of the call, decided it. Later predictions are made by the new champion.
    """

    prediction: int
    name: str
    e_value: float
    event: int


@dataclass(slots=True)
class Result:
    """The result of processing `Events`.

    Parameters
    ----------
    predictions
        One for each observation that was not rejected, in order.
    predicted
        Class codes of the predictions; -1 for none.
    learned
        Number of steps that learned. Corrections are not counted, because they unlearn as much.
    learned_before
        int64, one for each prediction: the number of steps that learned before it.
    rejected
        Event to the reason why its label was rejected. Such an observation has no prediction.
    refused
        Labels of earlier events that waited for their observation and were rejected when it came.
    explanations
        One for each prediction, if requested.
    champions
        First prediction of each champion, if there are several models; otherwise empty.
    promotions
        Changes of the champion in this call.
    alarms
        Drift alarms in order, each with its event.
    against
        bool, one for each prediction: whether it was decided otherwise than the label of silence
        asks. None without silence.
    verdicts
        What a budget of false positives decides. None without a budget.
    """

    predictions: Predictions
    predicted: NDArray[np.int64]
    learned: int
    learned_before: NDArray[np.int64]
    rejected: dict[int, Reason]
    refused: list[Refused] = field(default_factory=list)
    explanations: list[Explanation | None] | None = None
    champions: list[tuple[int, str]] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    against: NDArray[np.bool_] | None = None
    verdicts: Verdicts | None = None


def by_code(made: Predictions, labels: Dictionary) -> Predictions:
    """The predictions with one column for each label that was ever learned."""
    if made.classes == labels.values:
        return made
    at = np.array([labels.codes[label] for label in made.classes], dtype=np.int64)
    proba = np.zeros((len(made), len(labels)))
    proba[:, at] = made.proba
    known = np.append(np.int64(0), np.maximum.accumulate(at + 1))[made.known]
    even = None if made.even is None else np.zeros_like(proba)
    if even is not None and made.even is not None:
        even[:, at] = made.even
    return Predictions(list(labels), proba, known, even)


def joined(parts: list[Result], labels: list[Label]) -> Result:
    """Join the results of the parts of one call."""
    at = learned = 0
    before: list[NDArray[np.int64]] = []
    rejected: dict[int, Reason] = {}
    refused: list[Refused] = []
    why: list[Explanation | None] | None = None
    champions: list[tuple[int, str]] = []
    promotions: list[Promotion] = []
    for part in parts:
        champions += [(at + first, name) for first, name in part.champions]
        promotions += [p._replace(prediction=at + p.prediction) for p in part.promotions]
        at += len(part.predictions)
        before.append(part.learned_before + learned)
        learned += part.learned
        rejected |= part.rejected
        refused += part.refused
        if part.explanations is not None:
            why = [*(why or []), *part.explanations]
    predicted = np.concatenate([part.predicted for part in parts])
    made = connected([part.predictions for part in parts], labels)
    learned_before = np.concatenate(before)
    alarms = [alarm for part in parts for alarm in part.alarms]
    against = [p.against for p in parts if p.against is not None]
    decided = [p.verdicts for p in parts if p.verdicts is not None]
    both = (
        np.concatenate(against) if against else None,
        Verdicts(*map(np.concatenate, zip(*decided, strict=True))) if decided else None,
    )
    counts = (learned, learned_before, rejected, refused)
    return Result(made, predicted, *counts, why, champions, promotions, alarms, *both)


class Timed(NamedTuple):
    """A record with the time of its label.

    Parameters
    ----------
    number
        Its number, from 0; numbers rise.
    x, y, w
        Features, label and weight.
    moment, delay
        Its time, and the time from it to its label.
    """

    number: int
    x: Mapping[str, Any]
    y: Any
    w: float
    moment: Any
    delay: Any


@dataclass(frozen=True, slots=True)
class Verification:
    """The largest differences between our scores and those of river's loop.

    Parameters
    ----------
    records
        Records with a label, which river's loop predicted and learned. It leaves out the others,
        which change no score.
    scored
        Predictions that river's loop scored.
    compared
        Predictions that were compared probability by probability: the first ones, as many as are
        kept (2²³ probabilities). The scores always cover all.
    first
        Number of the first record, from 0, whose prediction differs; None if none differs.
    differences
        Of the `probability` of any class in any prediction, of any count of the `confusion` matrix,
        of `unscored`, and of each score by its id over all windows. Infinite if a score exists on
        one side only.
    """

    records: int
    scored: int
    compared: int
    first: int | None
    differences: Mapping[str, float]

    @property
    def largest(self) -> float:
        """The largest difference. 0 is expected."""
        return max(self.differences.values())
