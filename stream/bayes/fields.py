"""The fields that were learned as one kind, and the weight of each.

Rule: nothing here changes a prediction. The names serve to reject values of another kind. The
weights serve to forget a field when its last record is unlearned.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from stream.bayes.classifier import left_after
from stream.data.block import Block, Floats, Rows, learning
from stream.data.columns import MAX_FEATURES, names_in
from stream.data.schema import Dictionary
from stream.data.state import Rules, Saved, State

__all__ = ["Fields", "counted_fields", "present_in", "text_fields"]


class Fields:
    """Names of fields, bounded, and the weight of the records that had each.

    Attributes
    ----------
    known : Dictionary
        The names. A field beyond the bound is counted, not known, and may have any kind.
    """

    def __init__(self) -> None:
        self.known = Dictionary(MAX_FEATURES)
        self._weight: Floats = np.zeros(0)

    def learn(self, names: tuple[str, ...], present: NDArray[np.bool_], w: Floats) -> None:
        """Add the fields of learned records.

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
        for _, name, j in fresh:  # ordered by their first record, within one record by name
            column[j] = self.known.add(name)
            if column[j] < 0:  # counted once for each record
                self.known.overflow += int(np.count_nonzero(present[:, j])) - 1
        used = np.flatnonzero((column >= 0) & some)
        if len(self.known) > self._weight.size:
            more = np.zeros(len(self.known) - self._weight.size)
            self._weight = np.append(self._weight, more)
        # Added in the order of the records, although slower, so that any split into blocks is
        # equal.
        for j, k in zip(used.tolist(), column[used].tolist(), strict=True):
            if len(w) == 1:
                self._weight[k] += w[0]
            else:
                each = np.where(present[:, j], w, 0.0)
                each[0] += self._weight[k]
                self._weight[k] = each.cumsum()[-1]

    def learn_known(self, name: str, w: float) -> None:
        """Add a known field of one learned record of weight w."""
        self._weight[self.known.codes[name]] += w

    def unlearn(self, names: Iterable[str], w: float, slack: float) -> None:
        """Unlearn the fields of one record of weight w. slack: the rounding error, as a share of
        w."""
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
        """Add the fields of `other`."""
        code = [self.known.add(name) for name in other.known]
        weight = np.append(self._weight, np.zeros(len(self.known) - self._weight.size))
        for k, c in enumerate(code):
            if c >= 0:
                weight[c] += other._weight[k]
        self._weight = weight
        self.known.overflow += other.known.overflow

    def export(self) -> State:
        """The state, sorted by name, so that it does not depend on the order of learning."""
        names = sorted(self.known)
        order = [self.known.codes[name] for name in names]
        header = {"names": names, "overflow": self.known.overflow}
        return State(header, {"weight": self._weight[order]})

    def restore(self, state: State) -> None:
        """Check the state and take it over."""
        names = names_in(state, "names")
        rules: Rules = {
            "names of fields in rising order": lambda a: names == sorted(names),
            "weights of fields above 0": lambda a: a["weight"] > 0,
        }
        table = {"weight": Saved(np.float64, (len(names),), 0)}
        self._weight = state.read(table, rules)["weight"]
        self.known = self.known.renewed(names, int(state.header["overflow"]))


def text_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """Arguments of `Fields.learn` for the texts that the block learns."""
    steps = learning(block)
    cells = block.rows.text[block.row[steps]]
    here = map(is_not, cells.ravel().tolist(), repeat(None))  # == would compare encoded texts
    present = np.fromiter(here, dtype=np.bool_, count=cells.size)
    return block.rows.text_names, present.reshape(cells.shape), block.w[steps]


def counted_fields(block: Block) -> tuple[tuple[str, ...], NDArray[np.bool_], Floats]:
    """Arguments of `Fields.learn` for the counts that the block learns."""
    steps = learning(block)
    present = ~np.isnan(block.rows.numeric[block.row[steps]])
    return block.rows.numeric_names, present, block.w[steps]


def present_in(rows: Rows) -> tuple[list[str], list[str]]:
    """The names of the texts and of the counts in the one row of `rows`."""
    texts = zip(rows.text_names, rows.text[0].tolist(), strict=True)
    counts = zip(rows.numeric_names, rows.numeric[0].tolist(), strict=True)
    return [name for name, v in texts if v is not None], [name for name, v in counts if v == v]
