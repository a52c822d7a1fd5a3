"""The weights of experts by Bayes' rule, under each of a bank of share rates; and which experts
rest, because they hardly count, and when they are woken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT, Floats
from stream.data.state import Rules, Saved, State, count_in
from stream.mixture._kernels import weigh as kernels
from stream.mixture._kernels.calibrate import FARTHEST, STEEPEST
from stream.mixture._kernels.weigh import Belief

__all__ = ["RATES", "Belief", "Rest", "equal", "restored", "weights"]


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


PERIOD = 1000  # labels between two decisions
FIRST = 2000  # labels before the first one
LEAST = 0.01  # mean weight in a period, below which an expert rests
LONGEST = 4  # periods of rest
KEPT = 1024  # periods of which it is known who rested: one million labels


class Rest:
    """Which of n experts rest.

    After every 1,000 labels, a period, an expert whose mean weight was below 0.01 rests for one
    period. Then it is tried for one period, and rests for two if its weight is still low, and then
    for four. An expert whose weight rises in its rest, by labels of its earlier predictions, is
    woken. The first `always` experts never rest.

    Attributes
    ----------
    awake : ndarray
        bool, (n,).
    sums : ndarray
        float64, (n,): the sum of the weights in this period.
    """

    def __init__(self, n: int, always: int) -> None:
        self._always = always
        self._learned = 0
        self._until = np.zeros(n, dtype=np.int64)  # the label before which each is woken
        self._pause = np.ones(n, dtype=np.int64)  # its next rest, in periods
        self._history = np.zeros(KEPT, dtype=np.int64)  # who was awake, as bits; a ring of periods
        self.sums = np.zeros(n)

    @property
    def awake(self) -> NDArray[np.bool_]:
        out: NDArray[np.bool_] = self._until <= self._learned - self._learned % PERIOD
        return out

    def stops(self, op: NDArray[np.int8]) -> list[int]:
        """Ends of the parts of a block between which an expert may be woken or rest."""
        learns = np.flatnonzero(op != PREDICT)
        ends: list[int] = (learns[PERIOD - self._learned % PERIOD - 1 :: PERIOD] + 1).tolist()
        return ends if ends and ends[-1] == op.size else [*ends, op.size]

    def count(self, labels: int) -> None:
        """Count learned labels, at most up to the end of the period."""
        self._learned += labels
        if labels and self._learned % PERIOD == 0:
            self._decide()

    def _decide(self) -> None:
        now = self._learned
        was_awake = self._until <= now - PERIOD
        bits = np.flatnonzero(was_awake)
        self._history[(now // PERIOD - 1) % KEPT] = sum(1 << i for i in bits.tolist())
        if now >= FIRST:
            high = self.sums >= LEAST * PERIOD
            self._until[high], self._pause[high] = 0, 1
            low = was_awake & ~high
            low[: self._always] = False
            self._until[low] = now + self._pause[low] * PERIOD
            self._pause[low] = np.minimum(2 * self._pause[low], LONGEST)
        self.sums[:] = 0.0

    def awake_at(self, age: int) -> NDArray[np.bool_]:
        """Who learned the label after which `age` more were learned. Who rested at any time is
        taken to have rested before the kept periods."""
        period, now = (self._learned - 1 - age) // PERIOD, self._learned // PERIOD
        if period >= now:
            return self.awake
        if period < 0 or now - period > KEPT:
            return np.arange(self._until.size) < self._always
        bits = int(self._history[period % KEPT])
        return np.array([bits >> i & 1 for i in range(self._until.size)], dtype=np.bool_)

    def to_state(self) -> State:
        """A copy."""
        arrays = {"until": self._until, "pause": self._pause, "history": self._history}
        return State({"learned": self._learned}, {**arrays, "sums": self.sums}).copy()

    def load_state(self, state: State) -> None:
        """StateError: the state is damaged."""
        learned, n = count_in(state.header, "learned"), self._until.size
        table = {
            "until": Saved(np.int64, (n,), 0, learned + LONGEST * PERIOD),
            "pause": Saved(np.int64, (n,), 1, LONGEST),
            "history": Saved(np.int64, (KEPT,), 0),
            "sums": Saved(np.float64, (n,), 0, 2.0 * PERIOD),
        }
        rules: Rules = {
            "rests that end with a period": lambda a: a["until"] % PERIOD == 0,
            "rests of experts that may rest": lambda a: a["until"][: self._always] == 0,
        }
        self._until, self._pause, self._history, self.sums = state.read(table, rules).values()
        self._learned = learned
