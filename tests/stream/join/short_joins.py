"""Every short sequence of events through the label join: one by one, and by kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from stream.join.columns import EventFeed, begin, plan_common
from stream.join.events import Events
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
    "one correction": {"max_corrections": 1},
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
    """The plan of one call, its join, and the events that were not planned by kernels."""
    join, plan, passed_on = LabelJoin(**bounds), Plan(origin=record), []
    join.labels.add("x")
    events, sizes = columns(letters)
    feed = EventFeed(events, sizes)
    if fast:
        begin(join, plan, feed, fewest=1)
    while feed.at < feed.count:
        plan_common(join, plan, feed, lambda _: True)
        if feed.at < feed.count:
            passed_on.append(feed.at)
            plan_one(join, plan, feed)
    return plan, join, passed_on


def plan_one(join: LabelJoin, plan: Plan, feed: EventFeed) -> None:
    """Plan the next event by the table of transitions."""
    at, events = feed.at, feed.events
    known = {"event": at, "id": events.ids[at], "time": events.times[at]}
    labelled = {"label": events.labels[at], "w": events.weights[at]}
    if (row := events.row[at]) < 0:
        join.on_label(plan, **known, **labelled)
    else:
        join.on_observation(plan, **known, **labelled, row=row, size=feed.sizes[row])
    feed.at += 1


def told(plan: Plan, join: LabelJoin) -> tuple[object, ...]:
    """All that a plan says."""
    changes = plan.changes()
    rows = [column.tolist() for column in changes[:3]]
    return (
        [column.tolist() for column in plan.columns(join.labels)],
        sorted(zip(*rows, strict=True)),
        sorted(changes.ended.tolist()),
        sorted(changes.freed.tolist()),
        dict(plan.kept),
        plan.rejected,
        plan.refused,
        plan.correction,
        plan.corrected,
    )


def content(join: LabelJoin) -> tuple[object, ...]:
    """All that is held and counted, in order."""
    held = join.state
    return (
        list(held.waiting.items()),
        list(held.early.items()),
        list(held.settled.items()),
        (held.rows.count, held.rows.bytes),
        {name: array.tolist() for name, array in held.rows.arrays().items()},
        held.labels.learned.values,
        held.labels.learned.overflow,
        dict(held.outcomes),
        vars(held.label_delays),
        (held.time, held.oldest, held.learned),
        (held.text_bytes, held.early_bytes, held.settled_bytes),
    )


def uncommon_ones(letters: Sequence[Letter]) -> list[int]:
    """The events that are not among `COMMON`, one by one, where no bound is reached."""
    join, found = LabelJoin(), []
    join.labels.add("x")
    for event, (what, id_, label, *_) in enumerate(letters):
        happened = IdEvent.LABEL  # what is the same, is common too where the other is
        if what != "answer":
            happened = IdEvent.OBSERVATION if label is None else IdEvent.OBSERVATION_LABEL
        early = join.state.early.get(id_)
        common = (join.state.of(id_), happened) in COMMON and (not early or early[0] in join.labels)
        if not common or label not in (None, *join.labels):
            found.append(event)
        if what == "answer":
            join.on_label(Plan(), event=event, id=id_, label=label, w=1.0, time=0)
        else:
            join.on_observation(Plan(), event=event, row=0, id=id_, label=label, time=0)
    return found


def differences(letters: Sequence[Letter], length: int, bounds: dict[str, int]) -> Iterator[str]:
    """The sequences of this length that kernels plan otherwise, and in what."""
    for sequence in sequences(letters, length):
        plan, join, _ = planned(sequence, bounds, fast=False)
        fast_plan, fast_join, _ = planned(sequence, bounds, fast=True)
        expected, found = told(plan, join), told(fast_plan, fast_join)
        if expected != found:
            yield f"{sequence}: expected {expected}, got {found}"
        if content(join) != content(fast_join):
            yield f"{sequence}: expected {content(join)}, got {content(fast_join)}"
