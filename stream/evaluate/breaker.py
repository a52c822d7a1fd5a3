"""A breaker on learning: while too many of the last records were dead letters, nothing is learned.

Pure and deterministic: it is told of each record in order, so that any split of a stream into
calls, and any replay of it, opens and closes it at the same records.
"""

from __future__ import annotations

import numpy as np

from stream.data.state import State
from stream.errors import StateError

__all__ = ["Breaker"]

LAST = 1000


class Breaker:
    """Opens above a ratio of dead letters among the last 1,000 records, closes below half of it.

    Records that have not come yet count as good, so that a few bad ones at the very beginning
    open nothing. Half, and not the ratio itself: it must not flutter at the edge.

    Parameters
    ----------
    ratio
        Share of dead letters above which it opens; 1 never. May be changed at any time.

    Attributes
    ----------
    open : bool
        Whether learning is held back.
    dead : int
        Dead letters among the last 1,000 records.

    Examples
    --------
    >>> breaker = Breaker(ratio=0.5)
    >>> for _ in range(501):
    ...     breaker.add(dead=True)
    >>> breaker.open
    True
    >>> for _ in range(752):
    ...     breaker.add(dead=False)
    >>> breaker.dead, breaker.open
    (248, False)
    """

    def __init__(self, ratio: float = 1.0) -> None:
        self.ratio = ratio
        self.open = False
        self.dead = 0
        self._ring = bytearray(LAST)
        self._at = 0

    def add(self, dead: bool) -> None:
        """Count one more record."""
        if not dead and not self.dead:
            return  # a window of good records is the same window whichever came last
        self.dead += dead - self._ring[self._at]
        self._ring[self._at] = dead
        self._at = (self._at + 1) % LAST
        if self.open:
            self.open = self.dead >= self.ratio / 2 * LAST
        else:
            self.open = self.dead > self.ratio * LAST

    def good(self, count: int) -> bool:
        """Count so many more records that are none; whether it is closed, and stays so meanwhile.

        Among the last 1,000 there are then only fewer dead letters. Yet where the ratio was lowered
        below their share, the next record opens it, whatever that is.
        """
        while count and self.dead:
            self.add(dead=False)
            count -= 1
        return not self.open and self.dead <= self.ratio * LAST

    def to_state(self) -> State:
        """The window, as a copy."""
        ring = np.frombuffer(bytes(self._ring), dtype=np.uint8)
        return State({"open": self.open, "at": self._at}, {"ring": ring})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved, the ratio apart.

        Raises
        ------
        StateError
            It is damaged.
        """
        ring = state.array("ring", np.uint8, 1)
        at = state.header["at"]
        if ring.size != LAST or not 0 <= at < LAST:
            raise StateError(f"expected a window of {LAST} records, got {ring.size} at {at}")
        self._ring, self._at = bytearray(ring.tobytes()), at
        self.open = state.header["open"]
        self.dead = sum(self._ring)
