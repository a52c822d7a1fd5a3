"""Families of samples, of which an exposition may hold one a name, and names as their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from consumers.telemetry.metrics import MAX_CLASSES, METRICS
from stream.data.schema import Label

__all__ = ["OTHER", "SPECS", "Sample", "class_names", "family", "united"]

Sample = tuple[tuple[str, ...], float | None]  # label values, value
SPECS = {spec.name: spec for spec in METRICS}
OTHER = "__other__"
MAX_NAME = 100  # characters of a class name: a label may be as long as a record


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


def class_names(labels: Sequence[Label], max_classes: int = MAX_CLASSES) -> list[str]:
    """Label values for the first `max_classes` classes learned; they keep them for ever.

    Booleans are `true` and `false`. A text that is too long is cut, one that is empty (to
    Prometheus: no label) or taken already gets underscores in front.

    Examples
    --------
    >>> class_names([True, False])
    ['true', 'false']
    >>> class_names(["ham", "__other__", "spam"], max_classes=2)
    ['ham', '___other__']
    """
    names: dict[str, None] = {}
    for label in labels[:max_classes]:
        text = str(label).lower() if isinstance(label, bool) else str(label)
        # JSON may hold half a surrogate pair, which no exposition can encode.
        text = text[:MAX_NAME].encode("utf-8", "backslashreplace").decode()
        while text in names or text in ("", OTHER):
            text = "_" + text
        names[text] = None
    return list(names)
