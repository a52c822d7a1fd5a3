"""The memory of the join's arrays: large ones grow and shrink without a copy."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from stream.join import memory
from stream.join import table as tables
from stream.join.join import LabelJoin
from stream.join.memory import MAPPED, ResizableArray, empty
from stream.join.plan import Plan
from stream.join.row_pool import RowPool
from stream.join.table import WAITING, IdTable
from tests.stream.join.hostile import KINDS, compare

LARGE = MAPPED // 8  # rows of int64 from which an array is a mapping
resizes = pytest.mark.skipif(sys.platform != "linux", reason="mappings are copied there")


@pytest.fixture
def maps(monkeypatch) -> list[int]:
    """The bytes of each mapping that is made."""
    made, plain = [], memory._map

    def noted(size: int):
        made.append(size)
        return plain(size)

    monkeypatch.setattr(memory, "_map", noted)
    return made


def no_memory(size: int):
    """What the system says."""
    raise MemoryError(size)


@resizes
def test_a_large_array_grows_and_shrinks_without_a_copy(maps) -> None:
    """It is the same mapping, where it is or at another address."""
    numbers = ResizableArray(np.arange(10))
    for rows in (LARGE, 2 * LARGE, 50 * LARGE + 1, LARGE):
        numbers.resize(rows)
        assert numbers.array.size == rows
        assert numbers.array[:11].tolist() == [*range(10), 0]
        assert numbers.array[-1] == 0
    assert maps == [MAPPED]


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
        join.on_observation(Plan(), event=0, row=0, id=str(number), time=number)
    assert len(join.state.waiting) == 4_000


def test_an_array_that_somebody_looks_at_is_copied() -> None:
    """What they see stays as it is."""
    numbers = ResizableArray(np.arange(LARGE))
    numbers.resize(LARGE + 1)
    seen = numbers.array[:2]
    numbers.resize(3 * LARGE)
    numbers.array[0] = 7
    assert (seen.tolist(), numbers.array[1], numbers.array[LARGE - 1]) == ([0, 1], 1, LARGE - 1)


def test_an_array_that_gets_no_memory_is_as_before(monkeypatch) -> None:
    """Small or large."""
    small, large = ResizableArray(np.arange(3)), ResizableArray(np.arange(3))
    large.resize(LARGE)
    seen = large.array  # so it has to be copied
    monkeypatch.setattr(memory, "_map", no_memory)
    for numbers in (small, large):
        before = numbers.array.copy()
        with pytest.raises(MemoryError):
            numbers.resize(2 * LARGE)
        assert (numbers.array == before).all()
    assert seen[2] == 2


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
            ids.insert(f"an id of many bytes {number}", WAITING)
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
    rows = RowPool(IdTable())
    assert [rows.size(rows.take(size)) for size in range(1, 500)] == list(range(1, 500))


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
        ids.insert(kept[-1], WAITING)
        sizes.add(min(ids.arrays.first.size, ids.arrays.second.size))
    assert ids.ids(WAITING) == kept
    assert {0, 256} < {size // 256 * 256 for size in sizes}


def test_an_array_of_any_values_is_a_mapping_if_it_is_large(maps) -> None:
    """numpy would ask for pages of 2 MiB."""
    sizes = [0, MAPPED - 1, MAPPED]
    assert [empty(size, np.int8).size for size in sizes] == sizes
    assert maps == [MAPPED]


def test_a_mapping_has_small_pages_and_is_private() -> None:
    """Where the system would give large pages, each is cleared at once; forks share no array."""
    listed = Path("/proc/self/smaps")
    if not (listed.exists() and Path("/sys/kernel/mm/transparent_hugepage").exists()):
        pytest.skip("the system does not tell")
    mapping = memory._map(3 * MAPPED)
    start = np.frombuffer(mapping, np.int8).ctypes.data
    ranges = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", listed.read_text(), flags=re.MULTILINE)[1:]
    bounds = [[int(end, 16) for end in text.split(" ")[0].split("-")] for text in ranges]
    (found,) = [t for t, (low, high) in zip(ranges, bounds, strict=True) if low <= start < high]
    assert found.split()[1] == "rw-p"
    assert "nh" in found.split("VmFlags:")[1].split()
