"""The plan of one call: the steps for a learner that the label join derives from events.

A plan ends early in two cases. A correction is due after a step: only the learner knows whether the
old label can be unlearned, and the next event depends on it. Or a row that the plan itself predicts
is to be learned by silence: whether silence counts depends on that prediction.

The steps of a plan, and what becomes of rows, as columns; and the arrays that kernels fill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.memory import empty
from stream.data.schema import Label
from stream.errors import Reason
from stream.join._kernels.planning import ASKED, DELAYS, ENDED, FREED, KEPT, SILENT, STEPS
from stream.join.label_delay import DELAY_BOUNDS_MS

__all__ = ["Correction", "Plan", "Refused", "RowChanges", "StepArrays", "StepColumns"]


class StepColumns(NamedTuple):
    """The steps of a plan as columns: op, row, slot, code of the label (-1: none), and weight."""

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    code: NDArray[np.int32]
    weight: NDArray[np.float64]


class RowChanges(NamedTuple):
    """The rows that are kept, and those that no longer are.

    Parameters
    ----------
    slot, row
        int64: the slots that keep a row of this call, and the row.
    began
        bool: whether the observation in that slot waits.
    ended, freed
        int64: slots of observations that waited before the call and no longer do, and slots whose
        rows of earlier calls are no longer kept; `slot` may have some of them again.
    """

    slot: NDArray[np.int64]
    row: NDArray[np.int64]
    began: NDArray[np.bool_]
    ended: NDArray[np.int64]
    freed: NDArray[np.int64]


class StepArrays(NamedTuple):
    """What kernels fill (see `_kernels.planning`).

    Parameters
    ----------
    op, row, slot, code, weight, event
        The steps, each with its event.
    kept_slot, kept_row, kept_waits, kept_since
        Slots with a row of this call (-1: of an earlier call, or no longer kept), the entry that
        waits with it and is predicted by a step (-1: none), and the first such step.
    ended, freed
        As those of `RowChanges`.
    gone
        Entries of which Python forgets what only it knows.
    silent
        The steps that learn because nobody labelled their row.
    asked_at, asked_step
        With a label for silence: each step that predicts what waits, and the place of its slot in
        `kept_slot`.
    tally
        Counts.
    """

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    code: NDArray[np.int32]
    weight: NDArray[np.float64]
    event: NDArray[np.int64]
    kept_slot: NDArray[np.int64]
    kept_row: NDArray[np.int64]
    kept_waits: NDArray[np.int64]
    kept_since: NDArray[np.int64]
    ended: NDArray[np.int64]
    freed: NDArray[np.int64]
    gone: NDArray[np.int64]
    silent: NDArray[np.int64]
    asked_at: NDArray[np.int64]
    asked_step: NDArray[np.int64]
    tally: NDArray[np.int64]

    @classmethod
    def room(cls, events: int, waiting: int, settled: int, gone: int, silent: int) -> StepArrays:
        """Room for that many events, where so many ids wait and are settled.

        `gone`: how many ids Python may have to forget before the first event; `silent`: how many
        may be learned because nobody labelled them.
        """
        steps = events + silent

        def whole(size: int) -> NDArray[np.int64]:
            return empty(size, np.int64)

        return cls(
            op=empty(steps, np.int8),
            row=whole(steps),
            slot=whole(steps),
            code=empty(steps, np.int32),
            weight=empty(steps, np.float64),
            event=whole(steps),
            kept_slot=whole(events),
            kept_row=whole(events),
            kept_waits=whole(events),
            kept_since=whole(events),
            ended=whole(waiting + events),
            freed=whole(settled + waiting + events),
            gone=whole(gone + 2 * events),
            silent=whole(steps),
            asked_at=whole(events),
            asked_step=whole(events),
            tally=np.zeros(DELAYS + len(DELAY_BOUNDS_MS) + 1, dtype=np.int64),
        )


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
        The record it came in, from `Events.origin`; empty without one.
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
    arrays
        What kernels fill.
    bounds
        int64: the bounds of the join, for kernels.
    done
        Steps and changes of rows that replace those of `arrays`.
    rejected
        Event to the reason why its label was rejected.
    refused
        Early labels of earlier events that were rejected.
    correction
        The correction to make after the steps and before the next event is planned.
    corrected
        The corrections that were made before the first step.
    again
        Whether the next event must wait until the steps ran: what was decided for a row of theirs
        says whether silence counts.
    """

    arrays: StepArrays
    bounds: NDArray[np.int64]
    done: tuple[StepColumns, RowChanges] | None = None
    rejected: dict[int, Reason] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    correction: Correction | None = None
    corrected: list[Correction] = field(default_factory=list)
    again: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether there is a step."""
        return bool(self.arrays.tally[STEPS])

    @property
    def events(self) -> list[int]:
        """The event of each step."""
        events: list[int] = self.arrays.event[: self.arrays.tally[STEPS]].tolist()
        return events

    @property
    def silent(self) -> list[int]:
        """The steps that learn because nobody labelled their row."""
        steps: list[int] = self.arrays.silent[: self.arrays.tally[SILENT]].tolist()
        return steps

    def columns(self) -> StepColumns:
        """The steps."""
        if self.done is not None:
            return self.done[0]
        p, n = self.arrays, int(self.arrays.tally[STEPS])
        return StepColumns(p.op[:n], p.row[:n], p.slot[:n], p.code[:n], p.weight[:n])

    def changes(self) -> RowChanges:
        """What becomes of rows."""
        if self.done is not None:
            return self.done[1]
        p, counts = self.arrays, self.arrays.tally
        here = np.flatnonzero(p.kept_row[: counts[KEPT]] >= 0)
        waits = p.kept_waits[here] >= 0
        ended, freed = p.ended[: counts[ENDED]], p.freed[: counts[FREED]]
        return RowChanges(p.kept_slot[here], p.kept_row[here], waits, ended, freed)

    def asked(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """With a label for silence: the entries that wait, once for each step that predicts them,
        and these steps."""
        p, n = self.arrays, self.arrays.tally[ASKED]
        at, step = p.asked_at[:n], p.asked_step[:n]
        entry = p.kept_waits[at]
        here = (entry >= 0) & (step >= p.kept_since[at])  # else another one waited there before
        return entry[here], step[here]

    def renumber(self) -> NDArray[np.int64]:
        """The rows that the steps use, in order. The steps then refer to positions in this list."""
        steps, changes = self.columns(), self.changes()
        here = steps.row >= 0
        used = np.unique(steps.row[here])
        row = np.where(here, np.searchsorted(used, steps.row), -1)
        kept = np.searchsorted(used, changes.row)
        self.done = (steps._replace(row=row), changes._replace(row=kept))
        return used
