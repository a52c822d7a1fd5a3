"""Tables with room for more classes than there are, so that a new class seldom copies one.

Rule: the room holds zeros, and no result depends on how much of it there is. It is never more than
for `most` classes, which a budget of bytes may have set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["columns_for", "grown", "rows_for"]


def grown(needed: int, have: int, most: int) -> int:
    """The room that is made where `needed` is asked for: at least twice what there was."""
    return have if needed <= have else max(needed, min(2 * have, most))


def columns_for(a: NDArray[Any], rows: int, classes: int, most: int) -> NDArray[Any]:
    """`a`, or its copy with this many rows at least and room for these classes in its columns."""
    shape = max(rows, a.shape[0]), grown(classes, a.shape[1], most)
    if shape == a.shape:
        return a
    out = np.zeros(shape, dtype=a.dtype)
    out[: a.shape[0], : a.shape[1]] = a
    return out


def rows_for(a: NDArray[Any], shape: tuple[int, ...], most: int) -> NDArray[Any]:
    """`a` and zeros behind it, of this shape: the first rows of a table that may have more.

    Where only rows are added, and the table that `a` is a part of has room, nothing is copied.
    """
    if a.shape == shape:
        return a
    room: object = a.base  # of an array that was unpickled, bytes
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
