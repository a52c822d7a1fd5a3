"""Scores of a confusion matrix, computed from its diagonal and its margins, as river defines them.

Rule: these scores only need how often each class was predicted correctly, was true and was
predicted. So baselines need no matrix, and C classes cost O(C). They are not computed by river,
because its metrics load scipy.stats: a second of every start, decision 0098.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

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
