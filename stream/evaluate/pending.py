"""Rows that wait for their label, with their predictions, in slots assigned by the join."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats, Rows
from stream.data.memory import SHRINKS, ResizableArray
from stream.data.row_store import ObjectPieces, RowStore
from stream.data.state import State
from stream.data.stored import loaded, stored
from stream.errors import StateError
from stream.evaluate.quality import BaselinePredictions

__all__ = ["PendingRows", "either"]

SLACK = 1e-6  # by which sums of probabilities may exceed 1
# Bytes by which the store grows at least, once it has as many: written in less than 1 ms. Where
# arrays grow by a copy, it always doubles.
STEP = 2**20

OF_BUDGET = {"flagged": np.bool_, "early": np.bool_, "judged": np.float64}
_Number = TypeVar("_Number", bound=np.generic)


class PendingRows:
    """A store of rows and predictions, at least as large as the largest slot in use.

    It grows without a copy. More classes or columns than ever before copy it, which is rare.

    Attributes
    ----------
    rows : RowStore
        Features as encoded at prediction, without their memo.
    memos : ObjectPieces
        (slots, 1): the memo of each row, for the classes that were known then; else None. One
        array a row, so that added classes do not make waiting rows larger.
    """

    def __init__(self, like: Rows) -> None:
        self.rows = RowStore(like)
        self.memos = ObjectPieces(1)
        self._predicted = ResizableArray(np.empty((0, 3), dtype=np.int64))
        self._proba, self._prior = (ResizableArray(np.empty((0, 0))) for _ in range(2))
        self._squares, self._judged = (ResizableArray(np.empty(0)) for _ in range(2))
        self._flagged, self._early = (ResizableArray(np.empty(0, np.bool_)) for _ in range(2))
        self._classes = 0

    # Arrays are read by these, because nothing may refer to them when they grow.

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(slots, 3): class codes of model, majority and no-change; -1 for none."""
        return self._predicted.array

    @property
    def proba(self) -> Floats:
        """(slots, C): the posterior; 0 for classes that were not yet known."""
        return self._proba.array

    @property
    def prior(self) -> Floats:
        """(slots, C): the shares of the labels learned by then, as `proba`."""
        return self._prior.array

    @property
    def squares(self) -> Floats:
        """(slots,): of `BaselinePredictions`."""
        return self._squares.array

    @property
    def flagged(self) -> NDArray[np.bool_]:
        """(slots,): whether a budget of false positives flagged the record."""
        return self._flagged.array

    @property
    def judged(self) -> Floats:
        """(slots,): the probability by which that budget decided."""
        return self._judged.array

    @property
    def early(self) -> NDArray[np.bool_]:
        """(slots,): whether that budget had too few labels to decide then."""
        return self._early.array

    def align(self, rows: Rows) -> Rows:
        """`rows` with the columns of this store. The store adds columns that it did not have."""
        return self.rows.align(rows)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows in the slots of `index`, copied, with their memos."""
        rows = self.rows.take(index)
        memos = self.memos.take(index)[:, 0].tolist()
        noted = [(i, memo) for i, memo in enumerate(memos) if memo is not None]
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
        judged: Floats | None = None,
    ) -> None:
        """Store one row with its predictions in each slot of `index`. `slots` is the size
        needed. `flagged`, `early` and `judged` are None without a budget."""
        self._grow(slots)
        self.widen(proba.shape[1])
        if not index.size:
            return
        self.rows.put(index, rows)
        if rows.memo is None:
            self.memos.clear(index)
        else:
            self.memos.put(index, _memos(rows.memo))
        self.predicted[index, 0], self.predicted[index, 1:] = predicted, beside.predicted
        self.squares[index] = beside.squares
        self.flagged[index] = False if flagged is None else flagged
        self.early[index] = False if early is None else early
        self.judged[index] = 0.0 if judged is None else judged
        for held, new in ((self.proba, proba), (self.prior, beside.prior)):
            held[index] = 0.0
            held[index, : new.shape[1]] = new

    def widen(self, classes: int) -> None:
        """Make columns for that many classes, even if no row is put: a state has them all."""
        m = self.proba.shape[1]
        if classes > m:
            wide = max(classes, 2 * m)
            self._proba, self._prior = _widened(self._proba, wide), _widened(self._prior, wide)
        self._classes = max(self._classes, classes)

    def forget_memos(self) -> None:
        """Release the memos of all slots."""
        self.memos = ObjectPieces(1)
        self.memos.grow(len(self.rows))

    def clear(self, slots: NDArray[np.int64]) -> None:
        """Release the categories, texts and memos in `slots`. Numbers do not free memory, so they
        stay."""
        there = slots[slots < len(self.rows)]  # without slots that were never used
        self.rows.clear(there)
        self.memos.clear(there)

    def _grow(self, slots: int) -> None:
        """Make room for that many slots, and for some more if that is not the case yet."""
        n = len(self.rows)
        if slots <= n:
            return
        of_budget = self._flagged, self._early, self._judged
        zero = (self._proba, self._prior, self._squares, *of_budget)
        held = (self.rows.like.numeric, self.predicted, *(each.array for each in zero))
        size = sum(array.itemsize * math.prod(array.shape[1:]) for array in held)
        del held  # nothing may refer to arrays that grow
        slots = max(slots, n + (min(n, max(1, STEP // size)) if SHRINKS else n))
        for each in zero:
            each.grow(slots)
        self._predicted.grow(slots, -1)
        self.memos.grow(slots)
        self.rows.grow(slots)  # last, so it is repeated if memory is short

    def to_state(self, index: NDArray[np.int64]) -> State:
        """The state of the slots of `index`, in that order."""
        arrays: dict[str, NDArray[Any]] = {
            "predicted": self.predicted[index],
            "proba": self.proba[index, : self._classes],
            "prior": self.prior[index, : self._classes],
            "squares": self.squares[index],
        }
        for name in OF_BUDGET:  # absent without a budget
            if (found := getattr(self, name)[index]).any():
                arrays[name] = found
        return State({}, {**stored(self.take(index)), **arrays})

    def load_state(self, state: State, slots: int, index: NDArray[np.int64]) -> None:
        """Load what `to_state` saved, with its rows in the slots of `index`.

        Raises
        ------
        StateError
            A value is not a probability, so the state is damaged.
        """
        rows = loaded(state, index.size, self.rows.like)
        predicted, proba = (
            state.array("predicted", np.int64, 2),
            state.array("proba", np.float64, 2),
        )
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
                state.array(name, kind, 1) if name in state.arrays else None
                for name, kind in OF_BUDGET.items()
            ),
        )


def _memos(memo: Floats) -> NDArray[np.object_]:
    """The memo of each row alone, without the classes that it did not know. (n, 1)."""
    out = np.full((len(memo), 1), None)
    known = np.fmax.reduce(memo[:, 0], axis=1, initial=-1.0)
    most = float(memo.shape[1])  # in a damaged state there may be a larger number
    for i, classes in enumerate(np.minimum(known, most).astype(np.int64).tolist()):
        if classes >= 0:
            out[i, 0] = memo[i, : 1 + classes].copy()
    return out


def _widened(held: ResizableArray, classes: int) -> ResizableArray:
    """The same rows with columns for that many classes."""
    rows, before = held.array.shape
    wide = ResizableArray(np.empty((0, classes)))
    wide.grow(rows)
    wide.array[:, :before] = held.array
    return wide


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
