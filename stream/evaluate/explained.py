"""Execute a block, with explanations of its predictions if they are wanted, and silence."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Rows
from stream.data.schema import Dictionary
from stream.decision.label_frequency import of_classes
from stream.evaluate.result import by_code
from stream.join.silence import Silence
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation
from stream.learner.predictions import connected

__all__ = ["ExplainedPredictions", "ExplanationSettings", "run_explained"]

ExplainedPredictions = tuple[Predictions, list[Explanation | None] | None]


class ExplanationSettings(NamedTuple):
    """What explanations are made from, and their length.

    Attributes
    ----------
    raw, shares
        See `Learner.run_explained`.
    only
        bool, one for each row: whether its prediction is explained. None: each is.
    """

    raw: Rows
    shares: int
    only: NDArray[np.bool_] | None = None

    def take(self, at: NDArray[np.int64]) -> Self:
        """The same for these rows."""
        only = None if self.only is None else self.only[at]
        return self._replace(raw=self.raw.take(at), only=only)


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
    elif why.only is None:
        predictions, explanations = learner.run_explained(block, why.raw, why.shares)
    else:
        predictions, explanations = _explained_in_part(learner, block, why, why.only)
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
    return replace(made, proba=proba, known=np.where(told, made.known, 0)), explanations


def _explained_in_part(
    learner: Learner, block: Block, why: ExplanationSettings, only: NDArray[np.bool_]
) -> tuple[Predictions, list[Explanation | None]]:
    """`Learner.run_explained` of the rows in `only`; the steps between them run as blocks."""
    predicting = np.flatnonzero(block.op != LEARN)
    parts: list[Predictions] = []
    found: list[Explanation | None] = []
    start = 0
    for step in predicting[only[block.row[predicting]]].tolist():
        parts.append(learner.run(block.slice(start, step)))
        found += [None] * len(parts[-1])
        part, whys = learner.run_explained(block.slice(step, step + 1), why.raw, why.shares)
        parts.append(part)
        found += whys
        start = step + 1
    parts.append(learner.run(block.slice(start, len(block))))
    found += [None] * len(parts[-1])
    return connected(parts, learner.classes), found
