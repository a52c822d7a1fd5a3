"""Decisions, each judged as it was made when its label arrives.

Rule: a decision is a function of the posterior, and the posterior of every observation that waits
for its label is kept. So the decision made then is made again from it, never stored beside it.
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
    risk: OverallRisk, made: LabelledPredictions, predictions: Predictions, said: NDArray[np.int64]
) -> None:
    """Add the decisions that the labels of a block answer to the risk, in order.

    Call it before the block is scored: scoring gives the slots of answered predictions to new ones.

    Parameters
    ----------
    made
        Which predictions are answered.
    predictions, said
        Those of this call, and their class codes, -1 for none.
    """
    block, waiting = made.block, made.waiting
    steps = np.flatnonzero(block.op != PREDICT)
    here, slots = made.answered(steps)
    proba = either(here, slots, predictions.proba, waiting.proba, len(predictions.classes))
    known = either(here, slots, said[:, None], waiting.said, 1)[:, 0] >= 0
    decisions = risk.rule.decide(predictions.classes, proba, known)
    risk.update_many([block.labels[code] for code in block.y[steps].tolist()], decisions)
