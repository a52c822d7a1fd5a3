"""The rules of the label join, each in a short story; `test_join_twin` has any sequence of events.

Events: `a` is an observation with this id, `a:x` has the label x inside, `a=x` is a label on its
own; `@9` gives the stream time, and labels in brackets are held back. Steps: `p0` predicts the
first observation, `l0=x` learns it, `p+l0=x` does both, `u0=x` unlearns it, and `3!max_classes` is
the dead letter of event 3. The learner cannot replace a label by `z`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from stream.join.join import LabelJoin
from tests.stream.join.test_join_twin import Calls, calls

# Rule and bounds; events | steps | outcomes.
STORIES = """
a label is learned on the row of its observation
    a b a=x | p0 p1 l0=x | joined
a label inside is learned right after the prediction
    a:x | p+l0=x | joined
an early label waits for its observation
    a=x a | p+l0=x | early joined
an equal label is a duplicate
    a:x a=x b=x b=x | p+l0=x | joined duplicate early duplicate
another label conflicts, and the first one stands
    a a=x a=y b=x b=y b | p0 l0=x p+l1=x | joined conflicting early conflicting joined
1 and true are two labels
    a:1 a=true | p+l0=1 | joined conflicting
an early label stands, whatever is inside
    a=x a:y | p+l0=x | early conflicting joined
a known id is predicted, and not learned again
    a a:y a=x a | p0 p1 l0=x p2 | joined duplicate_observation duplicate_observation
an observation expires after the horizon, not at it: horizon=100
    a@50 b@150 c@151 | p0 p1 p2 | expired
the label of an expired observation is late: horizon=100
    a a=x@101 | p0 | expired late
an early label expires: horizon=100
    a=x a@101 | p0 | early early_expired
a settled id is forgotten after the horizon: horizon=100
    a:x a:y@101 | p+l0=x p+l1=y | joined joined
stream time does not go back: horizon=100
    a@1000 b@0 c@1100 a=x | p0 p1 p2 l0=x | joined
the oldest observation is evicted: max_pending=2
    a b c a=x b=x | p0 p1 p2 l1=x | evicted late joined
the oldest early label is evicted: max_pending=1
    a=x b=y a b | p0 p+l1=y | early early early_evicted joined
the oldest settled id is forgotten: max_pending=1
    a:x b:x a=y | p+l0=x p+l1=x | joined forgotten joined early
early labels take a quarter of the bytes: max_bytes=12
    a=x b=x a b | p0 p+l1=x | early early early_evicted joined
settled ids beyond a quarter of the bytes go before observations: max_bytes=8
    a:x b:x c d | p+l0=x p+l1=x p2 p3 | joined joined forgotten evicted
the first label that is learned fixes the kind
    a:x b b=1 b=x | p+l0=x p1 l1=x 2!label_kind | joined rejected joined
an early label fixes no kind
    b=7 a a=x b b=x | p0 l0=x p1 l1=x 3!label_kind | early joined rejected joined
an early label that does not fit gives way to one that does
    a=7 b:x a=x a | p+l0=x p+l1=x 2!label_kind | early joined rejected early joined
one class too many is rejected: max_classes=2
    a:x b:y c:z d:x | p+l0=x p+l1=y p+l3=x 2!max_classes | joined joined rejected joined
an early label takes no class: max_classes=2
    j=j k=k a:x b:y j | p+l0=x p+l1=y p2 4!max_classes | early early joined joined rejected
a rejected observation leaves its id unknown
    a:x b:1 b:x | p+l0=x p+l2=x 1!label_kind | joined rejected joined
a correction replaces the label that stands: corrections=1
    a:x a=y a=y a=x | p+l0=x u0=x l0=y u0=y l0=x | joined corrected duplicate corrected
a label that cannot be unlearned stands: corrections=1
    a:x a=z a=x | p+l0=x | joined conflicting duplicate
a correction of another kind is rejected: corrections=1
    a:x a=1 | p+l0=x 1!label_kind | joined rejected
a correction of a forgotten id is an early label: corrections=1 max_pending=1
    a:x b:x a=y | p+l0=x p+l1=x | joined forgotten joined early
a label held back settles its id and is not learned
    a (a=x) (b:y) a=x b | p0 p1 p2 | held_back held_back duplicate duplicate_observation
a correction held back leaves the label that stands: corrections=1
    a:x (a=y) a=x | p+l0=x | joined held_back duplicate
"""


def events_of(story: str) -> list[tuple[str, str, Any, int, float, bool]]:
    """The events of `test_join_twin`."""
    out, before = [], 0
    for word in story.split():
        event, _, at = word.strip("()").partition("@")
        id_, mark, label = re.fullmatch(r"(\w)(?:([:=])(\w+))?", event).groups()
        time = int(at or before)
        what = {None: "observe", ":": "inside", "=": "answer"}[mark]
        value = {"1": 1, "7": 7, "true": True}.get(label, label)
        out.append((what, id_, value, time - before, 1.0, "(" not in word))
        before = time
    return out


def said(done: Calls) -> str:
    """Steps, then dead letters."""
    short = {"predict": "p", "predict then learn": "p+l", "learn": "l", "unlearn": "u"}
    steps = [f"{short[op]}{row}" + f"={y}" * (y is not None) for op, row, y, _ in done.steps]
    dead = [*done.rejected.items(), *((event, why) for event, _, why, _ in done.refused)]
    return " ".join([*steps, *(f"{event}!{why}" for event, why in dead)])


def stories() -> Iterator[Any]:
    """Bounds, events, steps and outcomes of each story."""
    lines = STORIES.strip().splitlines()
    for first, second in zip(lines[::2], lines[1::2], strict=True):
        rule, _, bounds = first.partition(": ")
        given = {name: int(value) for name, value in (b.split("=") for b in bounds.split())}
        yield pytest.param(given, *map(str.strip, second.split("|")), id=rule)


@pytest.mark.parametrize(("bounds", "events", "steps", "outcomes"), list(stories()))
def test_join_follows_the_rule(bounds, events, steps, outcomes) -> None:
    """Steps, dead letters and outcomes."""
    done = calls(LabelJoin(**bounds), events_of(events), [])

    assert said(done) == steps
    assert sorted(done.join.outcomes.elements()) == sorted(outcomes.split())


def test_saved_state_does_not_change_with_the_join() -> None:
    """A copy handed to the snapshot writer stays what it was."""
    done = calls(LabelJoin(), events_of("a:x b c=y"), [])
    state = done.join.to_state()
    before = state.fingerprint()

    done.call(events_of("b=z c d:w"))

    assert done.join.outcomes["joined"] == 4
    assert state.fingerprint() == before
