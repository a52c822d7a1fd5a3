"""A challenger beside the champion, paired on the same records, looked at as often as one likes.

Rule: what is told holds at every record at once, not only at one chosen before. So it may be
watched, and acted upon when it looks good, without fooling oneself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.contest.compare import _kernels as kernels
from stream.contest.compare.recent_scores import RecentScores
from stream.data.block import Floats
from stream.data.state import State
from stream.errors import StateError

__all__ = ["LEVEL", "Comparison", "ComparisonView", "brier", "compile_comparison"]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """How a challenger stands against the champion.

    Parameters
    ----------
    compared
        Records on which both were asked and knew a class.
    won, lost
        Those of them on which only the challenger was right, and only the champion.
    e_value
        Evidence that the challenger is right more often; 1 is none. Where it is not, 20 is reached
        in one stream of twenty at most, however often one looks.
    difference
        Mean of the champion's Brier score less the challenger's; above 0 the challenger is better.
        None before any record.
    lower, upper
        Between them lies the mean of what was to be expected of it record by record, at all times
        at once, with chance 95 %.
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
    **Right more often.** Records on which both or neither are right say nothing of the difference.
    Of the others, w speak for the challenger and l against it. If, whatever came before, it wins
    such a record with chance 1/2 at most, then

        E = 2ⁿ⁺¹ ∫ pʷ (1-p)ˡ dp over [1/2, 1],  n = w + l,

    the likelihood ratio of a Bernoulli p drawn evenly from [1/2, 1] against 1/2, is never
    expected to grow, and by Ville's inequality reaches x with chance 1/x at most, ever: the
    one-sided beta-binomial mixture of Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform,
    nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021.

    **By how much.** Of the differences d of the Brier scores, each in [-2, 2], the mean of their
    expectations, each given all that came before, lies in the interval at all times with chance
    1 - `LEVEL`, whether or not they drift: the empirical Bernstein confidence sequence (Howard et
    al., Theorem 4) as Choe and Ramdas, "Comparing sequential forecasters", Operations Research
    72(4), 2024, use it for two forecasters, by a mixture over a fixed row of rates.

    O(1) a record and O(1) memory; a view costs O(√n) where both are about as good.

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
        """Add scored records in order, up to one after which the e-value is at a threshold.

        Parameters
        ----------
        champion, challenger
            int8, (k,): 1 where it was right, 0 where wrong, -1 where the record is not compared.
        lost, spared
            float64, (k,): Brier score of the champion, and of the challenger.
        start, stop
            Which of them; None: to the end.
        threshold
            What suffices, above 1.

        Returns
        -------
        int or None
            That record's index; None: all were added.
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
        """Another one that stands where this one does."""
        other = Comparison()
        other._counts, other._sums = self._counts.copy(), self._sums.copy()
        return other

    def bits(self) -> bytes:
        """All of it, bit for bit."""
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
        """The whole state, as a copy."""
        arrays: dict[str, NDArray[Any]] = {"counts": self._counts, "sums": self._sums}
        return State({}, arrays).copy()

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged.
        """
        counts, sums = state.array("counts", np.int64, 1), state.array("sums", np.float64, 1)
        if counts.size != 4 or sums.size != 3 or counts.min() < 0:
            raise StateError(f"expected 4 counts and 3 sums, got {counts.tolist()}, {sums.size}")
        self._counts, self._sums = counts, sums


def brier(proba: Floats, row: NDArray[np.int64], true: NDArray[np.int64]) -> Floats:
    """Brier score of some predictions: the squared distance from what came, in [0, 2].

    Parameters
    ----------
    proba
        float64, (n, C).
    row
        int64, (k,): which of them; -1 for one that says nothing, which costs 1.
    true
        int64, (k,): class codes; one without a column was given no probability.

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
    """Compile the kernels, on a comparison that is thrown away."""
    one = np.array([1], dtype=np.int8)
    cost = brier(np.array([[1.0]]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    comparison = Comparison()
    comparison.advance(one - 1, one, cost, cost)
    comparison.view()
    RecentScores().advance({"": (one, cost)}, 0, 1)
