"""Which experts of a mixture rest, because they hardly count, and when they are woken."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import PREDICT
from stream.data.state import Rules, Saved, State, count_in

__all__ = ["Rest"]

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
