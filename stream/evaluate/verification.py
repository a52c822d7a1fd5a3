"""What a comparison with river's own loop needs and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Timed", "Verification"]


class Timed(NamedTuple):
    """A record with the time of its label.

    Parameters
    ----------
    number
        Its number, from 0; numbers rise.
    x, y, w
        Features, label and weight.
    moment, delay
        Its time, and the time from it to its label.
    """

    number: int
    x: Mapping[str, Any]
    y: Any
    w: float
    moment: Any
    delay: Any


@dataclass(frozen=True, slots=True)
class Verification:
    """The largest differences between our scores and those of river's loop.

    Parameters
    ----------
    records
        Records with a label, which river's loop predicted and learned. It leaves out the others,
        which change no score.
    scored
        Predictions that river's loop scored.
    compared
        Predictions that were compared probability by probability: the first ones, as many as are
        kept (2²³ probabilities). The scores always cover all.
    first
        Number of the first record, from 0, whose prediction differs; None if none differs.
    differences
        Of the `probability` of any class in any prediction, of any count of the `confusion` matrix,
        of `unscored`, and of each score by its id over all windows. Infinite if a score exists on
        one side only.
    """

    records: int
    scored: int
    compared: int
    first: int | None
    differences: Mapping[str, float]

    @property
    def largest(self) -> float:
        """The largest difference. 0 is expected."""
        return max(self.differences.values())
