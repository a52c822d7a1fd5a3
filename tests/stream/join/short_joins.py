"""Every short sequence of events through the label join: one by one, and in the fast loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from stream.join.events import Events, one_by_one
from stream.join.fast import uncommon
from stream.join.join import LabelJoin
from stream.join.plan import Plan
from stream.join.transitions import COMMON, IdEvent

# Events as in `test_join_twin`: what, id, label, milliseconds passed before, weight, learned.
Letter = tuple[str, str, Any, int, float, bool]


def letter(what: str, id_: str, label: object = None, passed: int = 0) -> Letter:
    """An event of weight 1 that may be learned."""
    return (what, id_, label, passed, 1.0, True)


# "x" was learned before; 7 is of another kind.
LETTERS = (
    letter("observe", "a"),
    letter("inside", "a", "x"),
    letter("inside", "a", "y"),
    letter("answer", "a", "x"),
    letter("answer", "a", "y"),
    letter("answer", "a", 7),
    letter("observe", "b"),
    letter("inside", "b", "x"),
    letter("answer", "b", "x"),
    letter("answer", "b", 7),
    letter("observe", "c", passed=3),
)
COMMON_LETTERS = (
    letter("observe", "a"),
    letter("inside", "a", "x"),
    letter("answer", "a", "x"),
    letter("observe", "b", passed=1),
    letter("answer", "b", "x", passed=1),
    letter("inside", "c", "x", passed=3),
)
BOUNDS: dict[str, dict[str, int]] = {
    "wide": {},
    "one of each": {"max_pending": 1, "max_classes": 1},
    "short": {"max_pending": 2, "horizon": 2},
    "few bytes": {"max_bytes": 4},
    "rules 1": {"max_pending": 2, "horizon": 2, "max_classes": 2, "max_bytes": 2, "rules": 1},
}


def sequences(letters: Sequence[Letter], length: int) -> Iterator[tuple[Letter, ...]]:
    """All of this length."""
    return product(letters, repeat=length)


def columns(letters: Sequence[Letter]) -> tuple[Events, list[int]]:
    """The events of one call, and the bytes of its rows."""
    rows, numbers, times, time = 0, [], [], 0
    for what, _, _, passed, *_ in letters:
        numbers.append(-1 if what == "answer" else rows)
        rows += what != "answer"
        time += passed
        times.append(time)
    ids, labels = [id_ for _, id_, *_ in letters], [label for _, _, label, *_ in letters]
    return Events(ids, numbers, labels, [1.0] * len(ids), times), [1] * rows


def record(event: int) -> bytes:
    """The bytes of the record of an event."""
    return b"r" * (event % 2)


def planned(letters: Sequence[Letter], bounds: dict[str, int], *, fast: bool):
    """The plan of one call, its join, and the events that were not planned in the fast loop."""
    join, plan, passed_on = LabelJoin(**bounds), Plan(origin=record), []
    join.labels.add("x")
    events, sizes = columns(letters)
    stream = one_by_one(events)
    if fast:
        stream = uncommon(join, plan, stream, sizes, lambda _: True)
    for event, id_, row, label, w, time, _ in stream:
        if event < 0:
            break
        passed_on.append(event)
        if row < 0:
            join.on_label(plan, event=event, id=id_, label=label, w=w, time=time)
        else:
            join.on_observation(
                plan, event=event, row=row, id=id_, time=time, label=label, w=w, size=sizes[row]
            )
    return plan, join, passed_on


def content(join: LabelJoin) -> tuple[object, ...]:
    """All that is held and counted, in order."""
    held = join.state
    return (
        list(held.waiting.items()),
        list(held.early.items()),
        list(held.settled.items()),
        list(held.settled.order),
        vars(held.rows),
        held.labels.learned.values,
        held.labels.learned.overflow,
        held.labels.promised,
        list(held.outcomes.items()),
        vars(held.label_delays),
        (held.time, held.oldest, held.learned),
        (held.text_bytes, held.early_bytes, held.settled_bytes),
    )


def uncommon_ones(letters: Sequence[Letter]) -> list[int]:
    """The events that are not among `COMMON`, one by one, where no bound is reached."""
    join, found = LabelJoin(), []
    join.labels.add("x")
    for event, (what, id_, label, *_) in enumerate(letters):
        happened = IdEvent.LABEL
        if what != "answer":
            happened = IdEvent.OBSERVATION if label is None else IdEvent.OBSERVATION_LABEL
        common = (join.state.of(id_), happened) in COMMON
        if not common or label not in (None, *join.labels):
            found.append(event)
        if what == "answer":
            join.on_label(Plan(), event=event, id=id_, label=label, w=1.0, time=0)
        else:
            join.on_observation(Plan(), event=event, row=0, id=id_, label=label, time=0)
    return found


def differences(letters: Sequence[Letter], length: int, bounds: dict[str, int]) -> Iterator[str]:
    """The sequences of this length that the fast loop plans otherwise, and in what."""
    for sequence in sequences(letters, length):
        plan, join, _ = planned(sequence, bounds, fast=False)
        fast_plan, fast_join, _ = planned(sequence, bounds, fast=True)
        if plan != fast_plan:
            yield f"{sequence}: expected {plan}, got {fast_plan}"
        if content(join) != content(fast_join):
            yield f"{sequence}: expected {content(join)}, got {content(fast_join)}"
