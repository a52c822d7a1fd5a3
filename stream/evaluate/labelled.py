"""Where the prediction of each step is: made in this call, or kept since an earlier one."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block
from stream.evaluate.pending import PendingRows

__all__ = ["LabelledPredictions"]


class LabelledPredictions:
    """The predictions that the labels of a block answer.

    Parameters
    ----------
    block
        The steps.
    slot
        int64, a step: the slot its row was fetched from; -1 for a row of this call.
    waiting
        What was predicted in earlier calls, by slot.

    Notes
    -----
    It costs nothing until it is asked.
    """

    def __init__(self, block: Block, slot: NDArray[np.int64], waiting: PendingRows) -> None:
        self.block, self.slot, self.waiting = block, slot, waiting

    @cached_property
    def predicting(self) -> NDArray[np.int64]:
        """The steps that predict; the predictions of this call are in their order."""
        return np.flatnonzero(self.block.op != LEARN)

    @cached_property
    def of_row(self) -> NDArray[np.int64]:
        """The prediction made of each row in this call; -1 if it was not predicted."""
        made = np.full(len(self.block.rows), -1, dtype=np.int64)
        made[self.block.row[self.predicting]] = np.arange(self.predicting.size)
        return made

    def answered(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The prediction of this call, and the slot of the earlier one, that each step answers.

        One of both is -1.
        """
        return self.of_row[self.block.row[steps]], self.slot[steps]
