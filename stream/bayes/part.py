"""Part: one factor of the likelihood, with state of its own.

A Bayes classifier is a prior and parts. Given the class, parts are independent, so each runs a
whole block alone, in a kernel of its own, and adds its log likelihood at every predicting step.
"""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes.columns import MAX_FEATURES
from stream.data.block import Block, Floats, Rows
from stream.data.schema import Schema
from stream.data.state import State
from stream.errors import InvalidRecordError
from stream.learner.base import MAX_CLASSES

__all__ = ["Part", "Steps", "Term", "UnlearnAmount"]


class Steps(NamedTuple):
    """The steps of a block, as kernels take them.

    op int8, row int64, w float64 (m,) as in `Block`; y int64 (m,): class code, -1 where no step
    learns; known: classes before the block (codes rise in the order steps learn them); growth:
    what the weight of each learned record is multiplied with, 1 without fading.
    """

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    y: NDArray[np.int64]
    w: Floats
    known: int
    growth: float


class UnlearnAmount(NamedTuple):
    """How much of a record to take back: weight `w`, learned `fade` times ago's unit.

    What it counts now is w · fade · unit, where unit is the part's own. That times `slack` is a
    weight which is nothing but rounding where sums of the record's class are left with it;
    `slack_of_all`: where sums over all classes are.
    """

    w: float
    fade: float
    slack: float
    slack_of_all: float


Term = tuple[str, Floats]  # a feature or token, and its log likelihood a class, float64 (C,)


class Part(abc.ABC):
    """One factor of the likelihood: p(some features of x | class).

    Attributes
    ----------
    name : str
        Its name in the state.
    """

    name: ClassVar[str]
    most_classes = MAX_CLASSES  # there is never room for more; see `limit`
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
        """Run the steps: add to joint (n_predictions, C), and learn. C is `classes`."""

    @abc.abstractmethod
    def terms(self, rows: Rows, classes: int) -> list[Term]:
        """What `execute` would add for the one row of `rows`, feature by feature, in its order."""

    @abc.abstractmethod
    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        """Why class c cannot have learned the one row of `rows` with this weight, or None."""

    @abc.abstractmethod
    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        """Take the row back. What counts 0 afterwards was never learned."""

    @abc.abstractmethod
    def drop_class(self, c: int) -> None:
        """Forget class c, whose weight is 0; later classes move up."""

    @abc.abstractmethod
    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        """Become what learning `other`'s records after this part's own would give.

        Parameters
        ----------
        other
            A part of the same kind and parameters; left as it is.
        classes
            int64: the class here of each of its classes.
        size
            How many classes there are now.
        fade
            What is left of this part's weights by now, its unit apart.
        """

    @abc.abstractmethod
    def n_parameters(self, classes: int) -> int:
        """Free parameters of p(x | class) over all classes."""

    @abc.abstractmethod
    def export(self) -> State:
        """The state, sharing arrays."""

    @abc.abstractmethod
    def restore(self, state: State, classes: int) -> None:
        """Take the state over, having checked it. StateError, KeyError, TypeError: damaged."""

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes its tables take at most for the fields of a schema and so many classes, but for
        what `limit` bounds."""
        return 0

    def grows(self, schema: Schema) -> bool:
        """Whether the values of these fields, and not only their number, make it larger."""
        return False

    def limit(self, room: int, classes: int) -> None:  # noqa: B027  most have nothing to limit
        """Take at most so many bytes for values, with a place for each of so many classes.

        Called before anything is learned, where `grows`.
        """

    @property
    def features(self) -> list[str]:
        """The features it has learned, in order."""
        return []

    @property
    def overflows(self) -> dict[str, int]:
        """What was refused at a bound, by the bound's name."""
        return {}

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows it cannot take although their values fit the schema, and why."""
        return {}

    def prepare(self, rows: Rows) -> Rows:
        """Encode what would otherwise be encoded at each step. Pure, idempotent."""
        return rows
