"""Memory: named attributes, numeric or categorical, over the columns of the sliding window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np

from stream.data.block import Block, Floats, Rows, learning
from stream.data.columns import MAX_FEATURES, admit, find, named, restored
from stream.data.schema import LARGEST, Dictionary
from stream.data.state import State
from stream.errors import InvalidRecordError
from stream.neighbors._kernels.search import CHUNK, GROUP, Scratch
from stream.neighbors._kernels.window import Ints, WindowArrays
from stream.neighbors.categories import CategoryCodes
from stream.neighbors.window import SlidingWindow

__all__ = ["MAX_WINDOW", "Memory"]

MAX_CELLS = 2**25  # bound of the values in a window: 256 MiB
MAX_WINDOW = 2**20  # records; a window of that size has at most 32 attributes


class Memory:
    """The window of a learner, with names of columns and codes of categories.

    Attributes
    ----------
    features : Dictionary
        Attribute to column, in the order they were first learned.
    window : SlidingWindow
        The records.
    """

    def __init__(self, size: int, features: Iterable[str] = ()) -> None:
        self.features = Dictionary(min(MAX_FEATURES, MAX_CELLS // size), features)
        self.window = SlidingWindow(size)
        self._categories = CategoryCodes()
        self._room: Scratch | None = None

    @property
    def arrays(self) -> WindowArrays:
        """The arrays that kernels work on."""
        return self.window.arrays

    def room(self, k: int) -> Scratch:
        """Scratch buffers for a search of the k nearest, reused between calls. They hold no
        state."""
        n = len(self.window)
        if self._room is None or self._room.acc.size < n:
            self._room = self.own_room(k, min(self.window.size, 2 * n))
        return self._room

    @staticmethod
    def own_room(k: int, n: int) -> Scratch:
        """Own scratch buffers for a search among n records, for results that are read after the
        call.

        By then another thread may use `room`.
        """
        acc, near, found = np.empty(n), np.empty(n + 1, dtype=np.int64), np.empty(n + 1)
        chunk, lane, best = np.empty((2, CHUNK)), np.empty(GROUP), np.empty(k)
        which = np.empty(GROUP, dtype=np.int64)
        return Scratch(chunk[0], chunk[1], lane, which, acc, near, found, best)

    def named(self, nominal: int) -> list[str]:
        """The names of categorical attributes (1) or of numeric ones (0)."""
        kinds = self.arrays.nominal.tolist()
        return [f for f, kind in zip(self.features, kinds, strict=True) if kind == nominal]

    def admit(self, block: Block, classes: int) -> Floats:
        """The rows of the block, float64 (n, D), after what its steps learn got columns and
        codes."""
        rows, steps = block.rows, learning(block)
        if not steps.size:
            return self.vectors(rows)
        learned = rows.categorical[block.row[steps]]
        if learned.size:
            self._categories.sweep(self.window.cells[self.arrays.nominal == 1])
            self._categories.add(learned)
        numbers, before = self._numbers(rows), len(self.features)
        source, column = admit(self.features, replace(block, rows=numbers))
        fresh: list[bool] = []
        if len(self.features) > before:
            there = (learned != None).any(axis=0)  # noqa: E711
            names = {n for n, t in zip(rows.categorical_names, there, strict=True) if t}
            fresh = [name in names for name in self.features.values[before:]]
        self.window.widen(fresh, classes)
        return self._placed(numbers.numeric, source, column)

    def vectors(self, rows: Rows) -> Floats:
        """The rows in the columns of the window, float64 (n, D); NaN for missing values."""
        numbers = self._numbers(rows)
        return self._placed(numbers.numeric, *find(self.features, numbers))

    def vector(self, x: Any, strangers: bool) -> Floats | None:
        """`vectors` of one record of plain numbers, at a tenth of the cost; None for any other
        record.

        strangers: whether the record may have unknown attributes, which are left out.
        """
        if type(x) is not dict:
            return None
        codes, out = self.features.codes, [nan] * len(self.features)
        for name, value in x.items():
            kind = type(value)
            if (kind is not float and kind is not int) or type(name) is not str:
                return None
            if not -LARGEST <= value <= LARGEST:  # also NaN
                return None
            j = codes.get(name)
            if j is not None:
                out[j] = value + 0.0
            elif not strangers:
                return None
        return None if self.window.mixed else np.array(out, dtype=np.float64)

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

    def unknown(self, rows: Rows) -> list[str]:
        """Attributes that the one row has, but no learned record."""
        numbers = self._numbers(rows)
        pairs = zip(numbers.numeric_names, numbers.numeric[0].tolist(), strict=True)
        return [name for name, v in pairs if v == v and name not in self.features]

    def remove(self, at: Ints) -> list[int]:
        """Unlearn the records at these indices. Returns the classes that are gone, in falling
        order."""
        columns, classes = self.window.remove(at)
        for name in [self.features.values[j] for j in columns]:
            self.features.remove(name)
        return classes[::-1]

    def clashes(self, other: Memory) -> None:
        """Raise InvalidRecordError if an attribute is numeric in one window and categorical in the
        other."""
        for nominal in (0, 1):
            both = sorted({*self.named(nominal)} & {*other.named(1 - nominal)})
            if both:
                raise InvalidRecordError(
                    "wrong_kind", f"fields of different kinds in the two learners: {both}"
                )

    def merge(self, other: Memory, classes: Ints) -> None:
        """Learn the records of `other` after these. `classes`: for each of its classes, the code
        here."""
        before = len(self.features)
        column = np.array([self.features.add(name) for name in other.features], dtype=np.int64)
        kinds = dict(zip(other.features, other.arrays.nominal.tolist(), strict=True))
        fresh = [kinds[name] == 1 for name in self.features.values[before:]]
        self.window.widen(fresh, int(max(classes.max(initial=-1) + 1, self.arrays.classes.size)))
        theirs = other.window.cells.copy()
        nominal = other.arrays.nominal == 1
        theirs[nominal] = self._categories.translate(theirs[nominal], other._categories)
        cells = np.full((len(self.features), theirs.shape[1]), np.nan)
        kept = column >= 0
        cells[column[kept]] = theirs[kept]
        self.window.extend(cells, other.window, column, classes)

    def export(self) -> State:
        """The state; arrays are copied only if needed."""
        records = self.window.export()
        nominal = self.arrays.nominal == 1
        codes, categories = self._categories.export(self.window.cells[nominal])
        cells = records.arrays["cells"].copy()
        cells[nominal] = np.where(np.isnan(codes), 0.0, codes)
        records = State(records.header, {**records.arrays, "cells": cells})
        names = State(named(self.features))
        return State.join({"names": names, "records": records, "categories": categories})

    @classmethod
    def restored(cls, state: State, size: int, classes: int) -> Memory:
        """The memory of a state made by `export`. StateError, KeyError, TypeError: it is
        damaged."""
        out = cls(size)
        out.features = restored(out.features, state.nested("names"))
        records, features = state.nested("records"), len(out.features)
        out.window = SlidingWindow.restored(records, size, features, classes)
        nominal = out.arrays.nominal == 1
        cells = out.window.cells[nominal]
        out._categories = CategoryCodes.restored(cells, state.nested("categories"))
        return out
