"""Binner: what is common to everything that puts bins in the place of numbers.

Rule: a step uses the bins as they stand at that step, and a learning step moves them first.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from stream.data import schema as kinds
from stream.data.block import LEARN, PREDICT, Floats, Rows
from stream.data.parameters import number
from stream.data.schema import Label
from stream.data.state import State
from stream.errors import InvalidRecordError

__all__ = ["Binner", "Codes", "taught"]

Codes = NDArray[np.int64]


class Binner(base.Transformer, abc.ABC):
    """Numbers to the names of bins; a river transformer.

    Attributes
    ----------
    learns : bool
        Whether bins are learned; fixed edges are not.
    overflow : int
        Values that got no bin because their feature was one too many.
    """

    overflow: int = 0

    @property
    @abc.abstractmethod
    def learns(self) -> bool:
        """Whether bins are learned; fixed edges are not."""

    @property
    def overflows(self) -> dict[str, int]:
        """What was refused, by the bound's name."""
        return {"binned_features": self.overflow}

    @abc.abstractmethod
    def room(self, features: int, classes: int) -> int:
        """The most bytes that the bins of so many features and classes take, copies included."""

    @abc.abstractmethod
    def cuts(self, feature: str) -> list[float]:
        """What separates the bins of a feature now; empty where none are known."""

    @abc.abstractmethod
    def to_state(self) -> State:
        """The whole state, as a copy."""

    @abc.abstractmethod
    def load_state(self, state: State) -> Binner:
        """Become the one that `to_state` saved."""

    @abc.abstractmethod
    def _admit(self, names: list[str], columns: list[Floats], op: NDArray[np.int8]) -> None:
        """Make room for each feature of which a value is learned; the earliest first."""

    @abc.abstractmethod
    def _bins_of(
        self, name: str, x: Floats, op: NDArray[np.int8], y: Codes, w: Floats
    ) -> NDArray[Any]:
        """The name of each step's bin, None where there is none; learn as steps do."""

    def classes_of(self, labels: Sequence[Label], y: Codes, op: NDArray[np.int8]) -> Codes:
        """The class of each step, to these bins; they need none unless the class chooses them."""
        return y

    def _bins(self, name: str) -> bool:
        """Whether it bins this feature."""
        return self.learns

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """The record with bins for its numbers. Pure."""
        found = self._follow_one(x, PREDICT, 1.0)
        return {key: found.get(str(key), value) for key, value in x.items()}

    def _follow_one(
        self, x: Mapping[Any, Any], op: int, w: float, labels: Sequence[Label] = ()
    ) -> dict[str, str | None]:
        if not isinstance(x, Mapping):
            raise InvalidRecordError(
                "wrong_kind", f"a record maps features to values, got {type(x).__name__}"
            )
        w = number("w", w, 0.0, kinds.HEAVIEST, above=True)
        numbers = {
            str(key): kinds.number(str(key), value)
            for key, value in x.items()
            if isinstance(value, float | int | np.floating | np.integer)
            and not isinstance(value, bool)
            and self._bins(str(key))
        }
        names = tuple(sorted(f for f, value in numbers.items() if value == value))
        none = np.empty((1, 0), dtype=object)
        values = np.array([[numbers[f] for f in names]], dtype=np.float64).reshape(1, len(names))
        rows = Rows(names, values, (), none, (), none)
        ops, ws = np.array([op], dtype=np.int8), np.array([w], dtype=np.float64)
        y = self.classes_of(labels, np.array([len(labels) - 1], dtype=np.int64), ops)
        binned = self.follow(rows, ops, y, ws)
        return dict(zip(binned.categorical_names, binned.categorical[0].tolist(), strict=True))

    def follow(self, rows: Rows, op: NDArray[np.int8], y: Codes, w: Floats) -> Rows:
        """The rows with columns of bins for their columns of numbers, a step a row.

        Parameters
        ----------
        rows
            One a step.
        op
            int8, (m,): LEARN or PREDICT. What is learned counts from its own step on.
        y
            int64, (m,): the class of each learning step, as `classes_of` gives it.
        w
            float64, (m,): weights.
        """
        at = [j for j, f in enumerate(rows.numeric_names) if self._bins(f)]
        names = [rows.numeric_names[j] for j in at]
        columns = [np.ascontiguousarray(rows.numeric[:, j]) for j in at]
        if self.learns:
            self._admit(names, columns, op)
        # A feature that is a number here and a text there has one column of categories.
        found = dict(zip(rows.categorical_names, rows.categorical.T, strict=True))
        for name, x in zip(names, columns, strict=True):
            binned = self._bins_of(name, x, op, y, w)
            found[name] = np.where(np.isnan(x), found.get(name, binned), binned)
        categorical = np.empty((len(rows), len(found)), dtype=object)
        for k, column in enumerate(found.values()):
            categorical[:, k] = column
        return Rows(
            tuple(np.delete(np.array(rows.numeric_names, dtype=object), at).tolist()),
            np.ascontiguousarray(np.delete(rows.numeric, at, axis=1)),
            tuple(found),
            categorical,
            rows.text_names,
            rows.text,
            rows.binary_names - set(names),
        )


def taught(
    names: list[str], columns: list[Floats], op: NDArray[np.int8]
) -> list[tuple[int, str, int]]:
    """First learning step, name and number of values of each feature that is learned; in order."""
    found = []
    for name, x in zip(names, columns, strict=True):
        steps = np.flatnonzero((op == LEARN) & ~np.isnan(x))
        if steps.size:
            found.append((int(steps[0]), name, int(steps.size)))
    return sorted(found)
