"""What the loop posts after each commit and the page reads: bounded, and committed data only.

Rule: one thread posts, another reads. Each value is immutable and replaced as a whole, so a reader
never sees a partial update and needs no lock. A post costs the loop microseconds. Only a point of
the curve costs about 0.3 ms, for its scores, at most five times a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from consumers.base.health import Health
from consumers.base.records import Outgoing, Partition
from consumers.shard.answer import SHARE, ModelCopies
from consumers.shard.views import LATEST, Committed, PublishedPrediction, ShardView
from consumers.web.questions import Questions
from stream.evaluate.quality import QualityView

__all__ = ["POINTS", "SECONDS", "AccuracyPoint", "Posted", "SecondOfLoad", "StatusFeed"]

POINTS = 400  # of the curve at most: a screen has no room for others
SECONDS = 300  # of throughput and lag: five minutes; Prometheus keeps longer
LARGEST_KEPT = 8 * 1024  # bytes of a kept record; a larger one cannot be explained
LARGEST_SHOWN = 32 * 1024  # bytes of a prediction and its key; a larger one is not shown
FIRST = 20  # scored predictions; with fewer an accuracy is mostly chance
PACE_SECONDS = 0.2  # minimum between two points of the curve


class AccuracyPoint(NamedTuple):
    """Accuracies over the last scored predictions, after `scored` predictions in all."""

    scored: int
    model: float
    majority: float
    no_change: float


class SecondOfLoad(NamedTuple):
    """Observations consumed up to the end of a second of the clock, and the lag in records then."""

    at: int
    observations: int
    lag: int | None


class Posted(NamedTuple):
    """What a `StatusFeed` has, as another process gets it. Its fields are attributes there."""

    version: int
    view: ShardView | None
    curve: tuple[AccuracyPoint, ...]
    seconds: tuple[SecondOfLoad, ...]
    latest: tuple[PublishedPrediction, ...]
    dead: tuple[Outgoing, ...]
    committed_at: float | None
    commit_seconds: float | None
    snapshot_at: float | None
    snapshot_failures: int
    snapshot_failed: tuple[float, str] | None
    ends: Mapping[Partition, int]


class StatusFeed:
    """The status feed of one shard.

    Parameters
    ----------
    clock
        Seconds since the epoch.
    health
        The present health of the shard.
    max_age
        Seconds after which the copy of the model is replaced.
    share
        The share of the loop's time that copies may take.

    Attributes
    ----------
    view
        The newest committed view.
    curve
        At most `POINTS`. When it is full, every second point is removed, so it always spans the
        time since the start. `newest_curve` also has the present point.
    seconds
        The seconds with a commit, among the last `SECONDS`.
    latest, dead
        The last `LATEST` predictions and dead letters.
    committed_at, snapshot_at
        Seconds since the epoch; None before the first.
    snapshot_failures
        Snapshots and copies of them that failed since the process started.
    snapshot_failed
        Time and reason of the last failure; None without one, or after a newer snapshot.
    ends
        The newest known end of each input.
    version
        Grows with each post, so that an unchanged document is not sent again.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        health: Callable[[], Health],
        max_age: float = 1.0,
        share: float = SHARE,
    ) -> None:
        self._clock = clock
        self.health = health
        self.copies = ModelCopies(max_age, time.monotonic, share)
        self.questions = Questions()
        self.view: ShardView | None = None
        self.curve: tuple[AccuracyPoint, ...] = ()
        self.seconds: tuple[SecondOfLoad, ...] = ()
        self.latest: tuple[PublishedPrediction, ...] = ()
        self.dead: tuple[Outgoing, ...] = ()
        self.committed_at: float | None = None
        self.commit_seconds: float | None = None
        self.snapshot_at: float | None = None
        self.snapshot_failures = 0
        self.snapshot_failed: tuple[float, str] | None = None
        self.ends: Mapping[Partition, int] = {}
        self.version = 0
        self._apart = 0  # scored predictions between two points
        self._next = 0.0  # time of the next point

    def wanted_in(self, *, serving: bool) -> float:
        """In how many seconds the loop has something to do here, if no record comes."""
        if self.questions.waiting:
            return 0.0
        return self.copies.pause if serving else math.inf

    def recovered(self, view: ShardView) -> None:
        """Post the state after a start, from which it continues."""
        self.view = view
        self._extend(view.quality)
        self._second(view)
        self.version += 1

    def committed(self, event: Committed, view: ShardView) -> None:
        """Post a commit; call it only once the commit is acknowledged."""
        self.view = view
        self.committed_at, self.commit_seconds = self._clock(), event.seconds
        if event.latest:
            small = (_light(p) for p in event.latest if _shown(p))
            self.latest = (*self.latest, *small)[-LATEST:]
        if event.dead:
            self.dead = (*self.dead, *(_cut(out) for out in event.dead))[-LATEST:]
        self._extend(view.quality)
        self._second(view)
        self.version += 1

    def posted(self) -> Posted:
        """All that was posted, for another process."""
        return Posted(*(getattr(self, name) for name in Posted._fields))

    def take(self, posted: Posted) -> None:
        """Have what the feed of another process has."""
        for name, value in posted._asdict().items():
            setattr(self, name, value)

    def reached(self, ends: Mapping[Partition, int]) -> None:
        """Post the newest known ends of the inputs."""
        if ends != self.ends:
            self.ends = dict(ends)
            self.version += 1

    def snapshot_written(self, at: float) -> None:
        """Post when the newest snapshot was written."""
        self.snapshot_at = at
        if self.snapshot_failed is not None and self.snapshot_failed[0] <= at:
            self.snapshot_failed = None  # an old one, of a start, ends no failure
        self.version += 1

    def snapshot_not_written(self, why: str) -> None:
        """Post that a snapshot, or its copy, failed."""
        self.snapshot_failures += 1
        self.snapshot_failed = self._clock(), why
        self.version += 1

    def lag(self) -> int | None:
        """Records between the committed positions and the newest known ends."""
        view, ends = self.view, self.ends
        if view is None or not ends:
            return None
        return sum(max(0, ends[p] - at) for p, at in view.positions.items() if p in ends)

    def newest_curve(self) -> tuple[AccuracyPoint, ...]:
        """The curve up to now; for the reader, which computes the last point."""
        curve, view = self.curve, self.view
        point = None if view is None else _point(view.quality)
        new = point is not None and (not curve or point.scored > curve[-1].scored)
        return (*curve, point) if new and point is not None else curve

    def _extend(self, quality: QualityView) -> None:
        if (now := self._clock()) < self._next or (point := _point(quality)) is None:
            return
        self._next = now + PACE_SECONDS
        curve = self.curve
        if curve and point.scored < curve[-1].scored:  # a rollback also truncates the curve
            curve, self._apart = tuple(p for p in curve if p.scored <= point.scored), 0
        if curve and point.scored - curve[-1].scored < max(self._apart, 1):
            return
        curve = (*curve, point)
        if len(curve) > POINTS:
            self._apart = (curve[-1].scored - curve[0].scored) // (POINTS // 2)
            curve = _thinned(curve, self._apart)
        self.curve = curve

    def _second(self, view: ShardView) -> None:
        now, seconds = int(self._clock()), self.seconds
        newest = SecondOfLoad(now, view.observations, self.lag())
        if seconds and seconds[-1].at >= now:
            seconds = seconds[:-1]
        self.seconds = (*(s for s in seconds if s.at >= now - SECONDS), newest)


def _point(quality: QualityView) -> AccuracyPoint | None:
    """The present accuracies; None while they are mostly chance."""
    scored = round(quality.scores["all"].scored)
    if scored < FIRST:
        return None
    scores = quality.scores[quality.last]
    majority, no_change = scores.baselines["majority"], scores.baselines["no_change"]
    if scores.accuracy is None or majority is None or no_change is None:
        return None
    return AccuracyPoint(scored, scores.accuracy, majority, no_change)


def _thinned(curve: tuple[AccuracyPoint, ...], apart: int) -> tuple[AccuracyPoint, ...]:
    """The first and the newest point, and between them points at the distance `apart`."""
    kept = [curve[0]]
    for point in curve[1:-1]:
        if point.scored - kept[-1].scored >= apart:
            kept.append(point)
    return (*kept, curve[-1])


def _shown(prediction: PublishedPrediction) -> bool:
    return len(prediction.key or b"") + len(prediction.prediction) <= LARGEST_SHOWN


def _light(prediction: PublishedPrediction) -> PublishedPrediction:
    heavy = len(prediction.observation or b"") > LARGEST_KEPT
    return prediction._replace(observation=None) if heavy else prediction


def _cut(out: Outgoing) -> Outgoing:
    key, value = (part[:LARGEST_KEPT] if part else part for part in (out.key, out.value))
    return out._replace(key=key, value=value)
