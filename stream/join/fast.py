"""The three common transitions of the label join in one loop; every other event is passed on.

Nearly every event is an observation of an unknown id, with or without a label inside, or the label
of a waiting one (`transitions.COMMON`), and its label was learned before. The effects are those of
`LabelJoin.on_observation` and `on_label`, in half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.join.events import Event
from stream.join.join import LabelJoin
from stream.join.plan import Plan

__all__ = ["uncommon"]

NONE = -2  # stands for no event


def uncommon(
    join: LabelJoin,
    plan: Plan,
    events: Iterator[Event],
    sizes: Sequence[int],
    learns: Callable[[int], bool],
) -> Iterator[Event]:
    """Plan the common events; yield every other one, which the caller plans before the next.

    Parameters
    ----------
    join, plan
        The join, and the plan it adds to.
    events
        In order.
    sizes
        Bytes of each row, without its numbers.
    learns
        Called with the number of common events since the last call. Returns whether labels may be
        learned until the next dead letter.
    """
    while join.common and learns(0):
        before = len(plan.steps)
        event = _common(join, plan, events, sizes)
        learns(len(plan.steps) - before)  # each of them is one step
        if event is None:
            return
        yield event
    yield from events


def _common(
    join: LabelJoin, plan: Plan, events: Iterator[Event], sizes: Sequence[int]
) -> Event | None:
    """Plan events up to the first that is not common, and return that; None at the end."""
    held = join.state
    waiting, settled, early, rows = held.waiting, held.settled, held.early, held.rows
    order = settled.order
    step, kept, began = plan.steps.append, plan.kept, plan.began
    codes, values, bound = join.labels.codes, join.labels.values, join.max_pending
    kind = type(values[0]) if values else None
    now, sweep, first = held.time, held.oldest + join.horizon, held.learned
    learned, known = first, len(settled)
    delays: list[int] = []
    weigh, most, noted = held.weigh, join.max_bytes, join.bytes_per_class * (1 + len(values))
    label: Any  # compared with the learned labels before it is used
    for number, id_, row, label, w, time, dead in events:  # noqa: B007  returned below
        if time > sweep or dead:
            break
        if time > now:
            now = time
        if row >= 0:
            if id_ in waiting or id_ in settled or id_ in early:
                break
        elif label is None or id_ not in waiting:
            break
        if label is None:
            size = sizes[row] + noted
            more = weigh(id_)
            if len(waiting) >= bound or held.text_bytes + more + rows.bytes + size > most:
                break
            held.text_bytes += more
            slot = rows.take(size)
            step((PREDICT, row, -1, None, 1.0))
            kept[slot] = row
            began.add(slot)
            waiting[id_] = (slot, now)
            continue
        if type(label) is not kind or label not in codes:
            break
        more = weigh(id_) + (weigh(label) if kind is str else 0)
        if held.text_bytes + more + rows.bytes > most:
            break
        if row >= 0:
            step((PREDICT_THEN_LEARN, row, -1, label, w))
            delays.append(0)
        else:
            slot, since = waiting.pop(id_)
            if slot in began:
                began.remove(slot)
                step((LEARN, kept.pop(slot), slot, label, w))
            else:
                plan.ended.append(slot)
                plan.freed.append(slot)
                step((LEARN, -1, slot, label, w))
            rows.give(slot)
            delays.append(now - since)
            held.text_bytes -= weigh(id_)
        if len(settled) >= bound:
            held.remove_settled()  # without corrections its row is not kept
        held.text_bytes += more
        held.settled_bytes += more
        learned += 1
        settled[id_] = (label, now, -1, w, learned)
        order.append(id_)
    else:
        number = NONE
    held.time, held.learned = now, learned
    held.label_delays.labels_came(delays)
    _count(join, learned - first, known + learned - first - len(settled))
    return None if number == NONE else (number, id_, row, label, w, time, dead)


def _count(join: LabelJoin, joined: int, forgotten: int) -> None:
    for outcome, count in (("joined", joined), ("forgotten", forgotten)):
        if count:
            join.outcomes[outcome] += count
