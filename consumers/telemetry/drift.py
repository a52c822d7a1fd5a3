"""Metrics of drift: alarms of each detector, and how often the model was restarted.

They describe [model], because drift is watched there, whichever model is champion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumers.shard.views import MonitorView
from consumers.telemetry.class_names import class_names
from consumers.telemetry.spec import MetricSpec, Read, Sample, ScrapeView
from stream.drift.rule import CHANGES

__all__ = ["DRIFT_METRICS"]


def _each(value: Callable[[MonitorView], int]) -> Read:
    """A number of each detector."""

    def read(look: ScrapeView) -> Iterator[Sample]:
        drift = look.view.drift
        if drift is not None:
            watched = list(dict.fromkeys(monitor.on for monitor in drift.monitors))
            on = dict(zip(watched, class_names(watched, len(watched)), strict=True))
            for monitor in drift.monitors:
                at = (*look.shard, drift.model, monitor.detector, on[monitor.on])
                yield at, value(monitor)

    return read


def _actions(look: ScrapeView) -> Iterator[Sample]:
    drift = look.view.drift
    if drift is not None:
        for action, times in (dict.fromkeys(CHANGES, 0) | dict(drift.actions)).items():
            yield (*look.shard, drift.model, action), times


DRIFT_METRICS = (
    MetricSpec(
        "headwater_drift_alarms_total",
        "counter",
        ("shard", "model", "detector", "on"),
        "Drift alarms, by detector and watched value.",
        _each(lambda monitor: monitor.alarms),
    ),
    MetricSpec(
        "headwater_drift_detected",
        "gauge",
        ("shard", "model", "detector", "on"),
        "1 during the 1,000 values after an alarm of the detector, else 0.",
        _each(lambda monitor: int(monitor.detected)),
    ),
    MetricSpec(
        "headwater_drift_actions_total",
        "counter",
        ("shard", "model", "action"),
        "Restarts of the model and changes of the champion by drift alarms, by action.",
        _actions,
    ),
)
