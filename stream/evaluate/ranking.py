"""Exact areas under ROC and precision-recall curves.

Rule: kernels count whole numbers. Sums of floats use `math.fsum`, which is exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.evaluate import _kernels as kernels

__all__ = ["Ranking", "ranking"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well scores rank one class above the rest.

    Parameters
    ----------
    roc_auc
        The share of pairs of a record of the class and a record of the rest that the scores put in
        order, equal scores counting half (Mann and Whitney 1947; Fawcett 2006).
    pr_auc
        Average precision: Σ precision · gain of recall over the thresholds, from the largest down.
        Without interpolation, which would be too optimistic (Davis and Goadrich 2006).
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
        float64, (n, R), 0 … 1: posteriors of the first R classes.

    Returns
    -------
    tuple
        One for each class; None if all records or no records are of the class.

    Notes
    -----
    O(n) for each class: 10,000 records and 20 classes take 3 to 4 ms.

    Examples
    --------
    >>> first, second = ranking(np.array([0, 0, 1, 1]), np.array([[.9, .1], [.3, .7], [.4, .6],
    ...     [.2, .8]]))
    >>> first.roc_auc, second.pr_auc
    (0.75, 0.8333333333333333)
    """
    bits = np.ascontiguousarray(posterior, dtype=np.float64).view(np.uint64)
    members, in_order, mine, rest = kernels.rank(np.ascontiguousarray(true, dtype=np.int64), bits)
    # A threshold at the posterior of a record gains this record.
    precision = (mine / (mine + rest)).tolist()
    out: list[Ranking | None] = []
    end = 0
    for m, pairs in zip(members.tolist(), in_order.tolist(), strict=True):
        if not 0 < m < len(true):
            out.append(None)
            continue
        end += m
        average = fsum(precision[end - m : end]) / m
        out.append(Ranking(pairs / (2 * m * (len(true) - m)), average))
    return tuple(out)
