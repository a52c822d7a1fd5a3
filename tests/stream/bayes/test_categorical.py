"""CategoricalNB: against its twin and scikit-learn, and what is a category at all."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB as Reference

from stream import CategoricalNB
from stream.bayes import categories
from stream.checks import check_laws
from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.data.schema import Schema
from stream.errors import InvalidRecordError, NotLearnedError, SchemaError
from tests.oracles.categorical import CategoricalTwin

DOMAINS = {"a": ["x", "y", "z", "never"], "b": ["x", "y"]}
SHARES = {"a": {"x": 0.5, "y": 0.25, "z": 0.25}, "b": {"x": 0.875, "y": 0.125}}
EXACT = {name: {v: Fraction(p) for v, p in of.items()} for name, of in SHARES.items()}
OF_SHARES = {name: list(of) for name, of in SHARES.items()}
PARAMETERS = {
    "laplace": ({}, {}),
    "lidstone": ({"alpha": 0.25}, {"alpha": Fraction(1, 4)}),
    "likelihood": ({"alpha": 0}, {"alpha": Fraction(0)}),
    "m": ({"m": 3}, {"m": Fraction(3)}),
    "m_p": ({"m": 3, "p": 0.125}, {"m": Fraction(3), "p": Fraction(1, 8)}),
    "m_zero": ({"m": 0, "p": 0.5}, {"m": Fraction(0), "p": Fraction(1, 2)}),
    "zeros": ({"smooth": "zeros"}, {"zeros": True}),
    "m_zeros": ({"m": 3, "smooth": "zeros"}, {"m": Fraction(3), "zeros": True}),
    "m_shares": (
        {"m": 3, "p": SHARES},
        {"m": Fraction(3), "priors_of_values": EXACT, "domains": OF_SHARES},
    ),
    "m_shares_domains": (
        {"m": 3, "p": SHARES, "domains": DOMAINS},
        {"m": Fraction(3), "priors_of_values": EXACT, "domains": DOMAINS},
    ),
    "m_zero_shares": (
        {"m": 0, "p": SHARES},
        {"m": Fraction(0), "priors_of_values": EXACT, "domains": OF_SHARES},
    ),
    "domains": ({"domains": DOMAINS}, {"domains": DOMAINS}),
    "likelihood_domains": (
        {"alpha": 0, "domains": DOMAINS},
        {"alpha": Fraction(0), "domains": DOMAINS},
    ),
}
P_OF = {"count": {0: 0.5, 1: 0.25, 2: 0.25, 3: 0}, "flag": {False: 0.25, True: 0.75}}
LAWFUL = {
    "likelihood": CategoricalNB(alpha=0),
    "m": CategoricalNB(m=2.0, p=0.1),
    "zeros": CategoricalNB(smooth="zeros"),
    "shares": CategoricalNB(m=2.0, p=P_OF),
    "fading": CategoricalNB(half_life=20),
    "domains": CategoricalNB(domains={"count": [0, 1, 2, 3], "flag": [False, True]}),
    "priors": CategoricalNB(priors={"first": 0.5, "third": 0.5}),
}


def stream(n: int, seed: int):
    """Records with gaps, a late feature and a late class; values that only some classes have."""
    rng = random.Random(seed)
    for i in range(n):
        y = rng.choice("pq" if i < n // 2 else "pqr")
        x = {"a": rng.choice("xyz"), "b": rng.choice("xy"), "c": y + rng.choice("12")}
        if i > n // 3 and y != "q":
            x["d"] = rng.choice("uv")
        yield {k: v for k, v in x.items() if rng.random() < 0.8}, y, rng.choice([1.0, 2.0, 0.25])


@pytest.mark.parametrize("learner", LAWFUL.values(), ids=LAWFUL)
def test_laws_hold_with_other_parameters(learner) -> None:
    """Whatever the smoothing, the domains, the priors and the fading."""
    check_laws(learner)


@pytest.mark.parametrize(("ours", "theirs"), PARAMETERS.values(), ids=PARAMETERS)
def test_posteriors_are_those_of_the_twin(ours, theirs) -> None:
    """After each record, for known, unknown and missing values; to 1e-12 of exact Fractions."""
    model, twin = CategoricalNB(**ours), CategoricalTwin(**theirs)
    strangers = [{}, {"a": "new"}, {"a": "never", "d": "u"}, {"stranger": "x", "b": "y"}]
    for x, y, w in stream(60, 1):
        for probe in (x, *strangers):
            said, exact = model.predict_proba_one(probe), twin.posterior(probe)
            assert list(said) == list(exact)
            assert list(said.values()) == pytest.approx(
                [float(p) for p in exact.values()], rel=1e-12, abs=1e-300
            )
        model.learn_one(x, y, w)
        twin.learn(x, y, w)


def encoded(rows):
    """Codes of the columns, in the order of appearance, for scikit-learn."""
    out = np.empty((len(rows), len(rows[0])), dtype=np.int64)
    for j, name in enumerate(rows[0]):
        codes: dict[str, int] = {}
        out[:, j] = [codes.setdefault(row[name], len(codes)) for row in rows]
    return out


@pytest.mark.parametrize(
    ("file", "label"),
    [("adult/adult.csv.gz", "income"), ("phishing_uci/phishing.csv.gz", "target")],
)
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_posteriors_are_scikit_learns_after_every_100th_record(
    shared_csv, file, label, alpha
) -> None:
    """Real streams; scikit-learn is fitted again each time, m_j = the values learned so far."""
    numeric = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
    rows = [row for row in shared_csv(file)[:1600] if all(row.values())]
    ys = [row[label] for row in rows]
    xs = [{k: v for k, v in r.items() if k not in numeric | {label, "split"}} for r in rows]
    codes = encoded(xs)
    model = CategoricalNB(alpha=alpha)
    compared = 0
    for n in range(100, len(xs), 100):
        model.learn_many(xs[n - 100 : n], ys[n - 100 : n])
        known = codes[:n].max(axis=0)
        ahead = n + np.flatnonzero((codes[n : n + 50] <= known).all(axis=1))
        reference = Reference(alpha=alpha).fit(codes[:n], ys[:n])
        said = model.predict_proba_many([xs[i] for i in ahead])
        for p, expected in zip(said, reference.predict_proba(codes[ahead]), strict=True):
            for y, q in zip(reference.classes_, expected, strict=True):
                assert p[str(y)] == pytest.approx(q, rel=1e-9, abs=1e-15)
                compared += 1

    assert compared > 1000


def test_numbers_truth_values_and_texts_are_categories() -> None:
    """3, 3.0 and "3" are one, True and "true" are one, 3.5 is another."""
    model = CategoricalNB()
    for value in (3, 3.0, "3", np.int64(3)):
        model.learn_one({"a": value}, "p")
    model.learn_one({"a": True}, "q")
    model.learn_one({"a": "true"}, "q")
    model.learn_one({"a": 3.5}, "q")

    assert model.pmf["p"]["a"] == pytest.approx({"3": 5 / 7, "true": 1 / 7, "3.5": 1 / 7})
    assert model.pmf["q"]["a"] == pytest.approx({"3": 1 / 6, "true": 3 / 6, "3.5": 2 / 6})


def test_a_tuple_is_a_category_by_its_text() -> None:
    """Nested, with what a category can be; (1, 2.0) is (1, 2), and "a" is not a."""
    model = CategoricalNB()
    model.learn_one({"pair": (1, 2.0), "b": 1}, "p")
    model.learn_one({"pair": (1, 2), "b": 1}, "p")
    model.learn_one({"pair": ("a", (True, None)), "b": 1}, "q")

    assert list(model.pmf["p"]["pair"]) == ["(1, 2)", "('a', (true, None))"]
    assert model.predict_one({"pair": (1, 2)}) == "p"


@pytest.mark.parametrize(
    "bad", [b"1", object(), frozenset("a"), (1, [2]), (b"1",), (float("inf"),)]
)
def test_what_has_no_lasting_text_is_refused(bad) -> None:
    """A state must be saved and read again, so not everything hashable is a category."""
    model = CategoricalNB()
    before = model.fingerprint()

    with pytest.raises(InvalidRecordError):
        model.learn_one({"a": "good", "b": bad}, "p")
    assert model.fingerprint() == before


def test_rows_of_a_schema_are_the_categories_of_dicts() -> None:
    """Declared numbers and truth values come as floats; what is learned is the same."""
    xs = [{"n": 1, "flag": True, "c": "x"}, {"n": 2.5, "c": "y"}, {"n": 1, "flag": False}]
    rows = Rows.empty(Schema.of(n="numeric", flag="binary", c="categorical"), 3)
    for i, x in enumerate(xs):
        rows.numeric[i] = [x["n"], float(x.get("flag", np.nan))]
        rows.categorical[i, 0] = x.get("c")
    by_dict, by_schema = CategoricalNB(), CategoricalNB()
    by_dict.learn_many(xs, ["p", "q", "p"])

    by_schema.progressive_many(Block.of(by_schema.prepare(rows), LEARN, ["p", "q", "p"]))

    assert by_schema.fingerprint() == by_dict.fingerprint()
    assert by_schema.pmf["p"]["flag"] == {"true": 0.5, "false": 0.5}


def test_a_value_never_learned_is_no_evidence() -> None:
    """It changes no posterior, with any alpha; beside it the other features count."""
    for alpha in (0, 1):
        model = CategoricalNB(alpha=alpha)
        for x, y, w in stream(40, 2):
            model.learn_one(x, y, w)

        assert model.predict_proba_one({"a": "new"}) == model.predict_proba_one({})
        assert model.predict_proba_one({"a": "new", "b": "x"}) == model.predict_proba_one(
            {"b": "x"}
        )


def test_a_feature_a_class_never_had_counts_as_anywhere() -> None:
    """No flat penalty: "q" never had b, so b = x is as probable there as over all classes."""
    model = CategoricalNB(alpha=0)
    for b in "xxxy":
        model.learn_one({"b": b}, "p")
    model.learn_one({"a": "x"}, "q")

    assert model.predict_proba_one({"b": "x"}) == model.predict_proba_one({})
    assert model.pmf["q"]["b"] == {"x": pytest.approx(0.75), "y": pytest.approx(0.25)}


def test_asking_for_a_value_does_not_widen_the_domain() -> None:
    """m_j counts learned values only, and within one block only those of the steps before."""
    model = CategoricalNB()
    model.learn_many([{"a": "x"}, {"a": "x"}, {"a": "y"}], ["p", "p", "q"])
    before = model.predict_proba_one({"a": "x"})
    block = Block.of(model.rows([{"a": "z"}, {"a": "x"}, {"a": "z"}]), PREDICT, ["p"] * 3)
    block.op[2] = LEARN

    said = model.progressive_many(block).dicts()

    assert said[1] == before
    assert model.pmf["q"]["a"] == pytest.approx({"x": 1 / 4, "y": 2 / 4, "z": 1 / 4})


def test_a_value_unlearned_to_zero_counts_as_never_learned() -> None:
    """m_j falls again, and the codes of the values after it move up."""
    model, kept = CategoricalNB(), CategoricalNB()
    records = [({"a": v, "b": "x"}, y) for v, y in zip("xyzxz", "ppqqp", strict=True)]
    for x, y in records:
        model.learn_one(x, y)
        if x["a"] != "y":
            kept.learn_one(x, y)
    model.unlearn_one(*records[1])

    assert model.fingerprint() == kept.fingerprint()
    with pytest.raises(NotLearnedError, match="never had the value 'y'"):
        model.unlearn_one(*records[1])


def test_unlearning_with_half_life_takes_the_age() -> None:
    """What is left is what the other records would have left, to rounding."""
    model, kept = CategoricalNB(half_life=5), CategoricalNB(half_life=5)
    records = list(stream(30, 3))
    for i, (x, y, w) in enumerate(records):
        model.learn_one(x, y, w)
        if i == 20:
            kept.learn_one({}, y, 5e-324)
            continue
        kept.learn_one(x, y, w)
    x, y, w = records[20]
    model.unlearn_one(x, y, w, age=9)

    assert model.pmf == {
        c: {f: pytest.approx(values, rel=1e-9) for f, values in features.items()}
        for c, features in kept.pmf.items()
    }


def test_half_life_halves_what_was_learned() -> None:
    """After that many records an old one counts a half."""
    model = CategoricalNB(alpha=0, half_life=4)
    model.learn_one({"a": "x"}, "p")
    for _ in range(3):
        model.learn_one({}, "p")
    model.learn_one({"a": "y"}, "p")

    assert model.pmf["p"]["a"] == pytest.approx({"x": 1 / 3, "y": 2 / 3}, rel=1e-12)


def test_fading_for_long_stays_finite() -> None:
    """Weights are scaled down in time, and nothing of the answer changes then."""
    model = CategoricalNB(half_life=1)
    for _ in range(300):
        model.learn_many([{"a": "x"}, {"a": "y"}], ["p", "q"])

    # The last record of p counts half that of q, which is (1 + 1/4 + 1/16 + …) = 4/3.
    assert model.predict_proba_one({})["q"] == pytest.approx(2 / 3, rel=1e-12)
    assert model.pmf["q"]["a"]["y"] == pytest.approx((4 / 3 + 1) / (4 / 3 + 2), rel=1e-12)


def test_values_beyond_the_bound_are_counted_and_never_learned(monkeypatch) -> None:
    """Of one feature and over all; the same in one block and one by one."""
    monkeypatch.setattr(categories, "LARGEST_DOMAIN", 3)
    monkeypatch.setattr(categories, "MAX_VALUES", 5)
    xs = [{"a": i % 5, "b": i % 7, "c": "x"} for i in range(20)]
    block, single = CategoricalNB(), CategoricalNB()
    block.learn_many(xs, ["p", "q"] * 10)
    for x, y in zip(xs, ["p", "q"] * 10, strict=True):
        single.learn_one(x, y)

    assert {f: list(v) for f, v in block.pmf["p"].items()} == {
        "a": ["0", "1"],
        "b": ["0", "1"],
        "c": ["x"],
    }
    assert block.overflows["values"] == 12 + 14
    assert block.fingerprint() == single.fingerprint()
    assert block.predict_proba_one({"a": 4}) == block.predict_proba_one({})


def test_a_refused_value_is_counted_back_when_its_record_is_unlearned() -> None:
    """Too long a value, or one outside its domain, leaves nothing to take back."""
    model = CategoricalNB(domains={"d": ["in"]})
    model.learn_one({"a": "x", "d": "in"}, "p")
    before = model.fingerprint()
    for x in ({"a": "y" * 513}, {"d": "out"}, {"late": "y" * 513}):
        model.learn_one({"b": "x", **x}, "p")
        assert model.overflows["values"] == 1
        model.unlearn_one({"b": "x", **x}, "p")

    assert model.fingerprint() == before
    assert model.features == ["a", "d"]


def test_a_given_domain_is_the_domain() -> None:
    """Its values count before they come; others are never learned."""
    model = CategoricalNB(domains={"a": ["x", "y", 3]})
    model.learn_many([{"a": "x"}, {"a": "out"}], ["p", "q"])

    assert model.pmf["p"]["a"] == pytest.approx({"x": 2 / 4, "y": 1 / 4, "3": 1 / 4})
    assert model.overflows["values"] == 1
    assert model.n_parameters == 2 * (3 - 1)


def test_merging_counts_what_does_not_fit(monkeypatch) -> None:
    """Values beyond the bound are left out of n too, so that shares still sum to 1."""
    monkeypatch.setattr(categories, "LARGEST_DOMAIN", 3)
    one, other = CategoricalNB(alpha=0), CategoricalNB(alpha=0)
    one.learn_many([{"a": v} for v in "xyx"], ["p"] * 3)
    other.learn_many([{"a": v} for v in "zwz"], ["p"] * 3)
    one.merge(other)

    assert one.pmf["p"]["a"] == pytest.approx({"x": 2 / 5, "y": 1 / 5, "z": 2 / 5})
    assert one.overflows["values"] == 1


def test_contributions_are_log_ratios_of_shares() -> None:
    """Feature by feature, and nothing for what is missing or unknown."""
    model = CategoricalNB()
    for x, y, w in stream(40, 4):
        model.learn_one(x, y, w)
    why = model.explain_one({"a": "x", "b": None, "c": "new"}, "p", "q")

    ratio = model.pmf["p"]["a"]["x"] / model.pmf["q"]["a"]["x"]
    assert set(why.contributions) == {"(prior)", "a"}
    assert why.contributions["a"] == pytest.approx(np.log(ratio), rel=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [{"p": 0.5}, {"m": 1, "p": 1.5}],
)
def test_a_parameter_out_of_range_is_refused(parameters) -> None:
    """When it is constructed, not when it learns."""
    with pytest.raises(SchemaError):
        CategoricalNB(**parameters)
