"""Labels that come late, too often, or never.

Label delay: how many predictions got their label, and how late in stream time.

Rule: whole numbers only, so that any split of the stream gives the same counts. All counts are in
the state of the join, so that they continue after a restart.

The rule of silence, as a value for the configuration and the journal.

How many corrections are accepted: `MOST_CORRECTIONS` at once, then one for each eight labels.

Rule: whole numbers only, counted in labels and not in seconds, so that any split of the stream and
every replay accepts the same ones. The state is one number: how many labels must have been learned
for all corrections at once to be accepted again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stream.data.schema import Label
from stream.data.state import count_in, list_in

__all__ = [
    "ARRIVED",
    "DELAY_BOUNDS_MS",
    "LABELS_PER_CORRECTION",
    "MOST_CORRECTIONS",
    "OUTCOMES",
    "REPORTED",
    "SELDOM",
    "LabelDelays",
    "Silence",
    "is_over_rate",
    "repaid_after",
]

OUTCOMES = (
    "joined",  # learned, with its observation
    "early",  # kept until its observation comes
    "duplicate",  # the same label again for a settled id
    "conflicting",  # another label for a settled id: the first one stands
    "corrected",  # another label for a settled id: learned in place of the first one
    "held_back",  # not learned because the dead-letter breaker was open
    "late",  # for an observation that had expired or was evicted
    "rejected",  # of another kind, or one class too many: a dead letter
    "outvoted",  # reporters whose votes weigh more gave another label: not learned
    "quarantined",  # of a reporter who is not trusted: compared with other labels, not learned
    "over_rate",  # above the labels an hour of its reporter: a dead letter
    "correction_over_rate",  # another label for a settled id, too many of these: a dead letter
    "early_expired",  # an early label whose observation did not come
    "early_evicted",  # an early label removed because a bound was reached
    "expired",  # an observation whose label did not come within the horizon
    "evicted",  # an observation removed because a bound was reached
    "forgotten",  # a settled id removed because a bound was reached
    "duplicate_observation",  # an id seen before: predicted, not learned again
    "silence",  # an observation that nobody labelled in time: learned with the label of silence
    "silence_ignored",  # the same, not learned: it was decided otherwise, or labels are held back
)

# Outcomes of a label that came. The others are outcomes of an observation or an early label.
ARRIVED = frozenset(OUTCOMES[:12])
# Outcomes that only labels with reporters have.
REPORTED = ("outvoted", "quarantined", "over_rate")
# Outcomes that most services never have.
SELDOM = (*REPORTED, "correction_over_rate")

DELAY_BOUNDS_MS = (
    100,
    1_000,
    10_000,
    60_000,  # a minute
    300_000,
    1_800_000,
    3_600_000,  # an hour
    21_600_000,
    86_400_000,  # a day
    259_200_000,
    604_800_000,  # a week
    2_592_000_000,  # thirty days
)


class LabelDelays:
    """Counts of predictions by whether their label came, and of label delays by bucket.

    Attributes
    ----------
    delays : list of int
        Labels by delay: one count for each bound of `DELAY_BOUNDS_MS` (delays up to it and above
        the bound before), and one for delays above the last bound.
    delay_ms : int
        Sum of the delays in milliseconds.
    unlabelled : int
        Predictions that will get no label: expired, evicted, or of an id seen before.

    Notes
    -----
    A label that came before its observation, or inside it, has delay 0. A label that came after
    its observation was given up is in no bucket, because the time of the observation is not kept.
    O(log buckets) for each label; memory is constant.

    Examples
    --------
    >>> delays = LabelDelays()
    >>> delays.coverage is None
    True
    >>> delays.delays[2] += 1
    >>> delays.unlabelled += 1
    >>> delays.labelled, delays.coverage, delays.delays[2]
    (1, 0.5, 1)
    """

    def __init__(self) -> None:
        self.delays = [0] * (len(DELAY_BOUNDS_MS) + 1)
        self.delay_ms = 0
        self.unlabelled = 0

    @property
    def labelled(self) -> int:
        """Predictions whose label came in time."""
        return sum(self.delays)

    @property
    def coverage(self) -> float | None:
        """Labelled share of the predictions that no longer wait; None before the first."""
        labelled = self.labelled
        settled = labelled + self.unlabelled
        return labelled / settled if settled else None

    def to_header(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "delays": list(self.delays),
            "delay_ms": self.delay_ms,
            "unlabelled": self.unlabelled,
        }

    def load_header(self, header: Mapping[str, Any]) -> None:
        """Load what `to_header` saved.

        Raises
        ------
        StateError
            The header has other buckets, or no counts.
        """
        self.delays = list_in(header, "delays", len(self.delays))
        self.delay_ms = count_in(header, "delay_ms")
        self.unlabelled = count_in(header, "unlabelled")


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
