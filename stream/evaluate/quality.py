"""Quality: scores of predictions, each by what was known when it was made.

Rule: the kernel only counts, record by record. Scores are computed from the counts on demand
(`stream.evaluate.scores`), so a score has no cost for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT_THEN_LEARN, Floats
from stream.data.schema import Label
from stream.data.state import Rules, Saved, State, count_in
from stream.evaluate import _kernels as kernels
from stream.evaluate.scores import BASELINES, BINS, PredictionTable, Scores, Tally
from stream.learner.base import Predictions

if TYPE_CHECKING:
    from river.metrics import ConfusionMatrix

__all__ = [
    "BASELINES",
    "WINDOWS",
    "BaselinePredictions",
    "Quality",
    "QualityView",
    "Scores",
    "window_title",
    "windows",
]

LAST = 1000
MOST = 10_000  # largest window: `Scores.roc_auc` sorts it in a few milliseconds
FADING_FACTOR = 0.999
RANKED = 32  # classes whose posteriors are kept over the window

# The arrays of a state.
SAVED = {
    "counts": Saved(np.int64, ("learned",)),
    "memory": Saved(np.float64, (4,)),
    "sums": Saved(np.float64, (6, 2)),
    "confusion": Saved(np.float64, ("classes", "classes", 2)),
    "baselines": Saved(np.float64, (2, "and none", 2, 2)),
    "calibration": Saved(np.float64, (BINS, 2, 2, 2)),
    "codes": Saved(np.int32, (4, "scored")),
    "told": Saved(np.float64, (5, "scored")),
    "posterior": Saved(np.float64, ("scored", "ranked")),
}
RULES: Rules = {
    "baselines of the classes": lambda a: a["baselines"].shape[1] == len(a["confusion"]) + 1,
    "posteriors of the classes": lambda a: (
        a["posterior"].shape[1] == min(len(a["confusion"]), RANKED)
    ),
}


def windows(last: int = LAST) -> tuple[str, str, str]:
    """The names of the windows: all time, the last N records, fading.

    Examples
    --------
    >>> windows()
    ('all', 'last_1000', 'fading')
    """
    return ("all", f"last_{last}", "fading")


WINDOWS = windows()


def window_title(window: str) -> str:
    """The name of a window for people.

    Examples
    --------
    >>> [window_title(window) for window in windows(10_000)]
    ['all', 'last 10,000', 'fading']
    """
    last = window.removeprefix("last_")
    return window if last == window else f"last {int(last):,}"


class BaselinePredictions(NamedTuple):
    """Predictions of the baselines at predicting steps.

    Parameters
    ----------
    predicted
        int64, (n, 2): class codes of majority and no-change, -1 for none.
    prior
        float64, (n, C): the share of each class in the labels learned so far.
    squares
        float64, (n,): the sum of the squares of each row of `prior`.
    """

    predicted: NDArray[np.int64]
    prior: Floats
    squares: Floats

    def take(self, index: NDArray[np.int64]) -> BaselinePredictions:
        """The predictions of some steps."""
        return BaselinePredictions(self.predicted[index], self.prior[index], self.squares[index])


class _Lazy(Mapping[str, Scores]):
    """Window to its scores, each computed on first use."""

    def __init__(self, made: Mapping[str, Callable[[], Scores]]) -> None:
        self._made = made
        self._known: dict[str, Scores] = {}

    def __getitem__(self, window: str) -> Scores:
        if window not in self._known:
            self._known[window] = self._made[window]()
        return self._known[window]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[dict[str, Scores]], tuple[list[tuple[str, Scores]]]]:
        """For another process all are computed; what computes them stays here."""
        return dict, ([*self.items()],)


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
        Window (of `windows`) to scores.
    unscored
        Labelled predictions without a class, because no class was yet known.
    """

    classes: tuple[Label, ...]
    confusion: NDArray[np.int64]
    scores: Mapping[str, Scores]
    unscored: int

    @property
    def last(self) -> str:
        """The name of the window of the last N records."""
        return next(name for name in self.scores if name.startswith("last_"))

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
    """Progressive scores of a model and of its baselines.

    Parameters
    ----------
    window
        The N of the last N records, at most 10,000.

    Notes
    -----
    O(C) for each scored prediction. Memory and state: 16 C² bytes, plus a ring of N predictions
    with 56 bytes each and 8 bytes for each of the first 32 classes.
    """

    def __init__(self, window: int = LAST) -> None:
        if not 1 <= window <= MOST:
            raise ValueError(f"window: expected 1 … {MOST:,}, got {window!r}")
        self.window = window
        self._counts = np.zeros(0, dtype=np.int64)
        self._memory = np.array([-1.0, -1.0, 0.0, 0.0])
        self._confusion = np.zeros((0, 0, 2))
        self._baselines = np.zeros((2, 1, 2, 2))
        self._calibration = np.zeros((BINS, 2, 2, 2))
        self._sums = np.zeros((6, 2))
        self._sums[5] = 1.0
        self._codes = np.empty((4, 0), dtype=np.int32)
        self._measures = np.empty((5, 0))
        self._posterior = np.empty((0, 0))
        self._at = self._filled = 0
        self._viewed = False
        self.unscored = 0

    def baselines(
        self,
        op: NDArray[np.int8],
        y: NDArray[np.int32],
        label: NDArray[np.int64],
        n_classes: int,
        n_predictions: int,
    ) -> BaselinePredictions:
        """The predictions of the baselines at each predicting step. Learns the labels of the
        steps."""
        self._count(n_classes)
        n = n_predictions
        out = BaselinePredictions(
            np.empty((n, 2), dtype=np.int64), np.empty((n, len(self._counts))), np.empty(n)
        )
        kernels.baselines(op, y, label, self._counts, self._memory, *out)
        return out

    def score(
        self,
        true: NDArray[np.int64],
        predicted: NDArray[np.int64],
        proba: Floats,
        beside: BaselinePredictions,
    ) -> None:
        """Score predictions in the order their labels came.

        Parameters
        ----------
        true
            int64, (k,): class codes.
        predicted
            int64, (k,): class codes predicted by the model; -1 for none.
        proba
            float64, (k, C): its posteriors; 0 for a class that was not yet known.
        beside
            The baselines' predictions at the same time.
        """
        named = predicted >= 0
        if (without := int(true.size - np.count_nonzero(named))) > 0:
            self.unscored += without
            at = np.flatnonzero(named)
            true, predicted, proba, beside = true[at], predicted[at], proba[at], beside.take(at)
        into = self._into()
        codes = np.column_stack((predicted, beside.predicted))
        self._at = kernels.score(true, codes, proba, beside.prior, beside.squares, *into)
        self._filled = min(self.window, self._filled + true.size)

    def score_at_once(
        self, y: NDArray[np.int32], label: NDArray[np.int64], predictions: Predictions
    ) -> None:
        """`baselines` and `score` in one call, if every step predicts and then learns.

        Parameters
        ----------
        y
            int32, (n,): for each step an index into `label`.
        label
            int64: class codes.
        predictions
            The predictions of the steps.
        """
        self._count(len(predictions.classes))
        into = self._into()
        proba = np.ascontiguousarray(predictions.proba)
        at = kernels.score_at_once(
            y, label, proba, predictions.known, self._counts, self._memory, *into
        )
        if at >= 0:
            self._at, self._filled = at, min(self.window, self._filled + y.size)
            return
        op = np.full(y.size, PREDICT_THEN_LEARN, dtype=np.int8)
        beside = self.baselines(op, y, label, len(predictions.classes), y.size)
        self.score(label[y], predictions.best(), proba, beside)

    def _count(self, n_classes: int) -> None:
        """Make room for new labels."""
        if (more := n_classes - len(self._counts)) > 0:
            self._counts = np.append(self._counts, np.zeros(more, dtype=np.int64))

    def _into(self) -> tuple[Any, ...]:
        """The arrays in which the kernel counts, with room for every counted class."""
        n, old = len(self._counts), len(self._confusion)
        if n > old:
            confusion, baselines = np.zeros((n, n, 2)), np.zeros((2, n + 1, 2, 2))
            confusion[:old, :old] = self._confusion
            baselines[:, : old + 1] = self._baselines
            self._confusion, self._baselines = confusion, baselines
        if n > old or self._viewed or len(self._posterior) != self.window:
            self._renew(min(n, RANKED))
        return (
            *(self._at, self._codes, self._measures, self._posterior),
            *(self._confusion, self._baselines, self._calibration, self._sums),
            1.0 / FADING_FACTOR,
        )

    def _renew(self, ranked: int) -> None:
        """Copy the ring to new arrays: for another size, or because a view reads the old ones."""
        n, m = self.window, self._filled
        posterior = np.zeros((n, ranked))
        if len(self._posterior) == n:
            codes, measures = self._codes.copy(), self._measures.copy()
            posterior[:, : self._posterior.shape[1]] = self._posterior
        else:
            old = ((self._at + np.arange(m)) % max(m, 1))[-n:]  # oldest first
            m = old.size
            codes, measures = np.zeros((4, n), dtype=np.int32), np.zeros((5, n))
            codes[:, :m], measures[:, :m] = self._codes[:, old], self._measures[:, old]
            posterior[:m, : self._posterior.shape[1]] = self._posterior[old]
            self._at, self._filled = m % n, m
        self._codes, self._measures, self._posterior = codes, measures, posterior
        self._viewed = False

    @property
    def scored(self) -> int:
        """How many predictions were scored."""
        return int(self._sums[0, 0])

    def bits(self) -> bytes:
        """The bytes of the sums, which are equal after the same predictions and labels."""
        return b"".join(a.tobytes() for a in (self._sums, self._baselines, self._calibration))

    def view(self, classes: list[Label]) -> QualityView:
        """A frozen copy. O(C²). Its scores are computed by its reader, not in the loop."""
        labels = tuple(classes)
        confusion, baselines = self._confusion.copy(), self._baselines.copy()
        calibration, sums = self._calibration.copy(), self._sums.tolist()
        filled, self._viewed = self._filled, True
        ring = (self._codes[:, :filled], self._measures[:, :filled], self._posterior[:filled])
        rows = PredictionTable(*ring, len(confusion))

        def counted(which: int) -> Scores:
            *totals, unit = (pair[which] for pair in sums)
            scored, loss, brier, prior_loss, prior_brier = (total / unit for total in totals)
            tally = Tally(
                (scored, loss, brier, prior_loss, prior_brier),
                confusion[..., which] / unit,
                baselines[..., which] / unit,
                calibration[..., which] / unit,
            )
            return Scores.of(tally, labels)

        made = (partial(counted, 0), partial(rows.scores, labels), partial(counted, 1))
        scores = _Lazy(dict(zip(windows(self.window), made, strict=True)))
        known = len(confusion)
        n = max(known, len(labels))  # a class may be learned and not scored yet
        counts = np.zeros((n, n), dtype=np.int64)
        counts[:known, :known] = confusion[..., 0]
        return QualityView(labels, counts, scores, self.unscored)

    def to_state(self) -> State:
        """A copy of the whole state."""
        n = self._filled
        arrays: dict[str, NDArray[Any]] = {
            "counts": self._counts,
            "memory": self._memory,
            "confusion": self._confusion,
            "baselines": self._baselines,
            "calibration": self._calibration,
            "sums": self._sums,
            "codes": self._codes[:, :n],
            "told": self._measures[:, :n],
            "posterior": self._posterior[:n],
        }
        return State({"at": self._at, "unscored": self.unscored}, arrays).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        A window of another size is trimmed, or fills up, when the next prediction is scored.

        Raises
        ------
        StateError
            The state is damaged.
        """
        found = state.read(SAVED, RULES).values()
        self._counts, self._memory, self._sums, self._confusion, self._baselines, *of_rows = found
        self._calibration, self._codes, self._measures, self._posterior = of_rows
        self._filled, self._viewed = len(self._posterior), False
        self._at = count_in(state.header, "at", self._filled)
        self.unscored = state.header["unscored"]
        if self._filled == self.window:  # a larger saved window left room after them
            self._at %= self.window
