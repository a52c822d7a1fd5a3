"""Kernels that predict with a tree and learn: the mixture over its prunings, and the window.

The prediction is that of all prunings of the tree, each by its posterior probability (Helmbold and
Schapire 1997; Willems et al. 1995). A node mixes the shares of its own classes with what its child
predicts, and the odds of both change by the likelihood of each label.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

from numpy import empty, int64

from stream.kernel import kernel
from stream.tree._kernels.splits import (
    DUE,
    HELD,
    LEARNED,
    START,
    attempt,
    goes_left,
    heavier,
    push,
    regrow,
    weight_of,
)

SUREST = 20.0  # of log-odds, so that they can change again
HEAVY = 100.0  # records as which a label counts in the odds, at most


@kernel
def descend(x: Any, t: Any, path: Any) -> int:
    """path: the nodes from the root to the leaf of x float64 (D,). Returns the leaf's depth."""
    k, depth = 0, 0
    path[0] = 0
    while t.feature[k] >= 0:
        v, left = x[t.feature[k]], t.left[k]
        if v != v:
            k = heavier(left, t)
        else:
            k = left if goes_left(v, t.cut[k], t.nominal[t.feature[k]]) else left + 1
        depth += 1
        path[depth] = k
    return depth


@kernel
def own_share(k: int, c: int, total: float, known: int, t: Any) -> float:
    """The probability of class c in node k, with one record more that is shared by all classes."""
    return float((t.n[k, c] + 1.0 / known) / (total + 1.0))


@kernel
def mix(depth: int, known: int, t: Any, r: Any) -> None:
    """r.mixed[d, c]: the probability of class c by the subtree of the node at depth d of r.path."""
    for d in range(depth, -1, -1):
        k = r.path[d]
        total = weight_of(k, t)
        own = 1.0 if d == depth else 1.0 / (1.0 + exp(-t.odds[k]))
        for c in range(known):
            p = own * own_share(k, c, total, known, t)
            r.mixed[d, c] = p if d == depth else p + (1.0 - own) * r.mixed[d + 1, c]


@kernel
def learn(x: Any, c: int, w: float, depth: int, known: int, bounds: Any, t: Any, r: Any) -> None:
    """Learn x of class c, whose nodes are r.path, after `mix`; the window has a place for it."""
    for d in range(depth + 1):
        k = r.path[d]
        if d < depth:
            own = own_share(k, c, weight_of(k, t), known, t)
            change = min(w, HEAVY) * (log(own) - log(r.mixed[d + 1, c]))
            t.odds[k] = min(max(t.odds[k] + change, -SUREST), SUREST)
        t.n[k, c] += w
    counts, k = t.counts, r.path[depth]
    if counts[HELD] == bounds.window:
        oldest = counts[START]
        leaf = t.leaf[oldest]
        t.first[leaf] = t.after[oldest]
        t.held[leaf] -= 1
        t.tried[leaf] = min(t.tried[leaf], t.held[leaf])
        counts[START], counts[HELD] = (oldest + 1) % bounds.window, counts[HELD] - 1
    i = (counts[START] + counts[HELD]) % t.label.shape[0]
    counts[HELD] += 1
    t.cells[i, :] = x
    t.label[i], t.weight[i] = c, w
    push(k, i, t)
    counts[LEARNED] += 1
    if counts[LEARNED] == counts[DUE]:
        counts[DUE] += min(counts[DUE], bounds.window)
        regrow(bounds, t, r)
    elif t.held[k] >= t.tried[k] + max(bounds.grace, t.tried[k] // 4):
        attempt(k, -1, empty((0, 0), int64), bounds, t, r)


@kernel
def progressive(
    steps: Any, x: Any, known: int, bounds: Any, t: Any, r: Any, proba: Any, known_at: Any
) -> None:
    """Run the steps over x float64 (n, D). Predictions: proba float64 (q, C), and in known_at int64
    (q,) how many classes were known.

    steps: op int8, row, y (class code) int64 and w float64, each (m,). `known` classes before.
    """
    op, row, y, w = steps
    at = 0
    for i in range(op.shape[0]):
        xi = x[row[i]]
        depth = descend(xi, t, r.path)
        if op[i] != 1:
            if known > 0:
                mix(depth, known, t, r)
                for c in range(known):
                    proba[at, c] = r.mixed[0, c]
            known_at[at] = known
            at += 1
        if op[i] != 0:
            if op[i] == 1 or y[i] >= known:
                known = max(known, y[i] + 1)
                mix(depth, known, t, r)
            learn(xi, y[i], w[i], depth, known, bounds, t, r)
