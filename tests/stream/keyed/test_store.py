"""`PerKeyNB` with keys in a store equals the same learner with all keys in memory, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from stream import Block, PerKeyNB, Schema
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.data.state import State
from stream.errors import NotSupportedError, StateError
from stream.keyed import per_key, residents
from tests.seed import seeds
from tests.stream.keyed.rows import DictStore

OPS = [PREDICT, LEARN, PREDICT_THEN_LEARN]


def records(rng: np.random.Generator, n: int, keys: int, classes: int) -> list[Any]:
    """Records of few and many keys, with gaps, and fields and classes that come late."""
    out = []
    for i in range(n):
        k = int(rng.integers(keys)) if rng.random() < 0.5 else int(rng.integers(1 + keys // 4))
        x: dict[str, Any] = {"t": f"k{k}" if rng.random() < 0.95 else None}
        x["a"] = float(rng.normal(k)) if rng.random() < 0.9 else None
        x["c"] = "uvwxyz"[int(rng.integers(6))] if rng.random() < 0.8 else None
        if i > n // 3:
            x["b"] = float(rng.normal(1e6))
        if i > n // 2:
            x["d"] = "pq"[k % 2]
        late = classes if i > n // 2 else max(1, classes - 1)
        out.append((x, "lmno"[int(rng.integers(late))], OPS[int(rng.integers(3))]))
    return out


def blocks(model: PerKeyNB, drawn: list[Any], rng: np.random.Generator) -> Iterator[Block]:
    """Random splits, in which the steps use rows in any order, some of them several times."""
    at = 0
    while at < len(drawn):
        size = int(rng.integers(1, 30))
        xs, ys, ops = zip(*drawn[at : at + size], strict=True)
        block = Block.of(model.rows(list(xs)), PREDICT, list(ys))
        row = rng.integers(0, len(xs), len(xs)) if rng.random() < 0.5 else block.row
        yield replace(block, op=np.array(ops, dtype=np.int8), row=row.astype(np.int64))
        at += size


@seeds(
    0.1,
    room=st.integers(1, 8),
    entries=st.sampled_from([0, 3, 10**6]),
    keys=st.sampled_from([3, 12, 60]),
    bound=st.sampled_from([7, 2**20]),
    strength=st.sampled_from([None, 4.0]),
    often=st.sampled_from([1, 20, 1024]),
)
def test_a_learner_with_a_store_equals_one_in_memory(
    seed: int, room: int, entries: int, keys: int, bound: int, strength: float | None, often: int
) -> None:
    """Predictions of every block and the whole state, with restores at any kept commit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residents, "OFTEN", often)
        compare(seed, (room, entries), keys, bound, strength)


def compare(
    seed: int, rooms: tuple[int, int], keys: int, bound: int, strength: float | None
) -> None:
    """Run both over the same blocks."""
    rng = np.random.default_rng(seed)
    store = DictStore()

    def cold() -> PerKeyNB:
        out = PerKeyNB(per="t", strength=strength, max_keys=bound, keys_on_disk=True)
        out.keep_in(store, *rooms)
        return out

    model = cold()
    twin = PerKeyNB(per="t", strength=strength, max_keys=bound, keys_on_disk=True)
    kept: list[tuple[State, State]] = []
    for block in blocks(twin, records(rng, 200, keys, 3), rng):
        expected, found = twin.run(block), model.run(block)
        assert expected.proba.tobytes() == found.proba.tobytes()
        assert (expected.known == found.known).all()
        assert model.residents is not None
        assert len(model.residents.codes) <= rooms[0]
        assert model.overflows == twin.overflows
        if rng.random() < 0.15:
            with model.rows_in_store():
                kept.append((model.to_state(), twin.to_state()))
        if kept and rng.random() < 0.1:  # return to a random commit, in a new learner
            del kept[int(rng.integers(len(kept))) + 1 :]
            model = cold().load_state(kept[-1][0])
            twin.load_state(kept[-1][1])
            assert model.fingerprint() == twin.fingerprint()
        if rng.random() < 0.05:
            x = {"t": "k1", "a": 1.0, "c": "u"}
            assert model.joint_log_likelihood_one(x) == twin.joint_log_likelihood_one(x)
            assert model.learned("k2") == twin.learned("k2")
    assert model.fingerprint() == twin.fingerprint()
    assert model.keys == twin.keys
    assert model.to_state() == twin.to_state()
    if kept:  # another learner reads the rows, and has all keys in memory
        reader = PerKeyNB(per="t", strength=strength, max_keys=bound, keys_on_disk=True)
        reader.read_from(store)
        assert reader.load_state(kept[-1][0]).to_state() == kept[-1][1]


def trained(n: int = 80, **more: Any) -> PerKeyNB:
    """All keys in memory."""
    model = PerKeyNB(per="t", keys_on_disk=True, **more)
    rng = np.random.default_rng(3)
    for block in blocks(model, records(rng, n, 20, 2), rng):
        model.run(block)
    return model


def test_a_learner_with_keys_moves_them_into_the_store() -> None:
    """One that learned before it got a store, and one that loads a state with all keys."""
    model = trained()
    before = model.to_state()
    model.keep_in(DictStore(), 2)
    other = PerKeyNB(per="t", keys_on_disk=True)
    other.keep_in(DictStore(), 3)
    other.load_state(before)
    for each in (model, other):
        assert each.residents is not None
        assert not each.residents.codes
        assert each.to_state() == before


def test_the_store_begins_empty() -> None:
    """What it has is of another learner, until a state is loaded."""
    store = DictStore()
    store.put(["k1"], [b"of somebody else"])
    model = PerKeyNB(per="t", keys_on_disk=True)
    model.keep_in(store, 1)
    assert model.keys == []
    assert model.learned("k1") == {}
    model.learn_one({"t": "k1", "a": 1.0}, "p")
    model.learn_one({"t": "k2", "a": 1.0}, "p")
    assert model.keys == ["k1", "k2"]
    assert model.learned("k1") == {"p": 1.0}


def test_bytes_bound_the_keys_in_memory_and_not_the_keys() -> None:
    """With the same limit as a learner without a store, which gets no further keys."""
    schema = Schema.of(t="categorical", a="numeric", c="categorical")
    some, every = (PerKeyNB(per="t", max_keys=300, keys_on_disk=on) for on in (False, True))
    for model in (some, every):
        model.limit(100_000, schema, 2)
    every.keep_in(DictStore())
    for i in range(400):
        for model in (some, every):
            model.learn_one({"t": f"{i}", "a": 1.0, "c": f"{i % 5}"}, "pq"[i % 2])
    assert every.residents is not None
    assert len(every.residents.codes) <= some.room_for_keys < 200
    assert len(every.keys) == every.room_for_keys == 300
    assert every.overflows["keys"] == 100
    assert every.residents.evictions > 100


def test_values_of_all_keys_are_bounded_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is that of a learner with all keys in memory."""
    monkeypatch.setattr(per_key, "MOST_KEYS", 40)
    some, every = (PerKeyNB(per="t", max_keys=30, keys_on_disk=True) for _ in range(2))
    every.keep_in(DictStore(), 3)
    for i in range(300):
        for model in (some, every):
            model.learn_one({"t": f"{i % 29}", "c": f"{i % 7}"}, "pq"[i % 2])
    assert some.overflows["entries"] == every.overflows["entries"] > 50
    assert some.to_state() == every.to_state()


@pytest.mark.parametrize("cut", [7, 39, 48, -8])
def test_damaged_rows_are_refused(cut: int) -> None:
    """With a StateError, at the latest when the key is used."""
    store, model = DictStore(), trained()
    model.keep_in(store, 2)
    store.now = {key: row[:cut] for key, row in store.now.items()}
    with pytest.raises(StateError, match="damaged"):
        model.predict_one({"t": "k1", "a": 1.0})


def test_a_state_without_its_store_is_refused() -> None:
    """It has only the sums of all records."""
    model = trained()
    model.keep_in(DictStore(), 2)
    with model.rows_in_store():
        state = model.to_state()
    with pytest.raises(StateError, match="has no store"):
        PerKeyNB(per="t", keys_on_disk=True).load_state(state)


def test_only_a_learner_of_keys_on_disk_takes_a_store() -> None:
    """Its bounds would otherwise depend on the store."""
    with pytest.raises(NotSupportedError, match="keys_on_disk=True"):
        PerKeyNB(per="t").keep_in(DictStore())
