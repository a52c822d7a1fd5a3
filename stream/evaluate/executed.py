"""Execute a block, with explanations of its predictions if they are wanted, and silence; and
execute it while watching for drift. An alarm takes effect after its record, not after the block.

Rule: all steps are executed at once, as if there were no alarm. If an alarm replaces the learner,
the steps after the alarm are executed again by the new learner. Nothing is rolled back, because the
old learner is dropped. So a block without an alarm costs one check, and any split of the stream
gives the same bits.

Judge each decision when its label arrives.

Rule: a decision is a function of the posterior. The posterior of every observation that waits for
its label is kept, so the decision is recomputed from it and not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.schema import Dictionary, Label
from stream.decision import BayesDecision, FalsePositiveBudget, OverallRisk
from stream.decision.budget import (
    EVIDENCE,
    FLAGGED_LABEL,
    NO_LABEL,
    OTHER_LABEL,
    Verdicts,
    column,
)
from stream.decision.risk import named, of_classes
from stream.drift.detectors import compile_detectors
from stream.drift.watch import Alarm, DriftWatch, Series
from stream.evaluate import _kernels as kernels
from stream.evaluate.pending import LabelledPredictions, either
from stream.evaluate.result import by_code
from stream.join.join import LabelJoin
from stream.join.label_delay import Silence
from stream.join.plan import Plan
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import Explanation, connected

__all__ = [
    "BlockContext",
    "ExplanationSettings",
    "against",
    "compile_drift",
    "executed",
    "judge",
    "object_to",
    "run_explained",
    "within",
]

ExplainedPredictions = tuple[Predictions, list[Explanation | None] | None]


class ExplanationSettings(NamedTuple):
    """What explanations are made from, and their length.

    Attributes
    ----------
    raw, shares
        See `Learner.run_explained`.
    only
        bool, one for each row: whether its prediction is explained. None: each is.
    """

    raw: Rows
    shares: int
    only: NDArray[np.bool_] | None = None

    def take(self, at: NDArray[np.int64]) -> Self:
        """The same for these rows."""
        only = None if self.only is None else self.only[at]
        return self._replace(raw=self.raw.take(at), only=only)


def run_explained(
    learner: Learner,
    block: Block,
    why: ExplanationSettings | None,
    labels: Dictionary,
    silence: Silence | None = None,
) -> ExplainedPredictions:
    """The predictions of a learner at the steps of a block, with explanations if `why` is given.

    `silence` is what silence means, if anything. Until its label was learned, nothing is predicted:
    a model that knows the reported classes only would decide for them always, and then silence
    would never count. Its label frequency corrects the predictions, and not the explanations.

    Returns
    -------
    Predictions
        With one column for each label of `labels`.
    list of Explanation, or None
        See `Learner.run_explained`.
    """
    explanations: list[Explanation | None] | None = None
    if why is None:
        predictions = learner.run(block)
    elif why.only is None:
        predictions, explanations = learner.run_explained(block, why.raw, why.shares)
    else:
        predictions, explanations = _explained_in_part(learner, block, why, why.only)
    made = by_code(predictions, labels)
    if silence is None:
        return made, explanations
    code = labels.codes.get(silence.label, len(labels))
    told = made.known > code
    if explanations is not None:
        explanations = [one if t else None for one, t in zip(explanations, told, strict=True)]
    proba = np.where(told[:, None], made.proba, 0.0)
    if silence.frequency < 1.0 and code < len(labels):
        proba = of_classes(proba, code, silence.frequency)
    return replace(made, proba=proba, known=np.where(told, made.known, 0)), explanations


def _explained_in_part(
    learner: Learner, block: Block, why: ExplanationSettings, only: NDArray[np.bool_]
) -> tuple[Predictions, list[Explanation | None]]:
    """`Learner.run_explained` of the rows in `only`; the steps between them run as blocks."""
    predicting = np.flatnonzero(block.op != LEARN)
    parts: list[Predictions] = []
    found: list[Explanation | None] = []
    start = 0
    for step in predicting[only[block.row[predicting]]].tolist():
        parts.append(learner.run(block.slice(start, step)))
        found += [None] * len(parts[-1])
        part, whys = learner.run_explained(block.slice(step, step + 1), why.raw, why.shares)
        parts.append(part)
        found += whys
        start = step + 1
    parts.append(learner.run(block.slice(start, len(block))))
    found += [None] * len(parts[-1])
    return connected(parts, learner.classes), found


class BlockContext(NamedTuple):
    """What happened before a block.

    Parameters
    ----------
    events
        The event of each step.
    scored
        How many predictions were scored.
    made
        The steps, and the predictions that their labels belong to.
    silence
        See `run_explained`.
    """

    events: Sequence[int]
    scored: int
    made: LabelledPredictions
    silence: Silence | None = None


def executed(
    learner: Learner,
    drift: DriftWatch,
    why: ExplanationSettings | None,
    context: BlockContext,
    labels: Dictionary,
    features: Mapping[str, Floats],
) -> tuple[Learner, ExplainedPredictions, list[Alarm]]:
    """Execute the steps of a block. Returns the learner to continue with.

    Parameters
    ----------
    why, labels
        See `run_explained`.
    features
        For each watched feature its value in each row; NaN if it is missing.

    Returns
    -------
    Learner
        The learner to continue with.
    Predictions, list of Explanation
        See `run_explained`.
    list of Alarm
        In order, each at its event.
    """
    block = context.made.block
    last = len(block) - 1
    codes = np.array([labels.codes.get(label, -1) for label in block.labels], dtype=np.int64)
    drift.monitors.begin(_features(block, features))
    proven = len(learner.classes) > 0
    whole = run_explained(learner, block, why, labels, context.silence)
    alarms: list[Alarm] = []
    start = 0
    while True:
        series = _series(context.made, codes, whole[0], start)
        more, stop = drift.monitors.look(series, last)
        alarms += more
        end = last if stop is None else stop
        steps = start + np.flatnonzero(block.op[start : end + 1] != PREDICT)
        drift.learned(block, steps, codes)
        if stop is None:
            break
        acting = [alarm for alarm in more if alarm.at == stop]
        proven = proven or steps.size > 0
        learner = drift.replacement(learner, proven, acting, list(labels))
        # What the old learner noted in rows says nothing about the new one.
        block.rows.memo = None
        context.made.waiting.forget_memos()
        start = stop + 1
        if start <= last:
            rest = block.slice(start, last + 1)
            whole = _joined(whole, run_explained(learner, rest, why, labels, context.silence))
    return learner, whole, _completed(alarms, codes, whole[0], context) if alarms else []


def _completed(
    alarms: list[Alarm], codes: NDArray[np.int64], predictions: Predictions, context: BlockContext
) -> list[Alarm]:
    """The alarms with the event of each, and the number of predictions scored by then."""
    steps = _series(context.made, codes, predictions, 0)["error"].step
    scored = np.searchsorted(steps, [alarm.at for alarm in alarms], side="right").tolist()
    return [
        alarm._replace(at=context.events[alarm.at], scored=context.scored + n)
        for alarm, n in zip(alarms, scored, strict=True)
    ]


def _joined(before: ExplainedPredictions, after: ExplainedPredictions) -> ExplainedPredictions:
    """Predictions with the last ones replaced by `after`."""
    (old, why), (new, more) = before, after
    keep = len(old) - len(new)
    made = connected([old.part(0, keep), new], new.classes)
    return made, None if why is None else [*why[:keep], *(more or [])]


def _features(block: Block, features: Mapping[str, Floats]) -> dict[str, Series]:
    """The series of each feature of the observations, in order."""
    steps = np.flatnonzero(block.op != LEARN)
    out = {}
    for name, series in features.items():
        values = series[block.row[steps]]
        there = ~np.isnan(values)
        out[name] = Series(steps[there], values[there])
    return out


def _series(
    made: LabelledPredictions, codes: NDArray[np.int64], predictions: Predictions, start: int
) -> dict[str, Series]:
    """The series error, log_loss and score of the steps from `start` on."""
    block, predicting = made.block, made.predicting
    first = int(np.searchsorted(predicting, start))
    known = predictions.known[first:] > 0
    top = np.maximum.reduce(predictions.proba[first:], axis=1, initial=0.0)
    out = {"score": Series(predicting[first:][known], top[known])}

    steps = made.scored(block.op != PREDICT)
    steps = steps[steps >= start]
    true, answer, p_true = made.outcomes(steps, codes, predictions, predictions.best())
    named = answer >= 0  # predictions without a class are not scored either
    out["error"] = Series(steps[named], (answer != true)[named].astype(np.float64))
    out["log_loss"] = Series(steps[named], kernels.losses(p_true[named]))
    return out


def compile_drift() -> None:
    """Compile the kernels that watch for drift."""
    compile_detectors()
    kernels.losses(np.ones(1))


def judge(
    risk: OverallRisk,
    made: LabelledPredictions,
    predictions: Predictions,
    predicted: NDArray[np.int64],
) -> None:
    """Add the decisions that get their labels in a block to the risk, in order.

    Call it before the block is scored, because scoring reuses the slots of labelled predictions.

    Parameters
    ----------
    made
        The predictions that get a label.
    predictions, predicted
        The predictions of this call, and their class codes; -1 for none.
    """
    block, waiting = made.block, made.waiting
    steps = made.scored(block.op != PREDICT)
    here, slots = made.answered(steps)
    proba = either(here, slots, predictions.proba, waiting.proba.array, len(predictions.classes))
    known = either(here, slots, predicted[:, None], waiting.predicted.array, 1)[:, 0] >= 0
    decisions = risk.rule.decide(predictions.classes, proba, known)
    risk.update_many([block.labels[code] for code in block.y[steps].tolist()], decisions)


def against(
    predictions: Predictions,
    predicted: NDArray[np.int64],
    label: Label,
    rule: BayesDecision | None,
) -> NDArray[np.bool_]:
    """Which predictions were decided otherwise than the label of silence asks.

    Without a rule the decision is the predicted class. With a rule it is the action, and the
    actions for a label are those of least loss if it is true. A rejection, and a prediction before
    the first label, decide nothing.
    """
    if rule is None:
        usual = [code for code, name in enumerate(predictions.classes) if name == label]
        return (predicted >= 0) & ~np.isin(predicted, usual)
    done = rule.decide(predictions.classes, predictions.proba, predicted >= 0)
    usual = rule.actions_for(label, done.actions)
    return (done.chosen >= 0) & ~np.isin(done.chosen, usual)


def object_to(
    join: LabelJoin, plan: Plan, made: LabelledPredictions, other: NDArray[np.bool_]
) -> None:
    """Void silence for the waiting ids that were decided otherwise. `other` is `against`."""
    of_step = np.full(len(made.block), -1, dtype=np.int64)
    of_step[made.predicting] = np.arange(made.predicting.size)
    entries, steps = plan.asked()
    join.state.flag(entries[other[of_step[steps]]])


def within(
    budget: FalsePositiveBudget, made: LabelledPredictions, predictions: Predictions
) -> Verdicts:
    """The verdicts on the predictions of a block; the labels of the block are its evidence.

    A prediction that was made before the flagged label was known is no evidence, because its
    probability of 0 says nothing about the model. Nor is one before `min_learned` labels.

    Call it before the block is scored, because scoring reuses the slots of labelled predictions.
    """
    block, waiting, rule = made.block, made.waiting, budget.rule
    predicts = np.full(len(block), -1, dtype=np.int64)
    predicts[made.predicting] = np.arange(made.predicting.size)
    steps = np.flatnonzero(block.op != PREDICT)
    here, slots = made.answered(steps)
    source = np.full(len(block), -1, dtype=np.int64)
    source[steps] = here
    waited, at = steps[slots >= 0], slots[slots >= 0]
    classes, width = predictions.classes, len(predictions.classes)
    known = np.arange(width) < predictions.known[:, None]
    # Prior shares of labels that were not known then are 0.
    told = either(here, slots, known.astype(np.float64), waiting.prior.array, width) > 0.0
    others = np.array([named(label) != rule.label for label in block.labels], dtype=np.bool_)
    labels = np.full(len(block), NO_LABEL, dtype=np.int64)
    other = np.where(column(rule, classes, told), EVIDENCE, OTHER_LABEL)
    labels[steps] = np.where(others[block.y[steps]], other, FLAGGED_LABEL)
    then = np.zeros(len(block))
    before, early = (np.zeros(len(block), dtype=np.bool_) for _ in range(2))
    then[waited] = waiting.judged.array[at]
    before[waited], early[waited] = waiting.flagged.array[at], waiting.early.array[at]
    now = column(rule, classes, predictions.judged)
    return budget.follow(predicts, now, labels, source, (then, before, early))
