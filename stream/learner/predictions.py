"""Predictions: the posteriors of a block in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.schema import Label

__all__ = ["Predictions"]

FEW_CLASSES = 8  # with few columns, comparing them is faster than argmax over short rows


@dataclass(slots=True)
class Predictions:
    """The posteriors of a block's predicting steps, in order.

    Parameters
    ----------
    classes
        The learner's classes after the block, in the order they were learned.
    proba
        float64, (n, len(classes)); 0 for a class that was not yet known.
    known
        int64, (n,): how many classes were known at each prediction.
    even
        float64, as `proba`: the posteriors if all classes had equal shares, which is what the
        evidence says; None: the learner does not know.
    """

    classes: list[Label]
    proba: Floats
    known: NDArray[np.int64]
    even: Floats | None = None

    def __len__(self) -> int:
        return int(self.known.shape[0])

    @property
    def judged(self) -> Floats:
        """What a budget decides by: `even`, or the posteriors."""
        return self.proba if self.even is None else self.even

    def best(self) -> NDArray[np.int64]:
        """Code of the most probable class; -1 if no class was known. Of equal ones the first
        learned wins."""
        n, classes = self.proba.shape
        if not 0 < classes <= FEW_CLASSES:
            best = np.argmax(self.proba, axis=1) if classes else np.zeros(n, dtype=np.int64)
        else:
            best, top = np.zeros(n, dtype=np.int64), self.proba[:, 0]
            for code in range(1, classes):
                p = self.proba[:, code]
                np.copyto(best, code, where=p > top)
                top = np.maximum(top, p)
        return best if self.known.all() else np.where(self.known > 0, best, -1)

    def labels(self) -> list[Label | None]:
        """The most probable label of each; None if no class was known."""
        return [None if code < 0 else self.classes[code] for code in self.best().tolist()]

    def ranked(self, top: int) -> list[list[tuple[Label, float]]]:
        """Label and probability of the `top` most probable classes of each.

        Equal probabilities keep the order in which the classes were learned.

        Examples
        --------
        >>> proba = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
        >>> Predictions(["no", "yes"], proba, np.array([2, 2, 1])).ranked(2)
        [[('yes', 0.8), ('no', 0.2)], [('no', 0.5), ('yes', 0.5)], [('no', 1.0)]]
        """
        known = np.arange(len(self.classes)) < self.known[:, None]  # the others come last
        order = np.argsort(np.where(known, -self.proba, 1.0), axis=1, kind="stable")[:, :top]
        found = np.take_along_axis(self.proba, order, axis=1).tolist()
        names = np.empty(len(self.classes), dtype=object)
        names[:] = self.classes
        pairs = zip(names[order].tolist(), found, strict=True)
        if known.all():
            return [list(zip(labels, row, strict=True)) for labels, row in pairs]
        counts = self.known.tolist()
        return [
            list(zip(labels[:k], row, strict=False))
            for (labels, row), k in zip(pairs, counts, strict=True)
        ]

    def dicts(self) -> list[dict[Label, float]]:
        """Each posterior as a dict from label to probability."""
        return [
            dict(zip(self.classes[:k], row[:k], strict=True))
            for k, row in zip(self.known.tolist(), self.proba.tolist(), strict=True)
        ]
