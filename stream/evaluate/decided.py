"""Judge each decision when its label arrives.

Rule: a decision is a function of the posterior. The posterior of every observation that waits for
its label is kept, so the decision is recomputed from it and not stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT
from stream.data.schema import Label
from stream.decision import BayesDecision, OverallRisk
from stream.evaluate.labelled import LabelledPredictions
from stream.evaluate.pending import either
from stream.join.plan import Plan
from stream.learner.base import Predictions

__all__ = ["flagged", "judge"]


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
    steps = made.scored(block.op != PREDICT)
    here, slots = made.answered(steps)
    proba = either(here, slots, predictions.proba, waiting.proba, len(predictions.classes))
    known = either(here, slots, predicted[:, None], waiting.predicted, 1)[:, 0] >= 0
    decisions = risk.rule.decide(predictions.classes, proba, known)
    risk.update_many([block.labels[code] for code in block.y[steps].tolist()], decisions)


def flagged(
    plan: Plan,
    made: LabelledPredictions,
    predictions: Predictions,
    predicted: NDArray[np.int64],
    label: Label,
    rule: BayesDecision | None,
) -> list[str]:
    """The ids of `plan.asked` that were decided otherwise than the label of silence asks.

    Without a rule the decision is the predicted class. With a rule it is the action, and the
    actions for a label are those of least loss if it is true. A rejection, and a prediction before
    the first label, decide nothing.
    """
    if not plan.asked:
        return []
    if rule is None:
        usual = [code for code, name in enumerate(predictions.classes) if name == label]
        other = (predicted >= 0) & ~np.isin(predicted, usual)
    else:
        done = rule.decide(predictions.classes, predictions.proba, predicted >= 0)
        usual = rule.actions_for(label, done.actions)
        other = (done.chosen >= 0) & ~np.isin(done.chosen, usual)
    of_step = np.full(len(made.block), -1, dtype=np.int64)
    of_step[made.predicting] = np.arange(made.predicting.size)
    return [id_ for id_, steps in plan.asked.items() if other[of_step[steps]].any()]
