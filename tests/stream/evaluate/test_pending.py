"""The store of waiting rows: as slots of dicts, and growing without a pause."""

from __future__ import annotations

import random
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest

from stream import Rows
from stream.data import memory, row_store
from stream.data.block import Floats
from stream.evaluate import pending
from stream.evaluate.pending import PendingRows
from stream.evaluate.quality import BaselinePredictions
from tests.seed import seeds
from tests.stream.data.mappings import no_memory, resizes

NONE: dict = {
    "x": {},
    "memo": None,
    "said": [-1, -1, -1],
    "proba": [],
    "prior": [],
    "squares": 0.0,
    "marks": [False, False],
}


def put(store: PendingRows, slots: int, index: list[int], xs: list[dict]) -> None:
    """Put what `waiting` gives into the store."""
    rows = Rows.from_dicts([x["x"] for x in xs], texts=("t",))
    rows.memo = together([x["memo"] for x in xs])
    said, squares = np.array([x["said"] for x in xs]), np.array([x["squares"] for x in xs])
    proba, prior = (np.array([x[name] for x in xs]) for name in ("proba", "prior"))
    beside = BaselinePredictions(said[:, 1:], prior, squares)
    marks = np.array([x["marks"] for x in xs]).T
    store.put(slots, np.array(index), store.align(rows), said[:, 0], proba, beside, *marks)


def together(memos: list) -> Floats | None:
    """One array with the memos, if there is one."""
    noted = [memo for memo in memos if memo is not None]
    if not noted:
        return None
    out = np.full((len(memos), max(map(len, noted)), 2), np.nan)
    for i, memo in enumerate(memos):
        if memo is not None:
            out[i, : len(memo)] = memo
    return out


def waiting(rng: random.Random, classes: int, *, noted: bool) -> dict:
    """A row with its predictions, for that many classes."""
    x: dict = {name: rng.random() for name in "ab" if rng.random() < 0.7}
    x |= {name: f"{name} {rng.random()}" for name in "ct" if rng.random() < 0.7}
    if rng.random() < 0.02:
        x[rng.choice("de")] = rng.choice([1.0, 2.0])
    known = rng.randint(0, classes)
    return {
        "x": x,
        "memo": [[known, 0.5], *([rng.random(), 0.1] for _ in range(known))] if noted else None,
        "said": [rng.randrange(classes) for _ in range(3)],
        "proba": [rng.random() for _ in range(classes)],
        "prior": [rng.random() for _ in range(classes)],
        "squares": rng.random(),
        "marks": [rng.random() < 0.3, rng.random() < 0.3],
    }


def held(store: PendingRows, slot: int) -> dict:
    """What the store has in a slot."""
    rows = store.take(np.array([slot]))
    found = {
        name: getattr(store, name).array[slot].tolist() for name in ("proba", "prior", "squares")
    }
    marks = [bool(store.flagged.array[slot]), bool(store.early.array[slot])]
    memo = None if rows.memo is None else rows.memo[0].tolist()
    said = store.predicted.array[slot].tolist()
    return {"x": rows.dicts()[0], "memo": memo, "said": said, "marks": marks, **found}


def compare(store: PendingRows, twin: dict[int, dict]) -> None:
    """Each slot, also those that were never used."""
    width = store.proba.array.shape[1]
    for slot in range(len(store.rows)):
        expected = deepcopy(twin.get(slot, NONE))
        for name in ("proba", "prior"):
            expected[name] += [0.0] * (width - len(expected[name]))
        assert held(store, slot) == expected


def cleared(x: dict) -> dict:
    """A row without what takes memory."""
    return x | {"memo": None, "x": {k: v for k, v in x["x"].items() if not isinstance(v, str)}}


def moved(rng: random.Random, store: PendingRows, kept: list[int]) -> tuple[PendingRows, list[int]]:
    """Another store with what is kept, in other slots, from a saved state."""
    other = PendingRows(store.rows.like)
    to = rng.sample(range(len(kept) + 5), len(kept))
    state = store.to_state(np.array(kept, dtype=np.int64))
    other.load_state(state, len(kept) + 5, np.array(to, dtype=np.int64))
    saved = other.to_state(np.array(to, dtype=np.int64))
    assert saved.fingerprint() == state.fingerprint()
    return other, to


@pytest.mark.parametrize("small", [False, True], ids=["as is", "mappings and small pieces"])
@seeds(0.0075)
def test_the_store_is_a_dict_for_each_slot(seed, small) -> None:
    """Over puts, clears, growth, new classes, new columns, and saved states."""
    with pytest.MonkeyPatch.context() as patched:
        if small:
            patched.setattr(memory, "MAPPED", 1)
            patched.setattr(row_store, "CELLS", 9)
            patched.setattr(pending, "STEP", 500)
        compared_with_a_dict(random.Random(seed))


def compared_with_a_dict(rng: random.Random) -> None:
    """Do any of it, and compare every fifth time."""
    classes, slots = 1, 1
    store, twin, full = PendingRows(Rows.from_dicts([{"a": 1.0, "c": "x"}])), {}, set()
    for step in range(150):
        slots = max(slots, min(300, slots + rng.randint(-5, 8)))
        index = rng.sample(range(slots), rng.randint(1, min(slots, 20)))
        xs = [waiting(rng, classes, noted=step % 3 > 0 and rng.random() < 0.5) for _ in index]
        put(store, slots, index, xs)
        twin |= dict(zip(index, xs, strict=True))
        full |= set(index)
        gone = rng.sample(range(slots + 50), rng.randint(0, 20))
        store.clear(np.array(gone, dtype=np.int64))
        twin |= {slot: cleared(twin[slot]) for slot in gone if slot in twin}
        full -= set(gone)
        if rng.random() < 0.05:
            classes += rng.randint(1, 3)
        if rng.random() < 0.03:
            store.forget_memos()
            twin = {slot: x | {"memo": None} for slot, x in twin.items()}
        if rng.random() < 0.04:
            kept = rng.sample(sorted(full), len(full))
            store, to = moved(rng, store, kept)
            twin = {new: twin[old] for new, old in zip(to, kept, strict=True)}
            full, slots = set(to), len(kept) + 5
        if step % 5 == 0:
            compare(store, twin)
    compare(store, twin)


def grow(store: PendingRows, rows: Rows, calls: int):
    """Put the rows into new slots, in that many calls. Yields the slots after each."""
    n = len(rows)
    said, proba, squares = np.zeros((n, 2), dtype=np.int64), np.full((n, 2), 0.5), np.ones(n)
    beside = BaselinePredictions(said, proba, squares)
    for call in range(calls):
        at = call * n + np.arange(n)
        store.put((call + 1) * n, at, rows, said[:, 0], proba, beside)
        yield (call + 1) * n


def many(n: int) -> Rows:
    """Rows of numbers and categories, with a memo each."""
    numbers = dict.fromkeys("abcdefgh", 1.0)
    rows = Rows.from_dicts([numbers | {"p": f"p{i}", "q": "q"} for i in range(n)])
    rows.memo = np.ones((n, 2, 1))
    return rows


def test_no_call_asks_for_memory_by_what_waits() -> None:
    """It asks for what it needs itself: to double would ask for as much as waits already."""
    rows, asked = many(500), []
    store = PendingRows(rows)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in grow(store, rows, 140):
            now, peak = tracemalloc.get_traced_memory()
            asked.append(peak - before)
            before = now
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert max(asked) < 2**21


@resizes
def test_the_store_makes_one_mapping_for_each_large_array(maps) -> None:
    """However often they grow."""
    rows = many(500)
    store = PendingRows(rows)
    assert list(grow(store, rows, 140))[-1] <= len(store.rows)
    numbers = (store.predicted.array, store.proba.array, store.prior.array, store.squares.array)
    assert min(array.nbytes for array in numbers) >= memory.MAPPED
    assert len(maps) == 6  # also the features, and what a budget judged


@pytest.mark.parametrize("kept", range(7))
def test_a_store_that_gets_no_memory_is_as_before(kept, monkeypatch) -> None:
    """Whichever array cannot grow; and it grows when there is memory again."""
    rows, plain, left = many(50), memory._map, [kept]
    store = PendingRows(rows)

    def scarce(size: int):
        left[0] -= 1
        return plain(size) if left[0] >= 0 else no_memory(size)

    steps = grow(store, rows, 1)
    assert next(steps) == 50
    before = [held(store, slot) for slot in range(50)]
    monkeypatch.setattr(memory, "MAPPED", 1)
    monkeypatch.setattr(memory, "_map", scarce)
    with pytest.raises(MemoryError):
        list(grow(store, rows, 3))
    assert [held(store, slot) for slot in range(50)] == before
    left[0] = 1_000
    assert list(grow(store, rows, 3))[-1] == 150
    assert [held(store, slot) for slot in range(150)] == 3 * before
