"""Kernels of the sliding window: learning, and the window of each predicting step of a block.

Sums over records run from the oldest to
the newest, so no result depends on positions in memory.
"""

from __future__ import annotations

from math import inf, isnan, sqrt
from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel

Floats = NDArray[float64]
Ints = NDArray[int64]

UNSCALED, BY_RANGE, BY_STD = range(3)
LANES = 64
TINY = 1e-290  # a smaller range counts as 0, so that its inverse times any number is finite


class WindowArrays(NamedTuple):
    """The records of the window: D attributes, C classes, room for R records.

    cells float64 (D, R): numbers, or codes of categories; NaN is missing. label, tag int64 (R,),
    weight float64 (R,). span int64 (3,): index of the oldest record, one after the newest, and 1 if
    inverse and gap are up to date. nominal int64 (D,): 1 for categories. held int64 (D,): number of
    records in the window with the attribute. seen int64 (D,), classes int64 (C,): the same over all
    learned records, without unlearned ones.

    The rest are exact functions of the records in the window, kept for speed. low, high float64
    (D,), and n_low, n_high int64 (D,), the number of records with exactly that value; 0 if it must
    be searched. inverse float64 (D,): the factor of a difference. gap float64 (D,): the scaled
    difference of a missing value.
    """

    cells: Floats
    label: Ints
    weight: Floats
    tag: Ints
    span: Ints
    nominal: Ints
    held: Ints
    seen: Ints
    classes: Ints
    low: Floats
    high: Floats
    n_low: Ints
    n_high: Ints
    inverse: Floats
    gap: Floats


@kernel
def evict(s: Any) -> None:
    """Remove the oldest record."""
    cells, held, low, high, n_low, n_high = s.cells, s.held, s.low, s.high, s.n_low, s.n_high
    at = s.span[0]
    s.span[0] = at + 1
    for j in range(held.shape[0]):
        v = cells[j, at]
        if isnan(v):
            continue
        held[j] -= 1
        if v == low[j] and n_low[j] > 0:
            n_low[j] -= 1
        if v == high[j] and n_high[j] > 0:
            n_high[j] -= 1


@kernel
def learn(x: Any, c: int, w: float, size: int, s: Any) -> None:
    """Append x float64 (D,) of class c with weight w; the window has at most `size` records."""
    span, cells, seen, held = s.span, s.cells, s.seen, s.held
    low, high, n_low, n_high = s.low, s.high, s.n_low, s.n_high
    if span[1] - span[0] >= size:
        evict(s)
    at = span[1]
    span[1] = at + 1
    span[2] = 0
    s.label[at], s.weight[at], s.tag[at] = c, w, 0
    s.classes[c] += 1
    for j in range(held.shape[0]):
        v = x[j]
        cells[j, at] = v
        if isnan(v):
            continue
        seen[j] += 1
        held[j] += 1
        if held[j] == 1:
            low[j], high[j], n_low[j], n_high[j] = v, v, 1, 1
            continue
        if n_low[j] > 0 and v <= low[j]:
            n_low[j] = n_low[j] + 1 if v == low[j] else 1
            low[j] = v
        if n_high[j] > 0 and v >= high[j]:
            n_high[j] = n_high[j] + 1 if v == high[j] else 1
            high[j] = v


@kernel
def find_range(j: int, s: Any) -> None:
    """Find the extremes of attribute j in the window, and the number of records with them."""
    low, high, n_low, n_high = inf, -inf, 0, 0
    for i in range(s.span[0], s.span[1]):
        v = s.cells[j, i]
        if v < low:
            low, n_low = v, 1
        elif v == low:
            n_low += 1
        if v > high:
            high, n_high = v, 1
        elif v == high:
            n_high += 1
    s.low[j], s.high[j], s.n_low[j], s.n_high[j] = low, high, n_low, n_high


@kernel
def lane_sum(column: Any, low: float, unit: float, mean: float, square: bool, lane: Any) -> float:
    """Sum of (value - low) · unit - mean, or of its square, over the present values.

    lane (LANES,) is scratch: parallel sums, added at the end.
    """
    lane[:] = 0.0
    for b in range(0, column.shape[0], lane.shape[0]):
        part = column[b : b + lane.shape[0]]
        for i in range(part.shape[0]):
            d = (part[i] - low) * unit - mean
            d = 0.0 if isnan(d) else d
            lane[i] += d * d if square else d
    total = 0.0
    for i in range(lane.shape[0]):
        total += lane[i]
    return total


@kernel
def rescale(scale: int, s: Any, lane: Any) -> None:
    """Update inverse and gap."""
    n = s.span[1] - s.span[0]
    for j in range(s.held.shape[0]):
        s.inverse[j], s.gap[j] = 1.0, 1.0
        if s.nominal[j] == 1 or s.held[j] == 0 or (scale == UNSCALED and s.held[j] == n):
            continue
        if s.n_low[j] == 0 or s.n_high[j] == 0:
            find_range(j, s)
        spread = s.high[j] - s.low[j]
        if scale == UNSCALED:
            s.gap[j] = spread
        elif spread < TINY:
            s.inverse[j] = 0.0
        elif scale == BY_RANGE:
            s.inverse[j] = 1.0 / spread
        else:  # in units of the range, so that no square overflows or underflows
            column = s.cells[j, s.span[0] : s.span[1]]
            unit = 1.0 / spread
            mean = lane_sum(column, s.low[j], unit, 0.0, False, lane) / s.held[j]
            variance = lane_sum(column, s.low[j], unit, mean, True, lane) / s.held[j]
            s.gap[j] = 1.0 / sqrt(variance)
            s.inverse[j] = unit * s.gap[j]
    s.span[2] = 1


@kernel
def learn_one(
    x: Any,
    c: int,
    w: float,
    size: int,
    scale: int,
    lane: Any,
    cells: Any,
    label: Any,
    weight: Any,
    tag: Any,
    span: Any,
    nominal: Any,
    held: Any,
    seen: Any,
    classes: Any,
    low: Any,
    high: Any,
    n_low: Any,
    n_high: Any,
    inverse: Any,
    gap: Any,
) -> None:
    """`learn`, and update inverse and gap for the prediction that usually follows.

    The arrays of the window come one by one, because a call from Python unpacks them in half the
    time.
    """
    s = WindowArrays(
        cells,
        label,
        weight,
        tag,
        span,
        nominal,
        held,
        seen,
        classes,
        low,
        high,
        n_low,
        n_high,
        inverse,
        gap,
    )
    learn(x, c, w, size, s)
    rescale(scale, s, lane)


@kernel
def advance(
    op: Any,
    y: Any,
    w: Any,
    x: Any,
    known: int,
    size: int,
    scale: int,
    s: Any,
    lane: Any,
    spans: Any,
    held: Any,
    inverse: Any,
    gap: Any,
    seen: Any,
) -> None:
    """Learn, and note the window of each predicting step.

    op int8, y int64 (class code), w float64 (m,); x float64 (m, D); `known` classes before; the
    window has at most `size` records and room for all of this block. For q predicting steps: spans
    int64 (q, 2): index of the oldest record and one after the newest; held int64, inverse, gap
    float64 (q, D): the arrays of the window at that step; seen int64 (q,): number of known classes.
    lane float64 (LANES,) is scratch.
    """
    span, s_held, s_inverse, s_gap = s.span, s.held, s.inverse, s.gap
    at = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            if span[2] == 0:
                rescale(scale, s, lane)
            spans[at, 0], spans[at, 1], seen[at] = span[0], span[1], known
            for j in range(s_held.shape[0]):
                held[at, j], inverse[at, j], gap[at, j] = s_held[j], s_inverse[j], s_gap[j]
            at += 1
        if op[i] != 0:
            learn(x[i], y[i], w[i], size, s)
            known = max(known, y[i] + 1)
