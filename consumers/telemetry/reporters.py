"""Reporters: metrics of those who give labels. A name is never a label of a metric, because names
come from outside and have no bound."""

from __future__ import annotations

from collections.abc import Mapping

from consumers.shard.views import ShardView
from consumers.telemetry.spec import MetricSpec, by_key, of_shard
from stream.join.label_delay import REPORTED

__all__ = ["REPORTER_METRICS", "label_outcomes"]


def label_outcomes(view: ShardView) -> Mapping[str, int]:
    """Label outcomes; with reporters all of theirs, from the first view."""
    if view.reporters is None:
        return view.labels
    return {**dict.fromkeys(REPORTED, 0), **view.labels}


REPORTER_METRICS = (
    MetricSpec(
        "headwater_reporters",
        "gauge",
        ("shard",),
        "Reporters that are remembered; only with `[labels] reporter`.",
        of_shard(lambda view: None if view.reporters is None else view.reporters.known),
    ),
    MetricSpec(
        "headwater_reporter_verdicts_total",
        "counter",
        ("shard", "verdict"),
        "Labels that a later reporter of the same observation confirmed (`agreed`) or contradicted "
        "(`disagreed`); only with `[labels] reporter`.",
        by_key(
            lambda view: (
                {}
                if view.reporters is None
                else {"agreed": view.reporters.agreed, "disagreed": view.reporters.disagreed}
            )
        ),
    ),
)
