"""The steps of a plan, and what becomes of rows, as columns; and the arrays that kernels fill."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.memory import empty
from stream.join._kernels.planning import DELAYS
from stream.join.label_delay import DELAY_BOUNDS_MS

__all__ = ["RowChanges", "StepArrays", "StepColumns"]


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
