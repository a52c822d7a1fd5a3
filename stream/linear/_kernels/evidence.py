"""Kernels of SpamScorer: logistic regressions over views of a record, and their weighted sum."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numpy import empty, float32, float64, int64, true_divide, uint32, uint64
from numpy import sqrt as sqrt32
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.linear._kernels.prefetch import prefetch

Floats = NDArray[float64]

RATE = 0.8  # the length of the first step of a weight
DAMPING = 1e-3  # added to each sum of squared gradients: small first gradients make small steps
BIAS_RATE = 0.2  # of a view's bias, which follows the stream for ever
NAIVE = 0.8  # the share of the naive-Bayes log-odds at which a weight starts
SEEN = 0.5  # records in which every feature counts as seen, divided by the shares of the classes
PSEUDO = 0.5  # records of each class in the prior
SUM_RATE, SUM_DAMPING = 0.03, 1.0  # of the weights of the sum and of its bias
DECAY = 0.002  # of a weight, at each record with its feature
# A change of the stream: losses rise above TWICE their mean. What was learned before then counts
# less (CUSUM, Page 1954).
WORST_LOSS = 2.0  # of one record
USUAL, USUALLY = 0.69, 20.0  # the mean loss with which a scorer begins, and records it counts as
TWICE, SLACK = 2.0, 0.05  # a change is a loss above TWICE · mean + SLACK
ENOUGH = 8.0  # sum of such excess losses
KEPT_RECORDS, KEPT_WEIGHTS = 0.125, 0.25  # of counts and squares, and of weights and biases
HEAVIEST = 100.0  # weight of a view in the sum
LEAST = 1e-300  # probability of which a logarithm is taken
LARGEST = 1e32  # of a sum of squared gradients, so that it stays finite in 32 bits
FOUR = 4  # numbers of a feature if there are two classes
AHEAD = 16  # keys between a prefetch and the use of what it brings
LARGEST_UNIT = 2.0**16  # above it, counts and squares are divided by it, which is exact
TOGETHER = 32  # ratios that are multiplied before a logarithm is taken; no product underflows


class Evidence(NamedTuple):
    """State of C classes, at least 2, in K columns: one (class 1 against class 0) if C is 2, else
    one for each class (against the others).

    key uint32 (S,): a hash table with linear probing; S is a power of two, 0 marks a free place.
    cell float32 (S, C + 2K): of the feature in that place, its weight of records in each class, and
    the weight of the feature and its sum of squared gradients in each column. Float64 unless noted:
    totals (C,): the weight learned of each class. bias (VIEWS, K). slope, slope_squares (VIEWS,):
    the weight of each view in the sum, and its sum of squared gradients. final, final_squares (K,):
    the bias of the sum. unit (1,): the present value of a weight of 1 learned last. losses (3,):
    excess losses, and faded sums of losses and of records. int64 (1,): size, features in the table;
    changes, detected changes of the stream; cut, truncated texts; evicted, features evicted from
    the table; records, learned; refused, features for which the table had no room.
    """

    key: NDArray[uint32]
    cell: Any
    totals: Floats
    bias: Floats
    slope: Floats
    slope_squares: Floats
    final: Floats
    final_squares: Floats
    unit: Floats
    losses: Floats
    size: NDArray[int64]
    changes: NDArray[int64]
    cut: NDArray[int64]
    evicted: NDArray[int64]
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
def prior(own: int, totals: Any, unit: float) -> float:
    """The log-odds of class `own` against the others without features."""
    return log((totals[own] + PSEUDO * unit) / (rest_of(own, totals) + PSEUDO * unit))


@inlined
def read_four(place: Any, n: int, cell: Any, found: Any) -> None:
    """`read` of two classes, without a loop over columns and without branches."""
    for i in range(n):
        at, q = uint64(i), uint64(max(place[uint64(i)], 0))
        known = float32(place[uint64(i)] >= 0)
        found[uint64(0), at] = known * cell[q, uint64(0)]
        found[uint64(1), at] = known * cell[q, uint64(1)]
        found[uint64(2), at] = known * cell[q, uint64(2)]
        found[uint64(3), at] = known * cell[q, uint64(3)]


@kernel
def read(place: Any, n: int, cell: Any, found: Any) -> None:
    """Copy the cells of the features place[:n] int64, -1 if unknown, to found float32 (C + 2K,
    any): what follows reads them in their order."""
    if cell.shape[1] == FOUR:
        read_four(place, n, cell, found)
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
    if cell.shape[1] == FOUR:
        for i in range(n):
            p, at = place[uint64(i)], uint64(i)
            if p >= 0:
                cell[uint64(p), uint64(0)] = found[uint64(0), at]
                cell[uint64(p), uint64(1)] = found[uint64(1), at]
                cell[uint64(p), uint64(2)] = found[uint64(2), at]
                cell[uint64(p), uint64(3)] = found[uint64(3), at]
        return
    for i in range(n):
        p = place[uint64(i)]
        if p >= 0:
            for j in range(cell.shape[1]):
                cell[uint64(p), uint64(j)] = found[uint64(j), uint64(i)]


@kernel
def ratios(found: Any, begin: int, end: int, own: int, totals: Any, unit: float, out: Any) -> None:
    """Naive-Bayes odds of found[:, begin:end] for the class `own`, to out[begin:end] float32."""
    t, rest, classes = totals[own], rest_of(own, totals), totals.shape[0]
    per_own, per_rest = float32(1.0 / (t + PSEUDO * unit)), float32(1.0 / (rest + PSEUDO * unit))
    floor = float32(SEEN * unit / (t + rest + 2.0 * PSEUDO * unit))
    mine = found[own]
    if classes == 2:
        others = found[1 - own]
        for i in range(begin, end):
            k = uint64(i)
            out[k] = true_divide(mine[k] * per_own + floor, others[k] * per_rest + floor)
        return
    for i in range(begin, end):
        k, other = uint64(i), float32(0.0)
        for j in range(classes):
            if j != own:
                other += found[uint64(j), k]
        out[k] = true_divide(mine[k] * per_own + floor, other * per_rest + floor)


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
    """The evidence of each view and column, z float64 (VIEWS, K), and posteriors out float64 (C,).

    found: of `read`, with one row more for what is computed. View v of row r begins at
    start[r · VIEWS + v].
    """
    _, _, totals, bias, slope, _, final = s[:7]
    columns, views, unit, first = bias.shape[1], bias.shape[0], s.unit[0], start[r * bias.shape[0]]
    ratio = found[found.shape[0] - 1]
    for c in range(columns):
        own = 1 if columns == 1 else c
        weight = found[totals.shape[0] + 2 * c]
        ratios(found, 0, start[r * views + views] - first, own, totals, unit, ratio)
        f = prior(own, totals, unit) + final[c]
        for v in range(views):
            begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
            z[v, c] = 0.0
            if end > begin:
                e = evidence(ratio, weight, begin, end)
                z[v, c] = bias[v, c] + e / sqrt(float64(end - begin))
                f += slope[v] * z[v, c]
        out[c] = f
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


@inlined
def learn_sum(y: int, w: float, z: Any, p: Any, start: Any, r: int, s: Any) -> None:
    """Move the weights of the views and the bias of the sum by the log loss; p float64 (C,)."""
    slope, slope_squares, final, final_squares = s[4:8]
    views, columns = z.shape
    half = 1.0 if columns == 1 else 0.5
    for v in range(views):
        if start[r * views + v + 1] == start[r * views + v]:
            continue
        g = 0.0
        for c in range(columns):
            own = 1 if columns == 1 else c
            g += half * w * ((1.0 if y == own else 0.0) - p[own]) * z[v, c]
        slope_squares[v] += g * g
        moved = slope[v] + SUM_RATE * g / sqrt(slope_squares[v] + SUM_DAMPING)
        slope[v] = min(max(moved, 0.0), HEAVIEST)
    for c in range(columns):
        own = 1 if columns == 1 else c
        g = half * w * ((1.0 if y == own else 0.0) - p[own])
        final_squares[c] += g * g
        final[c] += SUM_RATE * g / sqrt(final_squares[c] + SUM_DAMPING)


@kernel
def learn_view(weight: Any, squares: Any, begin: int, end: int, g: float, unit: float) -> None:
    """Move weight[begin:end] by the gradient g; squares: their sums of squared gradients."""
    squared, damping = float32(min(g * g * unit, LARGEST)), float32(DAMPING * unit)
    step, left, largest = float32(RATE * g * sqrt(unit)), float32(1.0 - DECAY), float32(LARGEST)
    for i in range(begin, end):
        k = uint64(i)
        total = min(squares[k] + squared, largest)
        squares[k] = total
        weight[k] = weight[k] * left + true_divide(step, sqrt32(total + damping))


@kernel
def fade(key: Any, cell: Any, totals: Any) -> None:
    """Divide counts and sums of squares by LARGEST_UNIT, as the unit was."""
    classes = totals.shape[0]
    for c in range(classes):
        totals[c] /= LARGEST_UNIT
    for p in range(key.shape[0]):
        if key[p] != uint32(0):
            for c in range(classes):
                cell[p, c] /= LARGEST_UNIT
            for j in range(classes + 1, cell.shape[1], 2):
                cell[p, j] /= LARGEST_UNIT


@inlined
def is_change(loss: float, w: float, growth: float, losses: Any) -> bool:
    """Count the loss of a record of weight w; whether the stream has changed."""
    w, loss = min(w, 1.0), min(loss, WORST_LOSS)
    mean = (losses[1] + USUAL * USUALLY) / (losses[2] + USUALLY)
    losses[0] = max(losses[0] + w * (loss - TWICE * mean - SLACK), 0.0)
    losses[1] = losses[1] / growth + w * loss
    losses[2] = losses[2] / growth + w
    if losses[0] <= ENOUGH:
        return False
    losses[:] = 0.0
    return True


@kernel
def forget(s: Any) -> None:
    """Let all that was learned count less, since the stream has changed."""
    key, cell, totals, bias = s[:4]
    s.changes[0] += 1
    s.unit[0] /= KEPT_RECORDS
    bias *= KEPT_WEIGHTS
    for p in range(key.shape[0]):
        if key[p] != uint32(0):
            for j in range(totals.shape[0], cell.shape[1], 2):
                cell[p, j] *= KEPT_WEIGHTS


@kernel
def learn(
    y: int,
    w: float,
    growth: float,
    place: Any,
    found: Any,
    start: Any,
    r: int,
    z: Any,
    p: Any,
    s: Any,
) -> None:
    """Learn a record whose features are in the table, as far as there is room.

    z, p: of `scores`, for all classes with y. growth: of the unit.
    """
    key, cell, totals, bias = s[:4]
    views, columns = z.shape
    first, unit, classes = start[r * views], s.unit, totals.shape[0]
    learn_sum(y, w, z, p, start, r, s)
    for c in range(columns):
        own = 1 if columns == 1 else c
        base, at = prior(own, totals, unit[0]), classes + 2 * c
        for v in range(views):
            begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
            if end > begin:
                error = (1.0 if y == own else 0.0) - sigmoid(base + z[v, c])
                bias[v, c] += min(BIAS_RATE * w, 1.0) * error
                g = w * error / sqrt(float64(end - begin))
                learn_view(found[at], found[at + 1], begin, end, g, unit[0])
    unit[0] *= growth
    add = w * unit[0]
    totals[y] += add
    of_class, n = found[y], start[r * views + views] - first
    for i in range(n):
        of_class[uint64(i)] += float32(add)
    write(place, n, cell, found)
    if is_change(-log(max(p[y], LEAST)), w, growth, s.losses):
        forget(s)
    if unit[0] > LARGEST_UNIT:
        unit[0] /= LARGEST_UNIT
        fade(key, cell, totals)


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
def predict(
    i: int,
    op: Any,
    bag: Any,
    key: Any,
    start: Any,
    at: Any,
    room: int,
    s: Any,
    proba: Any,
    seen: Any,
    work: Any,
) -> Any:
    """The first half of step i of `progressive`, with a prediction if it predicts.

    work: place int64 and found float32 of `read`, p float64 (C,) and z float64 (VIEWS, K). Returns
    how many of its features are new, or -1 if they need room.
    """
    place, found, p, z = work
    views = s.bias.shape[0]
    r, known = bag[i], at[3]
    first, end = start[r * views], start[r * views + views]
    fresh = find(key, first, end, s.key, s.cell, place)
    if op[i] != 0 and s.size[0] + fresh > room and at[4] != i + 1:
        at[5] = fresh
        return -1
    read(place, end - first, s.cell, found)
    if known > 0:
        scores(found, start, r, s, known, z, p)
    if op[i] != 1 and at[1] == 0:
        for c in range(known):
            proba[at[2], c] = p[c]
        seen[at[2]] = known
        at[2] += 1
        at[1] = 1
    return fresh


@kernel
def learn_step(
    i: int,
    bag: Any,
    y: Any,
    w: Any,
    cut: Any,
    key: Any,
    start: Any,
    growth: float,
    at: Any,
    room: int,
    s: Any,
    fresh: int,
    work: Any,
) -> None:
    """The second half of step i of `progressive`, if it learns a class that has room."""
    place, found, p, z = work
    views = s.bias.shape[0]
    r, known = bag[i], at[3]
    if y[i] >= known or known == 1:
        at[3] = max(known, y[i] + 1)
        scores(found, start, r, s, max(at[3], 2), z, p)
    if fresh > 0:
        admit(key, start[r * views], start[r * views + views], room, s, place)
    s.records[0] += 1
    s.cut[0] += cut[r]
    learn(y[i], w[i], growth, place, found, start, r, z, p, s)


@kernel
def progressive(
    op: Any,
    bag: Any,
    y: Any,
    w: Any,
    cut: Any,
    key: Any,
    start: Any,
    growth: float,
    at: Any,
    room: int,
    s: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Run the steps from at[0] on, until the end or until the tables need room.

    op int8, y int64, w float64 (m,): as in `Block`, with class codes. Step i has the features of
    row bag[i] int64 of key uint32, start int64, as in `stream.text.features.Features`; cut int64
    (rows,): truncated texts of a row. growth: of the unit. at int64 (6,): the next step, whether it
    has predicted, predictions so far, known classes, 1 + the step for which as much room was made
    as there can be, and how many new features the next step has, or -1 if its class needs room.
    room: features that the table may have.
    proba float64 (n_predictions, C), seen int64 (n_predictions,): posteriors, known classes.
    """
    most = longest(start, s.bias.shape[0])
    found = empty((s.cell.shape[1] + 1, most), float32)
    work = empty(most, int64), found, empty(s.totals.shape[0]), empty(s.bias.shape)
    for i in range(at[0], op.shape[0]):
        at[0] = i
        fresh = predict(i, op, bag, key, start, at, room, s, proba, seen, work)
        if fresh < 0:
            return
        if op[i] != 0:
            if y[i] >= s.totals.shape[0]:
                at[5] = -1
                return
            learn_step(i, bag, y, w, cut, key, start, growth, at, room, s, fresh, work)
        at[1] = 0
    at[0] = op.shape[0]


@kernel
def terms(place: Any, view: Any, m: Any, c: int, s: Any, out: Any) -> None:
    """The parts of the score of column c: out float64 (1 + VIEWS + n,).

    The prior with the bias of the sum; the bias of each view with features; the features place
    int64 (n,), -1 if unknown, of view[i] int64, each scaled. m int64 (VIEWS,): features of a view.
    """
    columns, views, n = s.bias.shape[1], s.bias.shape[0], place.shape[0]
    own, at = (1 if columns == 1 else c), s.totals.shape[0] + 2 * c
    found = empty((s.cell.shape[1] + 1, n), float32)
    read(place, n, s.cell, found)
    ratio, weight = found[found.shape[0] - 1], found[at]
    ratios(found, 0, n, own, s.totals, s.unit[0], ratio)
    out[0] = prior(own, s.totals, s.unit[0]) + s.final[c]
    root = empty(views)
    for v in range(views):
        out[1 + v] = s.slope[v] * s.bias[v, c] if m[v] > 0 else 0.0
        root[v] = sqrt(float64(m[v]))
    for i in range(n):
        k = uint64(i)
        e = float64(weight[k]) + NAIVE * log(float64(ratio[k]))
        out[uint64(1 + views) + k] = s.slope[view[k]] * e / root[view[k]]
