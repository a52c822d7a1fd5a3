"""KNNClassifier: its rules of ties, duplicates, gaps, weights, ids, forgetting and bounds."""

from __future__ import annotations

from math import gamma, inf, nan, pi

import numpy as np
import pytest

from stream.checks import yield_laws
from stream.data.block import LEARN, Block, Rows
from stream.data.schema import Schema
from stream.errors import InvalidRecordError, NotSupportedError, SchemaError
from stream.neighbors import KNNClassifier, Neighbor


def learned(pairs, **given) -> KNNClassifier:
    """A model that has learned (x, y) or (x, y, w)."""
    model = KNNClassifier(**given)
    for pair in pairs:
        model.learn_one(*pair)
    return model


def line(*places, labels="ab") -> list:
    """Records at places of one feature, their labels in turn."""
    return [({"a": float(at)}, labels[i % len(labels)]) for i, at in enumerate(places)]


# Faults of river 0.26.1, each right here.


def test_one_stored_duplicate_does_not_outvote_nineteen() -> None:
    """river: the oldest of twenty equal records decides alone, with probability 1."""
    x = {"a": 1.0, "b": 2.0}
    for weights in ("uniform", "distance"):
        model = learned([(x, "odd"), *[(x, "common")] * 19, ({"a": 9.0}, "far")], weights=weights)

        assert model.predict_proba_one(x) == {"odd": 0.05, "common": 0.95, "far": 0.0}


def test_classes_that_left_the_window_need_no_cleaning() -> None:
    """river: cleanup_every crashes with exact search."""
    model = learned(line(1, 2, labels="a") + line(3, 4, 5, labels="b"), n_neighbors=1, window=3)

    assert model.predict_proba_one({"a": 1.0}) == {"a": 0.0, "b": 1.0}


def test_neighbours_are_the_nearest_not_the_farthest() -> None:
    """river before 0.26 returned the farthest."""
    model = learned(line(1, 2, 30, 40), n_neighbors=2)

    assert {n.distance * 39 for n in model.neighbors_one({"a": 0.0})} == {1.0, 2.0}


def test_a_missing_key_is_not_zero() -> None:
    """river: a record without the feature lies at 0, so one at 90 is 90 away."""
    model = learned([({"a": 90.0, "b": 1.0}, "y"), ({"a": 80.0, "b": 5.0}, "z")], n_neighbors=1)

    assert model.neighbors_one({"b": 1.0}) == [Neighbor(None, 0.0, "y", 1.0)]


def test_nan_none_and_absent_are_one_thing() -> None:
    """river: NaN gives an arbitrary answer."""
    models = [
        learned([({"a": 1.0, **gap}, "y"), ({"a": 2.0, "b": 3.0}, "z")])
        for gap in ({}, {"b": None}, {"b": nan})
    ]
    said = [
        m.predict_proba_one({"a": 1.0, **gap})
        for m in models
        for gap in ({}, {"b": None}, {"b": nan})
    ]

    assert len({m.fingerprint() for m in models}) == 1
    assert said == [said[0]] * 9


def test_text_is_a_category_not_a_type_error() -> None:
    """river: TypeError."""
    model = learned([({"c": "red"}, "y"), ({"c": "blue"}, "z")], n_neighbors=1)

    assert model.predict_proba_one({"c": "blue"}) == {"y": 0.0, "z": 1.0}
    assert model.predict_proba_one({"c": "never seen"}) == {"y": 0.5, "z": 0.5}


@pytest.mark.parametrize("scale", ["range", "std"])
def test_answers_do_not_depend_on_units(scale) -> None:
    """river: no scaling, the largest unit decides. (A power of two is exact.)"""
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(60, 2)).tolist(), rng.integers(2, size=60).tolist()
    small = learned([({"a": a, "b": b}, y) for (a, b), y in zip(xs, ys, strict=True)], scale=scale)
    large = learned(
        [({"a": a * 2.0**60, "b": b}, y) for (a, b), y in zip(xs, ys, strict=True)], scale=scale
    )
    for a, b in rng.normal(size=(20, 2)).tolist():
        said = large.predict_proba_one({"a": a * 2.0**60, "b": b})
        assert said == small.predict_proba_one({"a": a, "b": b})


def test_the_learned_record_is_a_copy() -> None:
    """What the caller does to its dict afterwards leaves no trace."""
    x = {"a": 1.0}
    model = learned([(x, "y"), ({"a": 3.0}, "z")], n_neighbors=1)
    x["a"] = 3.0

    assert model.predict_one({"a": 1.0}) == "y"


# Ties and votes.


def test_records_that_tie_at_the_edge_all_vote() -> None:
    """The ball is closed: K = 2 at distances 1, 2, 2, 2 is four voters."""
    model = learned(line(1, 2, -2, 2, 9, labels="abbab"), n_neighbors=2, scale=None)
    near = model.neighbors_one({"a": 0.0})

    assert [n.distance for n in near] == [1.0, 2.0, 2.0, 2.0]
    assert model.predict_proba_one({"a": 0.0}) == {"a": 0.5, "b": 0.5}


def test_fewer_records_than_k_all_vote() -> None:
    """K is then what there is."""
    assert learned(line(1, 2, 3)).predict_proba_one({"a": 0.0}) == {"a": 2 / 3, "b": 1 / 3}


def test_votes_by_distance_are_inverse_distances() -> None:
    """At 1 and 3: votes 1 and 1/3."""
    model = learned(line(1, 3), n_neighbors=2, scale=None, weights="distance")

    assert model.predict_proba_one({"a": 0.0}) == pytest.approx({"a": 0.75, "b": 0.25}, rel=1e-14)


def test_records_at_x_share_the_vote_by_their_weights() -> None:
    """With weights="distance" the others have none; with "uniform" they vote too."""
    data = [({"a": 0.0}, "a", 3.0), ({"a": 0.0}, "b", 1.0), ({"a": 1.0}, "b", 9.0)]
    by_distance = learned(data, weights="distance", scale=None)
    uniform = learned(data, scale=None)

    assert by_distance.predict_proba_one({"a": 0.0}) == {"a": 0.75, "b": 0.25}
    assert uniform.predict_proba_one({"a": 0.0}) == {"a": 3 / 13, "b": 10 / 13}


def test_a_weight_is_a_vote_not_a_place() -> None:
    """Two records fill a window of two, whatever they weigh."""
    model = learned([({"a": 1.0}, "a", 2.0**53), *line(1, 1, labels="b")], n_neighbors=1, window=2)

    assert model.predict_proba_one({"a": 1.0}) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_votes_are_those_of_the_posterior(weights) -> None:
    """Sum the votes by label and divide."""
    rng = np.random.default_rng(1)
    model = KNNClassifier(7, 40, weights=weights)
    for a, b, y in zip(*rng.normal(size=(2, 90)), rng.integers(3, size=90), strict=True):
        model.learn_one({"a": float(a), "b": float(b)}, int(y), float(rng.integers(1, 4)))
    near = model.neighbors_one({"a": 0.1, "b": 0.2})
    votes = [sum(n.weight for n in near if n.label == c) for c in model.classes]
    said = list(model.predict_proba_one({"a": 0.1, "b": 0.2}).values())

    assert said == pytest.approx([v / sum(votes) for v in votes], rel=1e-14)


def test_without_evidence_the_answer_is_the_share_of_the_window() -> None:
    """Every record is as near as every other."""
    model = learned([({"a": 1.0}, "a", 3.0), ({"a": 2.0}, "b")], n_neighbors=1)
    for x in ({}, {"a": None}, {"stranger": 1.0}, {"other": "text"}):
        assert model.predict_proba_one(x) == {"a": 0.75, "b": 0.25}


# Gaps and mixed attributes.


def test_heom_is_that_of_wilson_and_martinez() -> None:
    """1 for a gap on either side and for another category, else the difference by range."""
    model = learned(
        [({"n": 0.0, "c": "x"}, 0), ({"n": 10.0, "c": "y"}, 1), ({"c": "x"}, 2), ({"n": 5.0}, 3)],
        n_neighbors=4,
    )
    at = {n.label: n.distance**2 for n in model.neighbors_one({"n": 5.0, "c": "x"})}
    without = {n.label: n.distance**2 for n in model.neighbors_one({"c": "x"})}

    assert at == pytest.approx({0: 0.25, 1: 1.25, 2: 1.0, 3: 1.0}, rel=1e-15)
    assert without == pytest.approx({0: 1.0, 1: 2.0, 2: 1.0, 3: 2.0}, rel=1e-15)


def test_auto_is_euclidean_until_a_category_is_in_the_window_and_after_it_left() -> None:
    """A gap in x is left out, then counts 1, then is left out again."""
    model = learned(line(0, 10), n_neighbors=1, window=2)
    distances = [model.neighbors_one({})[0].distance]
    model.learn_one({"c": "x", "a": 10.0}, "b")
    distances.append(model.neighbors_one({"a": 10.0})[0].distance)
    for record in line(0, 10):
        model.learn_one(*record)
    distances.append(model.neighbors_one({})[0].distance)

    assert distances == [0.0, 1.0, 0.0]


def test_a_gap_of_a_record_counts_as_the_range_of_the_attribute() -> None:
    """In the unit of the data where there is no scale."""
    model = learned(
        [({"a": 0.0, "b": 2.0}, 0), ({"a": 0.0, "b": 6.0}, 1), ({"a": 0.0}, 2)],
        n_neighbors=3,
        scale=None,
    )
    near = {n.label: n.distance for n in model.neighbors_one({"a": 0.0, "b": 3.0})}

    assert near == {0: 1.0, 1: 3.0, 2: 4.0}


def test_a_constant_attribute_says_nothing_under_a_scale() -> None:
    """Whatever x has there."""
    model = learned([({"a": 1.0, "b": 7.0}, 0), ({"a": 2.0, "b": 7.0}, 1)], n_neighbors=1)

    assert model.predict_one({"a": 1.9, "b": -1e9}) == 1


def test_the_scale_is_that_of_the_records_held() -> None:
    """The range shrinks when an extreme value leaves, also on a trend."""
    model = KNNClassifier(1, 4, scale="range")
    for i in range(50):
        model.learn_one({"a": 2.0**i, "b": float(i)}, "y")
        if i > 3:
            held = 2.0**i - 2.0 ** (i - 3)
            found = model.neighbors_one({"a": 2.0**i + held / 4, "b": float(i)})
            assert found[0].distance == 0.25


def test_a_field_keeps_its_kind() -> None:
    """A value of another kind is refused whole, in learning and in predicting."""
    model = learned([({"n": 1.0, "c": "x"}, "y")])
    before = model.fingerprint()
    for x in ({"n": "one"}, {"c": 1.0}, {"n": 1.0, "c": 2, "new": 3.0}):
        with pytest.raises(InvalidRecordError, match="wrong_kind"):
            model.learn_one(x, "z")
        with pytest.raises(InvalidRecordError, match="wrong_kind"):
            model.predict_proba_one(x)

    assert model.fingerprint() == before


def test_rows_of_a_schema_and_dicts_give_the_same_model() -> None:
    """A declared truth value is the number 0 or 1, as one in a dict."""
    xs = [{"t": True, "c": "x", "n": 1.0}, {"t": False, "c": "y", "n": 2.0}]
    schema = Schema.of(n="numeric", t="binary", c="categorical")
    rows = Rows.empty(schema, 2)
    rows.numeric[:] = [[1.0, 1.0], [2.0, 0.0]]
    rows.categorical[:, 0] = ["x", "y"]
    by_schema, by_dicts = KNNClassifier(), KNNClassifier()
    by_schema.progressive_many(Block.of(by_schema.prepare(rows), LEARN, ["a", "b"]))
    by_dicts.learn_many(xs, ["a", "b"])

    assert by_schema.fingerprint() == by_dicts.fingerprint()


# Density.


@pytest.mark.parametrize(
    ("metric", "p", "unit_ball"),
    [("euclidean", 2.0, 4 / 3 * pi), ("manhattan", 1.0, 4 / 3), ("chebyshev", 1.0, 8.0),
     ("minkowski", 3.0, 8 * gamma(4 / 3) ** 3 / gamma(2.0))],
)  # fmt: skip
def test_density_is_over_the_volume_of_the_norms_ball(metric, p, unit_ball) -> None:
    """In the data's units: by a scale the ball is an ellipsoid."""
    rng = np.random.default_rng(2)
    data = [
        (dict(zip("abc", row, strict=True)), "xy"[i % 2])
        for i, row in enumerate((rng.normal(size=(40, 3)) * [1, 10, 100]).tolist())
    ]
    x = {"a": 0.0, "b": 0.0, "c": 0.0}
    for scale in ("range", "std", None):
        model = learned(data, metric=metric, p=p, scale=scale)
        near = model.neighbors_one(x)
        held = np.array([list(r.values()) for r, _ in data])
        unit = {"range": np.ptp(held, axis=0), "std": held.std(axis=0), None: np.ones(3)}[scale]
        volume = unit_ball * near[-1].distance ** 3 * unit.prod()
        shares = {c: [n.label for n in near].count(c) / 20 for c in "xy"}

        assert model.density_one(x) == pytest.approx(
            {c: shares[c] / volume for c in "xy"}, rel=1e-9
        )


def test_a_ball_without_volume_has_no_density() -> None:
    """K records on x; or nothing known of x. A tiny ball has the largest density, not infinity."""
    twins = learned(line(1, 1, 5), n_neighbors=2)
    tiny = learned([({f"f{j}": 1e-90 * i for j in range(9)}, "y") for i in range(3)],
                   n_neighbors=2, scale=None)  # fmt: skip

    assert twins.density_one({"a": 1.0}) == twins.density_one({}) == {}
    assert 1e308 < tiny.density_one({f"f{j}": 0.0 for j in range(9)})["y"] < inf


def test_density_of_categories_or_angles_is_refused() -> None:
    """They have no volume."""
    for model in (learned([({"c": "x"}, "y")]), learned(line(1, 2), metric="cosine")):
        with pytest.raises(NotSupportedError, match="norm"):
            model.density_one({"a": 1.0})


# Parameters.


@pytest.mark.parametrize(
    "given",
    [{"window": 3}, {"p": 0.5}],
)
def test_a_parameter_out_of_its_range_is_refused(given) -> None:
    """With one line that names it."""
    with pytest.raises(SchemaError, match=next(iter(given))) as caught:
        KNNClassifier(**given)

    assert "\n" not in str(caught.value)


def test_what_neighbours_have_not_is_said() -> None:
    """No shares of features, no line, no parameters."""
    model = learned(line(1, 2))

    with pytest.raises(NotSupportedError, match="neighbors_one"):
        model.explain_one({"a": 1.0})
    for call in (model.linear_view, lambda: model.n_parameters):
        with pytest.raises(NotSupportedError):
            call()


MODELS = {
    "small": KNNClassifier(3, 7),
    "minkowski": KNNClassifier(metric="minkowski", p=3, window=30),
    "std": KNNClassifier(scale="std", weights="distance", metric="chebyshev"),
    "cosine": KNNClassifier(metric="cosine", weights="distance"),
    "hamming": KNNClassifier(metric="hamming", scale=None),
    "manhattan": KNNClassifier(metric="manhattan", scale=None),
    "heom": KNNClassifier(metric="heom", scale="std"),
}
# The law unlearns records that have left a window of less than its 60 records.
TOO_SMALL = ("small", "minkowski")


@pytest.mark.parametrize("name", MODELS)
def test_neighbours_satisfy_the_laws(name) -> None:
    """With every metric, scale and kind of vote, and with a window that overflows."""
    for law in yield_laws(MODELS[name]):
        if name not in TOO_SMALL or law.__name__ != "unlearning_is_the_inverse_of_learning":
            law(MODELS[name])
