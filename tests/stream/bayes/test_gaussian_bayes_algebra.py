"""GaussianBayes put together, taken back, faded, and with gaps: what the laws leave open."""

from __future__ import annotations

import numpy as np
import pytest

from stream import NotLearnedError, NotSupportedError
from stream.bayes.gaussian_bayes import GaussianBayes
from tests.oracles.covariance import two_pass

NAMES = ["a", "b", "c", "d", "e"]
JOINT = ("full", "pooled")
OPTIONS = [
    {},
    {"ridge": 0.0},
    {"variance": "sample", "missing": "complete"},
    {"shrinkage": 0.2},
]


def complete(n: int, seed: int):
    """Records without gaps: values, labels and weights."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(3, 5, 5))
    labels = rng.integers(3, size=n)
    values = np.array([1e5 + c + mixing[c] @ rng.normal(size=5) for c in labels])
    xs = [dict(zip(NAMES, row, strict=True)) for row in values.tolist()]
    return xs, ["uvw"[c] for c in labels], rng.choice([1.0, 2.0, 0.5], size=n).tolist()


def learned(model: GaussianBayes, records, start: int = 0, stop: int | None = None):
    """A clone that has learned a part of the records."""
    model = model.clone()
    xs, ys, ws = (part[start:stop] for part in records)
    model.learn_many(xs, ys, ws)
    return model


def assert_same_covariances(one: GaussianBayes, other: GaussianBayes, held=None) -> None:
    """To 1e-9 of the variances that were held."""
    assert one.classes == other.classes
    for label, table in one.covariances.items():
        largest = (held or one).covariances[label]
        for f, row in table.items():
            for g, value in row.items():
                scale = np.sqrt(largest[f][f] * largest[g][g])
                assert other.covariances[label][f][g] == pytest.approx(value, abs=1e-9 * scale)


def assert_same_posteriors(one: GaussianBayes, other: GaussianBayes, records) -> None:
    """To 1e-6: after a difference of sums in the last digits."""
    for x in records[0][:30]:
        assert one.predict_proba_one(x) == pytest.approx(other.predict_proba_one(x), abs=1e-6)


@pytest.mark.parametrize("covariance", JOINT)
@pytest.mark.parametrize("parameters", OPTIONS, ids=repr)
def test_merging_is_learning_both(covariance, parameters) -> None:
    """Cut anywhere, a class on one side only, the other's features in another order."""
    records = complete(120, seed=1)
    whole = learned(GaussianBayes(covariance, **parameters), records)
    for at in (0, 1, 50, 118, 120):
        first = learned(whole, records, 0, at)
        second = whole.clone()
        for x, y, w in zip(*(part[at:] for part in records), strict=True):
            for name in () if second.features else reversed(NAMES):
                second._joint._features.add(name)
            second.learn_one(x, y, w)
        before = second.fingerprint()

        assert_same_covariances(whole, first.merge(second))
        assert_same_posteriors(whole, first, records)
        assert second.fingerprint() == before


def test_merging_fading_learners_is_learning_one_after_the_other() -> None:
    """What the first learned is as old as what the second learned since."""
    records = complete(90, seed=2)
    whole = learned(GaussianBayes(half_life=15), records)
    merged = learned(whole, records, 0, 60).merge(learned(whole, records, 60))
    for x in records[0]:
        assert merged.predict_proba_one(x) == pytest.approx(whole.predict_proba_one(x), abs=1e-9)

    merged.learn_one(records[0][0], "u")
    whole.learn_one(records[0][0], "u")
    assert_same_covariances(whole, merged)


@pytest.mark.parametrize("covariance", JOINT)
@pytest.mark.parametrize("parameters", OPTIONS, ids=repr)
@pytest.mark.parametrize("order", [1, -1])
def test_unlearning_is_the_inverse_of_learning(covariance, parameters, order) -> None:
    """Back to many records, to fewer than features, to none; in either order."""
    records = complete(60, seed=3)
    model = GaussianBayes(covariance, **parameters)
    for at in (40, 12, 1, 0):
        taken = learned(model, records)
        for i in list(range(at, 60))[::order]:
            taken.unlearn_one(*(part[i] for part in records))
        kept = learned(model, records, 0, at)

        assert taken.classes == kept.classes
        assert taken.features == kept.features
        assert_same_covariances(kept, taken, held=learned(model, records))
        if at == 40 or model.ridge > 0:  # else rounding decides what is on a support
            assert_same_posteriors(kept, taken, records)


def test_a_collapsed_pivot_is_rebuilt_and_counted() -> None:
    """Three records of four in three dimensions: a plane again, without negative variances."""
    model = GaussianBayes(ridge=0.0)
    records = [(1.0, 2.0, 4.0), (2.0, 1.0, 1.0), (0.0, 5.0, 2.0), (7.0, 7.0, 1.0)]
    xs = [dict(zip("abc", row, strict=True)) for row in records]
    model.learn_many(xs, "yyyy")
    model.unlearn_one(xs[3], "y")
    expected = two_pass(np.array(records[:3]))
    got = [[model.covariances["y"][f][g] for g in "abc"] for f in "abc"]

    assert model.rebuilds == 1
    np.testing.assert_allclose(np.array(got), expected.astype(float), atol=1e-12)


def test_unlearning_a_faded_record_needs_its_age() -> None:
    """The last but three, with a half life of five; the others fade as they would have."""
    xs, ys, ws = complete(40, seed=4)
    model = learned(GaussianBayes(half_life=5), (xs, ys, ws))
    model.unlearn_one(xs[36], ys[36], ws[36], age=3)
    ages = np.arange(40)[::-1]
    kept = [i for i in range(40) if ys[i] == ys[36] and i != 36]
    values = np.array([[xs[i][name] for name in NAMES] for i in kept])
    expected = two_pass(values, np.array([ws[i] * 2.0 ** (-ages[i] / 5) for i in kept]))
    got = [[model.covariances[ys[36]][f][g] for g in NAMES] for f in NAMES]

    np.testing.assert_allclose(np.array(got), expected.astype(float), rtol=1e-8)
    with pytest.raises(ValueError, match="age"):
        model.unlearn_one(xs[35], ys[35], ws[35])


def test_fading_halves_a_weight_each_half_life() -> None:
    """Covariances are those of weights 2^(-age / half_life), also far beyond the largest unit."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(900, 2)) @ np.array([[1.0, 0.7], [0.0, 1.0]])
    model = GaussianBayes(half_life=10)
    model.learn_many([dict(zip("ab", row, strict=True)) for row in values.tolist()], ["y"] * 900)
    expected = two_pass(values, 2.0 ** (-np.arange(900)[::-1] / 10))
    got = [[model.covariances["y"][f][g] for g in "ab"] for f in "ab"]

    np.testing.assert_allclose(np.array(got), expected.astype(float), rtol=1e-10)


@pytest.mark.parametrize("covariance", JOINT)
def test_weight_two_is_twice(covariance) -> None:
    """For records without gaps, to rounding."""
    xs, ys, ws = complete(50, seed=6)
    heavy, twice = GaussianBayes(covariance), GaussianBayes(covariance)
    heavy.learn_many(xs, ys, [2 * w for w in ws])
    for x, y, w in zip(xs, ys, ws, strict=True):
        twice.learn_many([x, x], [y, y], w)
    one, other = heavy.to_state().arrays, twice.to_state().arrays

    for name, array in one.items():
        atol = 1e-12 * np.abs(array).max()
        np.testing.assert_allclose(array, other[name], rtol=1e-12, atol=atol)


def test_a_gap_is_filled_by_what_the_rest_says() -> None:
    """On a line, a record with half of it gone lies on the line: the slope stays, n grows."""
    model = GaussianBayes(ridge=0.0)
    model.learn_many([{"a": v, "b": 3 * v + 1} for v in (0.0, 1.0, 2.0, 5.0)], "yyyy")
    model.learn_one({"a": 4.0}, "y")
    sigma = model.covariances["y"]

    assert model.means["y"]["b"] == pytest.approx(3 * model.means["y"]["a"] + 1)
    assert sigma["a"]["a"] == pytest.approx(np.var([0.0, 1.0, 2.0, 5.0, 4.0]))
    assert sigma["b"]["b"] == pytest.approx(9 * sigma["a"]["a"])


def test_a_gap_adds_its_uncertainty() -> None:
    """Where the rest says nothing, a gap changes neither mean nor variance."""
    model = GaussianBayes(ridge=0.0)
    square = [(0.0, 0.0), (0.0, 2.0), (2.0, 0.0), (2.0, 2.0)]
    model.learn_many([{"a": a, "b": b} for a, b in square], "yyyy")
    for v in (0.0, 2.0) * 20:
        model.learn_one({"a": v}, "y")

    assert model.means["y"]["b"] == pytest.approx(1.0)
    assert model.covariances["y"]["b"]["b"] == pytest.approx(1.0)
    assert model.covariances["y"]["a"]["b"] == pytest.approx(0.0, abs=1e-12)


def assert_equal_but_for_rounding(tables, expected) -> None:
    """The ridge, which the factor holds too, moves with the totals."""
    for label, table in expected.items():
        for f, row in table.items():
            assert tables[label][f] == pytest.approx(row, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("covariance", JOINT)
def test_incomplete_records_leave_the_moments_alone_and_are_counted(covariance) -> None:
    """missing="complete": the covariances before are those after; the prior has moved."""
    records = complete(30, seed=7)
    model = learned(GaussianBayes(covariance, missing="complete"), records)
    before, prior = model.covariances, model.predict_proba_one({})
    gap = {k: v for k, v in records[0][0].items() if k != "c"}
    model.learn_one(gap, "u")

    assert_equal_but_for_rounding(model.covariances, before)
    assert model.overflows["incomplete"] == 1
    assert model.predict_proba_one({})["u"] > prior["u"]
    model.unlearn_one(gap, "u")
    assert model.overflows["incomplete"] == 0
    assert_equal_but_for_rounding(model.covariances, before)


def test_unlearning_what_was_filled_is_refused() -> None:
    """What filled the gap is not kept; the model is untouched and the message says what to do."""
    records = complete(30, seed=8)
    model = learned(GaussianBayes(), records)
    model.learn_one({"a": 1e5}, "u")
    before = model.fingerprint()

    with pytest.raises(NotSupportedError, match="without gaps") as caught:
        model.unlearn_one({"a": 1e5}, "u")
    assert "\n" not in str(caught.value)
    assert model.fingerprint() == before


def test_unlearning_a_record_that_may_be_older_than_a_feature_is_refused() -> None:
    """missing="complete": it was learned if the feature came later, left out if it was there."""
    records = complete(30, seed=9)
    model = learned(GaussianBayes(missing="complete"), records)
    model.learn_one(records[0][0] | {"late": 1.0}, records[1][0])

    with pytest.raises(NotSupportedError, match="late"):
        model.unlearn_one(records[0][1], records[1][0])
    with pytest.raises(NotLearnedError):
        model.unlearn_one(records[0][1] | {"never": 1.0, "late": 1.0}, records[1][0])


def test_a_late_feature_has_moments_of_its_own() -> None:
    """Mean and variance of its own values at once; its correlation grows towards the truth."""
    rng = np.random.default_rng(10)
    model = GaussianBayes()
    model.learn_many([{"a": float(v)} for v in rng.normal(size=500)], ["y"] * 500)
    a = rng.normal(size=4000)
    late = 2 * a + rng.normal(size=4000)
    seen = []
    for start, stop in ((0, 50), (50, 4000)):
        pairs = zip(a[start:stop].tolist(), late[start:stop].tolist(), strict=True)
        model.learn_many([{"a": x, "late": z} for x, z in pairs], ["y"] * (stop - start))
        sigma = model.covariances["y"]
        seen.append(sigma["a"]["late"] / np.sqrt(sigma["a"]["a"] * sigma["late"]["late"]))

        assert model.means["y"]["late"] == pytest.approx(late[:stop].mean(), rel=1e-12)
        assert sigma["late"]["late"] == pytest.approx(late[:stop].var(), rel=1e-12)
    truth = 2 / np.sqrt(5)
    assert 0 < seen[0] < seen[1] < truth
    assert seen[1] == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("covariance", ["full", "pooled", "diagonal", "pooled_diagonal"])
def test_a_feature_a_class_has_never_seen_is_no_evidence_for_it(covariance) -> None:
    """The class counts it as probable as anywhere."""
    model = GaussianBayes(covariance)
    for v in (0.0, 1.0, 2.0):
        model.learn_one({"x": v, "y": v * v}, "a")
        model.learn_one({"x": v}, "b")

    assert model.predict_proba_one({"y": 1.3}) == pytest.approx({"a": 0.5, "b": 0.5})
