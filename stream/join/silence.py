"""The rule of silence, as a value for the configuration and the journal."""

from __future__ import annotations

from typing import NamedTuple

from stream.data.schema import Label

__all__ = ["Silence"]


class Silence(NamedTuple):
    """What it means that nobody labels an observation.

    Parameters
    ----------
    label
        The label that is learned then.
    after
        Milliseconds of stream time in which somebody could have labelled it.
    scored
        Whether the prediction is scored against that label.
    frequency
        The label frequency: the share of the observations of all other classes that are labelled.
        It corrects the probabilities, see `stream.decision.risk`.
    """

    label: Label
    after: int
    scored: bool = False
    frequency: float = 1.0
