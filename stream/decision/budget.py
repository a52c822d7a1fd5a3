"""Decisions by a budget: flag one label, with a bound on the share of others that are flagged.

Rule: the threshold of a record follows from labels that came before its prediction, and from the
probabilities that were predicted for them. So it does not depend on blocks, restarts or replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.parameters import shown
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.decision import _kernels
from stream.decision._kernels import (
    ABOVE,
    EVIDENCE,
    FALSE,
    FLAGGED,
    FLAGGED_LABEL,
    KEPT,
    NEXT,
    NO_LABEL,
    OF_LABEL,
    OF_OTHERS,
    OTHER_LABEL,
    OTHERS,
    PLACE,
    SUMS,
    UNSURE,
    WITHHELD,
)
from stream.decision.risk import Decisions, named
from stream.decision.rule import Budget
from stream.errors import SchemaError, StateError
from stream.learner.predictions import Predictions

__all__ = [
    "EVIDENCE",
    "FLAGGED_LABEL",
    "NO_LABEL",
    "OTHER_LABEL",
    "BudgetView",
    "FalsePositiveBudget",
    "Verdicts",
    "column",
    "compile_budget",
    "decisions",
]

PER_OCTAVE, TO_ZERO, TO_ONE = 8, 20, 52  # candidates each time that p or 1 - p halves


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
        How many more are needed at least before anything can be flagged; 0 if there is a
        threshold.
    threshold
        The probability from which the next record is flagged; None if nothing is flagged yet.
    flagged
        How many records were flagged, labelled or not.
    false_positives
        How many of the labelled others were flagged.
    withheld
        How many records reached the threshold but were not flagged, because one more false
        positive would have exceeded the budget of the labelled others.
    unsure
        How many records had no action, because of `min_learned` or of `unsure`.
    learned
        Labels of the flagged label and of the others, where the rule has `min_learned`.
    """

    rule: Budget
    others: int
    missing: int
    threshold: float | None
    flagged: int
    false_positives: int
    withheld: int
    unsure: int = 0
    learned: tuple[int, int] = (0, 0)

    @property
    def ready(self) -> bool:
        """Whether there are as many labels as `min_learned` asks for."""
        return min(self.learned) >= self.rule.min_learned


class Verdicts(NamedTuple):
    """What a budget decides, bool for each prediction: whether it is flagged, whether it is unsure,
    and whether there were fewer labels than `min_learned`."""

    flagged: NDArray[np.bool_]
    unsure: NDArray[np.bool_]
    early: NDArray[np.bool_]


def _candidates() -> Floats:
    """The candidate thresholds, ascending: 0, then finer towards 0 and 1, up to 1 itself."""
    low = [2.0 ** (-j / PER_OCTAVE) for j in range(PER_OCTAVE, PER_OCTAVE * TO_ZERO + 1)]
    high = [1.0 - 2.0 ** (-j / PER_OCTAVE) for j in range(PER_OCTAVE, PER_OCTAVE * TO_ONE + 1)]
    return np.array(sorted({0.0, 1.0, *low, *high}))


CANDIDATES = _candidates()


class FalsePositiveBudget:
    """Flags a label so that the false positive rate stays within a budget at any time.

    Parameters
    ----------
    rule
        The budget.

    Notes
    -----
    Nothing is flagged before there are so many labelled others that a threshold which none of them
    reaches has a rate below the budget with a probability of 95 %: ln(0.05) / ln(1 - rate). From
    then on the threshold is the lowest of fixed candidates of which the newest 10 / rate others
    reach so few that one more is within 0.8 of the budget. So the budget is spent, and what a young
    model predicted is forgotten.

    Nothing is flagged while one more false positive would exceed the budget of the labelled
    others so far, so a model that changes does a bounded harm.

    O(candidates + 10 / rate) memory, at most 2**14 others; a record costs some ten nanoseconds.

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
        self._rate, self._needed = float(rule.rate), rule.needed
        self._recent = np.full(rule.recent, -1, dtype=np.int64)
        self._counts = np.zeros(CANDIDATES.size, dtype=np.int64)
        self._sums = np.zeros(SUMS, dtype=np.int64)
        self._sums[PLACE] = CANDIDATES.size

    @property
    def threshold(self) -> float | None:
        """The probability from which a record reaches the threshold; None: none does."""
        place = int(self._sums[PLACE])
        if place == CANDIDATES.size:
            return None
        return max(float(CANDIDATES[place]), float(self.rule.min_probability))

    def flags_one(self, p: float) -> bool:
        """Whether a record with this probability of the label is flagged now. Counts nothing."""
        ready = _kernels.is_ready(self.rule.min_learned, self._sums)
        spare = self._sums[FALSE] + 1 <= self.rule.rate * (self._sums[OTHERS] + 1)
        reached = _places(np.array([p]))[0] >= self._sums[PLACE] and p >= self.rule.min_probability
        return bool(ready and spare and reached)

    def doubts_one(self, p: float) -> bool:
        """Whether such a record is unsure now. Counts nothing."""
        if not _kernels.is_ready(self.rule.min_learned, self._sums):
            return True
        return p >= self.rule.doubted and not self.flags_one(p)

    def change_doubt(self, rule: Budget) -> None:
        """Decide by another `unsure` and `min_probability` from now on."""
        if not rule.same_evidence(self.rule):
            raise SchemaError(
                "expected a rule that differs in unsure and min_probability only, got another"
            )
        self.rule = rule

    def update_one(self, p: float, *, flagged: bool, times: int = 1) -> None:
        """Add the label of one record of another label; with `times` = -1 take it back.

        Parameters
        ----------
        p, flagged
            Its probability of the flagged label, and whether it was flagged, at its prediction.
        """
        place = int(_places(np.array([p]))[0])
        change = _kernels.take_back if times < 0 else _kernels.add
        held = self._recent, self._counts, self._sums
        for _ in range(abs(times)):
            change(place, flagged, self._rate, self._needed, *held)

    def count_one(self, *, of_label: bool, times: int = 1) -> None:
        """Count one label for `min_learned`; with `times` = -1 take it back."""
        if self.rule.min_learned:
            self._sums[OF_LABEL if of_label else OF_OTHERS] += times

    def follow(
        self,
        predicts: NDArray[np.int64],
        p: Floats,
        labels: NDArray[np.int64],
        source: NDArray[np.int64],
        earlier: tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]],
    ) -> Verdicts:
        """Decide and learn in the order of steps: the verdict on each prediction.

        Parameters
        ----------
        predicts
            int64, one for each step: index of the prediction that it makes; -1 for none.
        p
            float64, one for each prediction: its probability of the flagged label.
        labels
            int64, one for each step: `NO_LABEL`, `FLAGGED_LABEL`, `OTHER_LABEL` for another label
            that is no evidence, or `EVIDENCE`.
        source
            int64, one for each step: the prediction here that its label belongs to, or -1.
        earlier
            For each step without a source, probability of its prediction, and whether it was
            flagged and early.
        """
        made = Verdicts(*(np.zeros(p.size, dtype=np.bool_) for _ in range(3)))
        before, too_early = (np.ascontiguousarray(each) for each in earlier[1:])
        steps = (predicts, p, _places(p), labels, source, _places(earlier[0]), before, too_early)
        levels = (float(self.rule.doubted), float(self.rule.min_probability))
        rule = (self._rate, self.rule.min_learned, *levels, self._needed)
        _kernels.follow(*steps, *rule, self._recent, self._counts, self._sums, *made)
        return made

    def view(self) -> BudgetView:
        """The counts so far."""
        others, top = int(self._sums[OTHERS]), int(self._counts[-1])
        # As many as the highest threshold needs, where `top` others reach it.
        least = self._needed if not top else max(self._needed, ceil((top + 1) / self._rate) - 1)
        missing = max(0, least - others)
        return BudgetView(
            self.rule,
            others,
            0 if self.threshold is not None else missing,
            self.threshold,
            int(self._sums[FLAGGED]),
            int(self._sums[FALSE]),
            int(self._sums[WITHHELD]),
            int(self._sums[UNSURE]),
            (int(self._sums[OF_LABEL]), int(self._sums[OF_OTHERS])),
        )

    def to_state(self) -> State:
        """The counts, and the rule that they belong to."""
        rule = self.rule
        header = {
            "label": rule.label,
            "rate": float(rule.rate),
            "min_learned": rule.min_learned,
            "unsure": None if rule.unsure is None else float(rule.unsure),
            "min_probability": float(rule.min_probability),
        }
        return State(header, {"recent": self._recent.copy(), "sums": self._sums.copy()})

    @classmethod
    def from_state(cls, state: State) -> FalsePositiveBudget:
        """The budget that `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        try:
            header = state.header
            out = cls(
                Budget(
                    header["label"],
                    header["rate"],
                    header["min_learned"],
                    header["unsure"],
                    header["min_probability"],
                )
            )
        except (KeyError, SchemaError) as error:
            raise StateError(f"the state of this budget is damaged: {error!r}") from None
        table = {
            "recent": Saved(np.int64, (out._recent.size,), -1, CANDIDATES.size - 1),
            "sums": Saved(np.int64, (SUMS,)),
        }
        recent, sums = state.read(table).values()
        counts, place = np.bincount(recent[recent >= 0], minlength=CANDIDATES.size), sums[PLACE]
        within = 0 <= place <= CANDIDATES.size and 0 <= sums[NEXT] < recent.size
        if not within or (counts.sum(), counts[place:].sum()) != (sums[KEPT], sums[ABOVE]):
            raise StateError("the state of this budget is damaged: its counts do not fit")
        out._recent, out._counts, out._sums = recent, counts, sums
        return out


def decisions(
    rule: Budget,
    predictions: Predictions,
    flagged: NDArray[np.bool_],
    unsure: NDArray[np.bool_],
) -> Decisions:
    """The decisions: the flagged label, otherwise the most probable other one.

    There is no decision if the record is unsure, or if nothing is flagged and no other label was
    known. The risk is the probability that the action is not the true label.
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
    decided = (flagged | possible.any(axis=1)) & ~unsure
    risks = 1.0 - predictions.proba
    risk = np.where(decided, risks[np.arange(n), chosen], 0.0)
    return Decisions(actions, np.where(decided, chosen, -1), risk, risks, none, decided)


def compile_budget(rule: Budget) -> None:
    """Compile the kernels, which otherwise happens at the first record."""
    steps, none = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    budget = FalsePositiveBudget(rule)
    budget.follow(steps, np.zeros(1), steps, steps, (np.zeros(1), none, none))
    for times in (1, -1):
        budget.update_one(0.0, flagged=False, times=times)
    budget.flags_one(0.0)
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
