"""Compares models on the first records of a feed, beside guessing, and chooses one.

Rule: each model predicts and learns the same records in the same order, and gets each label as late
as the service does. The default stays unless another model is better by more than chance explains.
Scores depend on the records only. Times are measured, so they differ from run to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from consumers.base.errors import ConfigError
from consumers.base.fields import MISSING
from consumers.codecs.json import JsonObservations
from consumers.config.auto import Defaults, auto_of
from consumers.config.learner import ModelConfig
from consumers.config.propose import ModelChoice
from consumers.config.sections import LabelsConfig
from consumers.offline.feed import encoded
from consumers.shard.models import build, limited, unused
from stream.data.block import Rows
from stream.data.schema import Label, Schema
from stream.evaluate.guessing import ENOUGH, BetterGuess, GuessWatch
from stream.evaluate.offline import Chunk, chunks
from stream.evaluate.progressive import Progressive
from stream.evaluate.quality import MOST, QualityView
from stream.join.join import LabelJoin
from stream.kernel.tiers import collected

__all__ = ["Arrivals", "Look", "compared", "models"]

EVERY = ("auto", "GaussianNB", "MultinomialNB", "MixedNB", "KNNClassifier", "LogisticRegression")
NATS, ERRORS = 0.005, 2.0  # least difference of log losses, and in standard errors
LEAST = 30  # scored predictions; fewer show nothing
FEW = 300  # of these, the table says that its differences may be chance
UNKNOWN = 52 * log(2)  # nats: the log loss of a class that has no label yet
NOTED = 0.1  # nats of the mean log loss; less hardly changes the table
BLOCK = 1024
WARM = 64  # records with which kernels are compiled

Progress = Callable[[int, int], None]


class Arrivals(NamedTuple):
    """When the labels of records come.

    Parameters
    ----------
    labels
        One for each record; None for a record without one.
    late
        After how many records a label comes; or its delay in ms, one for each record.
    times
        The timestamp of each record in ms; None if `late` counts records.
    horizon
        The delay in ms after which a label is not learned, as `[labels] horizon`.
    """

    labels: Sequence[Any]
    late: int | Sequence[int] = 0
    times: Sequence[int] | None = None
    horizon: int = LabelsConfig().horizon_ms


@dataclass(frozen=True, slots=True)
class ModelScore:
    """The scores of one model, its time for each record in microseconds, and how many labels it had
    no room for."""

    model: str
    view: QualityView
    microseconds: float
    rejected: int

    @property
    def accuracy(self) -> float:
        """Share of right predictions."""
        return self.view.scores["all"].accuracy or 0.0

    @property
    def log_loss(self) -> float:
        """Mean log loss."""
        found = self.view.scores["all"].log_loss
        assert found is not None  # noqa: S101  a score without predictions is not kept
        return found


@dataclass(frozen=True, slots=True)
class Look:
    """The compared models, the best one first.

    Parameters
    ----------
    scores
        By log loss.
    choice
        The chosen model, and why.
    records
        How many records were used.
    worse
        The guesses that are better than the chosen model.
    unseen
        How many predictions came before the first label of their class. Nobody can be right there.
    rejected
        How many labels were of more classes than the models have room for.
    left_out
        The models with room for another number of classes. They were scored on other
        records.
    """

    scores: Sequence[ModelScore]
    choice: ModelChoice
    records: int
    worse: Sequence[BetterGuess]
    unseen: int = 0
    rejected: int = 0
    left_out: Sequence[str] = ()

    def lines(self) -> list[str]:
        """A table of models and guesses."""
        view = self.scores[0].view
        first = view.scores["all"]
        cells = [("model", "accuracy", "log loss", "µs a record", "")]
        for each in self.scores:
            mark = "chosen" if each.model == self.choice.model else ""
            pair = (f"{each.accuracy:.1%}", f"{each.log_loss:.3f}")
            cells.append((each.model, *pair, f"{each.microseconds:.1f}", mark))
        majority, no_change = (first.baselines[b] for b in ("majority", "no_change"))
        cells += [
            ("guess: label shares", f"{majority or 0:.1%}", f"{first.prior_log_loss:.3f}", "", ""),
            ("guess: last label", f"{no_change or 0:.1%}", "", "", ""),
        ]
        wide = max(len(row[0]) for row in cells)
        table = [
            f"{name:<{wide}}  {right:>8}  {loss:>8}  {spent:>11}  {mark}".rstrip()
            for name, right, loss, spent, mark in cells
        ]
        if first.scored < FEW:
            table.append(
                f"{first.scored:,.0f} scored predictions are few: small differences may be chance"
            )
        if self.unseen * UNKNOWN >= NOTED * first.scored:
            table.append(
                f"{self.unseen:,} of {first.scored:,.0f} predictions came before the first label "
                f"of their class, and count {UNKNOWN:.0f} each in every log loss"
            )
        if self.rejected:
            table.append(
                f"{self.rejected:,} labels of {self.records:,} were rejected, because "
                f"{self.choice.model} has room for {len(view.classes):,} classes"
            )
        if self.left_out:
            names = ", ".join(self.left_out)
            table.append(f"not compared, with room for another number of classes: {names}")
        return [*table, *self._better_guess(majority, no_change)]

    def _better_guess(self, majority: float | None, no_change: float | None) -> list[str]:
        """That a guess is right more often than the chosen model, if that is not proved."""
        ours = next(each for each in self.scores if each.model == self.choice.model)
        found = {"label shares": majority or 0.0, "last label": no_change or 0.0}
        name, share = max(found.items(), key=lambda pair: pair[1])
        if share <= ours.accuracy or self.worse:
            return []
        scored = ours.view.scores["all"].scored
        few = "which are few" if scored < ENOUGH else "which may be chance"
        return [
            f"guessing by the {name} is right in {share:.1%}, {ours.model} in {ours.accuracy:.1%} "
            f"of {scored:,.0f} predictions, {few}"
        ]


def models(schema: Schema, default: str) -> list[str]:
    """The types to compare: those that use every field, and the default. `spam` if there is a text.

    Examples
    --------
    >>> models(Schema.of(age="numeric", job="categorical"), "auto")
    ['auto', 'MixedNB', 'KNNClassifier', 'LogisticRegression']
    """
    kinds = {field.kind for field in schema.fields}
    odd = set()
    if kinds != {"text"}:
        odd.add("MultinomialNB")  # it would take numbers for counts
    if kinds <= {"numeric", "binary"}:
        odd.add("MixedNB")  # it is GaussianNB then, or nearly so
    every = (*EVERY, "spam") if "text" in kinds else EVERY
    usable = [m for m in every if m not in odd and unused(ModelConfig(type=m), schema) is None]
    return list(dict.fromkeys([*usable, default]))


def compared(
    records: Sequence[Mapping[str, Any]],
    schema: Schema,
    arrivals: Arrivals,
    default: ModelChoice,
    *,
    id_field: str = "id",
    missing: Collection[str] = MISSING,
    in_order: bool = True,
    progress: Progress = lambda done, total: None,
    clock: Callable[[], float] = time.process_time,
) -> Look | None:
    """Score the models; None if there are too few labels, or only one class.

    Parameters
    ----------
    records
        As they would be written to a topic. Those that the service would reject are not used.
    default
        The model to choose if none is better, and why. One with parameters was asked for, and is
        chosen in any case.
    id_field, missing
        As the service has them: the field with the id, and the texts that mean "no value".
        Values that do not fit their field are missing, as in the configuration that is written.
    in_order
        False if the labels look sorted. Then no other model is chosen by these scores.
    progress
        Called with the number of scored records, and with that of all.
    """
    names = models(schema, default.model)
    configs = {name: _config(name, default) for name in names}
    codec = JsonObservations(schema, id_field, None, missing=missing, keep=True)
    rows, kept = _usable(records, codec, list(configs.values()))
    parts = _parts(kept, arrivals)
    scores: list[ModelScore] = []
    with collected(wait=True):
        for config in configs.values():
            with suppress(ConfigError):  # as below
                _machine(config, schema, rows).process(*_first(rows))
    for n, (name, config) in enumerate(configs.items()):

        def scored(rows_done: int, before: int = len(kept) * n) -> None:
            progress((before + rows_done) // len(configs), len(kept))

        found = _scored(name, config, schema, rows, parts, scored, clock)
        if found is not None:
            scores.append(found)
    if not scores:
        return None
    rejected = next(
        (each.rejected for each in scores if each.model == default.model),
        min(each.rejected for each in scores),
    )
    left_out = [each.model for each in scores if each.rejected != rejected]
    scores = [each for each in scores if each.rejected == rejected]
    if min(each.view.scores["all"].scored for each in scores) < LEAST:
        return None
    if len(scores[0].view.classes) < 2:
        return None
    scores.sort(key=lambda each: each.log_loss)
    choice = _chosen(scores, default, in_order=in_order)
    taken = next(each for each in scores if each.model == choice.model)
    worse = GuessWatch().look(taken.view, now=True)
    unseen = _unseen(parts, taken.view.classes)
    return Look(scores, choice, len(kept), worse, unseen, rejected, left_out)


def _config(name: str, default: ModelChoice) -> ModelConfig:
    parameters = default.parameters if name == default.model else {}
    return ModelConfig(type=name, parameters=dict(parameters))


def _unseen(parts: Sequence[Chunk], classes: Sequence[Label]) -> int:
    """How many predictions came before the first label of their class, and after any other.

    Labels of other classes than `classes` are not counted: they are rejected.
    """
    known_classes = {(type(label).__name__, str(label)) for label in classes}
    predicted: dict[str, int] = {}
    first: dict[tuple[str, str], int] = {}  # class to its first label
    at = unseen = 0
    for part in parts:
        events = part.events
        for id_, row, label in zip(events.ids, events.row, events.labels, strict=True):
            at += 1
            if row >= 0:
                predicted[id_] = at
            of = (type(label).__name__, str(label))
            if label is None or of not in known_classes:
                continue
            first.setdefault(of, at)
            began, known = next(iter(first.values())), first[of]
            unseen += began < predicted[id_] <= known
    return unseen


def _usable(
    records: Sequence[Mapping[str, Any]], codec: JsonObservations, configs: Sequence[ModelConfig]
) -> tuple[Rows, list[int]]:
    """The rows that the service and every learner accept, and the numbers of their records."""
    keys = [str(n).encode() for n in range(len(records))]
    decoded = codec.decode(keys, list(map(encoded, records)))
    decoded.rows.blank(list(decoded.rejected))
    refused = set(decoded.rejected)
    for config in configs:
        learner = build(config, Defaults(auto=auto_of(codec.schema)))
        refused |= learner.refusals(learner.prepare(decoded.rows)).keys()
    kept = [n for n in range(len(records)) if n not in refused]
    return decoded.rows.take(np.array(kept, dtype=np.int64)), kept


def _parts(kept: Sequence[int], arrivals: Arrivals) -> list[Chunk]:
    """The events of the records, in blocks."""
    labels, late, times, horizon = arrivals
    if times is None:
        return list(chunks([({}, labels[n]) for n in kept], None, late, BLOCK, None))
    delays = [late] * len(times) if isinstance(late, int) else late
    timed = [
        (
            {"time": times[n], "late": max(0, delays[n])},
            labels[n] if delays[n] <= horizon else None,
        )
        for n in kept
    ]
    return list(chunks(timed, "time", "late", BLOCK, None))


def _scored(
    name: str,
    config: ModelConfig,
    schema: Schema,
    rows: Rows,
    parts: Sequence[Chunk],
    scored: Callable[[int], None],
    clock: Callable[[], float],
) -> ModelScore | None:
    """The scores of one model; None if its memory does not suffice for these fields. `scored` is
    called with the number of rows so far."""
    try:
        machine = _machine(config, schema, rows)
    except ConfigError:
        return None
    seconds, at, rejected = 0.0, 0, 0
    for part in parts:
        block = rows.take(np.arange(at, at + len(part.xs)))
        machine.join.max_pending = part.waiting
        began = clock()
        result = machine.process(block, part.events)
        seconds += clock() - began
        rejected += list(result.rejected.values()).count("max_classes")
        at += len(part.xs)
        scored(at)
    if not machine.quality.scored:
        return None
    return ModelScore(name, machine.view(), 1e6 * seconds / max(at, 1), rejected)


def _machine(config: ModelConfig, schema: Schema, rows: Rows) -> Progressive:
    """An empty model with its join, bounded as in a service."""
    learner = build(config, Defaults(auto=auto_of(schema)))
    join = LabelJoin(max_classes=limited(config, learner, schema))
    return Progressive(learner, join, rows.take(np.empty(0, dtype=np.int64)), window=MOST)


def _first(rows: Rows) -> tuple[Rows, Any]:
    """Some rows with labels of two classes."""
    n = min(WARM, len(rows))
    [part] = chunks([({}, k % 2) for k in range(n)], None, 2, WARM + 1, None)
    return rows.take(np.arange(n)), part.events


def _chosen(scores: Sequence[ModelScore], default: ModelChoice, *, in_order: bool) -> ModelChoice:
    """The default, or the best model if it is clearly better and nobody asked for the default.
    `scores` are sorted by log loss."""
    name = default.model
    ours = next((each for each in scores if each.model == name), None)
    if ours is None:
        return ModelChoice(scores[0].model, f"the lowest log loss; {name} needs too much memory")
    n = ours.view.scores["all"].scored
    if not in_order:
        why = f"{default.why}; the labels look sorted, so the scores choose no other model"
        return replace(default, why=why)
    if n < ENOUGH:
        few = f"{n:,.0f} scored predictions are too few to choose another model by their scores"
        return replace(default, why=f"{default.why}; {few}")
    better = next((each for each in scores if _clearly_better(each, ours)), None)
    if better is None:
        return replace(default, why=f"{default.why}; no other model is clearly better")
    figures = (
        f"log loss {better.log_loss:.3f}, accuracy {better.accuracy:.1%}; those of {name} are "
        f"{ours.log_loss:.3f} and {ours.accuracy:.1%}"
    )
    if default.parameters:
        return replace(default, why=f"{default.why}; {better.model} is better: {figures}")
    return ModelChoice(better.model, figures)


def _clearly_better(other: ModelScore, ours: ModelScore) -> bool:
    """Whether the log loss is lower by the margin, over all predictions and the last ones, and the
    accuracy is not lower."""
    if ours.log_loss - other.log_loss < NATS or other.accuracy < ours.accuracy:
        return False
    losses = []
    for each in (other, ours):
        tally = each.view.scores[each.view.last].tally
        if tally is None or tally.losses is None:
            return False
        losses.append(tally.losses[0])
    if losses[0].size != losses[1].size:
        return False  # they were not scored on the same records
    by = losses[1] - losses[0]
    error = float(np.std(by)) / sqrt(by.size)
    return bool(np.mean(by) >= NATS + ERRORS * error)
