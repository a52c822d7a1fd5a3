"""The plan of one call: what the label join makes of events, as steps for a learner.

A plan ends early where a correction is due: whether the old label can be taken back only the
learner knows, and what the next event means depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stream.errors import Reason
from stream.schema import Label

__all__ = ["Correction", "Plan", "Target"]


class Target(NamedTuple):
    """The row a step works on: `row` of this call, or where that is -1, the one in `slot`."""

    row: int
    slot: int


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


@dataclass(slots=True)
class Plan:
    """Steps for one call, in order, and whose rows are kept afterwards.

    Parameters
    ----------
    op, targets, y, w
        One a step; `y` is None where it does not learn.
    kept
        Slot to row of this call, for rows that are kept at its end.
    began, ended
        Slots of the observations that wait for a label at its end and did not before it, and of
        those that waited before it and do no longer.
    rejected
        Event to the reason it was refused.
    correction
        What is to be done after the steps; no event may be added before it is.
    """

    op: list[int] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    y: list[Label | None] = field(default_factory=list)
    w: list[float] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    began: set[int] = field(default_factory=set)
    ended: list[int] = field(default_factory=list)
    rejected: dict[int, Reason] = field(default_factory=dict)
    correction: Correction | None = None

    def step(self, op: int, target: Target, y: Label | None = None, w: float = 1.0) -> None:
        """Add a step."""
        self.op.append(op)
        self.targets.append(target)
        self.y.append(y)
        self.w.append(w)

    def no_longer_waits(self, slot: int) -> None:
        """The observation in this slot waits for a label no longer."""
        if slot in self.began:
            self.began.remove(slot)
        else:
            self.ended.append(slot)

    def renumber(self) -> list[int]:
        """The rows its steps name, in order; from now on it names them by their place there."""
        used = sorted({t.row for t in self.targets if t.row >= 0})
        place = {row: i for i, row in enumerate(used)}
        self.targets = [Target(place.get(t.row, -1), t.slot) for t in self.targets]
        self.kept = {slot: place[row] for slot, row in self.kept.items()}
        return used
