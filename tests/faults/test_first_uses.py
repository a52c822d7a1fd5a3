"""First uses by eight threads at once; many more by `python -m tests.long.first_uses`."""

from __future__ import annotations

import threading

import pytest

from tests.faults.first_uses import OWN, at_once
from tests.long.first_uses import Process, run


@pytest.mark.parametrize("seed", range(len(OWN)), ids=sorted(OWN))
def test_first_use_by_many_threads_is_a_use_like_any_other(seed: int) -> None:
    """A start with several shards died of types that another thread was still building."""
    assert run(Process(seed, own=True)) == []


def test_first_uses_find_what_is_used_half_made() -> None:
    """Their own test: the second thread sees the table before its entry."""
    table: dict[str, dict[str, int]] = {}
    begun, looked = threading.Event(), threading.Event()

    def use() -> int:
        if "made" not in table:
            table["made"] = {}
            begun.set()
            looked.wait()
            table["made"]["entry"] = 1
            return 1
        begun.wait()
        try:
            return table["made"]["entry"]
        finally:
            looked.set()

    assert at_once(use) == ["KeyError: 'entry'"]
