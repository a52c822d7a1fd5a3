"""What a commit made true, and the frozen view of a shard that the web and metrics read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from consumers.base.records import Outgoing, Partition
from stream.contest.compare import ComparisonView
from stream.data.schema import Label
from stream.decision import RiskScores
from stream.evaluate.estimate import EstimateView
from stream.evaluate.quality import QualityView

__all__ = [
    "LATEST",
    "ChallengerView",
    "Committed",
    "DriftAlarm",
    "DriftView",
    "FieldCheck",
    "LabelView",
    "MonitorView",
    "Promoted",
    "PublishedPrediction",
    "RiskView",
    "ShardView",
    "Subscriber",
]

LATEST = 20  # predictions, dead letters and alarms a commit shows of itself


class PublishedPrediction(NamedTuple):
    """One prediction as it was published, and the observation it is of."""

    key: bytes | None
    observation: bytes | None
    prediction: bytes


class Promoted(NamedTuple):
    """Another model became champion.

    Parameters
    ----------
    name
        As predictions have it.
    e_value
        Its evidence by then.
    partition, offset
        The record that decided it: predictions behind it are the new champion's.
    """

    name: str
    e_value: float
    partition: Partition
    offset: int


class DriftAlarm(NamedTuple):
    """Drift was detected.

    Parameters
    ----------
    detector, on
        Type of the detector, and what it watches.
    action
        What it does.
    before, after
        The mean of what it watches before the change and behind it, as the detector tells them.
    time
        Stream time in ms.
    scored
        How many predictions had been scored by then.
    partition, offset
        The record behind which it was raised.
    """

    detector: str
    on: str
    action: str
    before: float
    after: float
    time: int
    scored: int
    partition: Partition
    offset: int


class FieldCheck(NamedTuple):
    """Which declared fields the first observations of a commit have.

    Parameters
    ----------
    observations
        How many were decoded without an error.
    present
        The fields that have a value in one of them.
    """

    observations: int
    present: Collection[str]


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit is done.

    Parameters
    ----------
    records, predictions, learned
        How many went in, were predicted, were learned.
    labels
        Outcome (of `stream.join.label_delay.OUTCOMES`) to count.
    rejected
        Dead-letter reason to count.
    seconds
        Wall time from the poll's end to the acknowledged commit.
    position
        Offset of its journal entry.
    details
        Dead-letter reason to the first of them, in words.
    newest
        Dead-letter reason to the last of them: its partition and offset.
    latest, dead
        The last predictions and dead letters, `LATEST` at most, as they were published.
    promoted
        Who became champion, in order.
    alarms
        The last alarms of drift, `LATEST` at most.
    ahead
        How many outputs carry the commit's clock, because their record's timestamp lies after it.
    furthest
        The one furthest ahead: its partition, its offset, by how many ms.
    fields
        Which declared fields its first observations have; None where nobody asked.
    """

    records: int
    predictions: int
    learned: int
    labels: Mapping[str, int]
    rejected: Mapping[str, int]
    seconds: float
    position: int
    details: Mapping[str, str] = field(default_factory=dict)
    newest: Mapping[str, tuple[Partition, int]] = field(default_factory=dict)
    latest: Sequence[PublishedPrediction] = ()
    dead: Sequence[Outgoing] = ()
    promoted: Sequence[Promoted] = ()
    alarms: Sequence[DriftAlarm] = ()
    ahead: int = 0
    furthest: tuple[Partition, int, int] | None = None
    fields: FieldCheck | None = None


@dataclass(frozen=True, slots=True)
class RiskView:
    """What decisions cost so far.

    Parameters
    ----------
    overall
        Mean loss of the decisions whose true class came; None before any.
    scored
        How many those are.
    rejected
        Observations on which nothing was decided, because abstaining cost less; all of them,
        labelled or not, from the first label on.
    actions
        Action, as text, to how many observations it was decided on; all of them.
    constant
        The one action (None: rejecting) that would have cost least if it had always been taken
        where `overall` was scored, and its mean loss; None before any.
    windows
        Window to what decisions cost there, and on how many nothing was decided.
    """

    overall: float | None
    scored: int
    rejected: int
    actions: Mapping[str, int] = field(default_factory=dict)
    constant: tuple[Label | None, float] | None = None
    windows: Mapping[str, RiskScores] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelView:
    """Which predictions got their label, how late, and how good those without one may be.

    Parameters
    ----------
    delays
        Labels by delay, see `stream.join.label_delay.LabelDelays`.
    delay_ms
        Sum of the delays.
    coverage
        Labelled share of the predictions that wait no longer; None before any.
    waited_ms
        How long the oldest pending observation has waited, in stream time; None: none waits.
    estimate
        Of the accuracy of what waits.
    """

    delays: Sequence[int]
    delay_ms: int
    coverage: float | None
    waited_ms: int | None
    estimate: EstimateView


class MonitorView(NamedTuple):
    """One detector: its alarms so far, and whether the last one is recent (1,000 values)."""

    detector: str
    on: str
    alarms: int
    detected: bool


@dataclass(frozen=True, slots=True)
class DriftView:
    """What watches for drift.

    Parameters
    ----------
    model
        Name of [model], which is what is watched: the service's.
    monitors
        Each detector.
    actions
        How often the model began anew, by action.
    last
        The last alarms, the newest at the end; `LATEST` at most.
    keep
        How many of the records learned last `forget` leaves, at most.
    """

    model: str
    monitors: Sequence[MonitorView]
    actions: Mapping[str, int]
    last: Sequence[DriftAlarm]
    keep: int


@dataclass(frozen=True, slots=True)
class ChallengerView:
    """A model that learns and is scored beside the champion.

    Parameters
    ----------
    name, type
        As predictions have them.
    learned
        Labels it learned.
    skipped
        Rows it could not take, corrections it could not follow; by what it was.
    quality
        Scores, of the records since it is there.
    comparison
        With the champion.
    """

    name: str
    type: str
    learned: int
    skipped: Mapping[str, int]
    quality: QualityView
    comparison: ComparisonView


@dataclass(frozen=True, slots=True)
class ShardView:
    """A shard after its last commit. Every number is of all time, from the state itself.

    Parameters
    ----------
    name, model, shard
        The service, the type of the champion, the shard's number.
    observations, predictions, learned
        Totals.
    labels, dead_letters
        Totals by outcome and by reason.
    overflows
        What was refused at a bound, by the bound's name.
    pending, early
        Observations that wait for their label, and labels for their observation.
    quality
        Scores.
    positions
        Next offset of each input.
    stream_time
        Milliseconds since the epoch of the newest record, None before any.
    risk
        Of decisions; None where the service makes none.
    held_back
        Whether the dead-letter breaker is open, so that nothing is learned.
    recent_dead_letters
        How many of the last 1,000 records were dead letters.
    labelling
        Of predictions and their labels.
    records
        Total: observations and labels, dead letters among them.
    champion
        Name and type of who speaks, as predictions have them.
    challengers
        Everyone else: [model] too, where it is not the champion.
    promotions
        How often a challenger became champion by the rule.
    drift
        None where nothing is watched.
    """

    name: str
    model: str
    shard: int
    observations: int
    predictions: int
    learned: int
    labels: Mapping[str, int]
    dead_letters: Mapping[str, int]
    overflows: Mapping[str, int]
    pending: int
    early: int
    quality: QualityView
    positions: Mapping[Partition, int] = field(default_factory=dict)
    stream_time: int | None = None
    risk: RiskView | None = None
    held_back: bool = False
    recent_dead_letters: int = 0
    labelling: LabelView | None = None
    records: int = 0
    champion: tuple[str, str] = ("", "")
    challengers: Sequence[ChallengerView] = ()
    promotions: int = 0
    drift: DriftView | None = None


class Subscriber(Protocol):
    """Receives each commit of a runner, once and in order, after it is acknowledged.

    It is called in the thread of the loop, so it must return within milliseconds. An exception
    that it raises is an error of the run.
    """

    def __call__(self, event: Committed, view: ShardView, /) -> None:
        """Receive one commit, and the view of the shard after it."""
