"""The delayed-label join: which observation a label is for, and what to do with it.

Pure and bounded. Events come in order; each becomes steps over rows:

    observation, no label yet         PREDICT, then it waits in a slot
    observation with its label        PREDICT_THEN_LEARN (inside it, or the label came early)
    label of a waiting observation    LEARN on the row as it was encoded then
    label of nothing known            it waits for its observation: early
    anything about a settled id       counted, never learned twice; the first label wins

Ids are compared as text. Waiting observations, early labels and settled ids are bounded by
`max_pending` each (the oldest goes) and by age in stream time (`horizon`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.errors import InvalidRecordError, Reason, StateError
from stream.schema import Dictionary, Label, plain_label
from stream.state import State, pack, unpack

__all__ = ["DAY_MS", "OUTCOMES", "LabelJoin", "Plan", "Target"]

V = TypeVar("V")

DAY_MS = 86_400_000

OUTCOMES = (
    "joined",  # learned, with its observation
    "early",  # kept until its observation comes
    "duplicate",  # the same label again for a settled id
    "conflicting",  # another label for a settled id: the first one stands
    "late",  # for an observation that had expired or was evicted
    "rejected",  # of another kind, or one class too many: a dead letter
    "early_expired",  # an early label whose observation did not come
    "expired",  # an observation whose label did not come within the horizon
    "evicted",  # an observation or early label that went because the bound was reached
    "forgotten",  # a settled id that went because the bound was reached
    "duplicate_observation",  # an id seen before: predicted, not learned again
)


class Target(NamedTuple):
    """The row a step works on: `row` of this call, or where that is -1, the one in `slot`."""

    row: int
    slot: int


@dataclass(slots=True)
class Plan:
    """Steps for one call, in order, and who waits afterwards.

    Parameters
    ----------
    op, targets, y, w
        One a step; `y` is None where it does not learn.
    waiting
        Slot to row of this call, for observations that wait at its end.
    rejected
        Event to the reason it was refused.
    """

    op: list[int] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    y: list[Label | None] = field(default_factory=list)
    w: list[float] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)
    rejected: dict[int, Reason] = field(default_factory=dict)

    def step(self, op: int, target: Target, y: Label | None = None, w: float = 1.0) -> None:
        self.op.append(op)
        self.targets.append(target)
        self.y.append(y)
        self.w.append(w)


class _Waiting(NamedTuple):
    slot: int
    time: int


class _Early(NamedTuple):
    label: Label
    w: float
    time: int


class _Settled(NamedTuple):
    label: Label | None  # None: it went before a label came
    time: int


_Held = _Waiting | _Early | _Settled


class LabelJoin:
    """Joins labels to the observations they answer.

    Parameters
    ----------
    max_pending
        How many observations wait at most; the same bound for early labels and settled ids.
    horizon
        How long they wait, in milliseconds of stream time.
    max_classes
        How many different labels are accepted.

    Examples
    --------
    >>> join = LabelJoin(max_pending=2)
    >>> plan = Plan()
    >>> join.observe(plan, event=0, row=0, id="a", time=0)
    >>> join.answer(plan, event=1, id="a", label=True, w=1.0, time=5)
    >>> plan.op, plan.y, join.pending
    ([0, 1], [None, True], 0)
    """

    def __init__(
        self, max_pending: int = 100_000, horizon: int = 7 * DAY_MS, max_classes: int = 256
    ) -> None:
        self.max_pending = max_pending
        self.horizon = horizon
        self.labels = Dictionary(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.time = 0
        # Ordered dicts: the first key of a plain one costs a scan over those deleted before it.
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._early: OrderedDict[str, _Early] = OrderedDict()
        self._settled: OrderedDict[str, _Settled] = OrderedDict()
        self._promised: Counter[Label] = Counter()
        self._free: list[int] = []
        self._slots = 0
        self._oldest = 0  # nothing held is older: most records need no sweep

    @property
    def pending(self) -> int:
        """Observations that wait for their label."""
        return len(self._waiting)

    def waiting_slots(self) -> NDArray[np.int64]:
        """The slots of the waiting observations, oldest first."""
        return np.array([v.slot for v in self._waiting.values()], dtype=np.int64)

    @property
    def slots(self) -> int:
        """One more than the largest slot ever used: the size of the store behind."""
        return self._slots

    def observe(
        self,
        plan: Plan,
        *,
        event: int,
        row: int,
        id: str,  # noqa: A002  the wire's name
        time: int,
        label: object = None,
        w: float = 1.0,
    ) -> None:
        """An observation, perhaps with its label inside."""
        self._advance(time, plan)
        here = Target(row, -1)
        accepted = None
        if label is not None:
            accepted = self._accept(plan, event, label)
            if accepted is None:
                return
        if id in self._waiting or id in self._settled:
            self.outcomes["duplicate_observation"] += 1
            plan.step(PREDICT, here)
            return
        early = self._early.pop(id, None)
        if early is not None:
            self._unpromise(early.label)
            if accepted is not None:
                self.outcomes[_second(early.label, accepted)] += 1
            accepted, w = early.label, early.w
        if accepted is not None:
            self._learn(plan, PREDICT_THEN_LEARN, here, id, accepted, w)
            return
        plan.step(PREDICT, here)
        if len(self._waiting) >= self.max_pending:
            self._evict(plan)
        slot = self._free.pop() if self._free else self._slots
        self._slots = max(self._slots, slot + 1)
        self._waiting[id] = _Waiting(slot, self.time)
        plan.waiting[slot] = row

    def answer(
        self,
        plan: Plan,
        *,
        event: int,
        id: str,  # noqa: A002  the wire's name
        label: object,
        w: float,
        time: int,
    ) -> None:
        """A label for the observation `id`."""
        self._advance(time, plan)
        waiting = self._waiting.get(id)
        settled = self._settled.get(id) if waiting is None else None
        if settled is not None:
            self.outcomes[_second(settled.label, label)] += 1
            return
        accepted = self._accept(plan, event, label)
        if accepted is None:
            return
        if waiting is None:
            self._keep_early(id, accepted, w)
            return
        del self._waiting[id]
        row = plan.waiting.pop(waiting.slot, -1)
        self._free.append(waiting.slot)
        self._learn(plan, LEARN, Target(row, waiting.slot), id, accepted, w)

    def _learn(self, plan: Plan, op: int, target: Target, id_: str, label: Label, w: float) -> None:
        self.labels.add(label)
        self.outcomes["joined"] += 1
        plan.step(op, target, label, w)
        self._settle(id_, label)

    def _settle(self, id_: str, label: Label | None) -> None:
        if len(self._settled) >= self.max_pending:
            self._settled.popitem(last=False)
            self.outcomes["forgotten"] += 1
        self._settled[id_] = _Settled(label, self.time)

    def _keep_early(self, id_: str, label: Label, w: float) -> None:
        before = self._early.get(id_)
        if before is not None:
            self.outcomes[_second(before.label, label)] += 1
            return
        if len(self._early) >= self.max_pending:
            self._unpromise(self._early.popitem(last=False)[1].label)
            self.outcomes["evicted"] += 1
        self._early[id_] = _Early(label, w, self.time)
        self._promised[label] += 1
        self.outcomes["early"] += 1

    def _unpromise(self, label: Label) -> None:
        self._promised[label] -= 1
        if not self._promised[label]:
            del self._promised[label]

    def _accept(self, plan: Plan, event: int, value: object) -> Label | None:
        """The label if it may be learned now or later; None where it was refused."""
        reason: Reason | None = None
        label: Label = ""
        try:
            label = plain_label(value)
        except InvalidRecordError as error:
            reason = error.reason
        first = next(iter(self.labels), None)
        if first is None:
            first = next(iter(self._promised), None)
        if reason is None and first is not None and type(label) is not type(first):
            reason = "label_kind"
        if reason is None and label not in self.labels and label not in self._promised:
            unlearned = sum(1 for p in self._promised if p not in self.labels)
            if len(self.labels) + unlearned >= self.labels.bound:
                self.labels.overflow += 1
                reason = "max_classes"
        if reason is None:
            return label
        plan.rejected[event] = reason
        self.outcomes["rejected"] += 1
        return None

    def _advance(self, time: int, plan: Plan) -> None:
        """Move stream time on; what is older than the horizon goes, oldest first."""
        if time <= self.time:
            return
        self.time = time
        limit = time - self.horizon
        if limit <= self._oldest:
            return
        for id_ in _older(self._settled.items(), limit):
            del self._settled[id_]
        for id_ in _older(self._early.items(), limit):
            self._unpromise(self._early.pop(id_).label)
            self.outcomes["early_expired"] += 1
        for id_ in _older(self._waiting.items(), limit):
            self._forget(plan, id_)
            self.outcomes["expired"] += 1
        held: tuple[Mapping[str, _Held], ...] = (self._settled, self._early, self._waiting)
        self._oldest = min((d[next(iter(d))].time for d in held if d), default=time)

    def _evict(self, plan: Plan) -> None:
        self._forget(plan, next(iter(self._waiting)))
        self.outcomes["evicted"] += 1

    def _forget(self, plan: Plan, id_: str) -> None:
        slot = self._waiting.pop(id_).slot
        plan.waiting.pop(slot, None)
        self._free.append(slot)
        self._settle(id_, None)

    def to_state(self) -> State:
        """The whole state. O(pending)."""
        header = {
            "labels": list(self.labels),
            "overflow": self.labels.overflow,
            "outcomes": dict(self.outcomes),
            "time": self.time,
            "slots": self._slots,
            "early_labels": [e.label for e in self._early.values()],
            "settled_labels": [s.label for s in self._settled.values()],
            "promised": list(self._promised),
        }
        arrays = {"free": np.array(self._free, dtype=np.int64)}
        for name, ids in (
            ("waiting", self._waiting),
            ("early", self._early),
            ("settled", self._settled),
        ):
            arrays |= {f"{name}_{k}": v for k, v in pack(ids).items()}
            times = [v.time for v in ids.values()]
            arrays[f"{name}_time"] = np.array(times, dtype=np.int64)
        arrays["waiting_slot"] = self.waiting_slots()
        arrays["early_w"] = np.array([e.w for e in self._early.values()], dtype=np.float64)
        return State(header, arrays)

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged.
        """
        header = state.header
        self.labels = Dictionary(self.labels.bound, header["labels"])
        self.labels.overflow = header["overflow"]
        self.outcomes = Counter(header["outcomes"])
        self.time, self._slots = header["time"], header["slots"]
        self._oldest = 0
        self._free = state.array("free", np.int64, 1).tolist()
        ids = {name: _ids(state, name) for name in ("waiting", "early", "settled")}
        times = {n: state.array(f"{n}_time", np.int64, 1).tolist() for n in ids}
        slots = state.array("waiting_slot", np.int64, 1).tolist()
        weights = state.array("early_w", np.float64, 1).tolist()
        self._waiting = _keyed(ids["waiting"], map(_Waiting, slots, times["waiting"]))
        early = map(_Early, header["early_labels"], weights, times["early"])
        self._early = _keyed(ids["early"], early)
        settled = map(_Settled, header["settled_labels"], times["settled"])
        self._settled = _keyed(ids["settled"], settled)
        counts = Counter(e.label for e in self._early.values())
        self._promised = Counter({label: counts[label] for label in header["promised"]})


def _second(first: Label | None, label: object) -> str:
    """The outcome of another label for an id whose first one was `first`."""
    if first is None:
        return "late"
    return "duplicate" if type(label) is type(first) and label == first else "conflicting"


def _older(items: Iterable[tuple[str, _Held]], limit: int) -> list[str]:
    """Ids at the front whose time is before `limit`. Times never fall along a dict."""
    out = []
    for id_, value in items:
        if value.time >= limit:
            break
        out.append(id_)
    return out


def _ids(state: State, name: str) -> list[str]:
    arrays = {k: state.arrays[f"{name}_{k}"] for k in ("lengths", "bytes")}
    ids = [i for i in unpack(arrays) if i is not None]
    if len(ids) != len(arrays["lengths"]):
        raise StateError(f"the ids of {name!r} are damaged")
    return ids


def _keyed(ids: list[str], values: Iterable[V]) -> OrderedDict[str, V]:
    return OrderedDict(zip(ids, values, strict=True))
