"""A block executed step by step: each prediction is explained by the state it was made from.

Rule: an explanation must not depend on how records were cut into blocks, so it cannot be made of
the state before or after one. The price is a kernel call a step instead of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream.data.block import LEARN, Block, Rows
from stream.data.schema import Dictionary
from stream.evaluate.result import by_code
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation

__all__ = ["ExplanationSettings", "Said", "explained_many", "said"]

Said = tuple[Predictions, list[Explanation | None] | None]


class ExplanationSettings(NamedTuple):
    """What explanations are made of, and how long they are.

    Attributes
    ----------
    raw
        The rows as they were before the learner prepared them: texts still have their words.
    shares
        How many contributions each keeps, the largest: all of them, of a block of long texts, would
        take many times the bytes of the texts.
    """

    raw: Rows
    shares: int


def said(
    learner: Learner, block: Block, why: ExplanationSettings | None, labels: Dictionary
) -> Said:
    """What a learner says at the steps of a block, and with `why` the reasons.

    Returns
    -------
    Predictions
        With a column a label of `labels`.
    list of Explanation, or None
        See `explained_many`.
    """
    if why is None:
        return by_code(learner.run(block), labels), None
    predictions, explanations = explained_many(learner, block, why)
    return by_code(predictions, labels), explanations


def explained_many(
    learner: Learner, block: Block, why: ExplanationSettings
) -> tuple[Predictions, list[Explanation | None]]:
    """`learner.progressive_many(block)`, and why, for each predicting step.

    Parameters
    ----------
    block
        Its predicting steps name rows of `why`.

    Returns
    -------
    Predictions
        The bits of `progressive_many`.
    list of Explanation
        One a prediction; None while fewer than two classes were known.
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
