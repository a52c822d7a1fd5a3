"""Kernels of token counts."""

from __future__ import annotations

from math import floor, inf, isnan, log
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, scale_down

Floats = NDArray[float64]

MULTINOMIAL, COMPLEMENT, NORMALISED = range(3)  # rules to score a token

FEW = 64  # number of steps from which a table of logarithms is faster


class TokenCounts(NamedTuple):
    """Token counts of C classes and d learned buckets.

    total float64 (C,): sum of token counts of each class. counts float64 (capacity, C): the counts,
    a row for each learned bucket. slot int32 (buckets,): 1 + the row of a bucket; 0 if never
    learned. size int64 (1,): d. cut int64 (1,): number of truncated learned texts. unit float64
    (1,): the present value of a count of 1 learned last.
    """

    total: Floats
    counts: Floats
    slot: NDArray[int32]
    size: NDArray[int64]
    cut: NDArray[int64]
    unit: Floats


@kernel
def learn(bucket: Any, times: Any, c: int, w: float, s: Any) -> None:
    """Add bucket int64 (k,), each `times` float64 (k,), to class c; -1 marks a truncated text."""
    slot, counts, total = s.slot, s.counts, s.total[c]
    for k in range(bucket.shape[0]):
        if bucket[k] < 0:
            s.cut[0] += 1
            continue
        at = slot[bucket[k]]
        if at == 0:
            s.size[0] += 1
            at = s.size[0]
            slot[bucket[k]] = at
        counts[at - 1, c] += w * times[k]
        total += w * times[k]
    s.total[c] = total


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new counts weigh `growth` times as much as the last one."""
    if advance(s.unit, growth):
        for c in range(s.total.shape[0]):
            s.total[c] /= LARGEST_UNIT
        scale_down(s.counts[: s.size[0]])


@kernel
def count_unknown(bucket: Any, slot: Any) -> int:
    """Number of buckets in bucket int64 (k,), with repeats, that have no row in slot int32
    (buckets,)."""
    unknown = 0
    for k in range(bucket.shape[0]):
        unknown += int(bucket[k] >= 0 and slot[bucket[k]] == 0)
    return unknown


@kernel
def add_terms(
    bucket: Any, times: Any, known: int, alpha: float, s: Any, logs: Any, all_tokens: Any, out: Any
) -> None:
    """Add the log likelihood of the tokens to out float64 (C,).

    logs float64 (any,): log(i + alpha) at index i, NaN if not yet computed. Counts are mostly whole
    numbers, and a look-up costs a third of a logarithm. all_tokens float64 (C,): scratch.
    """
    slot, counts = s.slot, s.counts
    for c in range(known):
        all_tokens[c] = log(s.total[c] + alpha * max(s.size[0], 1))
    for k in range(bucket.shape[0]):
        at = slot[bucket[k]] if bucket[k] >= 0 else 0
        if at == 0:
            continue
        for c in range(known):
            n = counts[at - 1, c]
            i = int(n) if 0.0 <= n < logs.shape[0] else 0
            if i == n and i < logs.shape[0]:
                if isnan(logs[i]):
                    logs[i] = log(n + alpha)
                out[c] += times[k] * (logs[i] - all_tokens[c])
            else:
                out[c] += times[k] * (log(n + alpha) - all_tokens[c])


@kernel
def add_shares(bucket: Any, times: Any, known: int, s: Any, out: Any) -> None:
    """`add_terms` for alpha = 0 (maximum likelihood): a token that a class never had is impossible.

    For a class without tokens, the counts of all classes are used.
    """
    everywhere = 0.0
    for c in range(known):
        everywhere += s.total[c]
    for k in range(bucket.shape[0]):
        at = s.slot[bucket[k]] if bucket[k] >= 0 else 0
        if at == 0:
            continue
        anywhere = 0.0
        for c in range(known):
            anywhere += s.counts[at - 1, c]
        for c in range(known):
            some = s.total[c] > 0.0
            n, total = s.counts[at - 1, c] if some else anywhere, s.total[c] if some else everywhere
            out[c] += times[k] * (log(n) - log(total)) if n > 0.0 else -inf


@kernel
def log_totals(known: int, alpha: float, s: Any, out: Any) -> None:
    """out float64 (C,): log of all token counts outside each class, smoothed."""
    # Sums from both sides, because subtracting the largest term from the sum loses all digits.
    after = 0.0
    for c in range(known - 1, -1, -1):
        out[c] = after
        after += s.total[c]
    before = 0.0
    for c in range(known):
        out[c] = log(before + out[c] + alpha * max(s.size[0], 1))
        before += s.total[c]


@kernel
def log_complements(at: int, known: int, alpha: float, s: Any, log_total: Any, out: Any) -> None:
    """out float64 (C,): log probability, outside each class, of the token in row `at`."""
    after = 0.0
    for c in range(known - 1, -1, -1):
        out[c] = after
        after += s.counts[at, c]
    before = 0.0
    for c in range(known):
        out[c] = log(before + out[c] + alpha) - log_total[c]
        before += s.counts[at, c]


@kernel
def sum_complements(
    known: int, alpha: float, s: Any, log_total: Any, scratch: Any, out: Any
) -> None:
    """out float64 (C,): the sum of `log_complements` over all learned tokens."""
    # The order of rows is arbitrary, so the sum uses integers, which do not depend on it.
    whole, part = np.zeros(known, dtype=np.int64), np.zeros(known, dtype=np.int64)
    for at in range(s.size[0]):
        log_complements(at, known, alpha, s, log_total, scratch)
        for c in range(known):
            down = floor(scratch[c])
            whole[c] += int(down)
            part[c] += int((scratch[c] - down) * 2.0**42)
    for c in range(known):
        out[c] = whole[c] + part[c] / 2.0**42


@kernel
def add_complement_terms(
    bucket: Any, times: Any, known: int, alpha: float, s: Any, work: Any, rule: int, out: Any
) -> None:
    """Add the complement weights of the tokens to out float64 (C,).

    work float64 (3, C): `log_totals`, room for `log_complements`, and their sums by `rule`.
    """
    for k in range(bucket.shape[0]):
        at = s.slot[bucket[k]] if bucket[k] >= 0 else 0
        if at == 0 or (rule == NORMALISED and s.size[0] < 2):
            continue  # with a single weight the result is 0 / 0
        log_complements(at - 1, known, alpha, s, work[0], work[1])
        for c in range(known):
            if rule == NORMALISED:
                out[c] += times[k] * (work[1, c] / work[2, c])
            else:
                out[c] -= times[k] * work[1, c]


@kernel
def begin_complement(known: int, alpha: float, s: Any, work: Any, rule: int) -> None:
    """Fill work float64 (3, C) for `add_complement_terms`; O(C · d) if normalised."""
    log_totals(known, alpha, s, work[0])
    if rule == NORMALISED:
        sum_complements(known, alpha, s, work[0], work[1], work[2])


@kernel
def terms(bucket: Any, times: Any, known: int, alpha: float, rule: int, s: Any, out: Any) -> None:
    """The contribution of each token, by the rule, in a row of out float64 (k, C)."""
    pseudo = alpha * s.unit[0]
    work = np.empty((3, known))
    if rule != MULTINOMIAL:
        begin_complement(known, pseudo, s, work, rule)
    for k in range(bucket.shape[0]):
        one, n = bucket[k : k + 1], times[k : k + 1]
        if rule == MULTINOMIAL and alpha == 0.0:
            add_shares(one, n, known, s, out[k])
        elif rule == MULTINOMIAL:
            add_terms(one, n, known, pseudo, s, np.empty(0), work[0], out[k])
        else:
            add_complement_terms(one, n, known, pseudo, s, work, rule, out[k])


@kernel
def progressive(
    steps: Any,
    start: Any,
    row: Any,
    bucket: Any,
    times: Any,
    alpha: float,
    rule: int,
    s: Any,
    joint: Any,
) -> None:
    """Run the steps over rows of tokens, adding to joint float64 (n_predictions, C).

    start int64 (n + 1,): row r has the tokens start[r] … start[r+1]-1 of bucket int64 and times
    float64. row int64 (m,): the row of each step. There is room for all classes and buckets.
    """
    op, y, w, known, growth = steps.op, steps.y, steps.w, steps.known, steps.growth
    work = np.empty((3, s.total.shape[0]))
    stale = True
    # Without fading, alpha · unit is constant. For few records the table costs more than it saves.
    keep = rule == MULTINOMIAL and growth == 1.0 and op.shape[0] >= FEW
    logs = np.full(4096 if keep else 0, np.nan)
    k = 0
    for i in range(op.shape[0]):
        tokens = slice(start[row[i]], start[row[i] + 1])
        some = tokens.start < tokens.stop
        if op[i] != 1:
            pseudo = alpha * s.unit[0]
            if not some:
                pass
            elif rule == MULTINOMIAL and alpha == 0.0:
                add_shares(bucket[tokens], times[tokens], known, s, joint[k])
            elif rule == MULTINOMIAL:
                add_terms(bucket[tokens], times[tokens], known, pseudo, s, logs, work[0], joint[k])
            else:
                if stale:
                    begin_complement(known, pseudo, s, work, rule)
                    stale = False
                add_complement_terms(
                    bucket[tokens], times[tokens], known, pseudo, s, work, rule, joint[k]
                )
            k += 1
        if op[i] != 0:
            if growth != 1.0:
                fade(s, growth)
            if some:
                learn(bucket[tokens], times[tokens], y[i], w[i] * s.unit[0], s)
            known = max(known, y[i] + 1)
            stale = True
