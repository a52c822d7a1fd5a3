"""Kernels of sets of tokens, where absence is evidence.

The log likelihood of a text is a base (all known tokens absent) plus a correction for each present
token. Every text of the class changes the base, so it is computed on demand as a sum over the
class's *levels*: tokens with the same count share one logarithm. A class with n tokens in total has
at most sqrt(2n) levels if weights are 1.
"""

from __future__ import annotations

from math import inf, log, log1p
from typing import Any, NamedTuple

from numpy import float64, int32, int64
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, scale_down

Floats = NDArray[float64]


class TokenSets(NamedTuple):
    """Number of texts with each of d buckets, in Q = 1 + C columns: all classes, then each class.

    texts float64 (Q,): weight of the texts. counts float64 (capacity, Q): weight of the texts with
    the token, a row for each learned bucket. slot int32 (buckets,): 1 + the row of a bucket; 0 if
    never learned. size int64 (1,): d. cut int64 (1,): number of truncated learned texts. unit
    float64 (1,): the present value of a weight of 1 learned last. level float64, times int64 (Q,
    room), levels int64 (Q,): the distinct counts above 0 of a column, rising, and the number of
    tokens with each.
    """

    texts: Floats
    counts: Floats
    slot: NDArray[int32]
    size: NDArray[int64]
    cut: NDArray[int64]
    unit: Floats
    level: Floats
    times: NDArray[int64]
    levels: NDArray[int64]


@kernel
def place(level: Any, n: int, count: float) -> int:
    """Number of the n rising levels below `count`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if level[middle] < count:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def move(q: int, before: float, after: float, s: Any) -> None:
    """Change the count of one token of column q. There is room for a level; 0 is not a level."""
    if before == after:
        return
    level, times, n = s.level[q], s.times[q], s.levels[q]
    i, j = place(level, n, before), place(level, n, after)
    found = j < n and level[j] == after
    arrives = after > 0.0 and not found
    leaves = before > 0.0 and times[i] == 1
    if before > 0.0 and not leaves:
        times[i] -= 1
    if found:
        times[j] += 1
    if leaves and arrives and j <= i:
        for k in range(i, j, -1):
            level[k], times[k] = level[k - 1], times[k - 1]
        level[j], times[j] = after, 1
        return
    if leaves:
        last = j - 1 if arrives else n - 1
        for k in range(i, last):
            level[k], times[k] = level[k + 1], times[k + 1]
        if arrives:
            level[last], times[last] = after, 1
        else:
            s.levels[q] = n - 1
    elif arrives:
        for k in range(n, j, -1):
            level[k], times[k] = level[k - 1], times[k - 1]
        level[j], times[j] = after, 1
        s.levels[q] = n + 1


@kernel
def learn(bucket: Any, c: int, w: float, s: Any) -> None:
    """Add a text of bucket int64 (k,), rising, to class c; -1 marks a truncated text."""
    s.texts[0] += w
    s.texts[c + 1] += w
    for k in range(bucket.shape[0]):
        if bucket[k] < 0:
            s.cut[0] += 1
            continue
        if k > 0 and bucket[k] == bucket[k - 1]:
            continue  # the token is in two texts of the record
        if s.slot[bucket[k]] == 0:
            s.size[0] += 1
            s.slot[bucket[k]] = s.size[0]
        at = s.slot[bucket[k]] - 1
        for q in (0, c + 1):
            before = s.counts[at, q]
            s.counts[at, q] = before + w
            move(q, before, before + w, s)


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        s.texts[:] /= LARGEST_UNIT
        scale_down(s.counts[: s.size[0]])
        for q in range(s.texts.shape[0]):
            n = 0
            for k in range(s.levels[q]):  # after underflow, levels may be equal or 0
                value = s.level[q, k] / LARGEST_UNIT
                if n > 0 and s.level[q, n - 1] == value:
                    s.times[q, n - 1] += s.times[q, k]
                elif value > 0.0:
                    s.level[q, n], s.times[q, n] = value, s.times[q, k]
                    n += 1
            s.levels[q] = n


@kernel
def log_absent(count: float, texts: float, alpha: float) -> float:
    """Log probability that a token in `count` texts is absent; -inf if it never was absent."""
    # Most counts are small, and many such terms are added, so log1p is used to keep digits.
    if 2.0 * count <= texts:
        return log1p(-(count + alpha) / (texts + 2.0 * alpha))
    rest = max(texts - count, 0.0) + alpha
    return log(rest) - log(texts + 2.0 * alpha) if rest > 0.0 else -inf


@kernel
def log_present(count: float, texts: float, alpha: float) -> float:
    """Log probability that a token in `count` texts is present; -inf if it never was present."""
    return log(count + alpha) - log(texts + 2.0 * alpha) if count + alpha > 0.0 else -inf


@kernel
def log_all_absent(q: int, alpha: float, s: Any) -> Any:
    """Log probability, by column q, that every known token is absent, without the certain ones.

    Also returns the number of certain tokens: never absent, so with alpha = 0 absence is
    impossible.
    """
    rest = s.size[0]
    total, certain = 0.0, 0
    for k in range(s.levels[q]):
        rest -= s.times[q, k]
        term = log_absent(s.level[q, k], s.texts[q], alpha)
        if term == -inf:
            certain += s.times[q, k]
        else:
            total += s.times[q, k] * term
    return total + rest * log_absent(0.0, s.texts[q], alpha), certain


@kernel
def add_terms(bucket: Any, known: int, alpha: float, s: Any, out: Any) -> None:
    """Add the log likelihood of a text of bucket int64 (k,), rising, to out float64 (C,)."""
    if s.texts[0] <= 0.0:
        return
    for c in range(known):
        q = c + 1 if s.texts[c + 1] > 0.0 else 0  # without a text: use all classes
        base, certain = log_all_absent(q, alpha, s)
        joint = out[c] + base
        for k in range(bucket.shape[0]):
            at = s.slot[bucket[k]] - 1 if bucket[k] >= 0 else -1
            if at < 0 or (k > 0 and bucket[k] == bucket[k - 1]):
                continue
            n = s.counts[at, q]
            absent = log_absent(n, s.texts[q], alpha)
            if absent == -inf:  # certain and present: log probability 0
                certain -= 1
            else:
                joint += log_present(n, s.texts[q], alpha) - absent
        out[c] = joint if certain == 0 else -inf


@kernel
def shares(
    bucket: Any,
    known: int,
    alpha: float,
    s: Any,
    present: Any,
    absent: Any,
    base: Any,
    certain: Any,
) -> None:
    """Log probabilities of each token's presence and absence, and `log_all_absent`.

    bucket int64 (k,): learned ones. present, absent float64 (k, C); base float64, certain int64
    (C,).
    """
    if s.texts[0] <= 0.0:
        return
    for c in range(known):
        q = c + 1 if s.texts[c + 1] > 0.0 else 0
        base[c], certain[c] = log_all_absent(q, alpha * s.unit[0], s)
        for k in range(bucket.shape[0]):
            n = s.counts[s.slot[bucket[k]] - 1, q]
            present[k, c] = log_present(n, s.texts[q], alpha * s.unit[0])
            absent[k, c] = log_absent(n, s.texts[q], alpha * s.unit[0])


@kernel
def progressive(
    steps: Any,
    begin: Any,
    start: Any,
    row: Any,
    bucket: Any,
    given: Any,
    alpha: float,
    s: Any,
    joint: Any,
) -> Any:
    """Run the steps over rows of tokens, adding to joint float64 (n_predictions, C).

    start int64 (n + 1,): row r has the tokens start[r] … start[r+1]-1 of bucket int64. row int64
    (m,): the row of each step. given bool (n,): whether the row has a text. There is room for all
    classes and buckets. begin: step, prediction and known classes to start from. Returns these at
    the end, or at a step that may need more room for levels.
    """
    i, k, known = begin
    while i < steps.op.shape[0]:
        r = row[i]
        tokens = bucket[start[r] : start[r + 1]]
        if steps.op[i] != 0 and given[r]:
            c = steps.y[i]
            if max(s.levels[0], s.levels[c + 1]) + tokens.shape[0] > s.level.shape[1]:
                break
        if steps.op[i] != 1:
            if given[r]:
                add_terms(tokens, known, alpha * s.unit[0], s, joint[k])
            k += 1
        if steps.op[i] != 0:
            fade(s, steps.growth)
            if given[r]:
                learn(tokens, steps.y[i], steps.w[i] * s.unit[0], s)
            known = max(known, steps.y[i] + 1)
        i += 1
    return i, k, known
