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
UNDECIDED = {
    kernels.FEW: "too few records are compared",
    kernels.SAME: "the label has changed too rarely",
    kernels.RUNS: "wins come in runs that are too long for so few records",
}


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """A challenger compared with the champion.

    Parameters
    ----------
    compared
        Number of records on which both predicted a class.
    won, lost
        Number of these on which only the challenger was right, and only the champion.
    undecided
        Why there is no evidence yet; empty if there is. The e-value is then at most 1, and the
        bounds are -2 and 2.
    e_value
        Evidence that the challenger is right more often. 1 means no evidence. If it is not right
        more often, the e-value reaches 20 in at most one of twenty streams, however often it is
        read.
    difference
        Mean of the champion's Brier score minus the challenger's. Above 0 the challenger is better.
        None before the first record.
    lower, upper
        Bounds of the mean of the expected differences. They hold at all times simultaneously with
        probability 95 %.
    """

    compared: int
    won: int
    lost: int
    undecided: str
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
    undecided : str
        See `ComparisonView`.
    RECORDS, CHANGES : int
        Of the class: how many records must be compared, and how often the label must have changed,
        before anything is claimed.

    Notes
    -----
    Labels that come in runs, and labels that come late, make wins come in runs too: of two models
    that each know one class only, the one whose class is in a run wins all of it. Such wins are
    not independent, so the evidence of single records is too large. It is right for blocks that
    are longer than the runs. How long they are is not known, so the evidence is the least of all
    *scales*: blocks of 1, 2, 4, … compared records, up to those of which 32 are complete.

    **Right more often.** Let v be the records of a block that the challenger wins, minus those that
    it loses. If v is symmetric about 0 given the blocks before, or smaller, then the product of
    1 + v / (c + |v|) over the blocks is a supermartingale for any c, because a bet that is odd in v
    has the mean 0. The e-value of a scale is the mean of these products over 16 values of c. By
    Ville's inequality it ever reaches x with probability at most 1 / x. The smallest of all scales
    does so too if the assumption is true for one of them. For single records the assumption is that
    the challenger wins a record on which they differ with probability at most 1/2, given the past.

    **By how much.** Let d be the differences of the Brier scores, each in [-2, 2]. The mean of
    their expectations, each given the past, is in the interval at all times with probability 1 -
    `LEVEL`, even if they drift. This is the empirical Bernstein confidence sequence (Howard et al.,
    "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49(2),
    2021, Theorem 4), applied to two forecasters as in Choe and Ramdas, "Comparing sequential
    forecasters", Operations Research 72(4), 2024, with a mixture over fixed rates. The interval is
    made as wide as those of the three largest scales, which are the self-normalized ones of sums of
    symmetric values (de la Peña, "A general class of exponential inequalities for martingales and
    ratios", Annals of Probability 27(1), 1999).

    **Undecided.** Nothing is claimed before 1,000 records are compared and the label has changed
    32 times, because one run may be longer than all blocks. Nothing is claimed while neighbouring
    blocks of the three largest scales are correlated: then runs are longer than blocks.

    O(1) for each record and O(1) memory.

    Examples
    --------
    >>> import numpy as np
    >>> comparison = Comparison()
    >>> right = np.arange(1200) % 5 > 0
    >>> label, zeros = np.arange(1200) % 2, np.zeros(1200)
    >>> one, other = (~right).astype(np.int8), right.astype(np.int8)
    >>> comparison.advance(one, other, zeros, zeros, true=label, stop=900)
    >>> comparison.undecided, comparison.e_value
    ('too few records are compared', 1.0)
    >>> comparison.advance(one, other, zeros, zeros, true=label, start=900)
    >>> comparison.undecided, comparison.e_value > 1e6
    ('', True)
    """

    RECORDS = 1000
    CHANGES = 32

    def __init__(self) -> None:
        scales = kernels.SCALES
        self._arrays: dict[str, NDArray[Any]] = {
            "counts": np.array([0, 0, 0, 0, -1]),
            "sums": np.zeros(2),
            "wealth": np.full((scales, kernels.BETS), 1.0 / kernels.BETS),
            "e_values": np.ones(scales),
            "parts": np.zeros((scales, 2)),
            "blocks": np.zeros((scales, 2, 6)),
        }

    def advance(
        self,
        champion: NDArray[np.int8],
        challenger: NDArray[np.int8],
        lost: Floats,
        spared: Floats,
        start: int = 0,
        stop: int | None = None,
        threshold: float = inf,
        *,
        true: NDArray[np.int64] | None = None,
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
        true
            int64, (k,): class codes. None: whether the champion was right stands for the label.

        Returns
        -------
        int or None
            The index of that record; None if all were added.
        """
        end = len(champion) if stop is None else stop
        codes = champion.astype(np.int64) if true is None else true
        given = (champion, challenger, codes, lost, spared, start, end)
        needed = (float(threshold), self.RECORDS, self.CHANGES)
        at = int(kernels.advance(*given, *needed, *self._arrays.values()))
        return None if at < 0 else at

    @property
    def undecided(self) -> str:
        of = (self._arrays["counts"], self._arrays["blocks"])
        return UNDECIDED.get(int(kernels.undecided(self.RECORDS, self.CHANGES, *of)), "")

    @property
    def e_value(self) -> float:
        return self._e_value(self.undecided)

    def _e_value(self, undecided: str) -> float:
        a = self._arrays
        found = float(kernels.evidence(a["counts"], a["e_values"]))
        return min(found, 1.0) if undecided else found

    def copy(self) -> Comparison:
        """A copy of the comparison."""
        other = Comparison()
        other._arrays = {name: array.copy() for name, array in self._arrays.items()}
        return other

    def bits(self) -> bytes:
        """The bytes of the whole state."""
        return b"".join(array.tobytes() for array in self._arrays.values())

    def view(self) -> ComparisonView:
        """A frozen copy."""
        a, undecided = self._arrays, self.undecided
        e_value = self._e_value(undecided)
        compared, won, lost, *_ = a["counts"].tolist()
        if not compared:
            return ComparisonView(0, won, lost, undecided, e_value, None, None, None)
        mean, bounds = float(a["sums"][0]) / compared, np.array([-2.0, 2.0])
        if not undecided:
            kernels.bounds(a["counts"], a["sums"], a["blocks"], LEVEL, bounds)
        return ComparisonView(compared, won, lost, undecided, e_value, mean, *bounds.tolist())

    def to_state(self) -> State:
        """A copy of the whole state."""
        return State({}, dict(self._arrays)).copy()

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        least = {"counts": -1, "wealth": 0.0, "e_values": 0.0}
        table = {
            name: Saved(array.dtype, array.shape, least.get(name))
            for name, array in self._arrays.items()
        }
        self._arrays = state.read(table)


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
    a = comparison._arrays
    a["counts"][0], a["blocks"][..., 5] = 2**20, 32.0
    kernels.bounds(a["counts"], a["sums"], a["blocks"], LEVEL, np.empty(2))
    RecentScores().advance({"": (one, cost)}, 0, 1)
