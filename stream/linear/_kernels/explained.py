"""Kernels of SpamScorer that explain each prediction of a block from the state that made it."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import empty, float64, int32, int64, uint64, zeros
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.linear._kernels.evidence import terms
from stream.linear._kernels.progress import learn_step, predict, work_for
from stream.text._kernels.features import MOST_BYTES, VIEWS, place_by
from stream.text._kernels.occurrences import PLACE, occurrences

HEAD = 1 + VIEWS  # parts of a score without features


class Reasons(NamedTuple):
    """Explanations of n predictions, each with at most k parts of its record.

    pair int64 (n, 2): the codes of the two classes that are compared, -1 if one class is known.
    head float64 (n, 1 + VIEWS): what the score has without features. value float64 (any,): what
    each part of prediction j adds is value[end[j]:end[j + 1]], end int64 (n + 1,). top int64
    (n, k): those with the largest absolute values, as indices from end[j] on, of which there are
    kept[j] int64 (n,); in their order if a part is free. place int32 (n, k, PLACE): of these.
    """

    pair: NDArray[int64]
    head: NDArray[float64]
    value: NDArray[float64]
    end: NDArray[int64]
    top: NDArray[int64]
    kept: NDArray[int64]
    place: Any


@kernel
def distinct(found: Any, n: int, slots: Any, kept: Any, secret: int) -> int:
    """Write the index of each value of found[:n] uint64 where it occurs first to kept int64.

    slots, of integers: all 0, before and after, with room for a power of two of at least 16 and
    twice n.
    secret: see `place_by`. Returns how many there are.
    """
    size = 16
    while size < 2 * n:
        size *= 2
    mask, m = uint64(size - 1), 0
    for i in range(n):
        h = found[uint64(i)]
        p = place_by(h ^ (h >> uint64(32)), secret) & mask
        while slots[p] != 0 and found[uint64(slots[p] - 1)] != found[uint64(i)]:
            p = (p + uint64(1)) & mask
        if slots[p] == 0:
            slots[p] = i + 1
            kept[m] = i
            m += 1
    slots[:size] = 0
    return m


@inlined
def best_two(p: Any, known: int, pair: Any) -> None:
    """The two most probable classes of p float64 (C,); of equals the first."""
    a = 0
    for c in range(1, known):
        if p[c] > p[a]:
            a = c
    b = 1 if a == 0 else 0
    for c in range(b + 1, known):
        if c != a and p[c] > p[b]:
            b = c
    pair[0], pair[1] = a, b


@kernel
def differences(place: Any, view: Any, m: Any, a: int, b: int, s: Any, out: Any) -> None:
    """What each part of the score adds to the log-odds of class a against b, see `terms`."""
    if s.bias.shape[1] == 1:
        terms(place, view, m, 0, s, out)
        if a == 0:
            for i in range(out.shape[0]):
                out[i] = 0.0 - out[i]
        return
    against = empty(out.shape[0])
    terms(place, view, m, a, s, out)
    terms(place, view, m, b, s, against)
    for i in range(out.shape[0]):
        out[i] = 0.5 * out[i] - 0.5 * against[i]


@kernel
def summed(
    part: Any, kept: Any, m: int, term: Any, slots: Any, secret: int, value: Any, first: Any
) -> int:
    """Add what the features kept[:m] add to that of their part, in the order of the parts.

    part uint64: the hash of the part of each occurrence. slots, secret: as in `distinct`. value
    float64: the sum of each part; first int64: the occurrence where it is first. Returns how many
    there are.
    """
    size = 16
    while size < 2 * m:
        size *= 2
    mask, parts = uint64(size - 1), 0
    for i in range(m):
        if term[i] == 0.0:
            continue
        h = part[uint64(kept[i])]
        p = place_by(h ^ (h >> uint64(32)), secret) & mask
        while slots[p] != 0 and part[uint64(first[slots[p] - 1])] != h:
            p = (p + uint64(1)) & mask
        if slots[p] == 0:
            first[parts] = kept[i]
            value[parts] = 0.0
            parts += 1
            slots[p] = parts
        value[slots[p] - 1] += term[i]
    slots[:size] = 0
    return parts


@kernel
def largest(value: Any, parts: int, top: Any) -> int:
    """Write the indices of the largest absolute values of value[:parts] to top int64 (k,), the
    largest first and equal ones in their order; all in their order if fewer than k."""
    k, n = top.shape[0], 0
    if parts < k:
        for g in range(parts):
            top[g] = g
        return parts
    for g in range(parts):
        v = abs(value[g])
        if n == k and v <= abs(value[top[k - 1]]):
            continue
        at = min(n, k - 1)
        while at > 0 and abs(value[top[at - 1]]) < v:
            top[at] = top[at - 1]
            at -= 1
        top[at] = g
        n = min(n + 1, k)
    return n


@kernel
def explain(
    texts: Any,
    group: Any,
    r: int,
    table: Any,
    s: Any,
    start: Any,
    placed: Any,
    room: Any,
    why: Any,
    j: int,
) -> None:
    """Explain prediction j, of row r, by the present state.

    start: of the features of the rows. placed int64: the place of each feature of this row, by
    which it was predicted. A view has its features in the order in which they occur, so the next
    one that occurs first is the next one there. room: tokens_of and out of `occurrences`, and kept
    int64 and term float64, one for each occurrence and HEAD more.
    """
    tokens_of, out, kept, term = room
    found, place = out
    n = occurrences(texts, group, r, table, tokens_of, out)
    size = 16
    while size < 2 * n:
        size *= 2
    slots = zeros(size, int32)  # as many as there are, because all are cleared
    m = distinct(found[0], n, slots, kept, texts.secret)
    view, at, next_ = empty(m, int64), empty(m, int64), zeros(VIEWS, int64)
    begin = start[r * VIEWS]
    for i in range(m):
        v = int64(found[0][uint64(kept[i])] >> uint64(32))
        view[i], at[i] = v, placed[start[r * VIEWS + v] - begin + next_[v]]
        next_[v] += 1
    every = term[: HEAD + m]
    differences(at, view, next_, why.pair[j, 0], why.pair[j, 1], s, every)
    why.head[j, :] = every[:HEAD]
    value, first = why.value[why.end[j] :], empty(m, int64)
    parts = summed(found[1], kept, m, every[HEAD:], slots, texts.secret, value, first)
    why.end[j + 1] = why.end[j] + parts
    why.kept[j] = largest(value, parts, why.top[j])
    for g in range(why.kept[j]):
        why.place[j, g, :] = place[first[why.top[j, g]], :]


@kernel
def progressive(
    op: Any,
    bag: Any,
    y: Any,
    w: Any,
    cut: Any,
    key: Any,
    start: Any,
    growth: Any,
    at: Any,
    room: int,
    s: Any,
    proba: Any,
    even: Any,
    seen: Any,
    texts: Any,
    group: Any,
    table: Any,
    done: int,
    why: Any,
) -> None:
    """`progressive` of the evidence, which also explains each prediction to why, from `done` on.

    texts, group, table: as in `occurrences`. done: predictions of the block before these rows.
    """
    work = work_for(start, s)
    others, fields = 0, 0
    for r in range(texts.of_row.shape[0] - 1):
        others = max(others, texts.others[r + 1] - texts.others[r])
        fields = max(fields, texts.of_row[r + 1] - texts.of_row[r])
    size = 7 * texts.most + fields * (MOST_BYTES + 1) + others + 1
    tokens_of = empty((7, texts.most + 1), int64), empty(texts.most + 1, uint64)
    out = (empty(size, uint64), empty(size, uint64)), empty((size, PLACE), int32)
    scratch = tokens_of, out, empty(size, int64), empty(size + HEAD)
    for i in range(at[0], op.shape[0]):
        at[0] = i
        before = at[2]
        fresh = predict(i, op, bag, key, start, at, room, s, proba, even, seen, work)
        if fresh < 0:
            return
        if at[2] > before:
            j = before - done
            if at[3] > 1:
                best_two(work[2][0], at[3], why.pair[j])
                explain(texts, group, bag[i], table, s, start, work[0], scratch, why, j)
            else:
                why.pair[j, 0] = why.pair[j, 1] = -1
                why.end[j + 1] = why.end[j]
        if op[i] != 0 and not learn_step(
            i, bag, y, w, cut, key, start, growth, at, room, s, fresh, work
        ):
            return
        at[1] = 0
    at[0] = op.shape[0]
