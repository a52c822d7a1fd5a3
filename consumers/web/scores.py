"""The table of scores, the calibration and the classes of the page, from a frozen view. Pure.

Rule: nothing is computed here but what `stream.evaluate` computes when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from consumers.shard.views import RiskView
from consumers.web.document import CalibrationBin, ClassScore, Score
from stream.decision import RiskScores
from stream.evaluate.agreement import Agreement
from stream.evaluate.quality import QualityView
from stream.evaluate.scores import Scores

__all__ = ["calibration_of", "classes_of", "decided_of", "scores_of", "short"]

Read = Callable[[Scores], float | None]
Beside = Callable[[Scores], Mapping[str, float | None]]


def _alone(_: Scores) -> Mapping[str, float | None]:
    """No baseline has this score."""
    return {}


def _agreeing(read: Callable[[Agreement], float]) -> tuple[Read, Beside]:
    """A score of how said classes agree with the true ones: the baselines have it too."""

    def of(scores: Scores) -> float | None:
        return None if scores.agreement is None else read(scores.agreement)

    def beside(scores: Scores) -> Mapping[str, float | None]:
        return {name: None if a is None else read(a) for name, a in scores.beside.items()}

    return of, beside


SCORES: tuple[tuple[str, Read, Beside], ...] = (
    ("accuracy", lambda s: s.accuracy, lambda s: s.baselines),
    ("balanced accuracy", *_agreeing(lambda a: a.balanced_accuracy)),
    ("macro F1", *_agreeing(lambda a: a.f1["macro"])),
    ("Cohen's kappa", *_agreeing(lambda a: a.kappa)),
    ("Matthews' correlation", *_agreeing(lambda a: a.mcc)),
    ("kappa-M", lambda s: s.kappa_m, _alone),
    ("kappa-T", lambda s: s.kappa_t, _alone),
    ("log loss", lambda s: s.log_loss, lambda s: {"prior": s.prior_log_loss}),
    ("Brier score", lambda s: s.brier, lambda s: {"prior": s.prior_brier}),
    ("calibration error", lambda s: s.calibration_error, _alone),
    ("ROC AUC", lambda s: s.roc_auc, _alone),
    ("PR AUC", lambda s: s.pr_auc, _alone),
)


def scores_of(quality: QualityView) -> list[Score]:
    """Every score that exists by now, over the last records with its baselines, and over all."""
    last, all_, fading = (quality.scores[w] for w in (quality.last, "all", "fading"))
    out = []
    for name, of, beside in SCORES:
        if (value := of(last)) is not None:
            others = {baseline: short(v) for baseline, v in beside(last).items()}
            out.append(
                Score(name, short(value), **others, all=short(of(all_)), fading=short(of(fading)))
            )
    return out


def decided_of(risk: RiskView | None, last: str) -> list[Score]:
    """Risk and coverage of decisions, over the window `last` and the others; none before any.

    Both: a rule that abstains more lowers its risk by doing less.
    """
    if risk is None:
        return []
    reads: tuple[tuple[str, Callable[[RiskScores], float | None]], ...] = (
        ("risk of decisions", lambda r: r.risk),
        ("coverage of decisions", lambda r: r.coverage),
    )
    out = []
    for name, of in reads:
        found = {window: short(of(scores)) for window, scores in risk.windows.items()}
        if found.get(last) is not None:
            out.append(Score(name, found[last], all=found["all"], fading=found["fading"]))
    return out


def calibration_of(quality: QualityView) -> list[CalibrationBin]:
    """The bins over the last records; none before anything was scored."""
    return [
        CalibrationBin(b.low, b.high, round(b.weight), short(b.confidence), short(b.accuracy))
        for b in quality.scores[quality.last].calibration
    ]


def classes_of(
    quality: QualityView, order: Sequence[int], names: Sequence[str]
) -> list[ClassScore]:
    """Each of these classes against the rest, over all time."""
    found = quality.scores["all"].per_class
    return [
        ClassScore(
            name,
            round(found[c].support),
            round(found[c].said),
            round(found[c].precision, 4),
            round(found[c].recall, 4),
            round(found[c].f1, 4),
        )
        for c, name in zip(order, names, strict=True)
        if c < len(found)  # learned, but never scored
    ]


def short(value: float | None) -> float | None:
    """As many digits as anybody looks at."""
    return None if value is None else round(value, 5)
