"""Hostile sequences of events: the join of arrays and kernels beside the join of dicts.

Ids are repeated, come after their label, late, twice, in other alphabets, with the same hash, or
with more bytes than a bound allows; labels are unknown, of another kind, or too many.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stream.join.events import EventFeed, Events
from stream.join.join import UNBOUNDED, LabelJoin
from tests.oracles.dict_join import DictJoin
from tests.stream.join.short_joins import told

__all__ = ["KINDS", "compare", "content", "name", "whole"]

# Kind of sequence to the bounds of its join, the ids that are alive at a time, and the milliseconds
# between two events.
KINDS: dict[str, tuple[dict[str, Any], int, int]] = {
    "usual": ({"max_pending": 300}, 400, 1),
    "expired": ({"max_pending": 500, "horizon": 200}, 300, 2),
    "evicted": ({"max_pending": 20}, 200, 1),
    "few bytes": ({"max_pending": 500, "max_bytes": 3_000}, 400, 1),
    "corrections": ({"max_pending": 200, "corrections": True}, 300, 1),
    "corrections, few bytes": ({"max_bytes": 3_000, "corrections": True, "horizon": 900}, 300, 3),
    "few corrections": (
        {"max_pending": 200, "corrections": True, "max_corrections": 3},
        300,
        1,
    ),
    "few classes": ({"max_pending": 100, "max_classes": 3}, 150, 1),
    "many": ({"max_pending": UNBOUNDED}, 5_000, 0),
}
LABELS = ["x", "y", "zé"]
ODD = ["z", 7, True, 1.5, None, "q" * 40]


def name(number: int) -> str:
    """An id; some are not ASCII."""
    return f"{number}é" if number % 50 == 7 else f"id of some record {number}"


def compare(kind: str, seed: int, events: int, names: Callable[[int], str] = name) -> str | None:
    """Where the two joins differ in a sequence; None if they do not.

    `names`: the id of each number. Between calls the join of arrays may be saved and loaded.
    """
    rng = random.Random(f"{kind} {seed}")
    bounds, alive, pause = KINDS[kind]
    join, twin = LabelJoin(**bounds), DictJoin(**bounds)
    for each in (join, twin):
        each.labels.add("x")
    time = number = 0
    while number < events:
        batch = _events(
            rng, number, min(rng.choice([1, 7, 60, 700]), events - number), alive, names
        )
        times = []
        for _ in batch.ids:
            time += rng.choice([0, pause, 2 * pause])
            times.append(time)
        batch.times = times
        number += len(batch.ids)
        if (found := _differ(rng, join, twin, batch)) is not None:
            return f"{kind}, seed {seed}, before event {number}: {found}"
        if rng.random() < 0.05:
            if whole(join) != whole(twin):
                return f"{kind}, seed {seed}, before event {number}: another state"
            again = LabelJoin(**bounds)
            again.load_state(join.to_state())
            if again.to_state() != join.to_state():
                return f"{kind}, seed {seed}, before event {number}: another state after loading"
            join = again
    return None


def _differ(rng: random.Random, join: LabelJoin, twin: DictJoin, batch: Events) -> str | None:
    """What the plans of one call differ in."""
    sizes = [rng.choice([0, 3, 90]) for _ in batch.ids]
    feed, other = EventFeed(batch, sizes), EventFeed(batch, sizes)
    while feed.at < feed.count:
        plan, expected = join.begin(feed), twin.begin(other)
        while feed.at < feed.count and plan.correction is None:
            join.plan_common(plan, feed, lambda _: True)
            if feed.at < feed.count:
                join.plan_next(plan, feed)
        join.count(plan)
        while other.at < feed.at:
            twin.plan_next(expected, other)
        mine, theirs = told(plan), told(expected)
        if mine != theirs:
            which = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
            return f"expected {str(theirs[which])[:300]}, got {str(mine[which])[:300]}"
        if plan.correction is not None:
            possible = rng.random() < 0.7
            for each in (join, twin):
                (each.corrected if possible else each.conflicted)(plan.correction)
    mine, theirs = content(join), content(twin)
    which = [name for name in mine if mine[name] != theirs[name]]
    return f"expected {theirs[which[0]]}, got {mine[which[0]]}" if which else None


def content(join: LabelJoin | DictJoin) -> dict[str, object]:
    """What is counted, and how many ids of each kind there are."""
    held = join.state
    return {
        "ids": [len(ids) for ids in (held.waiting, held.early, held.settled)],
        "oldest": [
            held.waiting.oldest,
            held.early.oldest,
            (held.settled.oldest or ())[: 5 if join.corrections else 3],
        ],
        "rows": (held.rows.count, held.rows.bytes),
        "labels": (list(held.labels.learned), held.labels.learned.overflow),
        "outcomes": dict(held.outcomes),
        "delays": vars(held.label_delays),
        "time": held.time,
        "bytes": (held.text_bytes, held.early_bytes, held.settled_bytes),
    }


def whole(join: LabelJoin | DictJoin) -> list[list[tuple[str, Any]]]:
    """All that is saved about each id, in order."""
    held, columns = join.state, 5 if join.corrections else 3
    settled = [(id_, known[:columns]) for id_, known in held.settled.items()]
    return [list(held.waiting.items()), list(held.early.items()), settled]


def _record(event: int) -> bytes:
    return b"r" * (event % 3)


def _events(
    rng: random.Random, start: int, count: int, alive: int, names: Callable[[int], str]
) -> Events:
    """Events of ids near `start`."""
    ids, rows, labels, weights, row = [], [], [], [], 0
    for k in range(start, start + count):
        number = max(0, k - int(alive * rng.random() ** 3))
        ids.append(names(number))
        label = rng.choice(ODD) if rng.random() < 0.03 else rng.choice(LABELS)
        kind = rng.random()
        rows.append(-1 if kind < 0.45 else row)
        row += kind >= 0.45
        labels.append(None if 0.45 <= kind < 0.9 else label)
        weights.append(rng.choice([1.0, 0.5, 2]))
    return Events(ids, rows, labels, weights, [0] * count, origin=_record)
