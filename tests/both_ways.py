"""Each call of a kernel both ways: as machine code, and as Python with checked arrays.

Rule: both return the same value and leave the same bits in their arrays. A NaN is any NaN. As a
plugin of pytest it looks at all calls of tests: `pytest -p tests.both_ways tests/stream`.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from stream.kernel.interpreted import Interpreter
from stream.kernel.tiers import LOCK, Kernel

__all__ = ["BothWays", "DiffersError", "copied", "same", "switched"]

ALIGNED = 64


class DiffersError(AssertionError):
    """Machine code and Python have other bits, or Python has left an array."""


class BothWays:
    """Runs each call both ways, and counts.

    Parameters
    ----------
    most
        Calls of a kernel that are compared; later ones run as machine code only.

    Attributes
    ----------
    compared, seen
        Calls of each kernel that were compared, and kernels that Python has run.
    """

    def __init__(self, most: int = 1_000_000) -> None:
        self._most = most
        self.compared = Counter[Kernel]()
        self.seen: set[Kernel] = set()
        self._python = Interpreter(checked=True, around=self._noted)

    def call(self, kernel: Kernel, *args: Any) -> Any:
        """Run a kernel both ways; its arrays and result are those of machine code."""
        with LOCK:  # threads share scratch, and machine code keeps all others out
            return self._call(kernel, args)

    def _call(self, kernel: Kernel, args: tuple[Any, ...]) -> Any:
        if self.compared[kernel] >= self._most:
            return kernel.machine(*args)
        self.compared[kernel] += 1
        self.seen.add(kernel)
        twins = copied(args)
        found = kernel.machine(*args)
        try:
            other = self._python.run(kernel.py_func, twins)
        except Exception as error:
            raise DiffersError(f"{kernel}: as Python {type(error).__name__}: {error}") from error
        if where := difference(found, other) or difference(args, twins):
            raise DiffersError(f"{kernel}: differs at {where}")
        return found

    def _noted(self, kernel: Kernel, function: Any) -> Any:
        self.seen.add(kernel)
        return function

    @contextmanager
    def installed(self) -> Iterator[BothWays]:
        """All calls of kernels by Python in the block."""
        before, call = Kernel.__call__, self.call
        Kernel.__call__ = lambda kernel, *args: call(kernel, *args)  # type: ignore[method-assign]
        try:
            yield self
        finally:
            Kernel.__call__ = before  # type: ignore[method-assign]


@contextmanager
def switched(python: Callable[[Kernel], bool]) -> Iterator[None]:
    """Each call of a kernel by Python in the block runs the way that is drawn for it."""

    def call(kernel: Kernel, *args: Any) -> Any:
        return (kernel.interpreted if python(kernel) else kernel.machine)(*args)

    before = Kernel.__call__
    Kernel.__call__ = call  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Kernel.__call__ = before  # type: ignore[method-assign]


def copied(args: Any) -> Any:
    """Copies of arguments; arrays that share memory share it again, with the same strides."""
    arrays = list(_arrays(args))
    spans = sorted(byte_bounds(a) for a in arrays if a.size)
    merged: list[list[int]] = []
    for low, high in spans:
        if merged and low < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    blocks = [(low, high, _block(low, high)) for low, high in merged]

    def copy(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return _view(value, blocks)
        if isinstance(value, tuple):
            parts = map(copy, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    return copy(args)


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)


def _block(low: int, high: int) -> Any:
    """A copy of this memory, aligned as it is."""
    room = np.empty(high - low + 2 * ALIGNED, np.uint8)
    at = (low - room.ctypes.data) % ALIGNED
    ctypes.memmove(room.ctypes.data + at, low, high - low)
    return room[at : at + high - low]


def _view(array: Any, blocks: list[tuple[int, int, Any]]) -> Any:
    if not array.size:
        made = np.empty_like(array)
    else:
        start = array.ctypes.data
        low, _, block = next(b for b in blocks if b[0] <= start < b[1])
        made = np.ndarray(array.shape, array.dtype, block, start - low, array.strides)
    made.flags.writeable = array.flags.writeable
    return made


def difference(one: Any, other: Any, where: str = "") -> str:
    """Where two results differ in a bit or in their kind; empty if they do not."""
    if isinstance(one, tuple):
        if not isinstance(other, tuple) or len(one) != len(other):
            return f"{where}: {one!r} and {other!r}"
        names = getattr(one, "_fields", range(len(one)))
        found = (
            difference(a, b, f"{where}.{n}") for n, a, b in zip(names, one, other, strict=True)
        )
        return next((each for each in found if each), "")
    if isinstance(one, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{where}: {one.dtype}{one.shape} and {other.dtype}{other.shape}"
        wrong = np.argwhere(~same(one, other))
        if wrong.size:
            at = tuple(wrong[0].tolist())
            return f"{where}{list(at)}: {one[at]!r} and {other[at]!r}, {len(wrong)} in all"
        return ""
    if type(one) is not type(other) or not bool(same(np.asarray(one), np.asarray(other)).all()):
        return f"{where}: {one!r} and {other!r}"
    return ""


def same(one: Any, other: Any) -> Any:
    """Which elements have the same bits, or are both NaN."""
    if one.dtype.kind == "f":
        bits = f"u{one.dtype.itemsize}"
        equal = np.ascontiguousarray(one).view(bits) == np.ascontiguousarray(other).view(bits)
        return equal.reshape(one.shape) | (np.isnan(one) & np.isnan(other))
    return one == other


_ALL = BothWays(int(os.environ.get("BOTH_WAYS_MOST", "1000000")))


def pytest_configure() -> None:
    """Compare from the first call on."""
    Kernel.__call__ = lambda kernel, *args: _ALL.call(kernel, *args)  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How much was compared."""
    calls, kernels = _ALL.compared.total(), len(_ALL.seen)
    terminalreporter.write_line(f"both ways: {calls:,} calls, {kernels} kernels as Python")
