"""The delayed-label join: which observation a label is for, and what to do with it.

Pure and bounded. Events come in order; each becomes steps over rows:

    observation, no label yet         PREDICT, then it waits in a slot
    observation with its label        PREDICT_THEN_LEARN (inside it, or the label came early)
    label of a waiting observation    LEARN on the row as it was encoded then
    label of nothing known            it waits for its observation: early
    anything about a settled id       counted, never learned twice; the first label wins
    another label of a settled id     with `corrections`: a Correction, while its row is kept

Ids are compared as text. Waiting observations, early labels and settled ids are bounded by
`max_pending` each (the oldest goes) and by age in stream time (`horizon`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream.accounting import LabelAccounting
from stream.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.held import KEPT, Early, Held, Settled, Waiting, ids_of, keyed, older, repeated
from stream.labels import AcceptedLabels
from stream.plan import Correction, Plan, Target
from stream.schema import Dictionary, Label, plain_label
from stream.state import State, pack

__all__ = ["DAY_MS", "LabelJoin"]

DAY_MS = 86_400_000


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
    corrections
        Whether a second, different label replaces the first one. The rows of settled ids are
        then kept like those that wait.

    Examples
    --------
    >>> from stream.plan import Plan
    >>> join = LabelJoin(max_pending=2)
    >>> plan = Plan()
    >>> join.observe(plan, event=0, row=0, id="a", time=0)
    >>> join.answer(plan, event=1, id="a", label=True, w=1.0, time=5)
    >>> plan.op, plan.y, join.pending
    ([0, 1], [None, True], 0)
    """

    def __init__(
        self,
        max_pending: int = 100_000,
        horizon: int = 7 * DAY_MS,
        max_classes: int = 256,
        corrections: bool = False,
    ) -> None:
        self.max_pending = max_pending
        self.horizon = horizon
        self.corrections = corrections
        self._accepted = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.account = LabelAccounting()
        self.time = 0
        # Ordered dicts: the first key of a plain one costs a scan over those deleted before it.
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._early: OrderedDict[str, Early] = OrderedDict()
        self._settled: OrderedDict[str, Settled] = OrderedDict()
        self._free: list[int] = []
        self._slots = 0
        self._learned = 0  # records so far
        self._oldest = 0  # nothing held is older: most records need no sweep

    @property
    def labels(self) -> Dictionary:
        """The labels learned, in the order they first were."""
        return self._accepted.learned

    @property
    def pending(self) -> int:
        """Observations that wait for their label."""
        return len(self._waiting)

    def kept_slots(self) -> NDArray[np.int64]:
        """The slots of the rows that are kept: waiting ones, then settled ones, oldest first."""
        slots = [v.slot for v in self._waiting.values()]
        if self.corrections:
            slots += [v.slot for v in self._settled.values() if v.slot >= 0]
        return np.array(slots, dtype=np.int64)

    @property
    def waited(self) -> int | None:
        """Milliseconds of stream time the oldest pending observation has waited; None: none."""
        oldest = next(iter(self._waiting.values()), None)
        return None if oldest is None else self.time - oldest.time

    @property
    def early(self) -> int:
        """Labels that wait for their observation."""
        return len(self._early)

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
        learn: bool = True,
    ) -> None:
        """An observation, perhaps with its label inside. `learn` False: a label is held back."""
        self._advance(time, plan)
        here = Target(row, -1)
        accepted = None
        if label is not None:
            accepted = self._accept(plan, event, label)
            if accepted is None:
                return
        if id in self._waiting or id in self._settled:
            self.outcomes["duplicate_observation"] += 1
            self.account.gave_up()
            plan.step(PREDICT, here)
            return
        early = self._early.pop(id, None)
        if early is not None:
            self._accepted.release(early.label)
            if accepted is not None:
                self.outcomes[repeated(early.label, accepted)] += 1
            accepted, w = early.label, early.w
        if accepted is not None:
            self.account.label_came(0)
            self._learn(plan, PREDICT_THEN_LEARN, here, id, accepted, w, learn)
            return
        plan.step(PREDICT, here)
        if len(self._waiting) >= self.max_pending:
            self._evict(plan)
        slot = self._keep(plan, row)
        plan.began.add(slot)
        self._waiting[id] = Waiting(slot, self.time)

    def answer(
        self,
        plan: Plan,
        *,
        event: int,
        id: str,  # noqa: A002  the wire's name
        label: object,
        w: float,
        time: int,
        learn: bool = True,
    ) -> None:
        """A label for the observation `id`. `learn` False: it is held back."""
        self._advance(time, plan)
        waiting = self._waiting.get(id)
        settled = self._settled.get(id) if waiting is None else None
        if settled is not None:
            self._again(plan, event, id, settled, label, w, learn)
            return
        accepted = self._accept(plan, event, label)
        if accepted is None:
            return
        if waiting is None:
            self._keep_early(id, accepted, w)
            return
        del self._waiting[id]
        plan.no_longer_waits(waiting.slot)
        self.account.label_came(self.time - waiting.time)
        target = Target(plan.kept.get(waiting.slot, -1), waiting.slot)
        self._learn(plan, LEARN, target, id, accepted, w, learn)

    def _again(
        self,
        plan: Plan,
        event: int,
        id_: str,
        settled: Settled,
        label: object,
        w: float,
        learn: bool,
    ) -> None:
        """Another label for a settled id."""
        outcome = repeated(settled.label, label)
        if outcome != "conflicting" or settled.slot < 0:
            self.outcomes[outcome] += 1
            return
        accepted = self._accept(plan, event, label)
        if accepted is None:
            return
        if not learn:
            self.outcomes["held_back"] += 1
            return
        assert settled.label is not None  # noqa: S101  or it came late
        plan.correction = Correction(
            id_,
            settled.slot,
            settled.label,
            settled.w,
            accepted,
            w,
            self._learned - settled.learned,
        )

    def corrected(self, due: Correction) -> None:
        """The correction is done: its new label is learned, as old as the first one was."""
        self.labels.add(due.new)
        self.outcomes["corrected"] += 1
        self._learned += 1
        settled = self._settled[due.id]
        self._settled[due.id] = settled._replace(label=due.new, w=due.new_w)

    def conflicted(self) -> None:
        """A correction could not be done: the first label stands."""
        self.outcomes["conflicting"] += 1

    def _learn(
        self, plan: Plan, op: int, target: Target, id_: str, label: Label, w: float, learn: bool
    ) -> None:
        if not learn:
            self.outcomes["held_back"] += 1
            if op == PREDICT_THEN_LEARN:
                plan.step(PREDICT, target)
            self._release(plan, target.slot)
            self._settle(plan, id_, Settled(label, self.time))
            return
        self.labels.add(label)
        self.outcomes["joined"] += 1
        self._learned += 1
        plan.step(op, target, label, w)
        slot = target.slot
        if not self.corrections:
            self._release(plan, slot)
            slot = -1
        self._settle(plan, id_, Settled(label, self.time, slot, w, self._learned))
        if self.corrections and slot < 0:  # only now: settling may have let a slot go
            slot = self._keep(plan, target.row)
            self._settled[id_] = self._settled[id_]._replace(slot=slot)

    def _settle(self, plan: Plan, id_: str, settled: Settled) -> None:
        if len(self._settled) >= self.max_pending:
            self._release(plan, self._settled.popitem(last=False)[1].slot)
            self.outcomes["forgotten"] += 1
        self._settled[id_] = settled

    def _keep(self, plan: Plan, row: int) -> int:
        """A slot for a row of this call."""
        slot = self._free.pop() if self._free else self._slots
        self._slots = max(self._slots, slot + 1)
        plan.kept[slot] = row
        return slot

    def _release(self, plan: Plan, slot: int) -> None:
        if slot >= 0:
            plan.kept.pop(slot, None)
            self._free.append(slot)

    def _keep_early(self, id_: str, label: Label, w: float) -> None:
        before = self._early.get(id_)
        if before is not None:
            self.outcomes[repeated(before.label, label)] += 1
            return
        if len(self._early) >= self.max_pending:
            self._accepted.release(self._early.popitem(last=False)[1].label)
            self.outcomes["early_evicted"] += 1
        self._early[id_] = Early(label, w, self.time)
        self._accepted.promise(label)
        self.outcomes["early"] += 1

    def _accept(self, plan: Plan, event: int, value: object) -> Label | None:
        """The label if it may be learned now or later; None where it was refused."""
        reason = self._accepted.refusal(value)
        if reason is None:
            return plain_label(value)
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
        for id_ in older(self._settled.items(), limit):
            self._release(plan, self._settled.pop(id_).slot)
        for id_ in older(self._early.items(), limit):
            self._accepted.release(self._early.pop(id_).label)
            self.outcomes["early_expired"] += 1
        for id_ in older(self._waiting.items(), limit):
            self._forget(plan, id_)
            self.outcomes["expired"] += 1
        held: tuple[Mapping[str, Held], ...] = (self._settled, self._early, self._waiting)
        self._oldest = min((d[next(iter(d))].time for d in held if d), default=time)

    def _evict(self, plan: Plan) -> None:
        self._forget(plan, next(iter(self._waiting)))
        self.outcomes["evicted"] += 1

    def _forget(self, plan: Plan, id_: str) -> None:
        slot = self._waiting.pop(id_).slot
        plan.no_longer_waits(slot)
        self.account.gave_up()
        self._release(plan, slot)
        self._settle(plan, id_, Settled(None, self.time))

    def to_state(self) -> State:
        """The whole state. O(pending)."""
        header = {
            "labels": list(self.labels),
            "overflow": self.labels.overflow,
            "outcomes": dict(self.outcomes),
            "account": self.account.to_header(),
            "time": self.time,
            "slots": self._slots,
            "early_labels": [e.label for e in self._early.values()],
            "settled_labels": [s.label for s in self._settled.values()],
            "promised": self._accepted.promised,
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
        arrays["waiting_slot"] = np.array([v.slot for v in self._waiting.values()], dtype=np.int64)
        arrays["early_w"] = np.array([e.w for e in self._early.values()], dtype=np.float64)
        if self.corrections:  # without, there is nothing to tell of what is settled
            header["learned"] = self._learned
            for name, dtype in KEPT:
                values = [getattr(s, name) for s in self._settled.values()]
                arrays[f"settled_{name}"] = np.array(values, dtype=dtype)
        return State(header, arrays)

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged.
        """
        header = state.header
        self._accepted.load(header["labels"], header["overflow"])
        self.outcomes = Counter(header["outcomes"])
        self.account = LabelAccounting()
        if "account" in header:  # saved before there was one: it begins here
            self.account.load_header(header["account"])
        self.time, self._slots = header["time"], header["slots"]
        self._oldest = 0
        self._free = state.array("free", np.int64, 1).tolist()
        ids = {name: ids_of(state, name) for name in ("waiting", "early", "settled")}
        times = {n: state.array(f"{n}_time", np.int64, 1).tolist() for n in ids}
        slots = state.array("waiting_slot", np.int64, 1).tolist()
        weights = state.array("early_w", np.float64, 1).tolist()
        self._waiting = keyed(ids["waiting"], map(Waiting, slots, times["waiting"]))
        early = map(Early, header["early_labels"], weights, times["early"])
        self._early = keyed(ids["early"], early)
        columns = [header["settled_labels"], times["settled"]]
        if self.corrections:
            self._learned = header["learned"]
            for name, dtype in KEPT:
                columns.append(state.array(f"settled_{name}", dtype, 1).tolist())
        self._settled = keyed(ids["settled"], map(Settled, *columns))
        promised = (e.label for e in self._early.values())
        self._accepted.load_promised(header["promised"], promised)
