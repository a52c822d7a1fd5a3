"""GaussianNB against its twin, scikit-learn, exact fractions and hand-made cases."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from river import datasets
from sklearn.naive_bayes import GaussianNB as ScikitGaussianNB

from stream import (
    Block,
    GaussianNB,
    InvalidRecordError,
    MixedNB,
    NotLearnedError,
    Rows,
)
from stream.bayes.classifier import BayesClassifier
from stream.data.block import PREDICT_THEN_LEARN
from tests.oracles.gaussian import GaussianTwin, Welford


def stream_of(n: int, seed: int):
    """Records with gaps, offsets, late features and three classes."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        c = int(rng.integers(3 if i > 20 else 2))
        x = {"a": 1e6 + rng.normal(c), "b": rng.normal(0, 1 + c), "c": float(rng.integers(3))}
        if i > n // 2:
            x["late"] = rng.normal(-c, 0.01)
        gaps = {name for name in x if rng.random() < 0.1}
        yield (
            {k: float(v) for k, v in x.items() if k not in gaps},
            "uvw"[c],
            float(rng.choice([1, 2, 0.5])),
        )


@pytest.mark.parametrize(
    ("parameters", "twin"),
    [
        ({}, {}),
        ({"variance": "sample", "var_smoothing": 0.0}, {"ddof": 1.0, "smoothing": 0.0}),
        ({"var_smoothing": 0.5}, {"smoothing": 0.5}),
        ({"priors": {"u": 0.2, "w": 0.8}}, {"priors": {"u": 0.2, "w": 0.8}}),
    ],
    ids=["default", "sample", "smoothed", "priors"],
)
def test_learner_equals_its_plain_python_twin(parameters, twin) -> None:
    """Moments are the twin's bits; posteriors agree to the rounding of exp and log."""
    model, oracle = GaussianNB(**parameters), GaussianTwin(**twin)
    for x, y, w in stream_of(150, seed=0):
        assert model.predict_proba_one(x) == pytest.approx(
            oracle.posterior(x), rel=1e-9, abs=1e-300
        )
        assert model.joint_log_likelihood_one(x) == pytest.approx(oracle.joint(x), rel=1e-12)
        model.learn_one(x, y, w)
        oracle.learn(x, y, w)

    arrays = arrays_of(model)
    for j, name in enumerate(model.features):
        assert arrays["anchor"][j] == oracle.anchor[name]
        assert moments(arrays, "total_", j) == oracle.total[name]
        for c, y in enumerate(model.classes):
            assert moments(arrays, "", (c, j)) == oracle.inside[y].get(name, Welford())


@pytest.mark.parametrize("magnitude", [1e-90, 1e-40, 1.0, 1e30, 1e90])
def test_densities_of_any_magnitude_are_the_twins(magnitude) -> None:
    """Products of variances that leave the range of a double, alone and beside ordinary ones."""
    model, oracle = GaussianNB(), GaussianTwin()
    rng = np.random.default_rng(3)
    for i in range(40):
        x = {f"x{j}": float(magnitude * rng.normal(i % 2)) for j in range(9)}
        x |= {"plain": float(rng.normal()), "constant": 1.0}
        assert model.joint_log_likelihood_one(x) == pytest.approx(oracle.joint(x), rel=1e-9)
        assert model.predict_proba_one(x) == pytest.approx(
            oracle.posterior(x), rel=1e-9, abs=1e-300
        )
        model.learn_one(x, "ab"[i % 2])
        oracle.learn(x, "ab"[i % 2])


@pytest.mark.parametrize("parameters", [{}, {"variance": "sample"}, {"half_life": 9.0}], ids=repr)
def test_a_plain_record_is_learned_as_its_block_is(parameters) -> None:
    """With and without gaps, strangers, new classes and weights of any size, to the last bit."""
    rng = np.random.default_rng(4)
    records = list(stream_of(120, seed=4))
    records += [({k: int(v) for k, v in x.items()}, y, 2) for x, y, _ in records[:20]]
    weights = [5e-324, 1e-300, 1e-291, 2.0**53]
    records += [(x, y, weights[i % 4]) for i, (x, y, _) in enumerate(records[:20])]
    records += [({"a": -0.0, "b": 0, "c": True, "new": 1.0}, "u", 1.0), ({"a": 5e-324}, "w", 1.0)]
    one, blocks = GaussianNB(**parameters), GaussianNB(**parameters)
    for x, y, w in records:
        names = list(x)
        rng.shuffle(names)
        shuffled = {name: x[name] for name in names}

        assert [one.predict_proba_one(shuffled)] == blocks.predict_proba_many([x])
        one.learn_one(shuffled, y, w)
        blocks.learn_many([x], [y], [w])
        assert one.fingerprint() == blocks.fingerprint()


def test_a_plain_record_finds_its_place_after_unlearning_and_merging() -> None:
    """Columns and classes that came or went since the last one-record call."""
    model, other = GaussianNB(), GaussianNB()
    for x, y, _ in stream_of(60, seed=5):
        model.learn_one({"a": x.get("a", 0.0)}, y)
        other.learn_one(x, y)
    model.learn_one({"gone": 1.0}, "x")
    model.predict_proba_one({"a": 1.0, "gone": 2.0})
    model.unlearn_one({"gone": 1.0}, "x")

    for x in ({"a": 1.0}, {"a": 1.0, "b": 2.0, "c": 1, "late": 0.5}):
        assert [model.predict_proba_one(x)] == model.predict_proba_many([x])
        model.merge(other)
        assert [model.predict_proba_one(x)] == model.predict_proba_many([x])


def arrays_of(model: GaussianNB):
    """The state's arrays by their last name."""
    return {k.rpartition("/")[2]: v for k, v in model.to_state().arrays.items()}


def moments(arrays, prefix: str, at) -> Welford:
    """What the learner's state holds at `at`."""
    return Welford(*(float(arrays[prefix + k][at]) for k in ("n", "mean", "m2")))


def exact(values: list[float], ddof: int) -> tuple[Fraction, Fraction]:
    """Mean and variance without rounding."""
    fractions = [Fraction(v) for v in values]
    mean = sum(fractions) / len(fractions)
    return mean, sum((v - mean) ** 2 for v in fractions) / (len(fractions) - ddof)


@pytest.mark.parametrize(("variance", "ddof"), [("ml", 0), ("sample", 1)])
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e12])
def test_moments_far_from_zero_are_exact_to_ten_digits(variance, ddof, offset) -> None:
    """Noise of size one on an offset of a billion, against exact fractions."""
    values = (offset + np.random.default_rng(5).normal(size=2000)).tolist()
    model = GaussianNB(variance=variance)
    model.learn_many([{"x": v} for v in values], ["c"] * len(values))
    mean, var = exact(values, ddof)

    assert abs(Fraction(model.variances["c"]["x"]) / var - 1) < 1e-10
    assert abs(Fraction(model.means["c"]["x"]) - mean) <= 1e-10 * max(1, abs(mean))


def test_integer_weights_are_counted_exactly() -> None:
    """n after a weight of 3 is n after three records."""
    heavy, thrice = GaussianNB(), GaussianNB()
    for v in (1.0, 2.5, 4.0):
        heavy.learn_one({"x": v}, "c", w=3)
        thrice.learn_many([{"x": v}] * 3, ["c"] * 3)
    one, other = arrays_of(heavy), arrays_of(thrice)

    assert np.array_equal(one["n"], other["n"])
    assert np.array_equal(one["weight"], other["weight"])
    np.testing.assert_allclose(one["m2"], other["m2"], rtol=1e-12)


def test_given_priors_stand_for_the_learned_ones() -> None:
    """With the same evidence the posterior is the prior; an unnamed class has none."""
    model = GaussianNB(priors={"a": 0.25, "b": 0.75})
    for v in (0.0, 1.0):
        for y in "aab":
            model.learn_one({"x": v}, y)
    unnamed = model.clone()
    unnamed.learn_many([{"x": 0.0}, {"x": 1.0}] * 3, "abcabc")

    assert model.predict_proba_one({"x": 0.3}) == pytest.approx({"a": 0.25, "b": 0.75})
    assert unnamed.predict_proba_one({})["c"] == 0.0


def test_learned_prior_is_the_share_of_weight() -> None:
    """Without evidence the posterior is the share of what was learned."""
    model = GaussianNB()
    model.learn_one({"x": 1.0}, "a", w=3.0)
    model.learn_one({"x": 2.0}, "b")

    assert model.predict_proba_one({}) == pytest.approx({"a": 0.75, "b": 0.25}, rel=1e-15)


@pytest.mark.parametrize("priors", [None, {"a": 0.3, "b": 0.7}])
def test_posterior_is_the_prior_where_every_class_is_impossible(priors) -> None:
    """Two points and a value beside both: the likelihood is zero, the answer is not (I4)."""
    model = GaussianNB(var_smoothing=0, priors=priors)
    for y, v in (("a", 0.0), ("a", 0.0), ("b", 1.0)):
        model.learn_one({"x": v}, y)

    assert model.joint_log_likelihood_one({"x": 0.5}) == {"a": -inf, "b": -inf}
    assert model.predict_proba_one({"x": 0.5}) == pytest.approx(priors or {"a": 2 / 3, "b": 1 / 3})


def test_class_of_one_point_is_certain_on_it_and_impossible_beside_it() -> None:
    """Without smoothing a zero variance is a point of density 1."""
    model = GaussianNB(var_smoothing=0)
    for y, v in (("a", 0.0), ("b", 1.0), ("b", 3.0)):
        model.learn_one({"x": v}, y)

    assert model.joint_log_likelihood_one({"x": 0.0})["a"] == pytest.approx(log(1 / 3))
    assert model.predict_proba_one({"x": 2.0}) == {"a": 0.0, "b": 1.0}


def test_feature_constant_within_each_class_separates_them() -> None:
    """Smoothing is by the total variance, which sees what lies between the classes."""
    model = GaussianNB()
    for y, v in (("a", 0.0), ("b", 1.0)) * 5:
        model.learn_one({"x": v}, y)

    assert model.predict_one({"x": 0.1}) == "a"
    assert model.predict_one({"x": 0.9}) == "b"


def test_feature_a_class_has_never_seen_is_no_evidence_for_it() -> None:
    """The class counts it as probable as anywhere."""
    model = GaussianNB()
    for v in (0.0, 1.0, 2.0):
        model.learn_one({"x": v, "y": v}, "a")
        model.learn_one({"x": v}, "b")

    assert model.predict_proba_one({"y": 1.3}) == pytest.approx({"a": 0.5, "b": 0.5})


def test_features_get_their_columns_when_first_learned() -> None:
    """In the order of learning, those of one record by name; a gap gives no column."""
    model = GaussianNB()
    model.predict_one({"asked": 1.0})
    model.learn_one({"z": 1.0, "gap": None}, "a")
    model.learn_many([{"c": 1.0, "b": 2.0}, {"a": 3.0, "gap": 1.0}], "aa")

    assert model.features == ["z", "b", "c", "a", "gap"]


def test_text_for_a_number_already_learned_is_refused() -> None:
    """A wrong kind is refused, not learned as a gap."""
    model = GaussianNB()
    model.learn_one({"x": 1.0}, "a")

    with pytest.raises(InvalidRecordError):
        model.learn_one({"x": "2.0"}, "a")


def test_refused_features_are_counted_the_same_in_any_split(monkeypatch) -> None:
    """The counter is part of the state, so it must not depend on blocks (I1)."""
    monkeypatch.setattr("stream.bayes.gaussian.MAX_FEATURES", 1)
    many, single = GaussianNB(), GaussianNB()
    many.learn_many([{"a": 1.0, "b": 2.0}] * 3, "xxx")
    for _ in range(3):
        single.learn_one({"a": 1.0, "b": 2.0}, "x")

    assert many.overflows["features"] > 0
    assert many.overflows == single.overflows


def test_priors_of_a_configuration_reach_labels_that_are_no_text() -> None:
    """TOML keys are text: "1" is for 1 and "true" for True."""
    for labels, names in (((1, 0), ("1", "0")), ((True, False), ("true", "false"))):
        model = GaussianNB(priors={names[0]: 0.9, names[1]: 0.1})
        for label in labels:
            model.learn_many([{"x": 1.0}, {"x": 2.0}], [label, label])

        assert model.predict_proba_one({}) == pytest.approx({labels[0]: 0.9, labels[1]: 0.1})


def test_weights_of_any_size_leave_variances_that_are_none_below_zero() -> None:
    """A weight that drowns what came before it."""
    model = GaussianNB(var_smoothing=0)
    for x, w in [(0.1, 1e-30), (1.1, 1e-30), (0.3, 2.0**53)]:
        model.learn_one({"x": x}, "a", w)

    assert model.variances["a"]["x"] >= 0


def test_what_was_learned_a_half_life_ago_counts_half() -> None:
    """Prior and moments are those of the weights 2 ** (-age / half_life)."""
    values, half_life = [1.0, 4.0, 2.0, 8.0, 5.0, 7.0], 3.0
    fading, weighted = GaussianNB(half_life=half_life), GaussianNB()
    for i, v in enumerate(values):
        y, age = "ab"[i % 2], len(values) - 1 - i
        fading.learn_one({"x": v}, y)
        weighted.learn_one({"x": v}, y, w=2.0 ** (-age / half_life))

    assert fading.means["a"]["x"] == pytest.approx(weighted.means["a"]["x"], rel=1e-12)
    assert fading.variances["b"]["x"] == pytest.approx(weighted.variances["b"]["x"], rel=1e-12)
    assert fading.predict_proba_one({"x": 3.0}) == pytest.approx(
        weighted.predict_proba_one({"x": 3.0}), rel=1e-9
    )


def test_fading_never_overflows_however_long_the_stream() -> None:
    """Weights are scaled down together before they grow too large: many times here."""
    model = GaussianNB(half_life=1.0)
    for i in range(3_000):
        model.learn_one({"x": float(i % 7)}, "ab"[i % 2])

    assert np.isfinite(arrays_of(model)["weight"]).all()
    assert model.predict_proba_one({}) == pytest.approx({"a": 1 / 3, "b": 2 / 3}, rel=1e-9)


def test_unlearning_a_faded_record_needs_its_age() -> None:
    """Without it the error says what is missing; with it the record is gone."""
    model = GaussianNB(half_life=4.0)
    for v, y in ((1.0, "a"), (2.0, "b"), (6.0, "a"), (3.0, "b")):
        model.learn_one({"x": v}, y)
    with pytest.raises(ValueError, match="age"):
        model.unlearn_one({"x": 6.0}, "a")
    model.unlearn_one({"x": 6.0}, "a", age=1)

    assert model.means["a"] == pytest.approx({"x": 1.0})
    assert model.variances["a"]["x"] == pytest.approx(0.0, abs=1e-9)
    prior = model.predict_proba_one({})
    assert prior["a"] / prior["b"] == pytest.approx(2 ** (-3 / 4) / (2 ** (-2 / 4) + 1), rel=1e-9)


def test_impossible_record_is_not_unlearned() -> None:
    """More weight than the class has of the feature; the model is untouched."""
    model = GaussianNB()
    model.learn_many([{"x": 1.0}, {"y": 2.0}], "ab")
    before = model.fingerprint()
    with pytest.raises(NotLearnedError, match="'y'"):
        model.unlearn_one({"y": 2.0}, "a")

    assert model.fingerprint() == before


def test_prior_and_posterior_in_one_call_are_those_of_the_parts() -> None:
    """With and without the kernel that does all three, to the last bit."""
    fused, apart = GaussianNB(), _Apart()
    records = list(stream_of(300, seed=6))
    for a in range(0, len(records), 50):
        xs, ys, ws = zip(*records[a : a + 50], strict=True)
        rows = fused.rows(xs)
        said = [
            m.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, ys, ws)) for m in (fused, apart)
        ]

        assert said[0].dicts() == said[1].dicts()
    assert arrays_of(fused).keys() == arrays_of(apart).keys()
    assert all(np.array_equal(v, arrays_of(apart)[k]) for k, v in arrays_of(fused).items())


class _Apart(GaussianNB):
    """By prior and parts, as every other Bayes classifier."""

    def _execute(self, block, label, before, out):
        BayesClassifier._execute(self, block, label, before, out)


@pytest.mark.parametrize("kind", [GaussianNB, MixedNB])
@pytest.mark.parametrize(("value", "records"), [(100.0, 10), (1e9, 400), (-5.0, 1)])
def test_a_number_far_from_all_that_was_learned_is_not_unlearned(kind, value, records) -> None:
    """It would leave a mean beyond all values and a variance of nothing."""
    model = kind()
    for i in range(records):
        model.learn_one({"a": float(i % 3), "b": 1.0}, "x")
        model.learn_one({"a": float(i % 3) + 1}, "y")
    before = model.fingerprint()

    with pytest.raises(NotLearnedError, match=r"'a' = .* is too far from the mean"):
        model.unlearn_one({"a": value, "b": 1.0}, "x")
    assert model.fingerprint() == before


def table(dataset):
    """Features, labels and names of a dataset of records without gaps."""
    xs, ys = zip(*dataset, strict=True)
    names = sorted(xs[0])
    return np.array([[float(x[name]) for name in names] for x in xs]), np.array(ys), names


def first_spread(values, at) -> int:
    """The first of the records `at` after which they vary in every feature."""
    part = values[at]
    varied = (np.maximum.accumulate(part) > np.minimum.accumulate(part)).all(axis=1)
    assert varied.any()
    return int(at[np.argmax(varied)])


def assert_agrees_with_scikit_learn(values, labels, names, every: int) -> None:
    """Posteriors to 1e-9 at each `every`-th record from the first that scikit-learn can do."""
    learner = GaussianNB(var_smoothing=0)
    rows = Rows.from_dicts([dict(zip(names, row, strict=True)) for row in values.tolist()])
    said = learner.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, labels.tolist()))
    kinds = np.unique(labels)
    first = 1 + max(first_spread(values, np.flatnonzero(labels == kind)) for kind in kinds)
    checked = 0
    column = [learner.classes.index(kind.item()) for kind in kinds]
    for i in range(first, len(values), every):
        scikit = ScikitGaussianNB(var_smoothing=0).fit(values[:i], labels[:i])
        expected = scikit.predict_proba(values[i : i + 1])[0]
        np.testing.assert_allclose(said.proba[i, column], expected, rtol=0, atol=1e-9)
        checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("dataset", "every"),
    [(datasets.Phishing(), 1), (datasets.Bananas(), 7), (datasets.ImageSegments(), 3)],
    ids=["Phishing", "Bananas", "ImageSegments"],
)
def test_posteriors_are_scikit_learns(dataset, every) -> None:
    """From the first record where each class has positive variance on each feature."""
    assert_agrees_with_scikit_learn(*table(dataset), every)


def test_posteriors_on_iris_are_scikit_learns(shared_csv) -> None:
    """Three classes, shuffled by a fixed seed."""
    rows = shared_csv("iris/iris.csv.gz")
    order = np.random.default_rng(0).permutation(len(rows))
    data = [(dict(rows[i]), rows[i]["species"]) for i in order]
    for x, _ in data:
        del x["species"]

    assert_agrees_with_scikit_learn(*table(data), every=1)


@pytest.mark.parametrize(("variance", "ddof"), [("ml", 0), ("sample", 1)])
def test_variance_is_numpys(variance, ddof) -> None:
    """`ml` divides by n, `sample` by n - 1."""
    values = np.random.default_rng(6).normal(3, 2, size=50)
    model = GaussianNB(variance=variance)
    model.learn_many([{"x": v} for v in values.tolist()], ["c"] * 50)

    assert model.variances["c"]["x"] == pytest.approx(values.var(ddof=ddof), rel=1e-12)
    assert model.means["c"]["x"] == pytest.approx(values.mean(), rel=1e-12)
