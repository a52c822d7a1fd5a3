"""Discretized: a learner of categories after a Discretizer, used like any learner.

Rule: a step uses the bins at that step, and a learning step updates them first, as in a pipeline of
river. Rows that wait for their label are kept as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stream.data import schema as kinds
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block, Rows
from stream.data.parameters import shown
from stream.data.schema import Field, Schema
from stream.data.state import State
from stream.errors import InvalidRecordError, NotSupportedError, SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.wrapper import Wrapper
from stream.preprocessing.binner import Binner

__all__ = ["Discretized"]

MOVED = "learned bins have changed since; use fixed edges"


class Discretized(Wrapper):
    """A learner that gets bins instead of numbers.

    Parameters
    ----------
    discretizer
        The untrained discretizer. It learns in place.
    learner
        The untrained learner of the bins. It learns in place. It must read texts as categories.

    Attributes
    ----------
    classes, features : list
        As for the learner.

    Raises
    ------
    SchemaError
        The learner reads numbers or texts.

    Notes
    -----
    With fixed edges it supports what the learner supports. With learned bins it cannot merge or
    unlearn, because the values in a bin are not known. Truth values are categories. Evidence is a
    probability of bins, not a density. Cost and memory are the sums of both.

    Examples
    --------
    >>> from stream import CategoricalNB
    >>> from stream.preprocessing import Discretized, Discretizer
    >>> model = Discretized(Discretizer({"height": [1.5, 1.8, 2.1]}), CategoricalNB())
    >>> for height, y in [(1.6, "a"), (1.7, "a"), (1.9, "b"), (2.0, "b")]:
    ...     model.learn_one({"height": height}, y)
    >>> model.predict_one({"height": 1.62})
    'a'
    """

    def __init__(self, discretizer: Binner, learner: Learner) -> None:
        if not isinstance(discretizer, Binner):
            raise SchemaError(f"expected a Discretizer, got {shown(discretizer)}")
        if not isinstance(learner, Learner) or learner.strings != "categorical":
            raise SchemaError(f"expected a learner of categories, got {shown(learner)}")
        if learner.memo_size:  # a bin of then may be another now
            raise SchemaError("bins are for a single learner, got a mixture; give it no bins")
        self.discretizer = discretizer
        self.learner = learner

    truths = "categorical"

    def __repr__(self) -> str:
        return f"Discretized({self.discretizer!r}, {self.learner!r})"

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to the learner or to learned bins, with the reason."""
        if not self.discretizer.learns:
            return super().not_applicable
        return {
            **super().not_applicable,
            "weight_two_is_twice": "bins change between the two records",
            "merging_equals_learning_both": MOVED,
            "merging_what_does_not_fit_is_refused": MOVED,
            "merging_with_oneself_is_learning_twice": MOVED,
            "unlearning_is_the_inverse_of_learning": MOVED,
            "unlearning_what_was_not_learned_is_refused": MOVED,
        }

    @property
    def overflows(self) -> dict[str, int]:
        return {**super().overflows, **self.discretizer.overflows}

    def prepare(self, rows: Rows) -> Rows:
        """Truth values as categories and, with fixed edges, numbers as bins. Pure."""
        rows = rows.recast(truths="categorical")
        return rows if self.discretizer.learns else self._binned(rows)

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. Memory for a sketch of every number is reserved; its bins are
        categories."""
        super().limit(max_bytes, schema, max_classes)
        sketches = self.discretizer.room(len(schema.numeric), max_classes)
        binned = (
            Field(f.name, "text" if f.kind == "text" else "categorical") for f in schema.fields
        )
        left = max(max_bytes - sketches, 0)
        return self.learner.limit(left, Schema(tuple(binned)), max_classes)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows that the learner rejects, with the reason."""
        return self.learner.refusals(rows if not self.discretizer.learns else self._binned(rows))

    def _binned(self, rows: Rows) -> Rows:
        """The rows in the present bins, prepared for the learner."""
        return self.learner.prepare(self._rows_as_seen(rows))

    def _rows_as_seen(self, rows: Rows) -> Rows:
        """The rows in the present bins."""
        n = len(rows)
        rows = rows.recast(truths="categorical")
        op, none = np.full(n, PREDICT, dtype=np.int8), np.full(n, -1, dtype=np.int64)
        return self.discretizer.follow(rows, op, none, np.ones(n))

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        if self.discretizer.learns:
            block = self._followed(block)
        self.learner._execute(block, label, before, out)

    def _followed(self, block: Block) -> Block:
        """The same steps, each with its own row in the bins at that step."""
        both = block.op == PREDICT_THEN_LEARN
        step = np.repeat(np.arange(len(block)), 1 + both)  # it uses two sets of bins
        op = block.op[step].copy()
        second = np.zeros(step.size, dtype=np.bool_)
        second[1:] = step[1:] == step[:-1]
        op[both[step]] = PREDICT
        op[second] = LEARN
        w = block.w[step]
        y = block.y[step]
        classes = self.discretizer.classes_of(block.labels, y.astype(np.int64), op)
        rows = self.discretizer.follow(block.rows.take(block.row[step]), op, classes, w)
        row = np.arange(step.size, dtype=np.int64)
        return Block(self.learner.prepare(rows), op, row, y, w, block.labels)

    def _export(self) -> State:
        learner = self._part_of_state(self.learner)
        return State.join({"discretizer": self.discretizer.to_state(), "learner": learner})

    def _restore(self, state: State) -> None:
        with self._refusals_kept():
            self.discretizer.load_state(state.nested("discretizer"))
            self.learner.load_state(state.nested("learner"))

    def _as_seen(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """The record in the present bins."""
        binned = self.discretizer.transform_one(x)
        truths = {k: kinds.category(str(k), v) for k, v in binned.items() if isinstance(v, bool)}
        return {**binned, **truths}

    def unlearn_one(
        self, x: Mapping[Any, Any], y: Any, w: float = 1.0, *, age: int | None = None
    ) -> None:
        """Unlearn one record that was learned; with fixed edges only."""
        self._needs_fixed_edges("unlearning")
        super().unlearn_one(x, y, w, age=age)

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """`unlearn_one` of the one row of `rows`."""
        self._needs_fixed_edges("unlearning")
        self.learner.unlearn_rows(self.prepare(rows), y, w, age=age)

    @property
    def can_unlearn(self) -> bool:
        """Whether edges are fixed and the learner can unlearn."""
        return not self.discretizer.learns and super().can_unlearn

    @property
    def merges_exactly(self) -> bool:
        """Whether edges are fixed and the learner merges exactly."""
        return not self.discretizer.learns and self.learner.merges_exactly

    def merge(self, other: Learner) -> Self:
        """Learn what `other` has learned after one's own records; with fixed edges only."""
        self._needs_fixed_edges("merging")
        self.learner.merge(self._alike(other).learner)
        return self

    def _needs_fixed_edges(self, what: str) -> None:
        if self.discretizer.learns:
            raise NotSupportedError(f"{what} is not possible: {MOVED}")
