"""DecisionTreeClassifier beside its obvious twin, and what its documentation promises."""

from __future__ import annotations

import numpy as np
import pytest
from river.datasets import synth

from stream import Schema
from stream.checks import check_laws
from stream.data.state import State
from stream.errors import SchemaError, StateError
from stream.tree import DecisionTreeClassifier
from tests.oracles.tree import SlowTree
from tests.seed import seeds
from tests.stream.neighbors.test_knn_oracles import mixed_records

PARAMETERS = [
    {},
    {"window": 60, "grace_period": 5},
    {"window": 300, "grace_period": 20, "max_depth": 2},
    {"window": 120, "grace_period": 1, "max_nodes": 9},
    {"window": 1},
]


def ruled(n: int, seed: int):
    """Records whose class is a rule of a number and a category, which changes in the middle."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        x = {"age": int(rng.integers(20, 80)), "kind": str(rng.choice(["a", "b", "c"])), "u": 1.0}
        old = x["age"] < 40 if i < n // 2 else x["age"] >= 60
        y = "yes" if old and x["kind"] != "b" else "no"
        yield {k: v for k, v in x.items() if rng.random() > 0.05}, y, float(rng.integers(1, 3))


@pytest.mark.parametrize("given", PARAMETERS, ids=str)
@pytest.mark.parametrize("made", [lambda: ruled(420, 1), lambda: mixed_records(330, seed=3)])
def test_posteriors_are_those_of_the_obvious_twin(given, made) -> None:
    """Gaps, categories, weights, a late attribute; trees that grow again; windows that slide."""
    model, twin = DecisionTreeClassifier(**given), SlowTree(**given)
    for x, y, w in made():
        assert model.predict_proba_one(x) == pytest.approx(twin.predict_proba_one(x), abs=1e-9)
        model.learn_one(x, y, w)
        twin.learn_one(x, y, w)

    assert model.n_nodes == len(twin.nodes())
    assert model.overflows["nodes"] == twin.refused


@pytest.mark.parametrize("given", PARAMETERS, ids=str)
def test_laws_hold_with_other_parameters(given) -> None:
    """Small windows slide, and trees grow again, within the few records of a law."""
    check_laws(DecisionTreeClassifier(**given))


def test_a_rule_is_found_from_few_records() -> None:
    """Agrawal's first function is two cuts of the age; a Hoeffding tree needs far more records."""
    model, right = DecisionTreeClassifier(), 0
    for i, (x, y) in enumerate(synth.Agrawal(classification_function=0, seed=42).take(1500)):
        right += i >= 500 and model.predict_one(x) == y
        model.learn_one(x, y)

    assert right >= 990
    assert model.n_nodes == 5


def test_a_rule_that_changed_is_replaced() -> None:
    """After one window of the new rule the tree knows nothing of the old one."""
    model = DecisionTreeClassifier(window=200)
    for i in range(1000):
        model.learn_one({"x": i % 10}, (i % 10 < 3) == (i < 500))

    assert [model.predict_one({"x": v}) for v in range(10)] == [v >= 3 for v in range(10)]
    assert model.n_nodes == 3


def test_a_heavy_record_is_a_leaf_of_its_own_in_the_end() -> None:
    """The other records are predicted as without it."""
    model = DecisionTreeClassifier(grace_period=10)
    for i in range(2000):
        model.learn_one({"x": i % 100}, i % 100 < 50, 1e6 if i == 100 else 1.0)

    assert all(model.predict_one({"x": v}) == (v < 50) for v in range(100))


def test_an_explanation_names_the_tested_field() -> None:
    """The others add nothing."""
    model = DecisionTreeClassifier()
    for i in range(200):
        model.learn_one({"age": i % 60, "size": i % 7}, "yes" if i % 60 < 20 else "no")

    why = model.explain_one({"age": 5, "size": 3})
    assert why.label == "yes"
    assert list(why.contributions) == ["(prior)", "age"]
    assert why.contributions["age"] > 3.0


def test_tests_beyond_the_bound_of_nodes_are_counted() -> None:
    """The tree keeps its size."""
    model = DecisionTreeClassifier(max_nodes=3, grace_period=5)
    for i in range(400):
        model.learn_one({"x": i % 40}, (i % 40) // 10)

    assert model.n_nodes == 3
    assert model.overflows["nodes"] > 0


def test_a_limit_bounds_the_classes_and_the_window() -> None:
    """What a window and its nodes need is known before the first record."""
    schema = Schema.of(**{f"x{i}": "numeric" for i in range(4)})
    model = DecisionTreeClassifier(window=100, max_nodes=101)

    assert model.limit(24_000, schema, 40) == 5
    for i in range(100):
        model.learn_one({"x0": i}, i % 2)
    assert model.to_state().arrays["tree/label"].size == 83
    with pytest.raises(SchemaError, match="need 13,784 bytes, but 10,000 are"):
        DecisionTreeClassifier(window=100, max_nodes=101).limit(10_000, schema, 40)


CHANGES = {
    "each node but the first": ("left", 0, 2),
    "records in leaves": ("leaf", 0, 0),
    "weights above 0": ("weight", 0, 0.0),
    "numbers from -1 to": ("feature", 0, 9),
}


@pytest.mark.parametrize("expected", CHANGES)
def test_a_state_that_is_no_tree_is_refused(expected) -> None:
    """Kernels would follow it out of their arrays, or for ever."""
    model = DecisionTreeClassifier()
    for i in range(200):
        model.learn_one({"x": i % 10}, i % 10 < 5)
    state = model.to_state()
    name, at, value = CHANGES[expected]
    state.arrays[f"tree/{name}"][at] = value

    with pytest.raises(StateError, match=expected):
        DecisionTreeClassifier().load_state(State(state.header, state.arrays))


@seeds(0.1)
def test_a_restored_tree_grows_on_as_the_saved_one(seed) -> None:
    """Also where categories of tests have left the window."""
    rng = np.random.default_rng(seed)
    model = DecisionTreeClassifier(window=50, grace_period=5)
    for x, y, w in ruled(int(rng.integers(20, 300)), seed):
        model.learn_one(x, y, w)
    other = DecisionTreeClassifier(window=50, grace_period=5).load_state(model.to_state())

    for x, y, w in ruled(150, seed + 1):
        assert other.predict_proba_one(x) == model.predict_proba_one(x)
        model.learn_one(x, y, w)
        other.learn_one(x, y, w)
    assert other.fingerprint() == model.fingerprint()
