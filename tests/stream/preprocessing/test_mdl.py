"""MDLDiscretizer: cuts chosen by class, against published figures and the paper's recursion."""

from __future__ import annotations

import random
from itertools import pairwise
from math import inf, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import naive_bayes
from river import preprocessing as river_preprocessing

from stream import CategoricalNB, InvalidRecordError, MixedNB, State, StateError
from stream.evaluate.progressive import progressive
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer
from stream.preprocessing import _kernels as kernels
from stream.preprocessing.mdl import FIRST_SEARCH, INTERVALS, MAX_BINNED, MOST_CLASSES, _empty
from tests.oracles.discretizer import MDLTwin, mdl_cuts

PUBLISHED = {  # of Iris, as R's discretization::mdlp gives them
    "sepal_length": [5.55, 6.15],
    "sepal_width": [2.95, 3.35],
    "petal_length": [2.45, 4.75],
    "petal_width": [0.80, 1.75],
}


def learned(values: list[tuple[float, str]], **parameters: int) -> MDLDiscretizer:
    """The bins of one feature, a, after these."""
    bins = MDLDiscretizer(**parameters)
    for x, y in values:
        bins.learn_one({"a": x}, y)
    return bins


def test_cuts_of_iris_are_the_published_ones(shared_csv) -> None:
    """All 150 flowers, searched once: 5.55 and 6.15; 2.95 and 3.35; 2.45 and 4.75; 0.8 and 1.75."""
    rows = shared_csv("iris/iris.csv.gz")
    species = sorted({row["species"] for row in rows})
    for feature, published in PUBLISHED.items():
        values = [(float(row[feature]), row["species"]) for row in rows]
        found = _empty(64, 3)
        for x, y in values:
            kernels.insert(x, species.index(y), 1.0, found)
        kernels.search(found)
        assert found.cut[: int(found.cuts[0])].tolist() == pytest.approx(published, abs=1e-9)
        assert mdl_cuts(values) == pytest.approx(published, abs=1e-9)


def test_cuts_of_iris_as_it_streams_are_those_of_the_twin(shared_csv) -> None:
    """In a shuffled order, cut at the 32nd, the 64th and the 128th flower."""
    rows = shared_csv("iris/iris.csv.gz")
    random.Random(2).shuffle(rows)
    for feature in PUBLISHED:
        values = [(float(row[feature]), row["species"]) for row in rows]
        twin = MDLTwin(FIRST_SEARCH)
        for x, y in values:
            twin.learn(x, y)
        assert learned(values).cuts("a") == pytest.approx(twin.cuts, rel=1e-15)


def test_one_cut_by_hand() -> None:
    """10 small and 22 large: gain 0.896 bits, more than (log2 31 + log2 7 - 2 · 0.896) / 32."""
    values = [(float(i), "small" if i < 10 else "large") for i in range(32)]
    e = -(10 / 32 * log2(10 / 32) + 22 / 32 * log2(22 / 32))

    assert e == pytest.approx(0.896, abs=5e-4)
    assert e > (log2(31) + log2(7) - 2 * e) / 32
    assert learned(values).cuts("a") == [9.5]
    assert learned(values).bins == {"a": ["(-inf, 9.5]", "(9.5, inf)"]}


def test_a_cut_that_does_not_pay_is_not_made() -> None:
    """Classes in turn: the best cut gains 0.03 bits, the description costs 0.2."""
    values = [(float(i), "ab"[i % 2]) for i in range(32)]

    bins = learned(values)

    assert bins.cuts("a") == mdl_cuts(values) == []
    assert bins.transform_one({"a": 3.0}) == {"a": None}


VALUES = st.lists(
    st.tuples(
        st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0, 3.0, 7.0, 1e9, -1e-9]), st.sampled_from("pqr")
    ),
    min_size=1,
    max_size=140,
)


@given(values=VALUES)
def test_cuts_are_those_of_the_twin(values) -> None:
    """Every record kept, every cut tried; with ties in value, and at each search."""
    bins, twin = MDLDiscretizer(), MDLTwin(FIRST_SEARCH)
    for x, y in values:
        bins.learn_one({"a": x}, y)
        twin.learn(x, y)
        assert bins.cuts("a") == pytest.approx(twin.cuts, rel=1e-12)


def test_cuts_of_a_real_stream_are_those_of_the_twin() -> None:
    """800 records of three overlapping classes, as exact as the histogram: 200 values."""
    rng = np.random.default_rng(5)
    bins, twin = MDLDiscretizer(), MDLTwin(FIRST_SEARCH)
    for _ in range(1024):
        c = int(rng.integers(3))
        x = round(float(rng.normal(2.0 * c, 1.0)), 1)
        bins.learn_one({"a": x}, "pqr"[c])
        twin.learn(x, "pqr"[c])

    assert len(twin.cuts) >= 2
    assert bins.cuts("a") == pytest.approx(twin.cuts, rel=1e-12)


def test_weight_two_counts_twice() -> None:
    """Weights are weights of evidence; what makes a search due are records."""
    once = learned([(float(i), "ab"[i > 20]) for i in range(32)])
    bins = MDLDiscretizer()
    for i in range(32):
        bins.learn_one({"a": float(i)}, "ab"[i > 20], 3.0)

    assert bins.cuts("a") == once.cuts("a") == [20.5]
    assert bins.to_state().array("counts", np.float64, 2).sum() == 96.0


def test_a_full_histogram_stays_bounded_and_finds_the_border() -> None:
    """8,192 distinct values: at most 256 intervals; the cut is within one interval of 0.7."""
    rng = np.random.default_rng(1)
    bins = MDLDiscretizer()
    for x in rng.random(8192).tolist():
        bins.learn_one({"a": x}, "low" if x < 0.7 else "high")
    state = bins.to_state()

    assert state.array("low", np.float64, 1).size <= INTERVALS
    assert state.array("counts", np.float64, 2).sum() == 8192
    low, high = state.array("low", np.float64, 1), state.array("high", np.float64, 1)
    assert (low <= high).all()
    assert (high[:-1] < low[1:]).all()
    assert any(abs(cut - 0.7) < 0.02 for cut in bins.cuts("a"))
    # No interval holds both classes but, at most, one: merging keeps what tells them apart.
    mixed = (state.array("counts", np.float64, 2) > 0).all(axis=1)
    assert mixed.sum() <= 1


def test_cuts_stay_and_bins_keep_their_names() -> None:
    """Each set of cuts holds the one before it."""
    rng = np.random.default_rng(3)
    bins, before = MDLDiscretizer(), []
    for _ in range(4096):
        c = int(rng.integers(3))
        bins.learn_one({"a": float(rng.normal(3.0 * c, 1.0))}, "pqr"[c])
        cuts = bins.cuts("a")
        assert set(before) <= set(cuts)
        assert all(a < b for a, b in pairwise(cuts))
        before = cuts

    assert len(before) >= 2


def test_no_more_bins_than_asked() -> None:
    """The cuts that gain most come first."""
    values = [(float(i), "pqrs"[i // 64]) for i in range(256)]
    random.Random(1).shuffle(values)

    assert len(learned(values).cuts("a")) >= 3
    for n_bins in (2, 3):
        assert len(learned(values, n_bins=n_bins).cuts("a")) == n_bins - 1


def test_classes_beyond_the_bound_count_as_one() -> None:
    """The first 63 are told apart; the others share a column, and are counted."""
    bins = MDLDiscretizer()
    for i in range(200):
        bins.learn_one({"a": float(i)}, i)
    state = bins.to_state()

    assert state.array("counts", np.float64, 2).shape == (200, MOST_CLASSES)
    assert state.header["other_classes"] == 200 - (MOST_CLASSES - 1)
    assert MDLDiscretizer().load_state(state).to_state() == state


def test_more_classes_than_are_told_apart_give_the_same_bits_in_any_block() -> None:
    """Each record of another class is counted once, one by one and in a block."""
    xs = [{"a": float(i % 90)} for i in range(180)]
    ys = [i % 90 for i in range(180)]
    one, block = (Discretized(MDLDiscretizer(), CategoricalNB()) for _ in range(2))
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    block.learn_many(xs, ys)

    assert one.fingerprint() == block.fingerprint()
    assert one.overflows == block.overflows
    assert one.overflows["binned_classes"] == 2 * (90 - (MOST_CLASSES - 1))


def test_features_beyond_the_bound_get_no_bin() -> None:
    """And are counted, once a value."""
    bins = MDLDiscretizer()
    bins.learn_one({f"f{i:04}": 1.0 for i in range(MAX_BINNED)}, "p")
    for _ in range(2):
        bins.learn_one({"zz": 1.0}, "p")

    assert bins.overflow == 2
    assert bins.transform_one({"zz": 1.0}) == {"zz": None}


def test_a_bad_value_or_label_is_refused_whole() -> None:
    """Nothing was learned."""
    bins = MDLDiscretizer()
    empty = bins.to_state()
    for x, y in [({"a": inf}, "p"), ({"b": 1.0, "a": 1e101}, "p"), ({"a": 1.0}, 1.5)]:
        with pytest.raises(InvalidRecordError):
            bins.learn_one(x, y)
    with pytest.raises(ValueError, match="greater than 0"):
        bins.learn_one({"a": 1.0}, "p", 0.0)

    assert bins.to_state() == empty


@pytest.mark.parametrize("name", ["low", "high", "counts", "cut", "sizes", "cuts", "learned"])
def test_damaged_state_is_refused(name) -> None:
    """Another length, NaN or a negative count: a StateError, never a histogram that lies."""
    state = learned([(float(i), "ab"[i > 20]) for i in range(32)]).to_state()
    for damage in (lambda a: a[:-1], lambda a: -1 - a, lambda a: a * 0 - 5):
        arrays = {**state.arrays, name: damage(state.arrays[name])}
        if name in ("low", "high", "cut") and arrays[name].shape == state.arrays[name].shape:
            arrays[name] = arrays[name] * np.nan
        with pytest.raises(StateError):
            MDLDiscretizer().load_state(State(state.header, arrays))
    with pytest.raises(StateError, match="bins"):
        MDLDiscretizer(n_bins=3).load_state(state)


def test_it_is_a_supervised_transformer_of_river() -> None:
    """A pipeline of river hands it the label."""
    pipeline = MDLDiscretizer() | river_preprocessing.OneHotEncoder() | naive_bayes.BernoulliNB()
    for i in range(200):
        pipeline.learn_one({"a": float(i % 50)}, i % 50 > 30)

    assert pipeline["MDLDiscretizer"].cuts("a") == [30.5]
    assert pipeline.predict_one({"a": 45.0}) is True


def test_bins_by_class_beat_equal_ones_where_the_border_is_far_out() -> None:
    """One in forty is beyond the border: no quantile falls there, the class does."""
    rng = np.random.default_rng(4)
    stream = []
    for _ in range(6000):
        far = rng.random() < 0.025
        x = float(rng.uniform(0.975, 1.0) if far else rng.uniform(0.0, 0.975))
        stream.append(({"a": x}, "far" if far else "near"))
    hits = {}
    for bins in (Discretizer(n_bins=8), MDLDiscretizer()):
        *_, quality = progressive(stream, Discretized(bins, CategoricalNB()))
        hits[type(bins).__name__] = quality.scores["all"].accuracy

    assert hits["MDLDiscretizer"] > 0.995
    assert hits["Discretizer"] < 0.98


def test_numbers_that_say_nothing_leave_the_other_features_alone() -> None:
    """They become None: the mixed learner goes by the rest."""
    model = Discretized(MDLDiscretizer(), MixedNB(text=["t"]))
    rng = np.random.default_rng(6)
    for i in range(300):
        model.learn_one({"noise": float(rng.random()), "t": "free" if i % 2 else "home"}, i % 2)

    assert model.discretizer.cuts("noise") == []
    assert model.predict_one({"noise": 0.3, "t": "free"}) == 1
    assert model.overflows["binned_features"] == 0
