"""Rows that wait for their label, with what was said of them, in slots the join hands out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.block import Floats, Rows
from stream.state import State
from stream.stored import loaded, stored

__all__ = ["Waiting"]


class Waiting:
    """A store of rows and predictions, as large as the largest slot in use.

    Attributes
    ----------
    rows : Rows
        Features as they were encoded at prediction.
    said : ndarray
        int64, (slots, 3): class codes of model, majority and no-change; -1 for none.
    proba : ndarray
        float64, (slots, C): the posterior; 0 for classes that were not known then.
    """

    def __init__(self, like: Rows) -> None:
        self.rows = like.take(np.empty(0, dtype=np.int64))
        self.said = np.empty((0, 3), dtype=np.int64)
        self.proba: Floats = np.empty((0, 0))
        self._classes = 0

    def align(self, rows: Rows) -> Rows:
        """`rows` with the columns of this store, which takes on those it did not have."""
        self.rows = self.rows.with_columns_of(rows)
        return rows.with_columns_of(self.rows)

    def put(
        self,
        slots: int,
        index: NDArray[np.int64],
        rows: Rows,
        said: NDArray[np.int64],
        proba: Floats,
    ) -> None:
        """Store one row and prediction a slot of `index`; `slots` is the size needed."""
        if slots > len(self.rows):
            self._resize(max(slots, 2 * len(self.rows)), self.proba.shape[1])
        if proba.shape[1] > self.proba.shape[1]:
            self._resize(len(self.rows), max(proba.shape[1], 2 * self.proba.shape[1]))
        self._classes = max(self._classes, proba.shape[1])
        if not index.size:
            return
        self.rows.put(index, rows)
        self.said[index] = said
        self.proba[index] = 0.0
        self.proba[index, : proba.shape[1]] = proba

    def _resize(self, slots: int, classes: int) -> None:
        said, proba = np.full((slots, 3), -1, dtype=np.int64), np.zeros((slots, classes))
        said[: len(self.said)] = self.said
        proba[: self.proba.shape[0], : self.proba.shape[1]] = self.proba
        self.said, self.proba = said, proba
        if slots > len(self.rows):
            self.rows = self.rows.grown(slots)

    def to_state(self, index: NDArray[np.int64]) -> State:
        """What lies in the slots of `index`, in that order."""
        said, proba = self.said[index], self.proba[index, : self._classes]
        return State({}, {**stored(self.rows.take(index)), "said": said, "proba": proba})

    def load_state(self, state: State, slots: int, index: NDArray[np.int64]) -> None:
        """Become what `to_state` saved, with its rows back in the slots of `index`."""
        rows = loaded(state, index.size, self.rows)
        said, proba = state.array("said", np.int64, 2), state.array("proba", np.float64, 2)
        self.put(slots, index, rows, said, proba)
