"""Kernels of bins that are learned.

A summary has values in rising order with bounds of their ranks. With L the sum of `weight` up to an
entry, the learned weight of values not above its value is in [L, L + slack], and at least `own` of
it was learned at exactly that value. Sums run from the lowest entry to the highest, so equal
summaries give equal bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import first_not_below

HALVINGS = 40  # steps of the search for the threshold of a compression


class Summary(NamedTuple):
    """value, weight, slack, own float64 (room,); size int64 (1,): number of used entries."""

    value: NDArray[float64]
    weight: NDArray[float64]
    slack: NDArray[float64]
    own: NDArray[float64]
    size: NDArray[int64]


@kernel
def left_by(s: Any, threshold: float) -> int:
    """Number of entries that `compress` leaves with this threshold (float64)."""
    left, merged, n = 1, 0.0, s.size[0]
    for i in range(1, n):
        merged += s.weight[i]
        if i == n - 1 or merged + s.weight[i + 1] + s.slack[i + 1] - s.own[i + 1] > threshold:
            left += 1
            merged = 0.0
    return left


@kernel
def compress(s: Any, goal: int) -> None:
    """Merge entries into the next above until at most `goal` (>= 2) are left.

    It uses the least threshold of the uncertainty of a merged entry that suffices (Greenwald and
    Khanna 2001, with the threshold searched instead of given). The lowest and the highest value
    stay.
    """
    total, n = 0.0, s.size[0]
    for i in range(n):
        total += s.weight[i]
    low, high = 0.0, 2.0 * total
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if left_by(s, middle) <= goal:
            high = middle
        else:
            low = middle
    k, merged = 1, 0.0
    for i in range(1, n):
        merged += s.weight[i]
        if i == n - 1 or merged + s.weight[i + 1] + s.slack[i + 1] - s.own[i + 1] > high:
            s.value[k], s.weight[k] = s.value[i], merged
            s.slack[k], s.own[k] = s.slack[i], s.own[i]
            k += 1
            merged = 0.0
    s.size[0] = k


@kernel
def insert(x: float, w: float, s: Any) -> None:
    """Learn x with weight w.

    A full summary is compressed before a new value, never after, so that a weight of 2 is exactly
    equal to learning twice.
    """
    i, n = first_not_below(x, s.value, s.size[0]), s.size[0]
    if i < n and s.value[i] == x:
        s.weight[i] += w
        s.own[i] += w
        return
    if n == s.value.shape[0]:
        compress(s, n // 2)
        i, n = first_not_below(x, s.value, s.size[0]), s.size[0]
    slack = 0.0
    if 0 < i < n:
        slack = max(0.0, s.weight[i] + s.slack[i] - s.own[i])
    for k in range(n, i, -1):
        s.value[k], s.weight[k] = s.value[k - 1], s.weight[k - 1]
        s.slack[k], s.own[k] = s.slack[k - 1], s.own[k - 1]
    s.value[i], s.weight[i], s.slack[i], s.own[i] = x, w, slack, w
    s.size[0] = n + 1


@kernel
def quantile_cuts(s: Any, cuts: Any) -> None:
    """The values that divide the weight into equal parts; cuts float64 (bins - 1,).

    Each is the lowest value up to which that part of the weight was learned.
    """
    total, n = 0.0, s.size[0]
    for i in range(n):
        total += s.weight[i]
    bins, k, below = cuts.shape[0] + 1, 0, 0.0
    for i in range(n):
        below += s.weight[i]
        while k < bins - 1 and (below + 0.5 * s.slack[i] >= total * ((k + 1) / bins) or i == n - 1):
            cuts[k] = s.value[i]
            k += 1


@kernel
def span_cuts(low: float, high: float, cuts: Any) -> None:
    """The values that divide [low, high] into equal parts; cuts float64 (bins - 1,)."""
    bins = cuts.shape[0] + 1
    for k in range(bins - 1):
        cuts[k] = low + (high - low) * ((k + 1) / bins)


@kernel
def bin_of(x: float, cuts: Any) -> int:
    """Number of cuts below x: bins are open below and closed above."""
    found = 0
    for k in range(cuts.shape[0]):
        if cuts[k] < x:
            found += 1
    return found


@kernel
def follow_quantiles(x: Any, op: Any, w: Any, s: Any, cuts: Any, code: Any) -> None:
    """The bin of each step's value, or -1. Learning steps are learned first.

    x, w float64 (m,), NaN where missing; op int8 (m,), PREDICT or LEARN; cuts float64 (bins - 1,),
    overwritten; code int64 (m,).
    """
    stale = True
    for i in range(x.shape[0]):
        code[i] = -1
        if x[i] != x[i]:
            continue
        if op[i] != 0:
            insert(x[i], w[i], s)
            stale = True
        if s.size[0] > 0:
            if stale:
                quantile_cuts(s, cuts)
                stale = False
            code[i] = bin_of(x[i], cuts)


@kernel
def follow_span(x: Any, op: Any, ends: Any, size: Any, cuts: Any, code: Any) -> None:
    """`follow_quantiles` for bins of equal width.

    ends float64 (2,): the lowest and the highest learned value; size int64 (1,): 0 before the first
    value.
    """
    for i in range(x.shape[0]):
        code[i] = -1
        if x[i] != x[i]:
            continue
        if op[i] != 0:
            if size[0] == 0 or x[i] < ends[0]:
                ends[0] = x[i]
            if size[0] == 0 or x[i] > ends[1]:
                ends[1] = x[i]
            size[0] = 1
        if size[0] > 0:
            span_cuts(ends[0], ends[1], cuts)
            code[i] = bin_of(x[i], cuts)


@kernel
def unite(a: Any, b: Any, out: Any) -> None:
    """Merge two summaries into `out`, which has room for the entries of both.

    A value that only one summary has is between two entries of the other: the uncertainty of the
    upper entry is added to its slack.
    """
    i, j, k = 0, 0, 0
    while i < a.size[0] or j < b.size[0]:
        in_a = i < a.size[0] and (j == b.size[0] or a.value[i] <= b.value[j])
        in_b = j < b.size[0] and (i == a.size[0] or b.value[j] <= a.value[i])
        out.weight[k], out.slack[k], out.own[k] = 0.0, 0.0, 0.0
        if in_a:
            out.value[k] = a.value[i]
            out.weight[k] += a.weight[i]
            out.slack[k] += a.slack[i]
            out.own[k] += a.own[i]
        elif i < a.size[0]:
            out.slack[k] += max(0.0, a.weight[i] + a.slack[i] - a.own[i])
        if in_b:
            out.value[k] = b.value[j]
            out.weight[k] += b.weight[j]
            out.slack[k] += b.slack[j]
            out.own[k] += b.own[j]
        elif j < b.size[0]:
            out.slack[k] += max(0.0, b.weight[j] + b.slack[j] - b.own[j])
        i += in_a
        j += in_b
        k += 1
    out.size[0] = k
