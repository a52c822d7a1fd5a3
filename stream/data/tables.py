"""Tables with spare room for classes, so that a new class seldom copies a table.

Rule: spare room is filled with zeros, and no result depends on its size. There is room for at most
`most` classes, which a limit of bytes may have set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["columns_for", "grown", "padded", "rows_for"]


def grown(needed: int, have: int, most: int) -> int:
    """The new room if `needed` is asked for: at least twice the old one, if it has to grow."""
    return have if needed <= have else max(needed, min(2 * have, most))


def columns_for(a: NDArray[Any], rows: int, classes: int, most: int) -> NDArray[Any]:
    """`a`, or a copy with at least this many rows and with columns for these classes."""
    return padded(a, (max(rows, a.shape[0]), grown(classes, a.shape[1], most)))


def rows_for(a: NDArray[Any], shape: tuple[int, ...], most: int) -> NDArray[Any]:
    """`a` padded with zeros to this shape: the first rows of a table that may have more.

    Nothing is copied if only rows are added and the table that `a` is a view of has room.
    """
    if a.shape == shape:
        return a
    room: object = a.base  # bytes, if the array was unpickled
    if (
        isinstance(room, np.ndarray)
        and room.shape[1:] == shape[1:]
        and room.dtype == a.dtype
        and room.ctypes.data == a.ctypes.data
        and room.shape[0] >= shape[0] >= a.shape[0]
    ):
        return room[: shape[0]]
    rows = grown(shape[0], a.shape[0], most) if a.shape[1:] == shape[1:] else shape[0]
    out = np.zeros((rows, *shape[1:]), dtype=a.dtype)
    out[tuple(slice(0, k) for k in a.shape)] = a
    return out[: shape[0]]


def padded(a: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """`a`, or a copy of this shape with zeros where `a` has nothing."""
    if a.shape == shape:
        return a
    out = np.zeros(shape, dtype=a.dtype)
    out[tuple(map(slice, a.shape))] = a
    return out
