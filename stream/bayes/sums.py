"""SumsPart: numeric columns of which a class keeps two weighted sums."""

from __future__ import annotations

import abc
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes.part import Part, Term
from stream.data.block import Floats, Rows
from stream.data.columns import MAX_FEATURES, find, named, restored
from stream.data.schema import Dictionary, Schema
from stream.data.state import Saved, State
from stream.data.tables import rows_for

__all__ = ["SumsPart", "given"]


def given(rows: Rows) -> list[tuple[str, float]]:
    """Names and values of the numeric columns that are present in row 0."""
    pairs = zip(rows.numeric_names, rows.numeric[0].tolist(), strict=True)
    return [(name, value) for name, value in pairs if value == value]


class SumsPart(Part):
    """Numeric columns, each with two weighted sums for each class.

    The first sum is the weight of the class's records that have the column. It is 0 in all classes
    if nothing of the column is left.

    Attributes
    ----------
    sum_names : tuple of str
        The names of the two sums in the state.
    """

    sum_names: ClassVar[tuple[str, str]]
    least_sum: ClassVar[float | None] = None

    def __init__(self) -> None:
        self._features = Dictionary(MAX_FEATURES)
        self._sums = np.zeros((0, 0)), np.zeros((0, 0))  # each (C, D)
        self._unit = np.ones(1)  # the present value of a weight of 1 learned last

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        return {"features": self._features.overflow}

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of the sums."""
        return 2 * 8 * classes * len(schema.numeric)

    def _make_room(self, classes: int) -> None:
        """Add zeros for new classes and columns."""
        first, second = self._sums
        shape, most = (classes, len(self._features)), self.most_classes
        self._sums = rows_for(first, shape, most), rows_for(second, shape, most)

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        source, column = find(self._features, rows)
        x = rows.numeric[0]
        out = self._scores(x, source, column, classes)
        names = [rows.numeric_names[j] for j in source.tolist()]
        return [(n, out[k]) for k, n in enumerate(names) if not np.isnan(x[source[k]])]

    @abc.abstractmethod
    def _scores(
        self, x: Floats, source: NDArray[np.int64], column: NDArray[np.int64], classes: int
    ) -> Floats:
        """The log likelihoods of x[source[k]] in state column column[k], float64 (q, C)."""

    def _forget_columns(self) -> None:
        """Remove the columns of which nothing is left."""
        first, second = self._sums
        for j in np.flatnonzero(~first.any(axis=0))[::-1].tolist():
            self._features.remove(self._features.values[j])
            first, second = np.delete(first, j, 1), np.delete(second, j, 1)
        self._sums = first, second

    def drop_class(self, c: int) -> None:
        first, second = self._sums
        self._sums = np.delete(first, c, 0), np.delete(second, c, 0)

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        column = np.array([self._features.add(f) for f in other.features], dtype=np.int64)
        self._make_room(size)
        kept = np.flatnonzero(column >= 0)  # features beyond the bound are counted as overflows
        at = np.ix_(classes, column[kept])
        for mine, more in zip(self._sums, other._sums, strict=True):
            mine *= fade
            mine[at] += more[:, kept]
        self._unit = other._unit.copy()

    def n_parameters(self, classes: int) -> int:
        return classes * len(self._features)

    def export(self) -> State:
        arrays = dict(zip(self.sum_names, self._sums, strict=True))
        return State(named(self._features), {**arrays, "unit": self._unit})

    def restore(self, state: State, classes: int) -> None:
        features = restored(self._features, state)
        sums = Saved(np.float64, (classes, len(features)), self.least_sum)
        table = {**dict.fromkeys(self.sum_names, sums), "unit": Saved(np.float64)}
        first, second, self._unit = state.read(table).values()
        self._features, self._sums = features, (first, second)
