"""Series of scores: each is a number of `stream.evaluate.scores`, one a window.

Rule: no series a class. What is asked of single classes is computed from
`headwater_confusion_total`, whose series are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumers.telemetry.spec import Spec
from stream.evaluate.agreement import Agreement
from stream.evaluate.quality import QualityView
from stream.evaluate.scores import BASELINES, Scores

__all__ = ["SCORES", "Areas", "Score", "scores"]

Score = tuple[str, tuple[str, ...], float | None]  # name, label values, value
Value = Callable[[Scores], float | None]

RANK_SECONDS = 1.0  # between two looks at the areas under curves, which sort the whole window
_OF = ("shard", "model", "window")
_BESIDE = ("shard", "model", "baseline", "window")


def _agreed(value: Callable[[Agreement], float]) -> Value:
    """Of the confusion, where there is one."""
    return lambda s: None if s.agreement is None else value(s.agreement)


_MACRO = _agreed(lambda found: found.f1["macro"])
_WINDOWED: dict[Spec, Value] = {
    Spec(
        "headwater_accuracy_ratio",
        "gauge",
        _OF,
        "Share of right predictions, each made before its record was learned.",
    ): lambda s: s.accuracy,
    Spec(
        "headwater_balanced_accuracy_ratio",
        "gauge",
        _OF,
        "Mean of the recall of the classes that came.",
    ): _agreed(lambda found: found.balanced_accuracy),
    Spec(
        "headwater_cohen_kappa",
        "gauge",
        _OF,
        "Agreement with the true classes beyond chance, 1 at best.",
    ): _agreed(lambda found: found.kappa),
    Spec(
        "headwater_majority_kappa",
        "gauge",
        _OF,
        "Share of the majority baseline's mistakes that the model avoids; below 0 it is worse.",
    ): lambda s: s.kappa_m,
    Spec(
        "headwater_no_change_kappa",
        "gauge",
        _OF,
        "Share of the no-change baseline's mistakes that the model avoids; below 0 it is worse.",
    ): lambda s: s.kappa_t,
    Spec(
        "headwater_matthews_correlation",
        "gauge",
        _OF,
        "Correlation of said and true classes, -1 to 1.",
    ): _agreed(lambda found: found.mcc),
    Spec(
        "headwater_log_loss",
        "gauge",
        _OF,
        "Mean of -log(probability the model gave to the true class).",
    ): lambda s: s.log_loss,
    Spec(
        "headwater_brier_score",
        "gauge",
        _OF,
        "Mean squared error of the probabilities, summed over the classes: 0 at best, 2 at worst.",
    ): lambda s: s.brier,
    Spec(
        "headwater_calibration_error_ratio",
        "gauge",
        _OF,
        "How far confidence and accuracy lie apart, mean over ten bins of confidence.",
    ): lambda s: s.calibration_error,
}
_F1 = Spec(
    "headwater_f1_ratio",
    "gauge",
    ("shard", "model", "average", "window"),
    "F1 of the classes: their mean (macro). The micro average is the accuracy.",
)
_ROC = Spec(
    "headwater_roc_auc_ratio",
    "gauge",
    _OF,
    "Area under the ROC curve of each class against the rest, mean over the classes.",
)
_PR = Spec(
    "headwater_pr_auc_ratio",
    "gauge",
    _OF,
    "Average precision of each class against the rest, mean over the classes.",
)
_BASELINE = Spec(
    "headwater_baseline_accuracy_ratio",
    "gauge",
    _BESIDE,
    "Share of right predictions of a baseline on the very records the model was scored on.",
)
_BASELINE_BALANCED = Spec(
    "headwater_baseline_balanced_accuracy_ratio",
    "gauge",
    _BESIDE,
    "Balanced accuracy of a baseline over the last records.",
)
_BASELINE_F1 = Spec(
    "headwater_baseline_f1_ratio",
    "gauge",
    _BESIDE,
    "F1 of a baseline over the last records, mean over the classes.",
)
_BASELINE_LOSS = Spec(
    "headwater_baseline_log_loss",
    "gauge",
    _BESIDE,
    "Log loss of the prior: the shares of the labels learned when the model was asked.",
)
_BASELINE_BRIER = Spec(
    "headwater_baseline_brier_score", "gauge", _BESIDE, "Brier score of the prior."
)

SCORES = (
    *_WINDOWED,
    *(_F1, _ROC, _PR),
    *(_BASELINE, _BASELINE_BALANCED, _BASELINE_F1, _BASELINE_LOSS, _BASELINE_BRIER),
)


class Areas:
    """Areas under curves, computed once a second at most, however often they are asked for.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, float | None, float | None]] = {}

    def under(self, of: tuple[str, str], last: Scores) -> tuple[float | None, float | None]:
        """ROC and PR of a model; at most a second old."""
        now = self._clock()
        at, roc, pr = self._known.get(of, (-RANK_SECONDS, None, None))
        if not 0 <= now - at < RANK_SECONDS or of not in self._known:
            roc, pr = last.roc_auc, last.pr_auc
            self._known[of] = (now, roc, pr)
        return roc, pr


def scores(of: tuple[str, str], quality: QualityView, areas: Areas) -> Iterator[Score]:
    """Every score of a model, in the order of `SCORES`; None where it does not exist."""
    windows = quality.scores.items()
    for spec, value in _WINDOWED.items():
        yield from ((spec.name, (*of, window), value(s)) for window, s in windows)
    for window, s in windows:
        yield _F1.name, (*of, "macro", window), _MACRO(s)
    last = quality.last
    roc, pr = areas.under(of, quality.scores[last])
    yield _ROC.name, (*of, last), roc
    yield _PR.name, (*of, last), pr
    for window, s in windows:
        yield from ((_BASELINE.name, (*of, name, window), s.baselines[name]) for name in BASELINES)
    for name, found in quality.scores[last].beside.items():
        if found is not None:
            yield _BASELINE_BALANCED.name, (*of, name, last), found.balanced_accuracy
            yield _BASELINE_F1.name, (*of, name, last), found.f1["macro"]
    for window, s in windows:
        yield _BASELINE_LOSS.name, (*of, "prior", window), s.prior_log_loss
        yield _BASELINE_BRIER.name, (*of, "prior", window), s.prior_brier
