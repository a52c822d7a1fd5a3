"""The transitions of `transitions.py` that change what is held, and those of common events.

Common events are planned many in one call. Of every other event `LabelJoin` decides what it is, and
whether its label is accepted. Then it is planned here too, alone.
"""

from __future__ import annotations

from typing import Any

from numpy import int64

from stream.join._kernels.ids import (
    AFTER,
    CODE,
    COUNT,
    EARLY,
    EARLY_BYTES,
    FIRST,
    FREE_SLOTS,
    HEARD,
    IS_FLAGGED,
    KIND,
    LEARNED,
    NO_LABEL,
    NOT_HEARD,
    NOW,
    OLDEST,
    OTHER_LABEL,
    RECORDS,
    ROW_BYTES,
    SETTLED,
    SETTLED_BYTES,
    SIZE,
    SLOT,
    SLOTS,
    TEXT_BYTES,
    TIME,
    UNHEARD,
    WAITING,
    add,
    append,
    bytes_of,
    found,
    hash_of,
    leave,
    remove,
    short_hash,
)
from stream.kernel import called, inlined, kernel

__all__: list[str] = []

# Bounds of a call.
MAX_PENDING, HORIZON, MAX_BYTES, SHARE, ROW_EXTRA, CORRECTIONS = range(6)
# With silence: its `after` (-1: none), and the code of its label (OTHER_LABEL: it was not learned
# before; VOID: it may not be learned).
AFTER_MS, SILENT_CODE = 6, 7
VOID = -3
# HELD: whether labels are held back. DECIDED: whether Python has decided what the event is, and
# whether its label is that of the id. OTHER_BYTES: of a label that was not learned before, with its
# record. NOTED: whether `gone` has every id that was given up or is no longer known.
HELD, DECIDED, OTHER_BYTES, NOTED = range(8, 12)
BY_KERNEL, DIFFERS, SAME = range(3)
BOUNDS = 12
# What is counted in a call. DELAYS: one for each bucket.
STEPS, KEPT, ENDED, FREED, GONE, SILENT, ASKED = range(7)
DELAY_HIGH, DELAY_LOW, UNLABELLED, OUTCOME = range(7, 11)
JOINED, IS_EARLY, DUPLICATE, CONFLICTING, LATE, EARLY_EXPIRED, EARLY_EVICTED = range(
    OUTCOME, OUTCOME + 7
)
EXPIRED, EVICTED, FORGOTTEN, DUPLICATE_OBSERVATION = range(OUTCOME + 7, OUTCOME + 11)
BY_SILENCE, SILENCE_IGNORED, HELD_BACK = range(OUTCOME + 11, OUTCOME + 14)
DELAYS = OUTCOME + 14
PREDICT, LEARN, PREDICT_THEN_LEARN = 0, 1, 2
# What an event does: it is only counted, or changes what is held, or learns a row.
COUNTS, CHANGES, LEARNS = range(3)
# Whether silence was heard: yes; not before the steps ran; not before its label is learned.
HEARD_ALL, RUN_FIRST, ADMIT_FIRST = range(3)


# Rows of a call that are kept: `place` says where a slot may be in the list of the call, which says
# whether it is. So nothing is cleared between two calls.


@inlined
def kept_at(t: Any, p: Any, slot: int) -> Any:
    """Where the slot is among those of this call; -1 if it is not."""
    at = t.place[slot]
    return at if 0 <= at < p.tally[KEPT] and p.kept_slot[at] == slot else -1


@inlined
def keep(t: Any, p: Any, slot: int, row: int, waits: int) -> Any:
    """The row of this call is kept in the slot. `waits`: the entry that waits with it, or -1.
    Returns where the slot is among those of this call."""
    at = kept_at(t, p, slot)
    if at < 0:
        at = p.tally[KEPT]
        p.tally[KEPT] += 1
        t.place[slot], p.kept_slot[at] = at, slot
    p.kept_row[at], p.kept_waits[at], p.kept_since[at] = row, waits, p.tally[STEPS]
    return at


@inlined
def ask(p: Any, at: int) -> None:
    """The next step predicts what waits with this slot of the call: silence depends on it too."""
    p.asked_at[p.tally[ASKED]], p.asked_step[p.tally[ASKED]] = at, p.tally[STEPS]
    p.tally[ASKED] += 1


@inlined
def ask_again(t: Any, p: Any, entry: int) -> None:
    """The next step predicts an entry that may wait."""
    if t.links[entry, KIND] == WAITING and t.values[entry, LEARNED] != HEARD:
        slot = int64(t.links[entry, SLOT])
        at = kept_at(t, p, slot)
        if at < 0 or p.kept_waits[at] < 0:  # its row is of an earlier call
            at = keep(t, p, slot, -1, entry)
        ask(p, at)


@inlined
def take_slot(t: Any, size: int) -> Any:
    """A free slot, for a row of that many bytes."""
    c = t.counts
    if c[FREE_SLOTS] > 0:
        c[FREE_SLOTS] -= 1
        slot = t.free[c[FREE_SLOTS]]
    else:
        slot = c[SLOTS]
        c[SLOTS] += 1
    t.sizes[slot] = size
    c[ROW_BYTES] += size
    return slot


@inlined
def release(t: Any, p: Any, slot: int) -> None:
    """The row in this slot, if any, is no longer kept."""
    if slot < 0:
        return
    c, at = t.counts, kept_at(t, p, slot)
    if at >= 0 and p.kept_row[at] >= 0:
        p.kept_row[at] = -1
    else:
        p.freed[p.tally[FREED]] = slot
        p.tally[FREED] += 1
    t.free[c[FREE_SLOTS]] = slot
    c[FREE_SLOTS] += 1
    c[ROW_BYTES] -= t.sizes[slot]
    t.sizes[slot] = 0


@inlined
def waits_no_longer(t: Any, p: Any, slot: int) -> None:
    """The observation in this slot no longer waits for a label."""
    at = kept_at(t, p, slot)
    began = at >= 0 and p.kept_row[at] >= 0 and p.kept_waits[at] >= 0
    if at >= 0:
        p.kept_waits[at] = -1
    if not began:
        p.ended[p.tally[ENDED]] = slot
        p.tally[ENDED] += 1


@inlined
def step(p: Any, at: int, op: int, row: int, slot: int, code: int, weight: float) -> None:
    """Add a step of event `at`."""
    k = p.tally[STEPS]
    p.tally[STEPS] = k + 1
    p.op[k], p.row[k], p.slot[k], p.code[k], p.weight[k] = op, row, slot, code, weight
    p.event[k] = at


# The transitions.


@inlined
def note(t: Any, p: Any, bounds: Any, entry: int) -> None:
    """Python forgets what only it knows about an entry."""
    if t.links[entry, CODE] == OTHER_LABEL or bounds[NOTED] != 0:
        p.gone[p.tally[GONE]] = entry
        p.tally[GONE] += 1


@inlined
def bytes_of_label(bounds: Any, labels: Any, code: int) -> Any:
    """The bytes of a label for bounds. `labels`: those of each that was learned."""
    return labels[code] if code >= 0 else bounds[OTHER_BYTES]


@inlined
def is_same(bounds: Any, code: int, held: int) -> Any:
    """Whether the label of an event is that of its id."""
    return code == held if bounds[DECIDED] == BY_KERNEL else bounds[DECIDED] == SAME


@called
def forget(t: Any, p: Any, bounds: Any) -> None:
    """Remove the oldest settled id, and its row if it was kept."""
    c = t.counts
    entry = c[FIRST + SETTLED]
    slot, size = int64(t.links[entry, SLOT]), t.values[entry, SIZE]
    c[TEXT_BYTES] -= size
    c[SETTLED_BYTES] -= size if slot < 0 else size + t.sizes[slot]
    note(t, p, bounds, entry)
    release(t, p, slot)
    remove(t, entry)


@called
def drop_early(t: Any, p: Any, bounds: Any, outcome: int) -> None:
    """Remove the oldest early label."""
    c = t.counts
    entry = c[FIRST + EARLY]
    c[TEXT_BYTES] -= t.values[entry, SIZE]
    c[EARLY_BYTES] -= t.values[entry, SIZE]
    note(t, p, bounds, entry)
    p.tally[outcome] += 1
    remove(t, entry)


@inlined
def settle(t: Any, p: Any, bounds: Any, entry: int, code: int) -> None:
    """Add the entry, which is in no list, to the settled ids. Its SIZE, SLOT and CODE are set.
    `code`: of the label."""
    c = t.counts
    t.links[entry, CODE] = code
    t.values[entry, TIME] = c[NOW]
    append(t, entry, SETTLED)
    slot, size = int64(t.links[entry, SLOT]), t.values[entry, SIZE]
    c[TEXT_BYTES] += size
    c[SETTLED_BYTES] += size if slot < 0 else size + t.sizes[slot]


@inlined
def make_room(t: Any, p: Any, bounds: Any) -> None:
    """Forget the oldest settled id if there are as many as may be."""
    if t.counts[COUNT + SETTLED] >= bounds[MAX_PENDING]:
        p.tally[FORGOTTEN] += 1
        forget(t, p, bounds)


@called
def give_up(t: Any, p: Any, bounds: Any, outcome: int) -> None:
    """Settle the oldest waiting id without a label."""
    c = t.counts
    entry = c[FIRST + WAITING]
    slot = int64(t.links[entry, SLOT])
    p.tally[outcome] += 1
    p.tally[UNLABELLED] += 1
    note(t, p, bounds, entry)
    leave(t, entry)
    c[TEXT_BYTES] -= t.values[entry, SIZE]
    waits_no_longer(t, p, slot)
    release(t, p, slot)
    make_room(t, p, bounds)
    t.links[entry, SLOT], t.values[entry, LEARNED], t.weights[entry] = -1, 0, 0.0
    settle(t, p, bounds, entry, NO_LABEL)


@inlined
def trim(t: Any, p: Any, bounds: Any) -> None:
    """Remove the oldest ids until the rest fits into MAX_BYTES."""
    c = t.counts
    if c[EARLY_BYTES] > bounds[SHARE] or c[TEXT_BYTES] + c[ROW_BYTES] > bounds[MAX_BYTES]:
        remove_oldest(t, p, bounds)


@called
def remove_oldest(t: Any, p: Any, bounds: Any) -> None:
    """See `trim`."""
    c = t.counts
    while c[EARLY_BYTES] > bounds[SHARE]:
        drop_early(t, p, bounds, EARLY_EVICTED)
    while c[TEXT_BYTES] + c[ROW_BYTES] > bounds[MAX_BYTES]:
        if c[SETTLED_BYTES] > bounds[SHARE]:
            p.tally[FORGOTTEN] += 1
            forget(t, p, bounds)
        else:
            give_up(t, p, bounds, EVICTED)


@inlined
def pass_time(t: Any, p: Any, bounds: Any, time: int) -> Any:
    """Advance stream time. Ids older than the horizon expire; returns whether some may have."""
    c = t.counts
    c[NOW] = time
    if time - bounds[HORIZON] <= c[OLDEST]:
        return False
    expire(t, p, bounds)
    return True


@called
def expire(t: Any, p: Any, bounds: Any) -> None:
    """Remove what is older than the horizon."""
    c, limit = t.counts, t.counts[NOW] - bounds[HORIZON]
    while c[FIRST + SETTLED] >= 0 and t.values[c[FIRST + SETTLED], TIME] < limit:
        forget(t, p, bounds)
    while c[FIRST + EARLY] >= 0 and t.values[c[FIRST + EARLY], TIME] < limit:
        drop_early(t, p, bounds, EARLY_EXPIRED)
    while c[FIRST + WAITING] >= 0 and t.values[c[FIRST + WAITING], TIME] < limit:
        give_up(t, p, bounds, EXPIRED)
    find_oldest(t)


@inlined
def find_oldest(t: Any) -> None:
    """Set OLDEST from what is held."""
    c = t.counts
    oldest, some = c[NOW], False
    for kind in range(WAITING, SETTLED + 1):
        first = c[FIRST + kind]
        if first >= 0:
            time = t.values[first, TIME]
            oldest = time if not some else min(oldest, time)
            some = True
    c[OLDEST] = oldest


@inlined
def learn(
    t: Any,
    p: Any,
    bounds: Any,
    at: int,
    op: int,
    row: int,
    entry: int,
    code: int,
    size: int,
    outcome: int,
) -> None:
    """Learn a row: of the slot of the entry, or, where that is -1, of this call with `size` bytes.

    The entry is in no list; its SIZE is that with its label.
    """
    c, slot = t.counts, int64(t.links[entry, SLOT])
    c[RECORDS] += 1
    p.tally[outcome] += 1
    t.values[entry, LEARNED] = c[RECORDS]
    step(p, at, op, row, slot, code, t.weights[entry])
    if bounds[CORRECTIONS] == 0:
        t.links[entry, SLOT] = -1
        release(t, p, slot)
    make_room(t, p, bounds)
    settle(t, p, bounds, entry, code)
    if bounds[CORRECTIONS] != 0 and slot < 0:
        slot = take_slot(t, size)  # only now: settling may have freed one
        keep(t, p, slot, row, -1)
        t.links[entry, SLOT] = slot
        c[SETTLED_BYTES] += size


@inlined
def hold(t: Any, p: Any, bounds: Any, at: int, op: int, row: int, entry: int, code: int) -> None:
    """As `learn`, but nothing is learned and no row is kept."""
    slot = int64(t.links[entry, SLOT])
    p.tally[HELD_BACK] += 1
    if op == PREDICT_THEN_LEARN:
        step(p, at, PREDICT, row, -1, NO_LABEL, 1.0)
    t.links[entry, SLOT] = -1
    t.values[entry, LEARNED], t.weights[entry] = 0, 0.0
    release(t, p, slot)
    make_room(t, p, bounds)
    settle(t, p, bounds, entry, code)


@inlined
def count_delay(p: Any, buckets: Any, delay: int) -> None:
    """Count a label that came that late."""
    bucket = 0
    while bucket < buckets.size and buckets[bucket] < delay:
        bucket += 1
    p.tally[DELAYS + bucket] += 1
    p.tally[DELAY_HIGH] += delay >> 32
    p.tally[DELAY_LOW] += delay & 0xFFFFFFFF


@inlined
def is_uncommon(t: Any, entry: int, row: int, code: int) -> Any:
    """Whether an event of this id must be planned by the table of transitions."""
    other = t.links[entry, CODE] == OTHER_LABEL
    kind = t.links[entry, KIND]
    if kind == EARLY:
        return other
    if kind == SETTLED and row < 0:
        held = t.links[entry, CODE]
        return other or (t.links[entry, SLOT] >= 0 and held != code)  # a correction
    return False


@kernel
def fall_silent(t: Any, p: Any, bounds: Any, labels: Any, at: int, time: int) -> Any:
    """Learn what nobody labelled before `time`, each row at its own moment, oldest first."""
    c = t.counts
    while c[UNHEARD] >= 0:
        entry, code = c[UNHEARD], bounds[SILENT_CODE]
        since, slot = t.values[entry, TIME], int64(t.links[entry, SLOT])
        if time <= 0 or since >= time - bounds[AFTER_MS]:  # written so that no sum overflows
            break
        here = kept_at(t, p, slot)
        if here >= 0 and p.kept_waits[here] >= 0:
            return RUN_FIRST  # steps of the plan predict it
        void = code == VOID or t.values[entry, LEARNED] == IS_FLAGGED
        if code == OTHER_LABEL and not void:
            return ADMIT_FIRST
        moment = since + bounds[AFTER_MS]
        if moment > c[NOW]:
            pass_time(t, p, bounds, moment)
        c[UNHEARD] = t.links[entry, AFTER]
        if void:
            t.values[entry, LEARNED] = HEARD
            p.tally[SILENCE_IGNORED] += 1
            continue
        leave(t, entry)
        c[TEXT_BYTES] -= t.values[entry, SIZE]
        t.values[entry, SIZE] += labels[code]
        t.weights[entry] = 1.0
        waits_no_longer(t, p, slot)
        p.tally[UNLABELLED] += 1
        p.silent[p.tally[SILENT]] = p.tally[STEPS]
        p.tally[SILENT] += 1
        learn(t, p, bounds, at, LEARN, -1, entry, code, 0, BY_SILENCE)
        trim(t, p, bounds)
    return HEARD_ALL


@inlined
def observe(
    t: Any, e: Any, p: Any, bounds: Any, labels: Any, at: int, entry: int, short: int
) -> Any:
    """Plan an observation. `labels`: bytes of each label. Returns what it does, and the entry; one
    that LEARNS is in no list, and has its label."""
    c, row, code, start, stop = t.counts, e.row[at], int64(e.code[at]), e.start[at], e.start[at + 1]
    if entry >= 0 and t.links[entry, KIND] != EARLY:
        p.tally[DUPLICATE_OBSERVATION] += 1
        p.tally[UNLABELLED] += 1
        if bounds[AFTER_MS] >= 0:
            ask_again(t, p, entry)
        step(p, at, PREDICT, row, -1, NO_LABEL, 1.0)
        return COUNTS, entry
    if entry < 0 and code == NO_LABEL:
        if c[COUNT + WAITING] >= bounds[MAX_PENDING]:
            give_up(t, p, bounds, EVICTED)
        slot = take_slot(t, e.size[row] + bounds[ROW_EXTRA])
        entry = add(t, e.data, start, stop, short, WAITING)
        here = keep(t, p, slot, row, entry)
        if bounds[AFTER_MS] >= 0:
            ask(p, here)
        step(p, at, PREDICT, row, -1, NO_LABEL, 1.0)
        t.links[entry, SLOT], t.links[entry, CODE] = slot, NO_LABEL
        t.values[entry, TIME], t.values[entry, LEARNED] = c[NOW], NOT_HEARD
        t.values[entry, SIZE] = bytes_of(e.data, start, stop)
        c[TEXT_BYTES] += t.values[entry, SIZE]
        return CHANGES, entry
    p.tally[DELAYS] += 1
    if entry < 0:
        entry = add(t, e.data, start, stop, short, SETTLED)
        t.links[entry, CODE], t.weights[entry] = code, e.weight[at]
        size = bytes_of_label(bounds, labels, code)
        t.values[entry, SIZE] = bytes_of(e.data, start, stop) + size
    else:
        if code != NO_LABEL:
            same = is_same(bounds, code, int64(t.links[entry, CODE]))
            p.tally[DUPLICATE if same else CONFLICTING] += 1
        c[TEXT_BYTES] -= t.values[entry, SIZE]
        c[EARLY_BYTES] -= t.values[entry, SIZE]
    leave(t, entry)
    t.links[entry, SLOT] = -1
    return LEARNS, entry


@inlined
def report(
    t: Any, e: Any, p: Any, bounds: Any, labels: Any, at: int, entry: int, short: int, buckets: Any
) -> Any:
    """Plan a label on its own. `buckets`: the bounds of label delays. Returns as `observe`."""
    c, code, start, stop = t.counts, int64(e.code[at]), e.start[at], e.start[at + 1]
    if entry < 0:
        p.tally[IS_EARLY] += 1
        if c[COUNT + EARLY] >= bounds[MAX_PENDING]:
            drop_early(t, p, bounds, EARLY_EVICTED)
        entry = add(t, e.data, start, stop, short, EARLY)
        t.links[entry, SLOT], t.links[entry, CODE] = -1, code
        t.values[entry, TIME], t.weights[entry] = c[NOW], e.weight[at]
        size = bytes_of(e.data, start, stop) + bytes_of_label(bounds, labels, code)
        t.values[entry, SIZE] = size
        c[TEXT_BYTES] += size
        c[EARLY_BYTES] += size
        return CHANGES, entry
    kind, held = t.links[entry, KIND], int64(t.links[entry, CODE])
    if kind == WAITING:
        leave(t, entry)
        c[TEXT_BYTES] -= t.values[entry, SIZE]
        t.values[entry, SIZE] += bytes_of_label(bounds, labels, code)
        t.weights[entry] = e.weight[at]
        waits_no_longer(t, p, int64(t.links[entry, SLOT]))
        count_delay(p, buckets, c[NOW] - t.values[entry, TIME])
        return LEARNS, entry
    if held == NO_LABEL:
        p.tally[LATE] += 1
        return COUNTS, entry
    p.tally[DUPLICATE if is_same(bounds, code, held) else CONFLICTING] += 1
    return CHANGES if kind == EARLY else COUNTS, entry


@kernel
def plan(t: Any, e: Any, p: Any, bounds: Any, labels: Any, buckets: Any, at: int, stop: int) -> Any:
    """Plan events from `at` on. Returns the first that is not planned here, at most `stop`.

    t: `IdArrays`; e: `EventColumns`; p: `StepArrays`. An event is planned here if its label was
    learned before, so that it cannot be rejected, and no correction is due; or if Python has
    decided about it.
    """
    decided = bounds[DECIDED] != BY_KERNEL
    while at < stop:
        code, row, time = int64(e.code[at]), e.row[at], e.time[at]
        if not decided:
            if code == OTHER_LABEL or (row < 0 and code < 0):
                break
            silence = bounds[AFTER_MS] >= 0
            if silence and fall_silent(t, p, bounds, labels, at, time) != HEARD_ALL:
                break
        start, end = e.start[at], e.start[at + 1]
        short = short_hash(hash_of(e.data, start, end, t.key))
        entry = found(t, e.data, start, end, short)
        if not decided and entry >= 0 and is_uncommon(t, entry, row, code):
            break
        if time > t.counts[NOW] and pass_time(t, p, bounds, time):
            entry = found(t, e.data, start, end, short)
        if row >= 0:
            does, entry = observe(t, e, p, bounds, labels, at, entry, short)
            op, held, size = PREDICT_THEN_LEARN, t.links[entry, CODE], e.size[row]
        else:
            does, entry = report(t, e, p, bounds, labels, at, entry, short, buckets)
            op, held, size = LEARN, e.code[at], 0
            if does == LEARNS:
                here = kept_at(t, p, t.links[entry, SLOT])
                row = p.kept_row[here] if here >= 0 else -1
        if does == LEARNS and bounds[HELD] != 0:
            hold(t, p, bounds, at, op, row, entry, int64(held))
        elif does == LEARNS:
            size += bounds[ROW_EXTRA]
            learn(t, p, bounds, at, op, row, entry, int64(held), size, JOINED)
        if does >= CHANGES:
            trim(t, p, bounds)
        at += 1
    return at


@kernel
def advance(t: Any, p: Any, bounds: Any, time: int) -> None:
    """Advance stream time, which is before `time`. Ids older than the horizon expire."""
    pass_time(t, p, bounds, time)
