"""Every short sequence of events through the label join, and through the join of dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from stream.data.schema import text_bytes
from stream.join.events import EventFeed, Events
from stream.join.join import LabelJoin
from stream.join.plan import Plan
from stream.join.state import JoinState
from stream.join.transitions import COMMON, IdEvent
from tests.oracles.dict_join import DictJoin, DictPlan

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
    return Events(ids, numbers, labels, [1.0] * len(ids), times, origin=record), [1] * rows


def record(event: int) -> bytes:
    """The bytes of the record of an event."""
    return b"r" * (event % 2)


def planned(letters: Sequence[Letter], join: LabelJoin | DictJoin):
    """The plan of one call, and the events that kernels do not plan as common ones."""
    passed_on = []
    join.labels.add("x")
    feed = EventFeed(*columns(letters))
    plan = join.begin(feed)
    while feed.at < feed.count:
        join.plan_common(plan, feed, lambda _: True)
        if feed.at < feed.count:
            passed_on.append(feed.at)
            assert join.plan_next(plan, feed)
    join.count(plan)
    return plan, passed_on


def observe(
    join: LabelJoin,
    id_: str,
    label: object = None,
    *,
    time: int = 0,
    learn: bool = True,
    size: int = 0,
    origin: Callable[[int], bytes] | None = None,
) -> Plan:
    """The plan of a call of one observation."""
    return _one(join, Events([id_], [0], [label], [1.0], [time], origin=origin), [size], learn)


def report(
    join: LabelJoin,
    id_: str,
    label: object,
    *,
    time: int = 0,
    learn: bool = True,
    origin: Callable[[int], bytes] | None = None,
) -> Plan:
    """The plan of a call of one label."""
    return _one(join, Events([id_], [-1], [label], [1.0], [time], origin=origin), [], learn)


def _one(join: LabelJoin, events: Events, sizes: list[int], learn: bool) -> Plan:
    feed = EventFeed(events, sizes)
    plan = join.begin(feed)
    assert join.plan_next(plan, feed, learn=learn)
    join.count(plan)
    return plan


def told(plan: Plan | DictPlan) -> tuple[object, ...]:
    """All that a plan says."""
    changes = plan.changes()
    rows = [column.tolist() for column in changes[:3]]
    return (
        [column.tolist() for column in plan.columns()],
        sorted(zip(*rows, strict=True)),
        sorted(changes.ended.tolist()),
        sorted(changes.freed.tolist()),
        plan.rejected,
        plan.refused,
        plan.correction,
        plan.corrected,
    )


def content(join: LabelJoin | DictJoin) -> tuple[object, ...]:
    """All that is held and counted, in order."""
    held = join.state
    return (
        list(held.waiting.items()),
        list(held.early.items()),
        list(held.settled.items()),
        (held.rows.count, held.rows.bytes),
        held.labels.learned.values,
        held.labels.learned.overflow,
        dict(held.outcomes),
        vars(held.label_delays),
        (held.time, held.oldest, held.learned),
        (held.text_bytes, held.early_bytes, held.settled_bytes),
    )


def counted_again(held: JoinState) -> tuple[int, int, int]:
    """`text_bytes`, `early_bytes` and `settled_bytes` of a state, recounted from all ids."""
    rows = sum(map(text_bytes, held.waiting))
    early = sum(held.weight(i, y) + len(raw) for i, (y, _, _, raw) in held.early.items())
    settled = sum(held.weight(i, s[0]) for i, s in held.settled.items())
    kept = sum(held.rows.size(s[2]) for s in held.settled.values())
    return rows + early + settled, early, settled + kept


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
            report(join, id_, label)
        else:
            observe(join, id_, label)
    return found


def differences(letters: Sequence[Letter], length: int, bounds: dict[str, int]) -> Iterator[str]:
    """The sequences of this length that dicts plan otherwise, and in what."""
    for sequence in sequences(letters, length):
        join, twin = LabelJoin(**bounds), DictJoin(**bounds)
        (plan, _), (expected, _) = planned(sequence, join), planned(sequence, twin)
        if told(plan) != told(expected):
            yield f"{sequence}: expected {told(expected)}, got {told(plan)}"
        if content(join) != content(twin):
            yield f"{sequence}: expected {content(twin)}, got {content(join)}"
