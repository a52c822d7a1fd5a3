"""Kernels of SpamScorer: logistic regressions over views of a record, and their weighted sum."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numba import uint64
from numpy import empty, float64, int64, true_divide, uint32
from numpy.typing import NDArray

from stream.kernel import inlined, kernel

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
LARGEST_UNIT = 2.0**16  # above it, counts and squares are divided by it, which is exact
TOGETHER = 8  # ratios that are multiplied before a logarithm is taken; no product underflows


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
    """The place of the key k, or the free place where it belongs."""
    mask = uint64(key.shape[0] - 1)
    p = uint64(k) & mask
    while key[p] != uint32(0) and key[p] != k:
        p = (p + uint64(1)) & mask
    return int64(p)


@kernel
def insert(keys: Any, cells: Any, key: Any, cell: Any) -> None:
    """Put keys uint32 (n,), except 0, and cells float32 (n, any) into a table without them."""
    for i in range(keys.shape[0]):
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


@kernel
def evidence(
    place: Any, begin: int, end: int, own: int, at: int, cell: Any, totals: Any, unit: float
) -> float:
    """The sum of the weights of the features place[begin:end] int64, -1 if unknown, of class `own`.

    at: where their weights are in cell float32 (S, any).
    """
    t, rest, classes = totals[own], rest_of(own, totals), totals.shape[0]
    per_own, per_rest = 1.0 / (t + PSEUDO * unit), 1.0 / (rest + PSEUDO * unit)
    floor = SEEN * unit / (t + rest + 2.0 * PSEUDO * unit)
    total = logs = 0.0
    above = below = 1.0
    together = 0
    for i in range(begin, end):
        p = place[uint64(i)]
        if p < 0:
            continue
        q = uint64(p)
        others = float64(cell[q, uint64(1 - own)]) if classes == 2 else 0.0
        if classes > 2:
            for j in range(classes):
                if j != own:
                    others += cell[q, j]
        total += cell[q, uint64(at)]
        above *= cell[q, uint64(own)] * per_own + floor
        below *= others * per_rest + floor
        together += 1
        if together == TOGETHER:
            logs += log(above / below)
            above = below = 1.0
            together = 0
    return total + NAIVE * (logs + log(above / below))


@kernel
def scores(place: Any, start: Any, r: int, s: Any, known: int, z: Any, out: Any) -> None:
    """The evidence of each view and column, z float64 (VIEWS, K), and posteriors out float64 (C,).

    place int64: of the features of row r; its view v begins at start[r · VIEWS + v].
    """
    _, cell, totals, bias, slope, _, final = s[:7]
    columns, views, unit, first = bias.shape[1], bias.shape[0], s.unit[0], start[r * bias.shape[0]]
    for c in range(columns):
        own = 1 if columns == 1 else c
        at = totals.shape[0] + 2 * c
        f = prior(own, totals, unit) + final[c]
        for v in range(views):
            begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
            z[v, c] = 0.0
            if end > begin:
                e = evidence(place, begin, end, own, at, cell, totals, unit)
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
def learn_view(place: Any, begin: int, end: int, g: float, unit: float, at: int, cell: Any) -> None:
    """Move the weights of the features place[begin:end] by the gradient g; at: their column."""
    squared, damping = float64(min(g * g * unit, LARGEST)), DAMPING * unit
    step = RATE * g * sqrt(unit)
    weight, other = uint64(at), uint64(at + 1)
    for i in range(begin, end):
        p = place[uint64(i)]
        if p < 0:
            continue
        q = uint64(p)
        squares = min(cell[q, other] + squared, LARGEST)
        cell[q, other] = squares
        cell[q, weight] += step / sqrt(squares + damping) - DECAY * cell[q, weight]


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
    y: int, w: float, growth: float, place: Any, start: Any, r: int, z: Any, p: Any, s: Any
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
        base = prior(own, totals, unit[0])
        for v in range(views):
            begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
            if end > begin:
                error = (1.0 if y == own else 0.0) - sigmoid(base + z[v, c])
                bias[v, c] += min(BIAS_RATE * w, 1.0) * error
                g = w * error / sqrt(float64(end - begin))
                learn_view(place, begin, end, g, unit[0], classes + 2 * c, cell)
    if is_change(-log(max(p[y], LEAST)), w, growth, s.losses):
        forget(s)
    unit[0] *= growth
    if unit[0] > LARGEST_UNIT:
        unit[0] /= LARGEST_UNIT
        fade(key, cell, totals)
    add = w * unit[0]
    totals[y] += add
    for i in range(start[r * views + views] - first):
        if place[i] >= 0:
            cell[place[i], y] += add


@kernel
def find(keys: Any, begin: int, end: int, key: Any, place: Any) -> int:
    """place int64: of each of keys[begin:end] in the table, -1 if it is not there; returns how many
    are not."""
    fresh = 0
    for k in range(begin, end):
        p = place_of(keys[uint64(k)], key)
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
    views, longest = s.bias.shape[0], 0
    for r in range(cut.shape[0]):
        longest = max(longest, start[r * views + views] - start[r * views])
    place, p, z = empty(longest, int64), empty(s.totals.shape[0]), empty(s.bias.shape)
    for i in range(at[0], op.shape[0]):
        at[0] = i
        r, known = bag[i], at[3]
        first, end = start[r * views], start[r * views + views]
        fresh = find(key, first, end, s.key, place)
        if op[i] != 0 and s.size[0] + fresh > room and at[4] != i + 1:
            at[5] = fresh
            return
        if known > 0:
            scores(place, start, r, s, known, z, p)
        if op[i] != 1 and at[1] == 0:
            for c in range(known):
                proba[at[2], c] = p[c]
            seen[at[2]] = known
            at[2] += 1
            at[1] = 1
        if op[i] != 0:
            if y[i] >= s.totals.shape[0]:
                at[5] = -1
                return
            if y[i] >= known or known == 1:
                at[3] = max(known, y[i] + 1)
                scores(place, start, r, s, max(at[3], 2), z, p)
            if fresh > 0:
                admit(key, first, end, room, s, place)
            s.records[0] += 1
            s.cut[0] += cut[r]
            learn(y[i], w[i], growth, place, start, r, z, p, s)
        at[1] = 0
    at[0] = op.shape[0]


@kernel
def terms(place: Any, view: Any, m: Any, c: int, s: Any, out: Any) -> None:
    """The parts of the score of column c: out float64 (1 + VIEWS + n,).

    The prior with the bias of the sum; the bias of each view with features; the features place
    int64 (n,), -1 if unknown, of view[i] int64, each scaled. m int64 (VIEWS,): features of a view.
    """
    columns, views = s.bias.shape[1], s.bias.shape[0]
    own, at = (1 if columns == 1 else c), s.totals.shape[0] + 2 * c
    out[0] = prior(own, s.totals, s.unit[0]) + s.final[c]
    for v in range(views):
        out[1 + v] = s.slope[v] * s.bias[v, c] if m[v] > 0 else 0.0
    for i in range(place.shape[0]):
        e = evidence(place, i, i + 1, own, at, s.cell, s.totals, s.unit[0])
        out[1 + views + i] = s.slope[view[i]] * e / sqrt(float64(m[view[i]]))
