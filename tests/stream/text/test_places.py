"""Keys that a stranger chooses: those of one place take no longer than others.

The hash of a token is the same everywhere, so that models agree, and anybody can compute it.
"""

from __future__ import annotations

import numpy as np
import pytest

from stream.linear._kernels.explained import distinct, summed
from stream.text._kernels.features import once, places
from stream.text.features import GOLDEN, SECRET
from tests.consumers.growing.rule import Construct, too_steep

LARGEST = 1 << 18
INVERSE = pow(GOLDEN, -1, 2**64)


def low_bits(n: int) -> bytes:
    """Keys that differ in their high bits only."""
    return (np.arange(1, n + 1, dtype=np.uint32) << 16 | 1).tobytes()


def equal_halves(n: int) -> bytes:
    """64 bits whose halves are equal but for one bit."""
    i = np.arange(1, n + 1, dtype=np.uint64)
    return (i << np.uint64(32) | i ^ np.uint64(1)).tobytes()


def multiples(n: int) -> bytes:
    """What Knuth's multiplication takes to equal halves."""
    with np.errstate(over="ignore"):
        return (np.frombuffer(equal_halves(n), np.uint64) * np.uint64(INVERSE)).tobytes()


def kept_once(value: bytes) -> int:
    key = np.frombuffer(value, np.uint32).copy()
    return int(once(key, 0, key.size, np.zeros(places(key.size), np.uint32), SECRET))


def kept_distinct(value: bytes) -> int:
    found = np.frombuffer(value, np.uint64)
    slots, kept = np.zeros(4 * found.size + 16, np.int64), np.empty(found.size, np.int64)
    return int(distinct(found, found.size, slots, kept, SECRET))


def kept_summed(value: bytes) -> int:
    part = np.frombuffer(value, np.uint64)
    n, slots = part.size, np.zeros(4 * part.size + 16, np.int64)
    out, first = np.empty(n), np.empty(n, np.int64)
    return int(summed(part, np.arange(n), n, np.ones(n), slots, SECRET, out, first))


@pytest.mark.parametrize(
    ("made", "read"),
    [(low_bits, kept_once), (multiples, kept_distinct), (equal_halves, kept_summed)],
)
def test_keys_of_one_place_take_no_longer(made, read) -> None:
    """They were compared with all others: a row of ten such texts took seconds."""
    assert read(made(1000)) == 1000
    assert too_steep(Construct(made, read), LARGEST)[0] == ""
