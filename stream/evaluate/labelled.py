"""Find the prediction of each labelled step: made in this call, or kept from an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats
from stream.evaluate.pending import PendingRows
from stream.learner.base import Predictions

__all__ = ["LabelledPredictions"]


class LabelledPredictions:
    """The predictions that the labels of a block belong to.

    Parameters
    ----------
    block
        The steps.
    slot
        int64, one for each step: the slot its row was fetched from; -1 for a row of this call.
    waiting
        Rows and predictions of earlier calls, by slot.
    unscored
        The steps that learn, although nobody gave their label, and are not scored.

    Notes
    -----
    Everything is computed on first use.
    """

    def __init__(
        self,
        block: Block,
        slot: NDArray[np.int64],
        waiting: PendingRows,
        unscored: Sequence[int] = (),
    ) -> None:
        self.block, self.slot, self.waiting, self._unscored = block, slot, waiting, unscored

    def scored(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The steps of a mask, one for each step, that are scored."""
        if self._unscored:
            which = which.copy()
            which[list(self._unscored)] = False
        return np.flatnonzero(which)

    @cached_property
    def predicting(self) -> NDArray[np.int64]:
        """The steps that predict, in the order of the predictions of this call."""
        return np.flatnonzero(self.block.op != LEARN)

    @cached_property
    def of_row(self) -> NDArray[np.int64]:
        """The index of the prediction of each row in this call; -1 if it was not predicted."""
        made = np.full(len(self.block.rows), -1, dtype=np.int64)
        made[self.block.row[self.predicting]] = np.arange(self.predicting.size)
        return made

    def answered(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each step, its prediction of this call, and the slot of its earlier prediction.

        One of the two is -1.
        """
        return self.of_row[self.block.row[steps]], self.slot[steps]

    def outcomes(
        self,
        steps: NDArray[np.int64],
        codes: NDArray[np.int64],
        predictions: Predictions,
        predicted: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """The true class of each step, the predicted one, and the probability of the true one.

        Call it before the block is scored, because scoring reuses the slots of labelled
        predictions.

        Parameters
        ----------
        steps
            int64, (k,): labelled steps.
        codes
            int64: label of the block to class code.
        predictions, predicted
            The predictions of this call, and their class codes; -1 for none.
        """
        waiting, true = self.waiting, codes[self.block.y[steps]]
        here, slot = self.answered(steps)
        fresh = slot < 0
        answer = np.where(fresh, _at(predicted, here), _at(waiting.predicted[:, 0], slot))
        p_true = np.where(fresh, _of(predictions.proba, here, true), _of(waiting.proba, slot, true))
        return true, answer, p_true


def _at(values: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """values[index]; -1 where the index is -1."""
    if not values.size:
        return np.full(index.size, -1, dtype=np.int64)
    return np.where(index >= 0, values[np.maximum(index, 0)], -1)


def _of(proba: Floats, row: NDArray[np.int64], column: NDArray[np.int64]) -> Floats:
    """proba[row, column]; 0 where the class had no column yet."""
    if not proba.size:
        return np.zeros(row.size)
    inside = (column < proba.shape[1]) & (row >= 0)
    found: Floats = proba[np.where(inside, row, 0), np.where(inside, column, 0)]
    return np.where(inside, found, 0.0)
