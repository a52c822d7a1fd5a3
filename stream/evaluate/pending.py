"""Rows that wait for their label, with their predictions, in slots assigned by the join."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats, Rows
from stream.data.state import State
from stream.data.stored import loaded, stored
from stream.errors import StateError
from stream.evaluate.quality import BaselinePredictions

__all__ = ["PendingRows", "either"]

SLACK = 1e-6  # by which sums of probabilities may exceed 1

_Number = TypeVar("_Number", bound=np.generic)


class PendingRows:
    """A store of rows and predictions, as large as the largest slot in use.

    Attributes
    ----------
    rows : Rows
        Features as encoded at prediction, without their memo.
    memos : ndarray
        object, (slots,): the memo of each row, for the classes that were known then; else None.
        One array a row, so that added classes do not make waiting rows larger.
    predicted : ndarray
        int64, (slots, 3): class codes of model, majority and no-change; -1 for none.
    proba, prior : ndarray
        float64, (slots, C): the posterior, and the shares of the labels learned by then; 0 for
        classes that were not yet known.
    squares : ndarray
        float64, (slots,): of `BaselinePredictions`.
    flagged : ndarray
        bool, (slots,): whether a budget of false positives flagged the record.
    early : ndarray
        bool, (slots,): whether that budget had too few labels to decide then.
    """

    def __init__(self, like: Rows) -> None:
        self.rows = like.take(np.empty(0, dtype=np.int64))
        self.memos = np.empty(0, dtype=object)
        self.predicted = np.empty((0, 3), dtype=np.int64)
        self.proba: Floats = np.empty((0, 0))
        self.prior: Floats = np.empty((0, 0))
        self.squares: Floats = np.empty(0)
        self.flagged, self.early = (np.zeros(0, dtype=np.bool_) for _ in range(2))
        self._classes = 0

    def align(self, rows: Rows) -> Rows:
        """`rows` with the columns of this store. The store adds columns that it did not have."""
        self.rows = self.rows.with_columns_of(rows)
        return rows.with_columns_of(self.rows)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows in the slots of `index`, copied, with their memos."""
        rows = self.rows.take(index)
        noted = [(i, m) for i, m in enumerate(self.memos[index].tolist()) if m is not None]
        if noted:
            shapes = [memo.shape for _, memo in noted]
            rows.memo = rows.memo_of(*(max(sizes) for sizes in zip(*shapes, strict=True)))
            for i, memo in noted:
                rows.memo[i, : memo.shape[0], : memo.shape[1]] = memo
        return rows

    def put(
        self,
        slots: int,
        index: NDArray[np.int64],
        rows: Rows,
        predicted: NDArray[np.int64],
        proba: Floats,
        beside: BaselinePredictions,
        flagged: NDArray[np.bool_] | None = None,
        early: NDArray[np.bool_] | None = None,
    ) -> None:
        """Store one row with its predictions in each slot of `index`. `slots` is the size
        needed. `flagged` and `early` are None without a budget."""
        if slots > len(self.rows):
            self._resize(max(slots, 2 * len(self.rows)), self.proba.shape[1])
        self.widen(proba.shape[1])
        if not index.size:
            return
        self.rows.put(index, rows)
        self.memos[index] = _memos(rows)
        self.predicted[index, 0], self.predicted[index, 1:] = predicted, beside.predicted
        self.squares[index] = beside.squares
        self.flagged[index] = False if flagged is None else flagged
        self.early[index] = False if early is None else early
        for held, new in ((self.proba, proba), (self.prior, beside.prior)):
            held[index] = 0.0
            held[index, : new.shape[1]] = new

    def widen(self, classes: int) -> None:
        """Make columns for that many classes, even if no row is put: a state has them all."""
        if classes > self.proba.shape[1]:
            self._resize(len(self.rows), max(classes, 2 * self.proba.shape[1]))
        self._classes = max(self._classes, classes)

    def clear(self, slots: NDArray[np.int64]) -> None:
        """Release the categories, texts and memos in `slots`. Numbers do not free memory, so they
        stay."""
        rows = self.rows
        there = slots[slots < len(rows)]  # without slots that were never used
        self.memos[there] = None
        if rows.categorical_names or rows.text_names:
            rows.categorical[there] = rows.text[there] = None

    def _resize(self, slots: int, classes: int) -> None:
        n, m = self.proba.shape
        predicted, squares = np.full((slots, 3), -1, dtype=np.int64), np.zeros(slots)
        proba, prior = np.zeros((slots, classes)), np.zeros((slots, classes))
        predicted[:n], squares[:n] = self.predicted, self.squares
        proba[:n, :m], prior[:n, :m] = self.proba, self.prior
        self.flagged = np.append(self.flagged, np.zeros(slots - n, dtype=np.bool_))
        self.early = np.append(self.early, np.zeros(slots - n, dtype=np.bool_))
        self.predicted, self.squares, self.proba, self.prior = predicted, squares, proba, prior
        if slots > len(self.rows):
            self.rows = self.rows.grown(slots)
            self.memos = np.append(self.memos, np.full(slots - self.memos.size, None))

    def to_state(self, index: NDArray[np.int64]) -> State:
        """The state of the slots of `index`, in that order."""
        arrays: dict[str, NDArray[Any]] = {
            "said": self.predicted[index],
            "proba": self.proba[index, : self._classes],
            "prior": self.prior[index, : self._classes],
            "squares": self.squares[index],
        }
        if self.flagged[index].any():  # absent without a budget, as in states of older versions
            arrays["flagged"] = self.flagged[index]
        if self.early[index].any():
            arrays["early"] = self.early[index]
        return State({}, {**stored(self.take(index)), **arrays})

    def load_state(self, state: State, slots: int, index: NDArray[np.int64]) -> None:
        """Load what `to_state` saved, with its rows in the slots of `index`.

        Raises
        ------
        StateError
            A value is not a probability, so the state is damaged.
        """
        rows = loaded(state, index.size, self.rows)
        predicted, proba = state.array("said", np.int64, 2), state.array("proba", np.float64, 2)
        prior, squares = state.array("prior", np.float64, 2), state.array("squares", np.float64, 1)
        for name, shares in (("proba", proba), ("prior", prior)):
            if not ((shares >= 0.0) & (shares <= 1.0 + SLACK)).all():
                raise StateError(
                    f"array {name!r}: expected probabilities from 0 to 1, got other values"
                )
        self.put(
            slots,
            index,
            rows,
            predicted[:, 0],
            proba,
            BaselinePredictions(predicted[:, 1:], prior, squares),
            *(
                state.array(name, np.bool_, 1) if name in state.arrays else None
                for name in ("flagged", "early")
            ),
        )


def _memos(rows: Rows) -> NDArray[np.object_]:
    """The memo of each row alone, without the classes that it did not know."""
    out = np.full(len(rows), None)
    if rows.memo is not None:
        known = np.fmax.reduce(rows.memo[:, 0], axis=1, initial=-1.0)
        most = float(rows.memo.shape[1])  # in a damaged state there may be a larger number
        for i, classes in enumerate(np.minimum(known, most).astype(np.int64).tolist()):
            if classes >= 0:
                out[i] = rows.memo[i, : 1 + classes].copy()
    return out


def either(
    here: NDArray[np.int64],
    slots: NDArray[np.int64],
    now: NDArray[_Number],
    then: NDArray[_Number],
    width: int,
) -> NDArray[_Number]:
    """Rows of predictions made `now`, or, for steps with a slot, of waiting ones made `then`.

    Waiting rows may have fewer columns, because fewer classes were known, or more, as spare room.
    """
    out = np.zeros((here.size, width), dtype=now.dtype)
    waited = slots >= 0
    out[~waited] = now[here[~waited]]
    common = min(width, then.shape[1])
    out[waited, :common] = then[slots[waited], :common]
    return out
