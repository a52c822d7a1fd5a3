"""Quality: how good the predictions were, each scored on what was known when it was made.

Counts are kept by the kernel, record by record; river's metrics read them only when asked, so
that a metric costs nothing a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stream.base import Predictions
from stream.block import Floats
from stream.evaluate import _kernels as kernels
from stream.schema import Label
from stream.state import State

if TYPE_CHECKING:
    from river.metrics import ConfusionMatrix

__all__ = ["BASELINES", "WINDOWS", "Quality", "QualityView", "Scores"]

BASELINES = ("majority", "no_change")
WINDOWS = ("all", "last_1000", "fading")
LAST = 1000
FADING_FACTOR = 0.999


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores over one window; None before anything was scored.

    Parameters
    ----------
    scored
        Predictions in the window (its effective number where it fades).
    accuracy, log_loss
        The model's.
    baselines
        Baseline to its accuracy on the same predictions.
    """

    scored: float
    accuracy: float | None
    log_loss: float | None
    baselines: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class QualityView:
    """A frozen copy of the scores.

    Parameters
    ----------
    classes
        Labels in the order they were learned.
    confusion
        int64, (C, C): counts of [true, predicted] over all time.
    scores
        Window (of `WINDOWS`) to scores.
    unscored
        Labelled predictions that named no class, for none was known yet.
    """

    classes: tuple[Label, ...]
    confusion: NDArray[np.int64]
    scores: Mapping[str, Scores]
    unscored: int

    def confusion_matrix(self) -> ConfusionMatrix:
        """The counts as river's confusion matrix, from which river's metrics are made.

        Examples
        --------
        >>> from river import metrics
        >>> view = QualityView(("a", "b"), np.array([[3, 1], [0, 2]]), {}, 0)
        >>> metrics.F1(cm=view.confusion_matrix(), pos_val="b")
        F1: 80.00%
        """
        from river.metrics import ConfusionMatrix

        cm = ConfusionMatrix()  # type: ignore[no-untyped-call]
        for t, p in zip(*(a.tolist() for a in np.nonzero(self.confusion)), strict=True):
            cm.update(self.classes[t], self.classes[p], w=int(self.confusion[t, p]))  # type: ignore[no-untyped-call]
        return cm


class Quality:
    """Progressive scores of a model and of the baselines beside it.

    Notes
    -----
    Memory O(C²) and a ring of the last 1,000 scored predictions; O(1) a scored prediction.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)
        self._memory = np.full(2, -1, dtype=np.int64)
        self._confusion = np.zeros((0, 0), dtype=np.int64)
        self._sums = np.zeros(5)
        self._fading = np.zeros(5)
        self._ring = np.full((LAST, 4), -1, dtype=np.int32)
        self._ring_loss = np.zeros(LAST)
        self._at = 0
        self.unscored = 0

    def baselines(
        self,
        op: NDArray[np.int8],
        y: NDArray[np.int32],
        label: NDArray[np.int64],
        n_classes: int,
        n_predictions: int,
    ) -> NDArray[np.int64]:
        """Class codes (n_predictions, 2) of majority and no-change; learns the steps' labels."""
        self._count(n_classes)
        out = np.empty((n_predictions, 2), dtype=np.int64)
        kernels.baselines(op, y, label, self._counts, self._memory, out)
        return out

    def score(self, true: NDArray[np.int64], said: NDArray[np.int64], p_true: Floats) -> None:
        """Score predictions in the order their labels came.

        Parameters
        ----------
        true
            int64, (k,): class codes.
        said
            int64, (k, 3): class codes of model, majority and no-change; -1 for none.
        p_true
            float64, (k,): probability the model gave to the true class.
        """
        named = said[:, 0] >= 0
        if (without := int(true.size - np.count_nonzero(named))) > 0:
            self.unscored += without
            true, said, p_true = true[named], said[named], p_true[named]
        self._widen()
        self._at = kernels.score(
            true,
            said,
            p_true,
            self._confusion,
            self._sums,
            self._fading,
            FADING_FACTOR,
            self._ring,
            self._ring_loss,
            self._at,
        )

    def score_at_once(
        self, y: NDArray[np.int32], label: NDArray[np.int64], said: Predictions
    ) -> None:
        """`baselines` and `score` in one call, where every step predicts and then learns.

        Parameters
        ----------
        y
            int32, (n,): index into `label` a step.
        label
            int64: class codes.
        said
            The predictions of the steps.
        """
        self._count(len(said.classes))
        self._widen()
        place, without = kernels.score_at_once(
            y,
            label,
            said.proba,
            said.known,
            self._counts,
            self._memory,
            self._confusion,
            self._sums,
            self._fading,
            FADING_FACTOR,
            self._ring,
            self._ring_loss,
            self._at,
        )
        self._at = int(place)
        self.unscored += without

    def _count(self, n_classes: int) -> None:
        """Make room for labels that are new."""
        if (more := n_classes - len(self._counts)) > 0:
            self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))

    def _widen(self) -> None:
        """A confusion matrix of every class that was counted."""
        n, old = len(self._counts), self._confusion
        if n > len(old):
            self._confusion = np.zeros((n, n), dtype=np.int64)
            self._confusion[: len(old), : len(old)] = old

    def bits(self) -> bytes:
        """The sums behind the scores, bit for bit: equal after the same predictions and labels."""
        return self._sums.tobytes() + self._fading.tobytes()

    def view(self, classes: list[Label]) -> QualityView:
        """A frozen copy. O(C² + 1,000)."""
        filled = self._ring[:, 0] >= 0
        ring, n = self._ring[filled], int(np.count_nonzero(filled))
        hits = [float(np.count_nonzero(ring[:, b] == ring[:, 0])) for b in (1, 2, 3)]
        last = [float(n), sum(self._ring_loss[filled].tolist()), *hits]
        sums = {"all": self._sums.tolist(), "last_1000": last, "fading": self._fading.tolist()}
        scores = {window: _scores(values) for window, values in sums.items()}
        return QualityView(tuple(classes), self._confusion.copy(), scores, self.unscored)

    def to_state(self) -> State:
        """The whole state, as a copy."""
        header = {"at": self._at, "unscored": self.unscored}
        arrays: dict[str, NDArray[Any]] = {
            "counts": self._counts,
            "memory": self._memory,
            "confusion": self._confusion,
            "sums": self._sums,
            "fading": self._fading,
            "ring": self._ring,
            "ring_loss": self._ring_loss,
        }
        return State(header, arrays).copy()

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved."""
        self._at, self.unscored = state.header["at"], state.header["unscored"]
        self._counts = state.array("counts", np.int64, 1)
        self._memory = state.array("memory", np.int64, 1)
        self._confusion = state.array("confusion", np.int64, 2)
        self._sums = state.array("sums", np.float64, 1)
        self._fading = state.array("fading", np.float64, 1)
        self._ring = state.array("ring", np.int32, 2)
        self._ring_loss = state.array("ring_loss", np.float64, 1)


def _scores(sums: list[float]) -> Scores:
    n, loss, hits, *baselines = sums
    if n == 0:
        return Scores(0, None, None, dict.fromkeys(BASELINES))
    of = dict(zip(BASELINES, (b / n for b in baselines), strict=True))
    return Scores(n, hits / n, loss / n, of)
