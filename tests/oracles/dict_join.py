"""The label join over dicts: slow and obvious where `stream.join` has arrays and kernels.

It runs the table of transitions event by event, and keeps ids, rows and slots in dicts and lists.
So it says whether the kernels, the table of ids and its lists do what the table of transitions and
dicts do. Silence and reporters are left out. Whether the transitions are right is what `JoinTwin`
says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.data.schema import Dictionary, Label, text_bytes
from stream.join.events import EventFeed
from stream.join.join import DAY_MS, EARLY_SHARE, UNBOUNDED, same
from stream.join.label_delay import (
    DELAY_BOUNDS_MS,
    MOST_CORRECTIONS,
    LabelDelays,
    is_over_rate,
    repaid_after,
)
from stream.join.labels import AcceptedLabels
from stream.join.plan import Correction, Refused, RowChanges, StepColumns
from stream.join.transitions import IdEvent, IdState, JoinAction, Table, table

__all__ = ["DictJoin"]

WAITING, EARLY = IdState.WAITING, IdState.EARLY
LABELLED, CORRECTABLE = IdState.LABELLED, IdState.CORRECTABLE
OBSERVATION, OBSERVATION_LABEL = IdEvent.OBSERVATION, IdEvent.OBSERVATION_LABEL
OBSERVATION_SAME, OBSERVATION_REFUSED = IdEvent.OBSERVATION_SAME, IdEvent.OBSERVATION_REFUSED
LABEL, LABEL_SAME, LABEL_REFUSED = IdEvent.LABEL, IdEvent.LABEL_SAME, IdEvent.LABEL_REFUSED
LABEL_OVER_RATE = IdEvent.LABEL_OVER_RATE
EXPIRY, OVERFLOW = IdEvent.EXPIRY, IdEvent.OVERFLOW
SILENT = (IdEvent.SILENCE, IdEvent.SILENCE_VOID)

# Op; the row of this call, or -1; the slot of the row if it is kept, else -1; label and weight if
# it learns.
Step: TypeAlias = tuple[int, int, int, Any, float]
# The number of an event, the row of an observation, label and weight, and the bytes of the row.
Arrival: TypeAlias = tuple[int, int, Any, float, int]
Act: TypeAlias = Callable[["DictJoin", "DictPlan", str, Arrival], None]
Compiled: TypeAlias = Mapping[IdState, Mapping[IdEvent, tuple[tuple[str, ...], Act]]]
NOTHING: Arrival = (-1, -1, None, 1.0, 0)  # for events that do not come from the stream


@dataclass
class DictPlan:
    """The plan of one call, in lists."""

    labels: Dictionary
    origin: Callable[[int], bytes] | None
    steps: list[Step] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    waits: set[int] = field(default_factory=set)
    freed: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    correction: Correction | None = None
    corrected: list[Correction] = field(default_factory=list)

    def put(self, slot: int, row: int, *, began: bool) -> None:
        self.kept[slot] = row
        if began:
            self.waits.add(slot)

    def no_longer_waits(self, slot: int) -> None:
        if slot in self.waits:
            self.waits.remove(slot)
        else:
            self.ended.append(slot)

    def columns(self) -> StepColumns:
        codes = [-1 if y is None else self.labels.codes[y] for *_, y, _ in self.steps]
        ops, rows, slots, _, weights = zip(*self.steps, strict=True) if self.steps else [()] * 5
        return StepColumns(*map(np.array, (ops, rows, slots, codes, weights)))

    def changes(self) -> RowChanges:
        began = [slot in self.waits for slot in self.kept]
        kept = np.array(list(self.kept)), np.array(list(self.kept.values()))
        return RowChanges(*kept, np.array(began), np.array(self.ended), np.array(self.freed))


class Ids(OrderedDict[str, Any]):
    """Ids by time of arrival."""

    @property
    def oldest_id(self) -> str:
        return next(iter(self))

    @property
    def oldest(self) -> Any:
        return next(iter(self.values()), None)

    def before(self, limit: int) -> list[str]:
        out = []
        for id_, kept in self.items():
            if kept[1] >= limit:
                break
            out.append(id_)
        return out


class Slots:
    """Slots of rows; the last freed one is used first."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.free: list[int] = []
        self.sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        slot = self.free.pop() if self.free else self.count
        self.count = max(self.count, slot + 1)
        self.sizes[slot] = size
        self.bytes += size
        return slot

    def give(self, slot: int) -> None:
        self.free.append(slot)
        self.bytes -= self.sizes.pop(slot)

    def size(self, slot: int) -> int:
        return self.sizes.get(slot, 0)


class DictState:
    """What `JoinState` knows, in dicts."""

    def __init__(self, max_classes: int) -> None:
        self.waiting, self.early, self.settled = Ids(), Ids(), Ids()
        self.votes: dict[str, Any] = {}
        self.rows = Slots()
        self.labels = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.label_delays = LabelDelays()
        self.time = self.oldest = self.learned = self.repaid_at = 0
        self.text_bytes = self.early_bytes = self.settled_bytes = 0

    def of(self, id_: str) -> IdState:
        if id_ in self.waiting:
            return IdState.WAITING
        if id_ in self.settled:
            label, _, slot, *_ = self.settled[id_]
            if label is None:
                return IdState.UNLABELLED
            return IdState.LABELLED if slot < 0 else IdState.CORRECTABLE
        if id_ not in self.early:
            return IdState.UNKNOWN
        fit = self.labels.refusal(self.early[id_][0]) is None
        return IdState.EARLY if fit else IdState.UNFIT

    def weight(self, id_: str, label: object = None) -> int:
        return text_bytes(id_) + (text_bytes(label) if type(label) is str else 0)

    def add_row(self, id_: str, slot: int) -> None:
        self.waiting[id_] = (slot, self.time)
        self.text_bytes += self.weight(id_)

    def remove_row(self, id_: str) -> Any:
        self.text_bytes -= self.weight(id_)
        return self.waiting.pop(id_)

    def add_label(self, id_: str, label: Any, w: float, origin: bytes) -> None:
        self.early[id_] = (label, self.time, w, origin)
        self.text_bytes += self.weight(id_, label) + len(origin)
        self.early_bytes += self.weight(id_, label) + len(origin)

    def remove_label(self, id_: str) -> Any:
        label, _, _, origin = early = self.early.pop(id_)
        self.text_bytes -= self.weight(id_, label) + len(origin)
        self.early_bytes -= self.weight(id_, label) + len(origin)
        return early

    def settle(self, id_: str, settled: Any) -> None:
        self.settled[id_] = settled
        self._count(id_, settled, 1)

    def keep_settled_row(self, id_: str, slot: int, size: int) -> None:
        label, time, _, w, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        self.settled_bytes += size

    def relabel(self, id_: str, label: Any, w: float) -> None:
        old, time, slot, _, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        longer = self.weight("", label) - self.weight("", old)
        self.text_bytes += longer
        self.settled_bytes += longer

    def remove_settled(self) -> Any:
        id_, settled = self.settled.popitem(last=False)
        self._count(id_, settled, -1)
        return settled

    def _count(self, id_: str, settled: Any, times: int) -> None:
        size = self.weight(id_, settled[0])
        self.text_bytes += times * size
        self.settled_bytes += times * (size + self.rows.size(settled[2]))

    def before(self, limit: int) -> tuple[list[str], list[str]]:
        return self.early.before(limit), self.waiting.before(limit)

    def find_oldest(self) -> None:
        kept = (self.waiting, self.early, self.settled)
        self.oldest = min((ids.oldest[1] for ids in kept if ids), default=self.time)


class DictJoin:
    """The join over dicts. It cannot be saved."""

    def __init__(
        self,
        max_pending: int = 100_000,
        horizon: int = 7 * DAY_MS,
        max_classes: int = 256,
        corrections: bool = False,
        max_bytes: int = UNBOUNDED,
        max_corrections: int = MOST_CORRECTIONS,
    ) -> None:
        self.max_pending, self.horizon, self.max_bytes = max_pending, horizon, max_bytes
        self.corrections, self.max_corrections = corrections, max_corrections
        self.bytes_per_class = 0
        self.state = DictState(max_classes)
        self._learning = _compiled(table(corrections=corrections))
        self._holding = _compiled(table(corrections=corrections, held_back=True))

    @property
    def labels(self) -> Dictionary:
        return self.state.labels.learned

    @property
    def outcomes(self) -> Counter[str]:
        return self.state.outcomes

    def begin(self, feed: EventFeed) -> DictPlan:
        return DictPlan(self.labels, feed.events.origin)

    def plan_common(self, plan: DictPlan, feed: EventFeed, learns: Callable[[int], bool]) -> None:
        pass

    def plan_next(self, plan: DictPlan, feed: EventFeed, *, learn: bool = True) -> bool:
        at, events = feed.at, feed.events
        known = {"event": at, "id": events.ids[at], "time": events.times[at], "learn": learn}
        labelled = {"label": events.labels[at], "w": events.weights[at]}
        if (row := events.row[at]) < 0:
            self.on_label(plan, **known, **labelled)
        else:
            self.on_observation(plan, **known, **labelled, row=row, size=feed.sizes[row])
        feed.at += 1
        return True

    def count(self, plan: DictPlan) -> None:
        pass

    def _nowhere(self) -> DictPlan:
        return DictPlan(self.labels, None)

    def on_observation(
        self,
        plan: DictPlan,
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
        plan: DictPlan,
        *,
        event: int,
        id: str,  # noqa: A002  the wire's name
        label: object,
        w: float,
        time: int,
        learn: bool = True,
    ) -> None:
        """Plan a label for the observation `id`. `learn` False: it is held back."""
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

    def corrected(self, due: Correction) -> None:
        """The correction is done: its new label was learned."""
        arrival = (-1, -1, due.new, due.new_w, 0)
        self._run(self._nowhere(), due.id, CORRECTABLE, IdEvent.CORRECTED, arrival)

    def conflicted(self, due: Correction) -> None:
        """The correction could not be done: the first label stands."""
        self._run(self._nowhere(), due.id, CORRECTABLE, IdEvent.NOT_CORRECTED)

    def _run(
        self,
        plan: DictPlan,
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

    def _count(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        pass

    def _predict(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        self.state.label_delays.unlabelled += 1
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))

    def _wait(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, row, _, _, size = arrival
        held = self.state
        plan.steps.append((PREDICT, row, -1, None, 1.0))
        if len(held.waiting) >= self.max_pending:
            self._run(plan, held.waiting.oldest_id, WAITING, OVERFLOW)
        slot = held.rows.take(size)
        plan.put(slot, row, began=True)
        held.add_row(id_, slot)
        self._trim(plan)

    def _learn_inside(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, row, label, w, size = arrival
        label_came(self.state.label_delays, 0)
        self._learn(plan, id_, (PREDICT_THEN_LEARN, row, -1, label, w), size)

    def _learn_early(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, row, _, _, size = arrival
        label, _, w, _ = self.state.remove_label(id_)
        label_came(self.state.label_delays, 0)
        self._learn(plan, id_, (PREDICT_THEN_LEARN, row, -1, label, w), size)

    def _learn_kept(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        held = self.state
        slot, since = held.remove_row(id_)
        plan.no_longer_waits(slot)
        label_came(held.label_delays, held.time - since)
        self._learn(plan, id_, (LEARN, plan.kept.get(slot, -1), slot, label, w))

    def _hold_inside(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        label_came(self.state.label_delays, 0)
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))
        self._hold(plan, id_, arrival[2])

    def _hold_early(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        label, *_ = self.state.remove_label(id_)
        label_came(self.state.label_delays, 0)
        plan.steps.append((PREDICT, arrival[1], -1, None, 1.0))
        self._hold(plan, id_, label)

    def _hold_kept(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        held = self.state
        slot, since = held.remove_row(id_)
        plan.no_longer_waits(slot)
        label_came(held.label_delays, held.time - since)
        self._release(plan, slot)
        self._hold(plan, id_, arrival[2])

    def _keep_label(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        event, _, label, w, _ = arrival
        held = self.state
        if len(held.early) >= self.max_pending:
            self._run(plan, held.early.oldest_id, EARLY, OVERFLOW)
        # A label of a learned class is never rejected, so its record is not needed.
        safe = held.labels.knows(label) or plan.origin is None
        origin = b"" if safe else plan.origin(event)  # type: ignore[misc]
        held.add_label(id_, label, w, origin)
        self._trim(plan)

    def _keep_first(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        self._trim(plan)  # an earlier correction may have made a label longer

    def _reject(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        event, _, label, _, _ = arrival
        plan.rejected[event] = self.state.labels.refuse(label)

    def _put_off(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        plan.rejected[arrival[0]] = "correction_rate"

    def _refuse_early(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        label, _, _, origin = self.state.remove_label(id_)
        reason = self.state.labels.refuse(label)
        plan.refused.append(Refused(arrival[0], label, reason, origin))

    def _drop_label(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        self.state.remove_label(id_)

    def _give_up(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        slot, _ = self.state.remove_row(id_)
        plan.no_longer_waits(slot)
        self.state.label_delays.unlabelled += 1
        self._release(plan, slot)
        self._settle(plan, id_, (None, self.state.time, -1, 0.0, 0))

    def _forget(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        slot = self.state.remove_settled()[2]
        self._release(plan, slot)

    def _correct(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        held = self.state
        known, _, slot, known_w, learned = held.settled[id_]
        assert known is not None
        age = held.learned - learned
        held.repaid_at = repaid_after(held.repaid_at, self._first_labels)
        plan.correction = Correction(id_, slot, known, known_w, label, w, age)

    def _relabel(self, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        _, _, label, w, _ = arrival
        self.labels.add(label)
        self.state.learned += 1
        self.state.relabel(id_, label, w)

    # What actions share.

    def _learn(self, plan: DictPlan, id_: str, step: Step, size: int = 0) -> None:
        """Learn a row; `size` is that of a row of this call."""
        _, row, slot, label, w = step
        held = self.state
        assert label is not None
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
            plan.put(slot, row, began=False)
            held.keep_settled_row(id_, slot, size)
        self._trim(plan)

    def _hold(self, plan: DictPlan, id_: str, label: Label) -> None:
        """Settle an id whose label is held back."""
        self._settle(plan, id_, (label, self.state.time, -1, 0.0, 0))
        self._trim(plan)

    def _settle(self, plan: DictPlan, id_: str, settled: Any) -> None:
        ids = self.state.settled
        if len(ids) >= self.max_pending:
            self._run(plan, ids.oldest_id, LABELLED, OVERFLOW)
        self.state.settle(id_, settled)

    def _release(self, plan: DictPlan, slot: int) -> None:
        """The row in this slot, if any, is no longer kept."""
        if slot >= 0:
            if plan.kept.pop(slot, None) is None:
                plan.freed.append(slot)
            self.state.rows.give(slot)

    # Bounds. EARLY and UNFIT labels are removed in the same way, and so are all settled ids (tests
    # check this). So the state of a removed id need not be looked up.

    def pass_time(self, plan: DictPlan, time: int) -> None:
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

    def _trim(self, plan: DictPlan) -> None:
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


ACTS: dict[JoinAction, Act] = {
    JoinAction.COUNT: DictJoin._count,
    JoinAction.PREDICT: DictJoin._predict,
    JoinAction.WAIT: DictJoin._wait,
    JoinAction.LEARN_INSIDE: DictJoin._learn_inside,
    JoinAction.LEARN_EARLY: DictJoin._learn_early,
    JoinAction.LEARN_KEPT: DictJoin._learn_kept,
    JoinAction.HOLD_INSIDE: DictJoin._hold_inside,
    JoinAction.HOLD_EARLY: DictJoin._hold_early,
    JoinAction.HOLD_KEPT: DictJoin._hold_kept,
    JoinAction.KEEP_LABEL: DictJoin._keep_label,
    JoinAction.KEEP_FIRST: DictJoin._keep_first,
    JoinAction.REJECT: DictJoin._reject,
    JoinAction.PUT_OFF: DictJoin._put_off,
    JoinAction.REFUSE_EARLY: DictJoin._refuse_early,
    JoinAction.DROP_LABEL: DictJoin._drop_label,
    JoinAction.GIVE_UP: DictJoin._give_up,
    JoinAction.FORGET: DictJoin._forget,
    JoinAction.CORRECT: DictJoin._correct,
    JoinAction.RELABEL: DictJoin._relabel,
}


def _compiled(rules: Table) -> Compiled:
    """Outcomes and method of each transition."""
    return {
        state: {
            event: (run.outcomes, _act(run.actions))
            for event, run in row.items()
            if event not in SILENT
        }
        for state, row in rules.items()
    }


def _act(actions: tuple[JoinAction, ...]) -> Act:
    first, *others = (ACTS[action] for action in actions)
    if not others:
        return first

    def every(join: DictJoin, plan: DictPlan, id_: str, arrival: Arrival) -> None:
        for act in (first, *others):
            act(join, plan, id_, arrival)

    return every


def label_came(delays: LabelDelays, delay_ms: int) -> None:
    """Count a prediction that got its label."""
    delays.delays[bisect_left(DELAY_BOUNDS_MS, delay_ms)] += 1
    delays.delay_ms += delay_ms
