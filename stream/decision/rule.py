"""The rule of a budget of false positives, as a value for the configuration and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

import numpy as np

from stream.data.block import Floats
from stream.data.parameters import number, shown
from stream.errors import SchemaError

__all__ = ["Budget"]

ALPHA = 0.05  # the probability that a threshold above the budget is ever used
SMALLEST_RATE = 1e-6
# The tests of a threshold: how many times the budget its rate is supposed to be, and the share of
# ALPHA. Most of it is for a rate of 0, because that test is the first to allow anything.
TESTS = ((0.0, 0.8), (0.2, 0.05), (0.5, 0.05), (0.8, 0.05), (0.95, 0.05))
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
    >>> round(Budget("spam", 0.001).needed)
    3217
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
    def needed(self) -> float:
        """How many labelled others allow a threshold that none of them reaches."""
        return float(self.bounds[0].min())

    @property
    def bounds(self) -> Floats:
        """float64, (2, tests): intercept and slope of the number of labelled others by which a
        test allows a threshold.

        The test of rate q is the likelihood ratio of q and the budget, and it allows a threshold
        when that reaches 1 / (its share of `ALPHA`). With j of n labelled others at or above the
        threshold, its logarithm is (n - j) ln((1 - q) / (1 - rate)) + j ln(q / rate).
        """
        out = np.empty((2, len(TESTS)))
        for i, (times, share) in enumerate(TESTS):
            gain = log((1.0 - times * self.rate) / (1.0 - self.rate))
            out[0, i] = -log(ALPHA * share) / gain
            out[1, i] = inf if times == 0.0 else 1.0 - log(times) / gain
        out[1, 0] = 1e18  # finite, because 0 * inf is no number: one false positive rules it out
        return out
