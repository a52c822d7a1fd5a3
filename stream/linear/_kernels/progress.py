"""Kernels of SpamScorer that predict and learn the records of a block in their order."""

from __future__ import annotations

from typing import Any

from numpy import empty, float32, int64

from stream.kernel import kernel
from stream.linear._kernels.evidence import admit, find, longest, read, scores
from stream.linear._kernels.lessons import learn, note_key_of


@kernel
def predict(
    i: int,
    op: Any,
    bag: Any,
    key: Any,
    start: Any,
    at: Any,
    room: int,
    s: Any,
    proba: Any,
    even: Any,
    seen: Any,
    work: Any,
) -> Any:
    """The first half of step i of `progressive`, with a prediction if it predicts.

    work: place int64 and found float32 of `read`, p float64 (2, C) and z float64 (3, VIEWS, K) of
    `scores`. Returns how many of its features are new, or -1 if they need room.
    """
    place, found, p, z = work
    views = s.bias.shape[0]
    r, known = bag[i], at[3]
    first, end = start[r * views], start[r * views + views]
    fresh = find(key, first, end, s.key, s.cell, place)
    if op[i] != 0 and s.size[0] + fresh > room and at[4] != i + 1:
        at[5] = fresh
        return -1
    read(place, end - first, s.cell, found)
    if known > 0:
        scores(found, start, r, s, known, z, p)
    if op[i] != 1 and at[1] == 0:
        for c in range(known):
            proba[at[2], c] = p[0, c]
            even[at[2], c] = p[1, c]
        seen[at[2]] = known
        at[2] += 1
        at[1] = 1
    return fresh


@kernel
def learn_step(
    i: int,
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
    fresh: int,
    work: Any,
) -> bool:
    """The second half of step i of `progressive`, if it learns. False if its class needs room."""
    if y[i] >= s.totals.shape[1]:
        at[5] = -1
        return False
    place, found, p, z = work
    views = s.bias.shape[0]
    r, known = bag[i], at[3]
    first, end = start[r * views], start[r * views + views]
    if y[i] >= known or known == 1:
        at[3] = max(known, y[i] + 1)
        scores(found, start, r, s, max(at[3], 2), z, p)
    if fresh > 0:
        admit(key, first, end, room, s, place)
    slot, again = at[6] - 1, at[6] != 0
    if not again:
        s.records[0] += 1
        s.cut[0] += cut[r]
        slot = s.noted[0] % s.note_key.shape[0]
        s.noted[0] += 1
    if slot >= 0:
        s.note_key[slot] = note_key_of(key, first, end, y[i])
    learn(y[i], w[i], growth, place, found, start, r, z, p, s, max(at[3], 2), slot, again)
    return True


@kernel
def work_for(start: Any, s: Any) -> Any:
    """`work` of `predict` and `learn_step`, for each row."""
    most = longest(start, s.bias.shape[0])
    found = empty((s.cell.shape[1] + 1, most), float32)
    p, z = empty((2, s.totals.shape[1])), empty((3, s.bias.shape[0], s.bias.shape[1]))
    return empty(most, int64), found, p, z


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
) -> None:
    """Run the steps from at[0] on, until the end or until the tables need room.

    op int8, y int64, w float64 (m,): as in `Block`, with class codes. Step i has the features of
    row bag[i] int64 of key uint32, start int64, as in `stream.text.features.Features`; cut int64
    (rows,): truncated texts of a row. growth: as in `learn`. at int64 (7,): the next step, whether
    it has predicted, predictions so far, known classes, 1 + the step for which as much room was
    made as there can be, how many new features the next step has, or -1 if its class needs room,
    and for a correction 1 + the slot of its note, or -1 if it has none; else 0. room: features that
    the table may have.
    proba, even float64 (n_predictions, C), seen int64 (n_predictions,): posteriors, those with
    equal class shares, known classes.
    """
    work = work_for(start, s)
    for i in range(at[0], op.shape[0]):
        at[0] = i
        fresh = predict(i, op, bag, key, start, at, room, s, proba, even, seen, work)
        if fresh < 0:
            return
        if op[i] != 0 and not learn_step(
            i, bag, y, w, cut, key, start, growth, at, room, s, fresh, work
        ):
            return
        at[1] = 0
    at[0] = op.shape[0]
