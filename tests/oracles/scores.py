"""Scores, slowly: every scored prediction kept, and scikit-learn or plain Python asked.

Rule: nothing here knows how `stream.evaluate` counts. A score is a function of the predictions and
of what each of them weighs in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.stream import simulate_qa
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.utils.class_weight import compute_sample_weight

from stream.evaluate.scores import Scores

AVERAGES = ("macro", "micro", "weighted")
BINS = 10
Weights = NDArray[np.float64]


@dataclass
class Twin:
    """Every scored prediction: true class, codes said by model, majority and no-change (-1: none),
    the model's posterior and the prior's."""

    true: list[int] = field(default_factory=list)
    said: list[tuple[int, int, int]] = field(default_factory=list)
    proba: list[list[float]] = field(default_factory=list)
    prior: list[list[float]] = field(default_factory=list)
    labels: list[Hashable] = field(default_factory=list)
    unscored: int = 0

    def score(self, true: int, said: tuple[int, int, int], proba: list, prior: list) -> None:
        """One more, unless it said nothing."""
        if said[0] < 0:
            self.unscored += 1
            return
        self.true.append(true)
        self.said.append(said)
        self.proba.append(proba)
        self.prior.append(prior)

    def window(self, name: str, last: int, factor: float) -> tuple[Frozen, Weights]:
        """What is in a window, and what each prediction weighs there."""
        width = max(map(len, [*self.proba, *self.prior]))
        pad = lambda rows: np.array([[*row, *[0.0] * (width - len(row))] for row in rows])  # noqa: E731
        whole = Frozen(np.array(self.true), np.array(self.said), pad(self.proba), pad(self.prior))
        n = len(self.true)
        if name == "fading":
            return whole, factor ** np.arange(n - 1, -1, -1.0)
        part = whole if name == "all" else whole.tail(last)
        return part, np.ones(len(part.true))


@dataclass(frozen=True)
class Frozen:
    """The predictions of a window as arrays."""

    true: NDArray[Any]
    said: NDArray[Any]
    proba: NDArray[Any]
    prior: NDArray[Any]

    def tail(self, n: int) -> Frozen:
        """The last n."""
        return Frozen(self.true[-n:], self.said[-n:], self.proba[-n:], self.prior[-n:])


def watched(dataset: Iterable[tuple[Mapping, Hashable]], learner, moment=None, delay=None) -> Twin:
    """Progressive validation one record at a time, in the order of river's `simulate_qa`."""
    twin = Twin()
    codes: dict[Hashable, int] = {}
    counts: list[int] = []
    asked: dict[int, tuple[tuple[int, int, int], list, list]] = {}
    memory = [-1, -1]
    for i, x, y, *_ in simulate_qa(dataset, moment, delay):
        x = {k: v for k, v in x.items() if k not in (moment, delay)}
        if i not in asked:
            p = learner.predict_proba_one(x)
            known = [p.get(label, 0.0) for label in codes]
            best = known.index(max(known)) if known else -1
            asked[i] = ((best, *memory), known, [n / sum(counts) for n in counts])
            continue
        learner.learn_one(x, y)
        code = codes.setdefault(y, len(codes))
        said, proba, prior = asked.pop(i)
        room = [0.0] * max(code + 1 - len(proba), 0)
        twin.score(code, said, proba + room, prior + room)
        counts += [0] * (len(codes) - len(counts))
        counts[code] += 1
        memory[1] = code
        if memory[0] < 0 or counts[code] > counts[memory[0]]:
            memory[0] = code
    twin.labels = list(codes)
    return twin


def hits(of: Frozen, w: Weights, which: int) -> float:
    """Accuracy of model (0), majority (1) or no-change (2)."""
    return float(metrics.accuracy_score(of.true, of.said[:, which], sample_weight=w))


def prf(of: Frozen, w: Weights, average: str | None, which: int = 0) -> list:
    """scikit-learn's precision, recall and F1; of the true and said classes on average."""
    labels = range(of.proba.shape[1]) if average is None else sorted({*of.true, *of.said[:, which]})
    return metrics.precision_recall_fscore_support(
        of.true,
        of.said[:, which],
        labels=[label for label in labels if label >= 0],
        average=average,
        sample_weight=w,
        zero_division=0,
    )[:3]


def above(of: Frozen, w: Weights, which: int) -> float:
    """MOA's kappa-M (1) and kappa-Temporal (2): how much of the baseline's errors is left out."""
    p, other = hits(of, w, 0), hits(of, w, which)
    return (p - other) / (1 - other)


def log_loss(of: Frozen, w: Weights, proba: NDArray[Any]) -> float:
    """scikit-learn's, which clips at 2⁻⁵² as we do."""
    return float(metrics.log_loss(of.true, proba, labels=range(proba.shape[1]), sample_weight=w))


def balanced_log_loss(of: Frozen, proba: NDArray[Any]) -> float:
    """scikit-learn's log loss with its own balanced weights."""
    w = compute_sample_weight("balanced", of.true)
    return float(metrics.log_loss(of.true, proba, labels=range(proba.shape[1]), sample_weight=w))


def brier(of: Frozen, w: Weights, proba: NDArray[Any]) -> float:
    """scikit-learn's, over all classes."""
    labels = range(proba.shape[1])
    return float(
        metrics.brier_score_loss(
            of.true, proba, labels=labels, sample_weight=w, scale_by_half=False
        )
    )


def bins(of: Frozen, w: Weights) -> list[tuple[float, float, float]]:
    """Weight, sum of confidences and weight of right ones a bin, one prediction after another."""
    out = [[0.0, 0.0, 0.0] for _ in range(BINS)]
    for true, (said, *_), p, weight in zip(of.true, of.said, of.proba, w, strict=True):
        k = min(int(p[said] * BINS), BINS - 1)
        out[k][0] += weight
        out[k][1] += weight * p[said]
        out[k][2] += weight * (said == true)
    return [tuple(each) for each in out]


def calibration_error(of: Frozen, w: Weights) -> float:
    """Naeini, Cooper and Hauskrecht 2015, equation 2."""
    return sum(abs(right - sure) for _, sure, right in bins(of, w)) / w.sum()


def curve(of: Frozen) -> tuple[NDArray[Any], NDArray[Any]]:
    """scikit-learn's calibration curve of the class said: accuracies, confidences."""
    sure = of.proba[np.arange(len(of.true)), of.said[:, 0]]
    return calibration_curve(of.true == of.said[:, 0], sure, n_bins=BINS)


def one_against_rest(of: Frozen, score: Callable) -> list[float | None]:
    """A binary score of each class by its posterior; None where there is nothing to rank."""
    return [
        float(score(of.true == c, of.proba[:, c]))
        if 0 < (of.true == c).sum() < len(of.true)
        else None
        for c in range(of.proba.shape[1])
    ]


def mean(values: list[float | None]) -> float:
    """Of those there are."""
    return float(np.mean([value for value in values if value is not None]))


def unseen_log_loss(p: float) -> float:
    """What a true class of probability p costs."""
    return -log(max(p, 2.0**-52))


Value = Callable[[Scores], Any]
Oracle = Callable[[Frozen, Weights], Any]
SKLEARN, FORMULA = "scikit-learn", "formula"

# Score -> ours, the oracle's, whose it is. Lists are compared place by place.
TABLE: dict[str, tuple[Value, Oracle, str]] = {
    "accuracy": (lambda s: s.accuracy, lambda f, w: hits(f, w, 0), SKLEARN),
    "balanced accuracy": (
        lambda s: s.agreement.balanced_accuracy,
        lambda f, w: metrics.balanced_accuracy_score(f.true, f.said[:, 0], sample_weight=w),
        SKLEARN,
    ),
    **{
        f"{name}, {average}": (
            lambda s, name=name, a=average: getattr(s.agreement, name)[a],
            lambda f, w, a=average, k=k: prf(f, w, a)[k],
            SKLEARN,
        )
        for k, name in enumerate(("precision", "recall", "f1"))
        for average in AVERAGES
    },
    **{
        f"{name}, a class": (
            lambda s, name=name: [getattr(c, name) for c in s.per_class],
            lambda f, w, k=k: prf(f, w, None)[k],
            SKLEARN,
        )
        for k, name in enumerate(("precision", "recall", "f1"))
    },
    "Cohen's kappa": (
        lambda s: s.agreement.kappa,
        lambda f, w: metrics.cohen_kappa_score(f.true, f.said[:, 0], sample_weight=w),
        SKLEARN,
    ),
    "kappa-M": (lambda s: s.kappa_m, lambda f, w: above(f, w, 1), "MOA's formula"),
    "kappa-Temporal": (lambda s: s.kappa_t, lambda f, w: above(f, w, 2), "MOA's formula"),
    "Matthews' correlation": (
        lambda s: s.agreement.mcc,
        lambda f, w: metrics.matthews_corrcoef(f.true, f.said[:, 0], sample_weight=w),
        SKLEARN,
    ),
    "log loss": (lambda s: s.log_loss, lambda f, w: log_loss(f, w, f.proba), SKLEARN),
    "Brier score": (lambda s: s.brier, lambda f, w: brier(f, w, f.proba), SKLEARN),
    "calibration error": (lambda s: s.calibration_error, calibration_error, FORMULA),
    "calibration bins": (
        lambda s: [
            (b.weight, b.weight * (b.confidence or 0), b.weight * (b.accuracy or 0))
            for b in s.calibration
        ],
        bins,
        FORMULA,
    ),
    **{
        f"accuracy of {name}": (
            lambda s, name=name: s.baselines[name],
            lambda f, w, which=which: hits(f, w, which),
            SKLEARN,
        )
        for which, name in ((1, "majority"), (2, "no_change"))
    },
    **{
        f"balanced accuracy of {name}": (
            lambda s, name=name: s.beside[name].balanced_accuracy,
            lambda f, w, which=which: metrics.balanced_accuracy_score(
                f.true, f.said[:, which], sample_weight=w
            ),
            SKLEARN,
        )
        for which, name in ((1, "majority"), (2, "no_change"))
    },
    **{
        f"macro F1 of {name}": (
            lambda s, name=name: s.beside[name].f1["macro"],
            lambda f, w, which=which: prf(f, w, "macro", which)[2],
            SKLEARN,
        )
        for which, name in ((1, "majority"), (2, "no_change"))
    },
    "kappa of no-change": (
        lambda s: s.beside["no_change"].kappa,
        lambda f, w: metrics.cohen_kappa_score(f.true, f.said[:, 2], sample_weight=w),
        SKLEARN,
    ),
    "log loss of the prior": (
        lambda s: s.prior_log_loss,
        lambda f, w: log_loss(f, w, f.prior),
        SKLEARN,
    ),
    "Brier score of the prior": (
        lambda s: s.prior_brier,
        lambda f, w: brier(f, w, f.prior),
        SKLEARN,
    ),
}

# Of the last N predictions only.
LAST_ONLY: dict[str, tuple[Value, Oracle, str]] = {
    "balanced log loss": (
        lambda s: s.balanced_log_loss,
        lambda f, w: balanced_log_loss(f, f.proba),
        SKLEARN,
    ),
    "balanced log loss of the prior": (
        lambda s: s.prior_balanced_log_loss,
        lambda f, w: balanced_log_loss(f, f.prior),
        SKLEARN,
    ),
    "ROC AUC": (
        lambda s: s.roc_auc,
        lambda f, w: mean(one_against_rest(f, metrics.roc_auc_score)),
        SKLEARN,
    ),
    "PR AUC": (
        lambda s: s.pr_auc,
        lambda f, w: mean(one_against_rest(f, metrics.average_precision_score)),
        SKLEARN,
    ),
    "ROC AUC, a class": (
        lambda s: [c.roc_auc for c in s.per_class],
        lambda f, w: one_against_rest(f, metrics.roc_auc_score),
        SKLEARN,
    ),
    "PR AUC, a class": (
        lambda s: [c.pr_auc for c in s.per_class],
        lambda f, w: one_against_rest(f, metrics.average_precision_score),
        SKLEARN,
    ),
}


def difference(ours: Any, theirs: Any) -> float:
    """The largest, relative to values above 1; infinite where only one of them exists."""
    if isinstance(ours, list | tuple) or isinstance(theirs, list | tuple | np.ndarray):
        return max((difference(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else float("inf")
    return abs(ours - theirs) / max(1.0, abs(theirs))
