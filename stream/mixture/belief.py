"""The weights of experts by Bayes' rule, under each of a bank of share rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream.data.block import Floats
from stream.data.state import Rules, Saved, State
from stream.mixture._kernels import weigh as kernels
from stream.mixture._kernels.calibrate import FARTHEST, STEEPEST
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
    exchanged = np.array(rates)[:, None] / n * (1.0 - SLACK)
    table = {
        "log_bank": Saved(np.float64, (k,), -np.inf, SLACK),
        "bank": Saved(np.float64, (1, k), 0.0),
        "log_bayes": Saved(np.float64, (n,), -np.inf, SLACK),
        "shares": Saved(np.float64, (k, n), exchanged),
    }
    rules: Rules = {
        "the logarithms of the weights": lambda a: (
            _near(np.exp(a["log_bank"]), a["bank"][0])
            and _near(np.exp(a["log_bayes"]), a["shares"][0])
        ),
        "weights that sum to 1": lambda a: (
            _near(a["bank"].sum(axis=1), 1.0) and _near(a["shares"].sum(axis=1), 1.0)
        ),
    }
    return Belief(**own.read(table, rules))


def _near(found: Floats, expected: Floats | float) -> bool:
    return bool((np.abs(found - expected) <= SLACK).all())


def biased(slopes: int, classes: int, ends: int, *, hedged: bool = True) -> dict[str, Saved]:
    """The slopes and biases in a state, and how often which prediction was right if it is hedged.
    `CORRECT` is their rule."""
    return {
        "slope": Saved(np.float64, (slopes,), 0.0, STEEPEST),
        "slope_squares": Saved(np.float64, (slopes,), 0.0),
        "bias": Saved(np.float64, (classes,), -FARTHEST, FARTHEST),
        "bias_squares": Saved(np.float64, (classes,), 0.0),
        "right": Saved(np.float64, (ends, 2), 0.0, absent=None if hedged else 0.0),
    }


CORRECT: Rules = {
    "at most all predictions to be right": lambda a: a["right"][:, 1] <= a["right"][:, 0]
}
