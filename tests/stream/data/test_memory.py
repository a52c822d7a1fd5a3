"""Large arrays are mappings, which grow and shrink without a copy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from stream.data import memory
from stream.data.memory import MAPPED, ResizableArray, empty
from tests.stream.data.mappings import no_memory, resizes

LARGE = MAPPED // 8  # rows of int64 from which an array is a mapping


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


def test_an_array_grows_by_a_value() -> None:
    """Also when it is a mapping, which has 0 at first. It never shrinks so."""
    numbers = ResizableArray(np.arange(2.0))
    for rows in (3, 1, 2 * LARGE):
        numbers.grow(rows, np.nan)
    assert numbers.is_mapped
    assert numbers.array[:2].tolist() == [0.0, 1.0]
    assert numbers.array.size == 2 * LARGE
    assert np.isnan(numbers.array[2:]).all()


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
