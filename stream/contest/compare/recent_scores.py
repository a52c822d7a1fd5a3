"""Recent scores of several models: a fading Brier score of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream.contest.compare import _kernels as kernels
from stream.data.block import Floats
from stream.data.state import Saved, State

__all__ = ["RecentScores"]

FADING_FACTOR = 0.99  # about the last hundred labels
LEAST = 9.5  # the weight of ten labels; fewer are not used


class RecentScores:
    """A fading Brier score of each of several models.

    Examples
    --------
    >>> lately = RecentScores()
    >>> right = np.ones(20, dtype=np.int8)
    >>> lately.advance({"a": (right, np.full(20, 0.5)), "b": (right, np.full(20, 0.25))}, 0, 20)
    >>> lately.best("a")
    'b'
    """

    def __init__(self) -> None:
        self._sums: dict[str, Floats] = {}  # name to weight, and weighted sum of scores

    def advance(
        self, answers: Mapping[str, tuple[NDArray[np.int8], Floats]], start: int, stop: int
    ) -> None:
        """Add the labelled predictions from `start` to `stop`. Models not in `answers` are
        forgotten.

        Parameters
        ----------
        answers
            Name to int8 (k,), -1 if the model did not predict, and float64 (k,), its Brier scores.
        """
        self._sums = {name: self._sums.get(name, np.zeros(2)) for name in answers}
        for name, (right, brier) in answers.items():
            kernels.fade(right, brier, start, stop, FADING_FACTOR, self._sums[name])

    def forget(self, name: str) -> None:
        """Forget a model, because another one may use its name before the next label."""
        self._sums.pop(name, None)

    def best(self, champion: str) -> str:
        """The best model with at least ten labels; the champion if no model is better."""
        mean = {name: s[1] / s[0] for name, s in self._sums.items() if s[0] >= LEAST}
        return min(mean, key=lambda name: (mean[name], name != champion), default=champion)

    def to_state(self) -> State:
        """A copy of the whole state."""
        sums = np.array([s.tolist() for s in self._sums.values()]).reshape(-1, 2)
        return State({"names": list(self._sums)}, {"sums": sums})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. StateError: the state is damaged."""
        names = state.header["names"]
        sums = state.read({"sums": Saved(np.float64, (len(names), 2))})["sums"]
        self._sums = {name: sums[i].copy() for i, name in enumerate(names)}
