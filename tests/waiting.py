"""How a test waits, and how it compares times, on a machine that does other work too.

Rule: a test waits for progress, never for seconds. `PATIENCE` bounds every wait for something that
must happen; only a test that fails waits as long. A test of a time compares it with a time of the
same run (`growth`), counts work, or states an order of events. A figure in seconds is a benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["PATIENCE", "growth", "until"]

PATIENCE = 300.0  # seconds
TRIES = 3

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str = "it") -> Found:
    """Look until what is found is true, and return it; an AssertionError after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come; the last look found {found!r}"
        time.sleep(0.01)
    return found


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """How many times as much processor time of this thread the large work takes as the small one.

    The least of some tries each, in turn. Eight times the input is about 8 where the work is in
    proportion to it, and 64 where each part of the input is compared with each other part.
    """
    took = [(_seconds(small), _seconds(large)) for _ in range(TRIES)]
    return min(of_large for _, of_large in took) / min(of_small for of_small, _ in took)


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
