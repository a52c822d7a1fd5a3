"""log_evidence_one: p(x) of every Bayes learner, by hand, in 50 digits and by scipy."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import exp, inf, log

import pytest
from scipy.special import logsumexp

from stream import (
    BernoulliNB,
    CategoricalBayes,
    CategoricalNB,
    ComplementNB,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    MixedBayes,
    MixedNB,
    MultinomialNB,
    NotLearnedError,
    NotSupportedError,
)
from stream.checks.streams import records
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer

BAYES: list[Learner] = [
    BernoulliNB(),
    BernoulliNB(alpha=0),
    CategoricalBayes(),
    CategoricalNB(),
    CategoricalNB(alpha=0),
    GaussianBayes(),
    GaussianBayes("pooled"),
    GaussianNB(),
    GaussianNB(half_life=20),
    MixedBayes(),
    MixedNB(),
    MixedNB(priors={"first": 0.5, "second": 0.5}),
    MultinomialNB(),
    MultinomialNB(alpha=0),
    Discretized(Discretizer(n_bins=4), CategoricalNB()),
    Discretized(MDLDiscretizer(), CategoricalNB()),
]


@pytest.mark.parametrize("learner", BAYES, ids=repr)
def test_evidence_is_the_sum_of_the_joint(learner) -> None:
    """In 50 digits, and as scipy's logsumexp; to 1e-14 of its size."""
    model, data = learner.clone(), records(learner, seed=3)
    model.learn_many(data.xs, data.ys, data.ws)
    with localcontext() as context:
        context.prec, context.Emin = 50, -(10**9)
        for x in data.xs:
            joint = list(model.joint_log_likelihood_one(x).values())
            got = model.log_evidence_one(x)
            total = sum((Decimal(v).exp() for v in joint if v > -inf), start=Decimal(0))
            if total == 0:
                assert got == -inf
                continue
            exact = float(total.ln())
            assert got == pytest.approx(exact, rel=1e-14, abs=1e-14)
            assert got == pytest.approx(float(logsumexp(joint)), rel=1e-13, abs=1e-13)


def test_evidence_of_the_weather_by_hand() -> None:
    """Sunny of 4 days: P(yes) · P(sunny | yes) + P(no) · P(sunny | no) = 1/2 · 1/2 + 1/2 · 1."""
    model = CategoricalNB(alpha=0)
    for sky, y in [("sunny", "no"), ("sunny", "no"), ("rainy", "yes"), ("sunny", "yes")]:
        model.learn_one({"sky": sky}, y)

    assert exp(model.log_evidence_one({"sky": "sunny"})) == pytest.approx(0.75, rel=1e-15)
    assert exp(model.log_evidence_one({"sky": "rainy"})) == pytest.approx(0.25, rel=1e-15)
    assert model.log_evidence_one({}) == pytest.approx(0.0, abs=1e-15)


def test_evidence_of_example_18_1(iris) -> None:
    """(6.75, 4.25): 1.622e-7 + 1.735e-5 = 1.751e-5, with the priors the book rounds."""
    model = GaussianBayes(ridge=0, priors={"c1": 0.33, "c2": 0.67})
    model.learn_many(*iris)

    evidence = exp(model.log_evidence_one({"length": 6.75, "width": 4.25}))
    assert f"{evidence:.3e}" == "1.751e-05"


def test_evidence_of_all_tuples_is_one() -> None:
    """p(x) is a distribution: over the tuples of a joint table it sums to 1."""
    model = CategoricalBayes(alpha=0.5)
    for a, b, y in [("x", "s", "p"), ("y", "s", "p"), ("x", "t", "q"), ("z", "t", "q")]:
        model.learn_one({"a": a, "b": b}, y)
    tuples = [{"a": a, "b": b} for a in "xyz" for b in "st"]

    assert sum(exp(model.log_evidence_one(x)) for x in tuples) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("vocabulary", ["hashed", "exact"])
def test_evidence_of_all_counts_of_as_many_tokens_is_one(vocabulary) -> None:
    """With the coefficient it is a distribution over counts, and without over sequences."""
    model = MultinomialNB(vocabulary=vocabulary)
    model.learn_many([{"text": "a a b"}, {"text": "b c"}], ["p", "q"])
    counts = [(i, k, 5 - i - k) for i in range(6) for k in range(6 - i)]
    xs = [{"text": " ".join("a" * i + "b" * k + "c" * n)} for i, k, n in counts]
    words = [{"a": i, "b": k, "c": n, "unknown": 7} for i, k, n in counts]

    for given in (xs, words):
        total = sum(exp(model.log_evidence_one(x, coefficient=True)) for x in given)
        assert total == pytest.approx(1.0, rel=1e-12)
    one = model.log_evidence_one(xs[0], coefficient=True), model.log_evidence_one(xs[0])
    assert one[0] == pytest.approx(one[1])  # all five are alike: one order


def test_evidence_far_away_is_small_and_exact() -> None:
    """Where every likelihood underflows the sum is still of logarithms: N(0, 1) at 100."""
    model = GaussianNB(var_smoothing=0)
    for x in (-1.0, 1.0):
        model.learn_one({"a": x}, "one")
        model.learn_one({"a": x}, "two")

    expected = -0.5 * log(2 * 3.141592653589793) - 0.5 * 100.0**2
    assert model.log_evidence_one({"a": 100.0}) == pytest.approx(expected, rel=1e-14)


def test_without_a_class_or_a_likelihood_there_is_none() -> None:
    """A clear error, not a number."""
    with pytest.raises(NotLearnedError, match="learn a record first"):
        MixedNB().log_evidence_one({"a": 1})
    for learner in (ComplementNB(), KNNClassifier()):
        with pytest.raises(NotSupportedError, match="evidence"):
            learner.log_evidence_one({"a": 1})
