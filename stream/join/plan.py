"""The plan of one call: what the label join makes of events, as steps for a learner.

A plan ends early where a correction is due: whether the old label can be taken back only the
learner knows, and what the next event means depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label
from stream.errors import Reason

__all__ = ["Correction", "Plan", "Refused", "Step", "StepColumns"]

# What is done (an `Op`); its row of this call, or where that is -1 the slot of a row that was kept
# (of a row of this call that is kept too, its slot, else -1); label and weight where it learns.
# A tuple of Python's own: one is made a record.
Step: TypeAlias = tuple[int, int, int, Label | None, float]


class StepColumns(NamedTuple):
    """The steps of a plan as columns."""

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    y: Sequence[Label | None]
    w: NDArray[np.float64]


class Correction(NamedTuple):
    """A second, different label of a settled id whose row is still known.

    Parameters
    ----------
    id
        Whose label it is.
    slot
        Where its row lies once the steps before are done.
    old, old_w
        The label that was learned, and with which weight.
    new, new_w
        The label that is to be learned instead, and the weight it came with.
    age
        Records learned since the old one.
    """

    id: str
    slot: int
    old: Label
    old_w: float
    new: Label
    new_w: float
    age: int


class Refused(NamedTuple):
    """An early label that did not fit when its observation came.

    Parameters
    ----------
    event
        That at which it was refused: of this call, and another one than it came with.
    label
        The label.
    reason
        Why.
    origin
        What `Plan.origin` gave for the event it came with; empty where nothing gave it.
    """

    event: int
    label: Label
    reason: Reason
    origin: bytes


@dataclass(slots=True)
class Plan:
    """Steps for one call, in order, and whose rows are kept afterwards.

    Parameters
    ----------
    steps
        In order.
    kept
        Slot to row of this call, for rows that are kept at its end.
    freed
        Slots whose rows of earlier calls are kept no longer; some are in `kept` again.
    began, ended
        Slots of the observations that wait for a label at its end and did not before it, and of
        those that waited before it and do no longer.
    rejected
        Event to the reason it was refused.
    refused
        Early labels of events before that were refused.
    origin
        The record of an event, as bytes to be given back where it is refused later.
    events
        The event of each step, where somebody asks for it.
    correction
        What is to be done after the steps; no event may be added before it is.
    """

    steps: list[Step] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    freed: list[int] = field(default_factory=list)
    began: set[int] = field(default_factory=set)
    ended: list[int] = field(default_factory=list)
    rejected: dict[int, Reason] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    origin: Callable[[int], bytes] | None = None
    events: list[int] = field(default_factory=list)
    correction: Correction | None = None

    def columns(self) -> StepColumns:
        """Op, row, slot, label and weight of its steps."""
        steps, n = self.steps, len(self.steps)
        return StepColumns(
            np.fromiter(map(itemgetter(0), steps), np.int8, n),
            np.fromiter(map(itemgetter(1), steps), np.int64, n),
            np.fromiter(map(itemgetter(2), steps), np.int64, n),
            list(map(itemgetter(3), steps)),
            np.fromiter(map(itemgetter(4), steps), np.float64, n),
        )

    def no_longer_waits(self, slot: int) -> None:
        """The observation in this slot waits for a label no longer."""
        if slot in self.began:
            self.began.remove(slot)
        else:
            self.ended.append(slot)

    def renumber(self) -> list[int]:
        """The rows its steps name, in order; from now on it names them by their place there."""
        used = sorted({row for _, row, *_ in self.steps if row >= 0})
        place = {row: i for i, row in enumerate(used)}
        self.steps = [(op, place.get(row, -1), s, y, w) for op, row, s, y, w in self.steps]
        self.kept = {slot: place[row] for slot, row in self.kept.items()}
        return used
