"""The kernel of decisions by a budget of false positives.

`recent` int64 (W,) is a ring with the newest labelled others: the place of each, which is how many
of the K ascending candidate thresholds its probability reaches, less one; -1 if it was taken back,
or for none. `counts` int64 (K,) is their number by place. `sums` int64 (SUMS,) has, by the
constants below, what follows from them and what was decided. A threshold is allowed from `needed`
others on, if one more would still be within SPENT of `rate` of those in the ring.

A label is one of the codes below: of no label, of the flagged one, of another one that is no
evidence, of another one that is.
"""

from __future__ import annotations

from typing import Any

from stream.kernel import kernel

OTHERS, FALSE, KEPT, PLACE, ABOVE, FLAGGED, WITHHELD, UNSURE, OF_LABEL, OF_OTHERS, NEXT = range(11)
SUMS = 11
SPENT = 0.8  # the share of the budget at which a threshold aims, because the next others differ
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
    needed: int,
    recent: Any,
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
                    add(place[s], flagged[s], rate, needed, recent, counts, sums)
                else:
                    add(evidence[i], before[i], rate, needed, recent, counts, sums)
            if least > 0:
                sums[OF_LABEL if labels[i] == FLAGGED_LABEL else OF_OTHERS] += 1


@kernel
def is_ready(least: int, sums: Any) -> bool:
    """Whether both kinds of labels are as many as `min_learned`."""
    return bool(sums[OF_LABEL] >= least and sums[OF_OTHERS] >= least)


@kernel
def add(
    place: int, was_flagged: bool, rate: float, needed: int, recent: Any, counts: Any, sums: Any
) -> None:
    """Add one labelled other, and move the threshold. The oldest one leaves a full ring."""
    at = sums[NEXT]
    if recent[at] >= 0:
        remove(at, recent, counts, sums)
    recent[at] = place
    sums[NEXT] = (at + 1) % recent.size
    counts[place] += 1
    sums[KEPT] += 1
    sums[OTHERS] += 1
    sums[FALSE] += was_flagged
    if place >= sums[PLACE]:
        sums[ABOVE] += 1
    move(rate, needed, counts, sums)


@kernel
def take_back(
    place: int, was_flagged: bool, rate: float, needed: int, recent: Any, counts: Any, sums: Any
) -> None:
    """Take one labelled other back, out of the ring too if it is there, and move the threshold."""
    sums[OTHERS] -= 1
    sums[FALSE] -= was_flagged
    for i in range(recent.size):
        at = (sums[NEXT] - 1 - i) % recent.size
        if recent[at] == place:
            remove(at, recent, counts, sums)
            break
    for _ in range(recent.size):  # the newest ones, if they were taken back
        at = (sums[NEXT] - 1) % recent.size
        if recent[at] >= 0 or sums[KEPT] == 0:
            break
        sums[NEXT] = at
    if sums[KEPT] == 0:
        sums[NEXT] = 0
    move(rate, needed, counts, sums)


@kernel
def remove(at: int, recent: Any, counts: Any, sums: Any) -> None:
    """Take what is at a place of the ring out of the counts."""
    place = recent[at]
    recent[at] = -1
    counts[place] -= 1
    sums[KEPT] -= 1
    if place >= sums[PLACE]:
        sums[ABOVE] -= 1


@kernel
def allowed(rate: float, needed: int, sums: Any) -> int:
    """How many of the ring may reach the threshold; -1: no threshold yet."""
    if sums[OTHERS] < needed:
        return -1
    return max(int(SPENT * rate * (sums[KEPT] + 1)) - 1, 0)


@kernel
def move(rate: float, needed: int, counts: Any, sums: Any) -> None:
    """Move the threshold to the lowest candidate that is allowed."""
    most = allowed(rate, needed, sums)
    while sums[ABOVE] > most and sums[PLACE] < counts.size:
        sums[ABOVE] -= counts[sums[PLACE]]
        sums[PLACE] += 1
    if most >= 0:
        while sums[PLACE] > 0 and sums[ABOVE] + counts[sums[PLACE] - 1] <= most:
            sums[PLACE] -= 1
            sums[ABOVE] += counts[sums[PLACE]]
