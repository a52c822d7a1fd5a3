"""How many corrections are accepted: `MOST_CORRECTIONS` at once, then one for each eight labels.

Rule: whole numbers only, counted in labels and not in seconds, so that any split of the stream and
every replay accepts the same ones. The state is one number: how many labels must have been learned
for all corrections at once to be accepted again.
"""

from __future__ import annotations

__all__ = ["LABELS_PER_CORRECTION", "MOST_CORRECTIONS", "is_over_rate", "repaid_after"]

MOST_CORRECTIONS = 1_000  # with `auto` about a second
LABELS_PER_CORRECTION = 8  # people correct fewer labels


def is_over_rate(repaid_at: int, labels: int, most: int = MOST_CORRECTIONS) -> bool:
    """Whether one more correction is too many, after so many learned labels.

    Examples
    --------
    >>> is_over_rate(repaid_at=0, labels=0, most=1)
    False
    >>> is_over_rate(repaid_at=8, labels=7, most=1), is_over_rate(repaid_at=8, labels=8, most=1)
    (True, False)
    """
    return repaid_after(repaid_at, labels) - labels > LABELS_PER_CORRECTION * most


def repaid_after(repaid_at: int, labels: int) -> int:
    """`repaid_at` after one more correction."""
    return max(repaid_at, labels) + LABELS_PER_CORRECTION
