"""Predictions: the posteriors of a block, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream.block import Floats
from stream.schema import Label

__all__ = ["Predictions"]

FEW_CLASSES = 8  # numpy looks for the largest of a few columns faster than of a short row


@dataclass(slots=True)
class Predictions:
    """The posteriors of a block's predicting steps, in order.

    Parameters
    ----------
    classes
        The learner's classes after the block, in the order they were learned.
    proba
        float64, (n, len(classes)); 0 for a class that was not known yet.
    known
        int64, (n,): how many classes were known when each was made.
    """

    classes: list[Label]
    proba: Floats
    known: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.known.shape[0])

    def best(self) -> NDArray[np.int64]:
        """Code of the most probable class (the earliest learned of equals); -1 where none."""
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
        """The most probable label of each; None where no class was known."""
        return [None if code < 0 else self.classes[code] for code in self.best().tolist()]

    def dicts(self) -> list[dict[Label, float]]:
        """Each posterior as a dict from label to probability."""
        return [
            dict(zip(self.classes[:k], row[:k], strict=True))
            for k, row in zip(self.known.tolist(), self.proba.tolist(), strict=True)
        ]
