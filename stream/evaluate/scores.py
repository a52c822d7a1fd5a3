"""Scores of one window, computed on demand from counts and sums.

Rule: this file reads counts and does not change them. Sums of floats use `math.fsum`, which is
exact in any order. Counts are whole numbers, or weights if they fade.

Scores of a confusion matrix are computed from its diagonal and its margins, as river defines them:
they only need how often each class was predicted correctly, was true and was predicted. So
baselines need no matrix, and C classes cost O(C). They are not computed by river, because its
metrics load scipy.stats: a second of every start,
docs/decisions/scores.md#simple-scores-are-our-own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import fsum, sqrt

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.schema import Label
from stream.evaluate.ranking import Ranking, ranking

__all__ = [
    "AVERAGES",
    "BASELINES",
    "BINS",
    "Agreement",
    "PredictionTable",
    "Scores",
    "Tally",
    "agreement",
]


AVERAGES = ("macro", "micro", "weighted")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How predicted classes agree with the true ones.

    Parameters
    ----------
    balanced_accuracy
        Mean recall of the classes that were true at least once.
    kappa
        Cohen's kappa: agreement beyond chance, given the margins.
    mcc
        Matthews' correlation; Gorodkin's R_K for several classes; 0 if undefined.
    precision, recall, f1
        Average (of `AVERAGES`) to value, over the classes that were true or predicted. A class for
        which a score is undefined counts as 0.
    precisions, recalls, f1s
        The same for each class.
    """

    balanced_accuracy: float
    kappa: float
    mcc: float
    precision: Mapping[str, float]
    recall: Mapping[str, float]
    f1: Mapping[str, float]
    precisions: tuple[float, ...]
    recalls: tuple[float, ...]
    f1s: tuple[float, ...]


def agreement(
    right: Sequence[float], true: Sequence[float], predicted: Sequence[float]
) -> Agreement | None:
    """The agreement of C classes; None if nothing was counted.

    Parameters
    ----------
    right, true, predicted
        How often each class was predicted correctly, was true, and was predicted; weights if they
        fade. A baseline without a prediction was wrong, so the sum of `predicted` may be less than
        that of `true`.

    Examples
    --------
    >>> found = agreement(right=[3, 2], true=[4, 2], predicted=[3, 3])
    >>> round(found.kappa, 3), round(found.f1["macro"], 3), found.recalls
    (0.667, 0.829, (0.75, 1.0))
    """
    if not any(true):
        return None
    counted = [c for c in range(len(true)) if true[c] or predicted[c]]
    precisions = tuple(map(_share, right, predicted))
    recalls = tuple(map(_share, right, true))
    f1s = tuple(map(_harmonic, precisions, recalls))
    micro = _share(fsum(right), fsum(predicted))
    averages = {
        name: {
            "macro": fsum(each[c] for c in counted) / len(counted),
            "micro": micro,
            "weighted": fsum(t * v for t, v in zip(true, each, strict=True)) / fsum(true),
        }
        for name, each in (("precision", precisions), ("recall", recalls), ("f1", f1s))
    }
    of_true = [recall for recall, t in zip(recalls, true, strict=True) if t]
    return Agreement(
        fsum(of_true) / len(of_true),
        _kappa(right, true, predicted),
        _correlation(right, true, predicted),
        averages["precision"],
        averages["recall"],
        averages["f1"],
        precisions,
        recalls,
        f1s,
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _harmonic(p: float, r: float) -> float:
    return 2.0 * p * r / (p + r) if p + r else 0.0


def _kappa(right: Sequence[float], true: Sequence[float], predicted: Sequence[float]) -> float:
    """Cohen's kappa (Cohen 1960): 0 if only one class was ever true and predicted."""
    n = fsum(true)
    chance = fsum(t / n * (p / n) for t, p in zip(true, predicted, strict=True))
    return (fsum(right) / n - chance) / (1.0 - chance) if chance != 1.0 else 0.0


def _correlation(
    right: Sequence[float], true: Sequence[float], predicted: Sequence[float]
) -> float:
    """Matthews' correlation of any number of classes (Gorodkin 2004, equation 8, in counts).

    river's metric is not used, because with more than two classes it treats one as positive.
    """
    n = fsum(true)
    both = n * fsum(right) - fsum(t * s for t, s in zip(true, predicted, strict=True))
    spread = (n * n - fsum(s * s for s in predicted)) * (n * n - fsum(t * t for t in true))
    return both / sqrt(spread) if spread > 0 else 0.0


BASELINES = ("majority", "no_change")
BINS = 10  # bins of confidence, for calibration


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The counts of one window.

    Parameters
    ----------
    sums
        Number of scored predictions (the effective number if they fade), and sums of log loss,
        Brier score, and log loss and Brier score of the prior.
    confusion
        float64, (C, C): weights of [true, predicted].
    baselines
        float64, (2, C + 1, 2): weights of [majority or no-change, 1 + predicted, right].
    calibration
        float64, (B, 2, 2): by [confidence, right], the weight and the sum of confidences.
    true, posterior
        int64, (n,), and float64, (n, R): true classes and posteriors of the first R classes, for
        scores that need single predictions; None if the window does not keep them.
    losses
        float64, (2, n): their log losses, of the model and of the prior; None likewise.
    """

    sums: tuple[float, float, float, float, float]
    confusion: Floats
    baselines: Floats
    calibration: Floats
    true: NDArray[np.int64] | None = None
    posterior: Floats | None = None
    losses: Floats | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        arrays = ("confusion", "baselines", "calibration", "true", "posterior", "losses")
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
        return self.sums == other.sums and all(same)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Bin:
    """Predictions of about the same confidence: the probability of the predicted class.

    Parameters
    ----------
    low, high
        Its bounds. `high` belongs to the next bin, except 1, which belongs to the last bin.
    weight
        Number of predictions.
    confidence, accuracy
        Mean confidence, and share of right predictions; None if the bin is empty.
    """

    low: float
    high: float
    weight: float
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class ClassScores:
    """The scores of one class against all others.

    Parameters
    ----------
    label
        The class.
    support, predicted
        How often it was the true class, and how often it was predicted.
    precision, recall, f1
        0 if undefined, as in river and scikit-learn.
    roc_auc, pr_auc
        None if the window keeps no posteriors, or has only records of this class or none of them.
    """

    label: Label
    support: float
    predicted: float
    precision: float
    recall: float
    f1: float
    roc_auc: float | None
    pr_auc: float | None


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores over one window. A score is None before the first scored prediction, or if undefined.

    Parameters
    ----------
    scored
        Predictions in the window (the effective number if it fades).
    accuracy, log_loss
        Scores of the model.
    baselines
        Baseline (of `BASELINES`) to its accuracy on the same predictions.
    classes
        Labels in the order they were learned.
    count
        Makes the tally from which all other scores are computed. None: they are undefined.

    Notes
    -----
    All other scores are computed on first use and kept.
    """

    scored: float
    accuracy: float | None
    log_loss: float | None
    baselines: Mapping[str, float | None]
    classes: tuple[Label, ...] = ()
    count: Callable[[], Tally] | None = field(default=None, repr=False)

    @staticmethod
    def of(tally: Tally, classes: tuple[Label, ...]) -> Scores:
        """The scores of a tally."""
        n, loss = tally.sums[:2]
        if not n:
            return Scores(0, None, None, dict.fromkeys(BASELINES))
        right, *others = (
            fsum(hits.tolist())
            for hits in (np.diagonal(tally.confusion), *tally.baselines[:, :, 1])
        )
        # Weights were added to n in another order than by class, so the last bits differ.
        baselines = {b: min(1.0, hits / n) for b, hits in zip(BASELINES, others, strict=True)}
        return Scores(n, min(1.0, right / n), loss / n, baselines, classes, partial(_kept, tally))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scores):
            return NotImplemented
        fields = ("scored", "accuracy", "log_loss", "baselines", "classes", "tally")
        return all(getattr(self, name) == getattr(other, name) for name in fields)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., Scores], tuple[object, ...]]:
        """For another process the counts are made; what makes them stays here."""
        first = (self.scored, self.accuracy, self.log_loss, self.baselines, self.classes)
        return Scores, (*first, None if self.tally is None else partial(_kept, self.tally))

    @cached_property
    def tally(self) -> Tally | None:
        """The counts of the window."""
        return None if self.count is None else self.count()

    @property
    def brier(self) -> float | None:
        """Brier score: mean of Σ (p - [true])² over the classes, 0 … 2."""
        return self._mean(2)

    @property
    def prior_log_loss(self) -> float | None:
        """Log loss of the prior: the shares of the labels that were learned before the
        prediction."""
        return self._mean(3)

    @property
    def prior_brier(self) -> float | None:
        """Brier score of the prior."""
        return self._mean(4)

    @cached_property
    def balanced_log_loss(self) -> float | None:
        """Mean over the true classes of each class's mean log loss."""
        return self._balanced(0)

    @cached_property
    def prior_balanced_log_loss(self) -> float | None:
        """Balanced log loss of the prior."""
        return self._balanced(1)

    @cached_property
    def agreement(self) -> Agreement | None:
        """Scores of the confusion matrix."""
        if self.tally is None:
            return None
        confusion = self.tally.confusion
        right = np.diagonal(confusion).tolist()
        return agreement(right, _sums(confusion), _sums(confusion.T))

    @cached_property
    def beside(self) -> Mapping[str, Agreement | None]:
        """Baseline to the scores of its confusion matrix."""
        if self.tally is None:
            return dict.fromkeys(BASELINES)
        true = _sums(self.tally.confusion)
        return {
            name: agreement(counts[1:, 1].tolist(), true, _sums(counts[1:]))
            for name, counts in zip(BASELINES, self.tally.baselines, strict=True)
        }

    @property
    def kappa_m(self) -> float | None:
        """Kappa-M (p - p_m) / (1 - p_m), with p_m the accuracy of majority; None if that is 1."""
        return self._above("majority")

    @property
    def kappa_t(self) -> float | None:
        """Kappa-Temporal (p - p_t) / (1 - p_t), with p_t the accuracy of no-change; None if that is
        1."""
        return self._above("no_change")

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error: Σ weight · `|accuracy - confidence|` over the bins."""
        if self.tally is None:
            return None
        gaps = [
            abs(right - fsum(confidence))
            for (_, right), confidence in zip(
                self.tally.calibration[:, :, 0].tolist(),
                self.tally.calibration[:, :, 1].tolist(),
                strict=True,
            )
        ]
        return fsum(gaps) / self.scored

    @property
    def calibration(self) -> tuple[Bin, ...]:
        """The bins of a calibration plot, by rising confidence."""
        if self.tally is None:
            return ()
        out, n = [], len(self.tally.calibration)
        for k, ((wrong, right), sums) in enumerate(
            zip(
                self.tally.calibration[:, :, 0].tolist(),
                self.tally.calibration[:, :, 1].tolist(),
                strict=True,
            )
        ):
            weight = wrong + right
            mean, share = (fsum(sums) / weight, right / weight) if weight else (None, None)
            out.append(Bin(k / n, (k + 1) / n, weight, mean, share))
        return tuple(out)

    @cached_property
    def ranks(self) -> tuple[Ranking | None, ...]:
        """How well the posterior of each of the first R classes ranks it above the others."""
        if self.tally is None or self.tally.true is None or self.tally.posterior is None:
            return ()
        return ranking(self.tally.true, self.tally.posterior)

    @property
    def roc_auc(self) -> float | None:
        """Area under the ROC curve, one class against the rest, mean over the classes."""
        return _mean([rank.roc_auc for rank in self.ranks if rank is not None])

    @property
    def pr_auc(self) -> float | None:
        """Average precision, one class against the rest, mean over the classes."""
        return _mean([rank.pr_auc for rank in self.ranks if rank is not None])

    @property
    def per_class(self) -> tuple[ClassScores, ...]:
        """Each class against all others, in the order they were learned."""
        found = self.agreement
        if found is None or self.tally is None:
            return ()
        predicted, true = _sums(self.tally.confusion.T), _sums(self.tally.confusion)
        ranks = (*self.ranks, *[None] * len(true))
        return tuple(
            ClassScores(
                label,
                true[c],
                predicted[c],
                found.precisions[c],
                found.recalls[c],
                found.f1s[c],
                None if (rank := ranks[c]) is None else rank.roc_auc,
                None if rank is None else rank.pr_auc,
            )
            for c, label in enumerate(self.classes[: len(true)])
        )

    def plain(self) -> Scores:
        """A copy without the tally, small enough to keep hundreds of them."""
        return Scores(self.scored, self.accuracy, self.log_loss, self.baselines)

    def _mean(self, which: int) -> float | None:
        return None if self.tally is None else self.tally.sums[which] / self.scored

    def _balanced(self, which: int) -> float | None:
        if self.tally is None or self.tally.true is None or self.tally.losses is None:
            return None
        order = np.argsort(self.tally.true, kind="stable")
        true, losses = self.tally.true[order], self.tally.losses[which, order]
        parts = np.split(losses, np.flatnonzero(np.diff(true)) + 1)
        return _mean([fsum(part.tolist()) / part.size for part in parts])

    def _above(self, baseline: str) -> float | None:
        if self.tally is None:
            return None
        # Computed from the wrong ones: 1 - accuracy would lose all digits if few are wrong.
        confusion = self.tally.confusion
        wrong = fsum(confusion[~np.eye(len(confusion), dtype=bool)].tolist())
        others = fsum(self.tally.baselines[BASELINES.index(baseline), :, 0].tolist())
        return 1.0 - wrong / others if others else None


@dataclass(frozen=True, slots=True)
class PredictionTable:
    """Single predictions in any order.

    Parameters
    ----------
    codes
        int32, (4, n): the true class, and the predictions of model, majority and no-change; -1 for
        none.
    measures
        float64, (5, n): log loss, confidence, Brier score, log loss and Brier score of the prior.
    posterior
        float64, (n, R): of the first R classes.
    n_classes
        C.
    """

    codes: NDArray[np.int32]
    measures: Floats
    posterior: Floats
    n_classes: int

    def scores(self, classes: tuple[Label, ...]) -> Scores:
        """Their scores: the cheap ones at once, the others on first use."""
        n, (true, *predicted) = self.codes.shape[1], self.codes
        if not n:
            return Scores(0, None, None, dict.fromkeys(BASELINES))
        right, *others = (int(np.count_nonzero(one == true)) / n for one in predicted)
        baselines = dict(zip(BASELINES, others, strict=True))
        loss = fsum(self.measures[0].tolist()) / n
        return Scores(n, right, loss, baselines, classes, self.tally)

    def tally(self) -> Tally:
        """Their sums."""
        codes, n, sure = self.codes, self.n_classes, self.measures[1]
        true, predicted = codes[0].astype(np.int64), codes[1]
        confusion = (
            np.bincount(true * n + predicted, minlength=n * n).reshape(n, n).astype(np.float64)
        )
        baselines = np.zeros((2, n + 1, 2))
        for b in (0, 1):
            at = 2 * (codes[2 + b] + 1) + (codes[2 + b] == true)
            baselines[b] = np.bincount(at, minlength=2 * n + 2).reshape(n + 1, 2)
        at = 2 * np.minimum((sure * BINS).astype(np.int64), BINS - 1) + (predicted == true)
        calibration = np.empty((BINS, 2, 2))
        calibration[:, :, 0] = np.bincount(at, minlength=2 * BINS).reshape(BINS, 2)
        # Added in order, unlike numpy's pairwise sums.
        calibration[:, :, 1] = np.bincount(at, sure, minlength=2 * BINS).reshape(BINS, 2)
        loss, brier, prior_loss, prior_brier = (
            fsum(self.measures[k].tolist()) for k in (0, 2, 3, 4)
        )
        sums = (float(true.size), loss, brier, prior_loss, prior_brier)
        return Tally(
            sums, confusion, baselines, calibration, true, self.posterior, self.measures[[0, 3]]
        )


def _kept(tally: Tally) -> Tally:
    return tally


def _sums(counts: Floats) -> list[float]:
    """The sum of each row."""
    return [fsum(row) for row in counts.tolist()]


def _mean(values: list[float]) -> float | None:
    return fsum(values) / len(values) if values else None
