"""LogisticRegression against its obvious twin, scikit-learn and river."""

from __future__ import annotations

from math import log, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression as BatchLogisticRegression

from stream import (
    Block,
    GaussianNB,
    InvalidRecordError,
    LogisticRegression,
    NotLearnedError,
    NotSupportedError,
    Schema,
    State,
    StateError,
)
from stream.checks import check_laws
from stream.data.block import PREDICT_THEN_LEARN
from stream.linear._kernels import crossed
from stream.linear._kernels.crossed import pair_bucket
from stream.linear.indicators import category_bucket, indicators
from stream.text import bucket
from tests.oracles.logistic import SlowLogisticRegression
from tests.seed import share

NUMBERS = st.sampled_from([None, nan, 0.0, 1.0, -2.5, 40.0, 1e6])
RECORD = st.fixed_dictionaries(
    {"a": NUMBERS},
    optional={
        "b": NUMBERS,
        "colour": st.sampled_from(["red", "green", "blue", None]),
        "flag": st.sampled_from([True, False, None]),
        "note": st.sampled_from(["sun rain", "rain rain, fog!", "", "snow"]),
    },
)
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from("pqr"), st.sampled_from([1.0, 2.0, 0.25])),
    min_size=1,
    max_size=12,
)
PARAMETERS: list[dict[str, Any]] = [
    {},
    {"start": "zero"},
    {"start": "zero", "learning_rate": 2.0, "l2": 0.1, "half_life": 3.0},
    {"half_life": 2.0, "l2": 0.01},
    {"n_bins": 4},
    {"n_bins": 7, "pairs": True, "half_life": 5.0},
    {"pairs": True, "start": "zero"},
]


def separable(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """Two classes whose log-odds are linear in two numbers and a category."""
    rng = np.random.default_rng(seed)
    x = rng.normal([3.0, -1.0], [2.0, 0.5], (n, 2))
    side = rng.random(n) < 0.5
    odds = 0.8 * (x[:, 0] - 3.0) - 2.0 * (x[:, 1] + 1.0) + np.where(side, 1.0, -1.0)
    label = rng.random(n) < 1.0 / (1.0 + np.exp(-odds))
    pairs = zip(x.tolist(), side.tolist(), strict=True)
    xs = [{"a": a, "b": b, "side": "left" if s else "right"} for (a, b), s in pairs]
    return xs, ["yes" if y else "no" for y in label.tolist()]


def log_loss(model: LogisticRegression, xs: list[dict[str, Any]], ys: list[str]) -> float:
    """The mean log loss of its predictions."""
    posteriors = model.predict_proba_many(xs)
    return -float(np.mean([log(p[y]) for p, y in zip(posteriors, ys, strict=True)]))


@settings(max_examples=share(0.25))
@given(STREAM, RECORD, st.sampled_from(PARAMETERS))
def test_posterior_is_that_of_the_obvious_twin(stream, x, parameters) -> None:
    """Running moments, counts and squares agree with records that are summed again."""
    fast = LogisticRegression(text=["note"], **parameters)
    slow = SlowLogisticRegression(text=("note",), **parameters)
    for learn, y, w in stream:
        assert fast.predict_proba_one(learn) == pytest.approx(
            slow.predict_proba_one(learn), abs=1e-9
        )
        fast.learn_one(learn, y, w)
        slow.learn_one(learn, y, w)

    assert fast.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-9)


@pytest.mark.parametrize("parameters", PARAMETERS[1:], ids=str)
def test_laws_hold_for_other_parameters(parameters) -> None:
    """As for the defaults, in tests/stream/learner."""
    check_laws(LogisticRegression(**parameters))


@pytest.mark.parametrize("start", ["zero", "naive_bayes"])
def test_many_passes_reach_the_batch_solution(start) -> None:
    """The log loss on the learned records is within 0.01 of scikit-learn's, without a penalty."""
    xs, ys = separable(2000)
    model = LogisticRegression(start=start)
    for _ in range(20):
        model.learn_many(xs, ys)
    table = np.array([[x["a"], x["b"], x["side"] == "left"] for x in xs])
    batch = BatchLogisticRegression(C=np.inf).fit(table, ys)
    right = [int(y == "yes") for y in ys]
    best = -np.log(batch.predict_proba(table)[np.arange(2000), right]).mean()

    assert log_loss(model, xs, ys) == pytest.approx(best, abs=0.01)


def test_repeated_field_is_not_counted_as_new_evidence() -> None:
    """Where naive Bayes becomes sure of what it has seen ten times over."""
    rng = np.random.default_rng(1)
    label = rng.integers(2, size=4000)
    value = rng.normal(label, 1.0)
    xs = [{f"copy{i}": v for i in range(10)} for v in value.tolist()]
    ys = [f"c{y}" for y in label.tolist()]
    losses = []
    for model in (LogisticRegression(), GaussianNB()):
        out = model.progressive_many(Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys))
        codes = {y: i for i, y in enumerate(out.classes)}
        p = out.proba[np.arange(4000), [codes[y] for y in ys]]
        losses.append(-np.log(np.maximum(p[100:], 1e-15)).mean())

    assert losses[0] < 0.62  # the best possible is 0.577
    assert losses[1] > 1.0


def test_first_predictions_are_the_shares_of_the_classes() -> None:
    """With half a record of each class added; a constant number changes nothing."""
    model = LogisticRegression(learning_rate=1e-9, start="zero")
    model.learn_many([{"a": 1.0}] * 4, ["p", "q", "p", "p"])

    assert model.predict_proba_one({"a": 1.0}) == pytest.approx({"p": 3.5 / 5, "q": 1.5 / 5})


def test_new_class_begins_with_its_share() -> None:
    """It is not as probable as classes with many records."""
    model = LogisticRegression()
    model.learn_many([{"a": float(i % 7)} for i in range(500)], ["p", "q"] * 250)
    model.learn_one({"a": 3.0}, "rare")

    assert model.predict_proba_one({"a": 3.0})["rare"] < 0.05


def test_outlier_moves_a_prediction_no_more_than_three_deviations() -> None:
    """A number may be wrong by orders of magnitude."""
    xs, ys = separable(500)
    model = LogisticRegression()
    model.learn_many(xs, ys)
    far, farther = ({"a": v, "b": -1.0} for v in (1e3, 1e90))

    assert model.predict_proba_one(far) == model.predict_proba_one(farther)


def test_half_life_follows_a_change() -> None:
    """After the labels swap, the fading model is right again first."""
    xs, ys = separable(3000)
    swapped = [{"yes": "no", "no": "yes"}[y] for y in ys]
    steady, fading = LogisticRegression(), LogisticRegression(half_life=100)
    for model in (steady, fading):
        model.learn_many(xs, ys)
        model.learn_many(xs[:300], swapped[:300])

    assert log_loss(fading, xs, swapped) < log_loss(steady, xs, swapped)


def test_explanation_names_fields_and_words() -> None:
    """Numbers and categories by their field, words of a text by themselves."""
    model = LogisticRegression(text=["note"])
    model.learn_many(
        [{"n": 1.0, "colour": "red", "note": "free money"}, {"n": 3.0, "note": "see you"}] * 5,
        ["spam", "ham"] * 5,
    )
    why = model.explain_one({"n": 1.5, "colour": "red", "note": "free money now"}, "spam", "ham")

    assert {*why.contributions} == {"(prior)", "n", "colour", "free", "money"}
    assert why.contributions["free"] > 0 > model.explain_one({"note": "see"}, "spam").log_odds


def test_linear_view_gives_the_log_odds() -> None:
    """In the units of the numbers."""
    xs, ys = separable(400)
    xs = [{"a": x["a"], "b": x["b"]} for x in xs]
    model = LogisticRegression()
    model.learn_many(xs, ys)
    view = model.linear_view("yes", "no")
    for x in ({"a": 2.0, "b": -1.2}, {"a": 4.4, "b": -0.5}):
        line = view.bias + sum(view.weights[name] * value for name, value in x.items())
        assert line == pytest.approx(model.explain_one(x, "yes", "no").log_odds, abs=1e-9)


def test_pairs_find_what_two_fields_show_only_together() -> None:
    """Alone, neither the number nor the colour says anything."""
    rng = np.random.default_rng(4)
    number, red = rng.normal(20.0, 3.0, 3000), rng.random(3000) < 0.5
    ys = ["yes" if y else "no" for y in ((number > 20.0) != red).tolist()]
    colours = ["red" if r else "blue" for r in red.tolist()]
    xs = [{"n": n, "colour": c} for n, c in zip(number.tolist(), colours, strict=True)]
    plain, binned = LogisticRegression(), LogisticRegression(n_bins=16)
    paired = LogisticRegression(n_bins=16, pairs=True)
    for model in (plain, binned, paired):
        model.learn_many(xs[:2000], ys[:2000])
    losses = [log_loss(model, xs[2000:], ys[2000:]) for model in (plain, binned, paired)]

    assert losses[0] > 0.69
    assert losses[1] > 0.69
    assert losses[2] < 0.15


def test_bins_find_a_class_between_two_others() -> None:
    """The log-odds of the middle first rise with the number and then fall."""
    rng = np.random.default_rng(5)
    number = rng.uniform(-1.0, 1.0, 3000)
    xs = [{"n": n} for n in number.tolist()]
    ys = ["inner" if inner else "outer" for inner in (np.abs(number) < 0.5).tolist()]
    plain, binned = LogisticRegression(), LogisticRegression(n_bins=16)
    for model in (plain, binned):
        model.learn_many(xs[:2000], ys[:2000])

    assert log_loss(plain, xs[2000:], ys[2000:]) > 0.69
    assert log_loss(binned, xs[2000:], ys[2000:]) < 0.15


def test_explanation_names_pairs_and_adds_bins_to_their_number() -> None:
    """The contributions still sum to the log-odds of the prediction."""
    xs, ys = separable(300)
    model = LogisticRegression(n_bins=4, pairs=True)
    model.learn_many(xs, ys)
    x = {"a": 2.0, "b": None, "side": "left"}
    why, p = model.explain_one(x, "yes", "no"), model.predict_proba_one(x)

    assert {*why.contributions} == {"(prior)", "a", "side", "a × side"}
    assert sum(why.contributions.values()) == pytest.approx(log(p["yes"] / p["no"]), abs=1e-9)


def test_explanation_names_only_the_pairs_that_are_there(monkeypatch) -> None:
    """Every pair of all bins of all fields was named: 40 fields with 64 bins took seconds."""
    model = LogisticRegression(n_bins=2, pairs=True)
    rng = np.random.default_rng(1)
    xs = [{f"f{k:02}": v for k, v in enumerate(row)} for row in rng.normal(size=(99, 40)).tolist()]
    model.learn_many(xs, [("yes", "no")[i] for i in rng.integers(2, size=99)])
    named = []

    def counted(a: int, b: int) -> int:
        named.append((a, b))
        return pair_bucket(a, b)

    monkeypatch.setattr(crossed, "pair_bucket", counted)
    why = model.explain_one(xs[0])

    pairs = {f"f{i:02} × f{k:02}" for i in range(16) for k in range(i + 1, 16)}
    assert {*why.contributions} == {"(prior)", *xs[0], *pairs}
    assert len(named) == len(pairs)


@pytest.mark.parametrize("fields", [15, 16, 17, 23])
def test_first_sixteen_values_are_paired(fields) -> None:
    """By the name of the field, whatever the order of the record."""
    rng = np.random.default_rng(fields)
    fast, slow = LogisticRegression(pairs=True), SlowLogisticRegression(pairs=True)
    for _ in range(6):
        names = rng.permutation([f"f{i:02}" for i in range(fields)]).tolist()
        x = {name: "ab"[rng.integers(2)] for name in names if rng.random() < 0.95}
        y = "pq"[rng.integers(2)]
        assert fast.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-9)
        fast.learn_one(x, y)
        slow.learn_one(x, y)


def test_buckets_of_pairs_are_spread_like_random_ones() -> None:
    """Of 20,000 pairs of rising buckets, as many share a bucket as by chance, in any order."""
    some = range(0, 200_000, 1000)
    found = [pair_bucket(a, b) for a in some for b in some if a < b]
    chance = 2**20 * (1.0 - (1.0 - 2.0**-20) ** len(found))

    assert len({*found}) == pytest.approx(chance, rel=0.01)
    assert min(found) >= 0
    assert max(found) < 2**20
    assert pair_bucket(3, 70_000) == pair_bucket(70_000, 3)


def test_linear_view_of_categories_is_refused() -> None:
    """They have no units."""
    model = LogisticRegression()
    model.learn_many([{"c": "x"}, {"c": "y"}], ["p", "q"])
    with pytest.raises(NotSupportedError, match="numbers only"):
        model.linear_view()


def test_merged_model_is_about_as_good_as_one_that_learned_all() -> None:
    """Weights are averaged, so it is not the same model."""
    xs, ys = separable(4000)
    whole, first, second = (LogisticRegression() for _ in range(3))
    whole.learn_many(xs, ys)
    first.learn_many(xs[:2000], ys[:2000])
    second.learn_many(xs[2000:], ys[2000:])
    alone = log_loss(first, xs, ys)
    first.merge(second)

    assert log_loss(first, xs, ys) < alone + 0.002
    assert log_loss(first, xs, ys) == pytest.approx(log_loss(whole, xs, ys), abs=0.01)


def test_merge_with_an_empty_model_changes_no_prediction() -> None:
    """In both directions; a weight that only one has learned is taken over."""
    xs, ys = separable(300)
    model = LogisticRegression()
    model.learn_many(xs, ys)
    before = [model.predict_proba_one(x) for x in xs[:20]]
    for merged in (model.clone().merge(model), model.merge(LogisticRegression())):
        after = [merged.predict_proba_one(x) for x in xs[:20]]
        assert all(a == pytest.approx(b) for a, b in zip(after, before, strict=True))


def test_merge_adds_counts_and_moments_exactly() -> None:
    """Those of learning all records, with fading too."""
    xs, ys = separable(200)
    whole, first, second = (LogisticRegression(half_life=50) for _ in range(3))
    whole.learn_many(xs, ys)
    first.learn_many(xs[:150], ys[:150])
    second.learn_many(xs[150:], ys[150:])
    one, other = whole.to_state().arrays, first.merge(second).to_state().arrays
    unit = float(one["unit"][0] / other["unit"][0])
    for name in ("shares", "n", "m2", "number_n", "counts"):
        scale = np.abs(one[f"{name}"]).max()
        assert other[f"{name}"] * unit == pytest.approx(one[f"{name}"], abs=1e-9 * scale)
    assert other["mean"] == pytest.approx(one["mean"])


def test_merging_numbers_of_far_spreads_stays_finite() -> None:
    """A slope per 1e-150 would be 1e249 deviations of 1e99, and its penalty infinite."""
    model = LogisticRegression(l2=1.0, start="zero")
    for scale in (1e-150, 1e99, 1e-150):
        other = LogisticRegression(l2=1.0, start="zero")
        xs = [{"a": scale * a} for a in np.random.default_rng(0).normal(size=40).tolist()]
        other.learn_many(xs, ["pq"[x["a"] > 0] for x in xs])
        model.merge(other)
        model.learn_many(xs, ["pq"[x["a"] < 0] for x in xs])

        assert model.clone().load_state(model.to_state()).predict_proba_one(xs[0])
        assert all(np.isfinite(array).all() for array in model.to_state().arrays.values())


def test_indicators_beyond_the_bound_are_refused_and_counted() -> None:
    """The first ones keep their weights."""
    model = LogisticRegression()
    model.limit(6 << 20, Schema.of(c="categorical"), 2)
    most = model._most_indicators
    n = most + 100
    model.learn_many([{"c": f"v{i}"} for i in range(n)], ["p", "q"] * (n // 2))

    assert most < 2**16
    assert model.overflows["indicators"] >= 90  # some of the last 100 share a bucket
    assert int(model._tables.size[0]) == most


def test_row_has_each_indicator_once_and_rising() -> None:
    """A word that is repeated, and a word and a category with equal texts."""
    model = LogisticRegression(text=["note"])
    rows = model.rows([{"note": "red red", "colour": "red"}, {}, {"colour": "red"}])
    found = indicators(rows, np.arange(3))

    assert found.start.tolist() == [0, 2, 2, 3]
    red, word = category_bucket("colour", "red"), bucket("red")
    assert found.bucket.tolist() == [*sorted((red, word)), red]


def test_unlearning_is_refused() -> None:
    """A gradient step cannot be taken back."""
    model = LogisticRegression()
    model.learn_one({"a": 1.0}, "p")
    with pytest.raises(NotSupportedError, match="unlearning"):
        model.unlearn_one({"a": 1.0}, "p")


def test_explanation_of_one_class_is_refused() -> None:
    """There is nothing to compare it with."""
    model = LogisticRegression()
    model.learn_one({"a": 1.0}, "p")
    with pytest.raises(NotLearnedError, match="two classes"):
        model.explain_one({"a": 1.0})


@pytest.mark.parametrize("half_life", [None, 1.0])
def test_no_moment_falls_below_zero(half_life) -> None:
    """One record outweighs all others: its mean is rounded past the number. The state loads."""
    rng = np.random.default_rng(0)
    for first, second in rng.normal(size=(200, 2)).tolist():
        model = LogisticRegression(half_life=half_life)
        model.learn_one({"a": first}, "p", 1e-30 if half_life is None else 1.0)
        model.learn_many([{}] * 60, ["p", "q"] * 30)
        model.learn_one({"a": second}, "q")

        assert model.clone().load_state(model.to_state()).fingerprint() == model.fingerprint()


def test_steps_after_a_label_are_as_short_as_after_as_many_labels_of_one() -> None:
    """The squares had its weight twice, so that nothing undid what one heavy label had moved."""
    model = LogisticRegression()
    model.learn_one({"a": 1.0, "side": "left"}, "yes")
    model.learn_one({"a": 2.0, "side": "left"}, "no", 100.0)
    s = model._tables

    assert 10.0 < s.bias_squares.max() <= 101.0
    assert s.indicator_squares.max() <= 101.0


def test_infinity_is_refused_whole() -> None:
    """Neither weights nor moments see it."""
    model = LogisticRegression()
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    before = model.fingerprint()
    with pytest.raises(InvalidRecordError):
        model.learn_one({"a": float("inf")}, "p")
    assert model.fingerprint() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shares", np.array([1.0])),
        ("shares", np.array([1.0, nan])),
        ("m2", np.array([-1.0])),
        ("bucket", np.array([7, 7])),
        ("unit", np.zeros(1)),
        ("unit", np.full(1, 2.0**70)),
        ("mean", np.array([1e308])),
        ("m2", np.array([1e308])),
        ("cut", np.array([-1])),
        ("number", np.zeros((2, 2))),
        ("indicator", np.zeros((1, 2))),
    ],
)
def test_damaged_state_is_refused(name, value) -> None:
    """Each array is checked."""
    model = LogisticRegression()
    model.learn_many([{"a": 1.0, "c": "x"}, {"a": 2.0, "c": "y"}], ["p", "q"])
    state = model.to_state()
    with pytest.raises(StateError):
        LogisticRegression().load_state(State(state.header, {**state.arrays, name: value}))
