"""The row pool: which slots of the store have a kept row, and how large it is.

Free slots are reused, the last freed slot first. So the store is never larger than the largest
number of rows kept at one time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.state import State

__all__ = ["RowPool"]


class RowPool:
    """Slots 0, 1, 2, …

    Attributes
    ----------
    count : int
        One more than the largest slot ever taken: the size of the store.
    bytes : int
        Bytes of all rows, as given to `take`.

    Examples
    --------
    >>> rows = RowPool()
    >>> rows.take(10), rows.take(5), rows.bytes
    (0, 1, 15)
    >>> rows.give(0)
    >>> rows.bytes, rows.take(0), rows.count
    (5, 0, 2)
    """

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._free: list[int] = []
        self._sizes: dict[int, int] = {}  # of the slots whose rows have bytes

    def take(self, size: int) -> int:
        """Take a free slot for a row with that many bytes."""
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
        """Free the slot."""
        self._free.append(slot)
        if slot in self._sizes:
            self.bytes -= self._sizes.pop(slot)

    def size(self, slot: int) -> int:
        """The bytes of its row; 0 for slot -1, which means no row."""
        return self._sizes.get(slot, 0)

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """The free slots, and slot and size of the rows that have bytes."""
        sizes = np.array(sorted(self._sizes.items()), dtype=np.int64).reshape(-1, 2)
        return {"free": np.array(self._free, dtype=np.int64), "sizes": sizes}

    def load(self, count: int, state: State) -> None:
        """Load the pool with this count and these arrays.

        Raises
        ------
        StateError
            They are damaged.
        """
        self.count = count
        self._free = state.array("free", np.int64, 1).tolist()
        self._sizes = dict(state.array("sizes", np.int64, 2).tolist())
        self.bytes = sum(self._sizes.values())
