"""Kernels of MultinomialNB. Self-contained, so that their compiled form on disk is never stale."""

from __future__ import annotations

from math import exp, inf, log
from typing import Any, NamedTuple

from numba import njit
from numpy import float64, int32, int64
from numpy.typing import NDArray

Floats = NDArray[float64]


class Counts(NamedTuple):
    """State of MultinomialNB for C classes and d learned buckets.

    weight, total float64 (C,): sum of record weights, and of token counts, a class. counts float64
    (capacity, C): the counts, a row a learned bucket. slot int32 (buckets,): 1 + the row of a
    bucket, 0 for one never learned. size int64 (1,): d. cut int64 (1,): learned texts cut short.
    """

    weight: Floats
    total: Floats
    counts: Floats
    slot: NDArray[int32]
    size: NDArray[int64]
    cut: NDArray[int64]


@njit(cache=True)
def learn(bucket: Any, times: Any, c: int, w: float, s: Any) -> None:
    """Add bucket int64 (k,), each `times` float64 (k,), to class c; -1 marks a text cut short."""
    s.weight[c] += w
    for k in range(bucket.shape[0]):
        if bucket[k] < 0:
            s.cut[0] += 1
            continue
        if s.slot[bucket[k]] == 0:
            s.size[0] += 1
            s.slot[bucket[k]] = s.size[0]
        s.counts[s.slot[bucket[k]] - 1, c] += w * times[k]
        s.total[c] += w * times[k]


@njit(cache=True)
def joint_log_likelihood(
    bucket: Any, times: Any, known: int, alpha: float, s: Any, out: Any
) -> None:
    """out float64 (C,): log prior + log likelihood of the tokens for each of `known` classes."""
    everything = 0.0
    for c in range(known):
        everything += s.weight[c]
    for c in range(known):
        if s.weight[c] <= 0.0:
            out[c] = -inf
            continue
        out[c] = log(s.weight[c]) - log(everything)
        all_tokens = log(s.total[c] + alpha * max(s.size[0], 1))
        for k in range(bucket.shape[0]):
            if bucket[k] >= 0 and s.slot[bucket[k]] > 0:
                n = s.counts[s.slot[bucket[k]] - 1, c]
                out[c] += times[k] * (log(n + alpha) - all_tokens)


@njit(cache=True)
def posterior(known: int, joint: Any, out: Any) -> None:
    """Normalise joint float64 (C,) into out (C,). One class at least has weight, so is finite."""
    top = -inf
    for c in range(known):
        top = max(top, joint[c])
    total = 0.0
    for c in range(known):
        out[c] = exp(joint[c] - top) if top > -inf else 1.0
        total += out[c]
    for c in range(known):
        out[c] /= total


@njit(cache=True)
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    start: Any,
    bucket: Any,
    times: Any,
    label: Any,
    known: int,
    alpha: float,
    s: Any,
    joint: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Execute steps op int8, row int64, y int32, w float64 (m,) over n rows of tokens.

    start int64 (n + 1,): row r has the tokens start[r] … start[r+1]-1 of bucket int64 and times
    float64. label int64: class code of each y. joint (C,) is scratch; proba float64
    (n_predictions, C) and seen int64 (n_predictions,) receive the posteriors and how many
    classes were known. The caller has made room for all classes and buckets.
    """
    k = 0
    for i in range(op.shape[0]):
        tokens = slice(start[row[i]], start[row[i] + 1])
        if op[i] != 1:
            joint_log_likelihood(bucket[tokens], times[tokens], known, alpha, s, joint)
            posterior(known, joint, proba[k])
            seen[k] = known
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            learn(bucket[tokens], times[tokens], c, w[i], s)
            known = max(known, c + 1)
