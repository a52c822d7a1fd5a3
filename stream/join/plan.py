"""The plan of one call: the steps for a learner that the label join derives from events.

A plan ends early if a correction is due, because only the learner knows whether the old label can
be unlearned, and the next event depends on it; and if silence falls on a row that the plan itself
predicts, because it depends on the prediction whether silence counts.
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
from stream.join.events import Event

__all__ = ["Correction", "Plan", "Refused", "Silence", "Step", "StepColumns"]

# An `Op`; the row of this call, or -1; the slot of the row if it is kept, else -1; label and weight
# if it learns. A built-in tuple, because one is made for each record.
Step: TypeAlias = tuple[int, int, int, Label | None, float]


class StepColumns(NamedTuple):
    """The steps of a plan as columns."""

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    y: Sequence[Label | None]
    w: NDArray[np.float64]


class Silence(NamedTuple):
    """What it means that nobody labels an observation.

    Parameters
    ----------
    label
        The label that is learned then.
    after
        Milliseconds of stream time in which somebody could have labelled it.
    scored
        Whether the prediction is scored against that label.
    frequency
        The label frequency: the share of the observations of all other classes that are labelled.
        It corrects the probabilities, see `stream.decision.label_frequency`.
    """

    label: Label
    after: int
    scored: bool = False
    frequency: float = 1.0


class Correction(NamedTuple):
    """A second, different label of a settled id whose row is still known.

    Parameters
    ----------
    id
        The id of the observation.
    slot
        The slot of its row after the steps of the plan.
    old, old_w
        The label that was learned, and its weight.
    new, new_w
        The label to learn instead, and its weight.
    age
        How many records were learned since the old label.
    """

    id: str
    slot: int
    old: Label
    old_w: float
    new: Label
    new_w: float
    age: int


class Refused(NamedTuple):
    """An early label that was rejected when its observation came.

    Parameters
    ----------
    event
        The event of this call at which it was rejected. The label came with an earlier event.
    label
        The label.
    reason
        Why it was rejected.
    origin
        The record it came in, from `Plan.origin`; empty without one.
    """

    event: int
    label: Label
    reason: Reason
    origin: bytes


@dataclass(slots=True)
class Plan:
    """The steps of one call, in order, and the rows that are kept after it.

    Parameters
    ----------
    steps
        In order.
    kept
        Slot to row of this call, for rows that are kept at its end.
    freed
        Slots whose rows of earlier calls are no longer kept; `kept` may use some of them again.
    began, ended
        Slots of the observations that wait at the end of the call but did not before it, and of
        those that waited before it but no longer do.
    rejected
        Event to the reason why its label was rejected.
    refused
        Early labels of earlier events that were rejected.
    origin
        Returns the record of an event as bytes. They are kept with an early label, for its dead
        letter if it is rejected.
    events
        The event of each step; empty unless the caller fills it.
    correction
        The correction to make after the steps and before the next event is planned.
    silent
        The steps that learn because nobody labelled their row.
    asked
        With a label for silence: id to the steps that predict it while it waits.
    again
        The event to plan next, after the steps ran: what was decided for a row of theirs says
        whether silence counts.
    at_once
        The steps, if they were planned as columns; then `steps` is empty.
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
    silent: list[int] = field(default_factory=list)
    asked: dict[str, list[int]] = field(default_factory=dict)
    again: Event | None = None
    at_once: StepColumns | None = None

    def columns(self) -> StepColumns:
        """Op, row, slot, label and weight of the steps."""
        if self.at_once is not None:
            return self.at_once
        steps, n = self.steps, len(self.steps)
        return StepColumns(
            np.fromiter(map(itemgetter(0), steps), np.int8, n),
            np.fromiter(map(itemgetter(1), steps), np.int64, n),
            np.fromiter(map(itemgetter(2), steps), np.int64, n),
            list(map(itemgetter(3), steps)),
            np.fromiter(map(itemgetter(4), steps), np.float64, n),
        )

    def no_longer_waits(self, slot: int) -> None:
        """The observation in this slot no longer waits for a label."""
        if slot in self.began:
            self.began.remove(slot)
        else:
            self.ended.append(slot)

    def renumber(self) -> list[int]:
        """The rows that the steps use, in order. The steps then refer to positions in this list."""
        used = sorted({row for _, row, *_ in self.steps if row >= 0})
        place = {row: i for i, row in enumerate(used)}
        self.steps = [(op, place.get(row, -1), s, y, w) for op, row, s, y, w in self.steps]
        self.kept = {slot: place[row] for slot, row in self.kept.items()}
        return used
