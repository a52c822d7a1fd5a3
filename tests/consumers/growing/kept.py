"""What stays in memory of inputs that were read: nothing in proportion to them.

A cache that is bounded in entries only keeps as many inputs as it has entries. So inputs are read
that differ in their length, and the memory after them is compared with their bytes.
"""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import suppress
from itertools import count

from consumers.base.errors import RecordError
from tests.consumers.growing.rule import Construct

__all__ = ["kept"]

SIZE = 1 << 16  # bytes of an input
TIMES = 16
FIRST = 2  # they load parsers
MOST = 0.25  # of the bytes that were read


def kept(construct: Construct) -> str:
    """How much stays, "" if that is little."""
    n = next(n for n in (2**i for i in count()) if len(construct.made(2 * n)) > SIZE)
    values = [construct.made(n + i) for i in range(FIRST + TIMES)]
    for value in values[:FIRST]:
        _read(construct, value)
    gc.collect()
    tracemalloc.start()
    try:
        for value in values[FIRST:]:
            _read(construct, value)
        gc.collect()
        stays, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    read = sum(map(len, values[FIRST:]))
    return f"{stays:,} bytes stay of {read:,}" if stays > MOST * read else ""


def _read(construct: Construct, value: bytes) -> None:
    with suppress(RecordError):
        construct.read(value)
