"""Wrapper: a learner around another one, which gives what it does not define itself.

Rule: the classes, and the count of rejected ones, are those of the learner inside. A state has them
once: in the header of the wrapper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stream.data.block import Rows
from stream.data.schema import Dictionary, Label
from stream.data.state import State
from stream.learner.base import Learner
from stream.learner.predictions import Explanation, LinearView

__all__ = ["Wrapper"]


class Wrapper(Learner):
    """The common methods of learners around another one. A family sets `learner` in `__init__`
    instead of a call of `_begin`, and implements `_execute`, `_export` and `_restore`.

    Attributes
    ----------
    learner : Learner
        The learner inside. It learns in place.
    """

    learner: Learner

    @property
    def _speaker(self) -> Learner:
        """The learner that has the classes and the answers."""
        return self.learner

    def _as_seen(self, x: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The record as the learner inside gets it."""
        return x

    def _rows_as_seen(self, rows: Rows) -> Rows:
        """Rows, as `columns` makes them, as the learner inside gets them before it prepares
        them."""
        return rows

    def _start(self) -> None:
        """Do nothing: the learner was passed empty."""

    @property
    def _classes(self) -> Dictionary:
        return self._speaker._classes

    @_classes.setter
    def _classes(self, classes: Dictionary) -> None:
        self._speaker._classes = classes

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that do not apply to the learner, with the reason."""
        return self.learner.not_applicable

    @property
    def parts(self) -> Sequence[Learner]:
        return (self.learner,)

    @property
    def features(self) -> list[str]:
        return self._speaker.features

    @property
    def overflows(self) -> dict[str, int]:
        return self._speaker.overflows

    @property
    def _multiclass(self) -> bool:
        return self.learner._multiclass

    @property
    def _texts(self) -> Collection[str]:
        return self.learner._texts

    @contextmanager
    def _refusals_kept(self) -> Iterator[None]:
        """Keep the count of rejected classes while the learner inside is replaced or loaded."""
        refused = self._classes.overflow
        yield
        self._classes.overflow = refused

    @staticmethod
    def _part_of_state(learner: Learner) -> State:
        """The state of a learner inside, without the count of rejected classes."""
        state = learner._whole_state()
        header = {key: value for key, value in state.header.items() if key != "classes_refused"}
        return State(header, state.arrays)

    # What only some families can do.

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """The answer of the learner."""
        return self._speaker.joint_log_likelihood_one(self._as_seen(x))

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """The answer of the learner."""
        return self._speaker.log_evidence_one(self._as_seen(x))

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """The explanation by the learner."""
        return self._speaker.explain_rows(self._rows_as_seen(rows), label, against)

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The answer of the learner."""
        return self._speaker.linear_view(label, against)

    @property
    def n_parameters(self) -> int:
        """Those of the learner."""
        return self._speaker.n_parameters

    @property
    def can_unlearn(self) -> bool:
        """Whether the learner can."""
        return self.learner.can_unlearn

    def faded(self, age: int) -> float:
        """See `Learner.faded`."""
        return self.learner.faded(age)
