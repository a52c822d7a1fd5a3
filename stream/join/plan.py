"""The plan of one call: the steps for a learner that the label join derives from events.

A plan ends early if a correction is due after a step, because only the learner knows whether the
old label can be unlearned, and the next event depends on it; and if silence falls on a row that the
plan itself predicts, because it depends on the prediction whether silence counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary, Label
from stream.errors import Reason
from stream.join.steps import CompiledSteps, KeptRows, RowChanges, StepColumns, joined

__all__ = ["Correction", "Plan", "Refused", "Step"]

# An `Op`; the row of this call, or -1; the slot of the row if it is kept, else -1; label and weight
# if it learns. A built-in tuple, because one is made for each record.
Step: TypeAlias = tuple[int, int, int, Label | None, float]


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
        In order; without those in `kept` if that is `CompiledSteps`.
    kept
        Slot to row of this call, for rows that are kept at its end. With the slots of the
        observations that wait at the end of the call but did not before it.
    freed
        Slots whose rows of earlier calls are no longer kept; `kept` may use some of them again.
    ended
        Slots of the observations that waited before the call but no longer do.
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
    corrected
        The corrections that were made before the first step.
    silent
        The steps that learn because nobody labelled their row.
    asked
        With a label for silence: id to the steps that predict it while it waits.
    again
        Whether the next event must wait until the steps ran: what was decided for a row of theirs
        says whether silence counts.
    done
        Steps and rows as columns, if they are known; then `steps` and `kept` are not used.
    """

    steps: list[Step] = field(default_factory=list)
    kept: KeptRows = field(default_factory=KeptRows)
    freed: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    rejected: dict[int, Reason] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    origin: Callable[[int], bytes] | None = None
    events: list[int] = field(default_factory=list)
    correction: Correction | None = None
    corrected: list[Correction] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    asked: dict[str, list[int]] = field(default_factory=dict)
    again: bool = False
    done: tuple[StepColumns, RowChanges] | None = None

    @property
    def has_steps(self) -> bool:
        """Whether there is a step."""
        return bool(self.steps or (isinstance(self.kept, CompiledSteps) and self.kept.steps))

    def columns(self, labels: Dictionary) -> StepColumns:
        """The steps as columns. `labels`: those learned, whose codes they have."""
        if self.done is not None:
            return self.done[0]
        steps, n = self.steps, len(self.steps)
        codes = {None: -1, **labels.codes} if n else {}
        by_python = StepColumns(
            np.fromiter(map(itemgetter(0), steps), np.int8, n),
            np.fromiter(map(itemgetter(1), steps), np.int64, n),
            np.fromiter(map(itemgetter(2), steps), np.int64, n),
            np.fromiter((codes[label] for _, _, _, label, _ in steps), np.int32, n),
            np.fromiter(map(itemgetter(4), steps), np.float64, n),
        )
        if not isinstance(self.kept, CompiledSteps):
            return by_python
        compiled = self.kept.step_columns()
        return joined(compiled, self.kept.places(), by_python) if n else compiled

    def changes(self) -> RowChanges:
        """What becomes of rows, as columns."""
        if self.done is not None:
            return self.done[1]
        ended, freed = (np.array(slots, dtype=np.int64) for slots in (self.ended, self.freed))
        if isinstance(self.kept, CompiledSteps):
            ended = np.concatenate((self.kept.ended(), ended))
            freed = np.concatenate((self.kept.freed(), freed))
        return RowChanges(*self.kept.columns(), ended, freed)

    def trace(self) -> None:
        """Add the events of the steps that kernels planned to `events`."""
        kept = self.kept
        if not isinstance(kept, CompiledSteps) or not kept.steps:
            return
        every = np.empty(kept.steps + len(self.events), dtype=np.int64)
        every[kept.places()] = kept.events()
        every[kept.rest(len(self.events))] = self.events
        self.events = every.tolist()

    def silent_steps(self) -> list[int]:
        """`silent`, and the steps like these that kernels planned, among all steps."""
        kept = self.kept
        if not isinstance(kept, CompiledSteps):
            return self.silent
        own = kept.rest(len(self.steps))[self.silent] if self.silent else ()
        return [*kept.places()[kept.silent()].tolist(), *own]

    def asked_steps(self) -> dict[str, list[int]]:
        """`asked`, with the numbers of the steps among all steps."""
        kept = self.kept
        if not self.asked or not isinstance(kept, CompiledSteps):
            return self.asked
        places = kept.rest(len(self.steps))
        return {id_: places[steps].tolist() for id_, steps in self.asked.items()}

    def no_longer_waits(self, slot: int) -> None:
        """The observation in this slot no longer waits for a label."""
        if not self.kept.stop(slot):
            self.ended.append(slot)

    def renumber(self, labels: Dictionary) -> NDArray[np.int64]:
        """The rows that the steps use, in order. The steps then refer to positions in this list."""
        steps, changes = self.columns(labels), self.changes()
        here = steps.row >= 0
        used = np.unique(steps.row[here])
        row = np.where(here, np.searchsorted(used, steps.row), -1)
        kept = np.searchsorted(used, changes.row)
        self.done = (steps._replace(row=row), changes._replace(row=kept))
        return used
