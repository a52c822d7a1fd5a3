"""MixedNB: each kind of feature by its own distribution, and the texts' worked examples."""

from __future__ import annotations

from math import exp, inf, log

import pytest

from stream import (
    BernoulliNB,
    Block,
    CategoricalNB,
    GaussianNB,
    InvalidRecordError,
    MixedBayes,
    MixedNB,
    MultinomialNB,
    Rows,
    Schema,
    SchemaError,
    StateError,
)
from stream.checks import check_laws
from stream.data.block import PREDICT_THEN_LEARN

BORROWERS = """
1 yes Single 125 no
2 no Married 100 no
3 no Single 70 no
4 yes Married 120 no
5 no Divorced 95 yes
6 no Married 60 no
7 yes Divorced 220 no
8 no Single 85 yes
9 no Married 75 no
10 no Single 90 yes
"""
Q2 = "TT5Y TT7Y TF8N FF3Y FT7N FT4N FF5N TF6Y FT1N"


def borrowers():
    """The lecture's ten borrowers: owner, marital status, income; whether they defaulted."""
    rows = [line.split() for line in BORROWERS.strip().splitlines()]
    xs = [{"owner": o == "yes", "status": s, "income": float(i)} for _, o, s, i, _ in rows]
    return xs, [row[-1] for row in rows]


def q2():
    """Chapter 18, table 18.4."""
    rows = Q2.split()
    return [{"a1": r[0], "a2": r[1], "a3": float(r[2])} for r in rows], [r[3] for r in rows]


def both_ways(model, xs, ys):
    """The model after one record at a time, which one block must equal bit for bit."""
    one, block = model.clone(), model.clone()
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    block.learn_many(xs, ys)
    assert one.fingerprint() == block.fingerprint()
    return one


def test_defaulted_borrower_has_the_printed_figures() -> None:
    """4/7 · 4/7 · 0.0072 = 0.0024 and 0.7 · 0.0024 = 0.0016; married defaulters are impossible.

    The first product is printed of the rounded density 0.0072; unrounded it is 0.002349.
    """
    model = both_ways(MixedNB(alpha=0, variance="sample", var_smoothing=0), *borrowers())
    x = {"owner": False, "status": "Married", "income": 120.0}
    joint = model.joint_log_likelihood_one(x)

    density = exp(joint["no"]) / 0.7 / (4 / 7) ** 2
    assert f"{density:.4f}" == "0.0072"
    assert f"{4 / 7 * 4 / 7 * round(density, 4):.4f}" == "0.0024"
    assert f"{exp(joint['no']):.4f}" == "0.0016"
    assert joint["yes"] == -inf
    assert model.predict_proba_one(x) == {"no": 1.0, "yes": 0.0}


def test_chapter_18_q2_goes_to_n() -> None:
    """(T, F, 1.0): 7.24e-4 against 1.908e-3, maximum likelihood throughout."""
    model = both_ways(MixedNB(alpha=0, var_smoothing=0), *q2())
    joint = model.joint_log_likelihood_one({"a1": "T", "a2": "F", "a3": 1.0})

    assert f"{exp(joint['Y']):.2e}" == "7.24e-04"
    assert f"{exp(joint['N']):.3e}" == "1.908e-03"
    assert model.predict_one({"a1": "T", "a2": "F", "a3": 1.0}) == "N"


def test_chapter_18_q1_naive_goes_to_h() -> None:
    """Class L has ages 25, 25: a point, impossible at 23. H: 4/6 · f(23) · 1/8 = 0.00293."""
    ages, cars, ys = [25, 20, 25, 45, 20, 25], "sports vintage sports suv sports suv", "LHLHHH"
    xs = [{"age": float(a), "car": c} for a, c in zip(ages, cars.split(), strict=True)]
    domain = {"car": ["sports", "vintage", "suv", "truck"]}
    model = both_ways(MixedNB(var_smoothing=0, domains=domain), xs, list(ys))
    joint = model.joint_log_likelihood_one({"age": 23.0, "car": "truck"})

    assert joint["L"] == -inf
    assert f"{exp(joint['H']):.5f}" == "0.00293"


def test_likelihood_is_that_of_its_parts() -> None:
    """The Gaussian, the categorical and the multinomial likelihood, added."""
    xs = [
        {"n": 1.0, "c": "red", "t": "free money"},
        {"n": 4.0, "c": "blue", "t": "see you"},
        {"n": 2.0, "c": "red", "t": "free you"},
        {"n": 3.0, "c": "red", "t": "money money"},
    ]
    ys = ["a", "b", "a", "b"]
    mixed = MixedNB(text=["t"])
    mixed.learn_many(xs, ys)
    alone = {"n": GaussianNB(), "c": CategoricalNB(), "t": MultinomialNB()}
    x = {"n": 2.5, "c": "blue", "t": "free free money unheard"}
    expected = dict.fromkeys("ab", log(0.5))
    for name, model in alone.items():
        model.learn_many([{name: r[name]} for r in xs], ys)
        for y, joint in model.joint_log_likelihood_one({name: x[name]}).items():
            expected[y] += joint - log(0.5)

    assert mixed.joint_log_likelihood_one(x) == pytest.approx(expected, rel=1e-12)


def test_rows_of_a_schema_are_those_of_dicts() -> None:
    """The service's columns and the one-record calls give the same bits."""
    schema = Schema.of(n="numeric", b="binary", c="categorical", t="text")
    rows = Rows.empty(schema, 3)
    rows.numeric[:] = [[1.0, 1.0], [2.0, 0.0], [3.5, 1.0]]
    rows.categorical[:, 0] = ["red", None, "blue"]
    rows.text[:, 0] = ["free money", "see you", None]
    xs = [
        {"n": 1.0, "b": True, "c": "red", "t": "free money"},
        {"n": 2.0, "b": False, "t": "see you"},
        {"n": 3.5, "b": True, "c": "blue"},
    ]
    served, plain = MixedNB(text=["t"]), MixedNB(text=["t"])
    said = served.progressive_many(Block.of(served.prepare(rows), PREDICT_THEN_LEARN, "aba"))
    expected = []
    for x, y in zip(xs, "aba", strict=True):
        expected.append(plain.predict_proba_one(x))
        plain.learn_one(x, y)

    assert said.dicts() == expected
    assert served.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("x", [{"n": "high"}, {"c": 3.0}, {"b": 0.5}])
def test_value_of_another_kind_than_was_learned_is_refused(x) -> None:
    """A field keeps its kind; the model is untouched."""
    model = MixedNB()
    model.learn_one({"n": 1.0, "c": "red", "b": True}, "a")
    before = model.fingerprint()
    with pytest.raises(InvalidRecordError, match="wrong_kind"):
        model.learn_one({**x, "new": 2.0}, "b")
    with pytest.raises(InvalidRecordError, match="wrong_kind"):
        model.predict_one(x)

    assert model.fingerprint() == before


def test_one_text_field_given_as_a_string_is_refused() -> None:
    """It would be taken letter by letter."""
    with pytest.raises(SchemaError, match="list"):
        MixedNB(text="body")


def test_merging_a_field_of_another_kind_is_refused_whole() -> None:
    """A number here and a category there: neither could be learned any more."""
    ours, theirs = MixedNB(), MixedNB()
    ours.learn_one({"f": 1.0}, "a")
    theirs.learn_one({"f": "u"}, "a")
    before = ours.fingerprint()

    with pytest.raises(InvalidRecordError, match="'f' is gaussian here and categorical"):
        ours.merge(theirs)
    assert ours.fingerprint() == before


STATUS = {"status": {"Single": 0.5, "Married": 0.25, "Divorced": 0.25}}
ESTIMATES = {"m": {"m": 3}, "p": {"m": 2, "p": 0.1}, "of_values": {"m": 2, "p": STATUS}}


@pytest.mark.parametrize(
    "estimate", [*ESTIMATES.values(), {"smooth": "zeros"}], ids=[*ESTIMATES, "zeros"]
)
def test_categories_are_smoothed_as_in_categorical_nb(estimate) -> None:
    """The income has its Gaussian, the categories their m-estimate: likelihoods are added."""
    xs, ys = borrowers()
    parts = [{k: v for k, v in x.items() if k != "income"} for x in xs]
    mixed = both_ways(MixedNB(**estimate), xs, ys)
    counted, normal = CategoricalNB(**estimate), GaussianNB()
    counted.learn_many(parts, ys)
    normal.learn_many([{"income": x["income"]} for x in xs], ys)
    x = {"owner": False, "status": "Married", "income": 120.0}
    shares = counted.joint_log_likelihood_one({"owner": False, "status": "Married"})
    density = normal.joint_log_likelihood_one({"income": 120.0})

    expected = {y: shares[y] + density[y] - log(ys.count(y) / 10) for y in shares}
    assert mixed.joint_log_likelihood_one(x) == pytest.approx(expected, rel=1e-12)


def test_defaulted_borrower_by_the_m_estimate() -> None:
    """m = 3 records of which a third each are single, married, divorced: (0 + 1)/(3 + 3) = 1/6.

    Then owner: (3 + 3/2)/(3 + 3) = 3/4 against (4 + 3/2)/(7 + 3) = 0.55; the density at 120 of the
    defaulters N(90, 25) is 1.2e-9, so the answer stays No.
    """
    model = both_ways(MixedNB(m=3, variance="sample", var_smoothing=0), *borrowers())
    x = {"owner": False, "status": "Married"}
    joint = model.joint_log_likelihood_one(x)

    assert exp(joint["yes"]) == pytest.approx(0.3 * 3 / 4 / 6, rel=1e-12)
    assert exp(joint["no"]) == pytest.approx(0.7 * 0.55 * (4 + 1) / 10, rel=1e-12)
    assert model.predict_one({**x, "income": 120.0}) == "no"


VISITS = [
    ({"income": 1.0, "visits": 0, "seen": 3, "job": "x"}, "a"),
    ({"income": 2.5, "visits": 2, "seen": 0, "job": "y"}, "b"),
    ({"income": 2.0, "visits": None, "seen": 1, "job": "x"}, "a"),
    ({"income": 4.0, "visits": 5, "job": "y"}, "b"),
]


def test_field_of_another_distribution_is_learned_as_that_learner_does() -> None:
    """Likelihoods are added; the other numbers stay normal, bit for bit."""
    xs, ys = [x for x, _ in VISITS], [y for _, y in VISITS]
    mixed = both_ways(MixedNB(distributions={"visits": "bernoulli"}), xs, ys)
    rest, bits = MixedNB(), BernoulliNB()
    rest.learn_many([{k: v for k, v in x.items() if k != "visits"} for x in xs], ys)
    bits.learn_many([{"visits": x["visits"]} for x in xs], ys)
    x = {"income": 2.2, "seen": 1, "job": "x"}
    alone, there = rest.joint_log_likelihood_one(x), bits.joint_log_likelihood_one({"visits": 1})

    assert mixed.joint_log_likelihood_one(x) == alone
    assert mixed.joint_log_likelihood_one({**x, "visits": 1}) == pytest.approx(
        {y: alone[y] + there[y] - log(2 / 4) for y in alone}, rel=1e-12
    )
    assert mixed.features == ["income", "seen", "visits", "job"]


def test_field_of_another_distribution_is_taken_back_merged_and_loaded() -> None:
    """As every field is: the state is that of the other records."""
    given = {"distributions": {"visits": "bernoulli", "seen": "bernoulli"}}
    xs, ys = [x for x, _ in VISITS], [y for _, y in VISITS]
    whole, first, second = MixedNB(**given), MixedNB(**given), MixedNB(**given)
    whole.learn_many(xs, ys)
    first.learn_many(xs[:2], ys[:2])
    second.learn_many(xs[2:], ys[2:])
    first.merge(second)
    for x, y in reversed(VISITS[2:]):
        whole.unlearn_one(x, y)
    again = MixedNB(**given).load_state(first.to_state())
    two = MixedNB(**given)
    two.learn_many(xs[:2], ys[:2])

    assert again.fingerprint() == first.fingerprint()
    assert whole.to_state().arrays["attributes/present"].tolist() == [[1, 0], [0, 1]]
    assert whole.predict_proba_one(xs[0]) == pytest.approx(two.predict_proba_one(xs[0]))


def test_state_of_other_distributions_is_refused() -> None:
    """With them it is another learner's state."""
    plain, other = MixedNB(), MixedNB(distributions={"visits": "bernoulli"})

    assert MixedNB(distributions={}).fingerprint() == plain.fingerprint()
    with pytest.raises(StateError, match="distributions"):
        plain.load_state(other.to_state())


@pytest.mark.parametrize("x", [{"visits": "often"}, {"visits": True}])
def test_field_of_a_distribution_is_a_number_from_the_first_record(x) -> None:
    """It is declared, as a text is."""
    with pytest.raises(InvalidRecordError, match="'visits' expects a number"):
        MixedNB(distributions={"visits": "bernoulli"}).learn_one(x, "a")


def test_memory_of_distributions_is_that_of_their_fields() -> None:
    """A field's tables are counted once, in the part that learns it."""
    fields = Schema.of(income="numeric", visits="numeric")
    mixed = MixedNB(distributions={"visits": "bernoulli"})
    gaussian, bernoulli, *_ = mixed._parts

    assert gaussian.fields_of(fields).numeric == ("income",)
    assert bernoulli.fields_of(fields).numeric == ("visits",)
    assert mixed.limit(2**20, fields, 8) == 8


LAWFUL = {
    "m": MixedNB(m=2.0, p=0.1),
    "of_values": MixedNB(m=2.0, p={"flag": {False: 0.25, True: 0.75}}),
    "zeros": MixedNB(smooth="zeros"),
    "bernoulli": MixedNB(distributions={"count": "bernoulli", "Late": "bernoulli"}),
    "bayes_m": MixedBayes(m=2.0, p=0.01, covariance="diagonal"),
    "bayes_zeros": MixedBayes(smooth="zeros", covariance="diagonal"),
}


@pytest.mark.parametrize("learner", LAWFUL.values(), ids=LAWFUL)
def test_laws_hold_with_other_smoothing(learner) -> None:
    """Whatever the smoothing of the categories."""
    check_laws(learner)
