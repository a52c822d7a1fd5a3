"""Estimate the accuracy of predictions without a label, and the error of that estimate.

Rule: whole numbers only. A probability is counted in units of 2⁻³². So additions and subtractions
are exact in any order, rounding errors do not accumulate, and any split of the stream gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Floats
from stream.data.state import Saved, State
from stream.evaluate.pending import LabelledPredictions
from stream.join.plan import RowChanges
from stream.learner.base import Predictions

__all__ = ["LAST", "AccuracyEstimate", "EstimateView"]

LAST = 1000
UNIT = 2.0**32

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EstimateView:
    """A frozen copy of the estimate.

    Parameters
    ----------
    accuracy
        Estimated accuracy of the predictions that wait for a label; None if none waits.
    waiting
        How many predictions wait.
    errors
        Window (`all`, `last_1000`) to the error of the same estimate on predictions that have
        waited and are labelled now: the estimate minus their true accuracy; None before the first
        one.
    """

    accuracy: float | None = None
    waiting: int = 0
    errors: Mapping[str, float | None] = field(default_factory=dict)


class AccuracyEstimate:
    """The accuracy of predictions without a label, estimated from their own probabilities.

    The estimate is the mean probability of the predicted class: if a calibrated model predicts with
    80 %, 80 % of these predictions are right. Predictions that are labelled later show how far this
    holds: `errors` is their estimate minus their true accuracy. An overconfident model, such as
    naive Bayes on dependent features, has an error far above 0.

    Notes
    -----
    O(1) for each prediction and label. Memory: a ring of 1,000 labelled predictions. Predictions
    without a class are left out, as in the scores.

    The estimate assumes that records without a label resemble those with one, both in their
    features and in the relation of features to classes. It is not valid if that relation changes
    [1]_.

    References
    ----------
    .. [1] Garg, Balakrishnan, Lipton, Neyshabur, Sedghi: Leveraging Unlabeled Data to Predict
       Out-of-Distribution Performance, ICLR 2022 (there: average confidence).

    Examples
    --------
    >>> estimate = AccuracyEstimate()
    >>> estimate.begin(np.array([0, 1]), np.array([0.75, 0.5]))
    >>> estimate.view().accuracy
    0.625
    >>> estimate.end(np.array([0]), np.array([0.75]))
    >>> estimate.judge(np.array([1]), np.array([0]), np.array([0.75]))
    >>> estimate.view().accuracy, estimate.view().errors["all"]
    (0.5, 0.75)
    """

    def __init__(self) -> None:
        self._sum = 0
        self._waiting = 0
        self._judged = [0, 0, 0]  # count, probabilities, right ones; since the start
        self._ring = np.zeros((LAST, 3), dtype=np.int64)  # of each of the last ones
        self._at = 0

    def follow(
        self,
        changes: RowChanges,
        made: LabelledPredictions,
        predictions: Predictions,
        predicted: Codes,
    ) -> None:
        """Update the estimate for the steps of a plan. Call it before the slots of labelled rows
        are reused.

        Parameters
        ----------
        changes, made
            What becomes of rows, and the predictions that labels belong to.
        predictions, predicted
            The predictions of this call, and their class codes.
        """
        block, waiting = made.block, made.waiting
        labelled = made.scored(block.op == LEARN)
        ended, began = changes.ended, made.of_row[changes.row[changes.began]]
        if not (labelled.size or began.size or ended.size):
            return
        self.end(*_sure(waiting.predicted.array[ended, 0], waiting.proba.array[ended]))
        self.begin(*_sure(predicted[began], predictions.proba[began]))

        codes = {label: code for code, label in enumerate(predictions.classes)}
        code = np.array([codes.get(label, -1) for label in block.labels], dtype=np.int64)
        here, slots = made.answered(labelled)
        fresh = slots < 0
        then, sure = np.empty(labelled.size, dtype=np.int64), np.empty(labelled.size)
        then[fresh], sure[fresh] = _sure(predicted[here[fresh]], predictions.proba[here[fresh]])
        before = slots[~fresh]
        then[~fresh], sure[~fresh] = _sure(
            waiting.predicted.array[before, 0], waiting.proba.array[before]
        )
        self.judge(code[block.y[labelled]], then, sure)

    def begin(self, predicted: Codes, sure: Floats) -> None:
        """Predictions begin to wait.

        Parameters
        ----------
        predicted
            int64, (k,): class codes; -1 for none.
        sure
            float64, (k,): the probability of that class.
        """
        units, named = _units(predicted, sure)
        self._sum += int(units.sum())
        self._waiting += int(np.count_nonzero(named))

    def end(self, predicted: Codes, sure: Floats) -> None:
        """Predictions stop waiting, with a label or without. Arguments as for `begin`."""
        units, named = _units(predicted, sure)
        self._sum -= int(units.sum())
        self._waiting -= int(np.count_nonzero(named))

    def judge(self, true: Codes, predicted: Codes, sure: Floats) -> None:
        """Labels of predictions that had waited, in order of arrival.

        Parameters
        ----------
        true
            int64, (k,): class codes of the labels.
        predicted, sure
            As for `begin`.
        """
        units, named = _units(predicted, sure)
        new = np.column_stack((named, units, named & (true == predicted)))[named].astype(np.int64)
        for i, total in enumerate(new.sum(axis=0).tolist()):
            self._judged[i] += total
        last = new[-LAST:]
        at = (self._at + len(new) - len(last) + np.arange(len(last))) % LAST
        self._ring[at] = last
        self._at = (self._at + len(new)) % LAST

    def view(self) -> EstimateView:
        """A frozen copy. O(1,000)."""
        accuracy = self._sum / UNIT / self._waiting if self._waiting else None
        last = self._ring.sum(axis=0).tolist()
        errors = {"all": _error(self._judged), "last_1000": _error(last)}
        return EstimateView(accuracy, self._waiting, errors)

    def to_state(self) -> State:
        """A copy of the whole state."""
        header = {
            "sum": self._sum,
            "waiting": self._waiting,
            "judged": list(self._judged),
            "at": self._at,
        }
        return State(header, {"ring": self._ring}).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved."""
        header = state.header
        self._sum, self._waiting, self._at = header["sum"], header["waiting"], header["at"]
        self._judged = list(header["judged"])
        self._ring = state.read({"ring": Saved(np.int64, self._ring.shape)})["ring"]


def _sure(predicted: Codes, proba: Floats) -> tuple[Codes, Floats]:
    """The class codes, and the probability of each; 0 for no class."""
    sure = np.zeros(predicted.size)
    at = np.flatnonzero(predicted >= 0)
    sure[at] = proba[at, predicted[at]]
    return predicted, sure


def _units(predicted: Codes, sure: Floats) -> tuple[Codes, NDArray[np.bool_]]:
    """The probability in units of 2⁻³² (0 for no class), and whether there was a class."""
    named = predicted >= 0
    # A foreign learner, or a changed state, may have values that are not probabilities. Above 1
    # they would not fit an integer, and NaN would stay in the sum permanently.
    sure = np.clip(np.where(named & ~np.isnan(sure), sure, 0.0), 0.0, 1.0)
    # A power of two only changes the exponent, and rint is exact: same units on every machine.
    return np.rint(sure * UNIT).astype(np.int64), named


def _error(judged: list[int]) -> float | None:
    n, units, right = judged
    return (units / UNIT - right) / n if n else None
