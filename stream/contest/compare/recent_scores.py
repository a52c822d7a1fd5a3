"""How several models did of late: a fading Brier score of each, answer by answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream.contest.compare import _kernels as kernels
from stream.data.block import Floats
from stream.data.state import State
from stream.errors import StateError

__all__ = ["RecentScores"]

FADING_FACTOR = 0.99  # the last hundred answers or so
LEAST = 9.5  # what ten answers weigh: fewer say nothing


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
        self._sums: dict[str, Floats] = {}  # name -> weight of the answers, of their scores

    def advance(
        self, answers: Mapping[str, tuple[NDArray[np.int8], Floats]], start: int, stop: int
    ) -> None:
        """Add the answers from `start` up to `stop`; models that are not there are forgotten.

        Parameters
        ----------
        answers
            Name to int8 (k,), -1 where it was not asked, and float64 (k,), its Brier scores.
        """
        self._sums = {name: self._sums.get(name, np.zeros(2)) for name in answers}
        for name, (right, brier) in answers.items():
            kernels.fade(right, brier, start, stop, FADING_FACTOR, self._sums[name])

    def forget(self, name: str) -> None:
        """A model is gone; another one may come under its name before the next answer."""
        self._sums.pop(name, None)

    def best(self, champion: str) -> str:
        """Who did best, of those with ten answers; the champion where nobody did better."""
        mean = {name: s[1] / s[0] for name, s in self._sums.items() if s[0] >= LEAST}
        return min(mean, key=lambda name: (mean[name], name != champion), default=champion)

    def to_state(self) -> State:
        """All of it, as a copy."""
        sums = np.array([s.tolist() for s in self._sums.values()]).reshape(-1, 2)
        return State({"names": list(self._sums)}, {"sums": sums})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved. StateError: it is damaged."""
        names, sums = state.header["names"], state.array("sums", np.float64, 2)
        if sums.shape != (len(names), 2):
            raise StateError(f"expected two sums of {len(names)} models, got {sums.shape}")
        self._sums = {name: sums[i].copy() for i, name in enumerate(names)}
