"""Families of samples; an exposition has at most one family per name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from consumers.telemetry.spec import BucketCounts, MetricSpec, Sample

__all__ = ["family", "united"]


def family(
    spec: MetricSpec, samples: Iterable[Sample], exemplars: Mapping[str, Exemplar] | None = None
) -> Metric:
    """A family with those of the samples that have a value.

    Parameters
    ----------
    exemplars
        Of a counter: value of the last label to its exemplar.
    """
    if spec.type == "histogram":
        histogram = HistogramMetricFamily(spec.name, spec.help, labels=spec.labels)
        for labels, value in samples:
            if isinstance(value, BucketCounts):
                bounds = [*map(floatToGoString, value.bounds), "+Inf"]
                upto = zip(bounds, accumulate(value.counts), strict=True)
                histogram.add_metric(labels, list(upto), sum_value=value.total)
        return histogram
    numbers = (
        (labels, value)
        for labels, value in samples
        if not (value is None or isinstance(value, BucketCounts) or math.isnan(value))
    )
    if spec.type == "counter":
        counter = CounterMetricFamily(spec.name, spec.help, labels=spec.labels)
        for labels, value in numbers:
            exemplar = exemplars.get(labels[-1]) if exemplars else None
            counter.add_metric(labels, value, exemplar=exemplar)
        return counter
    gauge = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
    for labels, value in numbers:
        gauge.add_metric(labels, value)
    return gauge


def united(metrics: Iterable[Metric]) -> Iterator[Metric]:
    """Families of one name merged; a sample that several have appears once."""
    families: dict[str, Metric] = {}
    for metric in metrics:
        first = families.setdefault(metric.name, metric)
        if first is not metric:
            have = {(s.name, tuple(sorted(s.labels.items()))) for s in first.samples}
            first.samples += [
                s for s in metric.samples if (s.name, tuple(sorted(s.labels.items()))) not in have
            ]
    yield from families.values()
