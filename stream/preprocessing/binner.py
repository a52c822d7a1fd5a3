"""Binner: the common base of transformers that replace numbers by bins.

Rule: a step uses the bins at that step, and a learning step updates them first.
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
    """Replace numbers by the names of bins; a river transformer.

    Attributes
    ----------
    learns : bool
        Whether bins are learned, not given by fixed edges.
    overflow : int
        Number of values without a bin because their feature was beyond the bound.
    """

    overflow: int = 0

    @property
    @abc.abstractmethod
    def learns(self) -> bool:
        """Whether bins are learned, not given by fixed edges."""

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {"binned_features": self.overflow}

    @abc.abstractmethod
    def room(self, features: int, classes: int) -> int:
        """The most bytes of the bins for that many features and classes, including copies."""

    @abc.abstractmethod
    def cuts(self, feature: str) -> list[float]:
        """The present cut points of a feature; empty if it has none."""

    @abc.abstractmethod
    def to_state(self) -> State:
        """A copy of the whole state."""

    @abc.abstractmethod
    def load_state(self, state: State) -> Binner:
        """Load what `to_state` saved."""

    @abc.abstractmethod
    def _admit(self, names: list[str], columns: list[Floats], op: NDArray[np.int8]) -> None:
        """Make room for each feature with a learned value, in order of the first one."""

    @abc.abstractmethod
    def _bins_of(
        self, name: str, x: Floats, op: NDArray[np.int8], y: Codes, w: Floats
    ) -> NDArray[Any]:
        """The name of each step's bin, or None. Learning steps are learned."""

    def classes_of(self, labels: Sequence[Label], y: Codes, op: NDArray[np.int8]) -> Codes:
        """The class of each step, if the bins depend on classes."""
        return y

    def _bins(self, name: str) -> bool:
        """Whether this feature gets bins."""
        return self.learns

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, Any]:
        """The record with its numbers replaced by bins. Pure."""
        found = self._follow_one(x, PREDICT, 1.0)
        return {key: found.get(str(key), value) for key, value in x.items()}

    def _follow_one(
        self, x: Mapping[Any, Any], op: int, w: float, labels: Sequence[Label] = ()
    ) -> dict[str, str | None]:
        if not isinstance(x, Mapping):
            raise InvalidRecordError(
                "wrong_kind", f"a record must map features to values, got {type(x).__name__}"
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
        """The rows with their columns of numbers replaced by columns of bins. Each row is a step.

        Parameters
        ----------
        rows
            One row for each step.
        op
            int8, (m,): LEARN or PREDICT. A learned value affects its own step and later ones.
        y
            int64, (m,): the class of each learning step, from `classes_of`.
        w
            float64, (m,): weights.
        """
        at = [j for j, f in enumerate(rows.numeric_names) if self._bins(f)]
        names = [rows.numeric_names[j] for j in at]
        columns = [np.ascontiguousarray(rows.numeric[:, j]) for j in at]
        if self.learns:
            self._admit(names, columns, op)
        # A feature that is a number in some rows and a text in others has one column of categories.
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
    """First learning step, name and number of values of each learned feature, in order."""
    found = []
    for name, x in zip(names, columns, strict=True):
        steps = np.flatnonzero((op == LEARN) & ~np.isnan(x))
        if steps.size:
            found.append((int(steps[0]), name, int(steps.size)))
    return sorted(found)
