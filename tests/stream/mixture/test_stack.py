"""Experts that are stacked: the obvious twin, the bound, blocks, late labels, corrections,
damage."""

from __future__ import annotations

from math import log
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.mixture import Calibrated, belief
from stream.mixture._kernels.stack import FLOOR, LITTLE, NEGLIGIBLE
from stream.mixture.guesses import ClassShares
from tests.oracles.mixture import HEAVY, SlowNoChange, floored
from tests.oracles.stacked import SlowStacked
from tests.seed import seeds, share
from tests.stream.mixture.late import delayed, late, run_late

PERIOD, FIRST, LONGEST, LEAST = 10, 20, 4, 0.08
VALUES = st.sampled_from([None, 0.0, 1.0, -3.0, 25.0])
RECORD = st.fixed_dictionaries({"a": VALUES}, optional={"b": VALUES, "c": st.sampled_from("xyz")})
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from("pqr"), st.sampled_from([1.0, 0.5, 2.0, HEAVY])),
    min_size=1,
    max_size=20,
)


@pytest.fixture
def short(monkeypatch) -> None:
    """Periods of ten labels, so that short streams have many rests."""
    for name, value in (
        ("PERIOD", PERIOD),
        ("FIRST", FIRST),
        ("LONGEST", LONGEST),
        ("LEAST", LEAST),
    ):
        monkeypatch.setattr(belief, name, value)


def experts() -> list[Learner]:
    """Three that are right about different streams."""
    return [MixedNB(), LogisticRegression(half_life=5), KNNClassifier(n_neighbors=1, window=4)]


def stacked(**more: bool) -> Mixture:
    return Mixture(experts(), stack=True, **more)


def slow(*rests: Any) -> SlowStacked:
    """The twin of `stacked()`."""
    return SlowStacked([ClassShares(), SlowNoChange(), *experts()], *rests)


def changing(n: int, seed: int) -> list[tuple[dict[str, Any], str]]:
    """Records whose label depends on a number, on another one, or on the label before."""
    rng, out = Random(seed), []
    for i in range(n):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        last = out[-1][1] if out else "p"
        kinds = ["pq"[x["a"] > 0], "qp"[x["b"] > 0], last if rng.random() < 0.9 else "r"]
        out.append((x, kinds[i // 60 % 3]))
    return out


@settings(max_examples=share(0.15))
@given(STREAM)
def test_posterior_is_that_of_the_obvious_twin(stream) -> None:
    """Labels at once, weights that differ, missing values."""
    fast, twin = stacked(), slow()
    for i, (x, y, w) in enumerate(stream):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y, w)
        twin.learn(x, y, w, i)

    assert list(fast.expert_weights.values()) == pytest.approx(twin.weights, abs=1e-9)


@pytest.mark.parametrize("w", [5.0, 100.0, 1e6, 2.0**53])
def test_label_of_any_weight_moves_odds_as_far_as_one_of_weight_one_can(w) -> None:
    """Of the experts, of the three, and of the share rates of both. At 2**53 a mixture never came
    back: the share rate that was best for one record had all the weight."""
    for model, least in ((stacked(), LITTLE), (Mixture(experts()), FLOOR)):  # of two classes
        for x, y in changing(30, 1):
            model.learn_one(x, y)
        beliefs = [model._belief, *([model._stack._belief] if model._stack else [])]
        before = [np.concatenate((b.log_bayes, b.log_bank)) for b in beliefs]
        model.learn_one({"a": 9.0, "b": -9.0}, "p", w)
        beliefs = [model._belief, *([model._stack._belief] if model._stack else [])]
        for was, b in zip(before, beliefs, strict=True):
            moved = np.concatenate((b.log_bayes, b.log_bank)) - was
            for part in (moved[: b.log_bayes.size], moved[b.log_bayes.size :]):
                assert np.ptp(part) <= log(2 / least) + 1e-9


@pytest.mark.parametrize("stack", [False, True])
def test_mixture_is_back_after_a_label_of_weight_one_hundred(stack) -> None:
    """Within 0.01 nats of what it would be without it, after 1,000 records."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3000, 3))
    up = a[:, 0] - a[:, 1] + 0.3 * rng.normal(size=3000) > 0
    xs = [dict(zip("abc", row, strict=True)) for row in a.tolist()]
    ys = ["up" if u else "down" for u in up.tolist()]
    losses = []
    for heavy in (1.0, 100.0):
        ws = np.ones(3000)
        ws[1000] = heavy
        model = Mixture(stack=stack, rest=stack)
        found = model.progressive_many(Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys, ws)).dicts()
        losses.append(-np.mean([log(p[y]) for p, y in zip(found[2000:], ys[2000:], strict=True)]))

    assert losses[1] < losses[0] + 0.01


@pytest.mark.usefixtures("short")
@example(seed=0)  # with many rests
@seeds(0.0075)
def test_resting_expert_counts_as_the_others_predict(seed) -> None:
    """The twin says who rests, and what the stack then uses in its place."""
    fast, twin, rests = stacked(rest=True), slow(PERIOD, FIRST, LONGEST, LEAST), 0
    for i, (x, y) in enumerate(changing(300, seed)):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y)
        twin.learn(x, y, 1.0, i)
        rests += len(fast.resting)

    assert rests > 20 or seed != 0


@pytest.mark.parametrize("delay", [1, 17])
def test_late_label_counts_what_was_predicted_then(delay, short) -> None:
    """The twin keeps the predictions, and who rested, by id."""
    stream = changing(300, 4)
    xs, labels = [x for x, _ in stream], [y for _, y in stream]
    events = late(labels, delay)
    found, _ = run_late(stacked(rest=True), xs, events, 1000, save=False)
    twin = slow(PERIOD, FIRST, LONGEST, LEAST)
    for row, id_, label in zip(events.row, events.ids, events.labels, strict=True):
        if row >= 0:
            assert found[row] == pytest.approx(twin.predict(xs[row], id_), abs=1e-9)
        else:
            twin.learn(xs[int(id_)], label, 1.0, id_)


@pytest.mark.parametrize("delay", [0, 7, 35])
def test_blocks_and_restarts_change_no_bit(delay, short) -> None:
    """What the experts, the mixture and the stack predicted travels with the waiting row."""
    xs, events = delayed(200, delay)
    inner = Mixture(["MixedNB", "GaussianNB"], stack=True)
    model = Mixture([*experts(), Calibrated("MixedNB"), inner], rest=True, stack=True)
    one = run_late(model.clone(), xs, events, 1, save=False)

    assert run_late(model.clone(), xs, events, 13, save=True) == one
    assert run_late(model.clone(), xs, events, 64, save=False) == one
    assert run_late(model.clone(), xs, events, 10_000, save=False) == one


def test_weights_too_small_to_count_are_kept_and_change_no_bit() -> None:
    """The guesses are wrong so long that their weights have no normal number."""
    rng = Random(1)
    stream = [({"a": 5.0 * side}, side > 0) for side in rng.choices([-1, 1], k=1500)]
    one = stacked()
    for x, y in stream:
        one.learn_one(x, y)
    some = stacked()
    for begin in range(0, 1500, 70):
        part = stream[begin : begin + 70]
        some.learn_many([x for x, _ in part], [y for _, y in part])
        again = stacked()
        again.load_state(some.to_state())
        again.predict_many([x for x, _ in part])
        assert again.fingerprint() == some.fingerprint()
    arrays = one.to_state().arrays

    assert some.fingerprint() == one.fingerprint()
    assert (arrays["parts/own/log_bayes"][:2] < -708).all()
    assert (arrays["parts/own/shares"][0, :2] > 0).all()
    assert (arrays["parts/own/shares"][0, :2] < NEGLIGIBLE).all()


@settings(max_examples=share(0.15))
@given(
    st.lists(st.tuples(RECORD, st.sampled_from("pqr")), min_size=1, max_size=120),
    st.booleans(),
    st.lists(st.sampled_from([1.0, 0.5, 1e-9]), min_size=1, max_size=3),
)
def test_loss_is_at_most_that_of_the_plain_mixture_and_a_constant(stream, runs, ws) -> None:
    """ln 3 + ln 2 more, whatever the labels are; labels that no expert knew are left out."""
    if runs:  # long runs, in which another expert becomes the best
        stream = [(x, stream[i // 30][1]) for i, (x, _) in enumerate(stream)]
    xs, ys = [x for x, _ in stream], [y for _, y in stream]
    w = [ws[i % len(ws)] for i in range(len(ys))]
    found, plain = (
        model.progressive_many(Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys, w)).dicts()
        for model in (stacked(), Mixture(experts()))
    )
    scored = [i for i, y in enumerate(ys) if y in found[i]]
    loss = -sum(w[i] * log(found[i][ys[i]]) for i in scored)
    least = -sum(w[i] * log(floored(plain[i], list(plain[i]), LITTLE)[ys[i]]) for i in scored)

    assert loss <= least + log(3) + log(2) + 1e-9


def test_stack_is_right_where_experts_are_right_together_only() -> None:
    """Each expert sees one of two numbers that both count."""
    rng = np.random.default_rng(3)
    xs = [{"a": a, "b": b} for a, b in rng.normal(size=(3000, 2)).tolist()]
    ys = ["pq"[x["a"] + x["b"] > 0] for x in xs]

    def loss(model: Learner) -> float:
        block = Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys)
        p = model.progressive_many(block).dicts()
        return -float(np.mean([log(p[i][ys[i]]) for i in range(1000, 3000)]))

    parts: list[Learner] = [GaussianNB(half_life=20), LogisticRegression(learning_rate=0.01)]
    assert loss(Mixture(parts, stack=True)) < 0.8 * loss(Mixture(parts))


def test_class_that_a_correction_brings_has_a_bias() -> None:
    """The state could not be loaded."""
    model = stacked()
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    model.correct_rows(model.rows([{"a": 1.0}]), ("p", 1.0), ("r", 1.0), 1)

    assert stacked().load_state(model.to_state()).fingerprint() == model.fingerprint()
    model.learn_one({"a": 3.0}, "r")
    assert sum(model.predict_proba_one({"a": 3.0}).values()) == pytest.approx(1.0)


def test_laws_hold() -> None:
    """Those of every learner."""
    check_laws(Mixture([MixedNB(), LogisticRegression(half_life=5)], rest=True, stack=True))


def test_state_of_another_stack_is_refused() -> None:
    """The parameter is in the state."""
    plain, other = Mixture(["MixedNB"]), Mixture(["MixedNB"], stack=True)

    for one, two in ((plain, other), (other, plain)):
        with pytest.raises(StateError, match="stack"):
            one.load_state(two.to_state())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slope", np.full(6, np.nan)),
        ("slope", np.full(6, -1.0)),
        ("slope", np.full(6, 101.0)),
        ("slope", np.zeros(5)),
        ("slope_squares", np.full(6, -1.0)),
        ("bias", np.full(1, 51.0)),
        ("bias", np.zeros(2)),
        ("right", np.full((20, 2), np.inf)),
        ("right", np.array([[1.0, 2.0]] * 20)),
        ("bank", np.full((1, 2), np.nan)),
        ("shares", np.eye(3)[[1, 1]]),
    ],
)
def test_damaged_stack_is_refused(name, value) -> None:
    """Other shapes, numbers beyond the bounds, and weights that are none."""
    model = stacked()
    model.learn_one({"a": 1.0}, "p")
    state = model.to_state()
    with pytest.raises(StateError):
        stacked().load_state(State(state.header, {**state.arrays, f"stack/{name}": value}))
