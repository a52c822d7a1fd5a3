"""The records learned last, for a model that is to begin anew with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats, Rows
from stream.data.schema import Label
from stream.data.state import State
from stream.data.stored import loaded, stored

__all__ = ["Recent"]


class Recent:
    """A ring of rows, labels and weights, in the order they were learned.

    Parameters
    ----------
    keep
        How many it holds at most.
    like
        Rows of the stream's shape (any number).

    Notes
    -----
    Labels are codes of whoever fills it. O(columns) a record.
    """

    def __init__(self, keep: int, like: Rows) -> None:
        self._keep = keep
        self._rows = like.take(np.empty(0, dtype=np.int64))
        self._y = np.zeros(keep, dtype=np.int64)
        self._w: Floats = np.zeros(keep)
        self._number = np.full(keep, -1, dtype=np.int64)  # how many had been learned before it
        self._pushed = 0  # since it was empty
        self._learned = 0

    def learn(self, rows: Rows, y: NDArray[np.int64], w: Floats) -> None:
        """More records were learned; those that will not be held need not be given in full.

        Parameters
        ----------
        rows
            The last of them.
        y, w
            int64 and float64, (n,): code and weight of all of them.
        """
        n, keep = y.size, self._keep
        last = min(n, keep)
        self._rows = self._rows.with_columns_of(rows)
        rows = rows.with_columns_of(self._rows)
        at = (self._pushed + np.arange(n - last, n)) % keep
        room = min(keep, self._pushed + n)
        if room > len(self._rows):
            self._rows = self._rows.grown(min(keep, max(room, 2 * len(self._rows))))
        self._rows.put(at, rows.take(np.arange(len(rows) - last, len(rows))))
        self._y[at], self._w[at] = y[n - last :], w[n - last :]
        self._number[at] = self._learned + np.arange(n - last, n)
        self._pushed += n
        self._learned += n

    def corrected(self, age: int, y: int, w: float) -> None:
        """The record that `age` others were learned after got another label.

        Counts as one more that was learned, as it does for the learner.
        """
        at = np.flatnonzero(self._number == self._learned - 1 - age)
        self._y[at], self._w[at] = y, w
        self._learned += 1

    def clear(self) -> None:
        """Hold nothing any more."""
        self._pushed = 0
        self._number[:] = -1

    def block(self, labels: list[Label]) -> Block:
        """The records as steps that learn; `labels` are what the codes stand for."""
        at = self._order()
        n = at.size
        op, row = np.full(n, LEARN, dtype=np.int8), np.arange(n, dtype=np.int64)
        return Block(
            self._rows.take(at), op, row, self._y[at].astype(np.int32), self._w[at], labels
        )

    def _order(self) -> NDArray[np.int64]:
        """The places of the records, from the oldest to the newest."""
        n = min(self._pushed, self._keep)
        return (self._pushed - n + np.arange(n)) % self._keep

    def to_state(self) -> State:
        """The records, from the oldest to the newest."""
        at = self._order()
        arrays = {"y": self._y[at], "w": self._w[at], "number": self._number[at]}
        return State({"learned": self._learned}, {**stored(self._rows.take(at)), **arrays})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged, or of other columns.
        """
        y, w = state.array("y", np.int64, 1), state.array("w", np.float64, 1)
        self.clear()
        self.learn(loaded(state, y.size, self._rows), y, w)
        self._number[: y.size] = state.array("number", np.int64, 1)
        self._learned = state.header["learned"]
