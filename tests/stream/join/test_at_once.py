"""Calls planned by columns against the same calls planned one event at a time."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import GaussianNB
from stream.data.block import Rows
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Progressive
from stream.join.at_once import planned_at_once
from stream.join.events import Events
from stream.join.join import LabelJoin
from stream.join.plan import Plan
from tests.stream.join.short_joins import content

call = st.lists(
    st.tuples(
        st.integers(0, 60).map(lambda n: f"é{n}" if n % 9 == 0 else str(n)),
        st.sampled_from(["x", "yé"] * 30 + ["z", None, 1, True]),
        st.integers(-1, 2),
        st.sampled_from([1.0, 0.5, 2]),
    ),
    max_size=8,
    unique_by=lambda each: each[0],
)
bounds = st.fixed_dictionaries(
    {
        "max_pending": st.sampled_from([1, 3, 20, 100]),
        "horizon": st.sampled_from([3, 1000, 1000]),
        "max_bytes": st.sampled_from([20, 60, 1 << 62, 1 << 62]),
        "rules": st.sampled_from([1, 2, 2]),
        "corrections": st.sampled_from([False] * 5 + [True]),
    }
)


def events_of(records, time: int) -> Events:
    """Observations, each with its row and perhaps its label."""
    times = []
    for _, _, passed, _ in records:
        times.append(time := time + passed)
    ids, labels, _, weights = zip(*records, strict=True)
    return Events(list(ids), list(range(len(ids))), list(labels), list(weights), times)


def one_by_one(join: LabelJoin, events: Events) -> Plan:
    """The plan that the transitions give."""
    plan = Plan()
    for event, id_ in enumerate(events.ids):
        join.on_observation(
            plan,
            event=event,
            row=events.row[event],
            id=id_,
            time=events.times[event],
            label=events.labels[event],
            w=events.weights[event],
        )
    return plan


def columns(plan: Plan) -> list[list[object]]:
    """The steps of a plan."""
    return [list(column) for column in plan.columns()]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(call.filter(bool), min_size=1, max_size=6), bounds)
def test_columns_plan_what_the_transitions_plan(calls, bound) -> None:
    """Steps, ids and counters; a call that is left to the transitions has changed nothing."""
    fast, slow = LabelJoin(**bound), LabelJoin(**bound)
    for join in (fast, slow):
        join.labels.add("x")
        join.labels.add("yé")
    time = 0
    for records in calls:
        events = events_of(records, time)
        time = events.times[-1]
        before = content(fast)
        plan = planned_at_once(fast, events)
        if plan is None:
            assert content(fast) == before
            plan = one_by_one(fast, events)
        expected = one_by_one(slow, events)

        assert columns(plan) == columns(expected)
        assert content(fast) == content(slow)
        assert fast.to_state().to_bytes() == slow.to_state().to_bytes()


def many(start: int, stop: int) -> Events:
    """Observations with labels of two classes."""
    ids = [f"id {n}" for n in range(start, stop)]
    labels = [("b", "a")[n % 3 == 0] for n in range(start, stop)]
    return Events(ids, list(range(len(ids))), labels, [1.0] * len(ids), list(range(start, stop)))


def learned(plans: list[bool] | None, monkeypatch: pytest.MonkeyPatch) -> Progressive:
    """A learner after three calls; `plans` collects which of them were planned by columns, and
    without it none is."""

    def planned(join: LabelJoin, events: Events) -> Plan | None:
        if plans is None:
            return None
        plan = planned_at_once(join, events)
        plans.append(plan is not None)
        return plan

    monkeypatch.setattr(import_module("stream.evaluate.progressive"), "planned_at_once", planned)
    like = Rows.from_dicts([{"x": 1.0}])
    machine = Progressive(GaussianNB(), LabelJoin(max_pending=50), like, Breaker(0.5))
    for start, stop in pairwise([0, 20, 80, 200]):
        rows = Rows.from_dicts([{"x": float(n % 7)} for n in range(start, stop)])
        machine.process(rows, many(start, stop))
    return machine


def test_a_learner_gets_the_same_bits_either_way(monkeypatch) -> None:
    """And after the first labels every call is planned by columns."""
    plans: list[bool] = []
    fast, slow = learned(plans, monkeypatch), learned(None, monkeypatch)

    assert plans == [False, True, True]
    assert fast.to_state().to_bytes() == slow.to_state().to_bytes()


@pytest.mark.parametrize(("dead", "left"), [(0, 0), (300, 98)])
def test_dead_letters_before_a_call_are_forgotten_as_one_by_one(dead, left, monkeypatch) -> None:
    """The window of the breaker moves on by the records of a call."""
    states = []
    for at_once in (planned_at_once, lambda join, events: None):
        module = import_module("stream.evaluate.progressive")
        monkeypatch.setattr(module, "planned_at_once", at_once)
        like = Rows.from_dicts([{"x": 1.0}])
        machine = Progressive(GaussianNB(), LabelJoin(), like, Breaker(0.5))
        first = Events(["0", "1"], [0, 1], ["a", "b"], [1.0] * 2, [0] * 2, [dead, 0, 0])
        machine.process(like.concat(like), first)
        machine.process(Rows.from_dicts([{"x": 1.0}] * 900), many(0, 900))
        states.append(machine._breaker.to_state())

    assert states[0] == states[1]
    assert states[0].arrays["ring"].sum() == left
