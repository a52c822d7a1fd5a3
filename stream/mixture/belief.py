"""The weights of experts by Bayes' rule, under each of a bank of share rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream.data.block import Floats
from stream.data.state import State
from stream.errors import StateError
from stream.mixture._kernels import weigh as kernels
from stream.mixture._kernels.weigh import Belief

__all__ = ["RATES", "Belief", "equal", "restored", "weights"]

RATES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)  # shares of weight that experts exchange at each label
SLACK = 1e-9  # by which weights in a state may sum to another number than 1


def equal(n: int, rates: Sequence[float] = RATES) -> Belief:
    """The same weight for each of n experts."""
    k = len(rates)
    logs = np.full(k, -np.log(k)), np.full(n, -np.log(n))
    return Belief(logs[0], np.full((1, k), 1.0 / k), logs[1], np.full((k, n), 1.0 / n))


def weights(belief: Belief) -> Floats:
    """float64 (n,): the weight of each expert."""
    out = np.empty(belief.log_bayes.size)
    kernels.weights(belief, out)
    return out


def restored(own: State, n: int, rates: Sequence[float] = RATES) -> Belief:
    """The weights of n experts in a state.

    Raises
    ------
    StateError
        They are not those of n experts, or do not sum to 1.
    """
    k = len(rates)
    belief = Belief(
        own.array("log_bank", np.float64, 1),
        own.array("bank", np.float64, 2),
        own.array("log_bayes", np.float64, 1),
        own.array("shares", np.float64, 2),
    )
    if [a.shape for a in belief] != [(k,), (1, k), (n,), (k, n)]:
        raise StateError(f"expected the weights of {n} experts, got other shapes")
    for found, logs in ((belief.bank, belief.log_bank), (belief.shares, belief.log_bayes)):
        # In this order, because exp would overflow. NaN fails a check.
        if not (logs <= SLACK).all() or not _near(np.exp(logs), found[0]):
            raise StateError("expected the logarithms of weights, got others")
        if not (found >= 0.0).all() or not _near(found.sum(axis=1), 1.0):
            raise StateError("expected weights that sum to 1, got others")
    if not (belief.shares >= np.array(rates)[:, None] / n * (1.0 - SLACK)).all():
        raise StateError("expected the shares that experts exchange, got less")
    return belief


def _near(found: Floats, expected: Floats | float) -> bool:
    return bool((np.abs(found - expected) <= SLACK).all())
