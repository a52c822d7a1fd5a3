"""Judge each decision when its label arrives.

Rule: a decision is a function of the posterior. The posterior of every observation that waits for
its label is kept, so the decision is recomputed from it and not stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT
from stream.data.schema import Label
from stream.decision import BayesDecision, FalsePositiveBudget, OverallRisk
from stream.decision.budget import (
    EVIDENCE,
    FLAGGED_LABEL,
    NO_LABEL,
    OTHER_LABEL,
    Verdicts,
    column,
)
from stream.decision.risk import named
from stream.evaluate.labelled import LabelledPredictions
from stream.evaluate.pending import either
from stream.join.join import LabelJoin
from stream.join.plan import Plan
from stream.learner.base import Predictions

__all__ = ["against", "judge", "object_to", "within"]


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


def against(
    predictions: Predictions,
    predicted: NDArray[np.int64],
    label: Label,
    rule: BayesDecision | None,
) -> NDArray[np.bool_]:
    """Which predictions were decided otherwise than the label of silence asks.

    Without a rule the decision is the predicted class. With a rule it is the action, and the
    actions for a label are those of least loss if it is true. A rejection, and a prediction before
    the first label, decide nothing.
    """
    if rule is None:
        usual = [code for code, name in enumerate(predictions.classes) if name == label]
        return (predicted >= 0) & ~np.isin(predicted, usual)
    done = rule.decide(predictions.classes, predictions.proba, predicted >= 0)
    usual = rule.actions_for(label, done.actions)
    return (done.chosen >= 0) & ~np.isin(done.chosen, usual)


def object_to(
    join: LabelJoin, plan: Plan, made: LabelledPredictions, other: NDArray[np.bool_]
) -> None:
    """Silence is void for the ids that wait and have a prediction in `other`, which has one value
    for each prediction."""
    of_step = np.full(len(made.block), -1, dtype=np.int64)
    of_step[made.predicting] = np.arange(made.predicting.size)
    entries, steps = plan.asked()
    join.state.flag(entries[other[of_step[steps]]])


def within(
    budget: FalsePositiveBudget, made: LabelledPredictions, predictions: Predictions
) -> Verdicts:
    """The verdicts on the predictions of a block; the labels of the block are its evidence.

    A prediction that was made before the flagged label was known is no evidence, because its
    probability of 0 says nothing about the model. Nor is one before `min_learned` labels.

    Call it before the block is scored, because scoring reuses the slots of labelled predictions.
    """
    block, waiting, rule = made.block, made.waiting, budget.rule
    predicts = np.full(len(block), -1, dtype=np.int64)
    predicts[made.predicting] = np.arange(made.predicting.size)
    steps = np.flatnonzero(block.op != PREDICT)
    here, slots = made.answered(steps)
    source = np.full(len(block), -1, dtype=np.int64)
    source[steps] = here
    waited, at = steps[slots >= 0], slots[slots >= 0]
    classes, width = predictions.classes, len(predictions.classes)
    known = np.arange(width) < predictions.known[:, None]
    # Prior shares of labels that were not known then are 0.
    told = either(here, slots, known.astype(np.float64), waiting.prior, width) > 0.0
    others = np.array([named(label) != rule.label for label in block.labels], dtype=np.bool_)
    labels = np.full(len(block), NO_LABEL, dtype=np.int64)
    other = np.where(column(rule, classes, told), EVIDENCE, OTHER_LABEL)
    labels[steps] = np.where(others[block.y[steps]], other, FLAGGED_LABEL)
    then = np.zeros(len(block))
    before, early = (np.zeros(len(block), dtype=np.bool_) for _ in range(2))
    then[waited] = waiting.judged[at]
    before[waited], early[waited] = waiting.flagged[at], waiting.early[at]
    now = column(rule, classes, predictions.judged)
    return budget.follow(predicts, now, labels, source, (then, before, early))
