"""Calibrated: its obvious twin, what it is for, late labels, damaged states."""

from __future__ import annotations

from math import isfinite, isnan, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from stream import (
    Block,
    Calibrated,
    GaussianNB,
    KNNClassifier,
    Learner,
    MixedNB,
    Mixture,
    MultinomialNB,
    State,
    StateError,
)
from stream.data.block import LEARN, PREDICT_THEN_LEARN
from stream.mixture._kernels import calibrate as kernels
from stream.mixture.guesses import ClassShares
from tests.oracles.calibrated import SlowCalibrated
from tests.oracles.mixture import HEAVY, RATES, floored
from tests.seed import share
from tests.stream.mixture.late import delayed, run_late

VALUES = st.sampled_from([None, 0.0, 1.0, -3.0, 25.0])
RECORD = st.fixed_dictionaries({"a": VALUES}, optional={"b": VALUES, "c": VALUES})
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from("pqr"), st.sampled_from([1.0, 0.5, 2.0, HEAVY])),
    min_size=1,
    max_size=30,
)
Posteriors = list[dict[Any, float]]


def repeated(n: int) -> tuple[list[dict[str, Any]], list[str]]:
    """One weak field, eight times: naive Bayes counts its evidence eight times."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=n)
    y = np.where(a + rng.normal(scale=1.5, size=n) > 0, "up", "down").tolist()
    return [{f"f{i}": v for i in range(8)} for v in a.tolist()], y


def posteriors(learner: Learner, xs: list[dict[str, Any]], ys: list[str]) -> Posteriors:
    """Progressive predictions, labels at once."""
    return learner.progressive_many(Block.of(learner.rows(xs), PREDICT_THEN_LEARN, ys)).dicts()


def loss(found: Posteriors, ys: list[str]) -> float:
    """Mean log loss of the second half."""
    half = len(ys) // 2
    pairs = zip(found[half:], ys[half:], strict=True)
    return float(np.mean([-log(max(p.get(y, 0.0), 1e-15)) for p, y in pairs]))


@settings(max_examples=share(0.25))
@given(STREAM, st.sampled_from(["GaussianNB", "KNNClassifier"]), st.booleans())
def test_posterior_is_that_of_the_obvious_twin(stream, name, hedge) -> None:
    """Labels at once."""
    fast = Calibrated(name, hedge=hedge)
    twin = SlowCalibrated(Calibrated(name)._parts[0].clone(), hedge=hedge)
    for i, (x, y, w) in enumerate(stream):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y, w)
        twin.learn(x, y, w, i)

    assert fast.slopes == pytest.approx(tuple(twin.slope), abs=1e-9)
    weight = sum(twin.mixture.weights[1:]) if twin.mixture else 1.0
    assert fast.correction_weight == pytest.approx(weight, abs=1e-9)
    errors = fast.calibration_error
    if twin.said[0]:
        assert errors["before"] == pytest.approx(twin.calibration_error(0))
        assert errors["after"] == pytest.approx(twin.calibration_error(1))
    else:
        assert isnan(errors["before"])
        assert isnan(errors["after"])


@pytest.mark.parametrize(
    ("learner", "before", "after"), [("MixedNB", 0.25, 0.02), ("KNNClassifier", 0.11, 0.035)]
)
def test_probabilities_become_as_sure_as_they_are_right(learner, before, after) -> None:
    """Which class is most probable hardly changes."""
    xs, ys = repeated(6000)
    model = Calibrated(learner)
    raw, found = posteriors(Calibrated(learner)._parts[0], xs, ys), posteriors(model, xs, ys)

    assert loss(found, ys) < min(loss(raw, ys), loss(posteriors(ClassShares(), xs, ys), ys))
    assert model.calibration_error["before"] > before
    assert model.calibration_error["after"] < after
    right = [
        np.mean([max(p, key=p.__getitem__, default="") == y for p, y in zip(out, ys, strict=True)])
        for out in (raw, found)
    ]
    assert right[1] > right[0] - 0.005


def test_noisy_labels_make_every_prediction_equally_sure() -> None:
    """Nine of ten labels follow the rule, near its edge and far from it."""
    rng = np.random.default_rng(5)
    a, flip = rng.uniform(-1, 1, 8000), rng.random(8000) < 0.1
    xs = [{"a": v} for v in a.tolist()]
    ys = np.where((a > 0) ^ flip, "up", "down").tolist()
    model = Calibrated("GaussianNB")
    found = posteriors(model, xs, ys)

    least = -(0.9 * log(0.9) + 0.1 * log(0.1))
    assert model.calibration_error["after"] < 0.04
    assert loss(found, ys) < least + 0.02


def test_sure_and_right_learner_stays_so() -> None:
    """The correction begins as the identity, and a right prediction hardly moves it."""
    xs = [{"a": float(i % 2) + 1e-3 * (i % 7)} for i in range(500)]
    ys = ["odd" if i % 2 else "even" for i in range(500)]

    assert loss(posteriors(Calibrated("GaussianNB"), xs, ys), ys) < 0.001


@pytest.mark.parametrize("rest", [1e-313, 5e-324, 3e-308, 0.0])
def test_probabilities_next_to_zero_share_what_the_largest_leaves(rest) -> None:
    """A divisor without digits would make them infinite, or no number."""
    right, out = np.zeros((len(kernels.ENDS) + 1, 2)), np.zeros(4)
    right[-1] = 9000.0, 3000.0
    kernels.correct_by_bin(np.array([0.0, 1.0, rest, 0.0]), 4, 1, len(right) - 1, right, out)

    assert out.min() >= 0.0
    assert out.sum() == pytest.approx(1.0, abs=1e-12)
    assert out[1] < 0.5


def test_slopes_and_bias_reach_those_of_the_batch_solution() -> None:
    """For probabilities that do not change: the log loss is that of an optimiser, within 0.005."""
    xs, ys = repeated(20_000)
    model, inner = Calibrated("GaussianNB"), GaussianNB()
    inner.learn_many(xs, ys)
    p = np.array([d["up"] for d in inner.predict_proba_many(xs[10_000:])])
    t = np.array([y == "up" for y in ys[10_000:]])

    def batch(v: np.ndarray) -> float:
        odds = sum(
            s * np.log(((1 - e) * p + e / 2) / ((1 - e) * (1 - p) + e / 2))
            for s, e in zip(v, (0.3, 0.01, 1e-6), strict=False)
        )
        top = v[3] * np.where(p > 0.5, 1, -1) + v[4]
        return float(np.mean(np.logaddexp(0.0, np.where(t, -1, 1) * (odds + top))))

    best = minimize(batch, [0.0, 1.0, 0.0, 0.0, 0.0], bounds=[(0, 100)] * 4 + [(None, None)]).fun
    assert loss(posteriors(model, xs, ys), ys) < best + 0.005


@settings(max_examples=share(0.25))
@given(STREAM, st.sampled_from(["GaussianNB", "KNNClassifier"]), st.booleans())
def test_loss_with_hedge_is_at_most_that_of_each_and_a_constant(stream, name, in_runs) -> None:
    """Before and after both corrections, which do not depend on the weights."""
    if in_runs:  # long runs of a label, in which the correction is wrong for long
        stream = [(x, stream[i // 10][1], min(w, 1.0)) for i, (x, _, w) in enumerate(stream * 5)]
    xs, ys, ws = (list(column) for column in zip(*stream, strict=True))
    ws = [min(w, 1.0) for w in ws]
    given = Calibrated(name, 5.0), Calibrated(name)._parts[0]
    block = [Block.of(m.rows(xs), PREDICT_THEN_LEARN, ys, ws) for m in given]
    corrected, raw = (m.progressive_many(b).dicts() for m, b in zip(given, block, strict=True))
    hedged = Calibrated(name, 5.0, hedge=True)
    found = hedged.progressive_many(Block.of(hedged.rows(xs), PREDICT_THEN_LEARN, ys, ws)).dicts()

    scored = [i for i, y in enumerate(ys) if y in found[i]]
    loss = -sum(ws[i] * log(found[i][ys[i]]) for i in scored)
    twin, by_bin = SlowCalibrated(Calibrated(name)._parts[0], 5.0, hedge=True), []
    for i, (x, y, w) in enumerate(zip(xs, ys, ws, strict=True)):
        twin.predict(x, i)
        by_bin.append(twin.each[2].p)
        twin.learn(x, y, w, i)
    for each in (raw, corrected, by_bin):
        own = -sum(ws[i] * log(floored(each[i], list(found[i]), 1e-6)[ys[i]]) for i in scored)
        assert loss <= own + log(3) + log(len(RATES)) + 1e-9


def test_hedge_keeps_probabilities_that_are_right_already() -> None:
    """The correction of fair coins costs more than it gains."""
    rng = np.random.default_rng(1)
    ys = rng.choice(["up", "down"], 4000).tolist()
    xs = [{"a": 0.0}] * len(ys)
    plain, hedged = Calibrated("GaussianNB", 1.0), Calibrated("GaussianNB", 1.0, hedge=True)

    assert loss(posteriors(hedged, xs, ys), ys) < loss(posteriors(plain, xs, ys), ys) - 0.0005
    assert hedged.correction_weight < 0.5


def test_hedge_follows_a_correction_that_is_worth_it() -> None:
    """Its weight is nearly all, and so is what it gains."""
    xs, ys = repeated(6000)
    plain, hedged = Calibrated("MixedNB"), Calibrated("MixedNB", hedge=True)

    assert loss(posteriors(hedged, xs, ys), ys) < loss(posteriors(plain, xs, ys), ys) + 0.001
    assert hedged.correction_weight > 0.99
    assert plain.correction_weight == 1.0


@pytest.mark.parametrize("hedge", [False, True])
@pytest.mark.parametrize("delay", [1, 7, 40])
def test_late_label_corrects_what_was_predicted_then(delay, hedge) -> None:
    """The twin keeps the predictions by id; they are never made again at the label."""
    xs, events = delayed(80, delay)
    found, _ = run_late(Calibrated("MixedNB", hedge=hedge), xs, events, 1000, save=False)
    twin, expected = SlowCalibrated(MixedNB(), hedge=hedge), []
    for row, id_, label in zip(events.row, events.ids, events.labels, strict=True):
        if row >= 0:
            expected.append(twin.predict(xs[row], id_))
        else:
            twin.learn(xs[int(id_)], label, 1.0, id_)

    assert len(found) == 80
    assert all(p == pytest.approx(q, abs=1e-9) for p, q in zip(found, expected, strict=True))


@pytest.mark.parametrize("delay", [0, 7, 25])
@pytest.mark.parametrize(
    ("learner", "hedge"),
    [
        ("MixedNB", False),
        ("MixedNB", True),
        (Mixture(["GaussianNB", Calibrated(KNNClassifier(window=20), hedge=True)]), True),
        (Calibrated(), False),
    ],
    ids=["single", "hedged", "mixture", "twice"],
)
def test_blocks_and_restarts_change_no_bit_of_late_labels(delay, hedge, learner) -> None:
    """Alone, around a mixture that has another one inside, and twice."""
    model = Calibrated(learner, hedge=hedge)
    xs, events = delayed(50, delay)
    whole = run_late(model.clone(), xs, events, 1000, save=False)
    for size, save in ((1, False), (13, True)):
        assert run_late(model.clone(), xs, events, size, save) == whole


def test_learner_inside_is_what_it_would_be_alone() -> None:
    """The correction reads it only."""
    xs, ys = repeated(200)
    model, alone = Calibrated("GaussianNB"), GaussianNB()
    for learner in (model, alone):
        learner.learn_many(xs, ys)

    assert model._parts[0].fingerprint() == alone.fingerprint()
    assert model.classes == alone.classes
    assert model.features == alone.features


def test_correction_reaches_the_learner_and_not_what_was_counted() -> None:
    """Scores and calibration count the first label."""
    xs, ys = repeated(50)
    model, alone = Calibrated("GaussianNB"), GaussianNB()
    for learner in (model, alone):
        learner.learn_many(xs, ys)
    before = model.calibration_error
    for learner in (model, alone):
        learner.correct_rows(learner.rows(xs[3:4]), (ys[3], 1.0), ("left", 1.0), 46)

    assert model._parts[0].fingerprint() == alone.fingerprint()
    assert model.calibration_error == before
    assert sum(model.predict_proba_one(xs[3]).values()) == pytest.approx(1.0)


def test_learner_by_name_and_parameters_is_that_learner() -> None:
    """Its state loads into the same and into no other."""
    given = {"type": "GaussianNB", "half_life": 20}
    named = Calibrated(given)
    named.learn_many([{"a": 1.0}, {"a": 3.0}], ["p", "q"])

    same = Calibrated(given).load_state(State.from_bytes(named.to_state().to_bytes()))
    assert same.fingerprint() == named.fingerprint()
    with pytest.raises(StateError, match="learner"):
        Calibrated("GaussianNB").load_state(named.to_state())


@pytest.mark.parametrize(
    "name",
    [
        "slope",
        "slope_squares",
        "bias",
        "bias_squares",
        "bins",
        "right",
        "log_bank",
        "bank",
        "log_bayes",
        "shares",
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -60.0, "shape"], ids=str)
def test_damaged_correction_is_refused(name, value) -> None:
    """Other shapes, and what is no number or out of bounds."""
    model = Calibrated(hedge=True)
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    state = model.to_state()
    array = state.arrays[f"own/{name}"]
    damaged = np.zeros((9,) * array.ndim) if value == "shape" else np.full_like(array, value)
    with pytest.raises(StateError):
        model.clone().load_state(State(state.header, {**state.arrays, f"own/{name}": damaged}))


def test_state_without_hedge_has_no_bank() -> None:
    """And the parameter is in it."""
    plain, hedged = Calibrated("MixedNB"), Calibrated("MixedNB", hedge=True)

    assert hedged._saved_parameters() == {**plain._saved_parameters(), "hedge": True}
    assert hedged.clone().hedge
    assert not {"own/right", "own/bank", "own/shares"} & set(plain.to_state().arrays)
    for one, other in ((plain, hedged), (hedged, plain)):
        with pytest.raises(StateError, match="hedge"):
            one.load_state(other.to_state())


@pytest.mark.parametrize("hedge", [False, True])
@pytest.mark.parametrize("memo", [[[100.0, 100.0], [0.5, 0.5]], [[2.0], [0.5], [0.5]]])
def test_damaged_note_of_a_waiting_row_is_never_read_beyond_its_end(memo, hedge) -> None:
    """More classes than it has probabilities, or no probabilities after the correction."""
    model = Calibrated("GaussianNB", hedge=hedge)
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    rows = model.rows([{"a": 1.5}])
    rows.memo = np.array([memo])
    model.run(Block.of(rows, LEARN, ["q"]))

    posterior = model.predict_proba_one({"a": 1.5})
    assert sum(posterior.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("value", [1e18, 1e300, np.inf])
def test_damaged_probability_of_a_waiting_row_is_counted_in_no_other_place(value) -> None:
    """It was counted in a bin far beyond the last one, which wrote over other memory."""
    p = np.array([0.5, value])
    memory = np.zeros(4 * 10 * 3)
    bins = memory[30:90].reshape(2, 10, 3)
    kernels.count(1, 1.0, p, 2, bins, 1)

    assert bins[1, 9, 0] == 1.0
    bins[1, 9] = 0.0
    assert not memory.any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Calibrated("GaussianNB"),
        lambda: Calibrated("KNNClassifier"),
        lambda: Calibrated(Mixture([Calibrated("LogisticRegression")])),
    ],
    ids=["bayes", "nearest", "nested"],
)
def test_state_after_a_correction_with_a_new_class_can_be_loaded(make) -> None:
    """The class had no bias until the next record, so a snapshot between was refused."""
    model = make()
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    model.correct_rows(model.rows([{"a": 1.0}]), ("p", 1.0), ("r", 1.0), 1)
    other = make().load_state(State.from_bytes(model.to_state().to_bytes()))

    assert other.fingerprint() == model.fingerprint()
    assert other.predict_proba_one({"a": 1.0}) == model.predict_proba_one({"a": 1.0})


def test_explanation_of_a_probability_that_is_rounded_to_zero_is_finite() -> None:
    """Steep slopes, from a large learning rate: the log-odds were NaN."""
    model = Calibrated("GaussianNB", learning_rate=100.0)
    model.learn_many(
        [{"a": 10.0 * (i % 2) + i % 7} for i in range(200)], ["pq"[i % 2] for i in range(200)]
    )
    x = {"a": 0.0}
    assert model.predict_proba_one(x)["q"] == 0.0

    why = model.explain_one(x, "p", "q")
    assert isfinite(why.log_odds)
    assert all(map(isfinite, why.contributions.values()))


def test_parts_of_an_explanation_sum_to_the_log_odds() -> None:
    """A field contributes what the log-odds lose without it."""
    model = Calibrated("MultinomialNB")
    model.learn_many(
        [{"s": "free money", "t": "noon"}, {"s": "see you", "t": "at noon"}] * 5,
        ["spam", "ham"] * 5,
    )
    x = {"s": "free money", "t": "noon"}
    why = model.explain_one(x)

    p = model.predict_proba_one(x)
    assert why.log_odds == pytest.approx(log(p["spam"] / p["ham"]))
    assert set(why.contributions) == {"(prior)", "s", "t", "(together)"}
    assert isinstance(model._parts[0], MultinomialNB)
