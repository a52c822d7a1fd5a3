"""How well posteriors rank: areas under ROC and precision-recall curves, exact.

Rule: whole numbers are counted by numpy, whose sums of them are exact; floats by `math.fsum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from stream.block import Floats

__all__ = ["Ranking", "ranking"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well scores rank one class above the rest.

    Parameters
    ----------
    roc_auc
        The share of pairs of one record of the class and one of the rest that the scores put in
        order, equal scores counting half (Mann and Whitney 1947; Fawcett 2006).
    pr_auc
        Average precision: Σ precision · gain of recall over the thresholds, from the largest down.
        Nothing is interpolated between them, which would be too good (Davis and Goadrich 2006).
    """

    roc_auc: float
    pr_auc: float


def ranking(true: NDArray[np.int64], posterior: Floats) -> tuple[Ranking | None, ...]:
    """The ranking of each class by its posterior.

    Parameters
    ----------
    true
        int, (n,): true classes.
    posterior
        float64, (n, R): of the first R classes.

    Returns
    -------
    tuple
        One a class; None where all records are of it, or none is.

    Notes
    -----
    O(n log n) a class.

    Examples
    --------
    >>> first, second = ranking(np.array([0, 0, 1, 1]), np.array([[.9, .1], [.3, .7], [.4, .6],
    ...     [.2, .8]]))
    >>> first.roc_auc, second.pr_auc
    (0.75, 0.8333333333333333)
    """
    return tuple(_rank(true == c, posterior[:, c]) for c in range(posterior.shape[1]))


def _rank(of: NDArray[np.bool_], score: Floats) -> Ranking | None:
    mine, rest = np.sort(score[of]), np.sort(score[~of])
    if not mine.size or not rest.size:
        return None
    below, upto = (np.searchsorted(rest, mine, side) for side in ("left", "right"))
    in_order = int(below.sum() + upto.sum()) / (2 * mine.size * rest.size)
    # Each record of the class is what a threshold at its score gains.
    right = mine.size - np.searchsorted(mine, mine)
    precision = right / (right + rest.size - below)
    return Ranking(in_order, fsum(precision.tolist()) / mine.size)
