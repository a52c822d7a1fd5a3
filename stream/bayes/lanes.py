"""The memory layout of the moments of independent normal features: chunks of eight lanes.

Functions that convert between `Moments`, as in a state, and the cells of the Gaussian kernels.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.lanes import HEAD, LANES
from stream.data.block import Floats
from stream.data.tables import grown

__all__ = ["Moments", "cells", "height", "packed", "rescaled", "room_for", "unpacked"]

LINE = 64  # bytes of a cache line


class Moments(NamedTuple):
    """The moments under their names in a state, all float64.

    n, mean, m2 (C, D): weight, mean and sum of squared deviations of (x - anchor) · scale for each
    class. anchor, scale (D,): the first value learned, and a power of two, see the kernels.
    total_n, total_mean, total_m2 (D,): the same over all classes. unit (1,): the present value of a
    weight of 1 learned last.
    """

    n: Floats
    mean: Floats
    m2: Floats
    anchor: Floats
    scale: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    unit: Floats


def height(classes: int) -> int:
    """The number of rows in cells for that many classes."""
    return HEAD + kernels.PER_CLASS * (classes + 1)


def cells(chunks: int, classes: int) -> Floats:
    """Empty cells, float64 (chunks, height, LANES).

    Eight lanes are one cache line. Without alignment each read and write touches two lines.
    """
    shape = (chunks, height(classes), LANES)
    size = 8 * prod(shape)
    room = np.zeros(size + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    out = room[start : start + size].view(np.float64).reshape(shape)
    out[:, 1] = 1.0
    return out


def room_for(
    old: Floats, features: int, classes: int, most_features: int, most_classes: int
) -> Floats:
    """`old` if it has room for that many features and classes, otherwise a copy with twice the
    room.

    Doubling makes the copies for C classes cost O(C · D) in total, not O(C² · D).
    """
    known = (old.shape[1] - height(0)) // kernels.PER_CLASS
    chunks = grown(-(-features // LANES), old.shape[0], -(-most_features // LANES))
    most = grown(classes, known, most_classes)
    if (chunks, most) == (old.shape[0], known):
        return old
    out = cells(chunks, most)
    out[: old.shape[0], : old.shape[1]] = old
    return out


def packed(moments: Moments) -> Floats:
    """The cells of these moments."""
    classes, d = moments.n.shape
    out, each = cells(-(-d // LANES), classes), kernels.PER_CLASS
    rows = np.zeros((out.shape[1], len(out) * LANES))
    rows[1] = 1.0
    rows[0, :d], rows[1, :d] = moments.anchor, moments.scale
    for i, total in enumerate((moments.total_n, moments.total_mean, moments.total_m2)):
        rows[HEAD + i, :d] = total
        rows[HEAD + each + i :: each, :d] = moments[i]
    out[:] = rows.reshape(len(rows), -1, LANES).transpose(1, 0, 2)
    return out


def unpacked(s: Floats, features: int, classes: int, unit: Floats) -> Moments:
    """A copy of the moments in the cells."""
    each = kernels.PER_CLASS
    rows = s[:, : height(classes)].transpose(1, 0, 2)
    rows = rows.reshape(height(classes), -1)[:, :features]
    tables = [rows[HEAD + each + i :: each] for i in range(3)]
    ours = [*tables, rows[0], rows[1], *rows[HEAD : HEAD + 3], unit]
    return Moments._make(a.copy() for a in ours)


def rescaled(moments: Moments, scale: Floats) -> Moments:
    """The same moments with another scale (D,)."""
    by = scale / moments.scale
    return moments._replace(
        mean=moments.mean * by,
        m2=moments.m2 * by * by,
        scale=scale,
        total_mean=moments.total_mean * by,
        total_m2=moments.total_m2 * by * by,
    )
