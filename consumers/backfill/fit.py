"""Learn one split: an empty shard of the service processes its records, and writes nothing.

So records are decoded, refused, joined with their labels and scored as in a service. What follows
the stream as a whole is left out: alarms of drift, and the breaker.

Merge the models of all splits in one fixed tree.

Rule: which two models are merged depends on the numbers of their splits only, never on the order in
which they arrive. Rounding depends on the tree, so a fixed tree gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from consumers.backfill.files import FileHistory, opened
from consumers.backfill.logs import LogHistory
from consumers.backfill.manifest import FileSpan, Manifest, Split
from consumers.base.errors import ConfigError
from consumers.base.records import Batch, Record, record_bytes
from consumers.codecs.account import FieldAccount, FieldsView, names_of
from consumers.config import Config
from consumers.config.auto import DEFAULTS, learner_type
from consumers.config.decision import DriftConfig
from consumers.config.load import log_of
from consumers.config.sections import LabelsConfig
from consumers.files.source import FileSource
from consumers.shard.assembly import shard_of
from consumers.shard.shard import Shard
from stream.data.schema import Field, Label, Schema
from stream.errors import StreamError
from stream.learner.base import Learner
from stream.mix import byte_parts

__all__ = ["Fitted", "Fold", "Job", "empty_shard", "fit", "needs_order", "newest"]


@dataclass(frozen=True, slots=True)
class Job:
    """What every split needs.

    Parameters
    ----------
    config
        The service.
    manifest
        What is learned.
    place, labels
        The places of the files of the history and of their labels; None: the history is in the log
        of the service, or the labels are inside.
    """

    config: Config
    manifest: Manifest
    place: str | None = None
    labels: str | None = None

    @property
    def schema(self) -> Schema:
        """The features."""
        fields = (Field(name, kind) for name, kind in self.manifest.fields)  # type: ignore[arg-type]
        return Schema(tuple(fields))


class Fitted(msgspec.Struct):
    """A split that was learned.

    Attributes
    ----------
    number
        Its number.
    state
        The model, as `State.to_bytes` gives it.
    counts
        Records, observations, learned labels, and scored and correct predictions.
    log_loss
        The sum of the log losses of the scored predictions.
    dead_letters, overflows, outcomes
        Counts by reason, by bound, and of labels and observations by outcome.
    waiting
        The records that may still wait when the service continues, the newest ones.
    evicted
        How many others would wait too, beyond the bounds.
    ends
        Partitions of the observations, and the offsets at which this split ends there.
    matched
        Topic, partition and offsets of the last labels that found their observation in this split.
    fields
        The account of the fields of its records.
    """

    number: int
    state: bytes
    counts: dict[str, int]
    log_loss: float
    dead_letters: dict[str, int]
    overflows: dict[str, int]
    outcomes: dict[str, int]
    waiting: list[Record] = []
    evicted: int = 0
    ends: list[tuple[int, int]] = []
    matched: list[tuple[str, int, list[int]]] = []
    fields: FieldsView | None = None


def needs_order(config: Config, schema: Schema) -> str:
    """Why the records have to be learned in order, as one split; "" if they need not."""
    learner = empty_shard(config, schema).learner
    if config.labels.reporter is not None:
        return "the trust in a reporter depends on all earlier labels"
    if config.labels.silence is not None:
        return "silence is a label, and what it falls on depends on the time of all records"
    if not learner.merges_exactly:
        fades = getattr(learner, "half_life", None) is not None
        why = "with half_life the order of records counts" if fades else "does not merge exactly"
        name = learner_type(config.model, DEFAULTS)
        return f"{name}: {why}" if fades else f"{name} {why}"
    return ""


def empty_shard(
    config: Config,
    schema: Schema,
    *,
    alone: bool = False,
    wire: str | None = None,
    label: Label | None = None,
) -> Shard:
    """The empty shard in which records of a history are learned.

    Parameters
    ----------
    alone
        Whether it learns one of several splits. Then it has no bounds of what waits and no horizon,
        because the split is bounded, and gives it the labels within the horizon only.
    label
        One of the labels, which decides their kind; None: the first one does.
    """
    output = config.output.model_copy(update={"explain": 0, "max_dead_letter_ratio": 1.0})
    changes: dict[str, Any] = {"challenger": (), "drift": DriftConfig(), "output": output}
    if config.scale.mix is not None:  # it learns alone, within the bytes that it has later
        changes["scale"] = config.scale.model_copy(update={"mix": None})
        part = config.model.max_state_bytes // byte_parts(config.scale.shards)
        changes["model"] = config.model.model_copy(update={"max_state_bytes": part})
    if alone:
        changes["labels"] = config.labels.unbounded
    shard = shard_of(config.model_copy(update=changes), schema, wire=wire)
    if label is not None:
        shard.join.state.labels.promised = label
    return shard


def fit(job: Job, split: Split, progress: Callable[[int], None] = lambda count: None) -> Fitted:
    """Learn a split. `progress` gets the number of records, again and again."""
    if job.place is None:
        return _of_log(job, split, progress)
    try:
        return _of_files(job, job.place, split, progress)
    except ConfigError as error:
        raise ConfigError(f"{_named(job.manifest, split)}: {error}") from None


def _named(manifest: Manifest, split: Split) -> str:
    """A split in a message: its first file, and the first of its row groups."""
    span = split.spans[0]
    if not isinstance(span, FileSpan):
        return f"split {split.number}"
    name = manifest.files[span.file].name
    return f"{name} from row group {span.groups[0]} on" if span.groups else name


def _of_log(job: Job, split: Split, progress: Callable[[int], None]) -> Fitted:
    config, manifest = job.config, job.manifest
    shard = empty_shard(config, job.schema, alone=not manifest.ordered, label=manifest.label)
    history = LogHistory(manifest, log_of(config), config)
    with closing(history):
        run = _Run(shard, progress)
        for batch in history.batches(split, shard, config.commit.usual_records):
            run.process(batch, history.end)
        fitted = run.fitted(split)
        ids, early = _left(shard, history.waits_from)
        if manifest.labels:
            left = [*history.observations(split, shard, ids), *history.labels(shard, early)]
            fitted.waiting, fitted.evicted = newest(left, config.labels)
        _count_late(fitted, history.late)
        fitted.matched = [(*partition, at) for partition, at in history.matched.items()]
    return fitted


def _left(shard: Shard, since: int) -> tuple[set[str], set[str]]:
    """The ids of the observations and of the early labels that wait, of those since a time."""
    held = shard.join.state
    ids = {id_ for id_, (_, time) in held.waiting.items() if time >= since}
    return ids, {id_ for id_, (_, time, *_) in held.early.items() if time >= since}


def _of_files(job: Job, place: str, split: Split, progress: Callable[[int], None]) -> Fitted:
    config, manifest = job.config, job.manifest
    source = opened(place, manifest.reading)
    labels = None if job.labels is None else FileSource(job.labels)
    history = FileHistory(config, manifest, job.schema, source, labels)
    shard = empty_shard(
        config.with_labels(history.label_field, history.label_topic),
        job.schema,
        alone=not manifest.ordered,
        wire="json",  # as the records of a file are given to it
        label=manifest.label,
    )
    run = _Run(shard, progress)
    for batch in history.batches(split, config.commit.usual_records):
        run.process(batch, int(batch.timestamps.max()))
    fitted = run.fitted(split)
    fitted.ends = history.ends(split)
    _count_late(fitted, history.late)
    if manifest.cut is not None and config.input.labels is not None:
        ids, _ = _left(shard, manifest.cut - config.labels.horizon_ms)
        left = history.observations(split, ids)
        fitted.waiting, fitted.evicted = newest(left, config.labels)
    return fitted


def _count_late(fitted: Fitted, late: int) -> None:
    """Count labels that the split was not given, because they came after the horizon."""
    if late:
        fitted.outcomes["late"] = fitted.outcomes.get("late", 0) + late


def newest(records: Sequence[Record], labels: LabelsConfig) -> tuple[list[Record], int]:
    """As many of the newest records as the join of a service holds, and how many are left out."""
    out: list[Record] = []
    nbytes = 0
    for record in sorted(records, key=lambda r: r.timestamp, reverse=True):
        nbytes += record_bytes(record.key, record.value)
        if len(out) == labels.max_pending or nbytes > labels.max_pending_bytes:
            break
        out.append(record)
    return out[::-1], len(records) - len(out)


class _Run:
    """A shard that learns a split."""

    def __init__(self, shard: Shard, progress: Callable[[int], None]) -> None:
        self._shard, self._progress = shard, progress
        self._account = FieldAccount(names_of(shard.spec.schema))

    def process(self, batch: Batch, now: int) -> None:
        """Learn a batch."""
        outcome = self._shard.process(batch, now)
        self._account.add(outcome.seen.tally(self._account.counted))
        self._progress(len(batch))

    def fitted(self, split: Split) -> Fitted:
        """What was learned."""
        shard = self._shard
        view = shard.view()
        scores = view.quality.scores["all"]
        counts = {
            "records": view.records,
            "observations": view.observations,
            "learned": view.learned,
        }
        scored = int(scores.scored)
        counts |= {"scored": scored, "correct": round((scores.accuracy or 0.0) * scored)}
        return Fitted(
            split.number,
            shard.learner.to_state().to_bytes(),
            counts,
            (scores.log_loss or 0.0) * scored,
            dict(view.dead_letters),
            {name: n for name, n in view.overflows.items() if n},
            {name: n for name, n in view.labels.items() if n},
            fields=self._account.view(),
        )


class Fold:
    """A binary tree over `count` splits: neighbours are merged, then neighbours of those, and so
    on. One that has no neighbour moves up as it is.

    Parameters
    ----------
    count
        The number of splits.

    Notes
    -----
    A model is held until its neighbour has arrived. If they arrive in order, about log2(count) are
    held.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> models = [GaussianNB() for _ in range(3)]
    >>> for i, model in enumerate(models):
    ...     model.learn_one({"x": float(i)}, "a")
    >>> fold = Fold(3)
    >>> for number in (2, 0, 1):
    ...     fold.add(number, models[number])
    >>> fold.held, fold.result().classes
    (1, ['a'])
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: dict[tuple[int, int], Learner] = {}

    @property
    def held(self) -> int:
        """How many models wait for their neighbours."""
        return len(self._held)

    def add(self, number: int, model: Learner) -> None:
        """Add the model of a split. The fold may change it.

        Raises
        ------
        ConfigError
            It cannot be merged with its neighbour.
        """
        level, place = 0, number
        while (width := self._width(level)) > 1:
            if place == width - 1 and width % 2:  # without a neighbour
                level, place = level + 1, place // 2
                continue
            neighbour = self._held.pop((level, place ^ 1), None)
            if neighbour is None:
                self._held[level, place] = model
                return
            left, right = (neighbour, model) if place % 2 else (model, neighbour)
            try:
                model = left.merge(right)
            except StreamError as error:
                raise ConfigError(
                    f"the models of the splits {self._range(level, place)} cannot be merged: "
                    f"{error}"
                ) from None
            level, place = level + 1, place // 2
        self._held[level, place] = model

    def result(self) -> Learner:
        """The model of all splits, after the last one was added."""
        assert len(self._held) == 1  # noqa: S101  every split was added once
        return next(iter(self._held.values()))

    def _width(self, level: int) -> int:
        """How many models a level has."""
        return -(-self._count >> level)

    def _range(self, level: int, place: int) -> str:
        size = 1 << (level + 1)
        first = (place // 2) * size
        return f"{first} to {min(first + size, self._count) - 1}"
