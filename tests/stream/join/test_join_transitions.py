"""The table of the label join: complete, what the join does, and what kernels do."""

from __future__ import annotations

from itertools import product

import pytest

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.join.events import EventFeed, Events
from stream.join.join import ACTS, LabelJoin
from stream.join.label_delay import Silence
from stream.join.plan import Plan
from stream.join.transitions import IdEvent, IdState, JoinAction, table
from tests.stream.join.short_joins import (
    BOUNDS,
    COMMON_LETTERS,
    LETTERS,
    counted_again,
    differences,
    observe,
    planned,
    report,
    sequences,
    uncommon_ones,
)
from tests.stream.join.test_join_twin import assert_alike, calls, twin_of

S, E, A = IdState, IdEvent, JoinAction
FROM_STREAM = [E.OBSERVATION, E.OBSERVATION_LABEL, E.OBSERVATION_REFUSED, E.LABEL, E.LABEL_REFUSED]
SETTLED = [S.LABELLED, S.CORRECTABLE, S.UNLABELLED]
# What can happen to an id in a state, found without the table.
POSSIBLE = {
    *product(S, FROM_STREAM),
    *product([S.EARLY], [E.OBSERVATION_SAME, E.LABEL_SAME]),
    *product([S.LABELLED, S.CORRECTABLE], [E.LABEL_SAME]),
    *product(set(S) - {S.UNKNOWN}, [E.EXPIRY, E.OVERFLOW]),
    *product([S.EARLY, S.UNFIT], [E.WITHDRAWN]),
    (S.EARLY, E.OUTVOTED),
    (S.CORRECTABLE, E.LABEL_OVER_RATE),
    *product([S.CORRECTABLE], [E.CORRECTED, E.NOT_CORRECTED]),
    *product([S.WAITING], [E.SILENCE, E.SILENCE_VOID]),
}
STEPS = {
    A.PREDICT: [PREDICT],
    A.WAIT: [PREDICT],
    A.LEARN_INSIDE: [PREDICT_THEN_LEARN],
    A.LEARN_EARLY: [PREDICT_THEN_LEARN],
    A.LEARN_KEPT: [LEARN],
    A.LEARN_SILENT: [LEARN],
    A.HOLD_INSIDE: [PREDICT],
    A.HOLD_EARLY: [PREDICT],
}
HORIZON, LATER, FAR = 100, 200, 1_000  # milliseconds
HEARD = [E.SILENCE, E.SILENCE_VOID]


def join_in(state: IdState, *, corrections: bool, silence: bool) -> LabelJoin:
    """A join with room for one id of a kind, where "a" is in this state; "x" and "y" are known."""
    join = LabelJoin(
        max_pending=1,
        horizon=HORIZON,
        max_classes=3,
        corrections=corrections,
        silence=Silence("y", HORIZON // 2 - 1) if silence else None,
    )
    if state is S.UNFIT:
        report(join, "a", 7, origin=record)
    join.labels.add("x")
    join.labels.add("y")
    if state in (S.WAITING, S.UNLABELLED):
        observe(join, "a")
    if state is S.UNLABELLED:
        observe(join, "other", 1.5, time=LATER)  # refused: only its time counts
    if state is S.EARLY:
        report(join, "a", "z", origin=record)  # its record is kept, for it is not known yet
    if state in (S.LABELLED, S.CORRECTABLE):
        observe(join, "a", "x", learn=state is S.CORRECTABLE or not corrections)
    assert join.state.of("a") is state
    join.outcomes.clear()
    return join


def record(event: int) -> bytes:
    """The record of an early label."""
    return b"record"


def happen(join: LabelJoin, state: IdState, event: IdEvent, *, learn: bool) -> Plan:
    """Let it happen to "a"; what else is counted on the way is taken back."""
    held = "z" if state is S.EARLY else "x"
    if event in (E.OBSERVATION, E.OBSERVATION_LABEL, E.OBSERVATION_SAME, E.OBSERVATION_REFUSED):
        inside = {E.OBSERVATION_LABEL: "y", E.OBSERVATION_SAME: held, E.OBSERVATION_REFUSED: 1.5}
        return observe(join, "a", inside.get(event), learn=learn)
    if event is E.LABEL_OVER_RATE:
        join.max_corrections = 0
        return report(join, "a", "y", learn=learn)
    if event in (E.LABEL, E.LABEL_SAME, E.LABEL_REFUSED):
        label = {E.LABEL: "y", E.LABEL_SAME: held, E.LABEL_REFUSED: 1.5}[event]
        return report(join, "a", label, learn=learn)
    if event is E.EXPIRY:
        return observe(join, "other", 1.5, time=FAR)
    if event is E.OVERFLOW:
        if state is S.WAITING:
            return observe(join, "other")
        out = report(join, "other", "y") if state in (S.EARLY, S.UNFIT) else None
        return out or observe(join, "other", "y")
    if event in HEARD:
        if event is E.SILENCE_VOID:
            join.state.flag([join.state.table.find("a")])
        out = observe(join, "other", 1.5, time=HORIZON // 2, learn=learn)
        out.rejected.clear()
        join.outcomes["rejected"] -= 1
        return out
    nothing = join.begin(EventFeed(Events([], [], [], [], []), []))
    if event is E.WITHDRAWN:
        join.forget_early(lambda origin: origin == b"record")
    elif event is E.OUTVOTED:
        join.outvoted("a")
    else:
        due = report(join, "a", "y").correction
        (join.corrected if event is E.CORRECTED else join.conflicted)(due)
    return nothing


def trigger(state: IdState, event: IdEvent) -> list[str]:
    """The outcomes of the record of "other" that makes a bound act."""
    if event is E.EXPIRY:
        return ["rejected"]
    if event is E.OVERFLOW:
        return {S.WAITING: [], S.EARLY: ["early"], S.UNFIT: ["early"]}.get(state, ["joined"])
    return []


def test_table_has_exactly_what_can_happen() -> None:
    """No pair is missing, and none is there that nothing leads to."""
    for corrections, held_back in product([False, True], repeat=2):
        rules = table(corrections=corrections, held_back=held_back)
        assert {(state, event) for state in rules for event in rules[state]} == POSSIBLE


@pytest.mark.parametrize("learn", [True, False], ids=["learns", "holds back"])
@pytest.mark.parametrize(
    ("state", "event", "corrections"),
    [
        pytest.param(state, event, on, id=f"{state.name}-{event.name}-{'corrections' * on}")
        for (state, event), on in product(sorted(POSSIBLE), [False, True])
        if on or (state is not S.CORRECTABLE and event not in HEARD)
    ],
)
def test_join_does_what_the_table_says(state, event, corrections, learn) -> None:
    """Every state × every event: outcomes, steps, dead letters, correction and next state."""
    expected = table(corrections=corrections, held_back=not learn)[state][event]
    join = join_in(state, corrections=corrections, silence=event in HEARD)
    done = happen(join, state, event, learn=learn)

    others = trigger(state, event)
    assert sorted(join.outcomes.elements()) == sorted([*expected.outcomes, *others])
    assert join.state.of("a") is expected.then
    bound = event in (E.EXPIRY, E.OVERFLOW)
    steps = done.columns().op.tolist()
    assert bound or steps == [op for action in expected.actions for op in STEPS.get(action, [])]
    assert bound or (0 in done.rejected) == bool({A.REJECT, A.PUT_OFF} & {*expected.actions})
    assert bool(done.refused) == (A.REFUSE_EARLY in expected.actions)
    assert (done.correction is not None) == (A.CORRECT in expected.actions)
    kept = expected.then in (S.WAITING, S.CORRECTABLE)
    assert (0 in join.kept_slots() and not bound) == (kept and not bound)
    held = join.state
    assert counted_again(held) == (held.text_bytes, held.early_bytes, held.settled_bytes)


def test_every_action_is_used_and_those_of_the_stream_have_a_method() -> None:
    """Those of time and bounds are run by kernels, and a learner's by the methods that it calls."""
    both = [table(corrections=c, held_back=h) for c, h in product([False, True], repeat=2)]
    used = {a for rules in both for row in rules.values() for t in row.values() for a in t.actions}

    assert used == set(JoinAction)
    by_stream = {
        action
        for rules in both
        for row in rules.values()
        for event in (*FROM_STREAM, E.OBSERVATION_SAME, E.LABEL_SAME, E.LABEL_OVER_RATE)
        if event in row
        for action in row[event].actions
    }
    assert by_stream == set(ACTS)


def test_ids_that_go_need_not_be_looked_up() -> None:
    """All that are settled go alike, and early labels whether they fit or not."""
    rules = table()
    for alike in (SETTLED, [S.EARLY, S.UNFIT]):
        for event in (E.EXPIRY, E.OVERFLOW):
            assert len({rules[state][event] for state in alike}) == 1


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_every_short_sequence_is_planned_as_by_dicts(bounds) -> None:
    """Plans, all that is held, and all that is counted."""
    for length in (1, 2, 3):
        assert list(differences(LETTERS, length, bounds)) == []


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_every_sequence_of_four_is_planned_as_by_dicts(bounds) -> None:
    """Of fewer events; `tests.long.joins` runs all of them, and longer ones."""
    assert list(differences(LETTERS[:7] + LETTERS[8:9] + LETTERS[-1:], 4, bounds)) == []


@pytest.mark.parametrize("bounds", ["wide", "short"])
def test_every_sequence_of_common_events_is_planned_as_by_dicts(bounds) -> None:
    """Longer ones, of those that kernels plan many at once."""
    assert list(differences(COMMON_LETTERS, 5, BOUNDS[bounds])) == []


def test_saved_states_of_short_sequences_are_the_same_bytes() -> None:
    """What is held decides what is saved, whoever decided about events."""
    for sequence in sequences(LETTERS, 2):
        join, slow = LabelJoin(**BOUNDS["short"]), LabelJoin(**BOUNDS["short"])
        slow.common = False
        planned(sequence, join)
        planned(sequence, slow)
        again = LabelJoin(**BOUNDS["short"])
        again.load_state(join.to_state())

        saved = join.to_state().to_bytes()
        assert saved == slow.to_state().to_bytes() == again.to_state().to_bytes()


def test_kernels_plan_the_common_transitions_and_no_other() -> None:
    """Where no bound is reached, an event is passed on if, and only if, it is not common."""
    for sequence in sequences(LETTERS[:-1], 3):
        assert planned(sequence, LabelJoin())[1] == uncommon_ones(sequence)


@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_every_short_sequence_gives_what_the_obvious_twin_gives(bounds, corrections) -> None:
    """Steps, dead letters, outcomes and classes, as the rules in words have them."""
    bounds = {"max_pending": 9, "horizon": 99, "max_classes": 9, **bounds}
    for sequence in sequences(LETTERS, 3):
        join = LabelJoin(**bounds, corrections=corrections)
        join.labels.add("x")
        twin = twin_of({**bounds, "corrections": corrections}, sequence, labels=["x"])

        assert_alike(calls(join, sequence, [], common=True), twin)
