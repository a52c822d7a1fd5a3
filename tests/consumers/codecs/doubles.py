"""Doubles as text: every kind that may be written wrongly, and what is wrong with a text of one."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

import msgspec
import numpy as np
from numba import njit
from numpy.typing import NDArray

from consumers.codecs._kernels.doubles import LONGEST, POWERS, put_double

__all__ = ["differences", "edges", "kinds", "texts"]

NAMED = [0.0, 5e-324, 2.225073858507201e-308, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1]
NOTATION = [1e-5, 9.999e-5, 1e-4, 1e15, 9007199254740993.0, 1e16, 1.2345678901234567e16, 1e17, 1e22]


@njit
def _write(bits, powers, out, ends):
    at = 0
    for i in range(bits.size):
        at = put_double(out, at, bits[i], powers)
        ends[i] = at


def texts(x: NDArray[np.float64]) -> list[bytes]:
    """What is written for each."""
    out, ends = np.empty(x.size * LONGEST, dtype=np.uint8), np.empty(x.size, dtype=np.int64)
    _write(np.ascontiguousarray(x).view(np.uint64), POWERS, out, ends)
    data = out.tobytes()
    return [data[a:b] for a, b in pairwise([0, *ends.tolist()])]


def edges() -> NDArray[np.float64]:
    """Powers of two and ten, the doubles beside them, changes of notation; each with both signs."""
    powers = [2.0**e for e in range(-1074, 1024)] + [float(f"1e{e}") for e in range(-323, 309)]
    found = np.array([*NAMED, *NOTATION, *powers])
    with np.errstate(over="ignore"):
        beside = [np.nextafter(found, 0.0), found, np.nextafter(found, np.inf)]
    every = np.concatenate(beside)
    every = every[np.isfinite(every)]
    return np.concatenate([every, -every])


def kinds(n: int, seed: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Name and values of each kind, n together."""
    rng, each = np.random.default_rng(seed), n // 5
    bits = rng.integers(0, 1 << 64, each, dtype=np.uint64).view(np.float64)
    yield "random bits", bits[np.isfinite(bits)]
    yield "denormals", rng.integers(1, 1 << 52, each, dtype=np.uint64).view(np.float64)
    yield "integers and halves", rng.integers(-(1 << 60), 1 << 60, each) / 2.0
    yield "decimals", np.round(rng.normal(0, 1000, each), 3)
    yield "probabilities", 1.0 / (1.0 + np.exp(-rng.normal(0, 6, each)))


def differences(x: NDArray[np.float64]) -> Iterator[str]:
    """What is wrong, by two programs that share nothing with the writer: the bytes of msgspec, and
    value and digits of Python's repr."""
    encode = msgspec.json.Encoder().encode
    for value, text in zip(x.tolist(), texts(x), strict=True):
        if text != encode(value):
            yield f"{value!r}: msgspec writes {encode(value)!r}, this {text!r}"
        written, expected = Decimal(text.decode()), Decimal(repr(value))
        if float(text) != value or written.normalize() != expected.normalize():
            yield f"{value!r}: repr writes {expected}, this {written}"
