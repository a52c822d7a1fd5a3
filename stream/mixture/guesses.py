"""Guesses that use no field: the shares of the classes, and that the label does not change.

Rule: they are experts of a mixture and its baselines. They are not registered as learners of their
own, because nobody serves a guess. The experts of a mixture may name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Rows, notes_of
from stream.data.parameters import check_half_life
from stream.data.schema import Kind, Label
from stream.data.state import Saved, State
from stream.errors import NotLearnedError
from stream.learner.base import Learner, Predictions
from stream.mixture._kernels import guesses as kernels

__all__ = ["NAMED", "ClassShares", "Guess", "NoChange"]

HEAVIEST = 1e290  # of a count in a state; never reached


class Guess(Learner):
    """Counts of labels, and a prediction from them."""

    kinds: ClassVar[frozenset[Kind]] = frozenset()
    changes: ClassVar[bool]

    def __init__(self) -> None:
        self._begin()

    def _start(self) -> None:
        self._counts = np.zeros(0)
        self._stays = np.zeros(2)
        self._last = np.full(1, -1, dtype=np.int64)

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to a guess, with the reason."""
        label, fields = "it depends on the label before", "it uses no field"
        return {
            "weight_two_is_twice": label,
            "merging_equals_learning_both": label,
            "merging_what_does_not_fit_is_refused": label,
            "merging_with_oneself_is_learning_twice": label,
            "unlearning_is_the_inverse_of_learning": label,
            "unlearning_what_was_not_learned_is_refused": label,
            "the_posterior_is_the_normalised_joint_likelihood": fields,
            "the_evidence_normalises_the_joint_likelihood": fields,
            "contributions_sum_exactly_to_the_log_odds": fields,
            "an_explanation_of_the_converse_is_the_negative": fields,
            "parameters_are_counted": fields,
        }

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        self._widen()
        memos = np.empty((len(block.rows), 0, 0))
        if self.changes:
            memos = notes_of(block, len(self._classes), self.memo_size)
        how = self.changes, self.faded(1)
        steps = block.op, block.row, label[block.y], block.w, before, *how
        state = self._counts, self._stays, self._last, memos
        kernels.progressive(*steps, *state, out.proba, out.known)

    def _widen(self) -> None:
        """Make room for the counts of all known classes."""
        if more := len(self._classes) - self._counts.size:
            self._counts = np.append(self._counts, np.zeros(more))

    def correct_rows(
        self, rows: Rows, old: tuple[Label, float], new: tuple[Label, float], age: int
    ) -> None:
        """See `Learner.correct_rows`. The last label changes only if it is the corrected one; how
        often labels equaled the one before is left as it was counted."""
        if old[0] not in self._classes:
            raise NotLearnedError(f"expected one of the classes {self.classes}, got {old[0]!r}")
        was, now = self._admit_classes([old[0], new[0]]).tolist()
        self._widen()
        kept = self.faded(age)
        self._counts[was] = max(self._counts[was] - old[1] * kept, 0.0)
        self._counts[now] += new[1] * kept
        if age == 0:
            self._last[0] = now

    def _export(self) -> State:
        return State({}, {"counts": self._counts, "stays": self._stays, "last": self._last})

    def _restore(self, state: State) -> None:
        classes = len(self._classes)
        table = {
            "counts": Saved(np.float64, (classes,), 0, HEAVIEST),
            "stays": Saved(np.float64, (2,), 0, HEAVIEST),
            "last": Saved(np.int64, (1,), -1, classes - 1),
        }
        self._counts, self._stays, self._last = state.read(table).values()


class ClassShares(Guess):
    """Each class has its share of the labels learned so far, with half a record added to each.

    Examples
    --------
    >>> from stream.mixture.guesses import ClassShares
    >>> model = ClassShares()
    >>> model.learn_many([{}, {}, {}], ["ham", "ham", "spam"])
    >>> model.predict_proba_one({})
    {'ham': 0.625, 'spam': 0.375}
    """

    changes: ClassVar[bool] = False


class NoChange(Guess):
    """The last label again, with the share of labels that equaled the one before.

    If labels come late, the one before is the last label that was known at the prediction.

    Parameters
    ----------
    half_life
        After so many more labels a label counts half. Default None: all count alike.

    Examples
    --------
    >>> from stream.mixture.guesses import NoChange
    >>> model = NoChange()
    >>> model.learn_many([{}] * 5, ["up", "up", "up", "down", "down"])
    >>> model.predict_proba_one({})
    {'up': 0.30000000000000004, 'down': 0.7}
    """

    changes: ClassVar[bool] = True
    memo_size = 1

    def __init__(self, half_life: float | None = None) -> None:
        self.half_life = check_half_life(half_life)
        self._begin()

    def faded(self, age: int) -> float:
        """See `Learner.faded`."""
        return 1.0 if self.half_life is None else float(2.0 ** (-age / self.half_life))


NAMED: Mapping[str, type[Guess]] = {"ClassShares": ClassShares, "NoChange": NoChange}
