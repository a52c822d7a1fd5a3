"""PoissonNB against its obvious twin and SciPy, and as a distribution of MixedNB."""

from __future__ import annotations

from math import exp, inf, isfinite, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from stream import (
    InvalidRecordError,
    MixedNB,
    NotLearnedError,
    NotSupportedError,
    PoissonNB,
    Schema,
    SchemaError,
    State,
    StateError,
)
from stream.bayes._kernels.poisson import log_probability
from stream.checks import check_laws
from tests.oracles.poisson import SlowPoissonNB

COUNTS = st.sampled_from([None, nan, 0, 1, 2, 7, 40, 1000, True, 3.0])
RECORD = st.fixed_dictionaries({"calls": COUNTS}, optional={"errors": COUNTS, "visits": COUNTS})
STREAM = st.lists(
    st.tuples(
        RECORD, st.sampled_from(["quiet", "busy", "other"]), st.sampled_from([1.0, 2.0, 0.3])
    ),
    min_size=1,
    max_size=20,
)
DAYS = [
    ({"calls": 0, "errors": 1}, "quiet"),
    ({"calls": 2, "errors": None}, "quiet"),
    ({"calls": 7, "errors": 0}, "busy"),
    ({"calls": 9, "errors": 3}, "busy"),
]


def learned(**parameters: Any) -> PoissonNB:
    """A model that learned `DAYS`."""
    model = PoissonNB(**parameters)
    for x, y in DAYS:
        model.learn_one(x, y)
    return model


@given(
    STREAM,
    RECORD,
    st.sampled_from(
        [
            {},
            {"a": 1.0, "b": 1.0},
            {"a": 3.0, "b": 0.5, "half_life": 3.0},
            {"a": 0.0},
            {"a": 0.0, "half_life": 3.0},
        ]
    ),
)
def test_posterior_is_that_of_the_obvious_twin(
    stream: list[tuple[dict[str, Any], str, float]], x: dict[str, Any], parameters: dict[str, Any]
) -> None:
    """Running totals and records summed again agree, likelihood and posterior."""
    fast, slow = PoissonNB(**parameters), SlowPoissonNB(**parameters)
    for learn, y, w in stream:
        fast.learn_one(learn, y, w)
        slow.learn_one(learn, y, w)

    assert fast.joint_log_likelihood_one(x) == pytest.approx(
        slow.joint_log_likelihood_one(x), rel=1e-11, abs=1e-10
    )
    assert fast.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-11)


@pytest.mark.parametrize("mean", [1e-300, 1e-3, 0.5, 1.0, 7.3, 15.9, 16.0, 100.0, 12345.6, 1e9])
def test_log_probability_is_that_of_scipy(mean: float) -> None:
    """Each count from 0 to 40, and counts around the mean; SciPy loses digits of large means."""
    xs = [*range(41), *(round(mean * share) for share in (0.4, 0.6, 0.99, 1.0, 1.4, 1.6, 3.0))]
    expected = [float(poisson.logpmf(x, mean)) for x in xs]

    got = [log_probability(float(x), mean) for x in xs]
    assert got == pytest.approx(expected, rel=1e-9, abs=max(1e-12, 1e-14 * mean))


def test_log_probability_of_large_counts_keeps_its_digits() -> None:
    """By Stirling's series at 1e15 the textbook formula is off by more than 1."""
    x = 1e15

    assert log_probability(x, x) == pytest.approx(-0.5 * np.log(2 * np.pi * x), rel=1e-14)
    assert log_probability(x, x + 1e8) == pytest.approx(
        -0.5 * np.log(2 * np.pi * x) - 5.0, rel=1e-6
    )


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.0), (1.0, 1.0), (2.0, 0.5)])
def test_posterior_of_a_stream_is_bayes_rule_with_scipys_poisson(a: float, b: float) -> None:
    """500 records of three counts, compared after every hundredth."""
    rng = np.random.default_rng(7)
    model, rates = PoissonNB(a=a, b=b), {"x": (1.0, 4.0, 30.0), "y": (2.0, 3.0, 25.0)}
    xs: list[dict[str, int]] = []
    ys: list[str] = []
    for i in range(500):
        y = "xy"[int(rng.integers(2))]
        x = {f"n{j}": int(rng.poisson(rate)) for j, rate in enumerate(rates[y])}
        if i and i % 100 == 0:
            joint = {}
            for label in model.classes:
                mine = [old for old, of in zip(xs, ys, strict=True) if of == label]
                mean = {k: (a + sum(old[k] for old in mine)) / (b + len(mine)) for k in x}
                joint[label] = np.log(len(mine) / i) + sum(poisson.logpmf(x[k], mean[k]) for k in x)
            assert model.joint_log_likelihood_one(x) == pytest.approx(joint, rel=1e-12)
        model.learn_one(x, y)
        xs.append(x)
        ys.append(y)


def test_rates_are_the_posterior_means() -> None:
    """(a + Σ x) / (b + n), by hand; a field that a class never had has none."""
    model = learned(a=1, b=1)
    model.learn_one({"visits": 4}, "busy")

    assert model.rates == {
        "quiet": {"calls": 1.0, "errors": 1.0},
        "busy": {"calls": 17 / 3, "errors": 4 / 3, "visits": 2.5},
    }
    assert learned().rates["quiet"] == {"calls": 1.25, "errors": 1.5}
    assert model.n_parameters == 6


def test_maximum_likelihood_makes_what_never_happened_impossible() -> None:
    """a = b = 0: a class with no event has the rate 0."""
    model = PoissonNB(a=0)
    model.learn_many([{"n": 0}, {"n": 3}], ["never", "often"])

    assert model.joint_log_likelihood_one({"n": 1})["never"] == -inf
    assert model.joint_log_likelihood_one({"n": 0})["never"] == pytest.approx(np.log(0.5))
    assert model.predict_proba_one({"n": 2}) == {"never": 0.0, "often": 1.0}
    with pytest.raises(NotSupportedError, match="above 0"):
        model.linear_view()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "negative_count"),
        (-0.5, "negative_count"),
        (0.5, "wrong_kind"),
        (1e9 + 0.5, "wrong_kind"),
        (inf, "infinite"),
        (1e101, "out_of_range"),
        ("3", "wrong_kind"),
    ],
)
def test_number_that_is_no_count_is_refused_and_the_model_untouched(value, reason) -> None:
    """Alone, in a block, and in a question."""
    model = learned()
    before = model.fingerprint()
    bad = {"calls": 3, "errors": value, "new": 1}
    for ask in (
        lambda: model.learn_one(bad, "new"),
        lambda: model.learn_many([DAYS[0][0], bad], ["quiet", "new"]),
        lambda: model.predict_proba_one(bad),
        lambda: model.unlearn_one(bad, "quiet"),
    ):
        with pytest.raises(InvalidRecordError) as caught:
            ask()
        assert caught.value.reason == reason
        assert "'errors'" in str(caught.value)

    assert model.fingerprint() == before


@pytest.mark.parametrize("gap", [None, nan])
def test_gap_is_no_evidence(gap: Any) -> None:
    """NaN is a missing value, as for every learner."""
    model = learned()

    assert model.predict_proba_one({"calls": gap}) == model.predict_proba_one({})
    assert model.predict_proba_one({"calls": 0})["quiet"] > 0.9


def test_class_that_never_had_a_field_counts_as_all_classes() -> None:
    """No evidence for or against it, and not impossible."""
    model = PoissonNB()
    model.learn_many([{"n": 2}, {"n": 6}, {"other": 1}], ["x", "y", "z"])
    joint = model.joint_log_likelihood_one({"n": 4})

    assert joint["z"] == pytest.approx(np.log(1 / 3) + poisson.logpmf(4, 8.5 / 2))
    assert isfinite(min(joint.values()))


def test_linear_view_gives_the_posterior_of_two_classes() -> None:
    """The log-odds of Poisson counts are a line: x log(λ1/λ2) - (λ1 - λ2)."""
    model = learned()
    view = model.linear_view("busy", "quiet")
    for x in ({"calls": 0, "errors": 0}, {"calls": 4, "errors": 1}, {"calls": 30, "errors": 9}):
        p = model.predict_proba_one(x)
        line = view.bias + sum(view.weights[name] * value for name, value in x.items())

        assert 1 / (1 + exp(-line)) == pytest.approx(p["busy"], rel=1e-9)


def test_explanation_names_each_count() -> None:
    """Shares are differences of SciPy's log probabilities."""
    model = learned()
    why = model.explain_one({"calls": 4, "errors": 1}, "busy", "quiet")
    rates = model.rates

    assert set(why.contributions) == {"(prior)", "calls", "errors"}
    assert why.contributions["calls"] == pytest.approx(
        poisson.logpmf(4, rates["busy"]["calls"]) - poisson.logpmf(4, rates["quiet"]["calls"])
    )


def test_unlearning_gives_back_the_state_bit_for_bit() -> None:
    """Whole weights: totals, fields and classes are those before."""
    model = learned()
    before = model.fingerprint()
    for x, y in (({"calls": 5, "new": 10**9}, "quiet"), ({"calls": 0}, "fresh")):
        model.learn_one(x, y)
        model.unlearn_one(x, y)

        assert model.fingerprint() == before


@pytest.mark.parametrize("x", [{"visits": 1}, {"calls": 50}, {"calls": 1, "errors": 2}])
def test_unlearning_what_cannot_have_been_learned_is_refused(x) -> None:
    """An unknown field, or a larger count than the class has had in all."""
    model = learned()
    before = model.fingerprint()

    with pytest.raises(NotLearnedError, match="cannot have been learned"):
        model.unlearn_one(x, "quiet")
    assert model.fingerprint() == before


def test_small_count_can_be_taken_back_after_a_huge_one() -> None:
    """What a sum once held says what rounding is: both records were learned."""
    model = PoissonNB()
    for x, w in ((1, 1.0), (3, 0.1), (1e25, 0.1)):
        model.learn_one({"n": x}, "y", w)
    model.unlearn_one({"n": 1e25}, "y", 0.1)
    model.unlearn_one({"n": 3}, "y", 0.1)
    again = PoissonNB().load_state(model.to_state())
    again.unlearn_one({"n": 1}, "y")

    assert again.classes == again.features == []


@pytest.mark.parametrize("w", [5e-324, 1e-300, 1.0])
def test_tiny_weight_with_the_default_prior_gives_an_answer(w: float) -> None:
    """With b = 0, its rate would be infinite."""
    model = PoissonNB()
    model.learn_one({"n": 2}, "tiny", w)
    model.learn_one({"n": 2}, "x")

    p = model.predict_proba_one({"n": 10**6})
    assert sum(p.values()) == pytest.approx(1.0)


def test_memory_is_bounded_by_the_fields_and_classes() -> None:
    """16 bytes a class and field, and 8 a class of the prior."""
    fields = Schema.of(calls="numeric", errors="numeric")

    assert PoissonNB().limit(2**20, fields, 64) == 64
    assert PoissonNB().limit(400, fields, 64) == 10
    with pytest.raises(SchemaError, match="two classes with these fields need"):
        PoissonNB().limit(60, fields, 64)


def test_feature_beyond_the_bound_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not learned, not refused."""
    monkeypatch.setattr("stream.bayes.part.MAX_FEATURES", 1)
    model = PoissonNB()
    model.learn_one({"calls": 1, "errors": 2}, "x")

    assert model.features == ["calls"]
    assert model.overflows["features"] == 1


@pytest.mark.parametrize(
    "model",
    [
        PoissonNB(1.0, 1.0, half_life=20),
        PoissonNB(a=0),
        PoissonNB(priors={"first": 0.5, "second": 0.5}),
        MixedNB(distributions={"count": "poisson"}),
    ],
    ids=["fading", "unsmoothed", "priors", "mixed"],
)
def test_other_parameters_satisfy_the_laws(model) -> None:
    """Those of `stream.checks`, as the defaults do."""
    check_laws(model)


def test_damaged_state_is_refused() -> None:
    """Totals of another shape, totals below 0, or other parameters."""
    state = learned().to_state()
    negative = {**state.arrays, "counts/total": -state.arrays["counts/total"]}
    narrow = {**state.arrays, "counts/total": state.arrays["counts/total"][:, :1].copy()}

    with pytest.raises(StateError, match="array 'total': expected shape"):
        PoissonNB().load_state(State(state.header, narrow))
    with pytest.raises(StateError, match="array 'total': expected numbers from 0"):
        PoissonNB().load_state(State(state.header, negative))
    with pytest.raises(StateError, match="with a = "):
        PoissonNB(a=1).load_state(state)


def test_mixed_learner_counts_the_fields_that_are_named() -> None:
    """Its likelihood is that of PoissonNB on the count, times that of MixedNB on the rest."""
    records = [({**x, "height": 1.0 + i}, y) for i, (x, y) in enumerate(DAYS)]
    mixed, counted, rest = MixedNB(distributions={"calls": "poisson"}), PoissonNB(), MixedNB()
    for x, y in records:
        mixed.learn_one(x, y)
        counted.learn_one({"calls": x["calls"]}, y)
        rest.learn_one({k: v for k, v in x.items() if k != "calls"}, y)
    x = {"calls": 3, "errors": 1, "height": 2.5}
    alone, count = (
        rest.joint_log_likelihood_one({"errors": 1, "height": 2.5}),
        counted.joint_log_likelihood_one({"calls": 3}),
    )

    expected = {y: alone[y] + count[y] - np.log(0.5) for y in alone}
    assert mixed.joint_log_likelihood_one(x) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidRecordError, match="'calls' expects a count"):
        mixed.learn_one({**x, "calls": 2.5}, "busy")
    assert mixed.predict_proba_one({**x, "errors": 2.5})
