"""Kernels of progressive scores. Self-contained, so that the compiled form is never stale."""

from __future__ import annotations

from math import log
from typing import Any

from numba import njit

SMALLEST = 2.0**-52  # an unseen true class costs -log of this, never 0 and never infinity


@njit(cache=True)
def baselines(op: Any, y: Any, label: Any, counts: Any, memory: Any, out: Any) -> None:
    """What majority and no-change would say at each predicting step.

    op int8, y int32 (m,): the steps; label int64 (L,): block label to class code; counts int64
    (C,): labels learned a class; memory int64 (2,): majority and last class so far, -1 for none,
    updated; out int64 (n_predictions, 2).
    """
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            out[k, 0] = memory[0]
            out[k, 1] = memory[1]
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            counts[c] += 1
            memory[1] = c
            if memory[0] < 0 or counts[c] > counts[memory[0]]:
                memory[0] = c


@njit(cache=True)
def score(
    true: Any,
    said: Any,
    p_true: Any,
    confusion: Any,
    sums: Any,
    fading: Any,
    factor: float,
    ring: Any,
    ring_loss: Any,
    at: int,
) -> int:
    """Add scored predictions in order; returns the ring's next place.

    true int64 (k,); said int64 (k, 3): class codes of model, majority, no-change, -1 for none;
    p_true float64 (k,): probability given to the true class; confusion int64 (C, C); sums and
    fading float64 (5,): scored, log loss, hits of the three; ring int32 (N, 4): true and the
    three; ring_loss float64 (N,).
    """
    for i in range(true.shape[0]):
        t = true[i]
        loss = -log(max(p_true[i], SMALLEST))
        confusion[t, said[i, 0]] += 1
        sums[0] += 1.0
        sums[1] += loss
        fading[0] = factor * fading[0] + 1.0
        fading[1] = factor * fading[1] + loss
        ring[at, 0] = t
        ring_loss[at] = loss
        for b in range(3):
            hit = 1.0 if said[i, b] == t else 0.0
            sums[2 + b] += hit
            fading[2 + b] = factor * fading[2 + b] + hit
            ring[at, 1 + b] = said[i, b]
        at = (at + 1) % ring.shape[0]
    return at
