"""The weights of experts by Bayes' rule, under each of a bank of share rates."""

from __future__ import annotations

import numpy as np

from stream.data.block import Floats
from stream.data.state import State
from stream.errors import StateError
from stream.mixture._kernels import weigh as kernels
from stream.mixture._kernels.weigh import Belief

__all__ = ["RATES", "Belief", "equal", "restored", "weights"]

RATES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)  # shares of weight that experts exchange at each label
SLACK = 1e-9  # by which weights in a state may sum to another number than 1


def equal(n: int) -> Belief:
    """The same weight for each of n experts."""
    k = len(RATES)
    return Belief(np.full(k, -np.log(k)), np.full(n, -np.log(n)), np.full((k, n), 1.0 / n))


def weights(belief: Belief) -> Floats:
    """float64 (n,): the weight of each expert."""
    out = np.empty(belief.bayes.size)
    kernels.weights(belief, out)
    return out


def restored(own: State, n: int) -> Belief:
    """The weights of n experts in a state.

    Raises
    ------
    StateError
        They are not those of n experts, or do not sum to 1.
    """
    bank, bayes = (own.array(name, np.float64, 1) for name in ("bank", "bayes"))
    belief, k = Belief(bank, bayes, own.array("shares", np.float64, 2)), len(RATES)
    if [a.shape for a in belief] != [(k,), (n,), (k, n)]:
        raise StateError(f"expected the weights of {n} experts, got other shapes")
    # In this order, because exp would overflow. NaN fails the first check.
    for logs in (bank, bayes):
        if not (logs <= SLACK).all() or not abs(np.exp(logs).sum() - 1.0) <= SLACK:
            raise StateError("expected logarithms of weights that sum to 1, got others")
    least = np.array(RATES)[:, None] / n * (1.0 - SLACK)
    if not (belief.shares >= least).all() or not _near(belief.shares.sum(axis=1), 1.0):
        raise StateError("expected weights that sum to 1, got others")
    if not _near(belief.shares[0], np.exp(bayes)):
        raise StateError("expected the weights of these logarithms, got others")
    return belief


def _near(found: Floats, expected: Floats | float) -> bool:
    return bool((np.abs(found - expected) <= SLACK).all())
