"""Blocks: rows with a sequence of steps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream import schema as kinds
from stream.errors import InvalidRecordError
from stream.rows import Floats, Rows
from stream.schema import Label

__all__ = ["LEARN", "PREDICT", "PREDICT_THEN_LEARN", "Block", "Floats", "Op", "Rows", "learning"]


class Op(IntEnum):
    """What a step does with its row."""

    PREDICT = 0
    LEARN = 1
    PREDICT_THEN_LEARN = 2


PREDICT, LEARN, PREDICT_THEN_LEARN = (int(op) for op in Op)


@dataclass(slots=True)
class Block:
    """Rows and the steps over them, executed in order.

    Parameters
    ----------
    rows
        The features; several steps may name one row.
    op
        int8, (m,): an `Op` a step.
    row
        int64, (m,): index into `rows`.
    y
        int32, (m,): index into `labels`; -1 where the step does not learn.
    w
        float64, (m,): weight of a learning step, > 0 and at most 2**53.
    labels
        This block's own dictionary of labels.
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
        """How many steps predict."""
        return len(self) - self.op.tobytes().count(LEARN)

    @classmethod
    def of(
        cls,
        rows: Rows,
        op: int,
        ys: Sequence[Any] | None = None,
        ws: Sequence[float] | float = 1.0,
    ) -> Block:
        """The block that does `op` on each row in turn.

        Raises
        ------
        InvalidRecordError
            A label that is none.
        ValueError
            A weight that is not positive or beyond 2**53; lengths that differ.
        """
        n = len(rows)
        if ys is not None and len(ys) != n:
            raise ValueError(f"{n} rows need {n} labels, got {len(ys)}")
        try:
            given = np.asarray(ws, dtype=np.float64)
        except OverflowError:  # an integer may be beyond every float
            given = np.full(n, np.inf)
        w = np.array(np.broadcast_to(given, (n,)))  # writable: one kernel
        if not ((w > 0) & (w <= kinds.HEAVIEST)).all():
            raise ValueError("weights must be greater than 0 and at most 2**53")
        y = np.full(n, -1, dtype=np.int32)
        labels: list[Label] = []
        if ys is not None:
            codes: dict[tuple[type, Label], int] = {}
            for i, value in enumerate(ys):
                label = kinds.plain_label(value)
                code = codes.setdefault((type(label), label), len(labels))
                if code == len(labels):
                    labels.append(label)
                y[i] = code
        ops = np.full(n, op, dtype=np.int8)
        return cls(rows, ops, np.arange(n, dtype=np.int64), y, w, labels)

    def slice(self, start: int, stop: int) -> Block:
        """Steps start … stop-1 over the same rows."""
        part = slice(start, stop)
        return Block(
            self.rows, self.op[part], self.row[part], self.y[part], self.w[part], self.labels
        )


def learning(block: Block) -> NDArray[np.int64]:
    """Indices of the steps that learn, in order."""
    return np.flatnonzero(block.op != PREDICT)


def mixed_kinds(first: Label, label: Label) -> InvalidRecordError:
    """The error of a label of another kind than the first."""
    return InvalidRecordError(
        "label_kind",
        f"labels are {type(first).__name__} since the first one, got {type(label).__name__}",
    )
