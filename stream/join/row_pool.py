"""Where rows are kept while they wait: slots, handed out and taken back, and what lies in them.

A slot that is free is handed out again, the last one first, so that the store behind never grows
beyond the most that was kept at one time; what bytes lay in it are let go at the end of the call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.state import State

__all__ = ["Slots"]


class Slots:
    """Slots 0, 1, 2, …

    Attributes
    ----------
    count : int
        One more than the largest ever handed out: the size of the store behind.
    bytes : int
        What is kept in them, as their takers said.

    Examples
    --------
    >>> slots = Slots()
    >>> slots.take(10), slots.take(5), slots.bytes
    (0, 1, 15)
    >>> slots.give(0)
    >>> slots.bytes, slots.take(0), slots.count
    (5, 0, 2)
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._free: list[int] = []
        self._sizes: dict[int, int] = {}  # of those that hold any bytes

    def take(self, size: int) -> int:
        """A free slot, for so many bytes."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.count
            self.count += 1
        if size:
            self._sizes[slot] = size
            self.bytes += size
        return slot

    def give(self, slot: int) -> None:
        """It is free again."""
        self._free.append(slot)
        if slot in self._sizes:
            self.bytes -= self._sizes.pop(slot)

    def size(self, slot: int) -> int:
        """The bytes that are kept in it; 0 for slot -1, which is none."""
        return self._sizes.get(slot, 0)

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """What is free, and slot and size of those that hold bytes."""
        held = np.array(sorted(self._sizes.items()), dtype=np.int64).reshape(-1, 2)
        return {"free": np.array(self._free, dtype=np.int64), "sizes": held}

    def load(self, count: int, state: State) -> None:
        """Become what had this count and these arrays.

        Raises
        ------
        StateError
            They are damaged.
        """
        self.count = count
        self._free = state.array("free", np.int64, 1).tolist()
        # Saved before sizes were: what lay there then counts for nothing.
        held = state.array("sizes", np.int64, 2).tolist() if "sizes" in state.arrays else []
        self._sizes = dict(held)
        self.bytes = sum(self._sizes.values())
