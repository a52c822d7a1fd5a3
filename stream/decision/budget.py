"""Decisions by a budget: flag one label, with a bound on the share of others that are flagged.

Rule: the threshold of a record follows from labels that came before its prediction, and from the
probabilities that were predicted for them. So it does not depend on blocks, restarts or replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.parameters import number, shown
from stream.data.schema import Label
from stream.data.state import State
from stream.decision import _kernels
from stream.decision._kernels import ABOVE, ALLOWED, FALSE, FLAGGED, OTHERS, PLACE, SUMS, WITHHELD
from stream.decision.risk import Decisions, named
from stream.errors import SchemaError, StateError
from stream.learner.base import Predictions

__all__ = ["Budget", "BudgetView", "FalsePositiveBudget", "column", "compile_budget", "decisions"]

ALPHA = 0.05  # the probability that a threshold above the budget is ever used
SMALLEST_RATE = 1e-6
# The tests of a threshold: how many times the budget its rate is supposed to be, and the share of
# ALPHA. Most of it is for a rate of 0, because that test is the first to allow anything.
TESTS = ((0.0, 0.8), (0.2, 0.05), (0.5, 0.05), (0.8, 0.05), (0.95, 0.05))
PER_OCTAVE, TO_ZERO, TO_ONE = 8, 20, 52  # candidates each time that p or 1 - p halves


@dataclass(frozen=True, slots=True)
class Budget:
    """The rule: flag `label`, and at most this share of the records of all other labels.

    Parameters
    ----------
    label
        The label to flag, as text.
    rate
        The largest false positive rate, from 1e-6 and below 0.5.

    Raises
    ------
    SchemaError
        A parameter is not valid.

    Examples
    --------
    >>> from stream.decision import Budget
    >>> round(Budget("spam", 0.001).needed)
    3217
    """

    label: str
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise SchemaError(f"label must be a text that is not empty, got {shown(self.label)}")
        number("rate", self.rate)
        if not SMALLEST_RATE <= self.rate < 0.5:
            raise SchemaError(f"rate must be from {SMALLEST_RATE:g} and below 0.5, got {self.rate}")

    @property
    def needed(self) -> float:
        """How many labelled others allow a threshold that none of them reaches."""
        return float(self.bounds[0].min())

    @property
    def bounds(self) -> Floats:
        """float64, (2, tests): intercept and slope of the number of labelled others by which a
        test allows a threshold.

        The test of rate q is the likelihood ratio of q and the budget, and it allows a threshold
        when that reaches 1 / (its share of `ALPHA`). With j of n labelled others at or above the
        threshold, its logarithm is (n - j) ln((1 - q) / (1 - rate)) + j ln(q / rate).
        """
        out = np.empty((2, len(TESTS)))
        for i, (times, share) in enumerate(TESTS):
            gain = log((1.0 - times * self.rate) / (1.0 - self.rate))
            out[0, i] = -log(ALPHA * share) / gain
            out[1, i] = inf if times == 0.0 else 1.0 - log(times) / gain
        out[1, 0] = 1e18  # finite, because 0 * inf is no number: one false positive rules it out
        return out


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget so far.

    Parameters
    ----------
    rule
        The budget.
    others
        Labelled records of other labels: the evidence.
    missing
        How many more are needed before anything can be flagged, if none of them reaches the
        highest threshold; 0 if there is a threshold.
    threshold
        The probability from which the next record is flagged; None if nothing is flagged yet.
    flagged
        How many records were flagged, labelled or not.
    false_positives
        How many of the labelled others were flagged.
    withheld
        How many records reached the threshold but were not flagged, because one more false
        positive would have exceeded the budget of the labelled others.
    """

    rule: Budget
    others: int
    missing: int
    threshold: float | None
    flagged: int
    false_positives: int
    withheld: int


def _candidates() -> Floats:
    """The candidate thresholds, ascending: 0, then finer towards 0 and 1, up to 1 itself."""
    low = [2.0 ** (-j / PER_OCTAVE) for j in range(PER_OCTAVE, PER_OCTAVE * TO_ZERO + 1)]
    high = [1.0 - 2.0 ** (-j / PER_OCTAVE) for j in range(PER_OCTAVE, PER_OCTAVE * TO_ONE + 1)]
    return np.unique(np.array([0.0, 1.0, *low, *high]))


CANDIDATES = _candidates()


class FalsePositiveBudget:
    """Flags a label so that the false positive rate stays within a budget at any time.

    Parameters
    ----------
    rule
        The budget.

    Notes
    -----
    The candidate thresholds are fixed. For each, the labelled others that reach it are counted. A
    threshold is used while its count is small enough that, by a sequential test, its false positive
    rate is below the budget. The counts grow from stricter to less strict thresholds. If a
    threshold above the budget is used, the strictest one above the budget has passed its test,
    which has a probability of at most 5 % over all time (Ville's inequality). So one level holds
    for all thresholds together, as in fixed-sequence testing (Angelopoulos et al., Learn then Test,
    2021). Tests are likelihood ratios against fixed rates (Wald, 1945; betting: Waudby-Smith and
    Ramdas, 2024).

    Nothing is flagged either while one more false positive would exceed the budget of the labelled
    others so far, so a model that changes does a bounded harm.

    O(candidates) memory; a record costs some ten nanoseconds.

    Examples
    --------
    >>> from stream.decision import Budget, FalsePositiveBudget
    >>> budget = FalsePositiveBudget(Budget("spam", 0.1))
    >>> budget.flags_one(0.99)
    False
    >>> for _ in range(31):
    ...     budget.update_one(0.2, flagged=False)
    >>> budget.flags_one(0.99), budget.flags_one(0.1), budget.view().missing
    (True, False, 0)
    """

    def __init__(self, rule: Budget) -> None:
        if not isinstance(rule, Budget):
            raise SchemaError(f"expected a Budget, got {shown(rule)}")
        self.rule = rule
        self._bounds = rule.bounds
        self._counts = np.zeros(CANDIDATES.size, dtype=np.int64)
        self._sums = np.zeros(SUMS, dtype=np.int64)
        self._sums[ALLOWED], self._sums[PLACE] = -1, CANDIDATES.size

    @property
    def threshold(self) -> float | None:
        """The probability from which a record reaches the threshold; None: none does."""
        place = int(self._sums[PLACE])
        return float(CANDIDATES[place]) if place < CANDIDATES.size else None

    def flags_one(self, p: float) -> bool:
        """Whether a record with this probability of the label is flagged now. Counts nothing."""
        spare = self._sums[FALSE] + 1 <= self.rule.rate * (self._sums[OTHERS] + 1)
        return bool(spare and _places(np.array([p]))[0] >= self._sums[PLACE])

    def update_one(self, p: float, *, flagged: bool, times: int = 1) -> None:
        """Add the label of one record of another label; with `times` = -1 take it back.

        Parameters
        ----------
        p, flagged
            Its probability of the flagged label, and whether it was flagged, at its prediction.
        """
        place = int(_places(np.array([p]))[0])
        _kernels.add(place, flagged, times, self._bounds, self._counts, self._sums)

    def follow(
        self,
        predicts: NDArray[np.int64],
        p: Floats,
        other: NDArray[np.bool_],
        source: NDArray[np.int64],
        earlier: tuple[Floats, NDArray[np.bool_]],
    ) -> NDArray[np.bool_]:
        """Decide and learn in the order of steps: which predictions are flagged.

        Parameters
        ----------
        predicts
            int64, one for each step: index of the prediction that it makes; -1 for none.
        p
            float64, one for each prediction: its probability of the flagged label.
        other
            bool, one for each step: whether it brings the label of a record of another label.
        source
            int64, one for each step: the prediction here that its label belongs to, or -1.
        earlier
            For each step without a source, probability and flag of its prediction.
        """
        flagged = np.zeros(p.size, dtype=np.bool_)
        then, before = _places(earlier[0]), np.ascontiguousarray(earlier[1])
        steps = (predicts, _places(p), other, source, then, before)
        held = (self._bounds, self._counts, self._sums)
        _kernels.follow(*steps, float(self.rule.rate), *held, flagged)
        return flagged

    def view(self) -> BudgetView:
        """The counts so far."""
        others, top = int(self._sums[OTHERS]), int(self._counts[-1])
        missing = max(0, int(np.ceil(_kernels.needed(top, self._bounds))) - others)
        return BudgetView(
            self.rule,
            others,
            0 if self.threshold is not None else missing,
            self.threshold,
            int(self._sums[FLAGGED]),
            int(self._sums[FALSE]),
            int(self._sums[WITHHELD]),
        )

    def to_state(self) -> State:
        """The counts, and the rule that they belong to."""
        header: dict[str, Any] = {"label": self.rule.label, "rate": float(self.rule.rate)}
        return State(header, {"counts": self._counts.copy(), "sums": self._sums.copy()})

    @classmethod
    def from_state(cls, state: State) -> FalsePositiveBudget:
        """The budget that `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        try:
            out = cls(Budget(state.header["label"], state.header["rate"]))
        except (KeyError, SchemaError) as error:
            raise StateError(f"the state of this budget is damaged: {error!r}") from None
        counts, sums = state.array("counts", np.int64, 1), state.array("sums", np.int64, 1)
        others, place = int(counts.sum()), int(sums[PLACE]) if sums.size == SUMS else -1
        if (
            counts.size != CANDIDATES.size
            or not 0 <= place <= CANDIDATES.size
            or (counts < 0).any()
            or others != sums[OTHERS]
            or counts[place:].sum() != sums[ABOVE]
        ):
            raise StateError("the state of this budget is damaged: its counts do not fit")
        out._counts, out._sums = counts.copy(), sums.copy()
        return out


def decisions(rule: Budget, predictions: Predictions, flagged: NDArray[np.bool_]) -> Decisions:
    """The decisions: the flagged label, otherwise the most probable other one.

    There is no decision if nothing is flagged and no other label was known. The risk is the
    probability that the action is not the true label.
    """
    actions: list[Label] = list(predictions.classes)
    n, none = len(predictions), np.zeros(len(predictions), dtype=np.bool_)
    if not actions:
        chosen = np.full(n, -1, dtype=np.int64)
        return Decisions(actions, chosen, np.zeros(n), predictions.proba, none, none)
    mine = np.array([named(label) == rule.label for label in actions], dtype=np.bool_)
    possible = ~mine & (np.arange(len(actions)) < predictions.known[:, None])
    others = np.where(possible, predictions.proba, -1.0).argmax(axis=1)
    chosen = np.where(flagged, int(np.argmax(mine)), others)
    decided, risks = flagged | possible.any(axis=1), 1.0 - predictions.proba
    risk = np.where(decided, risks[np.arange(n), chosen], 0.0)
    return Decisions(actions, np.where(decided, chosen, -1), risk, risks, none, decided)


def compile_budget(rule: Budget) -> None:
    """Compile the kernels, which otherwise happens at the first record."""
    steps, none = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    budget = FalsePositiveBudget(rule)
    budget.follow(steps, np.zeros(1), none, steps, (np.zeros(1), none))
    budget.update_one(0.0, flagged=False)
    budget.view()


def column(rule: Budget, classes: list[Label], values: NDArray[Any]) -> NDArray[Any]:
    """The column of the flagged label in `values`, which has one for each class. Without the label
    it is 0."""
    for code, label in enumerate(classes[: values.shape[1]]):
        if named(label) == rule.label:
            return np.ascontiguousarray(values[:, code])
    return np.zeros(len(values), dtype=values.dtype)


def _places(p: Floats) -> NDArray[np.int64]:
    """How many candidates each probability reaches, less one."""
    return np.asarray(np.searchsorted(CANDIDATES, p, side="right") - 1, dtype=np.int64)
