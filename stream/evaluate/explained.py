"""Execute a block step by step, to explain each prediction from the state that made it.

Rule: an explanation must not depend on the split into blocks, so it cannot use the state before or
after a block. The cost is one kernel call for each step instead of each block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream.data.block import LEARN, Block, Rows
from stream.data.schema import Dictionary
from stream.decision.label_frequency import of_classes
from stream.evaluate.result import by_code
from stream.join.plan import Silence
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation

__all__ = ["ExplainedPredictions", "ExplanationSettings", "explained_many", "run_explained"]

ExplainedPredictions = tuple[Predictions, list[Explanation | None] | None]


class ExplanationSettings(NamedTuple):
    """What explanations are made from, and their length.

    Attributes
    ----------
    raw
        The rows before the learner prepared them, so that texts still have their words.
    shares
        How many contributions each explanation keeps: the largest ones. All contributions of a
        block of long texts would need many times the memory of the texts.
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
        See `explained_many`.
    """
    explanations: list[Explanation | None] | None = None
    if why is None:
        predictions = learner.run(block)
    else:
        predictions, explanations = explained_many(learner, block, why)
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


def explained_many(
    learner: Learner, block: Block, why: ExplanationSettings
) -> tuple[Predictions, list[Explanation | None]]:
    """`learner.progressive_many(block)`, and an explanation for each predicting step.

    Parameters
    ----------
    block
        Its predicting steps refer to rows of `why`.

    Returns
    -------
    Predictions
        The same bits as from `progressive_many`.
    list of Explanation
        One for each prediction; None while fewer than two classes were known.
    """
    parts: list[Predictions] = []
    found: list[Explanation | None] = []
    for i, (op, row) in enumerate(zip(block.op.tolist(), block.row.tolist(), strict=True)):
        if op != LEARN:
            found.append(_explained(learner, why, row) if len(learner.classes) > 1 else None)
        parts.append(learner.run(block.slice(i, i + 1)))
    classes = learner.classes
    proba = np.zeros((len(found), len(classes)))
    known = np.zeros(len(found), dtype=np.int64)
    at = 0
    for part in parts:
        if len(part):
            proba[at, : part.proba.shape[1]] = part.proba[0]
            known[at] = part.known[0]
            at += 1
    return Predictions(classes, proba, known), found


def _explained(learner: Learner, why: ExplanationSettings, row: int) -> Explanation:
    return learner.explain_rows(why.raw.take(np.array([row]))).largest(why.shares)
