"""Compare a challenger with the champion on the same records, valid at any time.

Rule: the statistical guarantees hold at all records simultaneously, not only at one chosen in
advance. So it is valid to watch the evidence and to act as soon as it suffices.

Recent scores of several models: a fading Brier score of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.contest.compare import _kernels as kernels
from stream.data.block import Floats
from stream.data.state import Saved, State

__all__ = ["LEVEL", "Comparison", "ComparisonView", "RecentScores", "brier", "compile_comparison"]

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


LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A challenger compared with the champion.

    Parameters
    ----------
    compared
        Number of records on which both predicted a class.
    won, lost
        Number of these on which only the challenger was right, and only the champion.
    e_value
        Evidence that the challenger is right more often. 1 means no evidence. If it is not right
        more often, the e-value reaches 20 in at most one of twenty streams, however often it is
        read.
    difference
        Mean of the champion's Brier score minus the challenger's. Above 0 the challenger is better.
        None before the first record.
    lower, upper
        Bounds of the mean of the expected differences, each given the past. They hold at all times
        simultaneously with probability 95 %.
    """

    compared: int
    won: int
    lost: int
    e_value: float
    difference: float | None
    lower: float | None
    upper: float | None


class Comparison:
    """Evidence that a challenger is better than the champion, valid at any time.

    Attributes
    ----------
    e_value : float
        See `ComparisonView`.

    Notes
    -----
    **Right more often.** Records on which both or neither are right are ignored. Of the others, the
    challenger wins w and loses l. If it wins each such record with probability at most 1/2, given
    the past, then

        E = 2ⁿ⁺¹ ∫ pʷ (1-p)ˡ dp over [1/2, 1],  n = w + l,

    the likelihood ratio of a Bernoulli p, uniform on [1/2, 1], against 1/2, is a supermartingale.
    By Ville's inequality it ever reaches x with probability at most 1/x. This is the one-sided
    beta-binomial mixture of Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
    nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021.

    **By how much.** Let d be the differences of the Brier scores, each in [-2, 2]. The mean of
    their expectations, each given the past, is in the interval at all times with probability 1 -
    `LEVEL`, even if they drift. This is the empirical Bernstein confidence sequence (Howard et al.,
    Theorem 4), applied to two forecasters as in Choe and Ramdas, "Comparing sequential
    forecasters", Operations Research 72(4), 2024, with a mixture over fixed rates.

    O(1) for each record and O(1) memory. A view costs O(√n) if both are about equally good.

    Examples
    --------
    >>> import numpy as np
    >>> comparison = Comparison()
    >>> right, wrong = np.ones(6, dtype=np.int8), np.zeros(6, dtype=np.int8)
    >>> comparison.advance(wrong, right, np.full(6, 0.5), np.full(6, 0.1))
    >>> comparison.view().won, round(comparison.e_value, 2)
    (6, 18.14)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(4, dtype=np.int64)
        self._sums = np.array([1.0, 0.0, 0.0])

    def advance(
        self,
        champion: NDArray[np.int8],
        challenger: NDArray[np.int8],
        lost: Floats,
        spared: Floats,
        start: int = 0,
        stop: int | None = None,
        threshold: float = inf,
    ) -> int | None:
        """Add scored records in order, up to the first after which the e-value reaches a threshold.

        Parameters
        ----------
        champion, challenger
            int8, (k,): 1 right, 0 wrong, -1 if the record is not compared.
        lost, spared
            float64, (k,): Brier score of the champion, and of the challenger.
        start, stop
            The range of records. None: to the end.
        threshold
            The e-value that suffices, above 1.

        Returns
        -------
        int or None
            The index of that record; None if all were added.
        """
        end = len(champion) if stop is None else stop
        counts, sums = self._counts, self._sums
        given = (champion, challenger, lost, spared, start, end, float(threshold))
        at = int(kernels.advance(*given, counts, sums))
        return None if at < 0 else at

    @property
    def e_value(self) -> float:
        won, lost, power = self._counts[1:].tolist()
        return float(kernels.evidence(won, lost, float(self._sums[0]), power))

    def copy(self) -> Comparison:
        """A copy of the comparison."""
        other = Comparison()
        other._counts, other._sums = self._counts.copy(), self._sums.copy()
        return other

    def bits(self) -> bytes:
        """The bytes of the whole state."""
        return self._counts.tobytes() + self._sums.tobytes()

    def view(self) -> ComparisonView:
        """A frozen copy."""
        compared, won, lost, _ = self._counts.tolist()
        if not compared:
            return ComparisonView(0, won, lost, self.e_value, None, None, None)
        mean = float(self._sums[1]) / compared
        off = float(kernels.radius(float(self._sums[2]), LEVEL)) / compared
        lower, upper = max(mean - off, -2.0), min(mean + off, 2.0)
        return ComparisonView(compared, won, lost, self.e_value, mean, lower, upper)

    def to_state(self) -> State:
        """A copy of the whole state."""
        arrays: dict[str, NDArray[Any]] = {"counts": self._counts, "sums": self._sums}
        return State({}, arrays).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        table = {"counts": Saved(np.int64, (4,), 0), "sums": Saved(np.float64, (3,))}
        self._counts, self._sums = state.read(table).values()


def brier(proba: Floats, row: NDArray[np.int64], true: NDArray[np.int64]) -> Floats:
    """Brier score of predictions: the squared distance from the true class, in [0, 2].

    Parameters
    ----------
    proba
        float64, (n, C).
    row
        int64, (k,): index of the prediction; -1 for a missing one, which costs 1.
    true
        int64, (k,): class codes; a class without a column has probability 0.

    Examples
    --------
    >>> import numpy as np
    >>> brier(np.array([[0.75, 0.25]]), np.array([0, 0, -1]), np.array([0, 1, 0])).tolist()
    [0.125, 1.125, 1.0]
    """
    out = np.empty(row.size)
    kernels.brier(proba, row, true, out)
    return out


def compile_comparison() -> None:
    """Compile the kernels by running them on a throw-away comparison."""
    one = np.array([1], dtype=np.int8)
    cost = brier(np.array([[1.0]]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    comparison = Comparison()
    comparison.advance(one - 1, one, cost, cost)
    comparison.view()
    RecentScores().advance({"": (one, cost)}, 0, 1)
