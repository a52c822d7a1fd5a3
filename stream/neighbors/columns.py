"""Attributes of records, as columns of numbers and of codes of categories.

Learners that keep the newest records share it.
"""

from __future__ import annotations

import abc
from dataclasses import replace

import numpy as np

from stream.data.block import Block, Floats, Rows, learning
from stream.data.columns import MAX_FEATURES, admit, find
from stream.data.rows import conflicts
from stream.data.schema import Dictionary
from stream.errors import InvalidRecordError
from stream.neighbors._kernels.window import Ints
from stream.neighbors.categories import CategoryCodes

__all__ = ["MAX_WINDOW", "Attributes"]

MAX_CELLS = 2**25  # bound of the values in a window: 256 MiB
MAX_WINDOW = 2**20  # records; a window of that size has at most 32 attributes


class Attributes(abc.ABC):
    """Names of attributes, and codes of categories.

    Parameters
    ----------
    size
        The largest number of records that are kept.

    Attributes
    ----------
    features : Dictionary
        Attribute to column, in the order they were first learned.
    """

    def __init__(self, size: int) -> None:
        self.features = Dictionary(min(MAX_FEATURES, MAX_CELLS // size))
        self._categories = CategoryCodes()

    @property
    @abc.abstractmethod
    def nominal(self) -> Ints:
        """int64 (D,): 1 for columns of categories."""

    @abc.abstractmethod
    def codes_in_use(self) -> Floats:
        """The codes of categories that something still has."""

    def named(self, nominal: int) -> list[str]:
        """The names of categorical attributes (1) or of numeric ones (0)."""
        kinds = self.nominal.tolist()
        return [name for name, kind in zip(self.features, kinds, strict=True) if kind == nominal]

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a number in a field of categories, or a category in a field of numbers."""
        if not rows.categorical_names and not self.nominal.any():
            return {}
        return conflicts(rows, self.named(0), self.named(1))

    def encode(self, block: Block) -> tuple[Floats, int, list[bool]]:
        """The rows of the block, float64 (n, D), after what its steps learn got columns and codes;
        how many steps learn; and whether each new column is one of categories."""
        rows, steps = block.rows, learning(block)
        if not steps.size:
            return self.vectors(rows), 0, []
        learned = rows.categorical[block.row[steps]]
        if learned.size:
            self._categories.sweep(self.codes_in_use())
            self._categories.add(learned)
        numbers, before = self._numbers(rows), len(self.features)
        source, column = admit(self.features, replace(block, rows=numbers))
        fresh: list[bool] = []
        if len(self.features) > before:
            there = (learned != None).any(axis=0)  # noqa: E711
            names = {n for n, t in zip(rows.categorical_names, there, strict=True) if t}
            fresh = [name in names for name in self.features.values[before:]]
        return self._placed(numbers.numeric, source, column), steps.size, fresh

    def vectors(self, rows: Rows) -> Floats:
        """The rows in the columns of the window, float64 (n, D); NaN for missing values."""
        numbers = self._numbers(rows)
        return self._placed(numbers.numeric, *find(self.features, numbers))

    def _numbers(self, rows: Rows) -> Rows:
        """The rows with categories as their codes, in columns of numbers."""
        if not rows.categorical_names:
            return rows
        codes = self._categories.encode(rows.categorical)
        return replace(
            rows,
            numeric_names=(*rows.numeric_names, *rows.categorical_names),
            numeric=np.concatenate((rows.numeric, codes), axis=1),
        )

    def _placed(self, values: Floats, source: Ints, column: Ints) -> Floats:
        x = np.full((len(values), len(self.features)), np.nan)
        x[:, column] = values[:, source]
        if len(set(column.tolist())) < column.size:  # a name is both a number and a category
            for k, j in zip(source.tolist(), column.tolist(), strict=True):
                there = ~np.isnan(values[:, k])
                x[there, j] = values[there, k]
        return x
