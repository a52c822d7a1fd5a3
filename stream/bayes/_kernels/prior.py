"""Kernels of the class prior."""

from __future__ import annotations

from math import inf, log
from typing import Any, NamedTuple

from numpy import empty, float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, normalise_row

Floats = NDArray[float64]

# New weights grow instead of old ones shrinking. Beyond this unit all are divided by it, exactly.


class Prior(NamedTuple):
    """State of the prior of C classes.

    weight float64 (C,): sum of weights of each class, in units. unit float64 (1,): the present
    value of a weight of 1 learned last. records int64 (1,): number of learned records, counted if
    they fade.
    """

    weight: Floats
    unit: Floats
    records: NDArray[int64]


@kernel
def log_prior(known: int, given: Any, s: Any, out: Any) -> None:
    """out float64 (C,): log prior of `known` classes; `given` (C,), or (0,) if it is learned."""
    if given.shape[0] > 0:
        for c in range(known):
            out[c] = given[c]
        return
    total = 0.0
    for c in range(known):
        total += s.weight[c]
    for c in range(known):
        out[c] = log(s.weight[c] / total) if s.weight[c] > 0.0 else -inf


@kernel
def progressive(
    op: Any,
    y: Any,
    w: Any,
    known: int,
    growth: float,
    given: Any,
    weight: Any,
    unit: Any,
    records: Any,
    prior: Any,
    seen: Any,
) -> None:
    """Write the log prior at each predicting step, and learn the labels of the others.

    op … growth: as in `Steps`; given (C,) or (0,): as in `log_prior`; weight … records: a Prior.
    prior float64 (n_predictions, C): without the logarithm of the total, which all classes share.
    seen int64 (n_predictions,): number of known classes.
    """
    logs = empty(weight.shape[0])  # updated class by class; functions of the weights only
    for c in range(weight.shape[0]):
        logs[c] = given[c] if given.shape[0] > 0 else log_or_none(weight[c])
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            for c in range(known):
                prior[k, c] = logs[c]
            seen[k] = known
            k += 1
        if op[i] != 0:
            c = y[i]
            if growth != 1.0:
                records[0] += 1
                if advance(unit, growth):
                    for a in range(weight.shape[0]):
                        weight[a] /= LARGEST_UNIT
                        logs[a] = logs[a] if given.shape[0] > 0 else log_or_none(weight[a])
            weight[c] += w[i] * unit[0]
            if given.shape[0] == 0:
                logs[c] = log(weight[c])
            known = max(known, c + 1)


@kernel
def log_or_none(weight: float) -> float:
    """log(weight); -inf for 0."""
    return log(weight) if weight > 0.0 else -inf


@kernel
def normalise(joint: Any, prior: Any, seen: Any) -> None:
    """Turn each row of joint float64 (n, C) into its posterior; the prior if all are -inf."""
    for k in range(joint.shape[0]):
        normalise_row(joint, prior, k, seen[k])
