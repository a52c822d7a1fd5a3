"""Part: one factor of the likelihood, with its own state.

A Bayes classifier is a prior and parts. Parts are independent given the class. So each part runs a
whole block alone, in its own kernel, and adds its log likelihood at every predicting step.

SumsPart: numeric columns of which a class keeps two weighted sums.
"""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats, Rows
from stream.data.columns import MAX_FEATURES, find, named, restored, rows_for
from stream.data.schema import Dictionary, Schema
from stream.data.state import Saved, State
from stream.errors import InvalidRecordError
from stream.learner.base import MAX_CLASSES

__all__ = ["Line", "Part", "Steps", "SumsPart", "Term", "UnlearnAmount", "given"]


class Steps(NamedTuple):
    """The steps of a block, as kernels take them.

    op int8, row int64, w float64 (m,) as in `Block`; y int64 (m,): class code, -1 for a step that
    does not learn. known: number of classes before the block; new classes get rising codes in the
    order of the steps. growth: factor from the weight of one learned record to that of the next, 1
    without fading.
    """

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    y: NDArray[np.int64]
    w: Floats
    known: int
    growth: float


class UnlearnAmount(NamedTuple):
    """How much of a record to unlearn: its weight `w`, and the share `fade` that is left of it.

    Its present weight is w · fade · unit, with the unit of the part. A remainder of at most `slack`
    times that weight in a sum of the record's class is a rounding error. `slack_of_all` is the same
    for sums over all classes.
    """

    w: float
    fade: float
    slack: float
    slack_of_all: float


Term = tuple[str, Floats]  # a feature or token, and its log likelihood in each class, float64 (C,)
Line = tuple[Floats, list[Term]]  # log likelihoods of a basic record, and what each feature changes


class Part(abc.ABC):
    """One factor of the likelihood: p(some features of x | class).

    Attributes
    ----------
    name : str
        Its name in the state.
    """

    name: ClassVar[str]
    most_classes = MAX_CLASSES  # the largest number of classes it makes room for; see `limit`
    most_numbers = MAX_FEATURES
    only: frozenset[str] | None = None  # the numbers that it is given; None: all
    never: frozenset[str] = frozenset()  # numbers that it is not given

    def own(self, rows: Rows) -> Rows:
        """The rows with those numbers only that this part is given."""
        if self.only is None and not self.never:
            return rows
        at = [j for j, name in enumerate(rows.numeric_names) if self.takes(name)]
        names = tuple(rows.numeric_names[j] for j in at)
        return replace(rows, numeric_names=names, numeric=np.ascontiguousarray(rows.numeric[:, at]))

    def takes(self, name: str) -> bool:
        """Whether it is given the number of this name."""
        return name not in self.never and (self.only is None or name in self.only)

    def fields_of(self, schema: Schema) -> Schema:
        """The fields with those numbers only that this part is given."""
        if self.only is None and not self.never:
            return schema
        numbers = {name for name in schema.numeric if not self.takes(name)}
        return Schema(tuple(f for f in schema.fields if f.name not in numbers))

    @abc.abstractmethod
    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        """Run the steps: add log likelihoods to joint (n_predictions, C), and learn. C is
        `classes`."""

    @abc.abstractmethod
    def terms(self, rows: Rows, classes: int) -> list[Term]:
        """What `execute` adds for the one row of `rows`, by feature, in the same order."""

    @abc.abstractmethod
    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        """Why class c cannot have learned the one row of `rows` with this weight, or None."""

    @abc.abstractmethod
    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        """Unlearn the row. A count of 0 afterwards means: never learned."""

    @abc.abstractmethod
    def drop_class(self, c: int) -> None:
        """Forget class c, whose weight is 0; later classes move up."""

    @abc.abstractmethod
    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        """Learn what `other` has learned, as if its records came after those of this part.

        Parameters
        ----------
        other
            A part of the same type and parameters. It does not change.
        classes
            int64: for each class of `other`, its code here.
        size
            Number of classes after the merge.
        fade
            The share that is left of this part's weights, without the change of its unit.
        """

    @abc.abstractmethod
    def n_parameters(self, classes: int) -> int:
        """Free parameters of p(x | class) over all classes."""

    @abc.abstractmethod
    def export(self) -> State:
        """The state; its arrays are not copied."""

    @abc.abstractmethod
    def restore(self, state: State, classes: int) -> None:
        """Check the state and take it over. StateError, KeyError, TypeError: damaged."""

    def tables(self, schema: Schema, classes: int) -> int:
        """The most bytes of its tables for the fields of a schema and that many classes, without
        what `limit` bounds."""
        return 0

    def grows(self, schema: Schema) -> bool:
        """Whether it grows with the values of these fields, not only with their number."""
        return False

    def limit(self, room: int, classes: int) -> None:  # noqa: B027  most limit nothing
        """Use at most `room` bytes for values, each with a place for each of `classes` classes.

        Called before anything is learned, if `grows`.
        """

    @property
    def features(self) -> list[str]:
        """The learned features, in order."""
        return []

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {}

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that it rejects although their values fit the schema, with the reason."""
        return {}

    def prepare(self, rows: Rows) -> Rows:
        """Encode once what each step would encode again. Pure, idempotent."""
        return rows


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
        self._unit = np.ones(1)  # the weight of a new record of weight 1; fading raises it

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
