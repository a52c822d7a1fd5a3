"""What the loop posts after each commit and the page reads: bounded, and only what is committed.

Rule: one thread posts, another reads. Each fact is one immutable value, swapped whole, so a reader
never sees half of one and no lock is held; a post costs the loop microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from consumers.events import LATEST, Committed, Said, ShardView
from consumers.records import Outgoing, Partition
from consumers.web.questions import Questions
from stream.evaluate.quality import QualityView, Scores

if TYPE_CHECKING:
    from consumers.web.app import Health

__all__ = ["POINTS", "SECONDS", "Board", "Point", "Second", "last_scores"]

POINTS = 400  # of the curve at most: as many as a screen shows apart
SECONDS = 300  # of throughput and lag: five minutes; longer is what Prometheus is for
LARGEST_KEPT = 8 * 1024  # bytes of a record that is kept; what is larger cannot be looked at
FIRST = 20  # scored predictions before which an accuracy is mostly chance


class Point(NamedTuple):
    """Accuracies over the last scored predictions, after so many of them."""

    scored: int
    model: float
    majority: float
    no_change: float


class Second(NamedTuple):
    """Observations consumed up to the end of a second of the clock, and records behind then."""

    at: int
    observations: int
    lag: int | None


class Board:
    """The board of one shard.

    Parameters
    ----------
    clock
        Seconds since the epoch.
    health
        Where the shard is in its life.

    Attributes
    ----------
    view
        The newest committed view.
    curve
        `POINTS` at most; when full every other one goes, so it always spans the process's life.
    seconds
        Those with a commit among the last `SECONDS`.
    latest, dead
        The last `LATEST` predictions and dead letters.
    committed_at, snapshot_at
        Seconds since the epoch; None before the first.
    ends
        The newest known end of each input.
    version
        Grows with each post: what has not changed need not be said again.
    """

    def __init__(self, clock: Callable[[], float], health: Callable[[], Health]) -> None:
        self._clock = clock
        self.health = health
        self.questions = Questions()
        self.view: ShardView | None = None
        self.curve: tuple[Point, ...] = ()
        self.seconds: tuple[Second, ...] = ()
        self.latest: tuple[Said, ...] = ()
        self.dead: tuple[Outgoing, ...] = ()
        self.committed_at: float | None = None
        self.commit_seconds: float | None = None
        self.snapshot_at: float | None = None
        self.ends: Mapping[Partition, int] = {}
        self.version = 0
        self._apart = 0  # scored predictions between two points

    def recovered(self, view: ShardView) -> None:
        """Post what a start found: the state goes on where it was."""
        self.view = view
        self._extend(view.quality)
        self._second(view)
        self.version += 1

    def committed(self, event: Committed, view: ShardView) -> None:
        """Post a commit; call it only once the commit is acknowledged."""
        self.view = view
        self.committed_at, self.commit_seconds = self._clock(), event.seconds
        if event.latest:
            self.latest = (*self.latest, *(_light(said) for said in event.latest))[-LATEST:]
        if event.dead:
            self.dead = (*self.dead, *(_cut(out) for out in event.dead))[-LATEST:]
        self._extend(view.quality)
        self._second(view)
        self.version += 1

    def reached(self, ends: Mapping[Partition, int]) -> None:
        """Post the newest known ends of the inputs."""
        if ends != self.ends:
            self.ends = dict(ends)
            self.version += 1

    def snapshot_written(self, at: float) -> None:
        """Post when the newest snapshot was written."""
        self.snapshot_at = at
        self.version += 1

    def lag(self) -> int | None:
        """Records between the committed positions and the newest known ends."""
        view, ends = self.view, self.ends
        if view is None or not ends:
            return None
        return sum(max(0, ends[p] - at) for p, at in view.positions.items() if p in ends)

    def _extend(self, quality: QualityView) -> None:
        scores = last_scores(quality)
        majority, no_change = scores.baselines["majority"], scores.baselines["no_change"]
        scored = round(quality.scores["all"].scored)
        if scores.accuracy is None or majority is None or no_change is None or scored < FIRST:
            return
        curve = self.curve
        if curve and scored < curve[-1].scored:  # rolled back: the curve of what is forgotten ends
            curve, self._apart = tuple(p for p in curve if p.scored <= scored), 0
        if curve and scored == curve[-1].scored:
            return
        if len(curve) > 1 and curve[-1].scored - curve[-2].scored < self._apart:
            curve = curve[:-1]  # the newest is always shown, and gives way while it is too close
        curve = (*curve, Point(scored, scores.accuracy, majority, no_change))
        if len(curve) > POINTS:
            self._apart = (curve[-1].scored - curve[0].scored) // (POINTS // 2)
            curve = _thinned(curve, self._apart)
        self.curve = curve

    def _second(self, view: ShardView) -> None:
        now, seconds = int(self._clock()), self.seconds
        newest = Second(now, view.observations, self.lag())
        if seconds and seconds[-1].at >= now:
            seconds = seconds[:-1]
        self.seconds = (*(s for s in seconds if s.at >= now - SECONDS), newest)


def last_scores(quality: QualityView) -> Scores:
    """The scores over the last predictions, not all and not fading."""
    return next(s for window, s in quality.scores.items() if window.startswith("last"))


def _thinned(curve: tuple[Point, ...], apart: int) -> tuple[Point, ...]:
    """The first and the newest point, and between them those that lie `apart`."""
    kept = [curve[0]]
    for point in curve[1:-1]:
        if point.scored - kept[-1].scored >= apart:
            kept.append(point)
    return (*kept, curve[-1])


def _light(said: Said) -> Said:
    heavy = len(said.observation or b"") > LARGEST_KEPT
    return said._replace(observation=None) if heavy else said


def _cut(out: Outgoing) -> Outgoing:
    return out._replace(value=out.value[:LARGEST_KEPT] if out.value else out.value)
