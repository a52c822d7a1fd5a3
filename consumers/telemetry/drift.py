"""What watches for drift, as metrics: alarms of each detector, and how often the model began anew.

Always of [model], which is what is watched, whoever is champion.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from consumers.shard.views import ShardView
from consumers.telemetry.families import class_names, family
from stream.drift.rule import ACTING

__all__ = ["drift"]


def drift(view: ShardView) -> Iterator[Metric]:
    """One family a metric."""
    told = view.drift
    monitors = () if told is None else told.monitors
    of = () if told is None else (str(view.shard), told.model)
    watched = list(dict.fromkeys(m.on for m in monitors))
    on = dict(zip(watched, class_names(watched, len(watched)), strict=True))
    alarms = (((*of, m.detector, on[m.on]), m.alarms) for m in monitors)
    yield family("headwater_drift_alarms_total", alarms)
    detected = (((*of, m.detector, on[m.on]), int(m.detected)) for m in monitors)
    yield family("headwater_drift_detected", detected)
    actions = {} if told is None else dict.fromkeys(ACTING, 0) | dict(told.actions)
    yield family("headwater_drift_actions_total", (((*of, a), n) for a, n in actions.items()))
