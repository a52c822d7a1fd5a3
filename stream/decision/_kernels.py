"""The kernel of decisions by a budget of false positives.

`counts` int64 (K,) is the number of labelled others by their place: how many of the K ascending
candidate thresholds their probability reaches, less one. `sums` int64 (SUMS,) has, by the constants
below, what follows from them and what was decided. `bounds` float64 (2, T) has intercept and slope
of each test: with j false positives a threshold is allowed from the least intercept + j · slope
labelled others on.

A label is one of the codes below: of no label, of the flagged one, of another one that is no
evidence, of another one that is.
"""

from __future__ import annotations

from typing import Any

from stream.kernel import kernel

OTHERS, FALSE, ALLOWED, PLACE, ABOVE, FLAGGED, WITHHELD, UNSURE, OF_LABEL, OF_OTHERS = range(10)
SUMS = 10
NO_LABEL, FLAGGED_LABEL, OTHER_LABEL, EVIDENCE = range(4)


@kernel
def follow(
    predicts: Any,
    p: Any,
    place: Any,
    labels: Any,
    source: Any,
    evidence: Any,
    before: Any,
    too_early: Any,
    rate: float,
    least: int,
    doubted: float,
    lowest: float,
    bounds: Any,
    counts: Any,
    sums: Any,
    flagged: Any,
    unsure: Any,
    early: Any,
) -> None:
    """Decide and learn in the order of the steps.

    `predicts` int64 (S,): index of the prediction that each step makes, or -1; `p` float64 (P,) and
    `place` int64 (P,): its probability and candidates. `labels` int64 (S,): the code of the label
    of the step; `source` int64 (S,): the prediction of this call that it belongs to, or -1;
    `evidence` int64 (S,), `before` bool (S,) and `too_early` bool (S,): place, flag and `early` of
    one of an earlier call. `least` is `min_learned`, `doubted` the probability from which a record
    is unsure, `lowest` that below which none is flagged. `flagged`, `unsure` and `early` bool
    (P,) are filled.
    """
    for i in range(predicts.size):
        j = predicts[i]
        if j >= 0:
            ready = is_ready(least, sums)
            reached = ready and place[j] >= sums[PLACE] and p[j] >= lowest
            spare = sums[FALSE] + 1 <= rate * (sums[OTHERS] + 1)
            flagged[j] = reached and spare
            unsure[j] = not ready or (not flagged[j] and p[j] >= doubted)
            early[j] = not ready
            sums[FLAGGED] += reached and spare
            sums[WITHHELD] += reached and not spare
            sums[UNSURE] += unsure[j]
        if labels[i] != NO_LABEL:
            s = source[i]
            was_early = early[s] if s >= 0 else too_early[i]
            if labels[i] == EVIDENCE and not was_early:
                if s >= 0:
                    add(place[s], flagged[s], 1, bounds, counts, sums)
                else:
                    add(evidence[i], before[i], 1, bounds, counts, sums)
            if least > 0:
                sums[OF_LABEL if labels[i] == FLAGGED_LABEL else OF_OTHERS] += 1


@kernel
def is_ready(least: int, sums: Any) -> bool:
    """Whether both kinds of labels are as many as `min_learned`."""
    return bool(sums[OF_LABEL] >= least and sums[OF_OTHERS] >= least)


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
