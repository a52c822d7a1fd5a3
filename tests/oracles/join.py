"""The slow obvious twin of the label join: lists, searched from the front, no slots.

Rule: written from the rules in words, never imported by what it checks. Steps name the number of
the observation they work on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Held(NamedTuple):
    """Something kept under an id since a time."""

    id: str
    time: int
    label: Any = None
    w: float = 1.0
    observation: int = -1
    learned: int = 0
    record: bytes = b""


@dataclass
class JoinTwin:
    """Every rule in its own line."""

    bound: int
    horizon: int
    max_classes: int
    corrections: bool = False
    max_bytes: int = 1 << 62
    silence: tuple[Any, int] | None = None  # label, and after how long
    max_corrections: int = 1000
    spent: int = 0  # labels to be learned until as many corrections may come at once again
    time: int = 0
    learned: int = 0
    observations: int = 0
    waiting: list[Held] = field(default_factory=list)
    early: list[Held] = field(default_factory=list)
    settled: list[Held] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: list[tuple[str, int, Any, float | None]] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    ages: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    given_up: int = 0
    sizes: list[int] = field(default_factory=list)  # of every observation's row
    refused: list[tuple[int, Any, str, bytes]] = field(default_factory=list)
    heard: set[int] = field(default_factory=set)  # observations whose silence is over
    flagged: set[str] = field(default_factory=set)  # waiting ids that were decided otherwise
    decided: Callable[[int], bool] | None = None  # otherwise, by observation; None: every fourth

    def observe(
        self,
        event: int,
        id_: str,
        time: int,
        label: Any,
        w: float,
        learn: bool = True,
        size: int = 0,
    ) -> None:
        number = self.observations
        self.observations += 1
        self.sizes.append(size)
        self.fall_silent(time, learn)
        self.pass_time(time)
        if label is not None and not self.acceptable(event, label):
            return
        if found(self.waiting, id_) and self.otherwise(number):
            self.flagged.add(id_)
        if found(self.waiting, id_) or found(self.settled, id_):
            self.outcomes["duplicate_observation"] += 1
            self.given_up += 1
            self.steps.append(("predict", number, None, None))
            return
        early = found(self.early, id_)
        if early is not None and not self.still_fits(event, early):
            early = None
        if early is not None:
            self.early.remove(early)
            if label is not None:
                self.outcomes[again(early.label, label)] += 1
            label, w = early.label, early.w
        if label is not None:
            self.delays.append(0)
            if learn:
                self.learn("predict then learn", number, id_, label, w)
            else:
                self.steps.append(("predict", number, None, None))
                self.hold_back(id_, label)
        else:
            self.steps.append(("predict", number, None, None))
            if len(self.waiting) == self.bound:
                self.evict()
            self.waiting.append(Held(id_, self.time, observation=number))
            self.flagged.discard(id_)
            if self.otherwise(number):
                self.flagged.add(id_)
        self.trim()

    def otherwise(self, number: int) -> bool:
        """Whether an observation is decided otherwise than silence says."""
        return (self.decided or otherwise)(number)

    def still_fits(self, event: int, early: Held) -> bool:
        """An early label whose observation came, or for which another label came."""
        reason = self.objection(early.label, self.labels)
        if reason is None:
            return True
        self.early.remove(early)
        self.outcomes["rejected"] += 1
        self.refused.append((event, early.label, reason, early.record))
        return False

    def trim(self) -> None:
        """All that is held counts, each character outside ASCII four times."""

        def of(*held: Held) -> int:
            total = 0
            for h in held:
                for text in (h.id, h.label):
                    if isinstance(text, str):
                        total += len(text) * (1 if all(ord(c) < 128 for c in text) else 4)
                total += len(h.record)
                if h.observation >= 0 and (h in self.waiting or self.corrections):
                    total += self.sizes[h.observation]
            return total

        while of(*self.early) > self.max_bytes // 4:
            self.early.pop(0)
            self.outcomes["early_evicted"] += 1
        while of(*self.waiting, *self.early, *self.settled) > self.max_bytes:
            if of(*self.settled) > self.max_bytes // 4:
                self.settled.pop(0)
                self.outcomes["forgotten"] += 1
            else:
                self.evict()

    def evict(self) -> None:
        """The observation that waits longest is given up."""
        self.outcomes["evicted"] += 1
        self.given_up += 1
        self.settle(self.waiting.pop(0).id, None)

    def answer(
        self,
        event: int,
        id_: str,
        time: int,
        label: Any,
        w: float,
        learn: bool = True,
        possible: bool = True,
    ) -> None:
        self.fall_silent(time, learn)
        self.pass_time(time)
        settled = found(self.settled, id_)
        if settled is not None:
            kind = "late" if settled.label is None else again(settled.label, label)
            if kind == "conflicting" and self.corrections and settled.observation >= 0:
                self.correct(event, settled, label, w, learn, possible)
                return
            self.outcomes[kind] += 1
            return
        if not self.acceptable(event, label):
            return
        waiting = found(self.waiting, id_)
        if waiting is not None:
            self.waiting.remove(waiting)
            self.delays.append(self.time - waiting.time)
            if learn:
                self.learn("learn", waiting.observation, id_, label, w)
            else:
                self.hold_back(id_, label)
            self.trim()
            return
        early = found(self.early, id_)
        if early is not None and not self.still_fits(event, early):
            early = None
        if early is not None:
            self.outcomes[again(early.label, label)] += 1
            self.trim()
            return
        if len(self.early) == self.bound:
            self.outcomes["early_evicted"] += 1
            self.early.pop(0)
        self.outcomes["early"] += 1
        known = any(same(label, one) for one in self.labels)
        record = b"" if known else record_of(event)
        self.early.append(Held(id_, self.time, label, w, record=record))
        self.trim()

    def learn(self, what: str, number: int, id_: str, label: Any, w: float) -> None:
        self.name(label)
        self.outcomes["joined"] += 1
        self.learned += 1
        self.spent = max(self.spent - 1, 0)
        self.steps.append((what, number, label, w))
        self.settle(id_, label, number, w)

    def name(self, label: Any) -> None:
        if not any(same(label, known) for known in self.labels):
            self.labels.append(label)

    def hold_back(self, id_: str, label: Any) -> None:
        """The breaker is open: the id is settled, nothing is learned, no row is kept."""
        self.outcomes["held_back"] += 1
        self.settle(id_, label)

    def correct(
        self, event: int, settled: Held, label: Any, w: float, learn: bool, possible: bool
    ) -> None:
        """The old label is taken back, the new one learned; the id stays where it was."""
        if not self.acceptable(event, label):
            return
        if self.spent > 8 * (self.max_corrections - 1):
            self.outcomes["correction_over_rate"] += 1
            self.rejected[event] = "correction_rate"
            return
        if not learn:
            self.outcomes["held_back"] += 1
            return
        self.spent += 8
        self.ages.append(self.learned - settled.learned)
        if not possible:
            self.outcomes["conflicting"] += 1
            return
        self.outcomes["corrected"] += 1
        self.name(label)
        self.learned += 1
        self.steps.append(("unlearn", settled.observation, settled.label, settled.w))
        self.steps.append(("learn", settled.observation, label, w))
        at = self.settled.index(settled)
        self.settled[at] = settled._replace(label=label, w=w)

    def settle(self, id_: str, label: Any, number: int = -1, w: float = 1.0) -> None:
        if len(self.settled) == self.bound:
            self.outcomes["forgotten"] += 1
            self.settled.pop(0)
        self.settled.append(Held(id_, self.time, label, w, number, self.learned))

    def acceptable(self, event: int, label: Any) -> bool:
        """Of the first label's kind, and no class too many."""
        reason = self.objection(label, self.labels)
        if reason is not None:
            self.outcomes["rejected"] += 1
            self.rejected[event] = reason
        return reason is None

    def objection(self, label: Any, before: list[Any]) -> str | None:
        """Why it cannot be one of these labels."""
        if not isinstance(label, str | int | bool) or (
            before and type(label) is not type(before[0])
        ):
            return "label_kind"
        if label not in before and len(before) >= self.max_classes:
            return "max_classes"
        return None

    def fall_silent(self, time: int, learn: bool) -> None:
        """Rule 9: who waits for longer than `after` is learned at the moment it is over."""
        if self.silence is None:
            return
        label, after = self.silence
        for waiting in list(self.waiting):
            moment = waiting.time + after
            if moment >= time or waiting.observation in self.heard or waiting not in self.waiting:
                continue
            self.pass_time(moment)
            self.heard.add(waiting.observation)
            void = waiting.id in self.flagged or self.objection(label, self.labels) is not None
            if void or not learn:
                self.outcomes["silence_ignored"] += 1
                continue
            self.waiting.remove(waiting)
            self.given_up += 1
            self.outcomes["silence"] += 1
            self.outcomes["joined"] -= 1
            self.learn("learn", waiting.observation, waiting.id, label, 1.0)
            self.trim()

    def pass_time(self, time: int) -> None:
        """What has been held for longer than the horizon goes: settled, early, then waiting."""
        if time <= self.time:
            return
        self.time = time
        self.settled = [s for s in self.settled if time - s.time <= self.horizon]
        for early in [e for e in self.early if time - e.time > self.horizon]:
            self.early.remove(early)
            self.outcomes["early_expired"] += 1
        for waiting in [v for v in self.waiting if time - v.time > self.horizon]:
            self.waiting.remove(waiting)
            self.outcomes["expired"] += 1
            self.given_up += 1
            self.settle(waiting.id, None)


def found(held: list[Held], id_: str) -> Held | None:
    """What is held under an id."""
    return next((h for h in held if h.id == id_), None)


def same(a: Any, b: Any) -> bool:
    """1 and True are two labels."""
    return type(a) is type(b) and a == b


def again(first: Any, label: Any) -> str:
    """The outcome of a second label."""
    return "duplicate" if same(first, label) else "conflicting"


def otherwise(number: int) -> bool:
    """Whether an observation is decided otherwise than silence says, in these tests."""
    return number % 4 == 2


def record_of(event: int) -> bytes:
    """The bytes of the record of an event in these tests."""
    return b"r" * (event % 3)
