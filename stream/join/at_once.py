"""A call in which every observation has its label inside, planned by columns.

The effects are those of `fast`, which has one event at a time. A call with any other event, with a
bound that may be reached, or with a label that was not learned before, is left to that.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, repeat

import numpy as np

from stream.data.block import PREDICT_THEN_LEARN
from stream.data.schema import Label
from stream.join.events import Events
from stream.join.join import LabelJoin
from stream.join.plan import Plan, StepColumns

__all__ = ["planned_at_once"]


def planned_at_once(join: LabelJoin, events: Events) -> Plan | None:
    """The plan of all events; None, without any effect, if one of them may not be common.

    Labels are learned: the caller has seen that no breaker is open.
    """
    held, n, ids = join.state, len(events.ids), events.ids
    if not n or not join.common or not _labelled(join, events):
        return None
    times = np.array(events.times, dtype=np.int64)
    if int(times.max()) > held.oldest + join.horizon:
        return None  # ids expire in between
    if len(set(ids)) < n or not all(
        each.isdisjoint(ids)
        for each in (held.settled.keys(), held.waiting.keys(), held.early.keys())
    ):
        return None
    labels: list[Label] = list(events.labels)  # type: ignore[arg-type]  # each was learned before
    size = held.weigh_many(ids)
    if type(labels[0]) is str:
        size += held.weigh_many(labels)  # type: ignore[arg-type]
    if held.total_bytes + size > join.max_bytes:
        return None
    times = np.maximum.accumulate(np.maximum(times, held.time))
    settled: Iterable[tuple[Label, int, int, float, int]] = zip(
        labels, times.tolist(), repeat(-1), events.weights, count(held.learned + 1), strict=False
    )
    gone = held.settle_many(ids, settled, size, join.max_pending)
    held.time, held.learned = int(times[-1]), held.learned + n
    held.label_delays.came_inside(n)
    join.outcomes["joined"] += n
    if gone:
        join.outcomes["forgotten"] += gone
    return Plan(
        origin=events.origin,
        at_once=StepColumns(
            np.full(n, PREDICT_THEN_LEARN, dtype=np.int8),
            np.array(events.row, dtype=np.int64),
            np.full(n, -1, dtype=np.int64),
            labels,
            np.array(events.weights, dtype=np.float64),
        ),
    )


def _labelled(join: LabelJoin, events: Events) -> bool:
    """Whether every event is an observation with a learned label, without dead letters between."""
    known, codes = join.labels.values, join.labels.codes
    if not known or min(events.row) < 0 or (events.dead is not None and any(events.dead)):
        return False
    if set(map(type, events.labels)) != {type(known[0])}:
        return False
    return codes.keys() >= set(events.labels)
