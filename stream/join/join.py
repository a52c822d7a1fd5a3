"""The delayed-label join: which observation a label is for, and what to do with it.

Pure and bounded. Events come in order; each becomes steps over rows:

    observation, no label yet         PREDICT, then it waits in a slot
    observation with its label        PREDICT_THEN_LEARN (inside it, or the label came early)
    label of a waiting observation    LEARN on the row as it was encoded then
    label of nothing known            it waits for its observation: early
    anything about a settled id       counted, never learned twice; the first label wins
    another label of a settled id     with `corrections`: a Correction, while its row is kept

Ids are compared as text. Waiting observations, early labels and settled ids are bounded by
`max_pending` each (the oldest goes), all together by their bytes, and by age in stream time
(`horizon`).

Only a label that meets its observation fixes the kind of all labels or fills `max_classes`. An
early label does neither: if it does not fit when its observation comes, it is refused then, and
`Plan` has the bytes of its record.

`rules` numbers these rules, because a journal replays under the rules it was begun with. Under
rules 1 an early label fixed the kind and filled `max_classes`, and ids, labels and the records of
early labels were not counted.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.data.schema import Dictionary, Label, plain_label, text_bytes
from stream.data.state import State
from stream.join.label_delay import LabelAccounting
from stream.join.labels import AcceptedLabels
from stream.join.plan import Correction, Plan, Refused
from stream.join.row_pool import Slots
from stream.join.state import Early, Fifo, Held, Settled, Waiting, loaded, older, repeated, saved

__all__ = ["DAY_MS", "RULES", "UNBOUNDED", "LabelJoin"]

DAY_MS = 86_400_000
UNBOUNDED = 1 << 62
RULES = 2  # those of a new journal
SHARE = 4  # early labels have one part of so many of `max_bytes`; so much of settled ids is kept


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
    max_bytes
        Of all ids, labels, rows (but for their numbers) and records of early labels that are held;
        the oldest go. Early labels take at most a quarter. Where all together take more, settled
        ids beyond a quarter go first, then observations that wait. Rows count as the model of the
        join holds them: what shadows of it hold besides is not counted, or a challenger would
        decide which observations the model may learn.
    rules
        1 for a journal that was begun before there were rules 2.

    Examples
    --------
    >>> from stream.join.plan import Plan
    >>> join, plan = LabelJoin(max_pending=2), Plan()
    >>> join.observe(plan, event=0, row=0, id="a", time=0)
    >>> join.answer(plan, event=1, id="a", label=True, w=1.0, time=5)
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
        rules: int = RULES,
    ) -> None:
        self.max_pending = max_pending
        self.max_bytes = max_bytes
        self.horizon = horizon
        self.corrections = corrections
        self.rules = rules
        self._accepted = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.account = LabelAccounting()
        self.time = 0
        # A Fifo where none but the oldest goes; of a plain dict that one would be hard to find.
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._early: OrderedDict[str, Early] = OrderedDict()
        self._settled: Fifo[Settled] = Fifo()
        self._slots = Slots()
        self._weigh()
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
        slots = [slot for slot, _ in self._waiting.values()]
        if self.corrections:
            slots += [slot for _, _, slot, *_ in self._settled.values() if slot >= 0]
        return np.array(slots, dtype=np.int64)

    @property
    def waited(self) -> int | None:
        """Milliseconds of stream time the oldest pending observation has waited; None: none."""
        oldest = next(iter(self._waiting.values()), None)
        return None if oldest is None else self.time - oldest[1]

    @property
    def early(self) -> int:
        """Labels that wait for their observation."""
        return len(self._early)

    @property
    def weigh(self) -> Callable[[str], int]:
        """What an id or a label counts towards `max_bytes`: by rules 1 nothing."""
        return text_bytes if self.rules > 1 else _nothing

    @property
    def held_bytes(self) -> int:
        """Bytes of the ids, labels, rows and records that are held, by the rule of `max_bytes`."""
        return self._texts + self._slots.bytes

    @property
    def slots(self) -> int:
        """One more than the largest slot ever used: the size of the store behind."""
        return self._slots.count

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
        size: int = 0,
    ) -> None:
        """An observation, perhaps with its label inside.

        `learn` False: a label is held back. `size`: bytes of its row, but for its numbers.
        """
        if time > self.time:
            self._advance(time, plan)
        accepted = None
        if label is not None:
            accepted = self._accept(plan, event, label)
            if accepted is None:
                return
        if id in self._waiting or id in self._settled:
            self.outcomes["duplicate_observation"] += 1
            self.account.gave_up()
            plan.steps.append((PREDICT, row, -1, None, 1.0))
            return
        if id in self._early:
            accepted, w = self._meet(plan, event, id, accepted, w)
        if accepted is not None:
            self.account.label_came(0)
            self._learn(plan, PREDICT_THEN_LEARN, (row, -1), id, accepted, w, learn, size)
        else:
            self._wait(plan, id, row, size)
        self._trim(plan)

    def _meet(
        self, plan: Plan, event: int, id_: str, inside: Label | None, w: float
    ) -> tuple[Label | None, float]:
        """The label of an observation, and its weight, where an early one waits for it: the early
        one is the first, so it wins over that inside."""
        known, _, early_w, _ = self._early[id_]
        if self.rules > 1 and self._refuse_early(plan, event, id_):
            return inside, w
        self._drop_early(id_)
        if inside is not None:
            self.outcomes[repeated(known, inside)] += 1
        return known, early_w

    def _wait(self, plan: Plan, id_: str, row: int, size: int) -> None:
        """Predict a row and keep it until its label comes."""
        plan.steps.append((PREDICT, row, -1, None, 1.0))
        if len(self._waiting) >= self.max_pending:
            self._forget(plan, next(iter(self._waiting)), "evicted")
        if size:
            self._make_room(plan, size)
        slot = self._keep(plan, row, size)
        plan.began.add(slot)
        self._waiting[id_] = (slot, self.time)
        self._texts += self.weigh(id_)

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
        if time > self.time:
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
            self._keep_early(plan, event, id, accepted, w)
        else:
            del self._waiting[id]
            self._texts -= self.weigh(id)
            slot, since = waiting
            plan.no_longer_waits(slot)
            self.account.label_came(self.time - since)
            self._learn(plan, LEARN, (plan.kept.get(slot, -1), slot), id, accepted, w, learn)
        self._trim(plan)

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
        known, _, slot, known_w, learned = settled
        outcome = repeated(known, label)
        if outcome != "conflicting" or slot < 0:
            self.outcomes[outcome] += 1
            return
        accepted = self._accept(plan, event, label)
        if accepted is None:
            return
        if not learn:
            self.outcomes["held_back"] += 1
            return
        assert known is not None  # noqa: S101  or it came late
        age = self._learned - learned
        plan.correction = Correction(id_, slot, known, known_w, accepted, w, age)

    def corrected(self, due: Correction) -> None:
        """The correction is done: its new label is learned, as old as the first one was."""
        self.labels.add(due.new)
        self.outcomes["corrected"] += 1
        self._learned += 1
        _, time, slot, _, learned = self._settled[due.id]
        self._settled[due.id] = (due.new, time, slot, due.new_w, learned)
        longer = self._weight(due.new) - self._weight(due.old)
        self._texts += longer
        self._settled_bytes += longer

    def conflicted(self) -> None:
        """A correction could not be done: the first label stands."""
        self.outcomes["conflicting"] += 1

    def _learn(
        self,
        plan: Plan,
        op: int,
        where: tuple[int, int],
        id_: str,
        label: Label,
        w: float,
        learn: bool,
        size: int = 0,
    ) -> None:
        """Learn a row; `where` is its row of this call and its slot, -1 each where it has none."""
        row, slot = where
        if not learn:
            self.outcomes["held_back"] += 1
            if op == PREDICT_THEN_LEARN:
                plan.steps.append((PREDICT, row, slot, None, 1.0))
            self._release(plan, slot)
            self._settle(plan, id_, (label, self.time, -1, 0.0, 0))
            return
        self._accepted.learned.add(label)
        self.outcomes["joined"] += 1
        self._learned += 1
        plan.steps.append((op, row, slot, label, w))
        if not self.corrections:
            self._release(plan, slot)
            self._settle(plan, id_, (label, self.time, -1, w, self._learned))
            return
        if slot < 0 and size:
            self._make_room(plan, size)
        self._settle(plan, id_, (label, self.time, slot, w, self._learned))
        if slot < 0:  # only now: settling may have let a slot go
            slot = self._keep(plan, row, size)
            self._settled[id_] = (label, self.time, slot, w, self._learned)
            self._settled_bytes += size

    def _settle(self, plan: Plan, id_: str, settled: Settled) -> None:
        if len(self._settled) >= self.max_pending:
            self._forget_settled(plan)
        self._settled.put(id_, settled)
        weight = self.weigh(id_) + self._weight(settled[0])
        self._texts += weight
        self._settled_bytes += weight + self._slots.size(settled[2])

    def _drop_settled(self, plan: Plan) -> None:
        """The oldest settled id goes."""
        id_ = self._settled.order[0]
        label, _, slot, *_ = self._settled.pop_oldest()
        weight = self.weigh(id_) + self._weight(label)
        self._texts -= weight
        self._settled_bytes -= weight + self._slots.size(slot)
        self._release(plan, slot)

    def _trim(self, plan: Plan) -> None:
        """Let the oldest go until what is held fits into `max_bytes`."""
        if self.rules == 1:
            return
        share = self.max_bytes // SHARE
        while self._early_bytes > share:
            self._drop_early(next(iter(self._early)))
            self.outcomes["early_evicted"] += 1
        while self.held_bytes > self.max_bytes:
            if self._settled_bytes > share:
                self._forget_settled(plan)
            else:  # early labels and settled ids take half at most: something waits
                self._forget(plan, next(iter(self._waiting)), "evicted")

    def _make_room(self, plan: Plan, size: int) -> None:
        """By rules 1: let the oldest rows go until there is room for so many bytes, or none is
        left."""
        held = self._slots
        while self.rules == 1 and held.bytes and held.bytes + size > self.max_bytes:
            if self.corrections and self._settled:
                self._forget_settled(plan)
            else:
                self._forget(plan, next(iter(self._waiting)), "evicted")

    def _forget_settled(self, plan: Plan) -> None:
        self._drop_settled(plan)
        self.outcomes["forgotten"] += 1

    def _keep(self, plan: Plan, row: int, size: int) -> int:
        """A slot for a row of this call."""
        slot = self._slots.take(size)
        plan.kept[slot] = row
        return slot

    def _release(self, plan: Plan, slot: int) -> None:
        if slot >= 0:
            if plan.kept.pop(slot, None) is None:
                plan.freed.append(slot)
            self._slots.give(slot)

    def _keep_early(self, plan: Plan, event: int, id_: str, label: Label, w: float) -> None:
        before = self._early.get(id_)
        if before is not None and self.rules > 1 and self._refuse_early(plan, event, id_):
            before = None  # what fixed the kind has shown since that it is not a label
        if before is not None:
            self.outcomes[repeated(before[0], label)] += 1
            return
        if len(self._early) >= self.max_pending:
            self._drop_early(next(iter(self._early)))
            self.outcomes["early_evicted"] += 1
        # Of a class that was learned already: nothing can refuse it, so its record is not needed.
        safe = self.rules == 1 or self._accepted.knows(label) or plan.origin is None
        origin = b"" if safe else plan.origin(event)  # type: ignore[misc]
        self._early[id_] = (label, self.time, w, origin)
        if self.rules == 1:
            self._accepted.promise(label)
        weight = self.weigh(id_) + self._weight(label) + len(origin)
        self._texts += weight
        self._early_bytes += weight
        self.outcomes["early"] += 1

    def _drop_early(self, id_: str) -> None:
        label, _, _, origin = self._early.pop(id_)
        if self.rules == 1:
            self._accepted.release(label)
        weight = self.weigh(id_) + self._weight(label) + len(origin)
        self._texts -= weight
        self._early_bytes -= weight

    def forget_early(self, refused: Callable[[bytes], bool]) -> None:
        """Drop the early labels whose record was refused in a history that is none any more."""
        kept = [(id_, origin) for id_, (*_, origin) in self._early.items() if origin]
        for id_ in [id_ for id_, origin in kept if refused(origin)]:
            self._drop_early(id_)
            self.outcomes["rejected"] += 1

    def _refuse_early(self, plan: Plan, event: int, id_: str) -> bool:
        """Whether the early label of this id does not fit any more; then it goes."""
        label, _, _, origin = self._early[id_]
        reason = None if self._accepted.knows(label) else self._accepted.refusal(label)
        if reason is None:
            return False
        self._drop_early(id_)
        plan.refused.append(Refused(event, label, reason, origin))
        self.outcomes["rejected"] += 1
        return True

    def _accept(self, plan: Plan, event: int, value: object) -> Label | None:
        """The label if it may be learned now or later; None where it was refused."""
        if self._accepted.knows(value):
            return value  # type: ignore[return-value]
        reason = self._accepted.refusal(value)
        if reason is None:
            return plain_label(value)
        plan.rejected[event] = reason
        self.outcomes["rejected"] += 1
        return None

    def _advance(self, time: int, plan: Plan) -> None:
        """Move stream time on; what is older than the horizon goes, oldest first."""
        self.time = time
        limit = time - self.horizon
        if limit <= self._oldest:
            return
        settled = self._settled
        while (oldest := settled.oldest) is not None and oldest[1] < limit:
            self._drop_settled(plan)
        for id_ in older(self._early.items(), limit):
            self._drop_early(id_)
            self.outcomes["early_expired"] += 1
        for id_ in older(self._waiting.items(), limit):
            self._forget(plan, id_, "expired")
        some: tuple[Mapping[str, Held], ...] = (self._early, self._waiting)
        first = [settled.oldest, *(next(iter(held.values()), None) for held in some)]
        self._oldest = min((held[1] for held in first if held is not None), default=time)

    def _forget(self, plan: Plan, id_: str, outcome: str) -> None:
        self.outcomes[outcome] += 1
        slot = self._waiting.pop(id_)[0]
        self._texts -= self.weigh(id_)
        plan.no_longer_waits(slot)
        self.account.gave_up()
        self._release(plan, slot)
        self._settle(plan, id_, (None, self.time, -1, 0.0, 0))

    def to_state(self) -> State:
        """The whole state. O(pending)."""
        header = {
            "labels": list(self.labels),
            "overflow": self.labels.overflow,
            "outcomes": dict(self.outcomes),
            "account": self.account.to_header(),
            "time": self.time,
            "slots": self._slots.count,
            "early_labels": [label for label, *_ in self._early.values()],
            "settled_labels": [label for label, *_ in self._settled.values()],
            "promised": self._accepted.promised,
        }
        arrays: dict[str, NDArray[Any]] = {**self._slots.arrays()}
        if self.corrections:  # without, there is nothing to tell of what is settled
            header["learned"] = self._learned
        if self.rules > 1:
            header["rules"] = self.rules
        every = (self._waiting, self._early, self._settled)
        arrays |= saved(*every, rows_of_settled=self.corrections, origins=self.rules > 1)
        return State(header, arrays)

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged.
        """
        header = state.header
        self.rules = header.get("rules", 1)  # saved before they had a number
        self._accepted.load(header["labels"], header["overflow"])
        self.outcomes = Counter(header["outcomes"])
        self.account = LabelAccounting()
        if "account" in header:  # saved before there was one: it begins here
            self.account.load_header(header["account"])
        self.time, self._oldest = header["time"], 0
        self._slots.load(header["slots"], state)
        self._learned = header["learned"] if self.corrections else 0
        labels = header["early_labels"], header["settled_labels"]
        found = loaded(state, *labels, rows_of_settled=self.corrections)
        self._waiting, self._early, self._settled = found
        promised = (label for label, *_ in self._early.values() if self.rules == 1)
        self._accepted.load_promised(header["promised"], promised)
        self._weigh()

    def _weight(self, label: Label | None) -> int:
        return self.weigh(label) if isinstance(label, str) else 0

    def _weigh(self) -> None:
        """Count the bytes of what is held."""
        early = ((id_, label, len(raw)) for id_, (label, _, _, raw) in self._early.items())
        self._early_bytes = sum(self.weigh(i) + self._weight(y) + n for i, y, n in early)
        settled = [(self.weigh(i) + self._weight(s[0]), s[2]) for i, s in self._settled.items()]
        texts = sum(weight for weight, _ in settled)
        self._settled_bytes = texts + sum(self._slots.size(slot) for _, slot in settled)
        self._texts = self._early_bytes + texts + sum(map(self.weigh, self._waiting))


def _nothing(text: str) -> int:
    return 0
