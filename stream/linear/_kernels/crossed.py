"""Kernels of bins and pairs: the indicators that depend on what was learned before a step."""

from __future__ import annotations

from math import isnan
from typing import Any, NamedTuple

from numpy import empty, float64, int64, uint64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, scale_down
from stream.quantiles._kernels import Summary, compress, insert, unite

Floats = NDArray[float64]

MOST_PAIRED = 16  # values of a record that are paired with each other
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Knuth's multiplicative hashing
BUCKET_BITS = 20
SHARE = 1.0 / 128.0  # of its weight, for which a number that has much of it learns one value
FEW = 32  # values of a summary, up to which each new one moves the bins
SELDOM = 0.25  # the share of later ones that do
TURN = 0.6180339887498949  # the golden ratio: its multiples are spread evenly between 0 and 1


class Bins(NamedTuple):
    """Bins of D numbers, float64 unless noted; none of a number if b is 0.

    value, weight, slack, own (D, E), size int64 (D,): a `Summary` of each. n (D,): the learned
    weight; waiting (D,): that which the summary does not have yet; turn (D,): from 0 to 1, when it
    learns the next value. cut (D, b - 1): where the bins end.
    """

    value: Floats
    weight: Floats
    slack: Floats
    own: Floats
    size: NDArray[int64]
    n: Floats
    waiting: Floats
    turn: Floats
    cut: Floats


@kernel
def summary(b: Any, j: int) -> Any:
    """That of number j, as views."""
    return Summary(b.value[j], b.weight[j], b.slack[j], b.own[j], b.size[j : j + 1])


@kernel
def even_cuts(s: Any, cuts: Any) -> None:
    """Where bins of about equal weight end; cuts float64 (bins - 1,). s: a `Summary` of weight.

    A value with more weight has a bin of its own, and the other bins share the rest: of amounts
    that are mostly 0, most bins are for the others.
    """
    left, k, here, n = 0.0, 0, 0.0, s.size[0]
    for i in range(n):
        left += s.weight[i]
    share = left / (cuts.shape[0] + 1)
    for i in range(n):
        if here > 0.0 and here + s.weight[i] - share > share - here:  # nearer without this value
            cuts[k] = s.value[i - 1]
            left -= here
            k, here = k + 1, 0.0
            if k == cuts.shape[0]:
                break
            share = left / (cuts.shape[0] + 1 - k)
        here += s.weight[i]
    for j in range(k, cuts.shape[0]):
        cuts[j] = s.value[n - 1]


@kernel
def sample(x: float, j: int, b: Any) -> None:
    """Have the summary of number j learn x with all weight that waits."""
    found = summary(b, j)
    insert(x, b.waiting[j], found)
    b.waiting[j] = 0.0
    b.turn[j] = (b.turn[j] + TURN) % 1.0
    if found.size[0] <= FEW or b.turn[j] < SELDOM:
        even_cuts(found, b.cut[j])


@kernel
def fade(unit: Any, growth: float, b: Any) -> None:
    """Advance the unit by one record, with the weights."""
    if growth != 1.0 and advance(unit, growth):
        for table in (b.weight, b.slack, b.own):
            scale_down(table)
        for j in range(b.n.shape[0]):
            b.n[j] /= LARGEST_UNIT
            b.waiting[j] /= LARGEST_UNIT


@kernel
def learn_row(x: Any, r: int, w: float, source: Any, column: Any, b: Any) -> None:
    """Learn row r of x. source, column: as in `standardise`.

    The summary of a number learns a value once 1/128 of the weight waits, times 0.5 to 1.5 in turn:
    at equal distances it might learn only the values of one hour of the day."""
    n, waiting, turn = b.n, b.waiting, b.turn
    for k in range(source.shape[0]):
        value, j = x[r, source[k]], column[k]
        if isnan(value):
            continue
        n[j] += w
        waiting[j] += w
        if waiting[j] >= n[j] * SHARE * (0.5 + turn[j]):
            sample(value, j, b)


@kernel
def merge_number(mine: Any, i: int, theirs: Any, k: int) -> None:
    """Add number k of theirs, a `Bins`, to number i of mine."""
    one, other = summary(mine, i), summary(theirs, k)
    if other.size[0] == 0:
        return
    entries = mine.value.shape[1]
    value, weight = empty(2 * entries), empty(2 * entries)
    slack, own = empty(2 * entries), empty(2 * entries)
    both = Summary(value, weight, slack, own, empty(1, int64))
    unite(one, other, both)
    if both.size[0] > entries:
        compress(both, entries // 2)
    for e in range(both.size[0]):
        one.value[e], one.weight[e] = both.value[e], both.weight[e]
        one.slack[e], one.own[e] = both.slack[e], both.own[e]
    one.size[0] = both.size[0]
    mine.n[i] += theirs.n[k]
    mine.waiting[i] += theirs.waiting[k]
    even_cuts(one, mine.cut[i])


@kernel
def pair_bucket(a: int, b: int) -> int:
    """The bucket of two values at once, by their buckets in any order."""
    key = (uint64(min(a, b)) << uint64(BUCKET_BITS)) | uint64(max(a, b))
    return int((key * uint64(GOLDEN)) >> uint64(64 - BUCKET_BITS))


@kernel
def add_pairs(values: Any, found: int, out: Any, at: int) -> int:
    """Write the pairs of the first MOST_PAIRED of values[:found] to out[at:]; return the end."""
    for i in range(min(found, MOST_PAIRED)):
        for k in range(i):
            out[at] = pair_bucket(values[k], values[i])
            at += 1
    return at


@kernel
def cross(
    op: Any,
    row: Any,
    w: Any,
    x: Any,
    source: Any,
    column: Any,
    unit: Any,
    growth: float,
    b: Any,
    bins: Any,
    category: Any,
    order: Any,
    pairs: bool,
    plain: Any,
    bag: Any,
    bucket: Any,
    start: Any,
    out: Any,
) -> None:
    """Write the indicators of each step: those of its row, the bins of its numbers, and pairs; and
    learn the bins.

    op int8, row int64, w float64 (m,): as in `Block`. x float64 (n, p), source, column int64 (q,):
    as in `standardise`. unit float64 (1,): a copy, which advances here as it will in the state.
    b: `Bins`; they learn. bins int64 (q, b) or (q, 0): the bucket of each bin of a number. category
    int64 (rows used, c): the bucket of each category, -1 if missing. order int64 (q + c,): numbers,
    then categories, by name. The indicators of a row are bucket[plain[bag[i]]] …
    bucket[plain[bag[i] + 1] - 1]; those of step i become out[start[i]] … out[start[i + 1] - 1], all
    int64.
    """
    values, at, binned = empty(order.shape[0], int64), 0, bins.shape[1] > 0
    learned, cut = b.n, b.cut
    for i in range(op.shape[0]):
        r = bag[i]
        for k in range(plain[r], plain[r + 1]):
            out[at] = bucket[k]
            at += 1
        found = 0
        for field in order:
            k = field - source.shape[0]
            if k >= 0 and category[r, k] >= 0:
                values[found] = category[r, k]
                found += 1
            elif k < 0 and binned:
                value, j = x[row[i], source[field]], column[field]
                if isnan(value) or learned[j] <= 0.0:
                    continue
                below = 0  # few cuts; a search by halves would be slow, as it cannot be foreseen
                for c in range(cut.shape[1]):
                    below += cut[j, c] < value
                values[found] = bins[field, below]
                out[at] = values[found]
                at, found = at + 1, found + 1
        if pairs:
            at = add_pairs(values, found, out, at)
        start[i + 1] = at
        if op[i] != 0 and binned:
            fade(unit, growth, b)
            learn_row(x, row[i], w[i] * unit[0], source, column, b)
