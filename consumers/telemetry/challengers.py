"""Metrics of the models that learn beside the champion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from consumers.shard.views import ChallengerView
from consumers.telemetry.spec import MetricSpec, Read, Sample, ScrapeView, of_shard
from stream.contest.compare import ComparisonView

__all__ = ["CHALLENGER_METRICS"]


def _champion(look: ScrapeView) -> Iterator[Sample]:
    yield look.champion, 1
    yield from (((*look.shard, challenger.name), 0) for challenger in look.view.challengers)


def _each(of: Callable[[ChallengerView], Iterable[Sample]]) -> Read:
    """Samples of each challenger, with its labels in addition to shard and model."""
    return lambda look: (
        ((*look.shard, challenger.name, *labels), value)
        for challenger in look.view.challengers
        for labels, value in of(challenger)
    )


def _difference(found: ComparisonView) -> list[Sample]:
    bounds = {"lower": found.lower, "mean": found.difference, "upper": found.upper}
    return [((bound,), value) for bound, value in bounds.items()]


def _discordant(found: ComparisonView) -> list[Sample]:
    return [(("challenger",), found.won), (("champion",), found.lost)]


CHALLENGER_METRICS = (
    MetricSpec(
        "headwater_champion",
        "gauge",
        ("shard", "model"),
        "1 for the model whose predictions are written, 0 for its challengers.",
        _champion,
    ),
    MetricSpec(
        "headwater_promotions_total",
        "counter",
        ("shard",),
        "Promotions by the rule of [promotion].",
        of_shard(lambda view: view.promotions),
    ),
    MetricSpec(
        "headwater_challenger_e_value",
        "gauge",
        ("shard", "model"),
        "Evidence that a challenger is right more often than the champion; 1: no evidence.",
        _each(lambda one: [((), one.comparison.e_value)]),
    ),
    MetricSpec(
        "headwater_challenger_brier_difference",
        "gauge",
        ("shard", "model", "bound"),
        "Mean of the champion's Brier score minus the challenger's, and its 95 % interval.",
        _each(lambda one: _difference(one.comparison)),
    ),
    MetricSpec(
        "headwater_challenger_discordant_total",
        "counter",
        ("shard", "model", "right"),
        "Records on which only one of challenger and champion was right, since the last change.",
        _each(lambda one: _discordant(one.comparison)),
    ),
    MetricSpec(
        "headwater_challenger_skipped_total",
        "counter",
        ("shard", "model", "what"),
        "Records that a challenger could not process, and corrections that it could not apply.",
        _each(lambda one: [((what,), n) for what, n in one.skipped.items()]),
    ),
)
