"""Metrics. What the state knows is read from the committed view, so it survives a restart.

Three rules. A series exists only while its value is known: no NaN, and nothing of the shard before
its first view, for a counter that began at 0 and then jumped to the recovered total would look like
a burst to `rate()`. Every counter whose labels are known in advance is there from the first view,
at 0. The number of series is bounded: classes beyond `max_classes` are summed up as `__other__`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from consumers.base.errors import DEAD_LETTER_REASONS
from consumers.base.records import Partition, Uncommitted
from consumers.shard.views import Committed, LabelView, RiskView, ShardView
from consumers.telemetry.challengers import challengers
from consumers.telemetry.drift import drift
from consumers.telemetry.families import OTHER, SPECS, Sample, class_names, family, united
from consumers.telemetry.metrics import BUCKETS, EXEMPLAR_TOPIC, MAX_CLASSES
from consumers.telemetry.scores import LastOnly, scores
from stream.evaluate.quality import QualityView
from stream.join.label_delay import ARRIVED, DELAY_BOUNDS_MS, OUTCOMES

__all__ = ["OTHER", "ShardCollector", "Telemetry", "class_names"]


class ShardCollector(Collector):
    """Everything that is read from the committed view, at the moment of a scrape.

    Parameters
    ----------
    view
        The newest committed view, None before the first. Called in the scraping thread.
    clock
        Seconds.
    max_classes
        Classes with a name of their own.
    exemplars
        Dead-letter reason to the newest of them. Called in the scraping thread.
    confusions
        Whether challengers show their confusion too.
    """

    def __init__(
        self,
        view: Callable[[], ShardView | None],
        clock: Callable[[], float],
        max_classes: int = MAX_CLASSES,
        exemplars: Callable[[], Mapping[str, Exemplar]] = dict,
        confusions: bool = False,
    ) -> None:
        self._view = view
        self._max_classes = max_classes
        self._exemplars = exemplars
        self._confusions = confusions
        self._last_only = LastOnly(clock)

    def collect(self) -> Iterator[Metric]:
        """One family a metric; nothing before the first view."""
        view = self._view()
        if view is not None:
            yield from _totals(view)
            yield _dead_letters(view, self._exemplars())
            of = (str(view.shard), view.champion[0])
            yield from united(self._qualities(view))
            yield from _decisions(of, view.risk)
            yield from _labelling(of, view.labelling)
            yield from challengers(view)
            yield from drift(view)

    def _qualities(self, view: ShardView) -> Iterator[Metric]:
        """Of the champion, then of each challenger."""
        shard = str(view.shard)
        yield from self._quality((shard, view.champion[0]), view.quality)
        for challenger in view.challengers:
            for metric in self._quality((shard, challenger.name), challenger.quality):
                if self._confusions or metric.name != "headwater_confusion":
                    yield metric

    def _quality(self, of: tuple[str, str], quality: QualityView) -> Iterator[Metric]:
        names = class_names(quality.classes, self._max_classes)
        if len(quality.classes) > len(names):
            names.append(OTHER)
        counts = _fold(quality.confusion, len(names)).tolist()
        yield family("headwater_unscored_total", [(of, quality.unscored)])
        yield family(
            "headwater_confusion_total",
            (
                ((*of, true, said), counts[t][p])
                for t, true in enumerate(names)
                for p, said in enumerate(names)
            ),
        )
        found: dict[str, list[Sample]] = {}
        for name, labels, value in scores(of, quality, self._last_only):
            found.setdefault(name, []).append((labels, value))
        for name, samples in found.items():
            yield family(name, samples)


class Telemetry(Collector):
    """The process's own metrics, counted since it started, and the shard's beside them.

    Parameters
    ----------
    registry
        Where both are registered; one of the service's own, never the global default.
    view
        The newest committed view, None before the first.
    clock
        Seconds since the epoch.
    version
        Of headwater.
    shard
        The shard's number.
    max_classes
        Classes with a name of their own.
    confusions
        Whether challengers show their confusion too.

    Notes
    -----
    One thread writes, another scrapes. Each fact is one immutable value, swapped whole, so that a
    scrape never sees half of one and no lock is held.

    Examples
    --------
    >>> registry = CollectorRegistry()
    >>> telemetry = Telemetry(registry, lambda: None, clock=lambda: 100.0, version="1.0")
    >>> telemetry.snapshot_written(at=88.0)
    >>> registry.get_sample_value("headwater_snapshot_age_seconds", {"shard": "0"})
    12.0
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        view: Callable[[], ShardView | None],
        *,
        clock: Callable[[], float],
        version: str,
        shard: int = 0,
        max_classes: int = MAX_CLASSES,
        confusions: bool = False,
    ) -> None:
        self._view = view
        self._clock = clock
        self._version = version
        self._shard = str(shard)
        self._commits: tuple[tuple[int, ...], float] = ((0,) * (len(BUCKETS) + 1), 0.0)
        self._last: Mapping[str, float] = {}  # poll, commit, label: when, by the clock
        self._dead_letters: Mapping[str, Exemplar] = {}
        self._ahead = 0
        self._snapshot_at: float | None = None
        self._snapshot_failures: Mapping[str, int] = {"local": 0, "copy": 0}
        self._ends: Mapping[Partition, int] = {}
        self._uncommitted: Mapping[Partition, Uncommitted] = {}
        self._replay_remaining: int | None = None
        self._unread: int | None = None
        committed = ShardCollector(view, clock, max_classes, lambda: self._dead_letters, confusions)
        registry.register(committed)
        registry.register(self)

    def record(self, event: Committed) -> None:
        """Count one commit; call it only once the commit is acknowledged."""
        counts, total = self._commits
        at = bisect_left(BUCKETS, event.seconds)
        raised = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
        self._commits = (raised, total + event.seconds)
        self._ahead += event.ahead
        now = self._clock()
        labelled = any(event.labels.get(outcome) for outcome in ARRIVED)
        self._last = {**self._last, "commit": now, **({"label": now} if labelled else {})}
        newest = {reason: _exemplar(at, now) for reason, at in event.newest.items()}
        self._dead_letters = {**self._dead_letters, **newest}

    def polled(self) -> None:
        """Remember that the loop has turned."""
        self._last = {**self._last, "poll": self._clock()}

    def snapshot_written(self, at: float) -> None:
        """Remember when the newest snapshot was written, by `clock`."""
        self._snapshot_at = at

    def snapshot_failed(self, place: Literal["local", "copy"]) -> None:
        """Count a snapshot that is not where it should be."""
        failures = self._snapshot_failures
        self._snapshot_failures = {**failures, place: failures[place] + 1}

    def ends(self, ends: Mapping[Partition, int]) -> None:
        """Remember the newest known end of each input; lag is measured against it."""
        self._ends = dict(ends)

    def unread(self, partitions: int) -> None:
        """Say how many partitions were added and are not read."""
        self._unread = partitions

    def uncommitted(self, inputs: Mapping[Partition, Uncommitted]) -> None:
        """Remember what open transactions keep from each input; the others have nothing."""
        self._uncommitted = dict(inputs)

    def replay_remaining(self, n: int) -> None:
        """Say how many records are still to be replayed."""
        self._replay_remaining = n

    def collect(self) -> Iterator[Metric]:
        """One family a metric."""
        shard = (self._shard,)
        yield self._commit_seconds()
        for what in ("poll", "commit", "label"):
            age = self._age(self._last.get(what))
            yield family(f"headwater_{what}_age_seconds", [(shard, age)])
        yield family("headwater_snapshot_age_seconds", [(shard, self._age(self._snapshot_at))])
        yield family("headwater_future_timestamps_total", [(shard, self._ahead)])
        failures = self._snapshot_failures.items()
        yield family(
            "headwater_snapshot_failures_total", (((*shard, place), n) for place, n in failures)
        )
        yield family("headwater_replay_remaining_records", [(shard, self._replay_remaining)])
        yield family("headwater_input_lag_records", self._lag())
        yield family("headwater_unread_partitions", [(shard, self._unread)])
        for what in ("records", "seconds"):
            yield family(f"headwater_input_uncommitted_{what}", self._kept_back(what))
        yield family("headwater_build_info", [((self._version,), 1)])

    def _age(self, at: float | None) -> float | None:
        return None if at is None else max(0.0, self._clock() - at)

    def _commit_seconds(self) -> Metric:
        counts, total = self._commits
        return _histogram("headwater_commit_seconds", (self._shard,), BUCKETS, counts, total)

    def _lag(self) -> Iterator[Sample]:
        view, ends = self._view(), self._ends
        for partition, position in () if view is None else view.positions.items():
            if partition in ends:
                # A commit may be newer than the last look at the ends: then nothing is known to lag
                yield (
                    (self._shard, partition.topic, str(partition.number)),
                    max(0, ends[partition] - position),
                )

    def _kept_back(self, what: str) -> Iterator[Sample]:
        view, ends, found = self._view(), self._ends, self._uncommitted
        for partition in () if view is None else view.positions:
            if partition in ends:
                at = found.get(partition)
                value = 0 if at is None else getattr(at, what)
                yield (self._shard, partition.topic, str(partition.number)), value


def _totals(view: ShardView) -> Iterator[Metric]:
    shard = (str(view.shard),)
    yield family("headwater_records_total", [(shard, view.records)])
    yield family("headwater_observations_total", [(shard, view.observations)])
    yield family("headwater_labels_total", _by(shard, OUTCOMES, view.labels))
    yield family("headwater_predictions_total", [(shard, view.predictions)])
    yield family("headwater_learned_total", [(shard, view.learned)])
    yield family("headwater_overflow_total", _by(shard, (), view.overflows))
    yield family("headwater_pending_labels", [(shard, view.pending)])
    yield family("headwater_breaker_open", [(shard, int(view.held_back))])
    yield family("headwater_recent_dead_letters", [(shard, view.recent_dead_letters)])
    yield family("headwater_early_labels", [(shard, view.early)])
    newest = None if view.stream_time is None else view.stream_time / 1000
    yield family("headwater_last_record_timestamp_seconds", [(shard, newest)])
    yield family(
        "headwater_committed_offset",
        (((*shard, p.topic, str(p.number)), offset) for p, offset in view.positions.items()),
    )


def _dead_letters(view: ShardView, exemplars: Mapping[str, Exemplar]) -> Metric:
    """Each reason's count, with the newest of them as an exemplar."""
    spec = SPECS["headwater_dead_letters_total"]
    counter = CounterMetricFamily(spec.name, spec.help)
    for reason, count in (dict.fromkeys(DEAD_LETTER_REASONS, 0) | dict(view.dead_letters)).items():
        of = {"shard": str(view.shard), "reason": reason}
        counter.add_sample(spec.name, of, count, exemplar=exemplars.get(reason))
    return counter


def _exemplar(at: tuple[Partition, int], now: float) -> Exemplar:
    """Where a record lies, within what OpenMetrics allows."""
    partition, offset = at
    labels = {
        "topic": partition.topic[:EXEMPLAR_TOPIC],
        "partition": str(partition.number),
        "offset": str(offset),
    }
    return Exemplar(labels, 1.0, now)


def _decisions(of: tuple[str, str], risk: RiskView | None) -> Iterator[Metric]:
    if risk is None:
        return
    yield family("headwater_decision_scored_total", [(of, risk.scored)])
    yield family("headwater_decision_rejected_total", [(of, risk.rejected)])
    windows = risk.windows.items()
    yield family("headwater_decision_risk", (((*of, w), found.risk) for w, found in windows))
    yield family(
        "headwater_decision_coverage_ratio", (((*of, w), found.coverage) for w, found in windows)
    )


def _labelling(of: tuple[str, str], labels: LabelView | None) -> Iterator[Metric]:
    if labels is None:
        return
    shard, estimate = of[:1], labels.estimate
    waited = None if labels.waited_ms is None else labels.waited_ms / 1000
    yield family("headwater_pending_oldest_seconds", [(shard, waited)])
    yield family("headwater_label_coverage_ratio", [(shard, labels.coverage)])
    yield _histogram(
        "headwater_label_delay_seconds",
        shard,
        [bound / 1000 for bound in DELAY_BOUNDS_MS],
        labels.delays,
        labels.delay_ms / 1000,
    )
    yield family("headwater_pending_accuracy_estimate_ratio", [(of, estimate.accuracy)])
    yield family(
        "headwater_pending_accuracy_estimate_error_ratio",
        (((*of, window), error) for window, error in estimate.errors.items()),
    )


def _histogram(
    name: str, of: tuple[str, ...], bounds: Sequence[float], counts: Sequence[int], total: float
) -> Metric:
    """A histogram of counts by bucket, not yet added up; the last one is beyond all bounds."""
    spec = SPECS[name]
    histogram = HistogramMetricFamily(spec.name, spec.help, labels=spec.labels)
    upto = zip([*map(floatToGoString, bounds), "+Inf"], accumulate(counts), strict=True)
    histogram.add_metric(of, list(upto), sum_value=total)
    return histogram


def _by(
    shard: tuple[str, ...], known: Iterable[str], counts: Mapping[str, int]
) -> Iterator[Sample]:
    for key, count in (dict.fromkeys(known, 0) | dict(counts)).items():
        yield (*shard, key), count


def _fold(confusion: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The counts as (size, size): what lies beyond is summed up in the last row and column.

    The confusion may be smaller than the classes: one that was learned but never scored.
    """
    folded = np.zeros((size, size), dtype=np.int64)
    if size:
        to = np.minimum(np.arange(len(confusion)), size - 1)
        np.add.at(folded, (to[:, None], to[None, :]), confusion)
    return folded
