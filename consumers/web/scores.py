"""The table of scores, the calibration and the classes of the page, from a frozen view. Pure.

Rule: this file computes no score; it calls `stream.evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumers.shard.views import RiskView
from consumers.web.document import CalibrationBin, ClassScore, Score
from stream.decision.table import RISK_SCORES
from stream.evaluate.quality import QualityView
from stream.evaluate.table import SCORES

__all__ = ["PERCENT", "calibration_of", "classes_of", "decided_of", "scores_of", "short"]

# Scores with a baseline come before the others of their kind.
ORDER = tuple(sorted(SCORES, key=lambda s: (s.of == "probabilities", s.baselines is None)))
# Titles of the scores that the page shows in percent.
PERCENT = (
    *(score.title for score in ORDER if score.unit != "number"),
    *(score.title for score in RISK_SCORES if score.unit != "number"),
)


def scores_of(quality: QualityView) -> list[Score]:
    """Every score with a value, over the last records with its baselines, and over all."""
    last, all_, fading = (quality.scores[w] for w in (quality.last, "all", "fading"))
    out = []
    for score in ORDER:
        if (value := score.value(last)) is not None:
            beside = {} if score.baselines is None else score.baselines.values(last)
            others = {baseline: short(v) for baseline, v in beside.items()}
            over = {"all": short(score.value(all_)), "fading": short(score.value(fading))}
            out.append(Score(score.title, short(value), **others, **over))
    return out


def decided_of(risk: RiskView | None, last: str) -> list[Score]:
    """Every score of decisions, over the window `last` and the others; empty before any.

    Risk and coverage are both shown, because a rule that rejects more records lowers its risk by
    that alone.
    """
    if risk is None:
        return []
    out = []
    for score in RISK_SCORES:
        found = {window: short(score.value(scores)) for window, scores in risk.windows.items()}
        if found.get(last) is not None:
            out.append(Score(score.title, found[last], all=found["all"], fading=found["fading"]))
    return out


def calibration_of(quality: QualityView) -> list[CalibrationBin]:
    """The bins over the last records; empty before the first scored prediction."""
    return [
        CalibrationBin(b.low, b.high, round(b.weight), short(b.confidence), short(b.accuracy))
        for b in quality.scores[quality.last].calibration
    ]


def classes_of(
    quality: QualityView, order: Sequence[int], names: Sequence[str]
) -> list[ClassScore]:
    """Each of the given classes against the rest, over all time."""
    found = quality.scores["all"].per_class
    return [
        ClassScore(
            name,
            round(found[c].support),
            round(found[c].predicted),
            round(found[c].precision, 4),
            round(found[c].recall, 4),
            round(found[c].f1, 4),
        )
        for c, name in zip(order, names, strict=True)
        if c < len(found)  # learned, but not scored yet
    ]


def short(value: float | None) -> float | None:
    """Rounded for display."""
    return None if value is None else round(value, 5)
