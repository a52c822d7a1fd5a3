"""Makes the status document of the page from the status feeds. Pure.

Rule: a part without data is None, and the page hides its section. Every list is bounded. Data of
records is text of bounded length. No score is computed here: `stream.evaluate` does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from consumers.base.records import Outgoing
from consumers.base.secrets import redacted
from consumers.codecs.account import FieldsView
from consumers.shard.views import (
    ChallengerView,
    DriftView,
    LabelView,
    MixView,
    PublishedPrediction,
    RiskView,
    ShardView,
)
from consumers.telemetry.advice import only_one_class, only_one_scored, sentence, unmet_labels
from consumers.telemetry.optional import budget_sentence
from consumers.telemetry.spec import class_names
from consumers.web.document import (
    AlarmStatus,
    BudgetStatus,
    CalibrationBin,
    ClassScore,
    Confusion,
    ContenderStatus,
    Curve,
    DeadLetter,
    DecisionStatus,
    Delay,
    DriftStatus,
    ExplanationStatus,
    FieldsStatus,
    FieldStatus,
    InputStatus,
    KeyScoresStatus,
    KeyScoreStatus,
    Labelling,
    MixStatus,
    MonitorStatus,
    Prediction,
    ReportersStatus,
    ReporterStatus,
    Score,
    ShardLine,
    ShardStatus,
    Status,
    Throughput,
    UnknownStatus,
)
from consumers.web.status_feed import SECONDS, AccuracyPoint, StatusFeed
from stream.decision.overall import RISK_SCORES
from stream.decision.risk import named
from stream.evaluate.key_scores import FEWEST, KeyScoresView
from stream.evaluate.quality import QualityView
from stream.evaluate.table import SCORES
from stream.join.label_delay import DELAY_BOUNDS_MS
from stream.join.reporters import ReportersView
from stream.learner.predictions import Explanation

__all__ = [
    "CLASSES",
    "PERCENT",
    "classes_of",
    "decoded",
    "explained",
    "observed",
    "published",
    "scores_of",
    "short",
    "status",
    "without_records",
]


# Scores with a baseline come before the others of their kind.
ORDER = tuple(sorted(SCORES, key=lambda s: (s.of == "probabilities", s.baselines is None)))
# Titles of the scores that the page shows in percent.
PERCENT = (
    *(score.title for score in ORDER if score.unit != "number"),
    *(score.title for score in RISK_SCORES if score.unit != "number"),
)


def scores_of(quality: QualityView) -> list[Score]:
    """Every score with a value, over the last records with its baselines, and over all."""
    last, all_, fading = (quality.scores[w] for w in (quality.last, "all", "fading"))
    out = []
    for score in ORDER:
        if (value := score.value(last)) is not None:
            beside = {} if score.baselines is None else score.baselines.values(last)
            others = {baseline: short(v) for baseline, v in beside.items()}
            over = {"all": short(score.value(all_)), "fading": short(score.value(fading))}
            out.append(Score(score.title, short(value), **others, **over))
    return out


def decided_of(risk: RiskView | None, last: str) -> list[Score]:
    """Every score of decisions, over the window `last` and the others; empty before any.

    Risk and coverage are both shown, because a rule that rejects more records lowers its risk by
    that alone.
    """
    if risk is None:
        return []
    out = []
    for score in RISK_SCORES:
        found = {window: short(score.value(scores)) for window, scores in risk.windows.items()}
        if found.get(last) is not None:
            out.append(Score(score.title, found[last], all=found["all"], fading=found["fading"]))
    return out


def calibration_of(quality: QualityView) -> list[CalibrationBin]:
    """The bins over the last records; empty before the first scored prediction."""
    return [
        CalibrationBin(b.low, b.high, round(b.weight), short(b.confidence), short(b.accuracy))
        for b in quality.scores[quality.last].calibration
    ]


def classes_of(
    quality: QualityView, order: Sequence[int], names: Sequence[str]
) -> list[ClassScore]:
    """Each of the given classes against the rest, over all time."""
    found = quality.scores["all"].per_class
    return [
        ClassScore(
            name,
            round(found[c].support),
            round(found[c].predicted),
            round(found[c].precision, 4),
            round(found[c].recall, 4),
            round(found[c].f1, 4),
        )
        for c, name in zip(order, names, strict=True)
        if c < len(found)  # learned, but not scored yet
    ]


def short(value: float | None) -> float | None:
    """Rounded for display."""
    return None if value is None else round(value, 5)


CLASSES = 10  # in the confusion matrix, so that it fits a screen
FIELDS = 30  # listed fields: those that are used least; and as many that are not declared
INPUTS = 20  # listed partitions: those with the largest lag
PROBABILITIES = 5  # of a prediction
SHARES = 12  # of an explanation
LARGEST = 1e12  # of an e-value: larger ones add nothing, and JSON has no infinity
LONGEST = 200  # characters of any text from a record
LATEST_DATE = 8.64e15  # ms from 1970: the limit of a Date in a browser


def status(
    service: str,
    page: str,
    health: tuple[str, str],
    status_feeds: Mapping[int, StatusFeed],
    shown: int,
    now: float,
) -> Status:
    """The document.

    Parameters
    ----------
    service
        The service's name.
    page
        The version of the page's files.
    health
        State and detail.
    status_feeds
        The status feeds of the shards of this process, by number.
    shown
        The shard to show in full; the first one if this process does not run it.
    now
        Seconds since the epoch.
    """
    lines = [_line(number, status_feed) for number, status_feed in sorted(status_feeds.items())]
    status_feed = status_feeds.get(shown) or next(
        (status_feeds[n] for n in sorted(status_feeds)), None
    )
    view = None if status_feed is None else status_feed.view
    full = None if status_feed is None or view is None else _shard(status_feed, view, now)
    return Status(service, page, *health, now, lines, full)


def without_records(document: Status, *, predictions: bool) -> Status:
    """The document without the details of dead letters and the values of fields, which quote the
    record, and without the names of people, of keys and of fields that nobody declared.
    `predictions` stay, with their ids, or do not.
    """
    shard = document.shard
    if shard is None:
        return document
    dead = [msgspec.structs.replace(each, detail="", value="") for each in shard.dead]
    keys = None if shard.keys is None else msgspec.structs.replace(shard.keys, worst=[])
    shard = msgspec.structs.replace(
        shard,
        dead=dead,
        fields=None if shard.fields is None else _without_values(shard.fields),
        reporters=None,
        keys=keys,
        latest=shard.latest if predictions else [],
        names_features=False,
    )
    return msgspec.structs.replace(document, shard=shard)


def _without_values(fields: FieldsStatus) -> FieldsStatus:
    shown = [msgspec.structs.replace(each, example="") for each in fields.fields]
    return msgspec.structs.replace(fields, fields=shown, unknown=[], unknown_of_labels=[])


def decoded(record: PublishedPrediction) -> Mapping[str, Any]:
    """A published prediction for the page."""
    document: Mapping[str, Any] = msgspec.json.decode(record.prediction)
    return document


def observed(document: Mapping[str, Any]) -> str:
    """TOPIC:PARTITION:OFFSET of a prediction's observation, as `headwater audit` takes it."""
    return _place(document["position"])


def _place(position: Mapping[str, Any]) -> str:
    """A place, with the index of its row if it has one."""
    row = f":{position['index']}" if "index" in position else ""
    return f"{position['topic']}:{position['partition']}:{position['offset']}{row}"


def published(document: Mapping[str, Any]) -> ExplanationStatus | None:
    """The explanation in a prediction record; None without one."""
    why = document.get("explanation")
    if why is None:
        return None
    learned = document["model"]["learned"]
    shares = [(_text(name), share) for name, share in why["top"][:SHARES]]
    return ExplanationStatus(
        _text(document["prediction"]),
        _text(why["against"]),
        why["log_odds"],
        shares,
        learned,
        learned,
        as_made=True,
    )


def explained(why: Explanation, learned: int, document: Mapping[str, Any]) -> ExplanationStatus:
    """The explanation of a prediction by the model that has learned `learned` labels."""
    return ExplanationStatus(
        _text(why.label),
        _text(why.against),
        why.log_odds,
        [(_text(name), share) for name, share in why.top(SHARES)],
        learned,
        document["model"]["learned"],
        as_made=False,
    )


def _line(number: int, status_feed: StatusFeed) -> ShardLine:
    state, view = status_feed.health().state, status_feed.view
    if view is None:
        return ShardLine(number, state)
    accuracy = view.quality.scores["all"].accuracy
    return ShardLine(number, state, view.observations, short(accuracy))


def _shard(status_feed: StatusFeed, view: ShardView, now: float) -> ShardStatus:
    quality = view.quality
    order = _frequent(quality)
    return ShardStatus(
        number=view.shard,
        model=view.model,
        window=int(quality.last.removeprefix("last_")),
        observations=view.observations,
        predictions=view.predictions,
        learned=view.learned,
        pending=view.pending,
        early=view.early,
        unscored=quality.unscored,
        held_back=view.held_back,
        labels=_counts(view.labels),
        refusals=_counts(view.dead_letters),
        overflows=_counts(view.overflows),
        scores=[*scores_of(quality), *decided_of(view.risk, quality.last)],
        calibration=calibration_of(quality),
        confusion=_confusion(quality, order),
        classes=classes_of(quality, order, _names(quality, order)),
        inputs=_inputs(status_feed, view),
        curve=_curve(status_feed.newest_curve()),
        throughput=_throughput(status_feed, now),
        decisions=_decisions(view.risk),
        budget=_budget(view),
        mix=_mix(view.mix),
        labelling=_labelling(view.labelling),
        contenders=_contenders(view),
        drift=_drift(view.drift),
        reporters=_reporters(view.reporters),
        keys=None if view.keys is None else _keys(view.keys.view, quality),
        experts=[(name, round(weight, 4)) for name, weight in view.experts.items()],
        imported=view.imported or None,
        imported_labels=view.imported_labels,
        latest=[_prediction(p) for p in reversed(status_feed.latest)],
        dead=[_dead_letter(out) for out in reversed(status_feed.dead)],
        fields=None if view.fields is None else _fields(view.fields),
        stream_time=view.stream_time,
        committed_at=status_feed.committed_at,
        commit_seconds=short(status_feed.commit_seconds),
        snapshot_at=status_feed.snapshot_at,
        snapshot_failures=status_feed.snapshot_failures,
        snapshot_error=_why_not(status_feed.snapshot_failed),
        lag=status_feed.lag(),
        worse_than_guessing=sentence(view),
        only_one_class=only_one_class(view) or _recall(view),
        unmet_labels=unmet_labels(view),
        names_features=view.model == "SpamScorer",
    )


def _reporters(view: ReportersView | None) -> ReportersStatus | None:
    if view is None or not view.known:
        return None
    top = [
        ReporterStatus(
            *(each.name[:LONGEST], each.labels, each.agreed, each.disagreed),
            trust=round(each.trust, 4),
            quarantined=each.quarantined,
        )
        for each in view.top
    ]
    return ReportersStatus(view.known, top)


def _keys(view: KeyScoresView, quality: QualityView) -> KeyScoresStatus:
    service = quality.scores["fading"]
    errors = 1.0 if service.accuracy is None else 1.0 - service.accuracy
    worst = [
        KeyScoreStatus(
            each.key[:LONGEST],
            each.scored,
            short(each.accuracy),
            short(each.log_loss),
            short(each.guess),
            short(each.least),
            each.worse,
            each.least > errors,
        )
        for each in view.worst
    ]
    found = view.keys, view.compared, FEWEST, view.worse
    return KeyScoresStatus(
        view.per, *found, short(service.accuracy), short(service.log_loss), worst
    )


def _fields(view: FieldsView) -> FieldsStatus:
    order = sorted(view.names, key=lambda name: view.used[name])
    shown = []
    for name in order[:FIELDS]:
        count, reason, example = view.bad.get(name, (0, "", ""))
        used, missing = view.used[name], view.missing(name)
        shown.append(FieldStatus(name[:LONGEST], used, missing, count, reason, example))
    others, labels = len(order) - len(shown), view.labels
    found = view.looked, _unknown(view)
    of_labels = (0, []) if labels is None else (labels.looked, _unknown(labels))
    return FieldsStatus(view.observations, shown, others, *found, *of_labels)


def _unknown(view: FieldsView) -> list[UnknownStatus]:
    most = sorted(view.unknown.items(), key=lambda item: -item[1].found)[:FIELDS]
    return [UnknownStatus(name, each.found, each.example) for name, each in most]


def _why_not(failed: tuple[float, str] | None) -> str | None:
    return None if failed is None else redacted(failed[1])[:LONGEST]


def _curve(curve: Sequence[AccuracyPoint]) -> Curve | None:
    if not curve:
        return None
    scored, *rest = zip(*curve, strict=True)
    model, majority, no_change = ([round(v, 4) for v in line] for line in rest)
    return Curve(list(scored), model, majority, no_change)


def _frequent(quality: QualityView) -> list[int]:
    """Codes of the classes that are shown: the most frequent, then the first learned."""
    true = quality.confusion.sum(axis=1).tolist()  # integers: exact in any order
    return sorted(range(len(true)), key=lambda c: -true[c])[:CLASSES]


def _confusion(quality: QualityView, order: Sequence[int]) -> Confusion | None:
    counts, shown = quality.confusion, len(order)
    if not shown:
        return None
    to = np.full(len(counts), shown)
    to[list(order)] = np.arange(shown)
    size = shown + (len(counts) > shown)
    folded = np.zeros((size, size), dtype=np.int64)
    np.add.at(folded, (to[:, None], to[None, :]), counts)
    return Confusion(_names(quality, order), folded.tolist(), len(counts) - shown)


def _names(quality: QualityView, order: Sequence[int]) -> list[str]:
    return class_names([quality.classes[c] for c in order], len(order))


def _throughput(status_feed: StatusFeed, now: float) -> Throughput | None:
    """The last five minutes; a second without a commit consumed nothing."""
    seconds = {second.at: second for second in status_feed.seconds}
    if not seconds:
        return None
    last = int(now)
    first = max(min(seconds), last - SECONDS)
    out = Throughput([], [], [])
    before = seconds.get(first)
    for at in range(first + 1, last):  # without the present second, which is not over
        after = seconds.get(at, before)
        rate = after.observations - before.observations if after and before else 0
        out.at.append(at)
        out.rate.append(max(rate, 0))
        out.lag.append(None if after is None else after.lag)
        before = after
    return out if out.at else None


def _decisions(risk: RiskView | None) -> DecisionStatus | None:
    if risk is None:
        return None
    actions = sorted(risk.actions.items(), key=lambda done: -done[1])[:CLASSES]
    shown = [(_text(name), n) for name, n in actions]
    if risk.constant is None:
        return DecisionStatus(short(risk.overall), risk.scored, risk.rejected, shown)
    action, mean = risk.constant
    always = "reject" if action is None else _text(action)
    return DecisionStatus(
        short(risk.overall), risk.scored, risk.rejected, shown, always, short(mean)
    )


def _recall(view: ShardView) -> str | None:
    quality = view.quality
    return only_one_scored(view.labels, quality.classes, quality.confusion.tolist())


def _budget(view: ShardView) -> BudgetStatus | None:
    budget = view.budget
    if budget is None:
        return None
    return BudgetStatus(
        budget_sentence(budget, view.quality.classes),
        budget.rule.label,
        budget.rule.rate,
        budget.threshold,
        budget.missing,
        budget.others,
        budget.false_positives,
        budget.flagged,
        budget.withheld,
        budget.unsure,
    )


def _mix(mix: MixView | None) -> MixStatus | None:
    if mix is None:
        return None
    return MixStatus(len(mix.peers), mix.learned, mix.oldest, _counts(mix.refused))


def _labelling(view: LabelView | None) -> Labelling | None:
    labels = 0 if view is None else sum(view.delays)
    if view is None or not (labels or view.estimate.waiting):
        return None
    bounds = (*(bound / 1000 for bound in DELAY_BOUNDS_MS), None)
    return Labelling(
        [Delay(bound, n) for bound, n in zip(bounds, view.delays, strict=True)],
        round(view.delay_ms / labels / 1000, 3) if labels else None,
        short(view.coverage),
        None if view.waited_ms is None else view.waited_ms / 1000,
        short(view.estimate.accuracy),
        view.estimate.waiting,
        short(next((e for w, e in view.estimate.errors.items() if w.startswith("last")), None)),
    )


def _contenders(view: ShardView) -> list[ContenderStatus]:
    """The champion and its challengers; empty without challengers."""
    if not view.challengers:
        return []
    last = view.quality.scores[view.quality.last]
    champion = ContenderStatus(
        *view.champion,
        view.learned,
        short(last.accuracy),
        short(last.log_loss),
        champion=True,
    )
    return [champion, *map(_challenger, view.challengers)]


def _challenger(view: ChallengerView) -> ContenderStatus:
    last, compared = view.quality.scores[view.quality.last], view.comparison
    return ContenderStatus(
        view.name,
        view.type,
        view.learned,
        short(last.accuracy),
        short(last.log_loss),
        False,
        compared.won,
        compared.lost,
        compared.undecided,
        min(compared.e_value, LARGEST),
        short(compared.difference),
        short(compared.lower),
        short(compared.upper),
    )


def _drift(view: DriftView | None) -> DriftStatus | None:
    if view is None:
        return None
    monitors = [MonitorStatus(m.on, m.detector, m.alarms, m.detected) for m in view.monitors]
    alarms = [
        AlarmStatus(
            a.time,
            a.on,
            a.detector,
            round(a.before, 4),
            round(a.after, 4),
            a.action,
            a.scored,
            f"{a.partition.topic}:{a.partition.number}:{a.offset}",
        )
        for a in reversed(view.last)
    ]
    return DriftStatus(monitors, alarms)


def _inputs(status_feed: StatusFeed, view: ShardView) -> list[InputStatus]:
    ends = status_feed.ends
    every = [
        InputStatus(p.topic, p.number, at, max(0, ends[p] - at) if p in ends else None)
        for p, at in view.positions.items()
    ]
    return sorted(every, key=lambda i: (-(i.lag or 0), i.topic, i.partition))[:INPUTS]


def _prediction(record: PublishedPrediction) -> Prediction:
    document = decoded(record)
    top = [(_text(label), round(p, 4)) for label, p in document["probabilities"][:PROBABILITIES]]
    return Prediction(
        observed(document),
        _text(document["id"]),
        _text(document["prediction"]),
        top,
        _date(document["ts"]),
        document["model"]["learned"],
    )


def _dead_letter(out: Outgoing) -> DeadLetter:
    headers = {name: value.decode("utf-8", "replace") for name, value in out.headers}
    value = (out.value or b"")[: 4 * LONGEST].decode("utf-8", "backslashreplace")[:LONGEST]
    at = _date(out.timestamp)
    return DeadLetter(_place(headers), at, headers["reason"], headers["detail"][:LONGEST], value)


def _date(ms: int | None) -> int | None:
    """A record's timestamp, which can be any number; None if it is not a valid date."""
    return ms if ms is not None and abs(ms) <= LATEST_DATE else None


def _text(label: object) -> str:
    """A label as text; "" for None."""
    if label is None:
        return ""
    return (named(label) if isinstance(label, str | int) else str(label))[:LONGEST]


def _counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(name, n) for name, n in counts.items() if n]
