"""Kernels of SpamScorer that learn a record, and take back what it taught."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from numpy import float32, float64, int64, true_divide, uint32, uint64
from numpy import sqrt as sqrt32

from stream.kernel import inlined, kernel
from stream.linear._kernels.evidence import (
    HEAVIEST,
    LARGEST_UNIT,
    MEMORIES,
    SLOW,
    posteriors,
    prior,
    read,
    seen_in,
    sigmoid,
    weight_of,
    write,
)

RATE = (1.2, 2.0)  # the length of the first step of a weight in each memory
DAMPING = 1e-3  # added to each sum of squared gradients: small first gradients make small steps
# Added to it for each record with the feature, in each memory: what many records say moves slowly.
STEADY = (0.05 * DAMPING, 0.0)
BIAS_RATE = 0.2  # of a view's bias, which follows the stream for ever
SUM_RATE, SUM_DAMPING = 0.02, 1.0  # of the weights of the sum and of its bias
DECAY = (0.002, 0.01)  # of a weight in each memory, at each record with its feature
# A label with a probability below this teaches less, down to LEAST_TAUGHT of what it says: either
# it is wrong, or more like it will come.
SURE, SURE_OF_BIAS, LEAST_TAUGHT = 0.01, 0.1, 0.02
# A record whose other labels have a smaller probability than CERTAIN, and of whose features a
# smaller share than REPEATED is new to its class, weighs less, likewise: it says again what is
# known. Else a mail that comes a thousand times makes all other words of its class rare.
CERTAIN, REPEATED = 1e-7, 0.05
# A label contradicts as far as its probability is below SURE_OF_BIAS. A burst is more than SOME of
# the newest labels and TWICE as many as usual. Then all labels teach less; else each wrong label
# would help the next one.
SOME, TWICE, BURST = 1.5, 2.0, 2.0
SURPRISE_LEFT = (0.98, 0.998)  # of the newest labels, and of what is usual
FEW = 5.0  # records of a class, against which no prediction is sure
WORST_LOSS = 2.0  # of one record, for the trust in a memory
LOSSES_LEFT = 0.99  # of the losses of a memory, at each record
LEAST = 1e-300  # probability of which a logarithm is taken
LARGEST = 1e32  # of a sum of squared gradients, so that it stays finite in 32 bits
MIX = 0x9E3779B97F4A7C15


@kernel
def note_key_of(key: Any, begin: int, end: int, y: int) -> Any:
    """By which key[begin:end], of a record of class y, is found in the ring: int64 above 0."""
    h = uint64(y + 1)
    for k in range(begin, end):
        h = (h ^ uint64(key[k])) * uint64(MIX)
        h = h ^ (h >> uint64(29))
    return int64(h >> uint64(2)) + 1


@inlined
def taught(p: float, sure: float, calm: float, least: float) -> float:
    """Which part of its step a label of probability p makes."""
    return max(max(min(p / sure, 1.0), LEAST_TAUGHT) * calm, least)


@inlined
def news(p: Any, y: int, known: int, new: float, least: float) -> float:
    """What is left of the weight of a record of class y, of p float64 (C,) by the evidence, of
    whose features the share `new` was in no record of the class."""
    others = 0.0
    for c in range(known):
        if c != y:
            others += p[c]
    left = min(max(others / CERTAIN, new / REPEATED), 1.0)
    return max(max(left, LEAST_TAUGHT), least)


@kernel
def unseen(counts: Any, n: int) -> Any:
    """How many features of counts[:n] float32, of a class in the slow memory, were in no record."""
    new = int64(0)
    for i in range(n):
        new += counts[uint64(i)] == float32(0.0)
    return new


@inlined
def calmness(surprise: Any) -> Any:
    """What is left of each lesson in a burst: 1 without one."""
    usual = surprise[1] * (1.0 - SURPRISE_LEFT[1]) / (1.0 - SURPRISE_LEFT[0])
    return 1.0 / (1.0 + BURST * max(surprise[0] - SOME - TWICE * usual, 0.0))


@inlined
def learn_sum(y: int, w: float, z: Any, p: Any, start: Any, r: int, s: Any, slot: int) -> None:
    """Move the weights of the views and the bias of the sum by the log loss; p float64 (C,).

    slot: where the steps are noted, or -1.
    """
    views, columns = s.bias.shape
    half = 1.0 if columns == 1 else 0.5
    for v in range(views):
        if slot >= 0:
            s.note_slope[slot, v] = float32(0.0)
        if start[r * views + v + 1] == start[r * views + v]:
            continue
        g = 0.0
        for c in range(columns):
            own = 1 if columns == 1 else c
            g += half * w * ((1.0 if y == own else 0.0) - p[own]) * z[2, v, c]
        s.slope_squares[v] += g * g
        old = s.slope[v]
        moved = old + SUM_RATE * g / sqrt(s.slope_squares[v] + SUM_DAMPING)
        s.slope[v] = min(max(moved, 0.0), HEAVIEST)
        if slot >= 0:
            s.note_slope[slot, v] = float32(s.slope[v] - old)
    for c in range(columns):
        own = 1 if columns == 1 else c
        g = half * w * ((1.0 if y == own else 0.0) - p[own])
        s.final_squares[c] += g * g
        step = SUM_RATE * g / sqrt(s.final_squares[c] + SUM_DAMPING)
        s.final[c] += step
        if slot >= 0:
            s.note_final[slot, c] = float32(step)


@inlined
def step_of(squares: Any, seen: Any, step: Any, unit: float, steady: Any, k: Any) -> Any:
    """The step of a weight after its squares were added."""
    damping = float32(DAMPING * unit)
    return true_divide(step, sqrt32(squares[k] + damping + steady * seen[k]))


@kernel
def learn_view(
    weight: Any, squares: Any, seen: Any, begin: int, end: int, pull: Any, unit: float, m: int
) -> None:
    """Move weight[begin:end] by a gradient times the root of the unit, `pull` float32.

    squares: their sums of squared gradients. seen: their weights of records. m: the memory.
    """
    wide = float64(pull)
    squared, largest = float32(min(wide * wide, LARGEST)), float32(LARGEST)
    step, left, steady = float32(RATE[m] * wide), float32(1.0 - DECAY[m]), float32(STEADY[m])
    for i in range(begin, end):
        k = uint64(i)
        squares[k] = min(squares[k] + squared, largest)
        weight[k] = weight[k] * left + step_of(squares, seen, step, unit, steady, k)


@kernel
def unlearn_view(
    weight: Any, squares: Any, seen: Any, begin: int, end: int, pull: Any, unit: float, m: int
) -> None:
    """Take back what `learn_view` did. Exact up to rounding while no other record has moved the
    weights; else the step is a little too short."""
    wide = float64(pull)
    squared, zero = float32(min(wide * wide, LARGEST)), float32(0.0)
    step, left, steady = float32(RATE[m] * wide), float32(1.0 - DECAY[m]), float32(STEADY[m])
    for i in range(begin, end):
        k = uint64(i)
        weight[k] = true_divide(weight[k] - step_of(squares, seen, step, unit, steady, k), left)
        squares[k] = max(squares[k] - squared, zero)


@kernel
def fade(memory: int, s: Any) -> None:
    """Divide counts and squares of a memory by LARGEST_UNIT, as its unit was."""
    classes, columns = s.totals.shape[1], s.bias.shape[1]
    for c in range(classes):
        s.totals[memory, c] /= LARGEST_UNIT
    for p in range(s.key.shape[0]):
        if s.key[p] != uint32(0):
            for c in range(classes):
                s.cell[p, memory * classes + c] /= float32(LARGEST_UNIT)
            for c in range(columns):
                s.cell[p, weight_of(memory, c, classes, columns) + 1] /= float32(LARGEST_UNIT)
    for i in range(s.note_key.shape[0]):
        s.note_count[i, memory] /= float32(LARGEST_UNIT)
        for v in range(s.bias.shape[0]):
            for c in range(columns):
                s.note_pull[i, memory, v, c] /= float32(sqrt(LARGEST_UNIT))


@kernel
def lose(y: int, w: float, z: Any, s: Any, p: Any, known: int) -> None:
    """Count the loss of each memory with equal class shares, so that a run of one class is no
    surprise; p float64 (C,) is room for posteriors."""
    views, columns = s.bias.shape
    for m in range(MEMORIES):
        for c in range(columns):
            f = 0.0
            for v in range(views):
                f += s.slope[v] * z[m, v, c]
            p[c] = f
        posteriors(p, columns, known)
        loss = min(-log(max(p[y], LEAST)), WORST_LOSS)
        s.losses[m] = LOSSES_LEFT * s.losses[m] + min(w, 1.0) * loss


@kernel
def learn(
    y: int,
    w: float,
    growth: Any,
    place: Any,
    found: Any,
    start: Any,
    r: int,
    z: Any,
    p: Any,
    s: Any,
    known: int,
    slot: int,
    again: bool,
) -> None:
    """Learn a record whose features are in the table, as far as there is room.

    z, p: of `scores`, for all classes with y. growth float64 (3,): of the unit of each memory, and
    by what the weight is multiplied for the fast one. slot: where it is noted, or -1. again: it
    takes the place of an earlier label, so it is no news about the stream.
    """
    views, columns = s.bias.shape
    first, classes, seen = start[r * views], s.totals.shape[1], found[found.shape[0] - 1]
    n, own_count = start[r * views + views] - first, s.totals[SLOW, y] / s.unit[SLOW]
    least, calm = FEW / (FEW + own_count), 1.0 if again else calmness(s.surprise)
    new = true_divide(float64(unseen(found[y], n)), float64(max(n, 1)))
    w *= news(p[1], y, known, new, least)
    part, of_bias = (taught(p[1, y], SURE, calm, least), taught(p[1, y], SURE_OF_BIAS, calm, least))
    learn_sum(y, part * w, z, p[0], start, r, s, slot)
    if not again:
        contradicts = 1.0 - min(p[1, y] / SURE_OF_BIAS, 1.0)
        for k in range(2):
            s.surprise[k] = SURPRISE_LEFT[k] * s.surprise[k] + min(w, 1.0) * contradicts
        lose(y, w, z, s, p[1], known)
    for m in range(MEMORIES):
        seen_in(found, 0, n, m, classes, seen)
        # What is wrong is forgotten soon by the fast memory, so all labels count as much in it.
        mine = part * w if m == SLOW else w * growth[2]
        for c in range(columns):
            own = 1 if columns == 1 else c
            base, at = prior(own, s.totals, s.unit), weight_of(m, c, classes, columns)
            for v in range(views):
                begin, end = start[r * views + v] - first, start[r * views + v + 1] - first
                pull, step = float32(0.0), 0.0
                if end > begin:
                    error = (1.0 if y == own else 0.0) - sigmoid(base + z[m, v, c])
                    g = mine * error / sqrt(float64(end - begin))
                    pull = float32(g * sqrt(s.unit[m]))
                    learn_view(found[at], found[at + 1], seen, begin, end, pull, s.unit[m], m)
                    step = min(BIAS_RATE * of_bias * w, 1.0) * error
                if m == SLOW:
                    s.bias[v, c] += step
                if slot >= 0:
                    s.note_pull[slot, m, v, c] = pull
                    if m == SLOW:
                        s.note_bias[slot, v, c] = float32(step)
    for m in range(MEMORIES):
        s.unit[m] *= growth[m]
        add = float32((part * w if m == SLOW else w * growth[2]) * s.unit[m])
        s.totals[m, y] += float64(add)
        of_class = found[m * classes + y]
        for i in range(n):
            of_class[uint64(i)] += add
        if slot >= 0:
            s.note_count[slot, m] = add
    write(place, n, s.cell, found)
    for m in range(MEMORIES):
        if s.unit[m] > LARGEST_UNIT:
            s.unit[m] /= LARGEST_UNIT
            fade(m, s)


@kernel
def retract(y: int, place: Any, found: Any, start: Any, slot: int, s: Any) -> None:
    """Take back what the label y of a record taught that is noted at `slot`.

    place int64: of its features in the table, -1 if one is not there. found float32 (2C + 4K + 1,
    any): room. start: of one row. With more than two classes it is noted for all.
    """
    views, columns = s.bias.shape
    n, classes, seen = start[views] - start[0], s.totals.shape[1], found[found.shape[0] - 1]
    zero = float32(0.0)
    read(place, n, s.cell, found)
    for m in range(MEMORIES):
        taken, of_class = s.note_count[slot, m], found[m * classes + y]
        s.totals[m, y] = max(s.totals[m, y] - float64(taken), 0.0)
        for i in range(n):
            of_class[uint64(i)] = max(of_class[uint64(i)] - taken, zero)
        seen_in(found, 0, n, m, classes, seen)
        for c in range(columns):
            at = weight_of(m, c, classes, columns)
            for v in range(views):
                begin, end = start[v] - start[0], start[v + 1] - start[0]
                pull = s.note_pull[slot, m, v, c]
                if end > begin:
                    unlearn_view(found[at], found[at + 1], seen, begin, end, pull, s.unit[m], m)
    for v in range(views):
        s.slope[v] = min(max(s.slope[v] - float64(s.note_slope[slot, v]), 0.0), HEAVIEST)
        for c in range(columns):
            s.bias[v, c] -= float64(s.note_bias[slot, v, c])
    for c in range(columns):
        s.final[c] -= float64(s.note_final[slot, c])
    s.note_key[slot] = 0
    write(place, n, s.cell, found)
