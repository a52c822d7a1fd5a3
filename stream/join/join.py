"""The delayed-label join: match labels to observations, by a table of transitions.

Pure and bounded. Events come in order; each becomes steps over rows for a learner. The rules are
the table in `transitions.py`. Kernels run it on the arrays of the state (`_kernels/planning.py`):
many common events in one call. For every other event this file finds the state of its id, judges
its label and looks up the transition. If that changes what is held, the kernel plans it alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary, Label
from stream.data.state import State
from stream.errors import SchemaError
from stream.join._kernels import ids as id_kernels
from stream.join._kernels import planning as kernels
from stream.join._kernels.ids import NO_LABEL, OTHER_LABEL
from stream.join._kernels.planning import (
    ADMIT_FIRST,
    AFTER_MS,
    BOUNDS,
    BY_KERNEL,
    CORRECTIONS,
    DECIDED,
    DELAY_HIGH,
    DELAY_LOW,
    DELAYS,
    DIFFERS,
    GONE,
    HEARD_ALL,
    HELD,
    HORIZON,
    MAX_BYTES,
    MAX_PENDING,
    NOTED,
    OTHER_BYTES,
    OUTCOME,
    ROW_EXTRA,
    SAME,
    SHARE,
    SILENT_CODE,
    UNLABELLED,
    VOID,
)
from stream.join.events import EventFeed, Events
from stream.join.label_delay import (
    DELAY_BOUNDS_MS,
    MOST_CORRECTIONS,
    LabelDelays,
    Silence,
    is_over_rate,
    repaid_after,
)
from stream.join.plan import Correction, Plan, Refused, StepArrays
from stream.join.state import JoinState
from stream.join.table import EARLY as EARLY_LABEL
from stream.join.table import SETTLED as SETTLED_ID
from stream.join.table import WAITING as WAITING_ROW
from stream.join.transitions import IdEvent, IdState, JoinAction, Table, table

__all__ = [
    "ACTS",
    "DAY_MS",
    "EARLY_SHARE",
    "UNBOUNDED",
    "Arrival",
    "LabelJoin",
    "compile_join",
    "same",
]

DAY_MS = 86_400_000
UNBOUNDED = 1 << 62
EARLY_SHARE = 4  # early labels get a quarter of `max_bytes`; a quarter of settled ids is kept
BUCKETS = np.array(DELAY_BOUNDS_MS, dtype=np.int64)
# What kernels count, by its place in the counts of a call.
OUTCOMES = (
    "joined",
    "early",
    "duplicate",
    "conflicting",
    "late",
    "early_expired",
    "early_evicted",
    "expired",
    "evicted",
    "forgotten",
    "duplicate_observation",
    "silence",
    "silence_ignored",
    "held_back",
)

EARLY, LABELLED, CORRECTABLE = IdState.EARLY, IdState.LABELLED, IdState.CORRECTABLE


@dataclass(slots=True)
class Arrival:
    """An event that is not common.

    Parameters
    ----------
    plan, feed
        Where it is planned, and the events it is of.
    event
        Its number.
    row
        That of an observation; -1 for a label.
    id, label, w
        Its id, label (None: without one) and weight.
    learn
        Whether its label may be learned; otherwise it is held back.
    same
        Whether its label is that of the id.
    """

    plan: Plan
    feed: EventFeed
    event: int
    row: int
    id: str
    label: Any
    w: float
    learn: bool
    same: bool = False


Act: TypeAlias = Callable[["LabelJoin", Arrival], None]
Compiled: TypeAlias = Mapping[IdState, Mapping[IdEvent, tuple[tuple[str, ...], tuple[Act, ...]]]]


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
        Whether kernels may plan common events. Otherwise `plan_next` decides about each event, and
        has to know of each id that goes.
    bytes_per_class : int
        Bytes of a waiting row for each label that was learned before it, and once more, beside its
        categories and texts. The learner that plans sets it.

    Examples
    --------
    >>> from stream.join.events import Events
    >>> join = LabelJoin(max_pending=2)
    >>> feed = EventFeed(Events(["a", "a"], [0, -1], [None, True], [1.0, 1.0], [0, 5]), [0])
    >>> plan = join.begin(feed)
    >>> join.plan_next(plan, feed), join.plan_next(plan, feed)
    (True, True)
    >>> op, row, slot, code, weight = plan.columns()
    >>> op.tolist(), row.tolist(), code.tolist(), join.labels.values
    ([0, 1], [0, 0], [-1, 0], [True])
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

    def begin(self, feed: EventFeed) -> Plan:
        """An empty plan for the next events of a feed."""
        events, ids = min(feed.count, feed.stop) - feed.at, self.state.table
        waiting, settled = ids.count(WAITING_ROW), ids.count(SETTLED_ID)
        gone = len(self.state.others)
        if not self.common:  # an id may be given up, and then be forgotten
            gone = 2 * (waiting + settled + ids.count(EARLY_LABEL))
        silent = 0 if self.silence is None else waiting
        return Plan(StepArrays.room(events, waiting, settled, gone, silent), self._bounds())

    def plan_common(self, plan: Plan, feed: EventFeed, learns: Callable[[int], bool]) -> None:
        """Plan events up to the first that is not common.

        Parameters
        ----------
        learns
            Called with the number of events that were planned since the last call. Returns whether
            labels may be learned until the next dead letter.
        """
        stop = feed.before_dead()
        if not self.common or stop <= feed.at:
            return
        columns, at = feed.columns(self.state), feed.at
        code = columns.code[at]
        may_be = code >= 0 or (code == NO_LABEL and columns.row[at] >= 0)
        if not (may_be and learns(0)):
            return
        plan.bounds[ROW_EXTRA] = self._row_extra
        if self.silence is not None:
            plan.bounds[SILENT_CODE] = self._silent_code(self.silence, learn=True)
        feed.at = self._plan(plan, feed, stop)
        learns(feed.at - at)

    def plan_next(self, plan: Plan, feed: EventFeed, *, learn: bool = True) -> bool:
        """Plan the next event by the table of transitions. `learn` False: its label is held back.

        Returns False if a row that the steps of this plan predict is to be learned by silence. Run
        the steps first, and void silence where the decisions ask for it; then plan the event.
        """
        held, events, at = self.state, feed.events, feed.at
        time = int(events.times[at])
        if not self._fall_silent(plan, at, time, learn=learn):
            return False
        if time > held.time:
            kernels.advance(held.table.arrays, plan.arrays, plan.bounds, time)
            self._changed(plan)
        plan.bounds[ROW_EXTRA] = self._row_extra  # before it has a new label
        known = int(events.row[at]), events.ids[at], events.labels[at], float(events.weights[at])
        self._decide(Arrival(plan, feed, at, *known, learn))
        feed.at += 1
        return True

    def count(self, plan: Plan) -> None:
        """Count what kernels planned since the last call."""
        tally = plan.arrays.tally
        counts: list[int] = tally.tolist()
        outcomes, delays = self.outcomes, self.label_delays
        for name, count in zip(OUTCOMES, counts[OUTCOME:DELAYS], strict=True):
            if count:
                outcomes[name] += count
        for bucket, count in enumerate(counts[DELAYS:]):
            delays.delays[bucket] += count
        delays.delay_ms += (counts[DELAY_HIGH] << 32) + counts[DELAY_LOW]
        delays.unlabelled += counts[UNLABELLED]
        tally[DELAY_HIGH:] = 0

    def corrected(self, due: Correction) -> None:
        """The correction is done: its new label was learned."""
        self._happened(CORRECTABLE, IdEvent.CORRECTED)
        self.labels.add(due.new)
        self.state.learned += 1
        self.state.relabel(due.id, due.new, due.new_w)

    def conflicted(self, due: Correction) -> None:
        """The correction could not be done: the first label stands."""
        self._happened(CORRECTABLE, IdEvent.NOT_CORRECTED)

    def forget_early(self, refused: Callable[[bytes], bool]) -> None:
        """Drop the early labels whose record was rejected in a span removed by a rollback."""
        kept = [(id_, origin) for id_, (*_, origin) in self.state.early.items() if origin]
        for id_ in [id_ for id_, origin in kept if refused(origin)]:
            self._happened(EARLY, IdEvent.WITHDRAWN)
            self.state.remove_label(id_)

    def outvoted(self, id_: str) -> None:
        """Drop an early label: reporters whose votes weigh more gave another one."""
        self._happened(EARLY, IdEvent.OUTVOTED)
        self.state.remove_label(id_)

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

    def _bounds(self) -> NDArray[np.int64]:
        """The bounds of a plan, for kernels."""
        bounds, silence = np.zeros(BOUNDS, dtype=np.int64), self.silence
        bounds[MAX_PENDING] = min(self.max_pending, UNBOUNDED)
        bounds[HORIZON] = min(self.horizon, UNBOUNDED)
        bounds[MAX_BYTES] = min(self.max_bytes, UNBOUNDED)
        bounds[SHARE] = bounds[MAX_BYTES] // EARLY_SHARE
        bounds[CORRECTIONS], bounds[NOTED] = self.corrections, not self.common
        bounds[AFTER_MS] = -1 if silence is None else min(silence.after, UNBOUNDED)
        return bounds

    @property
    def _row_extra(self) -> int:
        """Bytes of a waiting row beside its categories and texts."""
        return self.bytes_per_class * (1 + len(self.state.labels.learned))

    def _silent_code(self, silence: Silence, *, learn: bool) -> int:
        """The code of the label of silence."""
        labels = self.state.labels
        if not learn or labels.accepted(silence.label) is None:
            return VOID
        return self.state.code_of(silence.label)

    def _fall_silent(self, plan: Plan, at: int, time: int, *, learn: bool) -> bool:
        """Learn by silence what nobody labelled before `time`. Returns as `plan_next`."""
        silence, held = self.silence, self.state
        while silence is not None and held.unheard >= 0:
            plan.bounds[SILENT_CODE] = self._silent_code(silence, learn=learn)
            given = held.table.arrays, plan.arrays, plan.bounds, held.label_sizes, at, time
            heard = kernels.fall_silent(*given)
            self._changed(plan)
            if heard != ADMIT_FIRST:
                return bool(heard == HEARD_ALL)
            held.labels.learned.add(silence.label)
        return True

    def _plan(self, plan: Plan, feed: EventFeed, stop: int) -> int:
        """Let the kernel plan events up to `stop`. Returns the first that it did not plan."""
        held = self.state
        columns = feed.columns(held)
        given = held.table.arrays, columns, plan.arrays, plan.bounds, held.label_sizes, BUCKETS
        end = int(kernels.plan(*given, feed.at, stop))
        self._changed(plan)
        return end

    def _changed(self, plan: Plan) -> None:
        """Kernels changed what is held."""
        tally = plan.arrays.tally
        self.state.changed(plan.arrays.gone[: tally[GONE]])
        tally[GONE] = 0

    def _happened(self, state: IdState, event: IdEvent) -> None:
        """Count an event that does not come from the stream."""
        outcomes, _ = self._learning[state][event]
        for outcome in outcomes:
            self.outcomes[outcome] += 1

    @property
    def _first_labels(self) -> int:
        """How many labels were learned, without corrections."""
        return self.state.learned - self.state.outcomes["corrected"]

    def _decide(self, now: Arrival) -> None:
        """Find the transition of an event, and run it."""
        held = self.state
        state = held.of(now.id)
        what = self._observed(now, state) if now.row >= 0 else self._labelled(now, state)
        outcomes, acts = (self._learning if now.learn else self._holding)[state][what]
        for outcome in outcomes:
            held.outcomes[outcome] += 1
        for act in acts:
            act(self, now)

    def _observed(self, now: Arrival, state: IdState) -> IdEvent:
        """What an observation is to its id."""
        if now.label is None:
            return IdEvent.OBSERVATION
        held = self.state
        accepted = held.labels.accepted(now.label)
        if accepted is None:
            return IdEvent.OBSERVATION_REFUSED
        now.label, now.same = accepted, state is EARLY and same(held.early[now.id][0], accepted)
        return IdEvent.OBSERVATION_SAME if now.same else IdEvent.OBSERVATION_LABEL

    def _labelled(self, now: Arrival, state: IdState) -> IdEvent:
        """What a label on its own is to its id."""
        held = self.state
        first = held.settled[now.id][0] if state in (LABELLED, CORRECTABLE) else None
        if first is not None and same(first, now.label):
            return IdEvent.LABEL_SAME
        accepted = held.labels.accepted(now.label)
        if accepted is None:
            return IdEvent.LABEL_REFUSED
        now.label, now.same = accepted, state is EARLY and same(held.early[now.id][0], accepted)
        if now.same:
            return IdEvent.LABEL_SAME
        rate = held.repaid_at, self._first_labels, self.max_corrections
        over = state is CORRECTABLE and is_over_rate(*rate)
        return IdEvent.LABEL_OVER_RATE if over else IdEvent.LABEL

    # The actions of events, in the order of `JoinAction`.

    def _nothing(self, now: Arrival) -> None:
        pass

    def _change(self, now: Arrival, origin: bytes = b"") -> None:
        """Let the kernel plan this event, now that it is known what it is.

        `origin`: the record that is kept with a label that was not learned before.
        """
        held, bounds, at = self.state, now.plan.bounds, now.event
        columns, code = now.feed.columns(held), held.code_of(now.label)
        columns.code[at], columns.weight[at] = code, now.w
        if code == OTHER_LABEL:
            bounds[OTHER_BYTES] = held.weight("", now.label) + len(origin)
        bounds[HELD], bounds[DECIDED] = not now.learn, SAME if now.same else DIFFERS
        self._plan(now.plan, now.feed, at + 1)
        bounds[HELD], bounds[DECIDED] = False, BY_KERNEL
        if code == OTHER_LABEL:
            held.keep_other(now.id, now.label, origin)

    def _learn(self, now: Arrival) -> None:
        self.labels.add(now.label)
        self._change(now)

    def _early(self, now: Arrival) -> None:
        self.state.settle_early(now.id, learn=now.learn)
        self._change(now)

    def _keep_label(self, now: Arrival) -> None:
        # A label of a learned class is never rejected, so its record is not needed.
        origin = now.feed.events.origin
        safe = origin is None or self.state.labels.knows(now.label)
        self._change(now, b"" if safe else origin(now.event))  # type: ignore[misc]

    def _reject(self, now: Arrival) -> None:
        now.plan.rejected[now.event] = self.state.labels.refuse(now.label)

    def _put_off(self, now: Arrival) -> None:
        now.plan.rejected[now.event] = "correction_rate"

    def _refuse_early(self, now: Arrival) -> None:
        label, _, _, origin = self.state.remove_label(now.id)
        reason = self.state.labels.refuse(label)
        now.plan.refused.append(Refused(now.event, label, reason, origin))

    def _correct(self, now: Arrival) -> None:
        held = self.state
        known, _, slot, known_w, learned = held.settled[now.id]
        assert known is not None  # noqa: S101  or it would be UNLABELLED
        age = held.learned - learned
        held.repaid_at = repaid_after(held.repaid_at, self._first_labels)
        now.plan.correction = Correction(now.id, slot, known, known_w, now.label, now.w, age)


def same(first: Label, label: object) -> bool:
    """Whether two labels are equal and of one type: 1 and True are two labels."""
    return type(label) is type(first) and label == first


# Those that kernels run, and what is done before.
CHANGES: dict[JoinAction, Act] = {
    JoinAction.PREDICT: LabelJoin._change,
    JoinAction.WAIT: LabelJoin._change,
    JoinAction.LEARN_INSIDE: LabelJoin._learn,
    JoinAction.LEARN_EARLY: LabelJoin._early,
    JoinAction.LEARN_KEPT: LabelJoin._learn,
    JoinAction.HOLD_INSIDE: LabelJoin._change,
    JoinAction.HOLD_EARLY: LabelJoin._early,
    JoinAction.HOLD_KEPT: LabelJoin._change,
    JoinAction.KEEP_LABEL: LabelJoin._keep_label,
    JoinAction.KEEP_FIRST: LabelJoin._change,
}
# The actions of events. Those of time and bounds are run by kernels, and those of the learner and
# the service by the methods that they call.
ACTS: dict[JoinAction, Act] = {
    **CHANGES,
    JoinAction.COUNT: LabelJoin._nothing,
    JoinAction.REJECT: LabelJoin._reject,
    JoinAction.PUT_OFF: LabelJoin._put_off,
    JoinAction.REFUSE_EARLY: LabelJoin._refuse_early,
    JoinAction.CORRECT: LabelJoin._correct,
}


def _compiled(rules: Table) -> Compiled:
    """The outcomes of each transition that kernels do not count, and its methods."""
    out: dict[IdState, dict[IdEvent, tuple[tuple[str, ...], tuple[Act, ...]]]] = {}
    for state, row in rules.items():
        out[state] = {}
        for event, run in row.items():
            by_kernel = CHANGES.keys() & {*run.actions}
            outcomes = (o for o in run.outcomes if not (by_kernel and o in OUTCOMES))
            acts = tuple(ACTS[action] for action in run.actions if action in ACTS)
            out[state][event] = (tuple(outcomes), acts)
    return out


def compile_join() -> None:
    """Compile the kernels of a join."""
    join, labels = LabelJoin(corrections=True, silence=Silence("x", after=1)), ["x", None, "y"]
    for time in (0, 9):
        feed = EventFeed(Events(["a", "b", "c"], [0, 1, -1], labels, [1.0] * 3, [time] * 3), [0, 0])
        plan = join.begin(feed)
        while feed.at < feed.count:
            join.plan_next(plan, feed)
            join.plan_common(plan, feed, lambda passed: True)
    join.load_state(join.to_state())
    join.state.remove_label("c")
    id_kernels.move_ids(join.state.table.arrays, 0, 0)
