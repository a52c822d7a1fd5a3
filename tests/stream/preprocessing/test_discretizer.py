"""Bins: the text's table, the sketch and its error, and the learner behind them."""

from __future__ import annotations

from collections import Counter
from math import exp, inf, isclose, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river.checks import yield_checks

from stream import (
    InvalidRecordError,
    SchemaError,
    StateError,
)
from stream.bayes.categorical import CategoricalNB
from stream.data.state import State
from stream.preprocessing import Discretized, Discretizer, QuantileSketch, Span
from stream.preprocessing import discretizer as module
from stream.quantiles.sketch import ENTRIES
from tests.oracles import discretizer as oracles

LENGTH, WIDTH = [5.2, 6.1, 7.0], [2.8, 3.6]  # of table 18.1, between its bins

finite = st.floats(-1e100, 1e100) | st.sampled_from([0.0, 1e100, -1e100, 5e-324, 1.0])
weights = st.sampled_from([1.0, 2.0, 0.5])


def test_table_18_1_bins_give_the_counts_of_table_18_2(shared_csv) -> None:
    """Iris with the width 3.1 in row 38: every joint count of the text."""
    rows = shared_csv("iris/iris.csv.gz")
    names = list(rows[0])
    table = Discretizer({"length": LENGTH, "width": WIDTH})
    counts: Counter[tuple[bool, str, str]] = Counter()
    for i, row in enumerate(rows):
        length, width, _, _, species = (row[name] for name in names)
        x = {"length": float(length), "width": 3.1 if i == 37 else float(width)}
        found = table.transform_one(x)
        counts["setosa" in species, found["length"], found["width"]] += 1
    x1, x2 = table.bins["length"], table.bins["width"]

    assert x1 == ["(-inf, 5.2]", "(5.2, 6.1]", "(6.1, 7.0]", "(7.0, inf)"]
    assert x2 == ["(-inf, 2.8]", "(2.8, 3.6]", "(3.6, inf)"]
    assert [[counts[True, a, b] for b in x2] for a in x1] == [
        [1, 33, 5],
        [0, 3, 8],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert [[counts[False, a, b] for b in x2] for a in x1] == [
        [6, 0, 0],
        [24, 15, 0],
        [13, 30, 0],
        [3, 7, 2],
    ]


@given(edges=st.lists(st.integers(-4, 4), min_size=1, max_size=5, unique=True),
       x=st.integers(-10, 10))  # fmt: skip
def test_fixed_bin_is_the_only_interval_that_holds_the_value(edges, x) -> None:
    """Halves between the edges, values on them, values outside."""
    rising = [float(e) for e in sorted(edges)]
    found = Discretizer({"a": rising}).transform_one({"a": x / 2})

    assert found == {"a": oracles.interval(x / 2, rising)}


@given(edges=st.lists(st.integers(-4, 4), min_size=2, max_size=5, unique=True),
       more=st.integers(-5, 5), x=st.integers(-10, 10))  # fmt: skip
def test_further_edge_moves_no_value_to_the_other_side_of_an_edge(edges, more, x) -> None:
    """Below the first edge too: 5.2 was in the bin below it only if there was an edge below."""
    few, all_of = sorted(edges), sorted({*edges, more})
    found = [Discretizer({"a": each}) for each in (few, all_of)]
    places = [d.bins["a"].index(d.transform_one({"a": x / 2})["a"]) for d in found]
    below = [sum(edge < x / 2 for edge in each) for each in (few, all_of)]

    assert places == below


def test_what_is_no_number_passes_through() -> None:
    """Missing values, texts, truth values, and features without edges; the record is left alone."""
    x = {"a": None, "b": "text", "c": True, "d": 1.5}
    fixed = Discretizer({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    learned = Discretizer(n_bins=2)
    learned.learn_one(x)
    learned.learn_one({"d": 2.5})

    assert fixed.transform_one(x) == x
    assert learned.transform_one(x) == {**x, "d": "0"}
    assert learned.transform_one({"d": 2.5, "e": 1}) == {"d": "1", "e": None}
    assert str(learned.transform_one({"d": nan})) == "{'d': nan}"


@pytest.mark.parametrize("bad", [inf, -inf, 1e101, 10**400])
@pytest.mark.parametrize("made", [Discretizer({"b": [0]}), Discretizer()], ids=["fixed", "learned"])
def test_number_that_no_field_can_hold_is_refused_whole(made, bad) -> None:
    """In learning and in transforming; the good value beside it is not learned either."""
    before = made.to_state()

    with pytest.raises(InvalidRecordError):
        made.learn_one({"a": 1.0, "b": bad})
    with pytest.raises(InvalidRecordError):
        made.transform_one({"b": bad})
    assert made.to_state() == before


@given(
    learned=st.lists(st.tuples(finite, weights), min_size=1, max_size=60),
    bins=st.integers(2, 9),
)
def test_quantiles_are_exact_while_the_values_fit_in(learned, bins) -> None:
    """The obvious weighted quantiles, ties and extremes included."""
    sketch = QuantileSketch()
    for x, w in learned:
        sketch.learn(x, w)

    assert sketch.cuts(bins) == oracles.weighted_cuts(learned, bins)
    assert sketch.error == 0.0


@given(learned=st.lists(finite, min_size=1, max_size=40), x=finite)
def test_uniform_bins_divide_the_span_evenly(learned, x) -> None:
    """Between the lowest and the highest value learned; what lies outside joins the end bins."""
    made = Discretizer(strategy="uniform", n_bins=4)
    for value in learned:
        made.learn_one({"a": value})
    low, high = min(learned) + 0.0, max(learned) + 0.0
    cuts = [low + (high - low) * (k / 4) for k in (1, 2, 3)]

    assert made.cuts("a") == cuts
    assert made.transform_one({"a": x}) == {"a": oracles.place(x, cuts)}


STREAMS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tailed": lambda rng, n: np.exp(5 * rng.normal(size=n)),
    "rising": lambda rng, n: np.arange(n, dtype=float),
    "falling": lambda rng, n: -np.arange(n, dtype=float),
    "few values": lambda rng, n: rng.integers(40, size=n).astype(float),
    "many ties": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n)),
    "closing in": lambda rng, n: (-1.0) ** np.arange(n) / (1.0 + np.arange(n)),
    "largest": lambda rng, n: rng.choice([-1e100, 1e100], size=n) * rng.random(n),
}


@pytest.mark.parametrize("made", STREAMS.values(), ids=STREAMS)
def test_sketch_errs_no_more_than_it_says(made) -> None:
    """Against all values, for 64 parts; and what it says is small, also after merging."""
    values = made(np.random.default_rng(3), 6000)
    sketch, first, second = QuantileSketch(), QuantileSketch(), QuantileSketch()
    for i, x in enumerate(values.tolist()):
        sketch.learn(x)
        (first if i < 4000 else second).learn(x)
    first.merge(second)
    for found in (sketch, first):
        assert oracles.rank_error(values.tolist(), found.cuts(64)) <= found.error + 1e-12
        assert found.error < 0.06
        assert all(a.size <= ENTRIES for a in found.arrays().values())
    assert isclose(sum(first.arrays()["weight"].tolist()), 6000, rel_tol=1e-12)


@given(parts=st.lists(st.lists(st.tuples(st.integers(-50, 50), weights), max_size=80), min_size=2,
                      max_size=2))  # fmt: skip
def test_merged_sketches_are_the_sketch_of_both(parts) -> None:
    """To the bit while the values fit in (I6)."""
    whole, halves = QuantileSketch(), [QuantileSketch(), QuantileSketch()]
    for half, part in zip(halves, parts, strict=True):
        for x, w in part:
            half.learn(x, w)
            whole.learn(x, w)
    halves[0].merge(halves[1])

    for name, column in whole.arrays().items():
        assert halves[0].arrays()[name].tolist() == column.tolist()


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_weight_two_is_learning_twice_to_the_bit(strategy) -> None:
    """Also while the sketch is compressed again and again."""
    heavy, twice = Discretizer(strategy=strategy), Discretizer(strategy=strategy)
    for x in np.random.default_rng(1).normal(size=1500).tolist():
        heavy.learn_one({"a": x}, w=2.0)
        twice.learn_one({"a": x})
        twice.learn_one({"a": x})

    assert heavy.to_state() == twice.to_state()


@pytest.mark.parametrize("w", [0.0, -1.0, nan, inf])
def test_weight_that_is_none_is_refused(w) -> None:
    """Nothing is learned of it."""
    made = Discretizer()

    with pytest.raises(ValueError, match="w must be a number greater than 0"):
        made.learn_one({"a": 1.0}, w)
    assert made.bins == {}


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_discretizer_goes_on_from_its_state(strategy) -> None:
    """Early and late, bit for bit; a damaged state and one of other bins are refused (I2)."""
    rng = np.random.default_rng(2)
    xs = [{"a": float(rng.normal()), "b": int(rng.integers(9))} for _ in range(900)]
    for at in (0, 5, 700):
        going = Discretizer(strategy=strategy)
        for x in xs[:at]:
            going.learn_one(x)
        restored = Discretizer(strategy=strategy).load_state(going.to_state())
        for x in xs[at:]:
            going.learn_one(x)
            restored.learn_one(x)
        assert restored.to_state() == going.to_state()
        assert [restored.transform_one(x) for x in xs] == [going.transform_one(x) for x in xs]
    state = going.to_state()
    for name in state.arrays:
        with pytest.raises(StateError):
            Discretizer(strategy=strategy).load_state(
                State(state.header, {**state.arrays, name: state.arrays[name][:-1]})
            )
    with pytest.raises(StateError):
        Discretizer(strategy=strategy).load_state(State({}, state.arrays))


def test_merged_discretizers_know_the_features_of_both() -> None:
    """Another kind of bins is refused."""
    one, other, both = Discretizer(), Discretizer(), Discretizer()
    for i in range(20):
        for made in (one, both):
            made.learn_one({"a": i})
        for made in (other, both):
            made.learn_one({"a": -i, "b": i})

    assert one.merge(other).to_state() == both.to_state()
    with pytest.raises(SchemaError, match="merge"):
        one.merge(Discretizer(n_bins=3))


def test_feature_beyond_the_bound_gets_no_bin_and_is_counted(monkeypatch) -> None:
    """The earliest keep theirs (I7)."""
    monkeypatch.setattr(module, "MAX_FEATURES", 2)
    made = Discretizer(n_bins=2)
    for x in ({"b": 1}, {"a": 1, "b": 2, "c": 3}, {"c": 4}):
        made.learn_one(x)

    assert list(made.bins) == ["a", "b"]
    assert made.overflow == 2
    assert made.transform_one({"b": 1, "c": 3}) == {"b": "0", "c": None}


def river_cases():
    """river's own checks of each kind of bins."""
    for made in (Discretizer(), Discretizer(strategy="uniform"), Discretizer({"x": [0, 1]})):
        for check in yield_checks(made):
            if check.__name__ not in made._unit_test_skips():
                yield pytest.param(made, check, id=f"{made.strategy}-{check.__name__}")


@pytest.mark.parametrize(("made", "check"), list(river_cases()))
def test_discretizer_satisfies_the_checks_of_river(made, check) -> None:
    """As any transformer of river."""
    check(made.clone())


def test_example_18_4_from_numbers_to_posterior(shared_csv) -> None:
    """At (6.75, 4.25): 1.59e-3 for c1 against 5.76e-3 for c2, only the zero count smoothed."""
    rows = shared_csv("iris/iris.csv.gz")
    names = list(rows[0])
    inner = CategoricalNB(smooth="zeros", priors={"c1": 0.33, "c2": 0.67})
    model = Discretized(Discretizer({"length": LENGTH, "width": WIDTH}), inner)
    for i, row in enumerate(rows):
        length, width, _, _, species = (row[name] for name in names)
        x = {"length": float(length), "width": 3.1 if i == 37 else float(width)}
        model.learn_one(x, "c1" if "setosa" in species else "c2")
    joint = model.joint_log_likelihood_one({"length": 6.75, "width": 4.25})

    assert {c: f"{exp(v):.2e}" for c, v in joint.items()} == {"c1": "1.59e-03", "c2": "5.76e-03"}


def test_span_and_sketch_refuse_what_is_no_number() -> None:
    """Their own callers are held to it too."""
    with pytest.raises(SchemaError, match="x must be a number within"):
        QuantileSketch().learn(nan)
    with pytest.raises(SchemaError, match="x must be a number within"):
        Span().learn(inf)


def test_state_keeps_the_count_of_values_without_bins(monkeypatch) -> None:
    """What was counted before a restart is counted after it; a state without it is damaged."""
    monkeypatch.setattr("stream.preprocessing.discretizer.MAX_FEATURES", 1)
    bins = Discretizer()
    bins.learn_one({"a": 1.0, "b": 2.0, "c": 3.0})
    state = bins.to_state()
    less = {k: v for k, v in state.header.items() if k != "overflow"}

    assert bins.overflow == 2
    assert Discretizer().load_state(state).overflow == 2
    with pytest.raises(StateError, match="overflow: expected 0 to"):
        Discretizer().load_state(State(less, state.arrays))
