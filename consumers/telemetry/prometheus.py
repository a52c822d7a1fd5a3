"""Metrics. Those of the state are read from the committed view, so they survive a restart.

1. A series exists only while its value is known. There is no NaN, and no series of the shard before
   its first view: a counter that starts at 0 and jumps to the recovered total would look like a
   burst to `rate()`.
2. Every counter whose labels are known in advance exists from the first view, at 0.
3. The number of series is bounded: classes beyond `max_classes` are summed up as `__other__`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar

from consumers.base.records import Partition, Uncommitted
from consumers.shard.views import Committed, ShardView
from consumers.telemetry.class_names import MAX_CLASSES
from consumers.telemetry.families import family, family_of
from consumers.telemetry.last_only import LastOnly
from consumers.telemetry.metrics import BUCKETS, EXEMPLAR_TOPIC, EXEMPLARS_OF, METRICS
from consumers.telemetry.spec import BucketCounts, Sample, ScrapeView
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

    Notes
    -----
    One thread writes, another scrapes. Each value is immutable and replaced as a whole, so a scrape
    never sees a partial update and needs no lock.

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
        self._last: Mapping[str, float] = {}  # poll, commit, label: time of the last
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

    def committed(self, event: Committed, _: ShardView) -> None:
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
        """Remember the time of a poll."""
        self._last = {**self._last, "poll": self._clock()}

    def snapshot_written(self, at: float) -> None:
        """Remember when the newest snapshot was written, by `clock`."""
        self._snapshot_at = at

    def snapshot_failed(self, place: Literal["local", "copy"]) -> None:
        """Count a snapshot, or a copy, that could not be written."""
        failures = self._snapshot_failures
        self._snapshot_failures = {**failures, place: failures[place] + 1}

    def ends(self, ends: Mapping[Partition, int]) -> None:
        """Remember the newest known end of each input; lag is measured against it."""
        self._ends = dict(ends)

    def unread(self, partitions: int) -> None:
        """Set the number of added partitions that are not read."""
        self._unread = partitions

    def uncommitted(self, inputs: Mapping[Partition, Uncommitted]) -> None:
        """Remember the records that open transactions hold back, by input; 0 for the others."""
        self._uncommitted = dict(inputs)

    def replay_remaining(self, n: int) -> None:
        """Set the number of records that are still to be replayed."""
        self._replay_remaining = n

    def collect(self) -> Iterator[Metric]:
        """One family a metric."""
        shard = (self._shard,)
        yield self._commit_seconds()
        for what in ("poll", "commit", "label"):
            age = self._age(self._last.get(what))
            yield family_of(f"headwater_{what}_age_seconds", [(shard, age)])
        yield family_of("headwater_snapshot_age_seconds", [(shard, self._age(self._snapshot_at))])
        yield family_of("headwater_future_timestamps_total", [(shard, self._ahead)])
        failures = self._snapshot_failures.items()
        yield family_of(
            "headwater_snapshot_failures_total", (((*shard, place), n) for place, n in failures)
        )
        yield family_of("headwater_replay_remaining_records", [(shard, self._replay_remaining)])
        yield family_of("headwater_input_lag_records", self._lag())
        yield family_of("headwater_unread_partitions", [(shard, self._unread)])
        for what in ("records", "seconds"):
            yield family_of(f"headwater_input_uncommitted_{what}", self._kept_back(what))
        yield family_of("headwater_build_info", [((self._version,), 1)])

    def _age(self, at: float | None) -> float | None:
        return None if at is None else max(0.0, self._clock() - at)

    def _commit_seconds(self) -> Metric:
        counts, total = self._commits
        samples: list[Sample] = [((self._shard,), BucketCounts(BUCKETS, counts, total))]
        return family_of("headwater_commit_seconds", samples)

    def _lag(self) -> Iterator[Sample]:
        view, ends = self._view(), self._ends
        for partition, position in () if view is None else view.positions.items():
            if partition in ends:
                # A commit can be newer than the last known ends: then the lag is 0
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


def _exemplar(at: tuple[Partition, int], now: float) -> Exemplar:
    """The position of a record, within the limits of OpenMetrics."""
    partition, offset = at
    labels = {
        "topic": partition.topic[:EXEMPLAR_TOPIC],
        "partition": str(partition.number),
        "offset": str(offset),
    }
    return Exemplar(labels, 1.0, now)
