"""CategoricalBayes: the full joint distribution, against its twin, with gaps and at its bounds."""

from __future__ import annotations

from fractions import Fraction
from math import fsum, log

import pytest

from stream import CategoricalBayes
from stream.checks import check_laws
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.errors import NotLearnedError
from tests.oracles.categorical import JointTwin
from tests.stream.bayes.test_categorical import DOMAINS, EXACT, OF_SHARES, SHARES, stream

PARAMETERS = {
    "laplace": ({}, {}),
    "lidstone": ({"alpha": 0.25}, {"alpha": Fraction(1, 4)}),
    "likelihood": ({"alpha": 0}, {"alpha": Fraction(0)}),
    "domains": ({"domains": DOMAINS}, {"domains": DOMAINS}),
    "zeros": ({"smooth": "zeros"}, {"zeros": True}),
    "m": ({"m": 3}, {"m": Fraction(3)}),
    "m_p": ({"m": 3, "p": 0.125}, {"m": Fraction(3), "p": Fraction(1, 8)}),
    "m_zero": ({"m": 0, "p": 0.03125}, {"m": Fraction(0), "p": Fraction(1, 32)}),
    "m_zeros": ({"m": 3, "smooth": "zeros"}, {"m": Fraction(3), "zeros": True}),
    "m_shares": (
        {"m": 3, "p": SHARES},
        {"m": Fraction(3), "priors_of_values": EXACT, "domains": OF_SHARES},
    ),
    "m_shares_domains": (
        {"m": 3, "p": SHARES, "domains": DOMAINS},
        {"m": Fraction(3), "priors_of_values": EXACT, "domains": DOMAINS},
    ),
}
P_OF = {"count": {0: 0.5, 1: 0.25, 2: 0.25, 3: 0}, "flag": {False: 0.25, True: 0.75}}
LAWFUL = {
    "likelihood": CategoricalBayes(alpha=0),
    "fading": CategoricalBayes(half_life=20),
    "domains": CategoricalBayes(domains={"count": [0, 1, 2, 3], "flag": [False, True]}),
    "priors": CategoricalBayes(alpha=0.1, priors={"first": 0.5, "third": 0.5}),
    "zeros": CategoricalBayes(smooth="zeros"),
    "m": CategoricalBayes(m=2.0, p=0.01),
    "m_fading": CategoricalBayes(m=2.0, half_life=20),
    "shares": CategoricalBayes(m=2.0, p=P_OF),
}


@pytest.mark.parametrize("learner", LAWFUL.values(), ids=LAWFUL)
def test_laws_hold_with_other_parameters(learner) -> None:
    """Whatever the smoothing, the domains, the priors and the fading."""
    check_laws(learner)


@pytest.mark.parametrize(("ours", "theirs"), PARAMETERS.values(), ids=PARAMETERS)
def test_posteriors_are_those_of_the_twin(ours, theirs) -> None:
    """After each record with gaps and late features; to 1e-12 of exact Fractions."""
    model, twin = CategoricalBayes(**ours), JointTwin(**theirs)
    strangers = [{}, {"a": "new"}, {"a": "never", "d": "u"}, {"stranger": "x", "b": "y"}]
    for x, y, w in stream(60, 5):
        for probe in (x, *strangers):
            said, exact = model.predict_proba_one(probe), twin.posterior(probe)
            assert list(said) == list(exact)
            assert list(said.values()) == pytest.approx(
                [float(p) for p in exact.values()], rel=1e-12, abs=1e-300
            )
        model.learn_one(x, y, w)
        twin.learn(x, y, w)


def test_one_block_is_the_twin_too() -> None:
    """Features, values and cells that come within a block count from their step on."""
    records = list(stream(60, 6))
    model, twin = CategoricalBayes(), JointTwin()
    xs, ys, ws = ([r[k] for r in records] for k in range(3))
    said = model.progressive_many(Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys, ws)).dicts()

    for (x, y, w), p in zip(records, said, strict=True):
        exact = {c: float(q) for c, q in twin.posterior(x).items()}
        assert p == pytest.approx(exact, rel=1e-12, abs=1e-300)
        twin.learn(x, y, w)


def test_it_learns_what_no_naive_classifier_can() -> None:
    """Exclusive or: both attributes alone say nothing, together everything."""
    model = CategoricalBayes(alpha=0)
    for a, b in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        model.learn_one({"a": a, "b": b}, a != b)

    assert model.predict_proba_one({"a": 1, "b": 0}) == {False: 0.0, True: 1.0}
    assert model.predict_proba_one({"a": 1}) == {False: 0.5, True: 0.5}


def test_a_missing_value_is_summed_over() -> None:
    """p(a) is the sum of p(a, b) over the values of b, smoothing included."""
    model = CategoricalBayes(alpha=0.5)
    for x, y, w in stream(200, 7):
        if {"a", "b"} <= set(x):
            model.learn_one({"a": x["a"], "b": x["b"]}, y, w)

    for y, cells in model.joint.items():
        assert fsum(cells.values()) == pytest.approx(1.0, rel=1e-12)
        for a, share in model.marginal[y]["a"].items():
            total = fsum(p for cell, p in cells.items() if cell[0] == a)
            assert share == pytest.approx(total, rel=1e-12)


def test_a_feature_few_records_have_hides_nothing_from_the_others() -> None:
    """A stranger in one record splits the joint only for questions that have it."""
    model, without = CategoricalBayes(alpha=0), CategoricalBayes(alpha=0)
    for a, y in zip("xxyyx", "ppqqq", strict=True):
        model.learn_one({"a": a}, y)
        without.learn_one({"a": a}, y)
    before = model.predict_proba_one({"a": "x"})
    model.learn_one({"z": "z"}, "p")
    without.learn_one({}, "p")

    assert model.predict_proba_one({"a": "x"}) == without.predict_proba_one({"a": "x"}) != before


def test_impossible_in_every_class_is_the_prior() -> None:
    """Maximum likelihood on a tuple nobody had: all -inf, so the prior answers."""
    model = CategoricalBayes(alpha=0)
    for a, b, y in [("x", "x", "p"), ("y", "y", "p"), ("x", "x", "q")]:
        model.learn_one({"a": a, "b": b}, y)
    x = {"a": "x", "b": "y"}

    assert set(model.joint_log_likelihood_one(x).values()) == {float("-inf")}
    assert model.predict_proba_one(x) == model.predict_proba_one({})


def test_contributions_follow_the_chain_rule() -> None:
    """log p(a) - log p(a), then log p(b | a): in the order the features were learned."""
    model = CategoricalBayes()
    for x, y, w in stream(100, 8):
        if {"a", "b"} <= set(x):
            model.learn_one({"a": x["a"], "b": x["b"]}, y, w)
    why = model.explain_one({"b": "x", "a": "y"}, "p", "q")

    first = log(model.marginal["p"]["a"]["y"] / model.marginal["q"]["a"]["y"])
    both = log(model.joint["p"]["y", "x"] / model.joint["q"]["y", "x"])
    assert list(why.contributions) == ["(prior)", "a", "b"]
    assert why.contributions["a"] == pytest.approx(first, rel=1e-12)
    assert why.contributions["b"] == pytest.approx(both - first, rel=1e-12)


def test_cells_beyond_the_bound_count_in_the_prior_only() -> None:
    """The same in one block and one by one; the cells that are there go on counting."""
    xs = [{"a": i % 5, "b": "x"} for i in range(20)]
    ys = ["p", "q"] * 10
    block, single = CategoricalBayes(max_cells=3), CategoricalBayes(max_cells=3)
    block.learn_many(xs, ys)
    for x, y in zip(xs, ys, strict=True):
        single.learn_one(x, y)

    assert block.overflows["cells"] == 8
    assert block.fingerprint() == single.fingerprint()
    assert block.joint["p"]["0", "x"] == pytest.approx((2 + 1) / (6 + 5))


def test_a_refused_record_is_unlearned_as_one() -> None:
    """A record beyond the bound of cells leaves the cells alone when it goes."""
    model = CategoricalBayes(max_cells=1)
    model.learn_one({"a": "x"}, "p")
    model.learn_one({"a": "y"}, "p")
    cells = model.joint
    model.unlearn_one({"a": "y"}, "p")

    assert model.overflows["cells"] == 0
    assert model.joint == cells


def test_unlearning_the_last_record_of_a_feature_makes_the_others_complete() -> None:
    """Values, features and cells whose count returns to 0 were never learned."""
    model, kept = CategoricalBayes(), CategoricalBayes()
    records = [({"a": "x", "b": "u"}, "p"), ({"a": "y", "b": "v"}, "q")]
    for x, y in records:
        model.learn_one(x, y)
        kept.learn_one(x, y)
    late = {"a": "z", "b": "u", "c": "w"}
    model.learn_one(late, "p")
    model.unlearn_one(late, "p")

    assert model.fingerprint() == kept.fingerprint()
    with pytest.raises(NotLearnedError, match="combination of values has less weight"):
        model.unlearn_one({"a": "x", "b": "v"}, "p")


def test_merging_finds_cells_under_other_codes() -> None:
    """Features and values come in another order there; cells are added all the same."""
    one, other, both = CategoricalBayes(), CategoricalBayes(), CategoricalBayes()
    records = list(stream(80, 9))
    for i, (x, y, w) in enumerate(records):
        (one if i < 30 else other).learn_one(x, y, w)
        both.learn_one(x, y, w)

    assert other.features != one.features
    assert one.merge(other).fingerprint() == both.fingerprint()


def test_more_tuples_than_a_double_can_count() -> None:
    """64 features of 100 values are 10**128 tuples for each of 10**200 pseudo-counts: finite."""
    model = CategoricalBayes(alpha=1e100)
    for i in range(100):
        model.learn_one({f"f{k:02}": i for k in range(64)}, "p" if i % 2 else "q")
    model.learn_one({f"f{k:02}": 0 for k in range(65)}, "p")

    assert model.overflows["features"] == 1
    assert model.n_parameters == 2 * (100**64 - 1)
    assert model.joint_log_likelihood_one({"f00": 1})["q"] == pytest.approx(log(50 / 101 / 100))
