"""Where the service is in its life, as the loop says it and the web shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from consumers.base.secrets import masked

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """Where the service is in its life.

    Parameters
    ----------
    state
        `degraded`: it predicts and does not learn. `stalled`: the loop stands still, and the
        process should be replaced. `standby`: it follows the journal of shards that
        others run, ready to take over. `dead`: the loop ended by a fault, the process
        should be replaced.
    detail
        What a person wants to know about it, in a few words.

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
        """Whether to leave the process alone."""
        return self.state not in ("dead", "stalled")

    @property
    def looping(self) -> bool:
        """Whether its loop should turn."""
        return self.state in ("live", "degraded")

    @property
    def ready(self) -> bool:
        """Whether it does what it is there for."""
        return self.state in ("live", "standby")

    def __str__(self) -> str:
        return f"{self.state}: {masked(self.detail)}" if self.detail else self.state
