"""Metrics. Those of the state are read from the committed view, so they survive a restart.

1. A series exists only while its value is known. There is no NaN, and no series of the shard before
   its first view: a counter that starts at 0 and jumps to the recovered total would look like a
   burst to `rate()`.
2. Every counter whose labels are known in advance exists from the first view, at 0.
3. The number of series is bounded: classes beyond `max_classes` are summed up as `__other__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar

from consumers.base.records import Partition, Uncommitted
from consumers.shard.views import Committed, ShardView
from consumers.telemetry.metrics import BUCKETS, EXEMPLAR_TOPIC, EXEMPLARS_OF, METRICS
from consumers.telemetry.optional import MIX_AGE
from consumers.telemetry.spec import MAX_CLASSES, LastOnly, ProcessFacts, ScrapeView, family
from stream.join.label_delay import ARRIVED

__all__ = ["ShardCollector", "Telemetry"]


class ShardCollector(Collector):
    """The metrics of the committed view, read at the time of a scrape.

    Parameters
    ----------
    view
        The newest committed view, None before the first. Called in the scraping thread.
    clock
        Seconds.
    max_classes
        Classes with a name of their own.
    exemplars
        Dead-letter reason to its newest dead letter. Called in the scraping thread.
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
        """One family per metric; none before the first view."""
        view = self._view()
        if view is None:
            return
        look = ScrapeView(view, self._last_only, self._max_classes, self._confusions)
        for spec in METRICS:
            if spec.read is not None and (samples := spec.read(look)) is not None:
                exemplars = self._exemplars() if spec.name == EXEMPLARS_OF else None
                yield family(spec, samples, exemplars)


class Telemetry(Collector):
    """The metrics of the process, counted since its start, and those of the shard.

    Parameters
    ----------
    registry
        Where both are registered; the service's own, never the global default.
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

    Attributes
    ----------
    facts
        What was counted, by the name of the metric.

    Notes
    -----
    One thread writes and another scrapes, without a lock; see `ProcessFacts`.

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
        self.facts = ProcessFacts(clock, (str(shard),), view)
        self.facts.counts["headwater_build_info"][version] = 1
        self._dead_letters: Mapping[str, Exemplar] = {}
        committed = ShardCollector(view, clock, max_classes, lambda: self._dead_letters, confusions)
        registry.register(committed)
        registry.register(self)

    def committed(self, event: Committed, _: ShardView) -> None:
        """Count one commit; call it only once the commit is acknowledged."""
        facts, now = self.facts, self.facts.clock()
        facts.observe("headwater_commit_seconds", event.seconds, BUCKETS)
        facts.counts["headwater_future_timestamps_total"][""] += event.ahead
        facts.times["headwater_commit_age_seconds"] = now
        if any(event.labels.get(outcome) for outcome in ARRIVED):
            facts.times["headwater_label_age_seconds"] = now
        newest = {reason: _exemplar(at, now) for reason, at in event.newest.items()}
        self._dead_letters = {**self._dead_letters, **newest}

    def polled(self) -> None:
        """Remember the time of a poll."""
        self.facts.times["headwater_poll_age_seconds"] = self.facts.clock()

    def snapshot_written(self, at: float) -> None:
        """Remember when the newest snapshot was written, by `clock`."""
        self.facts.times["headwater_snapshot_age_seconds"] = at

    def mixed(self, oldest: int) -> None:
        """Remember the clock in ms of the oldest statistics of the other shards."""
        self.facts.times[MIX_AGE] = oldest / 1000

    def snapshot_failed(self, place: Literal["local", "copy"]) -> None:
        """Count a snapshot, or a copy, that could not be written."""
        self.facts.counts["headwater_snapshot_failures_total"][place] += 1

    def ends(self, ends: Mapping[Partition, int]) -> None:
        """Remember the newest known end of each input; lag is measured against it."""
        self.facts.ends = dict(ends)

    def unread(self, partitions: int) -> None:
        """Set the number of added partitions that are not read."""
        self.facts.values["headwater_unread_partitions"] = partitions

    def uncommitted(self, inputs: Mapping[Partition, Uncommitted]) -> None:
        """Remember the records that open transactions hold back, by input; 0 for the others."""
        self.facts.uncommitted = dict(inputs)

    def replay_remaining(self, n: int) -> None:
        """Set the number of records that are still to be replayed."""
        self.facts.values["headwater_replay_remaining_records"] = n

    def collect(self) -> Iterator[Metric]:
        """One family a metric."""
        for spec in METRICS:
            if spec.process is not None:
                yield family(spec, spec.process(self.facts, spec.name))


def _exemplar(at: tuple[Partition, int], now: float) -> Exemplar:
    """The position of a record, within the limits of OpenMetrics."""
    partition, offset = at
    labels = {
        "topic": partition.topic[:EXEMPLAR_TOPIC],
        "partition": str(partition.number),
        "offset": str(offset),
    }
    return Exemplar(labels, 1.0, now)
