"""ComplementNB against its obvious twin, scikit-learn and real streams."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.naive_bayes import ComplementNB as SklearnComplementNB

from stream import InvalidRecordError, SchemaError
from stream.bayes.multinomial import ComplementNB
from stream.checks import check_laws
from tests.oracles.multinomial import SlowComplementNB
from tests.oracles.sklearn import named, token_matrix, worst_difference

WORDS = st.lists(st.sampled_from(["free", "money", "call", "home", "£", "now"]), max_size=6)
RECORD = st.fixed_dictionaries(
    {"text": WORDS.map(" ".join), "free": st.sampled_from([None, 0, 1, 0.5, 3])}
)
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from(["spam", "ham", "other"]), st.sampled_from([1.0, 2.0, 0.3])),
    min_size=1,
    max_size=20,
)
MESSAGES = [
    ({"text": "Free money! Call now"}, "spam"),
    ({"text": "are you home"}, "ham"),
    ({"text": "call me at home", "home": 2}, "ham"),
    ({"text": "ok"}, "other"),
]


def learned(**parameters: Any) -> ComplementNB:
    """A model that learned `MESSAGES`."""
    model = ComplementNB(**parameters)
    for x, y in MESSAGES:
        model.learn_one(x, y)
    return model


@given(
    STREAM,
    RECORD,
    st.sampled_from(
        [{}, {"alpha": 0.1}, {"norm": True}, {"alpha": 3.0, "norm": True, "half_life": 4.0}]
    ),
)
def test_posterior_is_that_of_the_obvious_twin(
    stream: list[tuple[dict[str, Any], str, float]], x: dict[str, Any], parameters: dict[str, Any]
) -> None:
    """Kernel and dicts of token counts agree, hashed and exact."""
    slow = SlowComplementNB(**parameters)
    fast = [ComplementNB(**parameters, vocabulary=v) for v in ("hashed", "exact")]
    for learn, y, w in stream:
        for model in (slow, *fast):
            model.learn_one(learn, y, w)

    for model in fast:
        assert model.joint_log_likelihood_one(x) == pytest.approx(
            slow.joint_log_likelihood_one(x), rel=1e-11, abs=1e-11
        )
        assert model.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-11)


@pytest.mark.parametrize("norm", [False, True])
def test_posterior_on_sms_is_that_of_scikit_learn(shared_csv, norm: bool) -> None:
    """After every 100th message (normalised: of the first 1,500), to 1e-9."""
    rows = shared_csv("sms_spam/sms_spam.csv.gz")[: 1500 if norm else None]
    matrix = token_matrix([row["text"] for row in rows])
    xs, ys = [{"text": row["text"]} for row in rows], [row["label"] for row in rows]
    model, oracle = ComplementNB(norm=norm), SklearnComplementNB(norm=norm)

    assert worst_difference(model, oracle, xs, ys, matrix, sparse=True) < 1e-9


@pytest.mark.parametrize("norm", [False, True])
def test_posterior_on_digits_is_that_of_scikit_learn(norm: bool) -> None:
    """Ten classes, pixels as counts, after every 100th image, to 1e-9."""
    digits = load_digits()
    xs, ys = named(digits.data), digits.target.tolist()
    model, oracle = ComplementNB(0.5, norm), SklearnComplementNB(alpha=0.5, norm=norm)

    assert worst_difference(model, oracle, xs, ys, digits.data, sparse=True) < 1e-9


@pytest.mark.parametrize("norm", [False, True])
def test_record_without_evidence_is_even(norm: bool) -> None:
    """The prior takes no part, however unequal the classes are."""
    model = learned(norm=norm)
    model.learn_one({"text": "home"}, "ham", w=1000.0)
    third = pytest.approx(1 / 3)

    for x in ({}, {"text": None}, {"zebra": 2}, {"text": "zebra"}, {"home": 0}):
        assert model.predict_proba_one(x) == {"spam": third, "ham": third, "other": third}


def test_one_class_and_one_token_have_an_answer() -> None:
    """A complement without records, weights that would be 0 of 0."""
    for norm in (False, True):
        model = ComplementNB(norm=norm)
        model.learn_one({"word": 1}, "only")
        assert model.predict_proba_one({"word": 3}) == {"only": 1.0}
        model.learn_one({"word": 2}, "second")
        assert model.predict_proba_one({"word": 3}) == {"only": 0.5, "second": 0.5}


def test_complement_of_a_giant_class_keeps_its_digits() -> None:
    """A count of 1e100 in a class is not in its complement: no difference of large sums."""
    model = ComplementNB()
    model.learn_one({"a": 1e100, "b": 1}, "giant")
    model.learn_one({"a": 1, "b": 3}, "small")
    joint = model.joint_log_likelihood_one({"b": 1})

    assert joint["giant"] == pytest.approx(-np.log((3 + 1) / (4 + 2)), rel=1e-14)


def test_normalised_weights_do_not_depend_on_where_counts_lie() -> None:
    """A restart changes the order of the tokens, but no bit of the sums over all tokens."""
    model = ComplementNB(0.1, norm=True)
    rng = np.random.default_rng(8)
    for i in range(60):
        words = {f"w{int(k)}": float(rng.random()) for k in rng.integers(400, size=12)}
        model.learn_one(words, "abc"[i % 3])
    other = ComplementNB(0.1, norm=True).load_state(model.to_state())
    x = {f"w{k}": 1 for k in range(0, 400, 7)}

    assert model._tokens.counts.slot.tolist() != other._tokens.counts.slot.tolist()
    assert model.predict_proba_one(x) == other.predict_proba_one(x)


def test_explanation_and_linear_view_leave_the_prior_out() -> None:
    """Its share is 0; the logistic of the line is the posterior of two classes."""
    model = learned(vocabulary="exact")
    why, view = model.explain_one({"text": "free call"}, "spam", "ham"), model.linear_view()
    p = model.predict_proba_one({"free": 1, "home": 2})
    line = view.bias + view.weights["free"] + 2 * view.weights["home"]

    assert why.contributions["(prior)"] == 0.0
    assert set(why.contributions) == {"(prior)", "free", "call"}
    assert (view.label, view.against, view.bias) == ("spam", "ham", 0.0)
    assert 1 / (1 + exp(-line)) == pytest.approx(p["spam"] / (p["spam"] + p["ham"]))


def test_negative_count_is_refused_whole() -> None:
    """Neither class nor token of the record is learned."""
    model = learned()
    before = model.fingerprint()

    with pytest.raises(InvalidRecordError, match="negative_count: field 'money'"):
        model.learn_one({"fresh": 1, "money": -1}, "new")
    assert model.fingerprint() == before


def test_alpha_of_0_is_refused() -> None:
    """A token that no other class has would have no weight."""
    with pytest.raises(SchemaError, match="alpha must be a number greater than 0"):
        ComplementNB(0)


@pytest.mark.parametrize(
    "model",
    [ComplementNB(norm=True), ComplementNB(0.3, norm=True, vocabulary="exact", half_life=9)],
    ids=["normalised", "fading"],
)
def test_other_parameters_satisfy_the_laws(model: ComplementNB) -> None:
    """Those of `stream.checks`, as the defaults do."""
    check_laws(model)
