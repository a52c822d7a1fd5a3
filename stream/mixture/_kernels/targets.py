"""Kernels of target statistics: how often each class came with a value, and what that says.

Rule: a table has groups of 8 slots. The lowest bits of a tag name its group. So when the table
doubles, each group is divided in two, and nothing depends on when a value came to its group.
"""

from __future__ import annotations

from math import exp, isnan, log, nan
from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import inlined, kernel

GROUP = 8  # slots
PRIOR = 4.0  # records that each value has more
TWO = 2  # counts: of all labels, and of the newest ones
RATE = 0.006931471805599453  # log 2 / 100: of the newest, a label counts half after 100 more
KEPT = 0.9930924954370359  # exp(-RATE)
TINY = 1e-200  # a faded count below it is 0: still smaller numbers are slow
DONE, FULL = 0, 1  # whether the table must become larger before more steps
COMPUTED, NOTED = 1, 2  # where the shares of a row come from; 0: it has none yet


class Tallied(NamedTuple):
    """What was counted, in a table of S slots.

    tag int64 (S,): the number of a field and a value; 0: free. used int64 (S,): the number of its
    last label. counts float64 (2, S, C): the weight of each class, of all labels, and of the newest
    ones as it was at its last label. total float64 (2, C): that of all records. distinct int64
    (F,): how many values of each field were new. labels int64 (2,): how many were learned, and how
    many values were forgotten.
    """

    tag: NDArray[int64]
    used: NDArray[int64]
    counts: NDArray[float64]
    total: NDArray[float64]
    distinct: NDArray[int64]
    labels: NDArray[int64]


# What runs for each record takes whole arrays and no tuples, see `stack.py`.


@inlined
def find(tag: int, tags: Any) -> Any:
    """The slot of a tag; -1 if it has none, or is 0."""
    first = (tag & (tags.shape[0] // GROUP - 1)) * GROUP
    for k in range(first, first + GROUP):
        if tag != 0 and tags[k] == tag:
            return k
    return -1


@inlined
def slot_for(tag: int, tags: Any, used: Any) -> Any:
    """The free slot in the group of a tag, or else the one whose last label is oldest."""
    first = (tag & (tags.shape[0] // GROUP - 1)) * GROUP
    best = first
    for k in range(first, first + GROUP):
        if tags[k] == 0:
            return k
        if used[k] < used[best]:
            best = k
    return best


@inlined
def lacks_room(tag: int, tags: Any, used: Any) -> Any:
    """Whether a tag has no slot, and its group has no free one."""
    return find(tag, tags) < 0 and tags[slot_for(tag, tags, used)] != 0


@kernel
def move(old: Any, new: Any) -> None:
    """Copy the slots of one `Tallied` to another one that has more and is empty."""
    tag, used, count, _, _, _ = old
    tags, uses, counts, _, _, _ = new
    for k in range(tag.shape[0]):
        if tag[k] != 0:
            at = slot_for(tag[k], tags, uses)
            tags[at], uses[at] = tag[k], used[k]
            for h in range(TWO):
                for c in range(count.shape[2]):
                    counts[h, at, c] = count[h, k, c]


@inlined
def compare(
    tag: int,
    known: int,
    now: int,
    tags: Any,
    used: Any,
    count: Any,
    total: Any,
    r: int,
    f: int,
    shares: Any,
) -> None:
    """shares[r, f], of float64 (rows, F, C, 2): how probable a value is in each of the known
    classes, normalised, by all labels and by the newest ones. Equal for a value without a slot; NaN
    if it is missing, and of other classes.

    With the weight n of a class, and its share p of all records, it is n / p + 4: the value has
    four records more, which are divided as all records are.
    """
    at = find(tag, tags)
    for h in range(TWO):
        kept = exp(-RATE * (now - used[at])) if h == 1 and at >= 0 else 1.0
        records, whole = 0.0, 0.0
        for c in range(known):
            records += total[h, c] + 1.0
        for c in range(known):
            n = count[h, at, c] * kept if at >= 0 else 0.0
            shares[r, f, c, h] = n * records / (total[h, c] + 1.0) + PRIOR
            whole += shares[r, f, c, h]
        for c in range(shares.shape[2]):
            shares[r, f, c, h] = shares[r, f, c, h] / whole if c < known and tag != 0 else nan


@inlined
def recall(memo: Any, r: int, shares: Any) -> None:
    """shares[r], of float64 (rows, F, C, 2), as row r has them noted."""
    known = min(int(memo[r, 0, 0]), memo.shape[1] - 1)
    for f in range(shares.shape[1]):
        for c in range(shares.shape[2]):
            for h in range(TWO):
                shares[r, f, c, h] = memo[r, 1 + c, TWO * f + h] if c < known else nan


@inlined
def note(memo: Any, r: int, known: int, shares: Any) -> None:
    """The inverse of `recall`. memo float64 (rows, 1 + any, 2 F or more)."""
    for f in range(shares.shape[1]):
        for h in range(TWO):
            memo[r, 0, TWO * f + h] = known
            for c in range(known):
                memo[r, 1 + c, TWO * f + h] = shares[r, f, c, h]


@inlined
def is_noted(memo: Any, r: int) -> bool:
    """Whether row r was predicted, by its memo, which may be float64 (rows, 0, 0)."""
    return memo.shape[1] > 0 and memo.shape[2] > 0 and not isnan(memo[r, 0, 0])


@kernel
def at_present(known: int, tags: Any, memo: Any, counted: Any, shares: Any) -> None:
    """shares float64 (rows, F, C, 2) of each row as noted, or else by the present counts."""
    tag, used, count, total, _, labels = counted
    for r in range(tags.shape[0]):
        if is_noted(memo, r):
            recall(memo, r, shares)
        else:
            for f in range(tags.shape[1]):
                compare(tags[r, f], known, labels[0], tag, used, count, total, r, f, shares)


@inlined
def count_value(tag: int, c: int, w: float, tags: Any, used: Any, count: Any, labels: Any) -> int:
    """Count the class of a label with a value; 1 if the value is new, else 0."""
    at, new = find(tag, tags), 0
    if at < 0:
        at, new = slot_for(tag, tags, used), 1
        labels[1] += 1 if tags[at] != 0 else 0
        tags[at] = tag
    kept = 0.0 if new == 1 else exp(-RATE * (labels[0] - used[at]))
    for k in range(count.shape[2]):
        count[0, at, k] = 0.0 if new == 1 else count[0, at, k]
        faded = count[1, at, k] * kept
        count[1, at, k] = faded if faded >= TINY else 0.0
    count[0, at, c] += w
    count[1, at, c] += w
    used[at] = labels[0]
    return new


@inlined
def count_label(c: int, w: float, total: Any, labels: Any) -> None:
    """Count the class of a label for all records."""
    labels[0] += 1
    for k in range(total.shape[1]):
        faded = total[1, k] * KEPT
        total[1, k] = faded if faded >= TINY else 0.0
    total[0, c] += w
    total[1, c] += w


@kernel
def replace(
    tags: Any, old: int, new: int, before: float, after: float, age: int, counted: Any
) -> None:
    """Replace the class of a label in the counts of the values with these tags, int64 (F,).

    before, after: its weight in each of the two classes. age: how many were learned since.
    """
    tag, used, count, total, _, labels = counted
    total[0, old] = max(total[0, old] - before, 0.0)
    total[0, new] += after
    kept = exp(-RATE * age)
    total[1, old] = max(total[1, old] - before * kept, 0.0)
    total[1, new] += after * kept
    for f in range(tags.shape[0]):
        at = find(tags[f], tag)
        if at >= 0:
            count[0, at, old] = max(count[0, at, old] - before, 0.0)
            count[0, at, new] += after
            then = exp(-RATE * max(age - (labels[0] - used[at]), 0))
            count[1, at, old] = max(count[1, at, old] - before * then, 0.0)
            count[1, at, new] += after * then


@kernel
def follow(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    span: Any,
    tags: Any,
    memo: Any,
    limit: int,
    grows: bool,
    counted: Any,
    source: Any,
    shares: Any,
) -> int:
    """Run the steps from span[0] on, up to the last one or to an earlier end.

    Compute the shares of each row that is predicted, note those that wait, recall those that
    waited, and count what is learned. A row has one value of shares in a call, so the steps end
    before one that needs another value. They also end after one with which a field has more than
    `limit` values for the first time, and before one with a value for which a table that `grows`
    has no slot; then the answer is `FULL`.

    op, row, y, w: as in `Block`, with class codes. span int64 (3,): the first step; the end, which
    is set; and the number of known classes, which changes. tags int64 (rows, F). memo float64
    (rows, 1 + any, 2 F or more) or (rows, 0, 0). source int8 (rows,), of zeros. shares float64
    (rows, F, C, 2): out.
    """
    tag, used, count, total, distinct, labels = counted
    for i in range(span[0], op.shape[0]):
        r, span[1], fields = row[i], i, tags.shape[1]
        if op[i] != 0 and grows:
            for f in range(fields):
                if tags[r, f] != 0 and lacks_room(tags[r, f], tag, used):
                    return FULL
        if op[i] == 1 and is_noted(memo, r):
            if source[r] == COMPUTED:
                return DONE
            recall(memo, r, shares)
            source[r] = NOTED
        elif source[r] != 0:
            return DONE
        else:
            for f in range(fields):
                compare(tags[r, f], span[2], labels[0], tag, used, count, total, r, f, shares)
            source[r] = COMPUTED
            if op[i] == 0:
                note(memo, r, span[2], shares)
                source[r] = NOTED
        if op[i] != 0:
            count_label(y[i], w[i], total, labels)
            span[2], switched = max(span[2], y[i] + 1), False
            for f in range(fields):
                if tags[r, f] != 0:
                    new = count_value(tags[r, f], y[i], w[i], tag, used, count, labels)
                    distinct[f] += new
                    switched = switched or (new == 1 and distinct[f] == limit + 1)
            if switched:
                span[1] = i + 1
                return DONE
    span[1] = op.shape[0]
    return DONE


@kernel
def columns(shares: Any, field: Any, classes: int, out: Any) -> None:
    """out float64 (rows, len(field) · 2 · classes): for each of these fields, by all labels and by
    the newest ones, the log-odds of each class after the first one against the first one; NaN if
    the value is missing or the class was not known."""
    for r in range(shares.shape[0]):
        for j in range(field.shape[0]):
            for h in range(TWO):
                for c in range(classes):
                    first, p = shares[r, field[j], 0, h], shares[r, field[j], c + 1, h]
                    at = (j * TWO + h) * classes + c
                    # A note of a damaged state may be 0.
                    out[r, at] = nan if isnan(p) else log(max(p, TINY) / max(first, TINY))
