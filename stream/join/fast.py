"""The label join's common events in one loop; every other one is handed on.

Common are an observation of whose id nothing is known, and the first label of one that waits or has
its label inside, if it is of a class that was learned before: nearly all there are. What becomes of
them is what `LabelJoin.observe` and `answer` make of them, twice as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.join.events import Event
from stream.join.join import LabelJoin
from stream.join.plan import Plan

__all__ = ["uncommon"]

NONE = -2  # an event's number, where there is none


def uncommon(
    join: LabelJoin,
    plan: Plan,
    events: Iterator[Event],
    sizes: Sequence[int],
    learns: Callable[[int], bool],
) -> Iterator[Event]:
    """Plan the common events, and yield each other one, to be planned before the next.

    Parameters
    ----------
    join, plan
        What plans, and where to.
    events
        In order.
    sizes
        Bytes of each row, but for its numbers.
    learns
        Whether labels may be learned until the next dead letter, after so many more events that
        were common.
    """
    while not join.corrections and learns(0):
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
    """Plan events up to the first that is not common, and give that one; None: there is none."""
    waiting, settled, early, slots = join._waiting, join._settled, join._early, join._slots
    order = settled.order
    step, kept, began = plan.steps.append, plan.kept, plan.began
    codes, values, bound = join.labels.codes, join.labels.values, join.max_pending
    kind = type(values[0]) if values else None
    now, sweep, first = join.time, join._oldest + join.horizon, join._learned
    learned, known = first, len(settled)
    delays: list[int] = []
    weigh, most = join.weigh, join.max_bytes
    label: Any  # what no learned label is goes no further
    # Unpacked at once, so that `zip` need not make a tuple anew for each.
    for number, id_, row, label, w, time, dead in events:  # noqa: B007  told where it ends
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
            size = sizes[row]
            more = weigh(id_)
            if len(waiting) >= bound or join._texts + more + slots.bytes + size > most:
                break
            join._texts += more
            slot = slots.take(size)
            step((PREDICT, row, -1, None, 1.0))
            kept[slot] = row
            began.add(slot)
            waiting[id_] = (slot, now)
            continue
        if type(label) is not kind or label not in codes:
            break
        more = weigh(id_) + (weigh(label) if kind is str else 0)
        if join._texts + more + slots.bytes > most:
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
            slots.give(slot)
            delays.append(now - since)
            join._texts -= weigh(id_)
        if len(settled) >= bound:
            _forget_oldest(join)
        join._texts += more
        join._settled_bytes += more
        learned += 1
        settled[id_] = (label, now, -1, w, learned)
        order.append(id_)
    else:
        number = NONE
    join.time, join._learned = now, learned
    join.account.labels_came(delays)
    _count(join, learned - first, known + learned - first - len(settled))
    return None if number == NONE else (number, id_, row, label, w, time, dead)


def _count(join: LabelJoin, joined: int, forgotten: int) -> None:
    for outcome, count in (("joined", joined), ("forgotten", forgotten)):
        if count:
            join.outcomes[outcome] += count


def _forget_oldest(join: LabelJoin) -> None:
    """The oldest settled id goes; its row was not kept."""
    settled = join._settled
    id_ = settled.order.popleft()
    label = settled.pop(id_)[0]
    less = join.weigh(id_) + (join.weigh(label) if type(label) is str else 0)
    join._texts -= less
    join._settled_bytes -= less
