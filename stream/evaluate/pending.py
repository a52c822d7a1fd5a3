"""Rows that wait for their label, with their predictions, in slots assigned by the join; and the
prediction of each labelled step, made in this call or kept from an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats, Rows
from stream.data.memory import SHRINKS, ResizableArray
from stream.data.row_store import ObjectPieces, RowStore, loaded, stored
from stream.data.state import Saved, State
from stream.evaluate.quality import BaselinePredictions
from stream.learner.base import Predictions

__all__ = [
    "LabelledPredictions",
    "PendingRows",
    "either",
]


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
    predicted : ResizableArray
        (slots, 3): class codes of model, majority and no-change; -1 for none.
    proba, prior : ResizableArray
        (slots, C): the posterior, and the shares of the labels learned by then; 0 for classes that
        were not yet known.
    squares : ResizableArray
        (slots,): of `BaselinePredictions`.
    flagged, early, judged : ResizableArray
        (slots,): whether a budget of false positives flagged the record, whether it had too few
        labels to decide then, and the probability by which it decided.
    marked : bool
        Whether `flagged`, `early` and `judged` may be set: there is or was a budget.
    """

    def __init__(self, like: Rows) -> None:
        self.rows = RowStore(like)
        self.memos = ObjectPieces(1)
        # Readers take `.array` each time, because nothing may refer to arrays when they grow.
        self.predicted = ResizableArray(np.empty((0, 3), dtype=np.int64))
        self.proba, self.prior = (ResizableArray(np.empty((0, 0))) for _ in range(2))
        self.squares, self.judged = (ResizableArray(np.empty(0)) for _ in range(2))
        self.flagged, self.early = (ResizableArray(np.empty(0, np.bool_)) for _ in range(2))
        self._classes = 0
        self.marked = False

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
        answers = self.predicted.array
        answers[index, 0], answers[index, 1:] = predicted, beside.predicted
        self.squares.array[index] = beside.squares
        given = (flagged, early, judged)
        self.marked = self.marked or any(each is not None for each in given)
        if self.marked:
            self.flagged.array[index] = False if flagged is None else flagged
            self.early.array[index] = False if early is None else early
            self.judged.array[index] = 0.0 if judged is None else judged
        for held, new in ((self.proba.array, proba), (self.prior.array, beside.prior)):
            held[index] = 0.0
            held[index, : new.shape[1]] = new

    def widen(self, classes: int) -> None:
        """Make columns for that many classes, even if no row is put: a state has them all."""
        m = self.proba.array.shape[1]
        if classes > m:
            wide = max(classes, 2 * m)
            self.proba, self.prior = _widened(self.proba, wide), _widened(self.prior, wide)
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
        of_budget = self.flagged, self.early, self.judged
        zero = (self.proba, self.prior, self.squares, *of_budget)
        held = (self.rows.like.numeric, *(each.array for each in (self.predicted, *zero)))
        size = sum(array.itemsize * math.prod(array.shape[1:]) for array in held)
        del held  # nothing may refer to arrays that grow
        slots = max(slots, n + (min(n, max(1, STEP // size)) if SHRINKS else n))
        for each in zero:
            each.grow(slots)
        self.predicted.grow(slots, -1)
        self.memos.grow(slots)
        self.rows.grow(slots)  # last, so it is repeated if memory is short

    def to_state(self, index: NDArray[np.int64]) -> State:
        """The state of the slots of `index`, in that order."""
        arrays: dict[str, NDArray[Any]] = {
            "predicted": self.predicted.array[index],
            "proba": self.proba.array[index, : self._classes],
            "prior": self.prior.array[index, : self._classes],
            "squares": self.squares.array[index],
        }
        for name in OF_BUDGET:  # absent without a budget
            if (found := getattr(self, name).array[index]).any():
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
        shares = Saved(np.float64, (index.size, "classes"), 0.0, 1.0 + SLACK)
        table = {
            "predicted": Saved(np.int64, (index.size, "predictions")),
            "proba": shares,
            "prior": shares,
            "squares": Saved(np.float64, (index.size,)),
        }
        predicted, proba, prior, squares = state.read(table).values()
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


class LabelledPredictions:
    """The predictions that the labels of a block belong to.

    Parameters
    ----------
    block
        The steps.
    slot
        int64, one for each step: the slot its row was fetched from; -1 for a row of this call.
    waiting
        Rows and predictions of earlier calls, by slot.
    unscored
        The steps that learn, although nobody gave their label, and are not scored.

    Notes
    -----
    Everything is computed on first use.
    """

    def __init__(
        self,
        block: Block,
        slot: NDArray[np.int64],
        waiting: PendingRows,
        unscored: Sequence[int] = (),
    ) -> None:
        self.block, self.slot, self.waiting, self._unscored = block, slot, waiting, unscored

    def scored(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The steps of a mask, one for each step, that are scored."""
        if self._unscored:
            which = which.copy()
            which[list(self._unscored)] = False
        return np.flatnonzero(which)

    @cached_property
    def predicting(self) -> NDArray[np.int64]:
        """The steps that predict, in the order of the predictions of this call."""
        return np.flatnonzero(self.block.op != LEARN)

    @cached_property
    def of_row(self) -> NDArray[np.int64]:
        """The index of the prediction of each row in this call; -1 if it was not predicted."""
        made = np.full(len(self.block.rows), -1, dtype=np.int64)
        made[self.block.row[self.predicting]] = np.arange(self.predicting.size)
        return made

    def answered(self, steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each step, its prediction of this call, and the slot of its earlier prediction.

        One of the two is -1.
        """
        return self.of_row[self.block.row[steps]], self.slot[steps]

    def outcomes(
        self,
        steps: NDArray[np.int64],
        codes: NDArray[np.int64],
        predictions: Predictions,
        predicted: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """The true class of each step, the predicted one, and the probability of the true one.

        Call it before the block is scored, because scoring reuses the slots of labelled
        predictions.

        Parameters
        ----------
        steps
            int64, (k,): labelled steps.
        codes
            int64: label of the block to class code.
        predictions, predicted
            The predictions of this call, and their class codes; -1 for none.
        """
        waiting, true = self.waiting, codes[self.block.y[steps]]
        here, slot = self.answered(steps)
        fresh = slot < 0
        answer = np.where(fresh, _at(predicted, here), _at(waiting.predicted.array[:, 0], slot))
        then = _of(waiting.proba.array, slot, true)
        p_true = np.where(fresh, _of(predictions.proba, here, true), then)
        return true, answer, p_true


def _at(values: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """values[index]; -1 where the index is -1."""
    if not values.size:
        return np.full(index.size, -1, dtype=np.int64)
    return np.where(index >= 0, values[np.maximum(index, 0)], -1)


def _of(proba: Floats, row: NDArray[np.int64], column: NDArray[np.int64]) -> Floats:
    """proba[row, column]; 0 where the class had no column yet."""
    if not proba.size:
        return np.zeros(row.size)
    inside = (column < proba.shape[1]) & (row >= 0)
    found: Floats = proba[np.where(inside, row, 0), np.where(inside, column, 0)]
    return np.where(inside, found, 0.0)
