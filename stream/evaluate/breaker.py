"""A circuit breaker for learning: it stops learning while too many recent records are dead letters.

It is pure and deterministic. It counts each record in order, so it opens and closes at the same
records in any split of a stream into calls, and in any replay.
"""

from __future__ import annotations

import numpy as np

from stream.data.state import Saved, State, count_in

__all__ = ["Breaker"]

LAST = 1000


class Breaker:
    """Opens above a ratio of dead letters among the last 1,000 records, closes below half of it.

    Records that have not yet come count as good, so a few dead letters at the very beginning do not
    open it. It closes below half the ratio, because it would open and close again and again at
    the ratio itself.

    Parameters
    ----------
    ratio
        Share of dead letters above which it opens. 1: it never opens. It may be changed at any
        time.

    Attributes
    ----------
    open : bool
        Whether learning is stopped.
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
            return  # a window of good records only does not change
        self.dead += dead - self._ring[self._at]
        self._ring[self._at] = dead
        self._at = (self._at + 1) % LAST
        if self.open:
            self.open = self.dead >= self.ratio / 2 * LAST
        else:
            self.open = self.dead > self.ratio * LAST

    def good(self, count: int) -> bool:
        """Count `count` more records that are not dead letters. Returns whether it is and stays
        closed.

        Good records only reduce the share of dead letters. But if the ratio was lowered below the
        present share, the next record opens the breaker, even a good one.
        """
        while count and self.dead:
            self.add(dead=False)
            count -= 1
        return not self.open and self.dead <= self.ratio * LAST

    def to_state(self) -> State:
        """A copy of the window."""
        ring = np.frombuffer(bytes(self._ring), dtype=np.uint8)
        return State({"open": self.open, "at": self._at}, {"ring": ring})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. The ratio does not change.

        Raises
        ------
        StateError
            The state is damaged.
        """
        ring = state.read({"ring": Saved(np.uint8, (LAST,))})["ring"]
        self._ring, self._at = bytearray(ring.tobytes()), count_in(state.header, "at", LAST - 1)
        self.open = state.header["open"]
        self.dead = sum(self._ring)
