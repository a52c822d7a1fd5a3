"""Classes that begin where others end: labels that were renamed midway. Pure.

Rule: how often two classes came says whether one that ends where the other one begins is chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["renamed"]

LEAST = 20  # labels of each of the two classes
GAP = 10  # mean distances of two labels of a class, which may lie between the two
OVERLAP = 0.02  # share of the labels of a class that may lie beyond the change


def renamed(y: NDArray[np.int64], classes: Sequence[str], label: str) -> list[str]:
    """Warnings of classes that end where another one begins, in the order of the records.

    Parameters
    ----------
    y
        The class of each label, as its number.
    classes
        The name of each class.

    Examples
    --------
    >>> y = np.array([0, 1, 0, 0] * 20 + [2, 1, 2, 2] * 20)
    >>> print(*renamed(y, ["ok", "fraud", "legit"], "y"))
    label y: 'legit' begins at labelled record 81, where 'ok' ends: was it renamed? a model learns \
them as two classes; spell them alike
    """
    n = y.size
    at = [np.flatnonzero(y == k) for k in range(len(classes))]
    found = []
    for old, ends in enumerate(at):
        if ends.size < LEAST:
            continue
        for new, begins in enumerate(at):
            if new == old or begins.size < LEAST:
                continue
            last = int(np.quantile(ends, 1 - OVERLAP))
            first = int(np.quantile(begins, OVERLAP))
            step = (last - int(ends[0])) / ends.size + (int(begins[-1]) - first) / begins.size
            if not 0 < first - last <= GAP * step + OVERLAP * n:
                continue
            where = int(begins[0])
            if _spans(at, where, {old, new}) or _pairs(at, where):
                apart = abs(ends.size / where - begins.size / (n - where))
                found.append((apart, where, classes[new], classes[old]))
    return [
        f"label {label}: {new!r} begins at labelled record {where + 1:,}, where {old!r} ends: was "
        "it renamed? a model learns them as two classes; spell them alike"
        for _, where, new, old in sorted(_one_each(found), key=lambda each: each[1:])
    ]


def _spans(at: Sequence[NDArray[np.int64]], where: int, but: set[int]) -> bool:
    """Whether a third class comes before and after a record: else the labels are sorted."""
    others = (rows for k, rows in enumerate(at) if k not in but and rows.size)
    return any(bool(rows[0] < where < rows[-1]) for rows in others)


def _pairs(at: Sequence[NDArray[np.int64]], where: int) -> bool:
    """Whether several classes end there and several begin: all were renamed."""
    ended = sum(rows.size >= LEAST and np.mean(rows < where) >= 1 - OVERLAP for rows in at)
    began = sum(rows.size >= LEAST and np.mean(rows < where) <= OVERLAP for rows in at)
    return bool(ended >= 2 and began >= 2)


def _one_each(found: Sequence[tuple[float, int, str, str]]) -> list[tuple[float, int, str, str]]:
    """The changes, each name once: those with the nearest shares first."""
    best: list[tuple[float, int, str, str]] = []
    taken: set[str] = set()
    for each in sorted(found):
        if taken.isdisjoint(each[2:]):
            best.append(each)
            taken.update(each[2:])
    return best
