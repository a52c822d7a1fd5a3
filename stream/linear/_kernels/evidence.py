"""Kernels of SpamScorer: the evidence of the views of a record in two memories, and its sum."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numpy import empty, float32, float64, int64, true_divide, uint32, uint64
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.linear._kernels.prefetch import prefetch

Floats = NDArray[float64]
Singles = NDArray[float32]

SLOW, FAST = 0, 1  # the two memories
MEMORIES = 2
NAIVE = 0.8  # the share of the naive-Bayes log-odds at which a weight starts
SEEN = 0.25  # records in which every feature counts as seen, divided by the shares of the classes
PSEUDO = 0.5  # records of each class in the prior
# The fast memory counts as sigmoid(TRUST · (losses of the slow one - of the fast one) + AT_REST),
# where a loss is the faded sum of log losses.
TRUST, AT_REST = 0.2, -5.0
ENOUGH = 4.0  # the bias of a view counts in full if one of so many features is known
HEAVIEST = 100.0  # weight of a view in the sum
EIGHT = 8  # numbers of a feature if there are two classes
AHEAD = 16  # keys between a prefetch and the use of what it brings
LARGEST_UNIT = 2.0**16  # above it, counts and squares are divided by it, which is exact
TOGETHER = 32  # ratios that are multiplied before a logarithm is taken; no product underflows


class Evidence(NamedTuple):
    """State of C classes, at least 2, in K columns: one (class 1 against class 0) if C is 2, else
    one for each class (against the others). There are two memories, a slow and a fast one.

    key uint32 (S,): a hash table with linear probing; S is a power of two, 0 marks a free place.
    cell float32 (S, 2C + 4K): of the feature in that place, for each memory its weight of records
    in each class; then for each memory and column the weight of the feature and its sum of squared
    gradients. Float64 unless noted: totals (2, C): the weight learned of each class. bias (VIEWS,
    K). slope, slope_squares (VIEWS,): the weight of each view in the sum, and its sum of squared
    gradients. final, final_squares (K,): the bias of the sum. unit (2,): the present value of a
    weight of 1 learned last. losses (2,): faded sums of the losses of each memory. surprise (2,):
    sums, which fade soon and late, of how much labels contradicted the evidence.

    The newest N learned records are noted in a ring, so that a correction can take back what their
    labels did: note_key int64 (N,), which record and class; float32 note_count (N, 2), what it
    added to counts; note_pull (N, 2, VIEWS, K), gradients times the root of the unit; note_slope
    (N, VIEWS), note_bias (N, VIEWS, K) and note_final (N, K), the steps.

    int64 (1,): size, features in the table; cut, truncated texts; evicted, features evicted from
    the table; noted, records ever noted; records, learned; refused, features for which the table
    had no room.
    """

    key: NDArray[uint32]
    cell: Any
    totals: Any
    bias: Floats
    slope: Floats
    slope_squares: Floats
    final: Floats
    final_squares: Floats
    unit: Floats
    losses: Floats
    surprise: Floats
    note_key: NDArray[int64]
    note_count: Singles
    note_pull: Singles
    note_slope: Singles
    note_bias: Singles
    note_final: Singles
    size: NDArray[int64]
    cut: NDArray[int64]
    evicted: NDArray[int64]
    noted: NDArray[int64]
    records: NDArray[int64]
    refused: NDArray[int64]


@inlined
def place_of(k: Any, key: Any) -> Any:
    """The place of the key k, or the free place where it belongs.

    The loop has one condition, since the answer to one is predictable, and to two is not.
    """
    mask = uint64(key.shape[0] - 1)
    p = uint64(k) & mask
    while (key[p] != uint32(0)) & (key[p] != k):
        p = (p + uint64(1)) & mask
    return int64(p)


@kernel
def insert(keys: Any, cells: Any, key: Any, cell: Any) -> None:
    """Put keys uint32 (n,), except 0, and cells float32 (n, any) into a table without them."""
    mask, n = uint64(key.shape[0] - 1), keys.shape[0]
    for i in range(n):
        if i + AHEAD < n:
            q = int64(uint64(keys[i + AHEAD]) & mask)
            prefetch(key, q)
            prefetch(cell, q)
        if keys[i] != uint32(0):
            p = place_of(keys[i], key)
            key[p] = keys[i]
            for j in range(cells.shape[1]):
                cell[p, j] = cells[i, j]


@inlined
def sigmoid(x: float) -> Any:
    """1 / (1 + exp(-x))."""
    if x >= 0.0:
        return true_divide(1.0, 1.0 + exp(-x))
    return exp(x) / (1.0 + exp(x))


@inlined
def rest_of(own: int, table: Any) -> float:
    """The sum of table float64 (C,) over the classes other than `own`."""
    rest = 0.0
    for j in range(table.shape[0]):
        if j != own:
            rest += table[j]
    return rest


@inlined
def prior(own: int, totals: Any, unit: Any) -> float:
    """The log-odds of class `own` against the others without features, by the slow memory."""
    t, rest = totals[SLOW, own], rest_of(own, totals[SLOW])
    return log((t + PSEUDO * unit[SLOW]) / (rest + PSEUDO * unit[SLOW]))


@inlined
def fast_share(losses: Any) -> Any:
    """How much the fast memory counts, by the recent losses of both."""
    return sigmoid(TRUST * (losses[SLOW] - losses[FAST]) + AT_REST)


@inlined
def read_eight(place: Any, n: int, cell: Any, found: Any) -> None:
    """`read` of two classes, without a loop over columns and without branches."""
    for i in range(n):
        at, q = uint64(i), uint64(max(place[uint64(i)], 0))
        known = float32(place[uint64(i)] >= 0)
        found[uint64(0), at] = known * cell[q, uint64(0)]
        found[uint64(1), at] = known * cell[q, uint64(1)]
        found[uint64(2), at] = known * cell[q, uint64(2)]
        found[uint64(3), at] = known * cell[q, uint64(3)]
        found[uint64(4), at] = known * cell[q, uint64(4)]
        found[uint64(5), at] = known * cell[q, uint64(5)]
        found[uint64(6), at] = known * cell[q, uint64(6)]
        found[uint64(7), at] = known * cell[q, uint64(7)]


@kernel
def read(place: Any, n: int, cell: Any, found: Any) -> None:
    """Copy the cells of the features place[:n] int64, -1 if unknown, to found float32 (2C + 4K,
    any): what follows reads them in their order."""
    if cell.shape[1] == EIGHT:
        read_eight(place, n, cell, found)
        return
    for i in range(n):
        p, at = place[uint64(i)], uint64(i)
        if p < 0:
            for j in range(cell.shape[1]):
                found[uint64(j), at] = float32(0.0)
        else:
            for j in range(cell.shape[1]):
                found[uint64(j), at] = cell[uint64(p), uint64(j)]


@kernel
def write(place: Any, n: int, cell: Any, found: Any) -> None:
    """Copy back what `read` has copied."""
    for i in range(n):
        p, at = place[uint64(i)], uint64(i)
        if p >= 0:
            if cell.shape[1] == EIGHT:
                cell[uint64(p), uint64(0)] = found[uint64(0), at]
                cell[uint64(p), uint64(1)] = found[uint64(1), at]
                cell[uint64(p), uint64(2)] = found[uint64(2), at]
                cell[uint64(p), uint64(3)] = found[uint64(3), at]
                cell[uint64(p), uint64(4)] = found[uint64(4), at]
                cell[uint64(p), uint64(5)] = found[uint64(5), at]
                cell[uint64(p), uint64(6)] = found[uint64(6), at]
                cell[uint64(p), uint64(7)] = found[uint64(7), at]
            else:
                for j in range(cell.shape[1]):
                    cell[uint64(p), uint64(j)] = found[uint64(j), at]


@inlined
def weight_of(memory: int, c: int, classes: int, columns: int) -> int:
    """The row of `found` with the weights of a column in a memory; squares are in the next."""
    return MEMORIES * classes + 2 * (memory * columns + c)


@kernel
def ratios(found: Any, n: int, own: int, memory: int, totals: Any, unit: float, out: Any) -> None:
    """Naive-Bayes odds of found[:, :n] for the class `own` in a memory, to out[:n] float32.

    totals float64 (C,), unit: of the memory.
    """
    t, rest, classes = totals[own], rest_of(own, totals), totals.shape[0]
    per_own, per_rest = float32(1.0 / (t + PSEUDO * unit)), float32(1.0 / (rest + PSEUDO * unit))
    floor = float32(SEEN * unit / (t + rest + 2.0 * PSEUDO * unit))
    first = memory * classes
    mine = found[first + own]
    if classes == 2:
        others = found[first + 1 - own]
        for i in range(n):
            k = uint64(i)
            out[k] = true_divide(mine[k] * per_own + floor, others[k] * per_rest + floor)
        return
    for i in range(n):
        k, other = uint64(i), float32(0.0)
        for j in range(classes):
            if j != own:
                other += found[uint64(first + j), k]
        out[k] = true_divide(mine[k] * per_own + floor, other * per_rest + floor)


@kernel
def seen_in(found: Any, begin: int, end: int, memory: int, classes: int, out: Any) -> Any:
    """The weight of records with each feature of found[:, begin:end] in a memory, to out[begin:end]
    float32; how many are above 0."""
    known, first = int64(0), memory * classes
    for i in range(begin, end):
        k, total = uint64(i), float32(0.0)
        for j in range(classes):
            total += found[uint64(first + j), k]
        out[k] = total
        known += total > float32(0.0)
    return known


@kernel
def evidence(ratio: Any, weight: Any, begin: int, end: int) -> float:
    """Σ weight + NAIVE · Σ log(ratio), both float32 (any,), from begin to end; four sums at once,
    since one would wait for each addition."""
    a0 = a1 = a2 = a3 = 1.0
    t0 = t1 = t2 = t3 = logs = 0.0
    first = begin
    while first < end:
        last = min(first + TOGETHER, end)
        fours = first + (last - first) // 4 * 4
        for i in range(first, fours, 4):
            k = uint64(i)
            a0 *= ratio[k]
            a1 *= ratio[k + uint64(1)]
            a2 *= ratio[k + uint64(2)]
            a3 *= ratio[k + uint64(3)]
            t0 += weight[k]
            t1 += weight[k + uint64(1)]
            t2 += weight[k + uint64(2)]
            t3 += weight[k + uint64(3)]
        for i in range(fours, last):
            a0 *= ratio[uint64(i)]
            t0 += weight[uint64(i)]
        logs += log((a0 * a1) * (a2 * a3))
        a0 = a1 = a2 = a3 = 1.0
        first = last
    return (t0 + t1) + (t2 + t3) + NAIVE * logs


@kernel
def scores(found: Any, start: Any, r: int, s: Any, known: int, z: Any, out: Any) -> None:
    """The evidence of each view and column, z float64 (3, VIEWS, K): of the slow memory, of the
    fast one, and of both. out float64 (2, C): the posteriors, and those with equal class shares.

    found: of `read`, with one row more for what is computed. View v of row r begins at
    start[r · VIEWS + v].
    """
    columns, views, first = s.bias.shape[1], s.bias.shape[0], start[r * s.bias.shape[0]]
    classes, share, scratch = s.totals.shape[1], fast_share(s.losses), found[found.shape[0] - 1]
    n = start[r * views + views] - first
    for c in range(columns):
        own = 1 if columns == 1 else c
        for v in range(views):
            begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
            z[SLOW, v, c] = 0.0
            if end > begin:
                told = seen_in(found, begin, end, SLOW, classes, scratch)
                z[SLOW, v, c] = s.bias[v, c] * min(ENOUGH * told / (end - begin), 1.0)
            z[FAST, v, c] = 0.0
        for m in range(MEMORIES):
            weight = found[weight_of(m, c, classes, columns)]
            ratios(found, n, own, m, s.totals[m], s.unit[m], scratch)
            for v in range(views):
                begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
                if end > begin:
                    e = evidence(scratch, weight, begin, end)
                    z[m, v, c] += e / sqrt(float64(end - begin))
        f = 0.0
        for v in range(views):
            z[2, v, c] = (1.0 - share) * z[SLOW, v, c] + share * z[FAST, v, c]
            f += s.slope[v] * z[2, v, c]
        out[0, c] = f + prior(own, s.totals, s.unit) + s.final[c]
        out[1, c] = f
    for k in range(2):
        posteriors(out[k], columns, known)


@inlined
def posteriors(out: Any, columns: int, known: int) -> None:
    """Turn the scores of columns, out float64 (C,), into the probabilities of the known classes."""
    if columns > 1:
        softmax(out, known)
    else:
        f = out[0]
        out[0], out[1] = sigmoid(-f), sigmoid(f)
        if known == 1:
            out[0], out[1] = 1.0, 0.0


@inlined
def softmax(out: Any, known: int) -> None:
    """Turn the scores out float64 (C,), each twice a log probability, into probabilities."""
    top, total = -inf, 0.0
    for c in range(known):
        top = max(top, out[c])
    for c in range(known):
        out[c] = exp(0.5 * (out[c] - top))
        total += out[c]
    for c in range(known):
        out[c] /= total


@kernel
def find(keys: Any, begin: int, end: int, key: Any, cell: Any, place: Any) -> int:
    """place int64: of each of keys[begin:end] in the table, -1 if it is not there; returns how many
    are not. Their cells are prefetched, which takes less than half the time, and so are places of
    the keys that follow, also those of the next record."""
    fresh, mask, last = 0, uint64(key.shape[0] - 1), keys.shape[0]
    for k in range(begin, end):
        if k + AHEAD < last:
            prefetch(key, int64(uint64(keys[uint64(k + AHEAD)]) & mask))
        p = place_of(keys[uint64(k)], key)
        prefetch(cell, p)
        there = key[uint64(p)] != uint32(0)
        place[uint64(k - begin)] = p if there else -1
        fresh += not there
    return fresh


@kernel
def admit(keys: Any, first: int, end: int, room: int, s: Any, place: Any) -> None:
    """Give those of keys[first:end] a place that have none, as long as there is room."""
    key, size, refused = s.key, s.size, s.refused
    for k in range(first, end):
        if place[k - first] >= 0:
            continue
        p = place_of(keys[k], key)
        if key[p] == uint32(0):
            if size[0] >= room:
                refused[0] += 1
                continue
            size[0] += 1
            key[p] = keys[k]
        place[k - first] = p


@inlined
def longest(start: Any, views: int) -> Any:
    """The most features of a row."""
    most = 0
    for r in range(start.shape[0] // views):
        most = max(most, start[(r + 1) * views] - start[r * views])
    return most


@kernel
def terms(place: Any, view: Any, m: Any, c: int, s: Any, out: Any) -> None:
    """The parts of the score of column c: out float64 (1 + VIEWS + n,).

    The class shares with the bias of the sum; the bias of each view as far as its features are
    known; the features place int64 (n,), -1 if unknown, of view[i] int64, each scaled. m int64
    (VIEWS,): features of a view.
    """
    columns, views, n = s.bias.shape[1], s.bias.shape[0], place.shape[0]
    own, classes, share = (1 if columns == 1 else c), s.totals.shape[1], fast_share(s.losses)
    found = empty((s.cell.shape[1] + 1, n), float32)
    read(place, n, s.cell, found)
    scratch = found[found.shape[0] - 1]
    out[0] = prior(own, s.totals, s.unit) + s.final[c]
    out[1:] = 0.0
    seen_in(found, 0, n, SLOW, classes, scratch)
    for i in range(n):
        if scratch[uint64(i)] > float32(0.0):
            out[1 + view[i]] += 1.0
    root = empty(views)
    for v in range(views):
        root[v] = sqrt(float64(m[v]))
        if m[v] > 0:
            told = min(ENOUGH * out[1 + v] / m[v], 1.0)
            out[1 + v] = (1.0 - share) * s.slope[v] * s.bias[v, c] * told
    for memory in range(MEMORIES):
        weight = found[weight_of(memory, c, classes, columns)]
        ratios(found, n, own, memory, s.totals[memory], s.unit[memory], scratch)
        part = share if memory == FAST else 1.0 - share
        for i in range(n):
            k = uint64(i)
            e = float64(weight[k]) + NAIVE * log(float64(scratch[k]))
            out[uint64(1 + views) + k] += part * s.slope[view[k]] * e / root[view[k]]
