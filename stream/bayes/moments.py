"""Moments of weighted records, put together and taken apart; shared by the joint normals.

Rule: pure functions of numbers and arrays. Kernels are compiled for the order of the tuples'
fields: who changes it changes their file too, or what is cached of them is stale. What a set of
records may have held is judged to a millionth (`SLACK`) of what it holds: less is rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.bayes.classifier import left_after
from stream.data.block import Floats

__all__ = [
    "Comoments",
    "Room",
    "Settings",
    "before",
    "denied",
    "solved",
    "too_far",
    "united",
    "widened",
]

SLACK = 1e-6
UNDERFLOW = 1e-150
SINGULAR = 1e-26  # as in the kernels


class Comoments(NamedTuple):
    """Joint moments of D features for C classes.

    n, mean float64 (C, D): weight and mean of (x - anchor) · scale. factor float64 (G, D, W): that
    of the sums of products about the class means, G = C or 1 (pooled), W = D or 1 (diagonal), and,
    on their diagonal, level float64 (G, D), the ridge as `serve` rounds it; level (0, D): no ridge
    is in the factor. anchor, scale, total_n, total_mean, total_m2, low, high float64 (D,): first
    value, a power of two (see the kernels), moments and extremes over all classes. unit float64
    (1,). passed, rebuilt int64 (1,): records left out for their gaps, factors rebuilt.
    """

    n: Floats
    mean: Floats
    factor: Floats
    level: Floats
    anchor: Floats
    scale: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    low: Floats
    high: Floats
    unit: Floats
    passed: NDArray[np.int64]
    rebuilt: NDArray[np.int64]


class Settings(NamedTuple):
    """How moments are read, as kernels take it: see `GaussianBayes`. fill: whether gaps are.

    diagonal: whether features are independent, so that a factor has one column.
    """

    ddof: float
    ridge: float
    shrinkage: float
    fill: bool
    diagonal: bool


class Room(NamedTuple):
    """Working memory of the kernels: (D,) each, matrix (D, W).

    value: x - anchor, NaN where missing. spread: variance over all classes. used: features of
    the joint density. order: features, the observed ones first. m: weights less ddof. floor, e,
    held, var, square: see `kernels.sweep`. term: log density. x: zeros.
    """

    used: NDArray[np.bool_]
    order: NDArray[np.int64]
    matrix: Floats
    value: Floats
    spread: Floats
    m: Floats
    floor: Floats
    e: Floats
    held: Floats
    var: Floats
    square: Floats
    term: Floats
    x: Floats


def before(v: float, w: float, slack: float, n: float, mean: float) -> tuple[float, float, float]:
    """Weight and mean before v was learned, and the root of what it added to the squares.

    slack: the share of w that is nothing but rounding.
    """
    left = left_after(n, w, slack)
    if not left:
        return 0.0, 0.0, 0.0
    d = v - mean
    return left, mean - d * (w / left), d * sqrt(w * (n / left))


def may_hold(
    v: float, w: float, slack: float, n: float, mean: float, squares: float, extent: float
) -> bool:
    """Whether values of weight n, this mean and sum of squares about it may have v among them.

    slack: as in `before`. extent: highest less lowest value ever learned, which says what rounding
    is.
    """
    left, _, root = before(v, w, slack, n, mean)
    if left == 0.0:
        return abs(v - mean) <= SLACK * extent
    return root * root <= squares + SLACK * (squares + n * extent * extent)


def too_far(
    v: float, w: float, largest: float, slack: float, n: float, mean: float, squares: float
) -> bool:
    """Whether a value would take more than twice out of the squares than is in them.

    v, mean: less the anchor. Twice, and a millionth of the largest value that was ever taken back:
    the rest is rounding. slack: as in `before`. The square of what is below `UNDERFLOW` is 0.
    """
    left, _, root = before(v, w, slack, n, mean)
    root = abs(root) if left else abs(v - mean)
    return root > sqrt(2.0 * squares) + (SLACK * largest + UNDERFLOW) * sqrt(n)


def solved(rows: Floats, b: Floats) -> Floats | None:
    """The solution x of F'F x = b, F float64 (n, D); None where it is singular; O(D³)."""
    root: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
    if (np.diag(root) ** 2 <= SINGULAR * (root * root).sum(axis=0)).any():
        return None
    x: Floats = np.linalg.solve(root, np.linalg.solve(root.T, b[:, None]))[:, 0]
    return x


def spans(factor: Floats, level: Floats, x: Floats, slack: Floats) -> bool:
    """Whether F'F - diag(level) - x x' has no negative direction, but for rounding; O(D³).

    F float64 (D, D). slack float64 (D,): what rounding may be of the diagonal; where it is 0 both
    have to be 0.
    """
    j = np.flatnonzero(slack > 0.0)
    root = np.sqrt(slack[j])
    rows, b = factor[:, j] / root, x[j] / root
    # Of full rank but for rounding, should the level be far above what was learned.
    y = np.linalg.lstsq(rows.T @ rows + np.diag(1.0 - level[j] / slack[j]), b, rcond=None)[0]
    return float(y @ b) <= 1.0 + SLACK


def denied(
    s: Comoments,
    present: Mapping[str, tuple[int, float]],
    c: int,
    w: float,
    slack: tuple[float, float],
    passed: bool,
) -> str | None:
    """Why a record of class c cannot be in these moments, whose weights suffice; O(D³), or None.

    Parameters
    ----------
    present
        Feature to its column and value.
    w, slack
        Its weight, and the shares of it that are rounding in the class and over all.
    passed
        Whether the record is in the totals only.
    """
    g = c if len(s.factor) > 1 else 0
    extent, own, diagonal = s.high - s.low, s.factor[g], s.factor.shape[2] == 1 < len(s.anchor)
    level = s.level[g] if len(s.level) else np.zeros(len(s.anchor))
    squares = own[:, 0] ** 2 if diagonal else np.maximum((own * own).sum(axis=0) - level, 0.0)
    x = np.zeros(len(s.anchor))
    for name, (j, value) in present.items():
        v, wide = (value - float(s.anchor[j])) * float(s.scale[j]), float(extent[j])
        total = float(s.total_n[j]), float(s.total_mean[j]), float(s.total_m2[j])
        of_class = float(s.n[c, j]), float(s.mean[c, j]), float(squares[j])
        if not s.low[j] - SLACK * wide <= v <= s.high[j] + SLACK * wide:
            return f"{name!r} = {value!r} lies outside all that was learned"
        if not may_hold(v, w, slack[1], *total, wide):
            return f"{name!r} = {value!r} is too far from the mean of what was learned"
        if not (passed or may_hold(v, w, slack[0], *of_class, wide)):
            return f"{name!r} = {value!r} is too far from the mean of its class"
        x[j] = 0.0 if passed else before(v, w, slack[0], *of_class[:2])[2]
    n = s.n if len(s.factor) == 1 else s.n[[c]]
    # A feature that came late has made the products depend on the order of records.
    late = any(np.unique(of[of > 0.0]).size > 1 for of in n)
    if not (passed or diagonal or late or spans(own, level, x, SLACK * n.sum(axis=0) * extent**2)):
        return "its features go together as in no record of its class"
    return None


def united(n: Floats, mean: Floats, more: Floats, other: Floats) -> tuple[Floats, Floats, Floats]:
    """Weight and mean of two sets of records, and the root of what lies between them.

    Chan, Golub and LeVeque 1983.
    """
    both = n + more
    share = np.divide(more, both, out=np.zeros_like(both), where=both > 0)
    d = other - mean
    middle = np.where(n > 0, mean + d * share, np.where(more > 0, other, 0.0))
    return both, middle, np.where(n > 0, d * np.sqrt(n * share), 0.0)


def widened(a: Floats, shape: tuple[int, ...]) -> Floats:
    """`a`, and zeros behind it."""
    out = np.zeros(shape)
    out[tuple(slice(0, k) for k in a.shape)] = a
    return out
