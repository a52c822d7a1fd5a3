"""The fields that were learned as one kind: which they are, and the weight that each has.

Rule: nothing here changes what is predicted. It is known so that a value of another kind is
refused, and it is weighed so that unlearning the last record with a field forgets the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.bayes.classifier import left_after
from stream.bayes.columns import MAX_FEATURES
from stream.data.block import Block, Floats, Rows, learning
from stream.data.schema import Dictionary
from stream.data.state import State
from stream.errors import StateError

__all__ = ["Fields", "counted_fields", "present_in", "text_fields"]


class Fields:
    """Names of fields, bounded, and how much weight of records has had each.

    Attributes
    ----------
    known : Dictionary
        The names; one beyond the bound is not known, and so of any kind; it is counted.
    """

    def __init__(self) -> None:
        self.known = Dictionary(MAX_FEATURES)
        self._weight: Floats = np.zeros(0)

    def learn(self, names: tuple[str, ...], present: NDArray[np.bool_], w: Floats) -> None:
        """Take on the fields of the records learned.

        Parameters
        ----------
        names
            The columns, q of them.
        present
            bool, (m, q): whether each record has each field.
        w
            float64, (m,): the weight of each.
        """
        if not names:
            return
        column = np.array([self.known.codes.get(name, -1) for name in names], dtype=np.int64)
        some = present.any(axis=0)
        fresh = sorted(
            (int(np.argmax(present[:, j])), names[j], j)
            for j in np.flatnonzero((column < 0) & some).tolist()
        )
        for _, name, j in fresh:  # by their first record, those of one record by name
            column[j] = self.known.add(name)
            if column[j] < 0:  # counted once a record
                self.known.overflow += int(np.count_nonzero(present[:, j])) - 1
        used = np.flatnonzero((column >= 0) & some)
        if len(self.known) > self._weight.size:
            more = np.zeros(len(self.known) - self._weight.size)
            self._weight = np.append(self._weight, more)
        # In the order of the records, also where that is slower: blocks must not be told apart.
        for j, k in zip(used.tolist(), column[used].tolist(), strict=True):
            if len(w) == 1:
                self._weight[k] += w[0]
            else:
                each = np.where(present[:, j], w, 0.0)
                each[0] += self._weight[k]
                self._weight[k] = each.cumsum()[-1]

    def unlearn(self, names: Iterable[str], w: float, slack: float) -> None:
        """Take the fields of one record of weight w back; slack: the share that is rounding."""
        for name in names:
            code = self.known.codes.get(name)
            if code is None:
                self.known.overflow = max(self.known.overflow - 1, 0)
                continue
            left = left_after(self._weight[code], w, slack)
            if left:
                self._weight[code] = left
            else:
                self.known.remove(name)
                self._weight = np.delete(self._weight, code)

    def merge(self, other: Fields) -> None:
        """Take on the other's."""
        code = [self.known.add(name) for name in other.known]
        weight = np.append(self._weight, np.zeros(len(self.known) - self._weight.size))
        for k, c in enumerate(code):
            if c >= 0:
                weight[c] += other._weight[k]
        self._weight = weight
        self.known.overflow += other.known.overflow

    def export(self) -> State:
        """The state, in the order of the names: it does not depend on which came first."""
        names = sorted(self.known)
        order = [self.known.codes[name] for name in names]
        header = {"names": names, "overflow": self.known.overflow}
        return State(header, {"weight": self._weight[order]})

    def restore(self, state: State) -> None:
        """Take the state over, having checked it."""
        names: Any = state.header["names"]
        weight = state.array("weight", np.float64, 1)
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        rising = texts and names == sorted(set(names))
        if not rising or weight.size != len(names) or not (weight > 0).all():
            raise StateError("expected the names of fields in rising order, and their weights")
        self.known = self.known.renewed(names, int(state.header["overflow"]))
        self._weight = weight


def text_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """`Fields.learn`'s arguments for the texts that the block learns."""
    steps = learning(block)
    cells = block.rows.text[block.row[steps]]
    here = map(is_not, cells.ravel().tolist(), repeat(None))  # by ==, texts read would be compared
    present = np.fromiter(here, dtype=np.bool_, count=cells.size)
    return block.rows.text_names, present.reshape(cells.shape), block.w[steps]


def counted_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """`Fields.learn`'s arguments for the counts that the block learns."""
    steps = learning(block)
    present = ~np.isnan(block.rows.numeric[block.row[steps]])
    return block.rows.numeric_names, present, block.w[steps]


def present_in(rows: Rows) -> tuple[list[str], list[str]]:
    """The texts and the counts that the one row of `rows` has, by name."""
    texts = zip(rows.text_names, rows.text[0].tolist(), strict=True)
    counts = zip(rows.numeric_names, rows.numeric[0].tolist(), strict=True)
    return [name for name, v in texts if v is not None], [name for name, v in counts if v == v]
