"""Families of samples, of which an exposition may hold one a name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from consumers.telemetry.metrics import METRICS

__all__ = ["SPECS", "Sample", "family", "united"]

Sample = tuple[tuple[str, ...], float | None]  # label values, value
SPECS = {spec.name: spec for spec in METRICS}


def family(name: str, samples: Iterable[Sample]) -> Metric:
    """A family with those of the samples that have a value."""
    spec = SPECS[name]
    of = CounterMetricFamily if spec.type == "counter" else GaugeMetricFamily
    found = of(name, spec.help, labels=spec.labels)
    for labels, value in samples:
        if value is not None and not math.isnan(value):
            found.add_metric(labels, value)
    return found


def united(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Families of one name put together; a sample that several have is told once."""
    families: dict[str, Metric] = {}
    for metric in metrics:
        first = families.setdefault(metric.name, metric)
        if first is not metric:
            have = {(s.name, tuple(sorted(s.labels.items()))) for s in first.samples}
            first.samples += [
                s for s in metric.samples if (s.name, tuple(sorted(s.labels.items()))) not in have
            ]
    yield from families.values()
