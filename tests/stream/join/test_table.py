"""The table of ids: its hash, its chains, its growth, and hostile sequences beside dicts."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from stream.data.state import State, pack
from stream.errors import StateError
from stream.join import table as tables
from stream.join._kernels import ids as kernels
from stream.join._kernels.ids import BUCKETS, COUNT, USED
from stream.join.join import LabelJoin
from stream.join.table import EARLY, SETTLED, WAITING, IdTable, as_bytes
from tests.stream.join.hostile import KINDS, compare, name
from tests.stream.join.inserted import insert
from tests.stream.join.short_joins import observe, report

EVENTS = 13_000  # of each kind, so 10⁵ in all
NO_KEY = np.zeros(2, dtype=np.uint64)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_sequences_give_what_dicts_give(kind) -> None:
    """Plans, counts, bounds and states; `tests.long.hostile` runs more of them."""
    assert compare(kind, 0, EVENTS) is None


def test_ids_with_the_same_hash_are_different_ids(monkeypatch) -> None:
    """Whoever knows the key can choose them; they only lie in one chain."""
    ids = [f"{n:06d}" for n in range(400_000)]
    short = [int(kernels.hashed(as_bytes(id_), NO_KEY)) & 0x7FFFFFFF for id_ in ids]
    order = np.argsort(short, kind="stable")
    ranked = np.array(short)[order]
    first = np.flatnonzero(ranked[1:] == ranked[:-1])
    same = [ids[i] for at in first.tolist() for i in order[[at, at + 1]].tolist()]
    assert len(same) > 40
    monkeypatch.setattr(tables, "random_key", lambda: NO_KEY)

    assert compare("usual", 1, 2_000, lambda number: same[number % len(same)]) is None


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1])
def test_the_key_changes_no_result(key, monkeypatch) -> None:
    """Only the chains are others."""
    monkeypatch.setattr(tables, "random_key", lambda: np.array([key, 7], dtype=np.uint64))
    assert compare("corrections", 2, 2_000) is None


def test_hash_is_that_of_python_without_a_key() -> None:
    """SipHash-1-3, of which Python has another implementation."""
    assert sys.hash_info.algorithm == "siphash13"
    code = "print([hash(bytes(range(n))) for n in range(1, 60)])"
    env = {"PYTHONHASHSEED": "0"}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    ours = []
    for n in range(1, 60):
        data = np.frombuffer(bytes(range(n)), dtype=np.uint8)
        ours.append(int(np.uint64(kernels.hashed(data, NO_KEY)).astype(np.int64)))
    assert ours == eval(said.stdout)


def test_two_processes_have_two_keys() -> None:
    """So that nobody can choose ids that collide, as with dicts."""
    code = "from stream.join.table import random_key; print(random_key().tolist())"
    keys = {subprocess.check_output([sys.executable, "-c", code]) for _ in range(2)}
    assert len(keys) == 2


def test_table_follows_a_dict() -> None:
    """Ids are added and removed in any order, of any length, while stores are exchanged."""
    rng, ids = random.Random(3), IdTable()
    kept: dict[int, dict[str, int]] = {WAITING: {}, EARLY: {}, SETTLED: {}}
    stores = set()
    for number in range(30_000):
        kind = rng.choice([WAITING, EARLY, SETTLED])
        if kept[kind] and rng.random() < (0.45 if number < 20_000 else 0.55):
            gone = rng.choice(list(kept[kind])[:30])
            ids.remove(kept[kind].pop(gone))
        else:
            new = "é" * rng.choice([0, 1, 90]) + str(number)
            kept[kind][new] = insert(ids, new, kind)
        stores.add(ids.arrays.first.ctypes.data)
        if number % 1_000 == 0:
            assert all(ids.ids(k) == list(kept[k]) for k in kept)
            assert all(ids.find(id_) == entry for k in kept for id_, entry in kept[k].items())
            packed, expected = ids.packed(ids.entries(EARLY)), pack(kept[EARLY])
            assert all((packed[k] == expected[k]).all() for k in expected)
    assert len(stores) > 3
    assert ids.find("never") == -1
    assert insert(ids, next(iter(kept[EARLY])), EARLY) == -1  # it is there


def test_memory_of_removed_ids_is_used_again() -> None:
    """Entries, chains and stores stay as large as what is held at one time."""
    join, label = LabelJoin(max_pending=100), "x"
    sizes = []
    for number in range(40_000):
        observe(join, name(number), label, time=number, size=1)
        sizes.append(sum(array.nbytes for array in join.state.table.arrays))
    assert max(sizes) <= 40_000
    assert join.state.table.arrays.counts[BUCKETS] <= 110


@pytest.mark.parametrize("array", ["waiting_slot", "free", "settled_time", "sizes"])
def test_damaged_states_are_rejected(array) -> None:
    """Kernels do not check what they read, so a state with wrong numbers is not loaded."""
    join = LabelJoin()
    for number in range(6):
        observe(join, str(number), "x" if number % 2 else None, time=1, size=2)
    report(join, "0", "x", time=2)
    state = join.to_state()
    wrong = np.full_like(state.arrays[array], 1_000)
    if array == "settled_time":
        wrong = wrong[1:]
    with pytest.raises(StateError):
        LabelJoin().load_state(State(state.header, {**state.arrays, array: wrong}))


def test_an_id_that_is_saved_twice_is_damage() -> None:
    """An id is in one list only."""
    join = LabelJoin()
    observe(join, "a", time=1)
    state = join.to_state()
    twice = {f"settled_{k}": v for k, v in pack(["a"]).items()}
    twice |= {"settled_time": np.array([1])}
    with pytest.raises(StateError, match="the ids of 'settled' are damaged"):
        LabelJoin().load_state(State(state.header, {**state.arrays, **twice}))


def test_a_state_has_labels_and_no_codes() -> None:
    """Its form is that of older versions, whose snapshots and fingerprints are the same."""
    join = LabelJoin(corrections=True)
    for id_, label, learn in (("a", "x", True), ("b", "yé", True), ("c", "z", False)):
        observe(join, id_, label, time=1, learn=learn)
    state = join.to_state()
    assert state.header["settled_labels"] == ["x", "yé", "z"]
    again = LabelJoin(corrections=True)
    again.load_state(state)
    assert again.to_state() == state
    assert again.state.settled_bytes == join.state.settled_bytes


def test_no_call_moves_all_ids() -> None:
    """Chains are divided one by one, and ids go to a new store a few at a time."""
    ids = IdTable()
    ids.reserve(1, 0)
    moved, before = [], 0
    for number in range(20_000):
        insert(ids, name(number), SETTLED)
        used = int(ids.arrays.counts[USED])
        moved.append(used - before if used >= before else used)
        before = used
    assert ids.arrays.counts[COUNT + SETTLED] == 20_000
    assert max(moved) < 20_000  # bytes; there are 400,000
