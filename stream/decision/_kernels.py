"""The kernel of decisions by a budget of false positives.

`counts` int64 (K,) is the number of labelled others by their place: how many of the K ascending
candidate thresholds their probability reaches, less one. `sums` int64 (8,) has, by the constants
below, what follows from them and what was decided. `bounds` float64 (2, T) has intercept and slope
of each test: with j false positives a threshold is allowed from the least intercept + j · slope
labelled others on.
"""

from __future__ import annotations

from typing import Any

from stream.kernel import kernel

OTHERS, FALSE, ALLOWED, PLACE, ABOVE, FLAGGED, WITHHELD = range(7)
SUMS = 7


@kernel
def follow(
    predicts: Any,
    place: Any,
    other: Any,
    source: Any,
    evidence: Any,
    before: Any,
    rate: float,
    bounds: Any,
    counts: Any,
    sums: Any,
    flagged: Any,
) -> None:
    """Decide and learn in the order of the steps.

    `predicts` int64 (S,): index of the prediction that each step makes, or -1; `place` int64 (P,):
    its candidates. `other` bool (S,): whether the step is evidence, that is the label of another
    class; `source` int64 (S,): the prediction of this call that it belongs to, or -1; `evidence`
    int64 (S,) and `before` bool (S,): place and flag of one of an earlier call. `flagged` bool (P,)
    is filled.
    """
    for i in range(predicts.size):
        p = predicts[i]
        if p >= 0:
            reached = place[p] >= sums[PLACE]
            spare = sums[FALSE] + 1 <= rate * (sums[OTHERS] + 1)
            flagged[p] = reached and spare
            sums[FLAGGED] += reached and spare
            sums[WITHHELD] += reached and not spare
        if other[i]:
            s = source[i]
            if s >= 0:
                add(place[s], flagged[s], 1, bounds, counts, sums)
            else:
                add(evidence[i], before[i], 1, bounds, counts, sums)


@kernel
def add(place: int, was_flagged: bool, n: int, bounds: Any, counts: Any, sums: Any) -> None:
    """Add one labelled other (n = 1) or take it back (n = -1), and move the threshold."""
    counts[place] += n
    sums[OTHERS] += n
    if was_flagged:
        sums[FALSE] += n
    if place >= sums[PLACE]:
        sums[ABOVE] += n
    while sums[ALLOWED] >= 0 and sums[OTHERS] < needed(sums[ALLOWED], bounds):
        sums[ALLOWED] -= 1
    while sums[OTHERS] >= needed(sums[ALLOWED] + 1, bounds):
        sums[ALLOWED] += 1
    while sums[ABOVE] > sums[ALLOWED] and sums[PLACE] < counts.size:
        sums[ABOVE] -= counts[sums[PLACE]]
        sums[PLACE] += 1
    if sums[ALLOWED] >= 0:
        while sums[PLACE] > 0 and sums[ABOVE] + counts[sums[PLACE] - 1] <= sums[ALLOWED]:
            sums[PLACE] -= 1
            sums[ABOVE] += counts[sums[PLACE]]


@kernel
def needed(false: int, bounds: Any) -> float:
    """How many labelled others allow a threshold that this many of them reach."""
    least = bounds[0, 0] + false * bounds[1, 0]
    for i in range(1, bounds.shape[1]):
        least = min(least, bounds[0, i] + false * bounds[1, i])
    return float(least)
