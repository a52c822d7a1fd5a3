"""Kernels of the class prior. Self-contained, so that their compiled form is never stale."""

from __future__ import annotations

from math import exp, inf, log
from typing import Any, NamedTuple

from numba import njit
from numpy import float64, int64
from numpy.typing import NDArray

Floats = NDArray[float64]

# Weights grow instead of old ones shrinking; beyond this, all are scaled down by it, exactly.
LARGEST_UNIT = 2.0**64


class Prior(NamedTuple):
    """State of the prior of C classes.

    weight float64 (C,): sum of weights a class, in units. unit float64 (1,): what a weight of 1
    learned last counts. records int64 (1,): records learned, counted where they fade.
    """

    weight: Floats
    unit: Floats
    records: NDArray[int64]


@njit(cache=True)
def log_prior(known: int, given: Any, s: Any, out: Any) -> None:
    """out float64 (C,): log prior of `known` classes; `given` (C,) or, to learn it, (0,)."""
    if given.shape[0] > 0:
        for c in range(known):
            out[c] = given[c]
        return
    total = 0.0
    for c in range(known):
        total += s.weight[c]
    for c in range(known):
        out[c] = log(s.weight[c] / total) if s.weight[c] > 0.0 else -inf


@njit(cache=True)
def progressive(steps: Any, given: Any, s: Any, prior: Any, seen: Any) -> None:
    """Write the log prior at each predicting step, and learn the labels of the others.

    prior float64 (n_predictions, C); seen int64 (n_predictions,): how many classes were known.
    """
    known = steps.known
    k = 0
    for i in range(steps.op.shape[0]):
        if steps.op[i] != 1:
            log_prior(known, given, s, prior[k])
            seen[k] = known
            k += 1
        if steps.op[i] != 0:
            s.unit[0] *= steps.growth
            if s.unit[0] > LARGEST_UNIT:
                s.unit[0] /= LARGEST_UNIT
                for c in range(s.weight.shape[0]):
                    s.weight[c] /= LARGEST_UNIT
            c = steps.y[i]
            s.weight[c] += steps.w[i] * s.unit[0]
            s.records[0] += 1 if steps.growth > 1.0 else 0
            known = max(known, c + 1)


@njit(cache=True)
def normalise(joint: Any, prior: Any, seen: Any) -> None:
    """Turn each row of joint float64 (n, C) into its posterior; the prior where all are -inf."""
    for k in range(joint.shape[0]):
        known = seen[k]
        row = joint[k]
        top = -inf
        for c in range(known):
            top = max(top, row[c])
        if top == -inf:
            for c in range(known):
                row[c] = prior[k, c]
                top = max(top, row[c])
        total = 0.0
        for c in range(known):
            row[c] = exp(row[c] - top) if top > -inf else 1.0
            total += row[c]
        for c in range(known):
            row[c] /= total
        for c in range(known, row.shape[0]):
            row[c] = 0.0
