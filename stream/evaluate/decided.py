"""Judge each decision when its label arrives.

Rule: a decision is a function of the posterior. The posterior of every observation that waits for
its label is kept, so the decision is recomputed from it and not stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT
from stream.decision import OverallRisk
from stream.evaluate.labelled import LabelledPredictions
from stream.evaluate.pending import either
from stream.learner.base import Predictions

__all__ = ["judge"]


def judge(
    risk: OverallRisk,
    made: LabelledPredictions,
    predictions: Predictions,
    predicted: NDArray[np.int64],
) -> None:
    """Add the decisions that get their labels in a block to the risk, in order.

    Call it before the block is scored, because scoring reuses the slots of labelled predictions.

    Parameters
    ----------
    made
        The predictions that get a label.
    predictions, predicted
        The predictions of this call, and their class codes; -1 for none.
    """
    block, waiting = made.block, made.waiting
    steps = np.flatnonzero(block.op != PREDICT)
    here, slots = made.answered(steps)
    proba = either(here, slots, predictions.proba, waiting.proba, len(predictions.classes))
    known = either(here, slots, predicted[:, None], waiting.predicted, 1)[:, 0] >= 0
    decisions = risk.rule.decide(predictions.classes, proba, known)
    risk.update_many([block.labels[code] for code in block.y[steps].tolist()], decisions)
