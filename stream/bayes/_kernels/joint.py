"""Kernels of a sparse joint distribution of categories.

A cell is a tuple of codes, one for each feature; -1 if the record did not have it. A query is a set
of features with codes. Its probability is computed from the cells that have all of them.
"""

from __future__ import annotations

from math import exp, inf, log, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, int64, uint64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, scale_down

Floats = NDArray[float64]

# Odd multipliers and shifts that mix bits (splitmix64).
MIX_FEATURE, MIX_CODE = uint64(0x9E3779B97F4A7C15), uint64(0xBF58476D1CE4E5B9)
MIX_LAST = uint64(0x94D049BB133111EB)
SHIFT_FIRST, SHIFT_LAST = uint64(30), uint64(31)


class Cells(NamedTuple):
    """Counts of the tuples of D features in C classes.

    code int32 (room, D), counts float64 (room, C): a row for each cell, in the order they were
    learned. size int64 (1,): number of cells. complete float64 (C,): the sum over cells that have
    every feature. values int64 (D,): m_j, 0 before the first. refused int64 (1,): number of records
    beyond the bound of cells. slot int32 (2**k > room,): 1 + the cell of a hash; 0 for none. unit
    float64 (1,): the present value of a weight of 1 learned last.
    """

    code: NDArray[int32]
    counts: Floats
    size: NDArray[int64]
    complete: Floats
    values: NDArray[int64]
    refused: NDArray[int64]
    slot: NDArray[int32]
    unit: Floats


@kernel
def place(key: Any, s: Any) -> Any:
    """The slot of the cell with the codes key int64 (D,), or the empty slot for it."""
    hashed = uint64(0)
    for k in range(key.shape[0]):
        if key[k] >= 0:  # missing features do not affect the hash, because features may come later
            x = uint64(k + 1) * MIX_FEATURE + uint64(key[k] + 1) * MIX_CODE
            x = (x ^ (x >> SHIFT_FIRST)) * MIX_LAST
            hashed += x ^ (x >> SHIFT_LAST)
    last = s.slot.shape[0] - 1
    i = int64(hashed & uint64(last))
    while s.slot[i] != 0:
        r = s.slot[i] - 1
        same = True
        for k in range(key.shape[0]):
            if s.code[r, k] != key[k]:
                same = False
                break
        if same:
            return i
        i = (i + 1) & last
    return i


@kernel
def find(key: Any, s: Any) -> Any:
    """The cell with the codes key int64 (D,), or -1."""
    return s.slot[place(key, s)] - 1


@kernel
def add(key: Any, limit: int, s: Any) -> Any:
    """`find`, or a new cell; -1 if there are `limit` cells already."""
    i = place(key, s)
    if s.slot[i] != 0:
        return s.slot[i] - 1
    if s.size[0] >= limit:
        return -1
    r = s.size[0]
    for k in range(key.shape[0]):
        s.code[r, k] = key[k]
    s.size[0] = r + 1
    s.slot[i] = r + 1
    return r


@kernel
def rehash(key: Any, s: Any) -> None:
    """Fill the empty slots from the cells. key int64 (D,) is scratch."""
    for r in range(s.size[0]):
        for k in range(key.shape[0]):
            key[k] = s.code[r, k]
        s.slot[place(key, s)] = r + 1


@kernel
def is_complete(code: Any, values: Any) -> bool:
    """Whether code (D,) has every feature that was learned."""
    whole = True
    for k in range(code.shape[0]):
        whole = whole and (code[k] >= 0 or values[k] == 0)
    return whole


@kernel
def recount(s: Any) -> None:
    """Recompute the weights of the complete cells."""
    for c in range(s.complete.shape[0]):
        s.complete[c] = 0.0
    for r in range(s.size[0]):
        if is_complete(s.code[r], s.values):
            for c in range(s.complete.shape[0]):
                s.complete[c] += s.counts[r, c]


@kernel
def learn(code: Any, c: int, w: float, domain: Any, limit: int, key: Any, s: Any) -> None:
    """Count the tuple code int64 (D,) in class c. key int64 (D,) is scratch.

    domain int64 (D,): the size of a feature's given domain; 0 if it has none.
    """
    some = False
    for k in range(code.shape[0]):
        key[k] = max(code[k], -1)
        if key[k] < 0:
            continue
        some = True
        if s.values[k] == 0:  # a new feature: no earlier record had it
            for other in range(s.complete.shape[0]):
                s.complete[other] = 0.0
        s.values[k] = max(s.values[k], domain[k], key[k] + 1)
    if not some:
        return
    r = add(key, limit, s)
    if r < 0:
        s.refused[0] += 1
        return
    s.counts[r, c] += w
    if is_complete(key, s.values):
        s.complete[c] += w


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        s.complete[:] /= LARGEST_UNIT
        scale_down(s.counts[: s.size[0]])


@kernel
def log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), both -inf allowed."""
    top, low = max(a, b), min(a, b)
    return top if low == -inf else top + log1p(exp(low - top))


@kernel
def log_share(n_v: float, n: float, pseudo: float, strength: float, zeros: bool) -> float:
    """log((n_v + exp(pseudo)) / (n + exp(strength))), n > 0: both may be huge.

    zeros: only a count n_v of 0 is smoothed.
    """
    if zeros and n_v > 0.0:
        return log(n_v) - log(n)
    top = log_sum(log(n_v) if n_v > 0.0 else -inf, pseudo)
    return top - log_sum(log(n), strength) if top > -inf else -inf


@kernel
def log_prior_share(key: Any, inside: float, outside: float, g: Any, s: Any) -> float:
    """log of the m-estimate's p of a query key int64 (D,), with -1 for missing features.

    The product of the p of its values, or p for each tuple that agrees with it, up to 1.
    """
    if g.p >= 0.0:
        return min(log(g.p) + outside, 0.0) if g.p > 0.0 else -inf
    if g.shares.shape[0] == 0:
        return -inside
    total = 0.0
    for k in range(key.shape[0]):
        if key[k] < 0:
            continue
        if g.start[k] < 0:
            total -= log(float(s.values[k]))
        else:
            share = g.shares[g.start[k] + key[k]]
            total += log(share) if share > 0.0 else -inf
    return total


@kernel
def sums(key: Any, s: Any, n_v: Any, n: Any) -> None:
    """Weights of the cells that have key's features, n, and of those with its codes, n_v (C,)."""
    for c in range(n.shape[0]):
        n_v[c] = 0.0
        n[c] = 0.0
    for r in range(s.size[0]):
        has, same = True, True
        for k in range(key.shape[0]):
            if key[k] >= 0 and s.code[r, k] != key[k]:
                same = False
                if s.code[r, k] < 0:
                    has = False
                    break
        if has:
            for c in range(n.shape[0]):
                n[c] += s.counts[r, c]
                if same:
                    n_v[c] += s.counts[r, c]


@kernel
def add_term(code: Any, known: int, g: Any, s: Any, scratch: Any, out: Any) -> None:
    """Add the log probability of the tuple code int64 (D,) to out float64 (C,).

    g: a Smoothing of independent categories. scratch: key int64 (D,), n_v and n float64 (C,).
    """
    key, n_v, n = scratch
    inside, outside = 0.0, 0.0  # logs of the number of tuples, over its features and the others
    some, whole = False, True
    for k in range(code.shape[0]):
        key[k] = -1
        if 0 <= code[k] < s.values[k]:
            key[k] = code[k]
            inside += log(float(s.values[k]))
            some = True
        elif s.values[k] > 0:
            outside += log(float(s.values[k]))
            whole = False
    if not some:
        return
    if whole:
        r = find(key, s)
        for c in range(n.shape[0]):
            n_v[c] = s.counts[r, c] if r >= 0 else 0.0
            n[c] = s.complete[c]
    else:
        sums(key, s, n_v, n)
    all_v, every = 0.0, 0.0
    for c in range(known):
        all_v += n_v[c]
        every += n[c]
    if g.m >= 0.0:
        p = log_prior_share(key, inside, outside, g, s)
        strength = log(g.m * s.unit[0]) if g.m > 0.0 else -inf
        for c in range(known):
            some = n[c] > 0.0
            out[c] += log_share(n_v[c], n[c], strength + p, strength, g.zeros) if some else p
        return
    if every <= 0.0:
        return  # no class has a record with all these features
    alpha = g.alpha * s.unit[0]
    pseudo = log(alpha) + outside if alpha > 0.0 else -inf
    for c in range(known):
        if n[c] > 0.0:
            out[c] += log_share(n_v[c], n[c], pseudo, pseudo + inside, g.zeros)
        else:  # never seen together in this class: use all classes
            out[c] += log_share(all_v, every, pseudo, pseudo + inside, g.zeros)


@kernel
def terms(code: Any, known: int, g: Any, s: Any, out: Any) -> None:
    """The log probability of each tuple of code int64 (q, D) in a row of out float64 (q, C)."""
    classes = s.complete.shape[0]
    scratch = (np.empty(code.shape[1], int64), np.empty(classes), np.empty(classes))
    for k in range(code.shape[0]):
        add_term(code[k], known, g, s, scratch, out[k])


@kernel
def progressive(
    steps: Any, row: Any, code: Any, domain: Any, g: Any, limit: int, s: Any, joint: Any
) -> None:
    """Run the steps over tuples of codes, adding to joint float64 (n_predictions, C).

    row int64 (m,): the row of each step in code int64 (n, D). There is room for all classes and
    cells.
    """
    classes = s.complete.shape[0]
    scratch = (np.empty(code.shape[1], int64), np.empty(classes), np.empty(classes))
    known = steps.known
    k = 0
    for i in range(steps.op.shape[0]):
        if steps.op[i] != 1:
            add_term(code[row[i]], known, g, s, scratch, joint[k])
            k += 1
        if steps.op[i] != 0:
            fade(s, steps.growth)
            c = steps.y[i]
            w = steps.w[i] * s.unit[0]
            learn(code[row[i]], c, w, domain, limit, scratch[0], s)
            known = max(known, c + 1)
