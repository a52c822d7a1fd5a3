"""The result of a commit, and the frozen view of a shard for pages and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from consumers.base.counts import counted
from consumers.base.records import Outgoing, Partition
from consumers.codecs.account import FieldsView, FieldTally
from stream.contest.compare import ComparisonView
from stream.data.schema import Label
from stream.decision import BudgetView, RiskScores
from stream.evaluate.estimate import EstimateView
from stream.evaluate.guessing import BetterGuess
from stream.evaluate.key_scores import FrozenKeyScores
from stream.evaluate.quality import QualityView
from stream.join.reporters import ReportersView
from stream.keyed import KeysView

__all__ = [
    "LATEST",
    "ChallengerView",
    "Committed",
    "DriftAlarm",
    "DriftView",
    "LabelView",
    "MonitorView",
    "Promoted",
    "PublishedPrediction",
    "RiskView",
    "ShardView",
    "Subscriber",
]

# Why statistics are refused: of another model; labels of another kind; too many classes; fields or
# labels that do not merge.
MIX_REFUSALS = ("model", "label_kind", "max_classes", "merge")

LATEST = 20  # predictions, dead letters and alarms a commit shows of itself


class PublishedPrediction(NamedTuple):
    """One published prediction as JSON, and its observation as it is in the topic."""

    key: bytes | None
    observation: bytes | None
    prediction: bytes


class Promoted(NamedTuple):
    """Another model became champion.

    Parameters
    ----------
    name
        Its name, as predictions show it.
    e_value
        Its evidence at that time.
    partition, offset
        The record that decided it. Predictions after it are those of the new champion.
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
        Type of the detector, and what it monitors.
    action
        The action it caused.
    before, after
        The monitored mean before and after the change, as estimated by the detector.
    time
        Stream time in ms.
    scored
        How many predictions had been scored at that time.
    partition, offset
        The record after which it was raised.
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


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit is complete.

    Parameters
    ----------
    records, predictions, learned
        How many records were processed, how many predicted, how many learned.
    labels
        Label outcome (see `stream.join.label_delay.OUTCOMES`) to count.
    rejected
        Dead-letter reason to count.
    seconds
        Wall time from the end of the poll to the acknowledged commit.
    position
        Offset of its journal record.
    details
        Dead-letter reason to the detail text of the first one.
    newest
        Dead-letter reason to partition and offset of the last one.
    latest, dead
        The last predictions and dead letters as published, at most `LATEST`.
    promoted
        Promotions, in order.
    alarms
        The last drift alarms, at most `LATEST`.
    ahead
        How many outputs have the commit's clock, because their record's timestamp is later.
    furthest
        Of these the one that is furthest ahead: partition, offset, milliseconds.
    fields
        How often each field was used; None if that was not counted.
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
    fields: FieldTally | None = None


@dataclass(frozen=True, slots=True)
class RiskView:
    """The cost of decisions so far.

    Parameters
    ----------
    overall
        Mean loss of the decisions whose label has arrived; None before any.
    scored
        How many these are.
    rejected
        Observations on which nothing was decided, because abstaining cost less; all of them,
        labelled or not, from the first label on.
    actions
        Action, as text, to how many observations it was decided on; all of them.
    constant
        The single action (None: rejecting) with the lowest mean loss over the predictions that
        `overall` covers, and that loss; None before any.
    windows
        Window to the cost of decisions in it, and the number of rejections.
    """

    overall: float | None
    scored: int
    rejected: int
    actions: Mapping[str, int] = field(default_factory=dict)
    constant: tuple[Label | None, float] | None = None
    windows: Mapping[str, RiskScores] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelView:
    """Label delays, the labelled share of predictions, and the estimated accuracy of the others.

    Parameters
    ----------
    delays
        Labels by delay, see `stream.join.label_delay.LabelDelays`.
    delay_ms
        Sum of the delays.
    coverage
        Labelled share of the predictions that no longer wait for a label; None before any.
    waited_ms
        How long the oldest pending observation has waited, in stream time; None if none waits.
    estimate
        Estimated accuracy of pending predictions.
    """

    delays: Sequence[int]
    delay_ms: int
    coverage: float | None
    waited_ms: int | None
    estimate: EstimateView


class MonitorView(NamedTuple):
    """One detector: its alarms so far, and whether the last is recent (within 1,000 values)."""

    detector: str
    on: str
    alarms: int
    detected: bool


@dataclass(frozen=True, slots=True)
class DriftView:
    """Drift monitoring.

    Parameters
    ----------
    model
        Name of [model], which is monitored. It is the name of the service.
    monitors
        One per detector.
    actions
        How often the model was changed, by action.
    last
        The last alarms, the newest at the end; at most `LATEST`.
    keep
        How many recent records `forget` keeps, at most.
    """

    model: str
    monitors: Sequence[MonitorView]
    actions: Mapping[str, int]
    last: Sequence[DriftAlarm]
    keep: int


@dataclass(frozen=True, slots=True)
class ChallengerView:
    """A model that learns and is scored in parallel to the champion.

    Parameters
    ----------
    name, type
        As predictions show them.
    learned
        Labels it learned.
    skipped
        Skipped rows and skipped corrections, by reason.
    quality
        Scores, from the records since it was added.
    comparison
        Comparison with the champion.
    """

    name: str
    type: str
    learned: int
    skipped: Mapping[str, int]
    quality: QualityView
    comparison: ComparisonView


class Peer(NamedTuple):
    """What was read last of another shard: the offset after its statistics, their clock in ms, and
    how many labels it had learned."""

    end: int
    now: int
    learned: int


@dataclass(frozen=True, slots=True)
class MixView:
    """The mix of a shard, for pages and metrics.

    Parameters
    ----------
    peers
        Shard to what was read last of it, for shards whose statistics are in use.
    refused
        How many statistics were refused, by reason.
    """

    peers: Mapping[int, Peer] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def oldest(self) -> int | None:
        """The clock in ms of the oldest statistics; None without any."""
        return min((peer.now for peer in self.peers.values()), default=None)

    @property
    def learned(self) -> int:
        """How many labels the other shards had learned."""
        return sum(peer.learned for peer in self.peers.values())


@dataclass(frozen=True, slots=True)
class ShardView:
    """A shard after its last commit. Every number covers all time and is taken from the state.

    Parameters
    ----------
    name, model, shard
        The service, the type of the champion, the shard's number.
    observations, predictions, learned
        Totals.
    labels, dead_letters
        Totals by outcome and by reason.
    overflows
        How many values a bound refused, by the bound's name.
    pending, early
        Observations that wait for their label, and labels that wait for their observation.
    quality
        Scores.
    positions
        Next offset of each input.
    stream_time
        Milliseconds since the epoch of the newest record, None before any.
    risk
        Scores of decisions; None without [decision].
    held_back
        Whether the dead-letter breaker is open, so that nothing is learned.
    recent_dead_letters
        How many of the last 1,000 records were dead letters.
    labelling
        Labels and their delays.
    records
        Total: observations and labels, including dead letters.
    champion
        Name and type of the champion, as predictions show them.
    challengers
        All other models, including [model] if it is not the champion.
    promotions
        How often the rule promoted a challenger.
    drift
        None if nothing is monitored.
    experts
        Name of each learner of a mixture to its weight; empty if [model] is another learner.
    bad_values
        Declared field to how many of its values could not be used and were taken as missing; empty
        if such a value makes a dead letter.
    cut_texts
        Observations with a text that was cut within a character, which was read with U+FFFD there.
    mail_faults
        Fault to how many mails have it; empty if the records are no mails.
    budget
        The budget of false positives; None without one.
    imported
        Where the model comes from that was imported; empty: none was. No number covers what that
        model did before.
    reporters
        Who labels, and how much each is trusted; None without `[labels] reporter`.
    imported_labels
        How many labels that model had learned; they are not in `learned`.
    guesses
        Model to the baselines that are better than it, see `stream.evaluate.guessing`. The process
        adds it, because it depends on what was found before: it is not taken from the state.
    mix
        What was taken over from other shards; None if the model does not mix.
    keys
        The scores of the champion for each key; None without `[model] per`.
    fields
        The account of the fields since the process started. The process adds it, as `guesses`; None
        before that.
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
    experts: Mapping[str, float] = field(default_factory=dict)
    bad_values: Mapping[str, int] = field(default_factory=dict)
    mail_faults: Mapping[str, int] = field(default_factory=dict)
    budget: BudgetView | None = None
    imported: str = ""
    reporters: ReportersView | None = None
    imported_labels: int = 0
    guesses: Mapping[str, Sequence[BetterGuess]] = field(default_factory=dict)
    mix: MixView | None = None
    keys: FrozenKeyScores | None = None
    keys_on_disk: KeysView | None = None
    cut_texts: int = 0
    fields: FieldsView | None = None

    @property
    def learning(self) -> str:
        """How many labels were learned, in words."""
        here = f"{counted(self.learned, 'label')} learned"
        if not self.imported:
            return here
        return f"{here} after the {self.imported_labels:,} before the import"

    def worse_than_guessing(self, model: str) -> Sequence[BetterGuess]:
        """The baselines that are better than a model; none if it is not known."""
        return self.guesses.get(model, ())


class Subscriber(Protocol):
    """Receives each commit of a runner, once and in order, after it is acknowledged.

    It is called in the thread of the loop, so it must return within milliseconds. An exception
    that it raises is an error of the run.
    """

    def __call__(self, event: Committed, view: ShardView, /) -> None:
        """Receive one commit, and the view of the shard after it."""
