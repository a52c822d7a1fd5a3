"""Experts that rest: the obvious twin, the bound, blocks, late labels, corrections, damage."""

from __future__ import annotations

from itertools import pairwise
from math import log
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example

from stream import (
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedNB,
    Mixture,
    State,
    StateError,
)
from stream.checks import check_laws
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.mixture import Calibrated, belief
from stream.mixture.guesses import ClassShares
from tests.oracles.mixture import SlowMixture, SlowNoChange
from tests.seed import seeds
from tests.stream.mixture.late import delayed, late, run_late

PERIOD, FIRST, LONGEST, LEAST = 10, 20, 4, 0.08

Record = tuple[dict[str, Any], str]


@pytest.fixture(autouse=True)
def short(monkeypatch) -> None:
    """Periods of ten labels, so that short streams have many rests."""
    monkeypatch.setattr(belief, "PERIOD", PERIOD)
    monkeypatch.setattr(belief, "FIRST", FIRST)
    monkeypatch.setattr(belief, "LONGEST", LONGEST)
    monkeypatch.setattr(belief, "LEAST", LEAST)


def experts() -> list[Learner]:
    """Three that differ in what they find out, and how fast."""
    return [MixedNB(), KNNClassifier(n_neighbors=1, window=8), LogisticRegression(half_life=4)]


def changing(n: int, seed: int) -> list[Record]:
    """Records whose label depends on another field in each of some spans, or on none."""
    rng = Random(seed)
    out: list[Record] = []
    while len(out) < n:
        rule = rng.choice(["a", "near", "not a", "label", "none"])
        for _ in range(rng.choice([15, 40, 90])):
            x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
            last = out[-1][1] if out else "p"
            found = {
                "a": "pq"[x["a"] > 0],
                "not a": "qp"[x["a"] > 0],
                "near": "pq"[round(x["a"] * 2) % 2],
                "label": last if rng.random() < 0.95 else "p",
                "none": rng.choice("pqr"),
            }[rule]
            out.append((x, found))
    return out[:n]


def slow(parts: list[Learner]) -> SlowMixture:
    return SlowMixture([ClassShares(), SlowNoChange(), *parts], PERIOD, FIRST, LONGEST, LEAST)


@example(seed=0)  # with rests
@seeds(0.015)
def test_posterior_is_that_of_the_obvious_twin(seed) -> None:
    """Probabilities, weights, and who rests."""
    fast, twin = Mixture(experts(), rest=True), slow(experts())
    rests = set()
    for i, (x, y) in enumerate(changing(400, seed)):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y)
        twin.learn(x, y, 1.0, i)
        names = list(fast.expert_weights)
        assert fast.resting == [names[e] for e in sorted(twin.asleep)]
        rests |= set(twin.asleep)

    assert rests or seed != 0
    assert list(fast.expert_weights.values()) == pytest.approx(twin.weights, abs=1e-9)


@seeds(0.015)
def test_loss_is_at_most_that_of_each_expert_that_rests_as_the_others_predict(seed) -> None:
    """The bound of Freund et al. 1997 plus that of the bank. For a guess it is the plain bound."""
    fast, twin = Mixture(experts(), rest=True), slow(experts())
    loss, own = 0.0, [0.0] * 5
    for i, (x, y) in enumerate(changing(600, seed)):
        predicted = fast.predict_proba_one(x)
        twin.predict(x, i)
        given, by_rate, classes, _ = twin.then[i]
        if y in classes:
            loss -= log(predicted[y])
            for e, p in enumerate(given):
                own[e] -= log((by_rate[0] if p is None else p)[y])
        fast.learn_one(x, y)
        twin.learn(x, y, 1.0, i)

    for e, of_expert in enumerate(own):
        assert loss <= of_expert + log(5) + log(5) + 1e-6, e


def test_resting_expert_neither_predicts_nor_learns() -> None:
    """Its state stays as it was, also for new classes."""
    model = Mixture([GaussianNB(), LogisticRegression()], rest=True)
    rng = Random(0)
    for _ in range(200):
        model.learn_one({"a": rng.gauss(0, 1)}, rng.choice("pq"))
        if model.resting:
            break
    at = list(model.expert_weights).index(model.resting[0])
    before = model._parts[at].fingerprint()
    for i in range(PERIOD - 1):
        model.learn_one({"a": 1.0}, "pqr"[i % 3])
        model.predict_proba_one({"a": 1.0})

    assert model._parts[at].fingerprint() == before
    assert sum(model.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1.0)


def test_guess_at_the_beginning_of_the_experts_never_rests() -> None:
    """It costs next to nothing, and must be there when runs begin."""
    recent = {"type": "NoChange", "half_life": 2}
    model = Mixture([recent, GaussianNB(), recent], rest=True)
    rng, rested = Random(0), set()
    for i in range(400):
        model.learn_one({"a": i % 2 + rng.gauss(0, 0.1)}, "pq"[i % 2])
        rested.update(model.resting)

    assert "NoChange(half_life=2.0) 2" in rested
    assert "NoChange(half_life=2.0)" not in rested


def test_expert_that_becomes_right_is_woken_and_believed() -> None:
    """After a long time without use; the rest is at most four periods."""
    model = Mixture([LogisticRegression()], rest=True)
    rng = Random(1)
    for _ in range(400):
        model.learn_one({"a": rng.gauss(0, 1)}, "p" if rng.random() < 0.5 else "q")
    for _ in range(300):
        x = {"a": rng.gauss(0, 1)}
        model.learn_one(x, "pq"[x["a"] > 0])

    assert model.resting == []
    assert model.expert_weights["LogisticRegression"] > 0.9


def test_weight_that_rises_in_a_rest_ends_it() -> None:
    """By late labels of what it predicted before."""
    found = belief.Rest(3, always=2)
    for _ in range(FIRST // PERIOD):
        found.count(PERIOD)
    assert found.awake.tolist() == [True, True, False]
    for _ in range(2):  # tried once, and at rest for two periods
        found.count(PERIOD)
    assert not found.awake[2]
    found.sums[2] = 0.5 * PERIOD
    found.count(PERIOD)

    assert found.awake[2]


def test_rests_double_up_to_the_longest() -> None:
    """1, 2, 4, 4, … periods, each after a trial of one period."""
    found = belief.Rest(3, always=2)
    was = []
    for _ in range(60):
        found.count(PERIOD)
        was.append(bool(found.awake[2]))
    changes = [i for i, (a, b) in enumerate(pairwise(was)) if a != b]

    assert np.diff(changes).tolist()[:8] == [1, 1, 2, 1, 4, 1, 4, 1]


def test_who_learned_a_record_is_known_by_its_age() -> None:
    """As the history of every period says; before the kept ones only the guesses."""
    found = belief.Rest(4, always=2)
    rng = Random(3)
    learned: list[list[bool]] = []
    for _ in range(3000):
        learned.append(found.awake.tolist())
        found.sums += [0.5, 0.3, rng.choice([0.0, 0.3]), rng.choice([0.0, 0.15])]
        found.count(1)

    for age in range(3000):
        assert found.awake_at(age).tolist() == learned[2999 - age]
    for _ in range(belief.KEPT + 1):
        found.count(PERIOD)
    assert found.awake_at((belief.KEPT + 1) * PERIOD).tolist() == [True, True, False, False]


@pytest.mark.parametrize("delay", [0, 7, 35])
def test_blocks_and_restarts_change_no_bit(delay) -> None:
    """A block is divided where an expert may be woken; what rested is noted in the row."""
    xs, events = delayed(260, delay)
    model = Calibrated(Mixture([*experts(), Calibrated("MixedNB")], rest=True))
    one = run_late(model.clone(), xs, events, 1, save=False)

    assert run_late(model.clone(), xs, events, 13, save=True) == one
    assert run_late(model.clone(), xs, events, 64, save=False) == one
    assert run_late(model.clone(), xs, events, 10_000, save=False) == one


def test_late_labels_count_what_was_predicted_while_others_rested() -> None:
    """The twin keeps who predicted with the row."""
    delay, stream = 17, changing(400, 4)
    xs, labels = [x for x, _ in stream], [y for _, y in stream]
    events = late(labels, delay)
    found, _ = run_late(Mixture(experts(), rest=True), xs, events, 1000, save=False)
    twin, rests = slow(experts()), 0
    for row, id_, label in zip(events.row, events.ids, events.labels, strict=True):
        if row >= 0:
            assert found[row] == pytest.approx(twin.predict(xs[row], id_), abs=1e-9)
        else:
            twin.learn(xs[int(id_)], label, 1.0, id_)
            rests += bool(twin.asleep)

    assert rests > 20


def test_correction_unlearns_what_was_learned_and_no_more() -> None:
    """An expert that rested at the first label learns the second one, unless it rests now."""
    parts = [MixedNB(), GaussianNB(), KNNClassifier(n_neighbors=1, window=8)]
    fast = Mixture([p.clone() for p in parts], rest=True)
    twin = slow([p.clone() for p in parts])
    rng, stream = Random(5), changing(400, 5)
    learned: list[tuple[int, int, str]] = []  # record, labels before it, label
    rested = 0
    for i, (x, y) in enumerate(stream):
        twin.predict(x, i)
        learned.append((i, twin.labels, y))
        fast.learn_one(x, y)
        twin.learn(x, y, 1.0, i)
        if i > 5 and rng.random() < 0.3:
            j, before, old = learned.pop(rng.randrange(max(len(learned) - 60, 0), len(learned)))
            age = twin.labels - 1 - before
            rested += len(twin.learned_by[before]) < 5
            new = rng.choice([c for c in "pq" if c != old])
            fast.correct_rows(fast.rows([stream[j][0]]), (old, 1.0), (new, 1.0), age)
            twin.correct(stream[j][0], old, new, age)
        probe = stream[rng.randrange(i + 1)][0]
        assert fast.predict_proba_one(probe) == pytest.approx(twin.predict(probe, -1), abs=1e-7)

    assert rested > 10


def test_laws_hold() -> None:
    """Those of every learner."""
    check_laws(Mixture([MixedNB(), LogisticRegression(half_life=5)], rest=True))


def test_state_with_other_rests_is_refused() -> None:
    """The parameter is in it."""
    plain, resting = Mixture(["MixedNB"]), Mixture(["MixedNB"], rest=True)

    assert resting.clone().rest
    for one, other in ((plain, resting), (resting, plain)):
        with pytest.raises(StateError, match="rest"):
            one.load_state(other.to_state())


def filled() -> State:
    model = Mixture(experts(), rest=True)
    for x, y in changing(150, 0):
        model.learn_one(x, y)
    return model._rest.to_state()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("until", 5),
        ("until", -10),
        ("until", 2**61),
        ("pause", 0),
        ("pause", LONGEST + 1),
        ("sums", -1.0),
        ("sums", np.nan),
        ("sums", 1e9),
        ("history", -1),
    ],
)
def test_damaged_rests_are_refused(name, value) -> None:
    """No number leads to an expert that never wakes, or to a wrong index."""
    state = filled()
    state.arrays[name][-1] = value

    with pytest.raises(StateError):
        belief.Rest(5, always=2).load_state(state)


@pytest.mark.parametrize("learned", [None, -1, 2**63, "3", 1.0])
def test_damaged_count_of_labels_is_refused(learned) -> None:
    """It decides when the next period begins."""
    state = filled()
    damaged = State({**state.header, "learned": learned}, state.arrays)

    with pytest.raises(StateError):
        belief.Rest(5, always=2).load_state(damaged)


def test_guess_that_rests_in_a_state_is_refused() -> None:
    """The bound needs the guesses."""
    state = filled()
    state.arrays["until"][0] = PERIOD

    with pytest.raises(StateError):
        belief.Rest(5, always=2).load_state(state)


def test_block_is_divided_at_the_labels_only() -> None:
    """Predictions do not count."""
    found = belief.Rest(3, always=2)
    op = np.array([PREDICT, LEARN, PREDICT_THEN_LEARN] * 9, dtype=np.int8)

    assert found.stops(op) == [15, 27]
    found.count(9)
    assert found.stops(op) == [2, 17, 27]
    assert found.stops(op[:2]) == [2]
    assert found.stops(op[:0]) == [0]
