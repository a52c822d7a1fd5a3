"""How a test waits, and how it measures time, on a machine that does other work too.

Rule: a test waits for progress, never for seconds. `PATIENCE` bounds every wait for something that
must happen; only a test that fails waits as long. A test that does bound a time bounds what its
processes used of a processor, or the time divided by how slow other work makes this machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["PATIENCE", "Timed", "timed", "until"]

PATIENCE = 300.0  # seconds
SAMPLE = 0.1  # seconds of a processor

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str = "it") -> Found:
    """Look until what is found is true, and return it; an AssertionError after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what} did not come; the last look found {found!r}"
        time.sleep(0.01)
    return found


@dataclass
class Timed:
    """How long something took: `seconds` as on a quiet machine, by `slowness`; `cpu` seconds of
    the processes it waited for and of this one."""

    seconds: float = 0.0
    cpu: float = 0.0
    slowness: float = 1.0


@contextmanager
def timed() -> Iterator[Timed]:
    """Measure what is done inside; the figures are there when it has ended."""
    took, before = Timed(), _slowness()
    began, used = time.monotonic(), _used()
    yield took
    took.seconds, took.cpu = time.monotonic() - began, _used() - used
    took.slowness = max(before, _slowness())
    took.seconds /= took.slowness


def _used() -> float:
    """Processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _slowness() -> float:
    """How much longer than on a quiet machine work takes now; 1 where nobody else works."""
    began, end = time.perf_counter(), time.thread_time() + SAMPLE
    while time.thread_time() < end:
        pass
    return max(1.0, (time.perf_counter() - began) / SAMPLE)
