"""One metric: what it is called, what it means, and what it is read from.

That is the committed view of a shard (`ScrapeView`) or what the process has counted
(`ProcessFacts`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from consumers.base.records import Partition, Uncommitted
from consumers.shard.views import ShardView
from stream.data.schema import Label
from stream.evaluate.quality import QualityView
from stream.evaluate.scores import Scores
from stream.evaluate.table import SCORES

__all__ = [
    "MAX_CLASSES",
    "OTHER",
    "BucketCounts",
    "FactReader",
    "LastOnly",
    "MetricSpec",
    "ProcessFacts",
    "Read",
    "Sample",
    "ScrapeView",
    "by_key",
    "class_names",
    "family",
    "of_shard",
    "united",
]

MAX_CLASSES = 20  # default number of classes with their own series


class BucketCounts(NamedTuple):
    """A histogram.

    Parameters
    ----------
    bounds
        Upper bounds of the buckets, ascending.
    counts
        Values in each bucket; the last bucket is above all bounds.
    total
        The sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Sample = tuple[tuple[str, ...], float | BucketCounts | None]  # label values, value


@dataclass(frozen=True, slots=True)
class ScrapeView:
    """What a scrape reads.

    Parameters
    ----------
    view
        The newest committed view.
    last_only
        Scores that are computed at most once per second.
    max_classes
        Classes with a name of their own.
    confusions
        Whether challengers show their confusion too.
    """

    view: ShardView
    last_only: LastOnly
    max_classes: int = MAX_CLASSES
    confusions: bool = False

    @property
    def shard(self) -> tuple[str]:
        """The shard's number, as label values."""
        return (str(self.view.shard),)

    @property
    def champion(self) -> tuple[str, str]:
        """The shard's number and the champion's name, as label values."""
        return (str(self.view.shard), self.view.champion[0])

    def models(self) -> Iterator[tuple[tuple[str, str], QualityView]]:
        """Label values and scores: of the champion, then of each challenger."""
        yield self.champion, self.view.quality
        for challenger in self.view.challengers:
            yield (str(self.view.shard), challenger.name), challenger.quality


Read = Callable[[ScrapeView], Iterable[Sample] | None]


@dataclass(slots=True)
class ProcessFacts:
    """What one shard, or the web server, has counted since the process started.

    Parameters
    ----------
    clock
        Seconds since the epoch.
    labels
        The first label values of each series: the number of the shard; none of the web server.
    view
        The newest committed view, None before the first. Called in the scraping thread.
    counts
        Metric to its counts, by the value of the last label; by "" where it has no other label
        than `labels`.
    values
        Metric to its newest value; None where it has none.
    times
        Metric to when its event last happened, by `clock`.
    histograms
        Metric to its buckets.
    ends
        The newest known end of each input.
    uncommitted
        What open transactions keep back from each input.

    Notes
    -----
    One thread writes a fact and another reads it. Each value is immutable and swapped whole, and
    counts are copied in one step, so a scrape needs no lock.

    Examples
    --------
    >>> facts = ProcessFacts(lambda: 0.0, ("0",))
    >>> facts.counts["headwater_snapshot_failures_total"]["copy"] += 1
    >>> facts.counts["headwater_snapshot_failures_total"]
    Counter({'copy': 1})
    """

    clock: Callable[[], float]
    labels: tuple[str, ...] = ()
    view: Callable[[], ShardView | None] = lambda: None
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    values: dict[str, float | None] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, BucketCounts] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    uncommitted: Mapping[Partition, Uncommitted] = field(default_factory=dict)

    def observe(self, metric: str, value: float, bounds: Sequence[float]) -> None:
        """Count a value in its bucket of a histogram; a value on a bound is within it."""
        empty = BucketCounts(bounds, (0,) * (len(bounds) + 1), 0.0)
        _, counts, total = self.histograms.get(metric, empty)
        at = bisect_left(bounds, value)
        raised = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
        self.histograms[metric] = BucketCounts(bounds, raised, total + value)


FactReader = Callable[[ProcessFacts, str], Iterable[Sample]]  # of the metric of this name


class MetricSpec(NamedTuple):
    """One metric as `docs/metrics.md` shows it.

    Parameters
    ----------
    name, type, labels, help
        As Prometheus shows them.
    read
        Reads its samples from the committed view; no samples and no family where it returns None.
        None for a metric that is not in the state of a shard.
    process
        Reads them from what the process has counted for a shard.
    server
        Reads them from what the web server of the process has counted.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    read: Read | None = None
    process: FactReader | None = None
    server: FactReader | None = None


def of_shard(value: Callable[[ShardView], float | None]) -> Read:
    """One number of the shard."""
    return lambda look: [(look.shard, value(look.view))]


def by_key(counts: Callable[[ShardView], Mapping[str, float]], known: Iterable[str] = ()) -> Read:
    """A number per key; the known keys exist from the first view, at 0."""

    def read(look: ScrapeView) -> Iterator[Sample]:
        for key, count in (dict.fromkeys(known, 0) | dict(counts(look.view))).items():
            yield (*look.shard, key), count

    return read


OTHER = "__other__"
MAX_NAME = 100  # characters of a class name: a label may be as long as a record


def class_names(labels: Sequence[Label], max_classes: int = MAX_CLASSES) -> list[str]:
    """Label values for the first `max_classes` classes learned; they keep them permanently.

    Booleans are `true` and `false`. A text that is too long is truncated. A text that is empty (no
    label for Prometheus) or already taken gets underscores in front.

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
        # JSON can have half a surrogate pair, which no exposition format can encode.
        text = text[:MAX_NAME].encode("utf-8", "backslashreplace").decode()
        while text in names or text in ("", OTHER):
            text = "_" + text
        names[text] = None
    return list(names)


LAST_ONLY_SECONDS = 1.0  # between two computations


class LastOnly:
    """Scores that need each prediction, computed at most once per second.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, dict[str, float | None]]] = {}

    def of(self, model: tuple[str, str], last: Scores) -> dict[str, float | None]:
        """Metric to value for a model; at most one second old."""
        now = self._clock()
        at, found = self._known.get(model, (0.0, {}))
        if model not in self._known or not 0 <= now - at < LAST_ONLY_SECONDS:
            found = {s.metric: s.value(last) for s in SCORES if s.last_only}
            self._known[model] = (now, found)
        return found


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
