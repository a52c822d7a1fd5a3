"""ConditionalPart: the Gaussian of the numbers for each class and cell of categories.

Rule: a cell is the set of categories that a record has. It does not depend on what else was
learned, so any split into blocks gives the same cells. Each cell is a `CovariancePart` that runs
over its own steps of the block. If a cell is thin for a class, the Gaussian of the class is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes.categories import LONGEST_VALUE
from stream.bayes.covariance import Covariance, CovariancePart, Settings
from stream.bayes.part import Part, Steps, Term, UnlearnAmount
from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.schema import Schema
from stream.data.state import Saved, State

__all__ = ["MAX_CELLS", "ConditionalPart"]

MAX_CELLS = 256

Key = tuple[tuple[str, str], ...]


class _Cell:
    """The Gaussian of one cell, and the number of its records of each class."""

    def __init__(self, part: CovariancePart) -> None:
        self.part = part
        self.records = np.zeros(0, dtype=np.int64)

    def had(self, names: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
        """The first value of each number (NaN if none), and whether another value came."""
        s, codes = self.part.moments, self.part._features.codes
        first = np.full(len(names), np.nan)
        varied = np.zeros(len(names), dtype=np.bool_)
        for k, name in enumerate(names):
            j = codes.get(name, -1)
            if j >= 0 and s.total_n[j] > 0:
                first[k], varied[k] = s.anchor[j], s.total_m2[j] > 0
        return first, varied

    def widen(self, classes: int) -> None:
        more = np.zeros(classes - self.records.size, dtype=np.int64)
        self.records = np.concatenate((self.records, more))
        self.part._resize(classes)


class ConditionalPart(Part):
    """Numeric features, jointly normal given class and cell.

    Parameters
    ----------
    covariance, settings
        Of each Gaussian.
    thin
        If a cell has fewer records of a class than this, or fewer than twice the record's numbers,
        the Gaussian of the class is used.
    """

    name: ClassVar[str] = "conditional"

    def __init__(self, covariance: Covariance, settings: Settings, thin: int) -> None:
        self._of = (covariance, settings)
        self._thin = thin
        self._class = CovariancePart(covariance, settings)
        self._cells: dict[Key, _Cell] = {}
        self._refused = 0
        self._classes = 0  # cells make room for new classes when they are next used

    @property
    def features(self) -> list[str]:
        return self._class.features

    @property
    def overflows(self) -> dict[str, int]:
        return {**self._class.overflows, "gaussians": self._refused}

    def tables(self, schema: Schema, classes: int) -> int:
        """Bytes of the class's Gaussians, and the same for each cell."""
        texts = 4 * LONGEST_VALUE * len(schema.categorical)
        return (1 + MAX_CELLS) * (self._class.tables(schema, classes) + 8 * classes + texts)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        of_class = np.zeros_like(joint)
        self._class.execute(block, steps, classes, of_class)
        self._classes = classes
        place = np.cumsum(block.op != LEARN) - 1  # the row of `joint` of each predicting step
        for key, at in self._groups(block):
            cell = self._cells.get(key)
            if cell is None:
                continue
            cell.widen(classes)
            part = Block(
                block.rows, block.op[at], block.row[at], block.y[at], block.w[at], block.labels
            )
            own = Steps(part.op, part.row, steps.y[at], part.w, _known(cell), steps.growth)
            in_cell = np.zeros((part.n_predictions, classes))
            # Before it learns, because the state before the step decides what is thin.
            thick = self._thick(cell, part, own, classes)
            cell.part.execute(part, own, classes, in_cell)
            rows = place[at[part.op != LEARN]]
            of_class[rows] = np.where(thick, in_cell, of_class[rows])
        joint += of_class

    def _groups(self, block: Block) -> Iterator[tuple[Key, NDArray[np.int64]]]:
        """The steps of each cell. Cells are made in the order of their first learning step."""
        keys = {row: _key(block.rows, row) for row in set(block.row.tolist())}
        groups: dict[Key, list[int]] = {}
        for i, (row, op) in enumerate(zip(block.row.tolist(), block.op.tolist(), strict=True)):
            groups.setdefault(keys[row], []).append(i)
            if op != PREDICT and not self._admit(keys[row]):
                self._refused += 1
        for key, at in groups.items():
            yield key, np.array(at, dtype=np.int64)

    def _admit(self, key: Key) -> bool:
        long = any(len(value) > LONGEST_VALUE for _, value in key)
        if key not in self._cells and len(self._cells) < MAX_CELLS and not long:
            self._cells[key] = _Cell(CovariancePart(*self._of))
        return key in self._cells

    def _thick(self, cell: _Cell, part: Block, steps: Steps, classes: int) -> NDArray[np.bool_]:
        """Whether each predicting step may use the cell, by class. Counts the learned records."""
        cell.widen(classes)
        names, x = part.rows.numeric_names, part.rows.numeric
        first, varied = cell.had(names)
        out = np.zeros((part.n_predictions, classes), dtype=np.bool_)
        k = 0
        for op, row, y in zip(part.op.tolist(), part.row.tolist(), steps.y.tolist(), strict=True):
            present = ~np.isnan(x[row])
            if op != LEARN:
                need = max(self._thin, 2 * int(np.count_nonzero(present)))
                out[k] = (cell.records >= need) & bool(varied[present].all())
                k += 1
            if op != PREDICT:
                cell.records[y] += 1
                varied |= present & (first != x[row]) & ~np.isnan(first)
                first = np.where(np.isnan(first), x[row], first)
        return out

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        of_class = dict(self._class.terms(rows, classes))
        cell = self._cells.get(_key(rows, 0))
        if cell is None:
            return list(of_class.items())
        cell.widen(classes)
        present = ~np.isnan(rows.numeric[0])
        need = max(self._thin, 2 * int(np.count_nonzero(present)))
        thick = (cell.records >= need) & bool(cell.had(rows.numeric_names)[1][present].all())
        in_cell = dict(cell.part.terms(rows, classes))
        nothing = np.zeros(classes)
        return [
            (n, np.where(thick, in_cell.get(n, nothing), of_class.get(n, nothing)))
            for n in dict.fromkeys([*of_class, *in_cell])
        ]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        cell = self._cells.get(_key(rows, 0))
        if cell is None:
            if not self._refused:
                return "no record had this combination of categories"
            return self._class.lacks(rows, c, amount)
        if c >= cell.records.size or not cell.records[c]:
            return "no record of its class had this combination of categories"
        return self._class.lacks(rows, c, amount) or cell.part.lacks(rows, c, amount)

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        self._class.unlearn(rows, c, amount)
        key = _key(rows, 0)
        cell = self._cells.get(key)
        if cell is None:
            self._refused -= 1
            return
        cell.records[c] -= 1
        if not cell.records.any():
            del self._cells[key]
            return
        cell.part.unlearn(rows, c, amount)

    def drop_class(self, c: int) -> None:
        self._class.drop_class(c)
        self._classes -= 1
        for cell in self._cells.values():
            if c < cell.records.size:
                cell.records = np.delete(cell.records, c)
                cell.part.drop_class(c)

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        self._class.merge(other._class, classes, size, fade)
        self._classes = size
        for key, theirs in other._cells.items():
            if not self._admit(key):
                self._refused += int(theirs.records.sum())
                continue
            mine = self._cells[key]
            mine.widen(size)
            codes = classes[: theirs.records.size]
            mine.part.merge(theirs.part, codes, size, fade)
            mine.records[codes] += theirs.records
        self._refused += other._refused

    def n_parameters(self, classes: int) -> int:
        return self._class.n_parameters(classes) + sum(
            cell.part.n_parameters(_known(cell)) for cell in self._cells.values()
        )

    def export(self) -> State:
        for cell in self._cells.values():
            cell.widen(self._classes)
        parts = {"class": self._class.export()}
        for i, cell in enumerate(self._cells.values()):
            parts[f"cell{i}"] = cell.part.export()
        joined = State.join(parts)
        keys = [[list(pair) for pair in key] for key in self._cells]
        arrays = {f"records{i}": c.records for i, c in enumerate(self._cells.values())}
        header = {**joined.header, "cells": keys, "refused": self._refused}
        return State(header, {**joined.arrays, **arrays})

    def restore(self, state: State, classes: int) -> None:
        self._class.restore(state.nested("class"), classes)
        cells: dict[Key, _Cell] = {}
        for i, pairs in enumerate(state.header["cells"]):
            cell = _Cell(CovariancePart(*self._of))
            name = f"records{i}"
            cell.records = state.read({name: Saved(np.int64, (classes,))})[name]
            cell.part.restore(state.nested(f"cell{i}"), classes)
            cells[tuple((str(n), str(v)) for n, v in pairs)] = cell
        self._cells, self._refused = cells, int(state.header["refused"])
        self._classes = classes


def _key(rows: Rows, row: int) -> Key:
    pairs = zip(rows.categorical_names, rows.categorical[row], strict=True)
    return tuple(sorted((name, value) for name, value in pairs if value is not None))


def _known(cell: _Cell) -> int:
    """Number of classes up to the last one of which the cell has a record."""
    had = np.flatnonzero(cell.records)
    return int(had[-1]) + 1 if had.size else 0
