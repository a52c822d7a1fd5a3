"""The rule of a budget of false positives, as a value for the configuration and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, log, log1p

from stream.data.parameters import number, shown
from stream.errors import SchemaError

__all__ = ["Budget"]

ALPHA = 0.05  # the probability with which the first threshold has a rate above the budget
SMALLEST_RATE = 1e-6
# So many of the newest others decide that TAIL of them are the budget, but at most MOST_RECENT.
TAIL, MOST_RECENT = 10, 2**14
MOST_LEARNED = 2**31


@dataclass(frozen=True, slots=True)
class Budget:
    """The rule: flag `label`, and at most this share of the records of all other labels.

    Parameters
    ----------
    label
        The label to flag, as text.
    rate
        The largest false positive rate, from 1e-6 and below 0.5.
    min_learned
        How many labels of `label`, and as many of all others, come before anything is decided.
        Until then every record is unsure, and its prediction is no evidence.
    unsure
        The probability of `label` from which a record that is not flagged is unsure, which is no
        action; None: never.
    min_probability
        A record with a smaller probability of `label` is never flagged, whatever the evidence
        allows.

    Raises
    ------
    SchemaError
        A parameter is not valid.

    Examples
    --------
    >>> from stream.decision import Budget
    >>> Budget("spam", 0.01).needed
    299
    """

    label: str
    rate: float
    min_learned: int = 0
    unsure: float | None = None
    min_probability: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise SchemaError(f"label must be a text that is not empty, got {shown(self.label)}")
        number("rate", self.rate)
        if not SMALLEST_RATE <= self.rate < 0.5:
            raise SchemaError(f"rate must be from {SMALLEST_RATE:g} and below 0.5, got {self.rate}")
        least = self.min_learned
        if isinstance(least, bool) or not isinstance(least, int) or not 0 <= least <= MOST_LEARNED:
            raise SchemaError(
                f"min_learned must be a whole number from 0 to {MOST_LEARNED:,}, got {shown(least)}"
            )
        if self.unsure is not None:
            number("unsure", self.unsure)
            if not 0.0 < self.unsure <= 1.0:
                raise SchemaError(f"unsure must be above 0 and at most 1, got {self.unsure}")
        number("min_probability", self.min_probability)
        if not 0.0 <= self.min_probability <= 1.0:
            raise SchemaError(f"min_probability must be from 0 to 1, got {self.min_probability}")

    @property
    def doubted(self) -> float:
        """The probability from which a record is unsure; infinity for never."""
        return inf if self.unsure is None else self.unsure

    def same_evidence(self, other: Budget) -> bool:
        """Whether evidence for one is evidence for the other: it is about the probabilities of
        others, whatever `unsure` and `min_probability` are."""
        mine = (self.label, self.rate, self.min_learned)
        return mine == (other.label, other.rate, other.min_learned)

    @property
    def needed(self) -> int:
        """How many labelled others are needed before anything is flagged: if none of so many
        reaches a threshold, its rate is below the budget with a probability of 95 %."""
        return ceil(log(ALPHA) / log1p(-self.rate))

    @property
    def recent(self) -> int:
        """How many of the newest labelled others choose the threshold."""
        return min(ceil(TAIL / self.rate), MOST_RECENT)
