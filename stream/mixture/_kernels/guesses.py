"""Kernels of the guesses: the shares of the classes, and no change."""

from __future__ import annotations

from math import isnan
from typing import Any

from stream.kernel import inlined, kernel

PSEUDO = 0.5  # records added to the count of each class, and of each kind of step
TINY = 1e-200  # a faded count below it is 0: still smaller numbers are slow


@kernel
def shares(known: int, counts: Any, out: Any) -> None:
    """out float64 (C,): the share of each known class; counts float64 (C,)."""
    total = PSEUDO * known
    for c in range(known):
        total += counts[c]
    for c in range(known):
        out[c] = (counts[c] + PSEUDO) / total


@kernel
def no_change(known: int, counts: Any, stays: Any, last: int, out: Any) -> None:
    """out float64 (C,): the last label with the share of labels that equal the one before.

    The rest is divided by the shares of the other classes. stays float64 (2,): weight of the labels
    that equal, and that differ from, the one before. last: its code; -1 before the first label.
    """
    shares(known, counts, out)
    if known < 2 or last < 0:
        return
    stay = (stays[0] + PSEUDO) / (stays[0] + stays[1] + 2.0 * PSEUDO)
    others = 0.0  # not 1 - out[last], which may round to 0
    for c in range(known):
        others += 0.0 if c == last else out[c]
    for c in range(known):
        out[c] = stay if c == last else (1.0 - stay) * out[c] / others


@kernel
def before(memo: Any, last: int) -> int:
    """The last label that was known when a row was predicted, by its memo float64 (1 + C, 1) or
    (0, 0); the present one if nothing is noted."""
    if memo.shape[0] == 0 or isnan(memo[0, 0]):
        return last
    for c in range(min(int(memo[0, 0]), memo.shape[0] - 1)):
        if memo[1 + c, 0] == 1.0:
            return c
    return -1


@inlined
def fade(kept: float, counts: Any) -> None:
    """Multiply counts by the share that one more label leaves of them."""
    for i in range(counts.shape[0]):
        counts[i] *= kept
        if counts[i] < TINY:
            counts[i] = 0.0


@kernel
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    changes: bool,
    kept: float,
    counts: Any,
    stays: Any,
    last: Any,
    memos: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Run the steps: predict the shares, or with `changes` no change, and count labels.

    op, row, y, w: as in `Block`, with class codes. last int64 (1,). proba float64 (n_predictions,
    C), seen int64 (n_predictions,). memos float64 (rows, 1 + C, 1), with `changes`: 1 at the last
    label that was known at the prediction, else 0. kept: of `fade`.
    """
    predicted = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            if changes:
                no_change(known, counts, stays, last[0], proba[predicted])
            else:
                shares(known, counts, proba[predicted])
            seen[predicted] = known
            predicted += 1
        memo = memos[row[i]]
        if op[i] == 0:
            if changes:
                memo[0, 0] = known
                for c in range(known):
                    memo[1 + c, 0] = 1.0 if c == last[0] else 0.0
        else:
            if kept < 1.0:
                fade(kept, counts)
                fade(kept, stays)
            counts[y[i]] += w[i]
            then = last[0] if op[i] == 2 else before(memo, last[0])
            if then >= 0:
                stays[0 if y[i] == then else 1] += w[i]
            last[0] = y[i]
            known = max(known, y[i] + 1)
