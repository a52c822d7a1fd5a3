"""A challenger that runs in the shadow of a model: on the same steps, with its own rows.

Rule: a shadow changes only itself. The model decides which records count, which are dead letters
and what happens to a label. A shadow that rejects a row makes no prediction for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream.contest.compare import brier
from stream.data.block import LEARN, PREDICT, Floats, Rows
from stream.data.state import Saved, State
from stream.evaluate.executed import ExplanationSettings
from stream.evaluate.pending import PendingRows
from stream.evaluate.progressive import Progressive
from stream.evaluate.result import Result
from stream.join.plan import Correction, Plan, RowChanges, StepColumns
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import Explanation

__all__ = ["Shadow", "ShadowPredictions", "ShadowSteps"]

ABSENT, HELD, REFUSED = 0, 1, 2  # a slot without a row, with one, with a rejected one


class ShadowSteps:
    """The steps of a plan as columns: predictions, and the labels that came.

    Attributes
    ----------
    steps : ndarray
        int64, (p,): the predicting steps; `answered` (k,): the steps whose label came.
    true : ndarray
        int64, (k,): class codes.
    here, slot : ndarray
        int64, (k,): the labelled prediction of this plan, or the slot of an older one; the other of
        the two is -1.
    """

    def __init__(self, plan: Plan, rows: int) -> None:
        op, self.row, slot, code, _ = plan.columns()
        self.learns = op != PREDICT
        self.steps = np.flatnonzero(op != LEARN)
        self.answered = np.flatnonzero(self.learns)
        self.true = code[self.answered].astype(np.int64)
        made = np.full(rows + 1, -1, dtype=np.int64)  # row to prediction; -1 to -1
        made[self.row[self.steps]] = np.arange(self.steps.size)
        self.here = made[self.row[self.answered]]
        self.slot = np.where(self.here < 0, slot[self.answered], -1)


@dataclass(slots=True)
class ShadowPredictions:
    """The predictions of one model and their scores.

    Parameters
    ----------
    result
        One prediction for each predicting step.
    right
        int8, one for each labelled step: 1 right, 0 wrong, -1 if the model did not exist then or
        knew no class. Both are known before the label, so leaving these steps out favours no model.
    brier
        float64, one for each labelled step: the Brier score.
    """

    result: Result
    right: NDArray[np.int8]
    brier: Floats


class EarlierPredictions:
    """The predictions of a model for the rows in slots, read before slots are reused."""

    def __init__(
        self, asked: ShadowSteps, waiting: PendingRows, standing: NDArray[np.int8] | None = None
    ) -> None:
        self._asked = asked
        self._at = np.flatnonzero(asked.slot >= 0)
        slots = asked.slot[self._at]
        held = np.ones(slots.size, dtype=np.bool_)
        self._refused = np.zeros(slots.size, dtype=np.bool_)
        if standing is not None:
            held, self._refused = standing[slots] == HELD, standing[slots] == REFUSED
        self._predicted = np.full(slots.size, -1, dtype=np.int64)
        self._predicted[held] = waiting.predicted.array[slots[held], 0]
        row = np.where(self._predicted >= 0, slots, -1)
        self._brier = brier(waiting.proba.array, row, asked.true[self._at])

    def answers(
        self, result: Result, refused: NDArray[np.bool_] | None = None
    ) -> ShadowPredictions:
        """Add the predictions of `result`. `refused`: the predictions that it could not make."""
        asked, n = self._asked, self._asked.true.size
        fresh = np.flatnonzero(asked.here >= 0)
        here, true = asked.here[fresh], asked.true[fresh]
        predicted, cost = np.full(n, -1, dtype=np.int64), np.empty(n)
        wrong = np.zeros(n, dtype=np.bool_)
        predicted[self._at], cost[self._at], wrong[self._at] = (
            self._predicted,
            self._brier,
            self._refused,
        )
        predicted[fresh] = result.predicted[here]
        cost[fresh] = brier(
            result.predictions.proba, np.where(predicted[fresh] >= 0, here, -1), true
        )
        if refused is not None:
            wrong[fresh] = refused[here]
        right = (predicted == asked.true).astype(np.int8)
        right[(predicted < 0) & ~wrong] = -1
        return ShadowPredictions(result, right, cost)


class Shadow:
    """A learner that runs next to a model and uses the model's join.

    Parameters
    ----------
    machine
        The machine of the challenger, with the join of the model.
    missed
        Number of labels that the model has learned before.

    Attributes
    ----------
    missed : int
        Number of labels that the model learned and this one did not: labels from before it was
        added, or of rows that it rejected.
    refused : int
        Number of rows that it rejected. In comparisons its missing prediction counts as wrong. Its
        own scores do not include them.
    uncorrected : int
        Number of corrections that it could not make. It keeps the first label.
    """

    def __init__(self, machine: Progressive, missed: int = 0) -> None:
        self.machine = machine
        self.missed, self.refused, self.uncorrected = missed, 0, 0
        self._standing = np.full(machine.join.slots, ABSENT, dtype=np.int8)

    @property
    def learner(self) -> Learner:
        return self.machine.learner

    def follow(
        self, asked: ShadowSteps, plan: Plan, raw: Rows, why: ExplanationSettings | None = None
    ) -> ShadowPredictions:
        """Execute those steps of the model's plan that it can.

        Parameters
        ----------
        raw
            The rows of the plan, before any learner prepared them.
        why
            If given, each prediction is explained, if the learner can.
        """
        self._grow()
        earlier = EarlierPredictions(asked, self.machine.waiting, self._standing)
        rows = self.learner.prepare(raw)
        refused = sorted(self.learner.refusals(rows))
        if refused:
            rows = rows.take(np.arange(len(rows)))  # a copy, because it may be the model's own
            rows.blank(refused)
        taken = self._taken(asked, refused)
        own = self._part(plan, taken, refused)
        explains = type(self.learner).explain_rows is not Learner.explain_rows
        result = self.machine.run(own, rows, why if explains else None)
        changes = plan.changes()
        self._standing[changes.slot] = np.where(np.isin(changes.row, refused), REFUSED, HELD)
        missing = ~taken[asked.steps]
        self.refused += int(np.count_nonzero(missing))
        return earlier.answers(self._whole(asked, taken, result), missing)

    def correct(self, due: Correction) -> None:
        """Make the correction that the model has made."""
        self._grow()
        held = self._standing[due.slot] == HELD
        if not (held and self.machine.relearn(due)):
            self.uncorrected += 1

    def _grow(self) -> None:
        """Make room for the state of every slot."""
        if (more := self.machine.join.slots - self._standing.size) > 0:
            more = max(more, self._standing.size)
            self._standing = np.append(self._standing, np.zeros(more, dtype=np.int8))

    def _taken(self, asked: ShadowSteps, refused: list[int]) -> NDArray[np.bool_]:
        """The steps that it can execute."""
        taken = ~np.isin(asked.row, refused)
        old = asked.answered[asked.slot >= 0]
        taken[old] = self._standing[asked.slot[asked.slot >= 0]] == HELD
        return taken

    def _part(self, plan: Plan, taken: NDArray[np.bool_], refused: list[int]) -> Plan:
        """The plan reduced to the steps that it executes."""
        steps, changes = plan.columns(), plan.changes()
        if not taken.all():
            columns = (column[taken] for column in steps)
            steps = StepColumns(*columns)  # type: ignore[arg-type]  # each keeps its type
        kept = ~np.isin(changes.row, refused)
        slot, row, began = changes.slot[kept], changes.row[kept], changes.began[kept]
        ended = changes.ended[self._standing[changes.ended] == HELD]
        changes = RowChanges(slot, row, began, ended, changes.freed)
        return Plan(plan.arrays, plan.bounds, (steps, changes))

    def _whole(self, asked: ShadowSteps, taken: NDArray[np.bool_], result: Result) -> Result:
        """The result with one prediction for each step of the plan; those it could not make are
        empty."""
        dropped = asked.learns & ~taken
        missed = self.missed + (np.cumsum(dropped) - dropped)[asked.steps]
        self.missed += int(np.count_nonzero(dropped))
        learned = (np.cumsum(asked.learns) - asked.learns)[asked.steps] - missed
        if taken.all():
            return replace(result, learned_before=learned)
        there = np.flatnonzero(taken[asked.steps])
        made, n = result.predictions, asked.steps.size
        proba = np.zeros((n, made.proba.shape[1]))
        even = None if made.even is None else np.zeros_like(proba)
        known, predicted = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        proba[there], known[there], predicted[there] = made.proba, made.known, result.predicted
        if even is not None:
            even[there] = made.even
        why: list[Explanation | None] | None = None
        if result.explanations is not None:
            why = [None] * n
            for i, one in zip(there.tolist(), result.explanations, strict=True):
                why[i] = one
        predictions = Predictions(made.classes, proba, known, even)
        return Result(predictions, predicted, result.learned, learned, {}, [], why)

    def to_state(self) -> State:
        """A copy of everything except the join."""
        self._grow()
        slots = self.machine.join.kept_slots()
        standing = self._standing[slots]
        own = {"missed": self.missed, "refused": self.refused, "uncorrected": self.uncorrected}
        parts = {
            "shadow": State(own, {"standing": standing}),
            "learner": self.learner.to_state(),
            "quality": self.machine.quality.to_state(),
            "estimate": self.machine.estimate.to_state(),
            "waiting": self.machine.waiting.to_state(slots[standing == HELD]),
        }
        if self.machine.risk is not None:
            parts["risk"] = self.machine.risk.to_state()
        if self.machine.keys is not None:
            parts["keys"] = self.machine.keys.to_state()
        return State.join(parts)

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. The join must have been loaded before.

        Raises
        ------
        StateError
            The state is damaged or belongs to another learner. This object is then unusable.
        """
        own, join = state.nested("shadow"), self.machine.join
        self.missed, self.refused = own.header["missed"], own.header["refused"]
        self.uncorrected = own.header["uncorrected"]
        slots = join.kept_slots()
        standing = own.read({"standing": Saved(np.int8, (slots.size,))})["standing"]
        self._standing = np.full(join.slots, ABSENT, dtype=np.int8)
        self._standing[slots] = standing
        self.learner.load_state(state.nested("learner"))
        self.machine.quality.load_state(state.nested("quality"))
        self.machine.estimate.load_state(state.nested("estimate"))
        held = slots[standing == HELD]
        self.machine.waiting.load_state(state.nested("waiting"), join.slots, held)
        if self.machine.risk is not None and "risk" in state.header:
            self.machine.risk.load_state(state.nested("risk"))
        if self.machine.keys is not None:
            self.machine.keys.load_state(state.nested("keys"))

    @property
    def skipped(self) -> Mapping[str, int]:
        """Number of skipped steps, by kind."""
        return {"refused": self.refused, "uncorrected": self.uncorrected}
