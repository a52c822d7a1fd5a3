"""When the log last proved that this process owns its shard.

A commit proves it. A process that has nothing to commit asks the log, and is not ready while it
waits for the answer: another process may have taken over, and a broker may answer late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumers.base.records import Partition
from consumers.transports.protocol import Owner

__all__ = ["Ownership"]

CONFIRM_SECONDS = 5.0  # time in which an idle owner may not notice that it was fenced
DOUBT_SECONDS = 2 * CONFIRM_SECONDS  # an answer comes much sooner, unless the broker is overloaded


class Ownership:
    """The time of the last proof.

    Parameters
    ----------
    clock
        Monotonic seconds.

    Attributes
    ----------
    idle : bool
        Whether the process has nothing to commit. A commit that takes long is no reason for doubt.
    confirmations : int
        How often the log has answered.

    Examples
    --------
    >>> now = 0.0
    >>> own = Ownership(lambda: now)
    >>> own.idle, now = True, 6.0
    >>> own.due, own.doubt
    (True, '')
    >>> now = 11.0
    >>> own.doubt
    'the log has not confirmed for 11 s that this process owns the shard'
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self.confirmations = clock, 0
        self.proven()

    def proven(self) -> None:
        """Note a proof."""
        self._at, self.idle = self._clock(), False

    def confirm_if_due(self, owner: Owner, positions: Mapping[Partition, int]) -> None:
        """Ask the log, without records to commit; the owner's errors."""
        if self.due:
            owner.confirm(positions)
            self.confirmations += 1
            self.proven()

    @property
    def due(self) -> bool:
        """Whether to ask the log."""
        return self._clock() - self._at > CONFIRM_SECONDS

    @property
    def doubt(self) -> str:
        """Why it may no longer be the owner; "" without a doubt."""
        silent = self._clock() - self._at
        if not self.idle or silent <= DOUBT_SECONDS:
            return ""
        return f"the log has not confirmed for {silent:.0f} s that this process owns the shard"
