"""Progressive validation of a feed through a shard, without a log. No I/O, no clock.

Rule: the shard gets what it would get from one partition of each input: the same bytes and
timestamps, in the order of the same merge, in batches of the same size. Its wall clock is the
newest record of each batch, so the same feed always gives the same bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from consumers.base.errors import ConfigError
from consumers.base.records import UNBOUNDED, Batch, Fetched, Outgoing, Partition, record_bytes
from consumers.config import Config
from consumers.journal.merge import Merge
from consumers.offline.feed import LateLabels, ReporterField
from consumers.shard.assembly import shard_of
from consumers.shard.challengers import configured
from consumers.shard.shard import Shard
from consumers.shard.views import DriftView, RiskView, ShardView
from consumers.telemetry.optional import budget_sentence
from stream.compat.classifier import without_pickles
from stream.data.schema import Label, Schema
from stream.decision import BudgetView
from stream.evaluate.key_scores import KeyScoresView
from stream.evaluate.quality import QualityView, Scores
from stream.evaluate.table import KINDS, columns

__all__ = [
    "batches",
    "file_shard",
    "fingerprint_of",
    "fingerprint_text",
    "late_labels",
    "report",
    "standings",
]


def late_labels(
    config: Config,
    *,
    label: str | None,
    delay: int | timedelta | None,
    fields: Collection[str],
    reporter: str | None = None,
) -> LateLabels | None:
    """How the labels arrive; None if the configuration has them inside the observations.

    Parameters
    ----------
    label, delay
        The options of the user; with either of them, labels are separate records.
    fields
        The fields of the feed.
    reporter
        The field with who gave the label; None: all labels count alike.

    Raises
    ------
    ConfigError
        No field is named for the label, or the configuration has no reporters.
    """
    inside = config.input.label
    who = None
    if reporter is not None:
        if config.labels.reporter is None:
            raise ConfigError("--reporter: [labels] reporter is not set; set it, or remove it")
        who = ReporterField(reporter, config.labels.reporter)
    elif inside is not None and delay is None and label in (None, inside):
        return None
    field = label or inside or ("label" if "label" in fields else None)
    if field is None:
        raise ConfigError(
            "expected --label FIELD, because [input] label is not set; fields are "
            f"{', '.join(sorted(fields)[:20])}"
        )
    # Without a topic in the configuration: any name except that of the observations.
    topic = config.input.labels or f"{config.input.observations}-labels"
    return LateLabels(topic, field, delay or 0, who)


def file_shard(config: Config, schema: Schema, late: LateLabels | None) -> Shard:
    """The empty shard of the configuration, for a feed with these labels.

    Labels that name no reporter all count alike.
    """
    if late is None or late.reporter is None:
        labels = config.labels.model_copy(update={"reporter": None})
        config = config.model_copy(update={"labels": labels})
    if late is None:
        config = config.with_labels(config.input.label, None)
    else:
        config = config.with_labels(None, late.topic)
    shard = shard_of(config, schema, wire="json")  # as the records of a file are given to it
    shard.set_challengers(configured(config))
    return shard


def batches(
    feed: Iterable[Outgoing],
    observations: str,
    labels: list[str],
    size: int,
    max_bytes: int = UNBOUNDED,
) -> Iterator[Batch]:
    """The feed as one partition per topic, merged and cut into batches as in a service.

    Examples
    --------
    >>> feed = [Outgoing("y", b"1", b"", 7), Outgoing("x", b"2", b"", 7)]
    >>> [(b.keys, b.offsets.tolist()) for b in batches(feed, "x", ["y"], size=10)]
    [([b'2', b'1'], [0, 0])]
    """
    partitions = {topic: Partition(topic, 0) for topic in (observations, *labels)}
    merge = Merge(list(partitions.values()), labels)
    # No later record sorts before the buffered ones, so none must be held back.
    moments = _moments(feed, partitions, size, max_bytes)
    return merge.batches(moments, lambda: size, max_bytes=max_bytes)


def _moments(
    feed: Iterable[Outgoing], partitions: dict[str, Partition], size: int, max_bytes: int
) -> Iterator[list[Fetched]]:
    """At least `size` records or `max_bytes` at a time, and all of one timestamp together."""
    ends = dict.fromkeys(partitions, 0)
    held: dict[str, list[Outgoing]] = {topic: [] for topic in partitions}

    def fetched() -> list[Fetched]:
        out = []
        for topic, partition in partitions.items():
            records, start = held[topic], ends[topic]
            ends[topic] += len(records)
            out.append(
                Fetched(
                    partition,
                    range(start, ends[topic]),
                    [record.timestamp or 0 for record in records],
                    [record.key for record in records],
                    [record.value for record in records],
                )
            )
            held[topic] = []
        return out

    count, latest, left = 0, 0, max_bytes
    for record in feed:
        timestamp = record.timestamp or 0
        if (count >= size or left <= 0) and timestamp > latest:
            yield fetched()
            count, left = 0, max_bytes
        held[record.topic].append(record)
        count += 1
        left -= record_bytes(record.key, record.value)
        latest = timestamp
    yield fetched()


def fingerprint_of(shard: Shard) -> dict[str, Any]:
    """The fingerprint of a shard, for `report`; None for a model whose state cannot be saved.

    It is the same for two replays of the same records. A pickle is not: it has the identities of
    objects and the generators of river. So pickles are left out, and `pickles_left_out` says so.
    """
    if shard.unsaved:
        return {"fingerprint": None, "pickles_left_out": False}
    mark = without_pickles(shard.to_state()).fingerprint()
    return {"fingerprint": mark, "pickles_left_out": shard.pickled}


def fingerprint_text(results: Mapping[str, Any]) -> str:
    """The fingerprint in the results of `report`, as people read it."""
    if results["fingerprint"] is None:
        return "none (the state of this model cannot be saved)"
    if results["pickles_left_out"]:
        return f"{results['fingerprint']} (without the pickles of river models)"
    return str(results["fingerprint"])


def report(
    view: ShardView, *, replayed: int, seconds: float, fingerprint: Mapping[str, Any]
) -> dict[str, Any]:
    """The results of a replay, as JSON values.

    `records` is the number of records of the model; `replayed` is the number that was read for
    it, which is lower after a start from a snapshot.
    """
    quality = view.quality
    return {
        "name": view.name,
        "model": view.model,
        "imported": view.imported or None,
        "records": view.records,
        "replayed": replayed,
        "seconds": seconds,
        "records_per_second": replayed / seconds if seconds > 0 else None,
        "observations": view.observations,
        "predictions": view.predictions,
        "learned": view.learned,
        "unscored": quality.unscored,
        "scores": {window: _scores(scores) for window, scores in quality.scores.items()},
        "classes": _classes(quality),
        "calibration": _calibration(quality),
        "confusion": {"labels": list(quality.classes), "counts": quality.confusion.tolist()},
        "challengers": standings(view) if view.challengers else [],
        "promotions": view.promotions,
        "experts": dict(view.experts),
        "drift": None if view.drift is None else _drift(view.drift),
        "keys": None if view.keys is None else _keys(view.keys.view, quality),
        "labels": dict(view.labels),
        "decision": None if view.risk is None else _decision(view.risk),
        "budget": None if view.budget is None else _budget(view.budget, quality.classes),
        "pending": view.pending,
        "dead_letters": dict(view.dead_letters),
        "bad_values": {name: n for name, n in view.bad_values.items() if n},
        "overflows": dict(view.overflows),
        **fingerprint,
    }


def standings(view: ShardView) -> list[dict[str, Any]]:
    """Champion and challengers with their scores, the champion first."""
    name, kind = view.champion
    out = [{"name": name, "type": kind, **_scores(view.quality.scores["all"]), "against": None}]
    for challenger in view.challengers:
        against = asdict(challenger.comparison)
        scores = _scores(challenger.quality.scores["all"])
        skipped = {"learned": challenger.learned, "skipped": dict(challenger.skipped)}
        named = {"name": challenger.name, "type": challenger.type}
        out.append({**named, **scores, **skipped, "against": against})
    return out


def _scores(scores: Scores) -> dict[str, Any]:
    return {
        "scored": scores.scored,
        "accuracy": scores.accuracy,
        "log_loss": scores.log_loss,
        "baselines": dict(scores.baselines),
        **{column.id: column.value(scores) for of in KINDS for column in columns(of)},
    }


def _calibration(quality: QualityView) -> list[dict[str, Any]]:
    """Predictions by confidence: their number, mean confidence and share of right ones."""
    return [asdict(found) for found in quality.scores["all"].calibration]


def _drift(drift: DriftView) -> dict[str, Any]:
    """The detectors, the last alarms with the newest at the end, and the actions."""
    last = [
        {**alarm._asdict(), "topic": alarm.partition.topic, "partition": alarm.partition.number}
        for alarm in drift.last
    ]
    watched = [monitor._asdict() for monitor in drift.monitors]
    return {"detectors": watched, "actions": dict(drift.actions), "last": last}


def _keys(keys: KeyScoresView, quality: QualityView) -> dict[str, Any]:
    """How many keys there are, and the scores of the worst ones, each with what it is worse than:
    guessing, the service, or neither."""
    accuracies = {f"{quantile:g}": value for quantile, value in keys.accuracies.items()}
    errors = 1.0 - (quality.scores["fading"].accuracy or 0.0)
    worst = [
        {
            **score._asdict(),
            "worse_than": "guessing"
            if score.worse
            else "the service"
            if score.least > errors
            else None,
        }
        for score in keys.worst
    ]
    return {**keys._asdict(), "accuracies": accuracies, "worst": worst}


def _budget(budget: BudgetView, classes: Sequence[Label]) -> dict[str, Any]:
    """The budget of false positives, as numbers and in one sentence."""
    return {**asdict(budget), "text": budget_sentence(budget, classes)}


def _decision(risk: RiskView) -> dict[str, Any]:
    """The decisions, their cost, and the cost of each constant action."""
    decided = risk.rejected + sum(risk.actions.values())
    best = risk.constant
    return {
        "decided": decided,
        "actions": dict(risk.actions),
        "rejected": risk.rejected,
        "rejected_share": risk.rejected / decided if decided else None,
        "risk": risk.overall,
        "scored": risk.scored,
        "best_constant": None if best is None else {"action": best[0], "risk": best[1]},
    }


def _classes(quality: QualityView) -> list[dict[str, Any]]:
    """River's precision, recall and F1 of each class, in the order they were learned."""
    from river.metrics import F1

    cm = quality.confusion_matrix()
    out = []
    for label in quality.classes:
        f1: Any = F1(cm=cm, pos_val=label)  # type: ignore[no-untyped-call]
        precision, recall, support = f1.precision.get(), f1.recall.get(), int(cm.sum_row[label])
        row = {"label": label, "precision": precision, "recall": recall, "f1": f1.get()}
        out.append({**row, "support": support})
    return out
