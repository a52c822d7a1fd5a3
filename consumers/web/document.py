"""The schema of the status document that the page shows. `status` makes the document.

Rule: None means that a value is not known; the page hides its section. Times of the service's clock
are seconds since the epoch; timestamps of records are milliseconds.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = [
    "AlarmStatus",
    "BudgetStatus",
    "CalibrationBin",
    "ClassScore",
    "Confusion",
    "ContenderStatus",
    "Curve",
    "DeadLetter",
    "DecisionStatus",
    "Delay",
    "DriftStatus",
    "ExplanationStatus",
    "FieldStatus",
    "FieldsStatus",
    "InputStatus",
    "KeyScoreStatus",
    "KeyScoresStatus",
    "Labelling",
    "MonitorStatus",
    "Prediction",
    "Score",
    "ShardLine",
    "ShardStatus",
    "Status",
    "Throughput",
    "UnknownStatus",
]


class Score(Struct, frozen=True):
    """One score: over the last records with its baselines, and over the other windows."""

    name: str
    last: float | None
    majority: float | None = None
    no_change: float | None = None
    prior: float | None = None
    all: float | None = None
    fading: float | None = None


class CalibrationBin(Struct, frozen=True):
    """Predictions of similar confidence, over the last records."""

    low: float
    high: float
    weight: int
    confidence: float | None
    accuracy: float | None


class Curve(Struct, frozen=True):
    """Accuracies over the last scored predictions, by how many had been scored."""

    scored: list[int]
    model: list[float]
    majority: list[float]
    no_change: list[float]


class Confusion(Struct, frozen=True):
    """Counts of [true][predicted], the most frequent classes first, all others as one."""

    classes: list[str]
    counts: list[list[int]]
    others: int = 0


class ClassScore(Struct, frozen=True):
    """One class against the rest, over all time; a ratio with denominator 0 is 0."""

    name: str
    support: int
    predicted: int
    precision: float
    recall: float
    f1: float


class Throughput(Struct, frozen=True):
    """Observations per second and lag in records, one value per second up to now."""

    at: list[int]
    rate: list[float]
    lag: list[int | None]


class DecisionStatus(Struct, frozen=True):
    """The cost of the decisions, and that of each constant action."""

    risk: float | None
    scored: int
    rejected: int
    actions: list[tuple[str, int]]
    always: str | None = None
    always_risk: float | None = None


class BudgetStatus(Struct, frozen=True):
    """A budget of false positives, as a sentence and as numbers."""

    text: str
    label: str
    rate: float
    threshold: float | None
    missing: int
    others: int
    false_positives: int
    flagged: int
    withheld: int
    unsure: int


class MixStatus(Struct, frozen=True):
    """What a shard has taken over from others: shards whose statistics are in use, the labels that
    these had learned, the time of the oldest in ms, and how many statistics were refused."""

    peers: int
    labels: int
    oldest: int | None
    refused: list[tuple[str, int]]


class Delay(Struct, frozen=True):
    """Labels with a delay up to this bound and above the one before; None for no bound."""

    upto: float | None
    labels: int


class Labelling(Struct, frozen=True):
    """The delay of labels in stream time, and the estimate for predictions without one.

    `estimate` is the estimated accuracy of the `waiting` predictions. `error` is the same estimate
    for predictions that were labelled since, minus their true accuracy.
    """

    delays: list[Delay]
    mean: float | None
    coverage: float | None
    waited: float | None
    estimate: float | None
    waiting: int
    error: float | None


class ContenderStatus(Struct, frozen=True):
    """The champion, or a challenger with its comparison to the champion.

    `won` counts the records on which it was right and the champion was wrong. `e_value` is the
    evidence that it is right more often; `undecided` is the reason why it is not known yet.
    `difference` is the champion's Brier score minus its own.
    """

    name: str
    type: str
    learned: int
    accuracy: float | None
    log_loss: float | None
    champion: bool = False
    won: int | None = None
    lost: int | None = None
    undecided: str = ""
    e_value: float | None = None
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None


class AlarmStatus(Struct, frozen=True):
    """A drift alarm: its record, and the number of predictions scored until then."""

    at: int
    on: str
    detector: str
    before: float
    after: float
    action: str
    scored: int
    place: str


class MonitorStatus(Struct, frozen=True):
    """One detector."""

    on: str
    detector: str
    alarms: int
    detected: bool


class DriftStatus(Struct, frozen=True):
    """The detectors, and their last alarms, the newest first."""

    monitors: list[MonitorStatus]
    alarms: list[AlarmStatus]


class ReporterStatus(Struct, frozen=True):
    """One reporter; the anonymous one has no name."""

    name: str
    labels: int
    agreed: int
    disagreed: int
    trust: float
    quarantined: bool


class ReportersStatus(Struct, frozen=True):
    """How many reporters are remembered, and those with the most labels."""

    known: int
    top: list[ReporterStatus]


class KeyScoreStatus(Struct, frozen=True):
    """The scores of one key: over all time how many, the others over about its last 500 records.

    `guess` is the accuracy of always predicting its usual label. `least` is a lower bound of its
    error rate. `worse_than_guessing` and `above_service` (of its error rate) are beyond chance.
    """

    key: str
    scored: int
    accuracy: float | None
    log_loss: float | None
    guess: float | None
    least: float | None
    worse_than_guessing: bool
    above_service: bool


class KeyScoresStatus(Struct, frozen=True):
    """The keys with a score, those that are compared, how many of these are worse than guessing,
    and the worst of them; beside them the fading scores of all records."""

    per: str
    keys: int
    compared: int
    fewest: int
    worse_than_guessing: int
    accuracy: float | None
    log_loss: float | None
    worst: list[KeyScoreStatus]


class FieldStatus(Struct, frozen=True):
    """A declared field: in how many observations it was used, had no value, or had one that did not
    fit; with the reason and the beginning of the last one that did not."""

    name: str
    used: int
    missing: int
    bad: int
    reason: str
    example: str


class UnknownStatus(Struct, frozen=True):
    """A field that is not declared: in how many records it was found, and its last value."""

    name: str
    found: int
    example: str


class FieldsStatus(Struct, frozen=True):
    """The fields of the observations since the process started: those that are used least, how many
    others there are, and those that are not declared, which were looked for in `looked`
    observations. Likewise the fields of label records that nobody reads."""

    observations: int
    fields: list[FieldStatus]
    others: int
    looked: int
    unknown: list[UnknownStatus]
    labels_looked: int
    unknown_of_labels: list[UnknownStatus]


class InputStatus(Struct, frozen=True):
    """One partition of an input."""

    topic: str
    partition: int
    offset: int
    lag: int | None


class Prediction(Struct, frozen=True):
    """One prediction as it was published."""

    place: str
    id: str
    predicted: str
    probabilities: list[tuple[str, float]]
    at: int | None
    learned: int


class DeadLetter(Struct, frozen=True):
    """One dead letter and its reason."""

    place: str
    at: int | None
    reason: str
    detail: str
    value: str


class ExplanationStatus(Struct, frozen=True):
    """Why one class rather than another: contributions to the log-odds, the largest first.

    The explaining model has learned `learned` labels; the predicting model had learned `then`.
    """

    label: str
    against: str
    log_odds: float
    shares: list[tuple[str, float]]
    learned: int
    then: int
    as_made: bool


class ShardStatus(Struct, frozen=True):
    """One shard in full.

    `snapshot_failures` counts since the process started, copies too; `snapshot_error` is why the
    last one failed; None after a newer snapshot was written. `worse_than_guessing`,
    `only_one_class` (all labels so far are equal, or all that are scored) and `unmet_labels` (most
    labels find no observation) are sentences with what to try; None if it is not so. `imported` is
    the origin of an imported model, and `imported_labels` how many labels it had learned: neither
    `learned` nor the scores cover what it did before. `names_features` is whether /features has
    names of features.
    """

    number: int
    model: str
    window: int
    observations: int
    predictions: int
    learned: int
    pending: int
    early: int
    unscored: int
    held_back: bool
    labels: list[tuple[str, int]]
    refusals: list[tuple[str, int]]
    overflows: list[tuple[str, int]]
    scores: list[Score]
    calibration: list[CalibrationBin]
    confusion: Confusion | None
    classes: list[ClassScore]
    inputs: list[InputStatus]
    curve: Curve | None = None
    throughput: Throughput | None = None
    decisions: DecisionStatus | None = None
    budget: BudgetStatus | None = None
    mix: MixStatus | None = None
    labelling: Labelling | None = None
    contenders: list[ContenderStatus] = []
    drift: DriftStatus | None = None
    reporters: ReportersStatus | None = None
    keys: KeyScoresStatus | None = None
    experts: list[tuple[str, float]] = []
    imported: str | None = None
    imported_labels: int = 0
    latest: list[Prediction] = []
    dead: list[DeadLetter] = []
    fields: FieldsStatus | None = None
    stream_time: int | None = None
    committed_at: float | None = None
    commit_seconds: float | None = None
    snapshot_at: float | None = None
    snapshot_failures: int = 0
    snapshot_error: str | None = None
    lag: int | None = None
    worse_than_guessing: str | None = None
    only_one_class: str | None = None
    unmet_labels: str | None = None
    names_features: bool = False


class ShardLine(Struct, frozen=True):
    """One shard among several."""

    number: int
    state: str
    observations: int = 0
    accuracy: float | None = None


class Status(Struct, frozen=True):
    """The whole document."""

    service: str
    page: str
    state: str
    detail: str
    now: float
    shards: list[ShardLine]
    shard: ShardStatus | None = None
