"""The last learned records, for a model that restarts with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats, Rows
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.data.stored import loaded, stored

__all__ = ["Recent"]


class Recent:
    """A ring of rows, labels and weights, in the order they were learned.

    Parameters
    ----------
    keep
        The largest number of records.
    like
        Any number of rows with the columns of the stream.

    Notes
    -----
    The caller defines the codes of labels. O(columns) for each record.
    """

    def __init__(self, keep: int, like: Rows) -> None:
        self._keep = keep
        self._rows = like.take(np.empty(0, dtype=np.int64))
        self._y = np.zeros(keep, dtype=np.int64)
        self._w: Floats = np.zeros(keep)
        self._number = np.full(keep, -1, dtype=np.int64)  # number of records learned before it
        self._pushed = 0  # number of records learned since it was empty
        self._learned = 0

    def learn(self, rows: Rows, y: NDArray[np.int64], w: Floats) -> None:
        """Add learned records. Rows that do not fit into the ring may be left out.

        Parameters
        ----------
        rows
            The last ones of the learned rows.
        y, w
            int64 and float64, (n,): label code and weight of all learned records.
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
        """Replace the label of the record after which `age` others were learned.

        It counts as one more learned record, as it does for the learner.
        """
        at = np.flatnonzero(self._number == self._learned - 1 - age)
        self._y[at], self._w[at] = y, w
        self._learned += 1

    def clear(self) -> None:
        """Remove all records."""
        self._pushed = 0
        self._number[:] = -1

    def block(self, labels: list[Label]) -> Block:
        """The records as learning steps. `labels`: the label of each code."""
        at = self._order()
        n = at.size
        op, row = np.full(n, LEARN, dtype=np.int8), np.arange(n, dtype=np.int64)
        return Block(
            self._rows.take(at), op, row, self._y[at].astype(np.int32), self._w[at], labels
        )

    def _order(self) -> NDArray[np.int64]:
        """The indices of the records, from the oldest to the newest."""
        n = min(self._pushed, self._keep)
        return (self._pushed - n + np.arange(n)) % self._keep

    def to_state(self) -> State:
        """The records, from the oldest to the newest."""
        at = self._order()
        arrays = {"y": self._y[at], "w": self._w[at], "number": self._number[at]}
        return State({"learned": self._learned}, {**stored(self._rows.take(at)), **arrays})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has other columns.
        """
        integers, numbers = (Saved(kind, ("records",)) for kind in (np.int64, np.float64))
        table = {"y": integers, "w": numbers, "number": integers}
        y, w, number = state.read(table).values()
        self.clear()
        self.learn(loaded(state, y.size, self._rows), y, w)
        self._number[: y.size] = number
        self._learned = state.header["learned"]
