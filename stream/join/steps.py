"""The steps of a plan, and what becomes of rows, as columns; and the arrays that kernels fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.memory import empty
from stream.join._kernels import planning as kernels
from stream.join._kernels.ids import COUNT, SETTLED, WAITING
from stream.join._kernels.planning import DELAYS, ENDED, FREED, GONE, KEPT, SILENT, STEPS
from stream.join.label_delay import DELAY_BOUNDS_MS
from stream.join.table import IdTable

OF_PYTHON = 2**62  # stands for the entry of a row that Python planned

__all__ = [
    "OF_PYTHON",
    "CompiledSteps",
    "KeptRows",
    "RowChanges",
    "StepArrays",
    "StepColumns",
    "joined",
]


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
        int64: slots that no longer wait, and slots that are no longer kept, see `Plan`.
    """

    slot: NDArray[np.int64]
    row: NDArray[np.int64]
    began: NDArray[np.bool_]
    ended: NDArray[np.int64]
    freed: NDArray[np.int64]


class StepArrays(NamedTuple):
    """What kernels fill: steps with their events, rows, and counts (see `_kernels.planning`)."""

    op: NDArray[np.int8]
    row: NDArray[np.int64]
    slot: NDArray[np.int64]
    code: NDArray[np.int32]
    weight: NDArray[np.float64]
    event: NDArray[np.int64]
    kept_slot: NDArray[np.int64]
    kept_row: NDArray[np.int64]
    kept_waits: NDArray[np.int64]
    ended: NDArray[np.int64]
    freed: NDArray[np.int64]
    gone: NDArray[np.int64]
    silent: NDArray[np.int64]
    tally: NDArray[np.int64]

    @classmethod
    def room(
        cls, events: int, waiting: int, settled: int, others: int, *, silence: bool
    ) -> StepArrays:
        """Room for that many events, where so many ids wait, are settled, and have a label that
        only Python knows. `silence` may add a step for each id that waits."""
        steps = events + (waiting if silence else 0)

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
            ended=whole(waiting + events),
            freed=whole(settled + waiting + events),
            gone=whole(others + events),
            silent=whole(steps),
            tally=np.zeros(DELAYS + len(DELAY_BOUNDS_MS) + 1, dtype=np.int64),
        )


class KeptRows(Mapping[int, int]):
    """Slot to row of this call, for the rows that are kept; and which of them wait.

    Examples
    --------
    >>> kept = KeptRows()
    >>> kept.put(3, row=0, began=True)
    >>> kept.put(4, row=1, began=False)
    >>> dict(kept), kept.stop(3), kept.stop(3), kept.drop(4), kept.drop(4), dict(kept)
    ({3: 0, 4: 1}, True, False, True, False, {3: 0})
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._began: set[int] = set()

    def __getitem__(self, slot: int) -> int:
        return self._rows[slot]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, slot: int, *, row: int, began: bool) -> None:
        """The slot keeps this row. `began`: it waits for its label."""
        self._rows[slot] = row
        if began:
            self._began.add(slot)

    def stop(self, slot: int) -> bool:
        """It no longer waits. Returns whether it began to in this call."""
        began = slot in self._began
        self._began.discard(slot)
        return began

    def drop(self, slot: int) -> bool:
        """It is no longer kept. Returns whether its row is of this call."""
        return self._rows.pop(slot, None) is not None

    def began(self) -> set[int]:
        """The slots of this call that wait."""
        slots, _, began = self.columns()
        return set(slots[began].tolist())

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Slot, row, and whether it began to wait."""
        n = len(self._rows)
        began = map(self._began.__contains__, self._rows)
        return (
            np.fromiter(self._rows, np.int64, n),
            np.fromiter(self._rows.values(), np.int64, n),
            np.fromiter(began, np.bool_, n),
        )


class CompiledSteps(KeptRows):
    """The steps that kernels planned, and all rows kept, in the arrays of a call.

    Parameters
    ----------
    table
        The ids.
    events
        The events of the call that may still come.
    others
        The ids with a label that only Python knows.
    silence
        Whether silence is learned.

    Attributes
    ----------
    arrays : StepArrays
        What the kernels fill.
    """

    def __init__(self, table: IdTable, events: int, others: int, *, silence: bool) -> None:
        super().__init__()
        self._table = table
        counts = table.arrays.counts
        waiting, settled = int(counts[COUNT + WAITING]), int(counts[COUNT + SETTLED])
        self.arrays = StepArrays.room(events, waiting, settled, others, silence=silence)
        self._runs: list[tuple[int, int]] = []  # steps of a run, and of Python before it

    @property
    def steps(self) -> int:
        """How many steps were planned."""
        return int(self.arrays.tally[STEPS])

    def ran(self, first: int, before: int) -> None:
        """Kernels planned the steps from `first` on, after `before` steps of Python."""
        if self.steps > first:
            self._runs.append((self.steps - first, before))

    def gone(self) -> list[int]:
        """The entries removed since the last call whose label only Python knows."""
        out: list[int] = self.arrays.gone[: self.arrays.tally[GONE]].tolist()
        self.arrays.tally[GONE] = 0
        return out

    def __getitem__(self, slot: int) -> int:
        at = self._at(slot)
        row = int(self.arrays.kept_row[at]) if at >= 0 else -1
        if row < 0:
            raise KeyError(slot)
        return row

    def __iter__(self) -> Iterator[int]:
        return iter(self.columns()[0].tolist())

    def __len__(self) -> int:
        return len(self.columns()[0])

    def put(self, slot: int, *, row: int, began: bool) -> None:
        # The entry is not known here. Python knows which of its rows are asked for, see `Plan`.
        waits = OF_PYTHON if began else -1
        kernels.keep_row(self._table.arrays, self.arrays, slot, row, waits)

    def stop(self, slot: int) -> bool:
        at = self._at(slot)
        began = at >= 0 and bool(self.arrays.kept_waits[at] >= 0)
        if began:
            self.arrays.kept_waits[at] = -1
        return began

    def drop(self, slot: int) -> bool:
        at = self._at(slot)
        here = at >= 0 and bool(self.arrays.kept_row[at] >= 0)
        if here:
            self.arrays.kept_row[at] = -1
        return here

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        p, n = self.arrays, int(self.arrays.tally[KEPT])
        here = np.flatnonzero(p.kept_row[:n] >= 0)
        return p.kept_slot[here], p.kept_row[here], p.kept_waits[here] >= 0

    def waiting(self) -> NDArray[np.int64]:
        """The entries that wait with the rows of `columns`; -1 or OF_PYTHON for others."""
        p, n = self.arrays, int(self.arrays.tally[KEPT])
        return p.kept_waits[:n][p.kept_row[:n] >= 0]

    def silent(self) -> NDArray[np.int64]:
        """The steps planned by kernels that learn because nobody labelled their row."""
        return self.arrays.silent[: self.arrays.tally[SILENT]]

    def ended(self) -> NDArray[np.int64]:
        """Slots that waited before the call, by kernels."""
        return self.arrays.ended[: self.arrays.tally[ENDED]]

    def freed(self) -> NDArray[np.int64]:
        """Slots with rows of earlier calls, by kernels."""
        return self.arrays.freed[: self.arrays.tally[FREED]]

    def events(self) -> NDArray[np.int64]:
        """The event of each step."""
        return self.arrays.event[: self.steps]

    def step_columns(self) -> StepColumns:
        """The steps planned by kernels."""
        p, n = self.arrays, self.steps
        return StepColumns(p.op[:n], p.row[:n], p.slot[:n], p.code[:n], p.weight[:n])

    def places(self) -> NDArray[np.int64]:
        """The place of each step among all steps of the plan."""
        lengths, before = np.array(self._runs, dtype=np.int64).reshape(-1, 2).T
        return np.arange(self.steps) + np.repeat(before, lengths)

    def rest(self, count: int) -> NDArray[np.int64]:
        """The places of the other steps of the plan, which are that many."""
        free = np.ones(self.steps + count, dtype=np.bool_)
        free[self.places()] = False
        return np.flatnonzero(free)

    def _at(self, slot: int) -> int:
        p = self.arrays
        at = int(self._table.arrays.place[slot])
        return at if 0 <= at < p.tally[KEPT] and p.kept_slot[at] == slot else -1


def joined(compiled: StepColumns, places: NDArray[np.int64], others: StepColumns) -> StepColumns:
    """The steps of a plan: those at `places`, and the others between them."""
    order = np.empty(places.size + others.op.size, dtype=np.int64)
    rest = np.ones(order.size, dtype=np.bool_)
    rest[places] = False
    order[places] = np.arange(places.size)
    order[rest] = np.arange(places.size, order.size)
    return StepColumns(
        np.concatenate((compiled.op, others.op))[order],
        np.concatenate((compiled.row, others.row))[order],
        np.concatenate((compiled.slot, others.slot))[order],
        np.concatenate((compiled.code, others.code))[order],
        np.concatenate((compiled.weight, others.weight))[order],
    )
