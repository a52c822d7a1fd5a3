"""Kernels of GaussianNB. Self-contained, so that their compiled form on disk is never stale."""

from __future__ import annotations

from math import exp, inf, isnan, log, pi
from typing import Any, NamedTuple

from numba import njit
from numpy import float64
from numpy.typing import NDArray

Floats = NDArray[float64]

LOG_2PI = log(2.0 * pi)
# A term below this is a likelihood no double can hold; kept finite so that terms can be added.
LOWEST = -1e300


class Moments(NamedTuple):
    """State of GaussianNB for C classes and D features, all float64.

    weight (C,): sum of weights a class. n, mean, m2 (C, D): weight, mean and sum of squared
    deviations of x - anchor a class. anchor (D,): the first value learned. total_n, total_mean,
    total_m2 (D,): the same over all classes.
    """

    weight: Floats
    n: Floats
    mean: Floats
    m2: Floats
    anchor: Floats
    total_n: Floats
    total_mean: Floats
    total_m2: Floats


@njit(cache=True)
def learn(x: Any, source: Any, column: Any, c: int, w: float, s: Any) -> None:
    """Welford's update of class c by x, float64 (p,).

    source, column int64 (q,): x[source[k]] belongs to state column column[k].
    """
    s.weight[c] += w
    for k in range(source.shape[0]):
        value = x[source[k]]
        if isnan(value):
            continue
        j = column[k]
        if s.total_n[j] == 0.0:
            s.anchor[j] = value
        v = value - s.anchor[j]
        # In this form a sum of squares never falls, whatever the weights.
        before = s.n[c, j]
        s.n[c, j] = before + w
        d = v - s.mean[c, j]
        s.mean[c, j] += d * (w / s.n[c, j])
        s.m2[c, j] += d * d * (w * (before / s.n[c, j]))
        before = s.total_n[j]
        s.total_n[j] = before + w
        d = v - s.total_mean[j]
        s.total_mean[j] += d * (w / s.total_n[j])
        s.total_m2[j] += d * d * (w * (before / s.total_n[j]))


@njit(cache=True)
def term(v: float, mean: float, var: float) -> float:
    """Log normal density of v; a variance of 0 is a point: log 1 on it, log 0 beside it."""
    if var <= 0.0:
        return 0.0 if v == mean else -inf
    d = v - mean
    t = -0.5 * (LOG_2PI + log(var) + d * d / var)
    return t if t > LOWEST else LOWEST


@njit(cache=True)
def joint_log_likelihood(
    x: Any,
    source: Any,
    column: Any,
    known: int,
    ddof: float,
    smoothing: float,
    log_prior: Any,
    s: Any,
    out: Any,
) -> None:
    """out (C,): log prior + log density of x for each of `known` classes.

    log_prior (C,) holds the given log priors, or has length 0 where they are learned.
    """
    total = 0.0
    for c in range(known):
        total += s.weight[c]
    for c in range(known):
        if log_prior.shape[0] > 0:
            out[c] = log_prior[c]
        elif s.weight[c] > 0.0:
            out[c] = log(s.weight[c] / total)
        else:
            out[c] = -inf
    for k in range(source.shape[0]):
        value, j = x[source[k]], column[k]
        if isnan(value) or s.total_n[j] <= 0.0:
            continue
        spread = s.total_m2[j] / s.total_n[j]
        if spread <= 0.0:
            continue  # constant so far: every class has the same point, the ratio is 1
        v = value - s.anchor[j]
        extra = smoothing * spread
        everywhere = term(v, s.total_mean[j], spread + extra)
        for c in range(known):
            n = s.n[c, j]
            if n <= 0.0:  # never seen in this class: no evidence, as probable as anywhere
                out[c] += everywhere
                continue
            var = s.m2[c, j] / (n - ddof) if n > ddof else 0.0
            out[c] += term(v, s.mean[c, j], var + extra)


@njit(cache=True)
def posterior(known: int, joint: Any, log_prior: Any, weight: Any, out: Any) -> None:
    """Normalise `joint` into out (C,); the prior where every class is impossible."""
    top = -inf
    for c in range(known):
        top = max(top, joint[c])
    if top == -inf:
        for c in range(known):
            if log_prior.shape[0] > 0:
                joint[c] = log_prior[c]
            else:
                joint[c] = log(weight[c]) if weight[c] > 0.0 else -inf
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
    x: Any,
    source: Any,
    column: Any,
    label: Any,
    known: int,
    ddof: float,
    smoothing: float,
    log_prior: Any,
    s: Any,
    joint: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Execute steps op int8, row int64, y int32, w float64 (m,) over x float64 (n, p).

    joint (C,) is scratch; proba (n_predictions, C) and seen int64 (n_predictions,) receive the
    posteriors and how many classes were known.
    """
    k = 0
    for i in range(op.shape[0]):
        xi = x[row[i]]
        if op[i] != 1:
            joint_log_likelihood(xi, source, column, known, ddof, smoothing, log_prior, s, joint)
            posterior(known, joint, log_prior, s.weight, proba[k])
            seen[k] = known
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            learn(xi, source, column, c, w[i], s)
            known = max(known, c + 1)
