"""The row pool: which slots of the store have a kept row, and how large it is.

Kernels take and free slots. Free ones are reused, the last freed slot first. So the store is never
larger than the largest number of rows kept at one time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.state import Rules, Saved, State
from stream.join._kernels.ids import FREE_SLOTS, ROW_BYTES, SLOTS
from stream.join.table import IdTable

__all__ = ["RowPool"]


class RowPool:
    """Slots 0, 1, 2, …

    Parameters
    ----------
    table
        Its arrays have the slots.

    Examples
    --------
    >>> rows = RowPool(IdTable())
    >>> rows.count, rows.bytes, rows.size(-1)
    (0, 0, 0)
    """

    def __init__(self, table: IdTable) -> None:
        self._table = table

    @property
    def count(self) -> int:
        """One more than the largest slot ever taken: the size of the store."""
        return self._table.counts[SLOTS]

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return self._table.counts[ROW_BYTES]

    def size(self, slot: int) -> int:
        """The bytes of its row; 0 for slot -1, which means no row."""
        return int(self._table.arrays.sizes[slot]) if slot >= 0 else 0

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """The free slots, and slot and size of the rows that have bytes."""
        t = self._table.arrays
        sizes = t.sizes[: self.count]
        there = np.flatnonzero(sizes)
        return {
            "free": t.free[: t.counts[FREE_SLOTS]].copy(),
            "sizes": np.column_stack((there, sizes[there])),
        }

    def load(self, count: int, state: State, kept: NDArray[np.int64]) -> None:
        """Load the pool with this count and these arrays. `kept`: the slots that are taken.

        Raises
        ------
        StateError
            They are damaged.
        """
        table = {"free": Saved(np.int64, ("free",)), "sizes": Saved(np.int64, ("rows", 2))}
        rules: Rules = {
            "sizes of rows that are there": lambda a: np.isin(a["sizes"][:, 0], kept),
            "distinct slots of rows": lambda a: _are_slots(np.append(a["free"], kept), count),
        }
        free, sizes = state.read(table, rules).values()
        self._table.reserve(count, 0)
        t = self._table.arrays
        t.counts[SLOTS], t.counts[FREE_SLOTS] = count, free.size
        t.free[: free.size] = free
        t.sizes[:count] = 0
        t.sizes[sizes[:, 0]] = sizes[:, 1]
        t.counts[ROW_BYTES] = int(t.sizes[:count].sum())


def _are_slots(slots: NDArray[np.int64], count: int) -> bool:
    """Whether they are distinct and below `count`."""
    within = bool(((slots >= 0) & (slots < count)).all())
    return within and np.unique(slots).size == slots.size
