"""Metrics of scores, made from the table in `stream.evaluate.scores`: one value per window.

Rule: no series per class. Values of single classes are computed from `headwater_confusion_total`,
whose series are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from consumers.telemetry.advice import GUESSES
from consumers.telemetry.spec import MetricSpec, Read, Sample, ScrapeView
from stream.decision.overall import RISK_SCORES, RiskScoreSpec
from stream.evaluate.table import SCORES, BaselineSpec, ScoreSpec

__all__ = ["RISK_METRICS", "SCORE_METRICS"]

MODEL = ("shard", "model")


def _score(score: ScoreSpec) -> Read:
    """Of every model; None where the score does not exist."""
    more = tuple(value for _, value in score.labels)

    def read(look: ScrapeView) -> Iterator[Sample]:
        for model, quality in look.models():
            windows, last = quality.scores, quality.last
            if score.last_only:
                found = look.last_only.of(model, windows[last])
                yield (*model, *more, last), found[score.metric]
                continue
            for window, scores in windows.items():
                yield (*model, *more, window), score.value(scores)

    return read


def _baseline(baseline: BaselineSpec) -> Read:
    """Of the baselines beside every model."""

    def read(look: ScrapeView) -> Iterator[Sample]:
        for model, quality in look.models():
            for window in (quality.last,) if baseline.last_only else quality.scores:
                for name, value in baseline.values(quality.scores[window]).items():
                    yield (*model, name, window), value

    return read


def _worse(look: ScrapeView) -> Iterator[Sample]:
    """Of every model and baseline."""
    for model, _ in look.models():
        better = {guess.baseline for guess in look.view.worse_than_guessing(model[1])}
        for baseline in GUESSES:
            yield (*model, baseline), int(baseline in better)


def _risk(score: RiskScoreSpec) -> Read:
    """Of the champion's decisions in each window; absent where none are made."""

    def read(look: ScrapeView) -> list[Sample] | None:
        risk = look.view.risk
        if risk is None:
            return None
        return [
            ((*look.champion, window), score.value(found)) for window, found in risk.windows.items()
        ]

    return read


# Those of every window first, and of them those whose only labels are the usual ones.
_ORDER = sorted(SCORES, key=lambda score: (score.last_only, bool(score.labels)))
_BASELINES = [found for score in SCORES if (found := score.baselines) and found.metric]

SCORE_METRICS = (
    *(
        MetricSpec(s.metric, "gauge", (*MODEL, *dict(s.labels), "window"), s.help, _score(s))
        for s in _ORDER
    ),
    *(
        MetricSpec(b.metric, "gauge", (*MODEL, "baseline", "window"), b.help, _baseline(b))
        for b in _BASELINES
    ),
    MetricSpec(
        "headwater_worse_than_guessing",
        "gauge",
        (*MODEL, "baseline"),
        "1 while a model is worse than a baseline by more than chance explains: right less often "
        "(majority, no_change) or with a higher log loss (prior).",
        _worse,
    ),
)

RISK_METRICS = tuple(
    MetricSpec(s.metric, "gauge", (*MODEL, "window"), s.help, _risk(s)) for s in RISK_SCORES
)
