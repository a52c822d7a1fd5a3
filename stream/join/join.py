"""The delayed-label join: match labels to observations, by a table of transitions.

Pure and bounded. Events come in order; each becomes steps over rows for a learner. The rules are
the table in `transitions.py`. This file finds the state of an id and the event, and runs the
transition. Its only other decision is which id is the oldest if a bound is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.data.schema import Dictionary, Label
from stream.data.state import State
from stream.errors import SchemaError
from stream.join.correction_rate import MOST_CORRECTIONS, is_over_rate, repaid_after
from stream.join.label_delay import LabelDelays
from stream.join.plan import Correction, Plan, Refused, Step
from stream.join.silence import Silence
from stream.join.state import JoinState, SettledId
from stream.join.table import SETTLED as SETTLED_ID
from stream.join.table import WAITING as WAITING_ROW
from stream.join.transitions import IdEvent, IdState, JoinAction, Table, table

__all__ = ["DAY_MS", "EARLY_SHARE", "UNBOUNDED", "LabelJoin", "same"]

DAY_MS = 86_400_000
UNBOUNDED = 1 << 62
EARLY_SHARE = 4  # early labels get a quarter of `max_bytes`; a quarter of settled ids is kept

WAITING, EARLY = IdState.WAITING, IdState.EARLY
LABELLED, CORRECTABLE = IdState.LABELLED, IdState.CORRECTABLE
OBSERVATION, OBSERVATION_LABEL = IdEvent.OBSERVATION, IdEvent.OBSERVATION_LABEL
OBSERVATION_SAME, OBSERVATION_REFUSED = IdEvent.OBSERVATION_SAME, IdEvent.OBSERVATION_REFUSED
LABEL, LABEL_SAME, LABEL_REFUSED = IdEvent.LABEL, IdEvent.LABEL_SAME, IdEvent.LABEL_REFUSED
LABEL_OVER_RATE = IdEvent.LABEL_OVER_RATE
SILENCE, SILENCE_VOID = IdEvent.SILENCE, IdEvent.SILENCE_VOID
EXPIRY, OVERFLOW = IdEvent.EXPIRY, IdEvent.OVERFLOW

# The number of an event, the row of an observation, label and weight, and the bytes of the row
# without its numbers. A built-in tuple, because one is made for each event.
Arrival: TypeAlias = tuple[int, int, Any, float, int]
Act: TypeAlias = Callable[["LabelJoin", Plan, str, Arrival], None]
Compiled: TypeAlias = Mapping[IdState, Mapping[IdEvent, tuple[tuple[str, ...], Act]]]
NOTHING: Arrival = (-1, -1, None, 1.0, 0)  # for events that do not come from the stream


class LabelJoin:
    """Joins labels to the observations they belong to.

    Parameters
    ----------
    max_pending
        The largest number of waiting observations. Early labels and settled ids have the same
        bound.
    horizon
        How long they wait, in milliseconds of stream time.
    max_classes
        How many different labels are accepted.
    corrections
        Whether a second, different label replaces the first one. The rows of settled ids are
        then kept like those that wait.
    max_bytes
        Bytes of all ids, labels, rows (without their numbers) and records of early labels that are
        held; the oldest are removed. Early labels take at most a quarter. If the total is larger,
        settled ids beyond a quarter are removed first, then waiting observations. Rows count as
        the champion holds them. What challengers hold for them is not counted, because a
        challenger would then decide which observations the champion learns.
    silence
        What it means that nobody labels an observation; None: nothing. Needs `corrections`,
        because the label may still come.
    max_corrections
        How many corrections are accepted at once, see `correction_rate.py`.

    Raises
    ------
    SchemaError
        `silence` is given without `corrections`, or its `after` is longer than `horizon`.

    Attributes
    ----------
    state : JoinState
        The state of all ids.
    common : bool
        Whether common events may be planned by kernels (`columns.py`).
    bytes_per_class : int
        Bytes of a waiting row for each label that was learned before it, and once more, beside its
        categories and texts. The learner that plans sets it.

    Examples
    --------
    >>> from stream.join.plan import Plan
    >>> join, plan = LabelJoin(max_pending=2), Plan()
    >>> join.on_observation(plan, event=0, row=0, id="a", time=0)
    >>> join.on_label(plan, event=1, id="a", label=True, w=1.0, time=5)
    >>> [(op, row, label) for op, row, slot, label, weight in plan.steps]
    [(0, 0, None), (1, 0, True)]
    """

    def __init__(
        self,
        max_pending: int = 100_000,
        horizon: int = 7 * DAY_MS,
        max_classes: int = 256,
        corrections: bool = False,
        max_bytes: int = UNBOUNDED,
        silence: Silence | None = None,
        max_corrections: int = MOST_CORRECTIONS,
    ) -> None:
        if silence is not None and not (corrections and 0 < silence.after <= horizon):
            raise SchemaError("silence needs corrections, and an `after` within the horizon")
        self.silence = silence
        self.max_pending = max_pending
        self.max_bytes = max_bytes
        self.horizon = horizon
        self.corrections = corrections
        self.max_corrections = max_corrections
        self.common = True
        self.bytes_per_class = 0
        self.state = JoinState(max_classes, silence.after if silence else None)
        self._learning = _compiled(table(corrections=corrections))
        self._holding = _compiled(table(corrections=corrections, held_back=True))

    @property
    def labels(self) -> Dictionary:
        """The labels learned, in the order they first were."""
        return self.state.labels.learned

    @property
    def outcomes(self) -> Counter[str]:
        """Number of labels and observations by outcome, see `OUTCOMES`."""
        return self.state.outcomes

    @property
    def label_delays(self) -> LabelDelays:
        """Counts of labelled predictions and of label delays."""
        return self.state.label_delays

    @property
    def pending(self) -> int:
        """Observations that wait for their label."""
        return len(self.state.waiting)

    @property
    def waited(self) -> int | None:
        """Milliseconds of stream time since the oldest pending observation; None without one."""
        oldest = self.state.waiting.oldest
        return None if oldest is None else self.state.time - oldest[1]

    @property
    def early(self) -> int:
        """Labels that wait for their observation."""
        return len(self.state.early)

    @property
    def slots(self) -> int:
        """One more than the largest slot ever used: the size of the store of rows."""
        return self.state.rows.count

    def kept_slots(self) -> NDArray[np.int64]:
        """The slots of the rows that are kept: waiting ones, then settled ones, oldest first."""
        return np.concatenate([self.state.slots(kind) for kind in (WAITING_ROW, SETTLED_ID)])

    def on_observation(
        self,
        plan: Plan,
        *,
        event: int,
        row: int,
        id: str,  # noqa: A002  the wire's name
        time: int,
        label: object = None,
        w: float = 1.0,
        learn: bool = True,
        size: int = 0,
    ) -> None:
        """Plan an observation, which may have its label inside.

        `learn` False: a label is held back. `size`: bytes of its row, without its numbers.
        """
        held = self.state
        size += self.bytes_per_class * (1 + len(held.labels.learned))
        if time > held.time:
            self.pass_time(plan, time)
        state = held.of(id)
        what = OBSERVATION
        if label is not None:
            accepted = held.labels.accepted(label)
            if accepted is None:
                what = OBSERVATION_REFUSED
            else:
                equal = state is EARLY and same(held.early[id][0], accepted)
                label, what = accepted, OBSERVATION_SAME if equal else OBSERVATION_LABEL
        outcomes, act = (self._learning if learn else self._holding)[state][what]
        for outcome in outcomes:
            held.outcomes[outcome] += 1
        act(self, plan, id, (event, row, label, w, size))

    def on_label(
        self,
        plan: Plan,
        *,
        event: int,
        id: str,  # noqa: A002  the wire's name
        label: object,
        w: float,
        time: int,
        learn: bool = True,
        reporter: str | None = None,
    ) -> None:
        """Plan a label for the observation `id`. `learn` False: it is held back. Here every
        `reporter` counts alike: see `ReportedJoin`."""
        held = self.state
        if time > held.time:
            self.pass_time(plan, time)
        state = held.of(id)
        first = held.settled[id][0] if state is LABELLED or state is CORRECTABLE else None
        if first is not None and same(first, label):
            what = LABEL_SAME
        elif (accepted := held.labels.accepted(label)) is None:
            what = LABEL_REFUSED
        else:
            equal = state is EARLY and same(held.early[id][0], accepted)
            label, what = accepted, LABEL_SAME if equal else LABEL
            if state is CORRECTABLE and is_over_rate(
                held.repaid_at, self._first_labels, self.max_corrections
            ):
                what = LABEL_OVER_RATE
        outcomes, act = (self._learning if learn else self._holding)[state][what]
        for outcome in outcomes:
            held.outcomes[outcome] += 1
        act(self, plan, id, (event, -1, label, w, 0))

    def fall_silent(self, plan: Plan, time: int, *, learn: bool = True) -> bool:
        """Learn what nobody labelled before `time`, each row at its own moment, oldest first.

        Call it before an event of that time. False: silence falls on a row that the steps of the
        plan predict, so they must run, and `flag` be called, before this call is repeated.
        """
        silence, held = self.silence, self.state
        while silence is not None and (entry := held.unheard) >= 0:
            slot, since = held.waiting_row(entry)
            moment = since + silence.after
            if moment >= time:
                break
            id_ = held.table.id_of(entry)
            if id_ in plan.asked or slot in plan.kept:
                return False
            if moment > held.time:
                self.pass_time(plan, moment)
            label = held.labels.accepted(silence.label)
            what = SILENCE_VOID if label is None or held.is_flagged(entry) else SILENCE
            held.hear(entry)
            outcomes, act = (self._learning if learn else self._holding)[WAITING][what]
            for outcome in outcomes:
                held.outcomes[outcome] += 1
            act(self, plan, id_, (-1, -1, label, 1.0, 0))
        return True

    def flag(self, asked: Iterable[str]) -> None:
        """The ids of `Plan.asked` that were decided otherwise: silence is void for them."""
        held = self.state
        held.flag([held.table.find(id_) for id_ in asked if held.is_unheard(id_)])

    def corrected(self, due: Correction) -> None:
        """The correction is done: its new label was learned."""
        arrival = (-1, -1, due.new, due.new_w, 0)
        self._run(Plan(), due.id, CORRECTABLE, IdEvent.CORRECTED, arrival)

    def conflicted(self, due: Correction) -> None:
        """The correction could not be done: the first label stands."""
        self._run(Plan(), due.id, CORRECTABLE, IdEvent.NOT_CORRECTED)

    def forget_early(self, refused: Callable[[bytes], bool]) -> None:
        """Drop the early labels whose record was rejected in a span removed by a rollback."""
        kept = [(id_, origin) for id_, (*_, origin) in self.state.early.items() if origin]
        for id_ in [id_ for id_, origin in kept if refused(origin)]:
            self._run(Plan(), id_, EARLY, IdEvent.WITHDRAWN)

    def outvoted(self, plan: Plan, id_: str) -> None:
        """Drop an early label: reporters whose votes weigh more gave another one."""
        self._run(plan, id_, EARLY, IdEvent.OUTVOTED)

    def to_state(self) -> State:
        """The whole state. O(pending)."""
        return self.state.to_state(corrections=self.corrections)

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        self.state.load_state(state, corrections=self.corrections)

    def _run(
        self,
        plan: Plan,
        id_: str,
        state: IdState,
        event: IdEvent,
        arrival: Arrival = NOTHING,
    ) -> None:
        """Run the transition of an event that does not come from the stream."""
        outcomes, act = self._learning[state][event]
        for outcome in outcomes:
            self.state.outcomes[outcome] += 1
        act(self, plan, id_, arrival)

    @property
    def _first_labels(self) -> int:
        """How many labels were learned, without corrections."""
        return self.state.learned - self.state.outcomes["corrected"]

    # The actions, in the order of `JoinAction`.

    def _count(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        pass

    def _predict(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        self.state.label_delays.gave_up()
        if self.silence is not None and self.state.is_unheard(id_):
            plan.asked.setdefault(id_, []).append(len(plan.steps))
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))

    def _wait(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, row, _, _, size = arrival
        held = self.state
        if self.silence is not None:
            plan.asked[id_] = [len(plan.steps)]
        plan.steps.append((PREDICT, row, -1, None, 1.0))
        if len(held.waiting) >= self.max_pending:
            self._run(plan, held.waiting.oldest_id, WAITING, OVERFLOW)
        slot = held.rows.take(size)
        plan.kept.put(slot, row=row, began=True)
        held.add_row(id_, slot)
        self._trim(plan)

    def _learn_inside(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, row, label, w, size = arrival
        self.state.label_delays.label_came(0)
        self._learn(plan, id_, (PREDICT_THEN_LEARN, row, -1, label, w), size)

    def _learn_early(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, row, _, _, size = arrival
        label, _, w, _ = self.state.remove_label(id_)
        self.state.label_delays.label_came(0)
        self._learn(plan, id_, (PREDICT_THEN_LEARN, row, -1, label, w), size)

    def _learn_kept(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        held = self.state
        slot, since = held.remove_row(id_)
        plan.no_longer_waits(slot)
        held.label_delays.label_came(held.time - since)
        self._learn(plan, id_, (LEARN, plan.kept.get(slot, -1), slot, label, w))

    def _learn_silent(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        slot, _ = self.state.remove_row(id_)
        plan.no_longer_waits(slot)
        self.state.label_delays.gave_up()  # no label came
        plan.silent.append(len(plan.steps))
        self._learn(plan, id_, (LEARN, -1, slot, label, w))

    def _hold_inside(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        self.state.label_delays.label_came(0)
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))
        self._hold(plan, id_, arrival[2])

    def _hold_early(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        label, *_ = self.state.remove_label(id_)
        self.state.label_delays.label_came(0)
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))
        self._hold(plan, id_, label)

    def _hold_kept(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        held = self.state
        slot, since = held.remove_row(id_)
        plan.no_longer_waits(slot)
        held.label_delays.label_came(held.time - since)
        self._release(plan, slot)
        self._hold(plan, id_, arrival[2])

    def _keep_label(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        event, _, label, w, _ = arrival
        held = self.state
        if len(held.early) >= self.max_pending:
            self._run(plan, held.early.oldest_id, EARLY, OVERFLOW)
        # A label of a learned class is never rejected, so its record is not needed.
        safe = held.labels.knows(label) or plan.origin is None
        origin = b"" if safe else plan.origin(event)  # type: ignore[misc]
        held.add_label(id_, label, w, origin)
        self._trim(plan)

    def _keep_first(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        self._trim(plan)  # an earlier correction may have made a label longer

    def _reject(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        event, _, label, _, _ = arrival
        plan.rejected[event] = self.state.labels.refuse(label)

    def _put_off(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        plan.rejected[arrival[0]] = "correction_rate"

    def _refuse_early(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        label, _, _, origin = self.state.remove_label(id_)
        self.state.votes.pop(id_, None)
        reason = self.state.labels.refuse(label)
        plan.refused.append(Refused(arrival[0], label, reason, origin))

    def _drop_label(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        self.state.remove_label(id_)
        self.state.votes.pop(id_, None)

    def _give_up(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        slot, _ = self.state.remove_row(id_)
        self.state.votes.pop(id_, None)
        plan.no_longer_waits(slot)
        self.state.label_delays.gave_up()
        self._release(plan, slot)
        self._settle(plan, id_, (None, self.state.time, -1, 0.0, 0))

    def _forget(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        slot = self.state.remove_settled()[2]
        self.state.votes.pop(id_, None)
        self._release(plan, slot)

    def _correct(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        held = self.state
        known, _, slot, known_w, learned = held.settled[id_]
        assert known is not None  # noqa: S101  or it would be UNLABELLED
        age = held.learned - learned
        held.repaid_at = repaid_after(held.repaid_at, self._first_labels)
        plan.correction = Correction(id_, slot, known, known_w, label, w, age)

    def _relabel(self, plan: Plan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        self.labels.add(label)
        self.state.learned += 1
        self.state.relabel(id_, label, w)

    # What actions share.

    def _learn(self, plan: Plan, id_: str, step: Step, size: int = 0) -> None:
        """Learn a row; `size` is that of a row of this call."""
        _, row, slot, label, w = step
        held = self.state
        assert label is not None  # noqa: S101  the step learns
        held.labels.learned.add(label)
        held.learned += 1
        plan.steps.append(step)
        if not self.corrections:
            self._release(plan, slot)
            self._settle(plan, id_, (label, held.time, -1, w, held.learned))
        elif slot >= 0:
            self._settle(plan, id_, (label, held.time, slot, w, held.learned))
        else:
            self._settle(plan, id_, (label, held.time, -1, w, held.learned))
            slot = held.rows.take(size)  # only now: settling may have freed one
            plan.kept.put(slot, row=row, began=False)
            held.keep_settled_row(id_, slot, size)
        self._trim(plan)

    def _hold(self, plan: Plan, id_: str, label: Label) -> None:
        """Settle an id whose label is held back."""
        self._settle(plan, id_, (label, self.state.time, -1, 0.0, 0))
        self._trim(plan)

    def _settle(self, plan: Plan, id_: str, settled: SettledId) -> None:
        ids = self.state.settled
        if len(ids) >= self.max_pending:
            self._run(plan, ids.oldest_id, LABELLED, OVERFLOW)
        self.state.settle(id_, settled)

    def _release(self, plan: Plan, slot: int) -> None:
        """The row in this slot, if any, is no longer kept."""
        if slot >= 0:
            if not plan.kept.drop(slot):
                plan.freed.append(slot)
            self.state.rows.give(slot)

    # Bounds. EARLY and UNFIT labels are removed in the same way, and so are all settled ids (tests
    # check this). So the state of a removed id need not be looked up.

    def pass_time(self, plan: Plan, time: int) -> None:
        """Advance stream time. Ids older than the horizon expire, oldest first."""
        held = self.state
        held.time = time
        limit = time - self.horizon
        if limit <= held.oldest:
            return
        settled = held.settled
        while (oldest := settled.oldest) is not None and oldest[1] < limit:
            self._run(plan, settled.oldest_id, LABELLED, EXPIRY)
        labels, rows = held.before(limit)
        for id_ in labels:
            self._run(plan, id_, EARLY, EXPIRY)
        for id_ in rows:
            self._run(plan, id_, WAITING, EXPIRY)
        held.find_oldest()

    def _trim(self, plan: Plan) -> None:
        """Remove the oldest ids until the rest fits into `max_bytes`."""
        held, most = self.state, self.max_bytes
        share = most // EARLY_SHARE
        while held.early_bytes > share:
            self._run(plan, held.early.oldest_id, EARLY, OVERFLOW)
        while held.text_bytes + held.rows.bytes > most:
            if held.settled_bytes > share:
                self._run(plan, held.settled.oldest_id, LABELLED, OVERFLOW)
            else:  # early labels and settled ids take at most half, so something waits
                self._run(plan, held.waiting.oldest_id, WAITING, OVERFLOW)


def same(first: Label, label: object) -> bool:
    """Whether two labels are equal and of one type: 1 and True are two labels."""
    return type(label) is type(first) and label == first


ACTS: dict[JoinAction, Act] = {
    JoinAction.COUNT: LabelJoin._count,
    JoinAction.PREDICT: LabelJoin._predict,
    JoinAction.WAIT: LabelJoin._wait,
    JoinAction.LEARN_INSIDE: LabelJoin._learn_inside,
    JoinAction.LEARN_EARLY: LabelJoin._learn_early,
    JoinAction.LEARN_KEPT: LabelJoin._learn_kept,
    JoinAction.LEARN_SILENT: LabelJoin._learn_silent,
    JoinAction.HOLD_INSIDE: LabelJoin._hold_inside,
    JoinAction.HOLD_EARLY: LabelJoin._hold_early,
    JoinAction.HOLD_KEPT: LabelJoin._hold_kept,
    JoinAction.KEEP_LABEL: LabelJoin._keep_label,
    JoinAction.KEEP_FIRST: LabelJoin._keep_first,
    JoinAction.REJECT: LabelJoin._reject,
    JoinAction.PUT_OFF: LabelJoin._put_off,
    JoinAction.REFUSE_EARLY: LabelJoin._refuse_early,
    JoinAction.DROP_LABEL: LabelJoin._drop_label,
    JoinAction.GIVE_UP: LabelJoin._give_up,
    JoinAction.FORGET: LabelJoin._forget,
    JoinAction.CORRECT: LabelJoin._correct,
    JoinAction.RELABEL: LabelJoin._relabel,
}


def _compiled(rules: Table) -> Compiled:
    """Outcomes and method of each transition."""
    return {
        state: {event: (run.outcomes, _act(run.actions)) for event, run in row.items()}
        for state, row in rules.items()
    }


def _act(actions: tuple[JoinAction, ...]) -> Act:
    first, *others = (ACTS[action] for action in actions)
    if not others:
        return first

    def every(join: LabelJoin, plan: Plan, id_: str, arrival: Arrival) -> None:
        for act in (first, *others):
            act(join, plan, id_, arrival)

    return every
