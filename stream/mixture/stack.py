"""The stack of a mixture: a logistic regression over what its experts predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.state import State
from stream.learner.base import Predictions
from stream.mixture._kernels import stack as kernels
from stream.mixture._kernels.calibrate import ENDS
from stream.mixture._kernels.stack import THREE, Stacked
from stream.mixture.belief import CORRECT, RATES, Belief, biased, equal, restored
from stream.mixture.belief import weights as weights_of
from stream.mixture.composed import PartPredictions

__all__ = ["NOTED", "Stack"]

OWN_RATES = (0.0, 0.01)  # shares of weight that mixture, stack and its correction exchange
NOTED = THREE + len(OWN_RATES)  # numbers that are noted of each class of a waiting row


class Stack:
    """The stack over n experts, and the weights of the mixture, the stack and its correction.

    At the beginning the mixture has half of the slopes, and the experts have the other half.
    """

    def __init__(self, n: int) -> None:
        slope = np.array([*[0.5 / n] * n, 0.5])
        squares, right = np.zeros(n + 1), np.zeros((ENDS.size + 1, 2))
        self._learned = Stacked(slope, squares, np.zeros(0), np.zeros(0), right)
        self._belief = equal(THREE, OWN_RATES)

    def run(
        self,
        steps: tuple[Any, ...],
        before: int,
        ran: PartPredictions,
        experts: Belief,
        awake: NDArray[np.bool_],
        sums: Floats,
        out: Predictions,
    ) -> None:
        """`progressive` of the kernels; steps: op, row, class code and weight of each."""
        state, rates = (
            (experts, self._learned, self._belief),
            (np.array(RATES), np.array(OWN_RATES)),
        )
        kernels.progressive(steps, before, ran, state, rates, awake, sums, (out.proba, out.known))

    def widen(self, classes: int) -> None:
        """A bias of 0 for each class that has none."""
        old = self._learned
        if more := classes - old.bias.size:
            zeros = np.zeros(more)
            self._learned = old._replace(
                bias=np.append(old.bias, zeros), bias_squares=np.append(old.bias_squares, zeros)
            )

    def shares(self, weights: Floats) -> Floats:
        """float64 (n,): the share of each expert in a prediction, by its weight in the mixture and
        its slope, each as far as mixture and stack count."""
        mixture, *rest = weights_of(self._belief).tolist()
        slope = self._learned.slope
        total = float(slope.sum())
        if total == 0.0:
            return weights
        stack = sum(rest) / total
        out: Floats = (mixture + stack * slope[-1]) * weights + stack * slope[:-1]
        return out

    def to_state(self) -> State:
        """Its arrays; they are not copied."""
        return State({}, {**self._learned._asdict(), **self._belief._asdict()})

    def load_state(self, own: State, classes: int) -> None:
        """StateError: the state is damaged."""
        table = biased(self._learned.slope.size, classes, ENDS.size + 1)
        learned = Stacked(**own.read(table, CORRECT))
        self._belief, self._learned = restored(own, THREE, OWN_RATES), learned
