"""Scores of a confusion matrix: river's metrics, computed from its diagonal and its margins.

Rule: these scores only need how often each class was predicted correctly, was true and was
predicted. So baselines need no matrix, and C classes cost O(C).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from river.metrics import ConfusionMatrix

__all__ = ["AVERAGES", "Agreement", "agreement"]

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
    from river import metrics

    if not any(true):
        return None
    cm = _matrix(right, true, predicted)
    of: dict[str, dict[str, float]] = {
        name: {a: _value(getattr(metrics, f"{a.title()}{kind}"), cm) for a in AVERAGES}
        for name, kind in (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1"))
    }
    each: Any = [metrics.F1(cm=cm, pos_val=c) for c in range(len(true))]  # type: ignore[no-untyped-call]
    return Agreement(
        _value(metrics.BalancedAccuracy, cm),
        _value(metrics.CohenKappa, cm),
        _correlation(right, true, predicted),
        of["precision"],
        of["recall"],
        of["f1"],
        tuple(f1.precision.get() for f1 in each),
        tuple(f1.recall.get() for f1 in each),
        tuple(f1.get() for f1 in each),
    )


def _value(metric: Any, cm: ConfusionMatrix) -> float:
    return float(metric(cm=cm).get())


def _matrix(
    right: Sequence[float], true: Sequence[float], predicted: Sequence[float]
) -> ConfusionMatrix:
    """river's confusion matrix with these margins, by class code. The order of labels differs
    between processes, and with it the last bits of sums."""
    from river.metrics import ConfusionMatrix

    cm: Any = ConfusionMatrix()  # type: ignore[no-untyped-call]
    for c, (hits, row, column) in enumerate(zip(right, true, predicted, strict=True)):
        cm.data[c][c], cm.sum_row[c], cm.sum_col[c] = hits, row, column
    cm.total_weight = fsum(true)
    cm._total_true_positives = fsum(right)  # what its update() sums
    return cm  # type: ignore[no-any-return]


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
