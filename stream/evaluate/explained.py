"""A block executed step by step: each prediction is explained by the state it was made from.

Rule: an explanation must not depend on how records were cut into blocks, so it cannot be made of
the state before or after one. The price is a kernel call a step instead of a block.
"""

from __future__ import annotations

import numpy as np

from stream.base import Learner, Predictions
from stream.block import LEARN, Block, Rows
from stream.explain import Explanation

__all__ = ["explained_many"]


def explained_many(
    learner: Learner, block: Block, raw: Rows
) -> tuple[Predictions, list[Explanation | None]]:
    """`learner.progressive_many(block)`, and why, for each predicting step.

    Parameters
    ----------
    block
        Its predicting steps name rows of `raw`.
    raw
        The rows as they were before the learner prepared them: texts still have their words.

    Returns
    -------
    Predictions
        The bits of `progressive_many`.
    list of Explanation
        One a prediction; None while fewer than two classes were known.
    """
    parts: list[Predictions] = []
    why: list[Explanation | None] = []
    for i, (op, row) in enumerate(zip(block.op.tolist(), block.row.tolist(), strict=True)):
        if op != LEARN:
            two = len(learner.classes) > 1
            why.append(learner.explain_rows(raw.take(np.array([row]))) if two else None)
        parts.append(learner.progressive_many(block.slice(i, i + 1)))
    classes = learner.classes
    proba = np.zeros((len(why), len(classes)))
    known = np.zeros(len(why), dtype=np.int64)
    at = 0
    for part in parts:
        if len(part):
            proba[at, : part.proba.shape[1]] = part.proba[0]
            known[at] = part.known[0]
            at += 1
    return Predictions(classes, proba, known), why
