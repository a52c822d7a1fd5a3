"""The status of the service: the processing loop sets it, and the web pages show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from consumers.base.secrets import masked

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """The status of the service.

    Parameters
    ----------
    state
        `degraded`: it predicts but does not learn. `stalled`: the loop makes no progress, and the
        process should be replaced. `standby`: it follows the journals of shards that other
        processes own, and is ready to take over. `dead`: an error ended the loop, and the process
        should be replaced.
    detail
        The reason in a few words.

    Examples
    --------
    >>> Health("replaying", "1200 records remain").ready
    False
    """

    state: Literal[
        "starting", "replaying", "live", "degraded", "stalled", "standby", "stopped", "dead"
    ]
    detail: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process should keep running."""
        return self.state not in ("dead", "stalled")

    @property
    def looping(self) -> bool:
        """Whether the processing loop should make progress."""
        return self.state in ("live", "degraded")

    @property
    def ready(self) -> bool:
        """Whether the service does its work."""
        return self.state in ("live", "standby")

    def __str__(self) -> str:
        return f"{self.state}: {masked(self.detail)}" if self.detail else self.state
