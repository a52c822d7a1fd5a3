"""Memory of large arrays: mappings of their own, whose size changes without a copy.

The system gives a page of a mapping when it is used first. So what an array grows by costs nothing
at once, and each call pays for the pages that it writes. numpy would clear it all, and often copy
the array. It also asks for pages of 2 MiB, each of which is cleared at once; mappings refuse them.
"""

from __future__ import annotations

import math
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["MAPPED", "SHRINKS", "ResizableArray", "empty"]

MAPPED = 2**18  # bytes from which an array is a mapping; a smaller one is quickly copied
SHRINKS = sys.platform == "linux"  # whether a mapping changes its size; else it is copied


class ResizableArray:
    """An array whose first axis grows and shrinks. What it grows by is 0, unless it had shrunk.

    Parameters
    ----------
    array
        The array at the beginning, which belongs to this object.

    Attributes
    ----------
    array : ndarray
        The array. `resize` may exchange it.

    Examples
    --------
    >>> numbers = ResizableArray(np.ones(2))
    >>> numbers.resize(3)
    >>> numbers.array.tolist(), numbers.is_mapped
    ([1.0, 1.0, 0.0], False)
    >>> numbers.resize(1_000_000)
    >>> numbers.array[:3].tolist(), numbers.array.size, numbers.is_mapped
    ([1.0, 1.0, 0.0], 1000000, True)
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self._mapping: mmap.mmap | None = None

    @property
    def is_mapped(self) -> bool:
        """Whether the array is a mapping of its own."""
        return self._mapping is not None

    def resize(self, rows: int) -> None:
        """Give the array that many rows.

        A mapping is extended where it is, or moves to another address without a copy. It is copied
        only if something else refers to `array`, or the system cannot extend it.

        Raises
        ------
        MemoryError
            There is no memory. The array is as before.
        """
        shape, dtype = (rows, *self.array.shape[1:]), self.array.dtype
        size, kept = math.prod(shape) * dtype.itemsize, min(rows, len(self.array))
        if size < MAPPED and self._mapping is None:
            self.array.resize(shape, refcheck=False)  # nothing else refers to it
        elif size < MAPPED:
            small = np.zeros(shape, dtype)
            small[:kept] = self.array[:kept]
            self.array, self._mapping = small, None
        elif not self._extend(shape, size):
            mapping = _map(size)
            other = _view(mapping, shape, dtype)
            other[:kept] = self.array[:kept]
            self.array, self._mapping = other, mapping

    def grow(self, rows: int, value: float = 0) -> None:
        """Give the array that many rows, if it has fewer. The new ones have `value`.

        0 writes nothing, so what is not used costs nothing. The array must not have shrunk.
        """
        before = len(self.array)
        if rows > before:
            self.resize(rows)
            if value != 0:
                self.array[before:] = value

    def _extend(self, shape: tuple[int, ...], size: int) -> bool:
        """Change the size of the mapping, if there is one, and if that is possible."""
        mapping, before, dtype = self._mapping, self.array.shape, self.array.dtype
        if mapping is None:
            return False
        del self.array  # the size of a mapping with a view cannot be changed
        try:
            mapping.resize(size)
        except (BufferError, OSError, SystemError, ValueError):
            self.array = _view(mapping, before, dtype)
            return False
        self.array = _view(mapping, shape, dtype)
        return True


def empty(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array with any values. If it is large, the part that is never used costs nothing."""
    kind = np.dtype(dtype)
    if size * kind.itemsize < MAPPED:
        return np.empty(size, dtype=kind)
    return _view(_map(size * kind.itemsize), (size,), kind)


def _map(size: int) -> mmap.mmap:
    """New memory, which is 0. The system gets it back when its last view is gone."""
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        # Private, because a process that forks would share it.
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for an array of {size:,} bytes") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            mapping.madvise(mmap.MADV_NOHUGEPAGE)
    return mapping


def _view(mapping: mmap.mmap, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    array = np.frombuffer(mapping, dtype=dtype, count=math.prod(shape))
    return array.reshape(shape)
