"""The weights of LogisticRegression: empty, widened, merged, saved and restored.

Rule: tables have spare rows and columns, which are 0. A state has no spare ones, and its indicators
are sorted by bucket, so that it depends only on what was learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.columns import columns_for, grown
from stream.data.schema import BUCKETS
from stream.data.state import Saved, State
from stream.kernel._kernels import LARGEST_UNIT
from stream.linear._kernels.logistic import Linear
from stream.text import LEARNED_BUCKETS

__all__ = ["empty", "exported", "merged", "restored", "spread", "widened", "with_slots"]

BY_CLASS = ("shares", "bias", "bias_squares")
BY_NUMBER = ("n", "mean", "m2")
NUMBERS = ("number", "number_squares", "number_n", "number_mean")
INDICATORS = ("indicator", "indicator_squares", "counts")
COUNTS = ("cut", "refused", "records")
ONLY_NAIVE = ("number_n", "number_mean", "counts")
SIGNED = {"bias", "mean", "number", "indicator", "number_mean"}
STEEPEST = 1e6  # of a merged weight, which predicts 0 or 1: spreads may differ by 200 powers of ten
FARTHEST, HEAVIEST = 1e101, 1e290  # of signed numbers and of the others in a state; never reached


def empty() -> Linear:
    """The state before anything is learned."""
    out: dict[str, NDArray[Any]] = {}
    out |= {name: np.zeros(0) for name in (*BY_CLASS, *BY_NUMBER)}
    out |= {name: np.zeros((0, 0)) for name in (*NUMBERS, *INDICATORS)}
    out |= {name: np.zeros(1, dtype=np.int64) for name in ("size", *COUNTS)}
    return Linear(slot=np.zeros(0, dtype=np.int32), unit=np.ones(1), **out)


def with_slots(s: Linear) -> Linear:
    """`s` with a slot for each bucket. They are left out while there are only numbers."""
    return s if s.slot.size else s._replace(slot=np.zeros(BUCKETS, dtype=np.int32))


def used(names: tuple[str, ...], naive: bool) -> tuple[str, ...]:
    """Those of the named tables that are used."""
    return tuple(name for name in names if naive or name not in ONLY_NAIVE)


def widened(
    s: Linear, shape: tuple[int, int, int], most: tuple[int, int, int], naive: bool
) -> Linear:
    """`s` with room for that many classes, numbers and indicators, of which there are at most
    `most`."""
    classes, numbers, indicators = shape
    fits = s.bias.size >= classes and s.n.size >= numbers
    for table, size in ((s.number, numbers), (s.indicator, indicators)):
        fits = fits and table.shape[0] >= size and table.shape[1] >= classes
    if fits:
        return s
    out: dict[str, NDArray[Any]] = {}
    for vectors, size in ((BY_CLASS, classes), (BY_NUMBER, numbers)):
        for name in vectors:
            old = getattr(s, name)
            if old.size < size:
                out[name] = np.append(old, np.zeros(size - old.size))
    tables = ((NUMBERS, numbers, most[1]), (INDICATORS, indicators, most[2]))
    for names, size, bound in tables:
        for name in used(names, naive):
            old = getattr(s, name)
            rows = grown(size, old.shape[0], bound)
            out[name] = columns_for(old, rows, classes, most[0])
    return s._replace(**out)


def exported(s: Linear, classes: int, numbers: int, naive: bool) -> dict[str, NDArray[Any]]:
    """The arrays of a state; some are not copied."""
    learned = np.flatnonzero(s.slot).astype(np.int64)
    rows = s.slot[learned] - 1
    out = {name: getattr(s, name) for name in (*BY_CLASS, *BY_NUMBER, *COUNTS, "unit")}
    for name in used(NUMBERS, naive):
        out[name] = getattr(s, name)[:numbers, :classes]
    for name in used(INDICATORS, naive):
        out[name] = getattr(s, name)[rows, :classes]
    return {**out, "bucket": learned}


def restored(state: State, classes: int, numbers: int, naive: bool) -> Linear:
    """The tables of a state made by `exported`.

    Raises
    ------
    StateError
        The state is damaged.
    """
    shapes: dict[str, tuple[str | int, ...]] = dict.fromkeys(BY_CLASS, (classes,))
    shapes |= dict.fromkeys(BY_NUMBER, (numbers,))
    shapes |= dict.fromkeys(used(NUMBERS, naive), (numbers, classes))
    shapes |= dict.fromkeys(used(INDICATORS, naive), ("tokens", classes))
    table = {"bucket": LEARNED_BUCKETS, "unit": Saved(np.float64, (1,), 1.0, LARGEST_UNIT)}
    for name, shape in shapes.items():
        bounds = (-FARTHEST, FARTHEST) if name in SIGNED else (0.0, HEAVIEST)
        table[name] = Saved(np.float64, shape, *bounds)
    found = state.read(table | dict.fromkeys(COUNTS, Saved(np.int64, (1,), 0)))
    learned = found.pop("bucket")
    d = learned.size
    out = with_slots(empty()) if d else empty()
    out.slot[learned] = np.arange(1, d + 1)
    return out._replace(**found, size=np.array([d], dtype=np.int64))


def merged(
    mine: Linear,
    theirs: Linear,
    classes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    indicators: NDArray[np.int64],
    fade: float,
    naive: bool,
) -> None:
    """Add `theirs` to `mine`, which has room for it.

    Counts, moments and squares are added. Each weight becomes the mean of both, weighted by their
    sums of squared gradients: a weight that only one of them has learned is taken over.

    Parameters
    ----------
    classes, numbers
        For each class and number of `theirs`, its code in `mine`; -1 for a number that has none.
    indicators
        The buckets of `theirs` that get a row in `mine`.
    fade
        What remains of the counts, moments and squares of `mine`, in the unit of `theirs`.
    """
    for name in (*BY_CLASS, *BY_NUMBER, *used(NUMBERS + INDICATORS, naive)):
        if name not in SIGNED:
            getattr(mine, name)[:] *= fade
    for name in COUNTS:
        getattr(mine, name)[:] += getattr(theirs, name)
    mine.unit[:] = theirs.unit
    own = np.arange(classes.size)
    mine.shares[classes] += theirs.shares[own]
    _average(mine.bias, mine.bias_squares, (classes,), theirs.bias, theirs.bias_squares)
    _merge_numbers(mine, theirs, classes, numbers, naive)
    mine.slot[indicators] = np.arange(indicators.size) + int(mine.size[0]) + 1
    mine.size[0] += indicators.size
    _merge_indicators(mine, theirs, classes, naive)


def _average(weight: Floats, squares: Floats, at: Any, weight_2: Floats, squares_2: Floats) -> None:
    total = squares[at] + squares_2
    both = weight[at] * squares[at] + weight_2 * squares_2
    weight[at] = np.divide(both, total, out=np.zeros_like(both), where=total > 0)
    squares[at] = total


def _merge_numbers(
    mine: Linear,
    theirs: Linear,
    classes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    naive: bool,
) -> None:
    """Moments are merged as in Chan, Golub and LeVeque 1979; weights keep their slope."""
    kept = np.flatnonzero(numbers >= 0)
    j, at = numbers[kept], np.ix_(numbers[kept], classes)
    theirs_at = np.ix_(kept, np.arange(classes.size))
    n1, n2 = mine.n[j], theirs.n[kept]
    before, theirs_before = spread(mine.n[j], mine.m2[j]), spread(n2, theirs.m2[kept])
    n = np.maximum(n1 + n2, np.finfo(float).tiny)
    apart = theirs.mean[kept] - mine.mean[j]
    mine.m2[j] += theirs.m2[kept] + apart * apart * (n1 * (n2 / n))
    mine.mean[j] += apart * (n2 / n)
    mine.n[j] = n1 + n2
    after = spread(mine.n[j], mine.m2[j])
    mine.number[at] = _scaled(mine.number[at], before, after)
    slopes = _scaled(theirs.number[theirs_at], theirs_before, after)
    _average(mine.number, mine.number_squares, at, slopes, theirs.number_squares[theirs_at])
    if naive:
        w1, w2 = mine.number_n[at], theirs.number_n[theirs_at]
        w = np.maximum(w1 + w2, np.finfo(float).tiny)
        mine.number_mean[at] += (theirs.number_mean[theirs_at] - mine.number_mean[at]) * (w2 / w)
        mine.number_n[at] = w1 + w2


def spread(n: Floats, m2: Floats) -> Floats:
    """Standard deviations of these moments."""
    return np.sqrt(np.divide(m2, n, out=np.zeros_like(m2), where=n > 0))


def _scaled(weight: Floats, before: Floats, after: Floats) -> Floats:
    """Weights (D, C) of numbers whose standard deviations change, with the same slopes."""
    ratio = np.divide(after, before, out=np.ones_like(after), where=before > 0)
    return np.clip(weight * ratio[:, None], -STEEPEST, STEEPEST)


def _merge_indicators(
    mine: Linear, theirs: Linear, classes: NDArray[np.int64], naive: bool
) -> None:
    learned = np.flatnonzero(theirs.slot)
    kept = learned[mine.slot[learned] > 0]
    rows, rows_2 = mine.slot[kept] - 1, theirs.slot[kept] - 1
    at, theirs_at = np.ix_(rows, classes), np.ix_(rows_2, np.arange(classes.size))
    weights, squares = theirs.indicator[theirs_at], theirs.indicator_squares[theirs_at]
    _average(mine.indicator, mine.indicator_squares, at, weights, squares)
    if naive:
        mine.counts[at] += theirs.counts[theirs_at]
