"""Merge and unlearn moments of weighted records; shared by the joint normal models.

Rule: pure functions of numbers and arrays. Kernels are compiled for the order of the fields of the
tuples. Change the kernels' file too if you change that order, or cached kernels are stale.
Differences below a millionth (`SLACK`) of the present moments are rounding errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.bayes.classifier import left_after
from stream.data.block import Floats
from stream.data.state import Rules, Saved

__all__ = [
    "SCALE",
    "SCALES",
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

# The scales of features in a state. They are left out if all are 1, which is the common case.
SCALE = Saved(np.float64, ("features",), absent=1.0)
SCALES: Rules = {"scales of 1 or 2**600": lambda a: np.isin(a["scale"], (1.0, 2.0**600))}


class Comoments(NamedTuple):
    """Joint moments of D features for C classes.

    n, mean float64 (C, D): weight and mean of (x - anchor) · scale. factor float64 (G, D, W): the
    factor of the sums of products about the class means, with G = C or 1 (pooled) and W = D or 1
    (diagonal). level float64 (G, D): the ridge that is added to their diagonal, as `serve` rounds
    it; level (0, D): the factor has no ridge. anchor, scale, total_n, total_mean, total_m2, low,
    high float64 (D,): first value, a power of two (see the kernels), moments and extremes over all
    classes. unit float64 (1,). passed, rebuilt int64 (1,): number of records skipped because of
    gaps, and of factors rebuilt.
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
    """Parameters of `GaussianBayes` in the form that kernels take.

    fill: whether gaps are filled.

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
    """Weight and mean before v was learned, and the root of what v added to the squares.

    slack: the rounding error, as a share of w.
    """
    left = left_after(n, w, slack)
    if not left:
        return 0.0, 0.0, 0.0
    d = v - mean
    return left, mean - d * (w / left), d * sqrt(w * (n / left))


def may_hold(
    v: float, w: float, slack: float, n: float, mean: float, squares: float, extent: float
) -> bool:
    """Whether values with weight n, this mean and this sum of squares can include v.

    slack: as in `before`. extent: highest minus lowest value ever learned; it gives the size of
    rounding errors.
    """
    left, _, root = before(v, w, slack, n, mean)
    if left == 0.0:
        return abs(v - mean) <= SLACK * extent
    return root * root <= squares + SLACK * (squares + n * extent * extent)


def too_far(
    v: float, w: float, largest: float, slack: float, n: float, mean: float, squares: float
) -> bool:
    """Whether unlearning a value would remove more than twice the present squares.

    v, mean: minus the anchor. The limit is twice the squares plus a millionth of the largest value
    ever unlearned, to allow for rounding. slack: as in `before`. Values below `UNDERFLOW` have the
    square 0.
    """
    left, _, root = before(v, w, slack, n, mean)
    root = abs(root) if left else abs(v - mean)
    return root > sqrt(2.0 * squares) + (SLACK * largest + UNDERFLOW) * sqrt(n)


def solved(rows: Floats, b: Floats) -> Floats | None:
    """The solution x of F'F x = b, F float64 (n, D); None if F'F is singular; O(D³)."""
    root: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
    if (np.diag(root) ** 2 <= SINGULAR * (root * root).sum(axis=0)).any():
        return None
    x: Floats = np.linalg.solve(root, np.linalg.solve(root.T, b[:, None]))[:, 0]
    return x


def spans(factor: Floats, level: Floats, x: Floats, slack: Floats) -> bool:
    """Whether F'F - diag(level) - x x' is positive semidefinite, up to rounding; O(D³).

    F float64 (D, D). slack float64 (D,): the rounding error of the diagonal. Where it is 0, both
    matrices have to be 0.
    """
    j = np.flatnonzero(slack > 0.0)
    root = np.sqrt(slack[j])
    rows, b = factor[:, j] / root, x[j] / root
    # If the level is far above what was learned, the rank is full up to rounding.
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
    """Why a record of class c cannot be in these moments, or None; O(D³). Weights were checked.

    Parameters
    ----------
    present
        Feature to its column and value.
    w, slack
        Its weight, and the rounding errors in the class and over all classes as shares of it.
    passed
        Whether the record was skipped because of gaps, so that only the totals have it.
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
            return f"{name!r} = {value!r} is outside the range of the learned values"
        if not may_hold(v, w, slack[1], *total, wide):
            return f"{name!r} = {value!r} is too far from the mean of what was learned"
        if not (passed or may_hold(v, w, slack[0], *of_class, wide)):
            return f"{name!r} = {value!r} is too far from the mean of its class"
        x[j] = 0.0 if passed else before(v, w, slack[0], *of_class[:2])[2]
    n = s.n if len(s.factor) == 1 else s.n[[c]]
    # With a feature that came late, the products depend on the order of records.
    late = any(np.unique(of[of > 0.0]).size > 1 for of in n)
    if not (passed or diagonal or late or spans(own, level, x, SLACK * n.sum(axis=0) * extent**2)):
        return "no record of its class can have this combination of values"
    return None


def united(n: Floats, mean: Floats, more: Floats, other: Floats) -> tuple[Floats, Floats, Floats]:
    """Weight and mean of the union of two sets of records, and the root of the squares between
    them.

    Chan, Golub and LeVeque 1983.
    """
    both = n + more
    share = np.divide(more, both, out=np.zeros_like(both), where=both > 0)
    d = other - mean
    middle = np.where(n > 0, mean + d * share, np.where(more > 0, other, 0.0))
    return both, middle, np.where(n > 0, d * np.sqrt(n * share), 0.0)


def widened(a: Floats, shape: tuple[int, ...]) -> Floats:
    """`a`, padded with zeros to the shape."""
    out = np.zeros(shape)
    out[tuple(slice(0, k) for k in a.shape)] = a
    return out
