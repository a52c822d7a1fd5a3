"""What the ridge of GaussianBayes is: a function of what was learned, whatever the order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from stream import Block, GaussianBayes, NotLearnedError
from stream.data.block import PREDICT_THEN_LEARN
from tests.oracles.covariance import CovarianceTwin

KINDS = ["full", "pooled", "diagonal", "pooled_diagonal"]
JOINT = pytest.mark.parametrize("covariance", KINDS[:2])
NAMES = ["a", "b", "c"]


def collinear(n: int, seed: int):
    """Two columns that differ by a ten thousandth, and a third; the label follows the first."""
    rng = np.random.default_rng(seed)
    z, off, other = rng.normal(size=(3, n))
    xs = [dict(zip(NAMES, row, strict=True)) for row in np.c_[z, z + 1e-4 * off, other].tolist()]
    return xs, ["uv"[int(v > 0)] for v in z + rng.normal(size=n)]


def assert_is_the_twins(model, twin, x) -> None:
    """Joint log likelihoods to 1e-9."""
    assert model.joint_log_likelihood_one(x) == pytest.approx(twin.joint(x), rel=1e-9, abs=1e-9)


@JOINT
@pytest.mark.parametrize("ridge", [1e-9, 1e-3, 0.1])
def test_nearly_collinear_columns_have_the_dense_likelihood_in_any_order(covariance, ridge) -> None:
    """Posteriors to 1e-9 whatever the features are called; likelihoods those of the twin."""
    xs, ys = collinear(90, seed=1)
    orders = [dict(zip(NAMES, order, strict=True)) for order in permutations(NAMES)]
    models = [GaussianBayes(covariance, ridge=ridge) for _ in orders]
    twin = CovarianceTwin(NAMES, pooled=covariance == "pooled", ridge=ridge)
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        renamed = [{order[name]: v for name, v in x.items()} for order in orders]
        if i > 4:
            said = [m.predict_proba_one(r) for m, r in zip(models, renamed, strict=True)]
            assert_is_the_twins(models[0], twin, x)
            for other in said[1:]:
                assert other == pytest.approx(said[0], rel=1e-9)
        for m, r in zip(models, renamed, strict=True):
            m.learn_one(r, y)
        twin.learn(x, y)


@JOINT
def test_a_gap_is_filled_with_the_ridge_of_what_was_seen(covariance) -> None:
    """At a large ridge, gaps in learning and predicting, weights, a late feature: the twin's."""
    rng = np.random.default_rng(2)
    model = GaussianBayes(covariance, ridge=0.1)
    twin = CovarianceTwin(NAMES, pooled=covariance == "pooled", ridge=0.1)
    for i, (x, y) in enumerate(zip(*collinear(120, seed=3), strict=True)):
        gone = {"c"} if i < 30 else {NAMES[k] for k in rng.integers(6, size=2) if k < 3}
        some, w = {k: v for k, v in x.items() if k not in gone}, float(rng.choice([0.5, 1.0, 3.0]))
        if i > 4:
            assert_is_the_twins(model, twin, some)
        model.learn_one(some, y, w)
        twin.learn(some, y, w)


def test_the_ridge_of_a_class_that_learns_nothing_follows_the_others() -> None:
    """A feature that is constant in one class and then not in the other; the total's spread."""
    model, twin = GaussianBayes(ridge=1e-3), CovarianceTwin(["a", "b"], ridge=1e-3)
    rng = np.random.default_rng(4)
    records = [({"a": float(v), "b": 1.0}, "still") for v in rng.normal(size=20)]
    records += [({"a": float(v), "b": float(v * v)}, "moving") for v in rng.normal(size=200)]
    for i, (x, y) in enumerate(records):
        if i > 3:
            assert_is_the_twins(model, twin, x)
        model.learn_one(x, y)
        twin.learn(x, y)
    # Two values a hundred times as far: the level rises; many of little spread: it falls.
    far = [({"a": v, "b": v}, "moving") for v in (-300.0, 300.0)]
    for x, y in far + [({"a": v, "b": v}, "moving") for v in [0.0, 1.0] * 300]:
        model.learn_one(x, y)
        twin.learn(x, y)

    assert_is_the_twins(model, twin, {"a": 0.3, "b": 1.0})


def test_a_level_that_goes_up_and_down_all_the_time_stays_right() -> None:
    """The spread hovers where the rounding turns, 2,000 times; the twin's likelihood still."""
    model, twin = GaussianBayes(ridge=0.01), CovarianceTwin(["a", "b"], ridge=0.01)
    rng = np.random.default_rng(5)
    for v in rng.normal(size=(300, 2)).tolist():
        x = dict(zip("ab", v, strict=True))
        model.learn_one(x, "quiet")
        twin.learn(x, "quiet")
    levels, quiet = set(), model._joint.moments
    for k in range(2000):
        size = 0.2 if quiet.total_m2[0] / quiet.total_n[0] > 1.004 else 3.0
        x = {"a": size * (-1.0) ** k, "b": float(rng.normal())}
        model.learn_one(x, "loud", 0.5)
        twin.learn(x, "loud", 0.5)
        quiet = model._joint.moments
        levels.add(float(quiet.level[0, 0]))

    assert len(levels) > 1
    assert_is_the_twins(model, twin, {"a": 0.4, "b": -0.2})


@pytest.mark.parametrize("ridge", [1e-6, 0.1])
def test_a_level_that_falls_far_at_once_is_still_the_twins(ridge) -> None:
    """A record of another class, a thousand times as heavy, in the middle of the spread."""
    model, twin = GaussianBayes(ridge=ridge), CovarianceTwin(NAMES, ridge=ridge)
    rng = np.random.default_rng(10)
    records = [(v, "far", 1.0) for v in 30.0 * rng.normal(size=(8, 3))]
    records += [(v, "near", 1000.0) for v in rng.normal(size=(4, 3))]
    xs, levels = [dict(zip(NAMES, v.tolist(), strict=True)) for v, _, _ in records], []
    for x, (_, y, w) in zip(xs, records, strict=True):
        model.learn_one(x, y, w)
        twin.learn(x, y, w)
        levels.append(model._joint.moments.level[0].copy())

    assert (levels[8] < levels[7] / 16).all()
    for x in xs:
        assert_is_the_twins(model, twin, x)


@JOINT
def test_a_copy_of_a_column_favours_no_class(covariance) -> None:
    """Both classes have the same ridge there but for a sixty-fourth, however many records."""
    rng = np.random.default_rng(6)
    plain, doubled = GaussianBayes(covariance), GaussianBayes(covariance)
    for v in rng.normal(size=700).tolist():
        y = "few" if rng.random() < 0.3 else "many"
        plain.learn_one({"a": v}, y)
        doubled.learn_one({"a": v, "b": v}, y)
    one = plain.joint_log_likelihood_one({"a": 0.5})
    both = doubled.joint_log_likelihood_one({"a": 0.5, "b": 0.5})

    odds = one["few"] - one["many"]
    assert both["few"] - both["many"] == pytest.approx(odds, abs=1 / 64)


@JOINT
@pytest.mark.parametrize("half_life", [None, 7])
def test_levels_and_factors_have_the_same_bits_in_any_split_and_after_a_restart(
    covariance, half_life
) -> None:
    """Blocks of 1, 7 and all; a state loaded in the middle goes on as if nothing had been."""
    xs, ys = collinear(300, seed=7)
    for i in range(40, 300, 9):
        del xs[i]["b"]
    models = []
    for size in (1, 7, 300):
        model = GaussianBayes(covariance, half_life=half_life)
        for at in range(0, 300, size):
            rows = model.rows(xs[at : at + size])
            model.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, ys[at : at + size]))
            if at == 147:
                state, model = model.to_state(), model.clone()
                model.load_state(state)
        models.append(model)

    assert len({m.fingerprint() for m in models}) == 1


@JOINT
@pytest.mark.parametrize("ridge", [1e-9, 0.1])
def test_merging_and_unlearning_bring_the_factor_of_learning(covariance, ridge) -> None:
    """The same levels; posteriors on nearly collinear columns, in either order."""
    xs, ys = collinear(200, seed=8)
    whole, first, second, more = (GaussianBayes(covariance, ridge=ridge) for _ in range(4))
    whole.learn_many(xs[:150], ys[:150])
    first.learn_many(xs[:70], ys[:70])
    second.learn_many(xs[70:150], ys[70:150])
    more.learn_many(xs, ys)
    first.merge(second)
    for x, y in zip(xs[150:], ys[150:], strict=True):
        more.unlearn_one(x, y)

    for other in (first, more):
        for name in ("level", "factor"):
            got, expected = (getattr(m._joint.moments, name) for m in (other, whole))
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * expected.max())
        for x in xs[::9]:
            expected = pytest.approx(whole.predict_proba_one(x), abs=1e-6)
            assert other.predict_proba_one(x) == expected


def test_fading_keeps_the_level_in_step() -> None:
    """Far beyond the largest unit, the factor is still that of what is without a ridge, and it."""
    xs, ys = collinear(900, seed=9)
    model, plain = (GaussianBayes(half_life=10, ridge=ridge) for ridge in (1e-3, 0.0))
    model.learn_many(xs, ys)
    plain.learn_many(xs, ys)
    s, exact = model._joint.moments, plain._joint.moments
    spread = s.total_m2 / s.total_n

    for g in range(2):
        expected = exact.factor[g].T @ exact.factor[g] + np.diag(s.level[g])
        np.testing.assert_allclose(s.factor[g].T @ s.factor[g], expected, rtol=1e-9)
        np.testing.assert_allclose(s.level[g], 1e-3 * spread * s.n[g], rtol=1 / 16)


OUTLIERS = [(kind, {"a": 100.0, "b": 0.0}, "outside") for kind in KINDS]
OUTLIERS += [(kind, {"a": 2.0, "b": 0.0}, "combination of values") for kind in KINDS[:2]]


@pytest.mark.parametrize(("covariance", "x", "why"), OUTLIERS)
def test_unlearning_an_outlier_is_refused(covariance, x, why) -> None:
    """It cannot have been learned; the model is untouched. Independent features tell less."""
    model = GaussianBayes(covariance)
    for k in range(10):
        model.learn_one({"a": k % 3 + 0.01 * k, "b": k % 3 - 0.01 * k}, "u")
        model.learn_one({"a": k % 3 - 0.01 * k, "b": k % 3 + 0.01 * k}, "v")
    before = model.fingerprint()

    with pytest.raises(NotLearnedError, match=why) as caught:
        model.unlearn_one(x, "u")
    assert "\n" not in str(caught.value)
    assert model.fingerprint() == before


def test_unlearning_the_last_record_of_a_class_takes_its_values() -> None:
    """Others are refused; its own are taken back and the class is gone."""
    model = GaussianBayes()
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 5.0}], "uvv")

    with pytest.raises(NotLearnedError, match="mean of its class"):
        model.unlearn_one({"a": 2.0}, "u")
    model.unlearn_one({"a": 1.0}, "u")
    assert model.classes == ["v"]


def test_a_record_left_out_for_a_feature_that_is_gone_can_be_unlearned() -> None:
    """missing="complete": it was in the totals only, and is taken out of them."""
    model = GaussianBayes(missing="complete")
    for x in ({"a": 1.0}, {"b": 3.0}):
        model.learn_one(x, "u")
    assert model.overflows["incomplete"] == 1
    for x in ({"a": 1.0}, {"b": 3.0}):
        model.unlearn_one(x, "u")

    assert model.classes == []
    assert model.features == []
    assert model.overflows["incomplete"] == 0
