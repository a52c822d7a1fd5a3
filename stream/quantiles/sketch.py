"""The sources of learned bins: a sketch of a feature's distribution, or its span.

Both are bounded, accept weights and can be merged. Their state depends only on what they learned.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Floats
from stream.data.parameters import number, whole
from stream.data.schema import HEAVIEST
from stream.errors import StateError
from stream.quantiles import _kernels as kernels
from stream.quantiles._kernels import Summary

__all__ = ["ENTRIES", "QuantileSketch", "Span"]

ENTRIES = 256

Codes = NDArray[np.int64]


class QuantileSketch:
    """Quantiles of a stream of weighted numbers, with a known error.

    Attributes
    ----------
    error : float
        The largest error of a quantile, as a share of the learned weight; 0 until values are
        merged.

    Notes
    -----
    At most 256 entries of 32 bytes; O(log entries + shift) to learn, O(entries) to read. It is the
    summary of Greenwald and Khanna (2001) with weights, and with a bound on memory instead of the
    error: a full summary merges its least uncertain neighbours until half of the entries are left.
    KLL was not chosen because it needs random bits and whole weights. The t-digest was not chosen
    because it keeps means, which are not values of the stream, and its error is not bounded. For a
    million values in random or sorted order or with ties, the error is 1.2 %. In the worst order,
    values that approach one point from both sides, it is 9 %.

    `merge` is exact if the distinct values of both fit. Otherwise its error is at most the sum of
    both errors plus that of compressing.

    Examples
    --------
    >>> from stream.preprocessing import QuantileSketch
    >>> sketch = QuantileSketch()
    >>> for x in (1.0, 2.0, 3.0, 4.0):
    ...     sketch.learn(x)
    >>> sketch.cuts(4), sketch.error
    ([1.0, 2.0, 3.0], 0.0)
    """

    columns: ClassVar[tuple[str, ...]] = Summary._fields[:4]

    def __init__(self) -> None:
        self._summary = _room(ENTRIES)

    def learn(self, x: float, w: float = 1.0) -> None:
        """Learn a finite number with a weight above 0."""
        _check(x, w)
        kernels.insert(float(x), float(w), self._summary)

    def cuts(self, bins: int) -> list[float]:
        """The values that divide the learned weight into `bins` equal parts."""
        bins = whole("bins", bins, 1, ENTRIES)
        cuts = np.zeros(bins - 1)
        kernels.quantile_cuts(self._summary, cuts)
        return cuts.tolist() if self._summary.size[0] else []

    def follow(self, x: Floats, op: NDArray[np.int8], w: Floats, bins: int) -> Codes:
        """The bin of each step's value, or -1. Steps with `op` LEARN are learned first."""
        code = np.empty(x.size, dtype=np.int64)
        kernels.follow_quantiles(x, op, w, self._summary, np.zeros(bins - 1), code)
        return code

    @property
    def error(self) -> float:
        s, n = self._summary, int(self._summary.size[0])
        gaps = [float(s.weight[i] + s.slack[i] - s.own[i]) for i in range(n)]
        return max(0.0, *gaps) / sum(s.weight[:n].tolist()) if n else 0.0

    def merge(self, other: QuantileSketch) -> None:
        """Learn what `other` has learned."""
        both = _room(2 * ENTRIES)
        kernels.unite(self._summary, other._summary, both)
        if both.size[0] > ENTRIES:
            kernels.compress(both, ENTRIES // 2)
        self._take(*(a[: both.size[0]] for a in both[:4]))

    def arrays(self) -> dict[str, Floats]:
        """The entries as arrays."""
        n = int(self._summary.size[0])
        return {name: getattr(self._summary, name)[:n].copy() for name in self.columns}

    def load(self, arrays: dict[str, Floats]) -> None:
        """Load what `arrays` returned."""
        self._take(*(arrays[name] for name in self.columns))

    def _take(self, *columns: Floats) -> None:
        n = columns[0].size
        if n > ENTRIES or any(column.size != n for column in columns):
            raise StateError(f"expected a summary of at most {ENTRIES} entries, got an invalid one")
        self._summary = _room(ENTRIES)
        for mine, column in zip(self._summary[:4], columns, strict=True):
            mine[:n] = column
        self._summary.size[0] = n


class Span:
    """The lowest and the highest number of a stream.

    Examples
    --------
    >>> from stream.preprocessing import Span
    >>> span = Span()
    >>> for x in (1.0, 5.0, 2.0):
    ...     span.learn(x)
    >>> span.cuts(4)
    [2.0, 3.0, 4.0]
    """

    columns: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self) -> None:
        self._ends = np.zeros(2)
        self._size = np.zeros(1, dtype=np.int64)

    def learn(self, x: float, w: float = 1.0) -> None:
        """Learn a finite number. Its weight is ignored."""
        _check(x, w)
        self.follow(np.array([float(x)]), np.array([LEARN], dtype=np.int8), np.array([w]), 2)

    def cuts(self, bins: int) -> list[float]:
        """The values that divide the span into `bins` equal parts."""
        cuts = np.zeros(bins - 1)
        kernels.span_cuts(float(self._ends[0]), float(self._ends[1]), cuts)
        return cuts.tolist() if self._size[0] else []

    def follow(self, x: Floats, op: NDArray[np.int8], w: Floats, bins: int) -> Codes:
        """The bin of each step's value, or -1. Steps with `op` LEARN are learned first."""
        code = np.empty(x.size, dtype=np.int64)
        kernels.follow_span(x, op, self._ends, self._size, np.zeros(bins - 1), code)
        return code

    def merge(self, other: Span) -> None:
        """Learn what `other` has learned."""
        if other._size[0]:
            for x in other._ends.tolist():
                self.learn(x)

    def arrays(self) -> dict[str, Floats]:
        """What it holds."""
        return {"value": self._ends[: 2 * int(self._size[0])].copy()}

    def load(self, arrays: dict[str, Floats]) -> None:
        """Load what `arrays` returned."""
        ends = arrays["value"]
        if ends.size not in (0, 2):
            raise StateError(f"expected the two ends of a span, got {ends.size} numbers")
        self._size[0] = ends.size // 2
        self._ends[: ends.size] = ends


def _room(entries: int) -> Summary:
    value, weight, slack, own = np.zeros((4, entries))
    return Summary(value, weight, slack, own, np.zeros(1, dtype=np.int64))


def _check(x: float, w: float) -> None:
    number("x", x)
    number("w", w, 0.0, HEAVIEST, above=True)
