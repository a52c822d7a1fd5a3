"""Blocks: rows with a sequence of steps over them."""

from __future__ import annotations

import math
from collections.abc import ItemsView, KeysView, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data import schema as kinds
from stream.data.parameters import number, shown
from stream.data.rows import Floats, Rows
from stream.data.schema import Label
from stream.errors import InvalidRecordError, SchemaError

__all__ = [
    "LEARN",
    "PREDICT",
    "PREDICT_THEN_LEARN",
    "Block",
    "Floats",
    "Op",
    "Rows",
    "learning",
    "notes_of",
    "rows_used",
]


class Op(IntEnum):
    """What a step does with its row."""

    PREDICT = 0
    LEARN = 1
    PREDICT_THEN_LEARN = 2


PREDICT, LEARN, PREDICT_THEN_LEARN = (int(op) for op in Op)
NEAR = 2**16  # whole numbers at most this far apart are counted in a table
WEIGHTS = "weights must be greater than 0 and at most 2**53"


@dataclass(slots=True)
class Block:
    """Rows and the steps over them, executed in order.

    Parameters
    ----------
    rows
        The features. Several steps may use the same row.
    op
        int8, (m,): the `Op` of each step.
    row
        int64, (m,): index into `rows`.
    y
        int32, (m,): index into `labels`; -1 if the step does not learn.
    w
        float64, (m,): weight of a learning step, > 0 and at most 2**53.
    labels
        The labels of this block, each once.
    """

    rows: Rows
    op: NDArray[np.int8]
    row: NDArray[np.int64]
    y: NDArray[np.int32]
    w: Floats
    labels: list[Label]

    def __len__(self) -> int:
        return int(self.op.shape[0])

    @property
    def n_predictions(self) -> int:
        """The number of predicting steps."""
        return len(self) - self.op.tobytes().count(LEARN)

    @classmethod
    def of(
        cls,
        rows: Rows,
        op: int,
        ys: Sequence[Any] | None = None,
        ws: Sequence[float] | float = 1.0,
    ) -> Block:
        """A block that does `op` on each row in turn.

        Raises
        ------
        InvalidRecordError
            A label is not valid.
        SchemaError
            A weight is not a number above 0 and at most 2**53, or lengths differ.
        """
        if not isinstance(rows, Rows) or getattr(rows.numeric, "ndim", 0) != 2:
            raise SchemaError(f"rows must be Rows of n records, got {shown(rows)}")
        n = len(rows)
        if ys is not None and _length("labels", ys) != n:
            raise SchemaError(f"{n} rows need {n} labels, got {len(ys)}")
        w = weights(ws, n)
        labels, y = ([], np.full(n, -1, dtype=np.int32)) if ys is None else _coded(ys)
        ops = np.full(n, op, dtype=np.int8)
        return cls(rows, ops, np.arange(n, dtype=np.int64), y, w, labels)

    def check(self) -> None:
        """Check that its steps can be executed; O(steps + cells).

        Raises
        ------
        SchemaError
            An array has the wrong type or length, an index or a weight is out of range, a learning
            step has no label, or a cell does not have the kind of its column.
        InvalidRecordError
            A number is infinite or too large, or a label is not valid.
        """
        if not isinstance(self.rows, Rows):
            raise SchemaError(f"rows must be Rows, got {shown(self.rows)}")
        self.rows.check()
        columns = {"op": np.int8, "row": np.int64, "y": np.int32, "w": np.float64}
        m = self.op.shape if isinstance(self.op, np.ndarray) else None
        for name, dtype in columns.items():
            column = getattr(self, name)
            fits = isinstance(column, np.ndarray) and column.dtype == dtype
            if not fits or column.ndim != 1 or column.shape != m:
                raise SchemaError(
                    f"{name} must be an array of {np.dtype(dtype)} per step, got {shown(column)}"
                )
        if not isinstance(self.labels, list):
            raise SchemaError(f"labels must be a list, got {shown(self.labels)}")
        if len({(type(label), kinds.plain_label(label)) for label in self.labels}) < len(
            self.labels
        ):
            raise SchemaError("labels must be distinct, got one twice")
        self._check_steps()

    def _check_steps(self) -> None:
        if not len(self):
            return
        y, w = self.y, self.w
        if self.op.min() == PREDICT:  # steps that only predict do not use y and w
            learns = self.op != PREDICT
            y, w = y[learns], w[learns]
        rules = (
            ("op must be 0, 1 or 2", self.op, PREDICT, PREDICT_THEN_LEARN),
            (f"row must be from 0 to {len(self.rows) - 1}", self.row, 0, len(self.rows) - 1),
            (f"y must be from -1 to {len(self.labels) - 1}", self.y, -1, len(self.labels) - 1),
            ("a learning step needs a label", y, 0, len(self.labels) - 1),
            (WEIGHTS, w, math.ulp(0.0), kinds.HEAVIEST),
        )
        for rule, column, least, most in rules:
            # Written so that NaN is out of bounds.
            if column.size and not (least <= column.min() and column.max() <= most):
                raise SchemaError(rule)

    def slice(self, start: int, stop: int) -> Block:
        """Steps start … stop-1 over the same rows."""
        part = slice(start, stop)
        return Block(
            self.rows, self.op[part], self.row[part], self.y[part], self.w[part], self.labels
        )


def notes_of(block: Block, classes: int, numbers: int) -> Floats:
    """The memos of the rows of a block, see `Rows.memo`; (rows, 0, 0) if nothing is noted.

    If a step predicts, there is room for `classes` classes. `numbers` are those of each class.
    """
    rows, notes = block.rows, bool((block.op == PREDICT).any())
    if notes or rows.memo is not None:
        rows.memo = rows.memo_of(1 + classes * notes, numbers)
    return np.empty((len(rows), 0, 0)) if rows.memo is None else rows.memo


def weights(ws: Any, n: int) -> Floats:
    """One weight for all n records, or one for each, as a new array.

    Raises
    ------
    SchemaError
        A weight is not a number above 0 and at most 2**53, or there are not n weights.
    """
    if isinstance(ws, np.ndarray) and ws.ndim and ws.dtype.kind in "fiu":
        if ws.shape != (n,):
            raise SchemaError(f"{n} records need {n} weights, got an array of shape {ws.shape}")
        out = ws.astype(np.float64)  # a copy, because kernels are compiled for writable arrays
    elif isinstance(ws, Sequence | np.ndarray) and _is_list(ws):
        if len(ws) != n:
            raise SchemaError(f"{n} records need {n} weights, got {len(ws)}")
        each = [number("w", w, 0.0, kinds.HEAVIEST, above=True) for w in ws]
        out = np.array(each, dtype=np.float64)
    else:
        out = np.full(n, number("w", ws, 0.0, kinds.HEAVIEST, above=True))
    if not ((out > 0) & (out <= kinds.HEAVIEST)).all():
        raise SchemaError(WEIGHTS)
    return out


def _is_list(ws: Any) -> bool:
    """Whether it is a list of weights. Texts and arrays without dimensions are not."""
    return not isinstance(ws, str | bytes) and getattr(ws, "ndim", 1) > 0


def _coded(ys: Any) -> tuple[list[Label], NDArray[np.int32]]:
    """The distinct labels, and the code of each one of `ys`."""
    if isinstance(ys, np.ndarray):
        whole = ys.size and ys.dtype.kind in "biu"
        least, most = (int(ys.min()), int(ys.max())) if whole else (0, 0)
        if not whole or most - least > NEAR or most >= 2**63:
            return _coded(ys.tolist())
        at = ys.astype(np.int64) - least
        found = np.flatnonzero(np.bincount(at))
        code = np.zeros(most - least + 1, dtype=np.int32)
        code[found] = np.arange(found.size)
        truths = ys.dtype.kind == "b"
        return [bool(v) if truths else v for v in (found + least).tolist()], code[at]
    types = set(map(type, ys))
    codes: dict[Any, int]
    if types == {str} or types == {bool} or types == {int}:
        labels = [kinds.plain_label(label) for label in dict.fromkeys(ys)]
        codes = {label: code for code, label in enumerate(labels)}
        return labels, np.fromiter(map(codes.__getitem__, ys), np.int32, len(ys))
    labels, codes = [], {}
    y = np.empty(len(ys), dtype=np.int32)
    for i, value in enumerate(ys):
        label = kinds.plain_label(value)
        y[i] = codes.setdefault((type(label), label), len(labels))
        if y[i] == len(labels):
            labels.append(label)
    return labels, y


def _length(name: str, values: Any) -> int:
    """The number of values. A set has no order, and the keys of a dict are no column."""
    views = isinstance(values, KeysView | ItemsView)  # they have the order of their dict
    if isinstance(values, Mapping | Set) and not views:
        raise SchemaError(
            f"{name} must be a list in the order of the rows, got a {type(values).__name__}"
        )
    try:
        return len(values)
    except TypeError:
        raise SchemaError(f"{name} must be a sequence, got {shown(values)}") from None


def learning(block: Block) -> NDArray[np.int64]:
    """Indices of the steps that learn, in order."""
    return np.flatnonzero(block.op != PREDICT)


def rows_used(block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that the steps use, rising, and for each step the index of its row among them."""
    if (block.row[1:] > block.row[:-1]).all():
        return block.row, np.arange(len(block))
    used, at = np.unique(block.row, return_inverse=True)
    return used, at.astype(np.int64)


def mixed_kinds(first: Label, label: Label) -> InvalidRecordError:
    """The error for a label that differs in kind from the first one."""
    return InvalidRecordError(
        "label_kind",
        f"labels are {type(first).__name__} since the first one, got {type(label).__name__}",
    )
