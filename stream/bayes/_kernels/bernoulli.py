"""Kernels of two-valued attributes."""

from __future__ import annotations

from math import inf, isnan, log
from typing import Any, NamedTuple

from numpy import float64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import advance, scale_down

Floats = NDArray[float64]


class BernoulliTrials(NamedTuple):
    """Trials of D attributes for C classes, all float64.

    given, present (C, D): weight of the records that had the attribute, and of those in which it
    was present. unit (1,): the present value of a weight of 1 learned last.
    """

    given: Floats
    present: Floats
    unit: Floats


@kernel
def learn(x: Any, source: Any, column: Any, binarize: float, c: int, w: float, s: Any) -> None:
    """Add x, float64 (p,), to class c; x[source[k]] belongs to state column column[k]."""
    for k in range(source.shape[0]):
        value = x[source[k]]
        if isnan(value):
            continue
        s.given[c, column[k]] += w
        if value > binarize:
            s.present[c, column[k]] += w


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        scale_down(s.given)
        scale_down(s.present)


@kernel
def log_probability(there: bool, given: float, present: float, alpha: float) -> float:
    """Log probability that the attribute is present, or that it is absent; -inf if impossible."""
    # present <= given, because rounding is monotonic. The bound is for damaged states.
    times = present if there else max(given - present, 0.0)
    return log(times + alpha) - log(given + 2.0 * alpha) if times + alpha > 0.0 else -inf


@kernel
def add_term(
    value: float, j: int, known: int, alpha: float, binarize: float, s: Any, out: Any
) -> None:
    """Add the log likelihood of `value` in state column j to out float64 (C,)."""
    if isnan(value):
        return
    given, present = 0.0, 0.0
    for c in range(known):
        given += s.given[c, j]
        present += s.present[c, j]
    if given <= 0.0:
        return
    everywhere = log_probability(value > binarize, given, present, alpha)
    for c in range(known):
        if s.given[c, j] > 0.0:
            out[c] += log_probability(value > binarize, s.given[c, j], s.present[c, j], alpha)
        else:  # never seen in this class: use all classes
            out[c] += everywhere


@kernel
def terms(
    x: Any, source: Any, column: Any, known: int, alpha: float, binarize: float, s: Any, out: Any
) -> None:
    """The log likelihoods of x, float64 (p,): a row of out float64 (q, C) for each attribute."""
    for k in range(source.shape[0]):
        add_term(x[source[k]], column[k], known, alpha * s.unit[0], binarize, s, out[k])


@kernel
def progressive(
    steps: Any,
    x: Any,
    source: Any,
    column: Any,
    alpha: float,
    binarize: float,
    s: Any,
    joint: Any,
) -> None:
    """Run the steps over x float64 (n, p), adding to joint float64 (n_predictions, C).

    source, column int64 (q,): x[:, source[k]] belongs to state column column[k].
    """
    known = steps.known
    k = 0
    for i in range(steps.op.shape[0]):
        xi = x[steps.row[i]]
        if steps.op[i] != 1:
            pseudo = alpha * s.unit[0]
            for f in range(source.shape[0]):
                add_term(xi[source[f]], column[f], known, pseudo, binarize, s, joint[k])
            k += 1
        if steps.op[i] != 0:
            fade(s, steps.growth)
            c = steps.y[i]
            learn(xi, source, column, binarize, c, steps.w[i] * s.unit[0], s)
            known = max(known, c + 1)
