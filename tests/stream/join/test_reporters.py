"""Labels of reporters: trust, votes, caps and bounds, in any split and after any restart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import GaussianNB, KNNClassifier, Learner, Rows, Schema
from stream.errors import SchemaError, StateError
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.join.label_delay import Silence
from stream.join.reported import ReportedJoin
from stream.join.reporters import MOST_VOTES, TOP, ReporterRules, Reporters
from stream.join.transitions import IdState
from tests.oracles.reporters import HOUR_MS, ReporterTwin, Said
from tests.seed import seeds

SCHEMA = Schema.of(a="numeric")
RULES = ReporterRules()
Row = tuple[str, float | None, Any, float, int, str | None]  # id, a, label, weight, time, who


def machine(
    rules: ReporterRules | None = RULES,
    learner: Learner | None = None,
    breaker: Breaker | None = None,
    **bounds: Any,
) -> Progressive:
    """With corrections, unless `bounds` says otherwise."""
    learner, bounds = learner or GaussianNB(), {"corrections": True, **bounds}
    join = LabelJoin(**bounds) if rules is None else ReportedJoin(rules, **bounds)
    return Progressive(learner, join, learner.prepare(Rows.empty(SCHEMA)), breaker)


def run(of: Progressive, rows: list[Row], cuts: Any = (), *, named: bool = True) -> list[Any]:
    """Process in calls that end at `cuts`; the posteriors, in order."""
    said: list[Any] = []
    for start, stop in pairwise([0, *sorted(cuts), len(rows)]):
        part = rows[start:stop]
        numbers = [a for _, a, *_ in part if a is not None]
        x = Rows.empty(SCHEMA, len(numbers))
        x.numeric[:, 0] = numbers
        at = iter(range(len(numbers)))
        columns = (
            [r[0] for r in part],
            [-1 if r[1] is None else next(at) for r in part],
            [r[2] for r in part],
            [r[3] for r in part],
            [r[4] for r in part],
        )
        events = Events(*columns, reporters=[r[5] for r in part] if named else None)
        result = of.process(of.learner.prepare(x), events)
        said += [result.predictions.dicts(), {start + k: v for k, v in result.rejected.items()}]
    flat = [p for part in said if isinstance(part, list) for p in part]
    return [*flat, {k: v for part in said if isinstance(part, dict) for k, v in part.items()}]


def scattered(n: int, seed: int) -> list[Row]:
    """Labels inside, early, late, twice, of another kind, by six reporters or nobody."""
    rng = np.random.default_rng(seed)
    timed: list[tuple[float, Row]] = []
    for i in range(n):
        c, id_ = int(rng.integers(2)), str(i)
        x, inside = float(rng.normal(c)), "pq"[c] if rng.random() < 0.1 else None
        timed.append((i, (id_, x, inside, 1.0, 0, None)))
        if rng.random() < 0.1:
            timed.append((i + 2.5, (id_, x, "r" if rng.random() < 0.5 else None, 1.0, 0, None)))
        for _ in range(int(rng.integers(4))):
            who = int(rng.integers(7))
            flip = rng.random() < (0.9 if who == 0 else 0.1)
            label: Any = "pq"[c ^ flip] if rng.random() < 0.9 else [7, "rare", "more"][who % 3]
            name, w = None if who == 6 else f"u{who}", float(rng.choice([1.0, 0.5, 3.0]))
            at = i + float(rng.choice([-2.4, -0.2, 0.3, 1.4, 6.1])) + who / 100
            timed.append((at, (id_, None, label, w, 0, name)))
    timed.sort(key=lambda each: each[0])
    step = HOUR_MS // 10
    return [(*row[:4], max(int(at * step), 0), row[5]) for at, row in timed]


@given(
    said=st.lists(
        st.tuples(
            st.integers(0, HOUR_MS // 3),
            st.integers(0, 4),
            st.sampled_from("pqr"),
            st.sampled_from([0.25, 1.0, 4.0]),
            st.sampled_from(["ann", "bob", "cy", "dee", None]),
        ),
        max_size=60,
    ),
    per_hour=st.sampled_from([2, 5, 1000]),
    min_trust=st.sampled_from([0.55, 0.75]),
    prior=st.sampled_from([(0.8, 5.0), (0.76, 1.0), (0.9, 0.5)]),
    trusted=st.booleans(),
)
def test_trust_votes_and_labels_are_those_of_the_rules_in_words(
    said, per_hour, min_trust, prior, trusted
) -> None:
    """Counts exactly, sums to rounding: the twin keeps every verdict, and adds them up late."""
    share, strength = prior
    rules = ReporterRules(99, per_hour, min_trust, share, strength, trusted)
    twin = ReporterTwin(
        per_hour=per_hour,
        min_trust=min_trust,
        prior_trust=share,
        prior_labels=strength,
        trusted=trusted,
    )
    going, time = machine(rules), 0
    rows: list[Row] = [(str(i), float(i), None, 1.0, 0, None) for i in range(5)]
    for passed, id_, label, w, who in said:
        time += passed
        twin.say(Said(time, str(id_), label, w, who))
        rows.append((str(id_), None, label, w, time, who))
    run(going, rows)
    join = going.join
    assert isinstance(join, ReportedJoin)

    assert sorted(join.outcomes.elements()) == sorted(twin.outcomes)
    settled = {id_: (s[0], s[3]) for id_, s in join.state.settled.items()}
    assert {k: y for k, (y, _) in settled.items()} == {k: y for k, (y, _) in twin.learned.items()}
    for id_, (_, weight) in settled.items():
        assert weight == pytest.approx(twin.learned[id_][1], abs=1e-12)
    for one in join.reporters:
        verdicts = twin.verdicts.get(one.name, [])
        assert join.reporters.trust(one) == pytest.approx(twin.trust(one.name), abs=1e-12)
        assert (one.agreed, one.disagreed) == (
            sum(agreed for agreed, _ in verdicts),
            sum(not agreed for agreed, _ in verdicts),
        )
        assert one.labels == sum((s.who or "") == one.name for s in twin.said)


@pytest.mark.parametrize("corrections", [True, False])
@pytest.mark.parametrize("learner", [GaussianNB(), KNNClassifier(3)], ids=["gaussian", "knn"])
@seeds(
    0.03,
    cuts=st.lists(st.integers(0, 60), max_size=6),
    restart=st.integers(0, 60),
    bounds=st.sampled_from(
        [
            {},
            {"max_pending": 2},
            {"max_pending": 5, "horizon": HOUR_MS // 3},
            {"max_classes": 2, "max_bytes": 40},
        ]
    ),
    rules=st.sampled_from([RULES, RULES._replace(max_reporters=2, per_hour=2, trusted=True)]),
)
def test_same_bits_in_any_split_and_after_any_restart(
    learner, corrections, seed, cuts, restart, bounds, rules
) -> None:
    """Predictions, dead letters and state (I1, I2), whatever bound is reached."""
    rows = scattered(30, seed)
    cuts, restart = [cut for cut in cuts if cut <= len(rows)], min(restart, len(rows))
    bounds = {**bounds, "corrections": corrections}
    whole, cut, single, again = (machine(rules, learner.clone(), **bounds) for _ in range(4))
    said = run(whole, rows)
    first = run(single, rows[:restart], range(1, restart))
    again.load_state(single.to_state())
    later = run(again, rows[restart:])
    later[-1] = {restart + k: v for k, v in later[-1].items()}

    assert run(cut, rows, cuts) == said
    assert [*first[:-1], *later[:-1], first[-1] | later[-1]] == said
    assert cut.to_state().fingerprint() == whole.to_state().fingerprint()
    assert again.to_state().fingerprint() == whole.to_state().fingerprint()


@seeds(0.0125)
def test_votes_are_of_ids_that_are_held(seed) -> None:
    """They go with their id (I7)."""
    going = machine(max_pending=3, horizon=HOUR_MS // 2)
    for row in scattered(60, seed):
        run(going, [row])
        held = going.join.state
        ids = [held.table.id_of(entry) for entry in held.votes]
        assert all(held.of(id_) is not IdState.UNKNOWN for id_ in ids)
        assert all(id_ in {**held.waiting, **held.early, **held.settled} for id_ in ids)


def test_id_has_at_most_eight_votes() -> None:
    """The trusted one is among them."""
    rows: list[Row] = [("a", 1.0, None, 1.0, 0, None)]
    rows += [("a", None, "p", 1.0, 0, f"u{i}") for i in range(3 * MOST_VOTES)]
    going = machine(RULES._replace(trusted=True))
    run(going, rows)
    assert len(going.join._votes("a")) == MOST_VOTES
    run(going, [("a", None, "q", 1.0, 1, None), *rows[1:]])
    assert len(going.join._votes("a")) == MOST_VOTES
    assert going.join.state.settled["a"][0] == "q"  # the trusted vote stays and outvotes


@pytest.mark.parametrize("corrections", [True, False])
@seeds(0.05)
def test_without_the_setting_reporters_change_no_bit(corrections, seed) -> None:
    """Nor is anything new saved."""
    rows = scattered(60, seed)
    plain, named = (machine(None, corrections=corrections) for _ in range(2))

    assert run(plain, rows, named=False) == run(named, rows)
    state = plain.to_state()
    assert state.to_bytes() == named.to_state().to_bytes()
    assert not [name for name in state.arrays if "vote" in name or "reporter" in name]
    assert "reporters" not in state.header["join"]


def test_a_wrong_label_never_blocks_its_correction() -> None:
    """Of whoever it was, and however often it was repeated: one complaint of an equal reporter
    suffices."""
    going = machine()
    told: list[Row] = [("m", None, "spam", 1.0, 0, "eve") for _ in range(20)]
    run(going, [("m", 1.0, None, 1.0, 0, None), *told, ("m", None, "ham", 1.0, 0, "ann")])
    assert (going.join.state.settled["m"][0], going.join.outcomes["corrected"]) == ("ham", 1)

    run(going, [("m", None, "spam", 1.0, 0, "eve")])  # it has been heard, and weighs less now
    assert (going.join.state.settled["m"][0], going.join.outcomes["outvoted"]) == ("ham", 1)
    run(going, [("m", None, "spam", 1.0, 0, "ann")])  # who changes a label withdraws the first
    assert going.join.state.settled["m"][0] == "spam"


def test_a_label_for_silence_is_replaced_by_any_label() -> None:
    """Nobody reported it, so it has no vote and judges nobody."""
    going = machine(silence=Silence("ham", 10), horizon=1000)
    rows: list[Row] = [("a", 1.0, None, 1.0, 0, None), ("b", 1.0, None, 1.0, 50, None)]
    run(going, [*rows, ("a", None, "spam", 0.01, 51, "ann")])

    assert (going.join.outcomes["silence"], going.join.outcomes["corrected"]) == (1, 1)
    assert [(one.agreed, one.disagreed) for one in going.join.reporters] == [(0, 0)]


def test_the_model_of_corrected_labels_is_the_one_of_their_weights() -> None:
    """What is unlearned is what was learned, whatever happened to trust in between."""
    rows = [row for row in scattered(200, 3) if row[2] not in (7,)]
    going, right = machine(horizon=2**50), GaussianNB()
    run(going, rows)
    assert going.join.outcomes["corrected"] > 10
    where = {row[0]: row[1] for row in reversed(rows) if row[1] is not None}
    for id_, (label, _, _, w, _) in going.join.state.settled.items():
        right.learn_one({"a": where[id_]}, label, w)

    for a in (-1.0, 0.5, 2.0):
        expected = dict(sorted(right.predict_proba_one({"a": a}).items()))
        got = dict(sorted(going.learner.predict_proba_one({"a": a}).items()))
        assert got == pytest.approx(expected, abs=1e-9)


def test_an_untrusted_reporter_recovers_by_labels_that_are_not_learned() -> None:
    """Quarantined labels are compared, so trust comes back."""
    going, time = machine(), 0
    for wrong in [True] * 8 + [False] * 40:
        time += 1
        id_ = str(time)
        flipped: Row = (id_, None, "q" if wrong else "p", 1.0, time, "bob")
        run(
            going,
            [(id_, 1.0, None, 1.0, time, None), flipped, (id_, None, "p", 1.0, time, "ann")],
        )
        if time == 8:
            assert trust_of(going, "bob") < 0.6
    outcomes = going.join.outcomes
    assert outcomes["quarantined"] > 8
    assert trust_of(going, "bob") > 0.8
    assert going.join.state.settled[str(time)][3] == pytest.approx(
        2 * 0.9 - 1, abs=0.2
    )  # bob's label is learned again


def trust_of(of: Progressive, name: str) -> float:
    table = of.join.reporters
    return next(table.trust(one) for one in table if one.name == name)


def test_repeating_and_changing_a_label_is_no_new_verdict() -> None:
    """Nobody can ruin another one with a single observation."""
    going = machine()
    told: list[Row] = [("a", None, "qr"[i % 2], 1.0, 0, "eve") for i in range(50)]
    run(going, [("a", 1.0, None, 1.0, 0, None), ("a", None, "p", 1.0, 0, "ann"), *told])
    found = {one.name: (one.agreed, one.disagreed) for one in going.join.reporters}

    assert found == {"ann": (0, 1), "eve": (0, 0)}

    going = machine(RULES._replace(trusted=True))
    told = [("a", None, f"never learned {i % 2}", 1.0, 0, "eve") for i in range(50)]
    rows: list[Row] = [("a", 1.0, None, 1.0, 0, None), ("a", None, "p", 1.0, 0, None)]
    run(going, [("b", 1.0, None, 1.0, 0, None), ("b", None, "p", 1.0, 0, "ann"), *rows, *told])
    late: list[Row] = [("b", None, "q", 0.1, 0, "eve") for _ in range(50)]
    run(going, late)
    found = {one.name: (one.agreed, one.disagreed) for one in going.join.reporters}

    assert going.join.outcomes["outvoted"] == 100
    assert found == {"ann": (0, 1), "eve": (0, 0)}


def test_cap_is_counted_in_hours_of_stream_time_and_opens_no_breaker() -> None:
    """A flood is dead letters, and others are learned all the same."""
    breaker = Breaker(ratio=0.01)
    going = machine(RULES._replace(per_hour=3), breaker=breaker)
    rows: list[Row] = [(str(i), 1.0, None, 1.0, HOUR_MS - 10, None) for i in range(300)]
    rows += [(str(i), None, "p", 1.0, HOUR_MS - 5, "eve") for i in range(200)]
    rows += [(str(i), None, "p", 1.0, HOUR_MS, "eve") for i in range(200, 205)]
    rows += [("250", None, "p", 1.0, 0, "ann")]  # late by its own clock: stream time counts
    dead = run(going, rows)[-1]

    assert set(dead.values()) == {"reporter_rate"}
    assert (len(dead), going.join.outcomes["over_rate"]) == (199, 199)
    assert (going.join.outcomes["joined"], breaker.dead, breaker.open) == (7, 0, False)


def test_dead_letters_of_another_reason_still_open_the_breaker() -> None:
    """Only the cap does not count."""
    breaker = Breaker(ratio=0.01)
    going = machine(breaker=breaker)
    rows: list[Row] = [("a", 1.0, "p", 1.0, 0, None)]
    run(going, [*rows, *[(str(i), None, 7, 1.0, 0, "ann") for i in range(20)]])
    assert (breaker.dead, breaker.open) == (20, True)


def test_reporters_without_a_verdict_leave_first() -> None:
    """Invented names cannot push out the record of a bad reporter."""
    table = Reporters(RULES._replace(max_reporters=3))
    bad, old = table.of("bad"), table.of("old")
    table.judge(bad.number, agrees=False, weight=1.0)
    for i in range(100):
        table.of(f"new {i}")
    assert [one.name for one in table] == ["new 98", "new 99", "bad"]
    table.judge(old.number, agrees=True, weight=1.0)  # who left is judged no more
    assert (table.forgotten, table.agreed, table.disagreed) == (99, 0, 1)
    for name in ("new 98", "new 99"):
        table.judge(table.of(name).number, agrees=True, weight=1.0)
    table.of("bad")
    table.of("newer")
    assert [one.name for one in table] == ["newer", "new 99", "bad"]


def test_early_labels_are_compared_by_weight() -> None:
    """The heavier one is learned when the observation comes, and an inside label always is."""
    early = machine()
    run(early, [("a", 0.0, "p", 1.0, 0, None), ("b", 1.0, "q", 1.0, 0, None)])
    rows: list[Row] = [("m", None, "p", 0.5, 1, "ann"), ("m", None, "q", 1.0, 1, "bob")]
    run(early, [*rows, ("m", None, "p", 0.1, 1, "cy"), ("m", 0.3, None, 1.0, 2, None)])
    assert early.join.state.settled["m"][0] == "q"
    assert early.join.outcomes["outvoted"] == 2  # ann's was dropped, cy's was not kept

    run(early, [("n", None, "p", 1.0, 3, "ann"), ("n", 0.3, "q", 1.0, 4, None)])
    assert early.join.state.settled["n"][:1] == ("q",)
    run(early, [("n", None, "p", 1.0, 5, f"u{i}") for i in range(9)])
    assert early.join.state.settled["n"][0] == "q"


def test_a_view_shows_those_with_the_most_labels() -> None:
    """At most twenty, so a page has a bound."""
    table = Reporters(RULES)
    for i in range(50):
        for _ in range(i % 30):
            table.count(table.of(f"u{i}"), 0)
    view = table.view()

    assert (view.known, len(view.top)) == (50 - 2, TOP)
    assert [one.labels for one in view.top[:3]] == [29, 28, 27]
    assert view.top[0] == ("u29", 29, 0, 0, 0.8, False)


@pytest.mark.parametrize("most", [10, 40, 1000])
def test_a_view_is_that_of_a_search_through_all(most) -> None:
    """Also after reporters left, and after a restart: only those with the most labels are kept."""
    rng = np.random.default_rng(most)
    table = Reporters(RULES._replace(max_reporters=most))
    for step in range(3000):
        who = table.of(f"u{int(90 * rng.random() ** 3)}")
        table.count(who, 0)
        if rng.random() < 0.02:
            table.judge(who.number, agrees=True, weight=1.0)
        if step % 100 == 0:
            every = sorted(table, key=lambda one: (-one.labels, one.number))
            shown = [(one.name, one.labels) for one in table.view().top]
            assert shown == [(one.name, one.labels) for one in every[:TOP]]
        if step == 1500:
            state, table = table.to_state({}), Reporters(table.rules)
            table.load_state(state)


@pytest.mark.parametrize(
    "wrong",
    [{"max_reporters": 0}, {"per_hour": 0}, {"min_trust": 0.5}, {"prior_trust": 1.0}],
    ids=str,
)
def test_rules_that_cannot_be_kept_are_refused(wrong) -> None:
    with pytest.raises(SchemaError, match=next(iter(wrong)) if "min" in str(wrong) else "expected"):
        ReportedJoin(RULES._replace(**wrong))


@pytest.mark.parametrize("name", ["", "x" * 257, 7, b"ann"], ids=repr)
def test_a_name_that_is_no_text_is_refused(name) -> None:
    with pytest.raises(SchemaError, match="a reporter must be text of 1 to 256 characters"):
        run(machine(), [("a", 1.0, None, 1.0, 0, name)])


@pytest.mark.parametrize("part", ["vote_mark", "votes", "right", "name_lengths"])
def test_damaged_states_are_refused(part) -> None:
    """In one line, not by a wrong table."""
    going = machine()
    run(going, scattered(30, 1))
    state = going.join.to_state()
    key = f"reporters/{part}"
    arrays = {**state.arrays, key: state.arrays[key][:-1]}
    with pytest.raises((StateError, ValueError)):
        machine().join.load_state(replace(state, arrays=arrays))


def test_weights_too_small_to_multiply_are_learned_as_the_smallest() -> None:
    """A weight of 0 is none."""
    going = machine()
    run(going, [("a", 1.0, None, 1.0, 0, None), ("a", None, "p", 5e-324, 0, "ann")])
    assert going.join.state.settled["a"][3] == 5e-324
