"""Execute a block, with explanations of its predictions if they are wanted, and silence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream.data.block import Block, Rows
from stream.data.schema import Dictionary
from stream.decision.label_frequency import of_classes
from stream.evaluate.result import by_code
from stream.join.plan import Silence
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation

__all__ = ["ExplainedPredictions", "ExplanationSettings", "run_explained"]

ExplainedPredictions = tuple[Predictions, list[Explanation | None] | None]


class ExplanationSettings(NamedTuple):
    """What explanations are made from, and their length.

    Attributes
    ----------
    raw, shares
        See `Learner.run_explained`.
    """

    raw: Rows
    shares: int


def run_explained(
    learner: Learner,
    block: Block,
    why: ExplanationSettings | None,
    labels: Dictionary,
    silence: Silence | None = None,
) -> ExplainedPredictions:
    """The predictions of a learner at the steps of a block, with explanations if `why` is given.

    `silence` is what silence means, if anything. Until its label was learned, nothing is predicted:
    a model that knows the reported classes only would decide for them always, and then silence
    would never count. Its label frequency corrects the predictions, and not the explanations.

    Returns
    -------
    Predictions
        With one column for each label of `labels`.
    list of Explanation, or None
        See `Learner.run_explained`.
    """
    explanations: list[Explanation | None] | None = None
    if why is None:
        predictions = learner.run(block)
    else:
        predictions, explanations = learner.run_explained(block, *why)
    made = by_code(predictions, labels)
    if silence is None:
        return made, explanations
    code = labels.codes.get(silence.label, len(labels))
    told = made.known > code
    if explanations is not None:
        explanations = [one if t else None for one, t in zip(explanations, told, strict=True)]
    proba = np.where(told[:, None], made.proba, 0.0)
    if silence.frequency < 1.0 and code < len(labels):
        proba = of_classes(proba, code, silence.frequency)
    return Predictions(made.classes, proba, np.where(told, made.known, 0)), explanations
