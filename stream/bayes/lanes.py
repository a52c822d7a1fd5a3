"""How the moments of independent normal features lie: in chunks of eight lanes.

Pure functions between `Moments`, as a state names them, and the cells of the Gaussian kernels.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.gaussian import LANES
from stream.block import Floats

__all__ = ["Moments", "cells", "height", "packed", "unpacked"]

LINE = 64  # bytes of a line of the processor's cache


class Moments(NamedTuple):
    """The moments under the names they have in a state, all float64.

    n, mean, m2 (C, D): weight, mean and sum of squared deviations of x - anchor a class. anchor
    (D,): the first value learned. total_n, total_mean, total_m2 (D,): the same over all classes.
    unit (1,): what a weight of 1 learned last counts.
    """

    n: Floats
    mean: Floats
    m2: Floats
    anchor: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats
    unit: Floats


def height(classes: int) -> int:
    """How many rows the cells of so many classes have."""
    return kernels.HEAD + kernels.PER_CLASS * (classes + 1)


def cells(features: int, classes: int) -> Floats:
    """Empty cells, float64 (chunks, height, LANES).

    Eight lanes are a line of the cache: where they lie across two, all that is read and written
    costs twice.
    """
    shape = (-(-features // LANES), height(classes), LANES)
    size = 8 * prod(shape)
    room = np.zeros(size + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(np.float64).reshape(shape)


def packed(moments: Moments) -> Floats:
    """The cells of these moments."""
    classes, d = moments.n.shape
    out, each = cells(d, classes), kernels.PER_CLASS
    rows = np.zeros((out.shape[1], len(out) * LANES))
    rows[0, :d] = moments.anchor
    for i in range(3):
        rows[kernels.HEAD + i, :d] = moments[4 + i]
        rows[kernels.HEAD + each + i :: each, :d] = moments[i]
    out[:] = rows.reshape(len(rows), -1, LANES).transpose(1, 0, 2)
    return out


def unpacked(s: Floats, features: int, unit: Floats) -> Moments:
    """A copy of the moments in cells."""
    each = kernels.PER_CLASS
    rows = s.transpose(1, 0, 2).reshape(s.shape[1], -1)[:, :features]
    tables = [rows[kernels.HEAD + each + i :: each] for i in range(3)]
    ours = [*tables, rows[0], *rows[kernels.HEAD : kernels.HEAD + 3], unit]
    return Moments._make(a.copy() for a in ours)
