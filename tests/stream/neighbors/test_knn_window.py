"""The window of KNNClassifier: ids, forgetting, unlearning, merging, bounds, memory."""

from __future__ import annotations

import json
from math import nan

import numpy as np
import pytest

from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.data.state import State
from stream.errors import InvalidRecordError, NotLearnedError, SchemaError, StateError
from stream.neighbors import KNNClassifier


def learned(pairs, **given) -> KNNClassifier:
    """A model that has learned (x, y) or (x, y, w)."""
    model = KNNClassifier(**given)
    for pair in pairs:
        model.learn_one(*pair)
    return model


def line(*places, labels="ab") -> list:
    """Records at places of one feature, their labels in turn."""
    return [({"a": float(at)}, labels[i % len(labels)]) for i, at in enumerate(places)]


# Ids, forgetting, unlearning, merging.


def test_neighbours_come_with_their_ids_nearest_first_newest_first_of_equals() -> None:
    """Text and integers as they were given, None without."""
    model = KNNClassifier(3, scale=None)
    for i, at in [("first", 2.0), (7, 1.0), (None, 2.0)]:
        model.learn_one({"a": at}, "y", id=i)

    assert [n.id for n in model.neighbors_one({"a": 0.0})] == [7, None, "first"]


def test_forgetting_an_id_takes_its_records_back() -> None:
    """All of them; how many there were; 0 for one that is not there (any more)."""
    model = learned(line(1, 2, 3))
    before = model.fingerprint()
    model.learn_one({"a": 4.0, "new": 1.0}, "c", id="me")
    model.learn_one({"a": 5.0}, "a", id="me")

    assert (model.forget("me"), model.forget("me"), model.forget("stranger")) == (2, 0, 0)
    assert model.fingerprint() == before
    assert (model.classes, model.features) == (["a", "b"], ["a"])


def test_ids_are_kept_in_state_and_through_a_merge() -> None:
    """By the record, wherever it stands."""
    one, other = KNNClassifier(), KNNClassifier()
    for i in range(5):
        one.learn_one({"a": float(i)}, "y", id=i)
        other.learn_one({"a": float(10 + i)}, "y", id=f"other {i}")
    state = one.merge(other).to_state()
    header = json.loads(state.header_bytes())
    restored = KNNClassifier().load_state(State(header, state.arrays))

    assert restored.neighbors_one({"a": 3.0})[0].id == 3
    assert restored.neighbors_one({"a": 12.0})[0].id == "other 2"
    assert restored.fingerprint() == one.fingerprint()


def test_an_id_is_text_or_an_integer() -> None:
    """Anything else is refused, and nothing is learned."""
    model = KNNClassifier()
    for bad in (1.5, True, b"x", ("a",)):
        with pytest.raises(SchemaError, match="an id must be"):
            model.learn_one({"a": 1.0}, "y", id=bad)

    assert model.classes == []


def test_unlearning_takes_the_newest_equal_record() -> None:
    """Values, gaps, label and weight must be equal."""
    model = KNNClassifier(1)
    for i, w in enumerate((1.0, 2.0, 1.0, 2.0)):
        model.learn_one({"a": 1.0, "c": "x"}, "y", w, id=i)
    model.unlearn_one({"a": 1.0, "c": "x", "gap": None}, "y")

    assert {n.id for n in model.neighbors_one({"a": 1.0})} == {0, 1, 3}
    for x, y, w in [({"a": 1.0}, "y", 1.0), ({"a": 1.0, "c": "z"}, "y", 1.0),
                    ({"a": 1.0, "c": "x"}, "y", 3.0), ({"a": 1.0, "c": "x", "b": 1}, "y", 1.0),
                    ({"a": 1.0, "c": "x"}, True, 1.0)]:  # fmt: skip
        with pytest.raises(NotLearnedError):
            model.unlearn_one(x, y, w)


def test_a_record_that_left_the_window_cannot_be_unlearned() -> None:
    """It is said so; its class stays known, with probability 0."""
    model = learned(line(1, 2, 3, labels="abb"), n_neighbors=1, window=2)

    with pytest.raises(NotLearnedError, match="no record in the window"):
        model.unlearn_one({"a": 1.0}, "a")
    assert model.predict_proba_one({"a": 1.0}) == {"a": 0.0, "b": 1.0}


def test_an_empty_window_with_known_classes_gives_each_the_same() -> None:
    """Two classes left the window, then the only record in it was forgotten."""
    model = learned(line(1, 2), n_neighbors=1, window=1)
    model.learn_one({"a": 3.0}, "a", id=1)
    model.forget(1)

    assert model.predict_proba_one({"a": 1.0}) == {"a": 0.5, "b": 0.5}
    assert model.neighbors_one({"a": 1.0}) == []


@pytest.mark.parametrize("cut", [0, 1, 4, 9, 17, 30])
def test_merging_windows_keeps_the_newest_of_both(cut) -> None:
    """A then B, where A, B or neither fills the window; categories and late features too."""
    rng = np.random.default_rng(3)
    records = [({"a": float(rng.normal()), "c": f"c{i // 2}", f"f{i // 10}": 1.0}, f"y{i % 4}")
               for i in range(30)]  # fmt: skip
    first, second = (
        learned(part, n_neighbors=3, window=10) for part in (records[:cut], records[cut:])
    )
    whole = learned(records, n_neighbors=3, window=10)

    assert first.merge(second).fingerprint() == whole.fingerprint()
    assert first.predict_proba_one(records[25][0]) == whole.predict_proba_one(records[25][0])


def test_merging_a_field_of_another_kind_is_refused() -> None:
    """Nothing is merged."""
    model, other = learned([({"a": 1.0}, "y")]), learned([({"a": "x"}, "z")])
    before = model.fingerprint()

    with pytest.raises(InvalidRecordError, match="'a'"):
        model.merge(other)
    assert model.fingerprint() == before


# Bounds.


def test_memory_is_bounded_on_an_endless_stream_of_new_categories_and_ids() -> None:
    """Each record brings a new category and a new id; both go when it leaves the window."""
    model = KNNClassifier(1, 20)
    for i in range(6000):
        model.learn_one({"c": f"value {i}", "a": float(i)}, "y", id=i)
    memory = model._memory

    assert len(memory._categories._codes) <= 2 * 20 + 1025
    assert len(memory.window._ids) <= 2 * 20 + 64 + 1
    assert memory.arrays.label.size <= 20 + 2 * 64 + 1
    assert [n.id for n in model.neighbors_one({"c": "value 5999"})] == [5999]
    assert model.predict_proba_one({"c": "value 1"}) == {"y": 1.0}


def test_features_beyond_the_bound_are_counted_and_ignored(monkeypatch) -> None:
    """Once a record."""
    monkeypatch.setattr("stream.neighbors.columns.MAX_CELLS", 2 * 10)
    model = learned([({"a": 1.0, "b": 2.0, "c": i, "d": "x"}, i % 2) for i in range(3)],
                    n_neighbors=1, window=10)  # fmt: skip

    assert model.features == ["a", "b"]
    assert model.overflows["features"] == 6


# Where the records stand in memory.


@pytest.mark.parametrize("scale", ["range", "std", None])
def test_where_records_stand_in_memory_leaves_no_trace(scale) -> None:
    """One block, single records and a learner restored on the way: same bits (I1, I2)."""
    rng = np.random.default_rng(4)
    xs = [dict(zip("abc", row, strict=True)) for row in rng.normal(size=(900, 3)).tolist()]
    ys = rng.integers(2, size=900).tolist()
    block, single = KNNClassifier(5, 70, scale=scale), KNNClassifier(5, 70, scale=scale)
    expected = block.progressive_many(Block.of(block.rows(xs), PREDICT_THEN_LEARN, ys)).dicts()
    said = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if i in (3, 500):
            single = KNNClassifier(5, 70, scale=scale).load_state(single.to_state())
        said.append(single.predict_proba_one(x))
        single.learn_one(x, y)

    assert said == expected
    assert single.fingerprint() == block.fingerprint()


def test_plain_and_roundabout_records_are_learned_alike() -> None:
    """A dict of known floats takes a short cut; numpy values, NaN and mappings do not."""
    forms = (
        lambda a, b: {"a": a, "b": b},
        lambda a, b: {"a": np.float64(a), "b": np.float32(b)},
        lambda a, b: {"b": b, "a": a, "gap": nan},
    )
    rng = np.random.default_rng(5)
    data = rng.integers(-5, 5, size=(50, 2)).astype(float).tolist()
    models = [KNNClassifier(3, 20) for _ in forms]
    for i, (a, b) in enumerate(data):
        said = [m.predict_proba_one(form(a, b)) for m, form in zip(models, forms, strict=True)]
        assert said == [said[0]] * 3
        for model, form in zip(models, forms, strict=True):
            model.learn_one(form(a, b), i % 2, w=1 + i % 3)

    assert len({m.fingerprint() for m in models}) == 1


def test_state_with_a_category_twice_is_refused() -> None:
    """Its next state could not be saved: one of the codes had no category."""
    model = KNNClassifier(window=5)
    model.learn_many([{"c": "x"}, {"c": "y"}], ["p", "q"])
    state = model.to_state()
    state.arrays["categories/bytes"][:] = ord("x")

    with pytest.raises(StateError, match="distinct"):
        KNNClassifier(window=5).load_state(state)
