"""The memory of the join: its large arrays grow and shrink without a copy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from stream.data import memory
from stream.data.memory import MAPPED
from stream.join import table as tables
from stream.join.join import LabelJoin
from stream.join.table import WAITING, IdTable
from tests.stream.data.mappings import no_memory, resizes
from tests.stream.join.hostile import KINDS, compare
from tests.stream.join.inserted import insert
from tests.stream.join.short_joins import observe


@resizes
def test_the_table_makes_one_mapping_for_each_large_array(maps) -> None:
    """However often they grow."""
    ids, data = IdTable(), np.arange(40_000, dtype=np.uint16).view(np.uint8)
    for first in range(0, data.size, 200):
        ids.insert_all(data[first : first + 200], np.full(100, 2), WAITING)
    large = [array for array in ids.arrays if array.nbytes >= MAPPED]
    assert len(large) == 3
    assert len(maps) == 3


def test_a_small_join_maps_nothing(monkeypatch) -> None:
    """A process may have thousands of them."""
    monkeypatch.setattr(memory, "_map", no_memory)
    join = LabelJoin()
    for number in range(4_000):
        observe(join, str(number), time=number)
    assert len(join.state.waiting) == 4_000


@pytest.mark.parametrize("kept", range(9))
def test_a_table_that_gets_no_memory_is_as_before(kept, monkeypatch) -> None:
    """Whichever array cannot grow; and it grows when there is memory again."""
    ids, plain, left = IdTable(), memory._map, [kept]

    def scarce(size: int):
        left[0] -= 1
        return plain(size) if left[0] >= 0 else no_memory(size)

    monkeypatch.setattr(memory, "MAPPED", 1)
    monkeypatch.setattr(memory, "_map", scarce)
    number = failed = 0
    while number < 1_000:
        try:
            insert(ids, f"an id of many bytes {number}", WAITING)
            number += 1
        except MemoryError:
            failed += 1
            assert len(ids.ids(WAITING)) == number
            left[0] = 1
    assert failed
    assert ids.ids(WAITING) == [f"an id of many bytes {n}" for n in range(1_000)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_join_of_mappings_gives_what_dicts_give(kind, monkeypatch) -> None:
    """So nothing refers to an array that has been exchanged."""
    monkeypatch.setattr(memory, "MAPPED", 1)
    monkeypatch.setattr(tables, "PIECE", 100)
    assert compare(kind, 5, 3_000) is None


def test_slots_are_kept_when_their_arrays_are_exchanged(monkeypatch) -> None:
    """What is written into one goes to the new array."""
    monkeypatch.setattr(memory, "MAPPED", 1)
    join = LabelJoin()
    for size in range(1, 500):
        observe(join, str(size), size=size)
    assert [join.state.rows.size(slot) for slot in join.kept_slots()] == list(range(1, 500))


@resizes
def test_a_store_is_given_back_in_pieces(monkeypatch) -> None:
    """Its memory would take long to give back at once."""
    monkeypatch.setattr(memory, "MAPPED", 1)
    monkeypatch.setattr(tables, "PIECE", 256)
    rng, ids, kept, sizes = random.Random(1), IdTable(), [], set()
    for number in range(4_000):
        if len(kept) > 300:
            ids.remove(ids.find(kept.pop(rng.randrange(300))))
        kept.append(f"id {number}")
        insert(ids, kept[-1], WAITING)
        sizes.add(min(ids.arrays.first.size, ids.arrays.second.size))
    assert ids.ids(WAITING) == kept
    assert {0, 256} < {size // 256 * 256 for size in sizes}
