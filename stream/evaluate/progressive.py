"""Progressive validation: predict, score, then learn, one record at a time, in blocks.

`Progressive` is used by the live service and for offline delays. The join turns events into steps.
The learner runs the steps in one compiled call. Each label that arrives scores the prediction that
was made from the features known at that time.

Class codes here are those of the join: labels in the order they were learned. The codes of a
learner may change when a correction unlearns the last record of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block, Floats, Rows
from stream.data.parameters import flag, shown, whole
from stream.data.schema import Label
from stream.data.state import State
from stream.decision import BayesDecision, Budget, FalsePositiveBudget, OverallRisk
from stream.decision.budget import Verdicts, column
from stream.decision.risk import named
from stream.drift.rule import DriftRule
from stream.drift.watch import Alarm, DriftWatch
from stream.errors import InvalidRecordError, NotLearnedError, NotSupportedError, SchemaError
from stream.evaluate.breaker import Breaker
from stream.evaluate.estimate import AccuracyEstimate
from stream.evaluate.executed import (
    BlockContext,
    ExplanationSettings,
    against,
    executed,
    judge,
    object_to,
    run_explained,
    within,
)
from stream.evaluate.key_scores import KeyScores, key_field
from stream.evaluate.offline import (
    Checkpoint,
    Chunk,
    Delay,
    Moment,
    Record,
    chunks,
    timed,
)
from stream.evaluate.pending import LabelledPredictions, PendingRows, either
from stream.evaluate.quality import LAST, MOST, BaselinePredictions, Quality, QualityView
from stream.evaluate.result import Result, Timed, joined
from stream.join.events import EventFeed, Events, check
from stream.join.join import LabelJoin
from stream.join.plan import Correction, Plan, RowChanges
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import connected

__all__ = ["Events", "Features", "Progressive", "Result", "progressive"]


Features = Mapping[str, Floats]
LONGEST = 2**40  # records between two checkpoints, or in a block
OVER_RATE = ("reporter_rate", "correction_rate")


class Progressive:
    """A learner with its label join and its scores.

    Parameters
    ----------
    learner
        The learner that predicts and learns.
    join
        The join that matches labels to observations.
    like
        Any number of rows with the columns of the stream. These columns are kept while rows wait.
    breaker
        What can stop learning. None: learning never stops.
    window
        The N of the scores of the last N records.
    rule
        The decision rule. None: no decisions.
    per
        The field by whose values the scores are counted too. None: that of the learner, if it has
        models by key.

    Attributes
    ----------
    keys : KeyScores, or None
        The scores of each key; None without a field.
    drift : Drift, or None
        The watch for drift, see `watch`. Its state is not part of `to_state`.
    risk : OverallRisk, or None
        The risk of the decisions whose label came, in the order of the labels. Its state is not
        part of `to_state`, because a service may start or stop to decide at any time.
    decides : BayesDecision, or None
        The rule by which the predictions are published. Silence counts only where it decides for
        the label of silence.
    budget : FalsePositiveBudget, or None
        The budget by which a label is flagged, see `decide_by`. Not part of `to_state`.

    Notes
    -----
    A score uses the first label of an id and does not change if that label is corrected, because
    log loss, windows and baselines could not be changed with it. The next scores show the effect of
    a correction on the model.
    """

    def __init__(
        self,
        learner: Learner,
        join: LabelJoin,
        like: Rows,
        breaker: Breaker | None = None,
        window: int = LAST,
        rule: BayesDecision | None = None,
        per: str | None = None,
    ) -> None:
        self.learner = learner
        self.join = join
        self.quality = Quality(window)
        self.estimate = AccuracyEstimate()
        per = key_field(learner) or per
        self.keys = None if per is None else KeyScores(per)
        self.risk = None if rule is None else OverallRisk(rule, window)
        self.decides = rule
        self.budget: FalsePositiveBudget | None = None
        self.drift: DriftWatch | None = None
        self._breaker = breaker
        self.waiting = PendingRows(learner.prepare(like))
        for label in learner.classes:
            join.labels.add(label)

    def watch(self, rule: DriftRule) -> None:
        """Watch for drift from now on. The state of an earlier rule is dropped."""
        self.drift = DriftWatch(rule, self.waiting.rows.like) if rule.monitors else None

    def decide_by(self, rule: BayesDecision | None, budget: Budget | None) -> None:
        """Publish decisions by these from now on. What was counted for another budget is dropped.

        Raises
        ------
        SchemaError
            Silence is a label. No flagged record gets it, so false positives would be missed.
        """
        if budget is not None and self.join.silence is not None:
            raise SchemaError("silence and a budget of false positives exclude each other")
        self.decides = rule
        held = self.budget
        if held is not None and budget is not None and budget.same_evidence(held.rule):
            held.change_doubt(budget)
        elif budget != (None if held is None else held.rule):
            self.budget = None if budget is None else FalsePositiveBudget(budget)
            self.waiting.marked = True
            self.waiting.flagged.array[:] = False
            self.waiting.early.array[:] = budget is not None and budget.min_learned > 0
            if budget is not None:  # nothing else is known of the rows that wait
                self.waiting.judged.array[:] = column(
                    budget, list(self.join.labels), self.waiting.proba.array
                )

    def load_drift(self, state: State) -> None:
        """Continue watching from what `drift.to_state` saved. StateError: the state is damaged."""
        self.drift = DriftWatch.from_state(state, self.waiting.rows.like)

    def process(
        self,
        rows: Rows,
        events: Events,
        why: ExplanationSettings | None = None,
        features: Features | None = None,
        published: NDArray[np.bool_] | None = None,
    ) -> Result:
        """Predict, score and learn, event by event.

        With `why` each prediction is explained too, step by step. `features` are the features
        watched for drift: one value for each row, NaN if it is missing. `published` is whether
        each row was decided otherwise than the label of silence asks, by the predictions that
        were published; None: these are the published ones.

        Raises
        ------
        SchemaError
            Columns of events differ in length, or have an invalid id, row, weight or time.
        """
        check(events, len(rows))
        feed = EventFeed(events, rows.sizes())
        parts: list[Result] = []
        while True:
            plan = self.plan(feed)
            if plan.correction is None and not plan.again and not parts:
                return self.run(plan, rows, why, features, published)
            at = plan.renumber()
            watched = {name: values[at] for name, values in (features or {}).items()}
            taken = None if why is None else why.take(at)
            said = None if published is None else published[at]
            parts.append(self.run(plan, rows.take(at), taken, watched, said))
            if plan.correction is not None:
                self.correct(plan.correction)
            elif not plan.again:
                return joined(parts, list(self.join.labels))

    def run(
        self,
        plan: Plan,
        rows: Rows,
        why: ExplanationSettings | None,
        features: Features | None = None,
        published: NDArray[np.bool_] | None = None,
    ) -> Result:
        """Execute the steps of a plan whose rows are `rows`."""
        rows = self.waiting.align(self.learner.prepare(rows))
        block, old = self._block(plan, rows)
        changes, silence = plan.changes(), self.join.silence
        unscored = plan.silent if silence is not None and not silence.scored else ()
        made = LabelledPredictions(block, old, self.waiting, unscored)
        alarms: list[Alarm] = []
        if self.drift is None:
            predictions, reasons = run_explained(
                self.learner, block, why, self.join.labels, silence
            )
        else:
            context = BlockContext(plan.events, self.quality.scored, made, silence)
            self.learner, (predictions, reasons), alarms = executed(
                self.learner, self.drift, why, context, self.join.labels, features or {}
            )
        predicted = predictions.best()
        self.estimate.follow(changes, made, predictions, predicted)
        if self.risk is not None:
            judge(self.risk, made, predictions, predicted)
        if self.keys is not None:
            self.keys.follow(made, predictions, predicted)
        verdicts = None if self.budget is None else within(self.budget, made, predictions)
        self.waiting.clear(changes.freed)  # some are used again
        self._score(changes, made, predictions, predicted, verdicts)
        other = None
        if silence is not None:
            other = against(predictions, predicted, silence.label, self.decides)
            said = other if published is None else published[block.row[made.predicting]]
            object_to(self.join, plan, made, said)
        learns = block.op != PREDICT
        before = (np.cumsum(learns) - learns)[block.op != LEARN]
        learned = int(np.count_nonzero(learns))
        counts = (learned, before, plan.rejected, plan.refused)
        return Result(
            predictions,
            predicted,
            *counts,
            reasons,
            alarms=alarms,
            against=other,
            verdicts=verdicts,
        )

    def plan(self, feed: EventFeed) -> Plan:
        """The plan of the next events of a call, up to a correction or the last event.

        Corrections before its first step are made at once, because to run no steps takes longer
        than a correction.
        """
        join, breaker = self.join, self._breaker
        plan = join.begin(feed)
        join.bytes_per_class = 8 * self.learner.memo_size
        while feed.at < feed.stop:
            join.plan_common(plan, feed, self._learns)
            event = feed.at
            if event >= feed.stop:
                break
            for _ in range(feed.dead() if breaker is not None else 0):
                breaker.add(dead=True)  # type: ignore[union-attr]
            if event == feed.count:
                feed.at += 1
                break
            if not join.plan_next(plan, feed, learn=breaker is None or not breaker.open):
                plan.again = True
                break
            # A label above a rate says nothing about the records.
            bad = event in plan.rejected and plan.rejected[event] not in OVER_RATE
            if breaker is not None and (breaker.dead or bad):
                breaker.add(dead=bad)
            if plan.correction is not None:
                if plan.has_steps:
                    break
                due, plan.correction = plan.correction, None
                plan.corrected += [due] if self.correct(due) else []
                join.bytes_per_class = 8 * self.learner.memo_size
        join.count(plan)
        return plan

    def _learns(self, passed: int) -> bool:
        """Whether labels may be learned until the next dead letter, after `passed` more good
        records."""
        return self._breaker is None or self._breaker.good(passed)

    def correct(self, due: Correction) -> bool:
        """Replace the label, or keep the old one if that fails. Returns whether it succeeded."""
        if not self.relearn(due):
            self.join.conflicted(due)
            return False
        self.join.corrected(due)
        if self.drift is not None:
            self.drift.corrected(due.age, self.join.labels.codes[due.new], due.new_w)
        return True

    def relearn(self, due: Correction) -> bool:
        """Unlearn the old label and learn the new one with the same age. Returns whether it
        succeeded."""
        if self.drift is not None and self.drift.forgot(due.age):
            return False
        row = self.waiting.take(np.array([due.slot]))
        try:
            self.learner.correct_rows(row, (due.old, due.old_w), (due.new, due.new_w), due.age)
        except (NotLearnedError, NotSupportedError):
            return False
        if self.budget is not None:
            self._recount(self.budget, due)
        return True

    def _recount(self, budget: FalsePositiveBudget, due: Correction) -> None:
        """Count a corrected label as if it had been the first one."""
        then, at, labels = self.waiting, slice(due.slot, due.slot + 1), list(self.join.labels)
        for label, times in ((due.old, -1), (due.new, 1)):
            budget.count_one(of_label=named(label) == budget.rule.label, times=times)
        if (
            then.early.array[due.slot]
            or not column(budget.rule, labels, then.prior.array[at]).item()
        ):
            return  # the flagged label was not known then
        p = float(then.judged.array[due.slot])
        for label, times in ((due.old, -1), (due.new, 1)):
            if named(label) != budget.rule.label:
                budget.update_one(p, flagged=bool(then.flagged.array[due.slot]), times=times)

    def _block(self, plan: Plan, rows: Rows) -> tuple[Block, NDArray[np.int64]]:
        """The steps over the rows of this call, followed by the rows fetched from their slots.

        Also returns the slot of each fetched row; -1 for rows of this call.
        """
        op, row, slot, code, w = plan.columns()
        n, fetch = len(rows), np.flatnonzero(row < 0)
        row = row.copy()
        row[fetch] = np.arange(n, n + fetch.size)
        y, labels = _by_appearance(code, self.join.labels.values)
        old = np.full(len(op), -1, dtype=np.int64)
        old[fetch] = slot[fetch]
        every = rows.concat(self.waiting.take(slot[fetch])) if fetch.size else rows
        return Block(every, op, row, y, w, labels), old

    def _score(
        self,
        changes: RowChanges,
        made: LabelledPredictions,
        predictions: Predictions,
        predicted: NDArray[np.int64],
        verdicts: Verdicts | None,
    ) -> None:
        block = made.block
        codes = {label: code for code, label in enumerate(predictions.classes)}
        label = np.array([codes.get(value, -1) for value in block.labels], dtype=np.int64)
        n_classes = len(predictions.classes)
        self.waiting.widen(n_classes)
        if not changes.slot.size and (block.op == PREDICT_THEN_LEARN).all():
            self.quality.score_at_once(block.y, label, predictions)  # every label came with its row
            return
        beside = self.quality.baselines(block.op, block.y, label, n_classes, made.predicting.size)

        answered, then = made.scored(block.op != PREDICT), self.waiting
        here, slots = made.answered(answered)
        proba = either(here, slots, predictions.proba, then.proba.array, n_classes)
        both = np.column_stack((predicted, beside.predicted))
        every = either(here, slots, both, then.predicted.array, 3)
        prior = either(here, slots, beside.prior, then.prior.array, n_classes)
        squares = either(here, slots, beside.squares[:, None], then.squares.array[:, None], 1)
        by_baselines = BaselinePredictions(every[:, 1:], prior, squares[:, 0])
        self.quality.score(label[block.y[answered]], every[:, 0], proba, by_baselines)
        keep, from_row = changes.slot, changes.row
        which, rows = made.of_row[from_row], block.rows.take(from_row)
        now = self.join.slots, keep, rows, predicted[which], predictions.proba[which]
        if verdicts is None or self.budget is None:
            self.waiting.put(*now, beside.take(which))
            return
        judged = column(self.budget.rule, predictions.classes, predictions.judged)[which]
        marks = verdicts.flagged[which], verdicts.early[which], judged
        self.waiting.put(*now, beside.take(which), *marks)

    def view(self) -> QualityView:
        """The present scores."""
        return self.quality.view(list(self.join.labels))

    def to_state(self) -> State:
        """A copy of learner, join, scores and waiting rows."""
        parts = {
            "learner": self.learner.to_state(),
            "join": self.join.to_state(),
            "quality": self.quality.to_state(),
            "estimate": self.estimate.to_state(),
            "waiting": self.waiting.to_state(self.join.kept_slots()),
        }
        if self.keys is not None:
            parts["keys"] = self.keys.to_state()
        return State.join(parts)

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or belongs to another learner. This object is then unusable.
        """
        self.learner.load_state(state.nested("learner"))
        self.join.load_state(state.nested("join"))
        self.quality.load_state(state.nested("quality"))
        slots = self.join.kept_slots()
        self.waiting.load_state(state.nested("waiting"), self.join.slots, slots)
        self.estimate = AccuracyEstimate()
        self.estimate.load_state(state.nested("estimate"))
        if self.keys is not None:
            self.keys.load_state(state.nested("keys"))


def _by_appearance(
    codes: NDArray[np.int32], labels: Sequence[Label]
) -> tuple[NDArray[np.int32], list[Label]]:
    """The labels with these codes (-1: none) in the order of their first step, and codes of that
    list."""
    learned = np.flatnonzero(codes >= 0)
    first = np.full(len(labels), codes.size)
    first[codes[learned[::-1]]] = learned[::-1]  # the last one written is the first step
    used = np.flatnonzero(first < codes.size)
    used = used[np.argsort(first[used])]
    places = np.full(len(labels) + 1, -1, dtype=np.int32)  # the last one for no label
    places[used] = np.arange(used.size)
    return places[codes], [labels[code] for code in used.tolist()]


def progressive(
    dataset: Iterable[Record],
    learner: Learner,
    *,
    delay: Delay = 0,
    moment: Moment = None,
    step: int | None = None,
    window: int = LAST,
    block_size: int = 1024,
    verify: bool = False,
) -> Iterator[Checkpoint]:
    """Progressive validation of `learner` over a data set.

    Parameters
    ----------
    dataset
        Records in order: features, label and optionally `{"w": weight}`. A record with the label
        None is only predicted.
    learner
        The learner to validate. It learns the data set.
    delay
        The delay of a label: a number, a `timedelta`, a field, or a function of features and label.
        It arrives just before the first record whose moment is at least that much later, or at the
        end. 0 and 1 records both mean: before the next record.
    moment
        The time of a record: the name of a field, or a function of the features. None: the number
        of the record. Fields used as `moment` and `delay` are not features.
    step
        Records between two checkpoints. None: one checkpoint for each block.
    window
        The N of the scores of the last N records.
    block_size
        Records in each compiled call. It does not change the result.
    verify
        Whether river's own `evaluate.iter_progressive_val_score` repeats the run at the end, one
        record at a time. The last checkpoint compares both. The data set is read a second time.

    Yields
    ------
    Checkpoint
        The scores after every `step` records and at the end, and the predictions in between.

    Raises
    ------
    InvalidRecordError
        A label was rejected: it differs in kind from the first one, or there are too many classes.
    SchemaError
        An argument or a record is not valid.

    Examples
    --------
    >>> from river import datasets
    >>> from stream import GaussianNB
    >>> from stream.evaluate import progressive
    >>> for now in progressive(datasets.Phishing(), GaussianNB(), delay=50, step=500):
    ...     scores = now.scores["all"]
    ...     print(now.n, len(now.predictions), round(scores.accuracy, 3), round(scores.kappa_m, 3))
    500 500 0.87 0.671
    1000 500 0.889 0.739
    1250 250 0.891 0.75
    >>> *_, last = progressive(datasets.Phishing(), GaussianNB(), verify=True)
    >>> last.verification.largest
    0.0
    """
    step, window, size = _checked(learner, step, window, block_size)
    parts = chunks(dataset, moment, delay, size, step)
    again = (dataset, moment, delay) if flag("verify", verify) else None
    return _started(parts, learner, window, again)


def _checked(
    learner: object, step: object, window: object, size: object
) -> tuple[int | None, int, int]:
    """Step, window and block size as integers; SchemaError if an argument is not valid."""
    if not isinstance(learner, Learner):
        raise SchemaError(
            f"expected a Learner, got {shown(learner)}; wrap a river model in RiverClassifier"
        )
    step = None if step is None else whole("step", step, 1, LONGEST)
    return step, whole("window", window, 1, MOST), whole("block_size", size, 1, LONGEST)


def _started(
    parts: Iterable[Chunk],
    learner: Learner,
    window: int,
    again: tuple[Iterable[Record], Moment, Delay] | None,
) -> Iterator[Checkpoint]:
    """The checkpoints, compared with river's loop if there is something to read `again`."""
    if again is None:
        return _checkpoints(parts, learner, window)
    dataset, moment, delay = again
    if isinstance(dataset, Iterator):
        raise SchemaError(
            "verify reads the records twice, and an iterator can be read once; pass a list or a "
            "data set of river"
        )
    return _compared(parts, learner, window, partial(timed, dataset, moment, delay))


def _compared(
    parts: Iterable[Chunk], learner: Learner, window: int, again: Callable[[], Iterable[Timed]]
) -> Iterator[Checkpoint]:
    from stream.evaluate.verifier import Verifier  # imports river's loop

    verifier, last = Verifier(learner, window), None
    for checkpoint in _checkpoints(parts, learner, window):
        if last is not None:
            yield last
        made, last = checkpoint.predictions, checkpoint
        verifier.keep(np.arange(last.n - len(made), last.n), made)
    if last is not None:
        yield replace(last, verification=verifier.compare(again(), last))


def _checkpoints(parts: Iterable[Chunk], learner: Learner, window: int) -> Iterator[Checkpoint]:
    machine: Progressive | None = None
    made: list[Predictions] = []
    for part in parts:
        rows = learner.rows(part.xs)
        if machine is None:
            join = LabelJoin(part.waiting, max_classes=learner.max_classes)
            machine = Progressive(learner, join, rows, window=window)
        machine.join.max_pending = part.waiting
        result = machine.process(rows, part.events)
        for event, reason in result.rejected.items():
            label = part.events.labels[event]
            raise InvalidRecordError(reason, f"label {shown(label)} was rejected")
        made.append(result.predictions)
        if part.checkpoint:
            view = machine.view()
            scores = (view.classes, view.confusion, view.scores, view.unscored)
            yield Checkpoint(*scores, part.n, connected(made))
            made = []
