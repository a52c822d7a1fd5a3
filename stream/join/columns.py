"""The events of a call, and the plan of common ones by kernels.

Nearly every event is one whose label was learned before, so that it cannot be rejected, and for
which no correction is due. Such events are planned by kernels, many in one call, with the effects
of `LabelJoin.on_observation` and `on_label`. Every other event is left to these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary
from stream.data.sequences import CodedColumn, TextColumn, taken
from stream.join._kernels import ids as id_kernels
from stream.join._kernels import planning as kernels
from stream.join._kernels.ids import NO_LABEL, OTHER_LABEL
from stream.join._kernels.planning import (
    AFTER_MS,
    BOUNDS,
    CORRECTIONS,
    DELAY_HIGH,
    DELAY_LOW,
    DELAYS,
    HORIZON,
    MAX_BYTES,
    MAX_PENDING,
    OUTCOME,
    ROW_EXTRA,
    SHARE,
    SILENT_CODE,
    UNLABELLED,
)
from stream.join.events import Events
from stream.join.join import EARLY_SHARE, UNBOUNDED, LabelJoin
from stream.join.label_delay import DELAY_BOUNDS_MS
from stream.join.plan import Plan
from stream.join.steps import CompiledSteps

__all__ = ["EventColumns", "EventFeed", "begin", "compile_join", "plan_common"]

FEW = 4  # events that Python plans as fast
# Outcomes by their place in the counts of a call.
OUTCOMES = (
    "joined",
    "early",
    "duplicate",
    "conflicting",
    "late",
    "early_expired",
    "early_evicted",
    "expired",
    "evicted",
    "forgotten",
    "duplicate_observation",
    "silence",
    "silence_ignored",
)
BUCKETS = np.array(DELAY_BOUNDS_MS, dtype=np.int64)


class EventColumns(NamedTuple):
    """Events as columns, for kernels.

    Parameters
    ----------
    data, start
        uint8 and int64 (n + 1,): id k is data[start[k]:start[k + 1]].
    row
        int64: of an observation; -1 for a label.
    code
        int32: of the label; NO_LABEL without one, OTHER_LABEL if it was not learned before.
    weight, time
        float64 and int64.
    size
        int64, one for each row: its bytes without numbers.
    """

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    row: NDArray[np.int64]
    code: NDArray[np.int32]
    weight: NDArray[np.float64]
    time: NDArray[np.int64]
    size: NDArray[np.int64]


class EventFeed:
    """The events of a call, of which each plan takes the next ones.

    Parameters
    ----------
    events
        In order.
    sizes
        Bytes of each row, without its numbers.
    start, stop
        Only events from `start` to before `stop`. Event n, after the last one, stands for the dead
        letters at the end; None: up to that.

    Attributes
    ----------
    at : int
        The next event.
    columns : EventColumns, or None
        The events as columns, once `prepare` has made them.
    """

    def __init__(
        self, events: Events, sizes: Sequence[int], start: int = 0, stop: int | None = None
    ) -> None:
        self.events, self.sizes = events, sizes
        self.at, self.count = start, len(events.ids)
        self.stop = self.count + 1 if stop is None else stop
        self.columns: EventColumns | None = None
        self._known = 0  # labels that have codes in `columns`
        self._told = start - 1  # the last event whose dead letters were counted
        self._dead: NDArray[np.int64] | None = None  # the events after dead letters

    def prepare(self, join: LabelJoin) -> None:
        """Make the columns, with the codes of the labels learned so far."""
        labels = join.labels
        if self.columns is None:
            self.columns = _columns(self.events, self.sizes, labels)
            join.state.table.reserve(self.count - self.at, self.columns.data.size)
        elif self._known < len(labels):
            code = self.columns.code
            unknown = self.at + np.flatnonzero(code[self.at :] == OTHER_LABEL)
            code[unknown] = _codes(taken(self.events.labels, unknown), labels)
        self._known = len(labels)

    def dead(self) -> int:
        """Dead letters directly before the next event, once."""
        if self.events.dead is None or self._told >= self.at:
            return 0
        self._told = self.at
        return self.events.dead[self.at]

    def before_dead(self) -> int:
        """The first event from the next one on that comes after a dead letter; else the end."""
        if self._dead is None:
            dead = () if self.events.dead is None else self.events.dead
            self._dead = np.flatnonzero(np.array(dead, dtype=np.int64))
        at = int(np.searchsorted(self._dead, self.at + (self._told >= self.at)))
        end = min(self.count, self.stop)
        return min(int(self._dead[at]), end) if at < self._dead.size else end


def begin(join: LabelJoin, plan: Plan, feed: EventFeed, fewest: int = FEW) -> None:
    """Let kernels plan common events of this plan, if there are at least `fewest` events."""
    end = min(feed.count, feed.stop)
    if not join.common or end - feed.at < fewest:
        return
    feed.prepare(join)
    others, silence = len(join.state.others), join.silence is not None
    plan.kept = CompiledSteps(join.state.table, end - feed.at, others, silence=silence)


def plan_common(
    join: LabelJoin, plan: Plan, feed: EventFeed, learns: Callable[[int], bool]
) -> None:
    """Plan events up to the first that is not common.

    Parameters
    ----------
    learns
        Called with the number of events that were planned since the last call. Returns whether
        labels may be learned until the next dead letter.
    """
    kept = plan.kept
    if not isinstance(kept, CompiledSteps):
        return
    feed.prepare(join)
    columns = feed.columns
    assert columns is not None  # noqa: S101  it is prepared
    stop = feed.before_dead()
    if stop <= feed.at or not _may_be_common(columns, feed.at) or not learns(0):
        return
    held, first = join.state, kept.steps
    held.table.changed()
    extra = join.bytes_per_class * (1 + len(join.labels))
    bounds = _bounds(join, extra, asked=bool(plan.asked))
    ids, labels = held.table.arrays, held.label_sizes
    end = kernels.plan(ids, columns, kept.arrays, bounds, labels, BUCKETS, feed.at, stop)
    kept.ran(first, len(plan.steps))
    for entry in kept.gone():
        del held.others[entry]
    _count(join, kept.arrays.tally)
    learns(end - feed.at)
    feed.at = end


def compile_join() -> None:
    """Compile the kernels of a join."""
    join, plan = LabelJoin(), Plan()
    join.on_observation(plan, event=0, row=0, id="a", time=0, label="x")
    feed = EventFeed(Events(["b"] * FEW, [0] * FEW, [None] * FEW, [1.0] * FEW, [1] * FEW), [0])
    begin(join, plan, feed)
    plan_common(join, plan, feed, lambda passed: True)
    plan.kept.put(0, row=0, began=True)
    join.load_state(join.to_state())
    join.pass_time(plan, 2 * join.horizon)
    id_kernels.move_ids(join.state.table.arrays, 0, 0)


def _may_be_common(columns: EventColumns, at: int) -> bool:
    code = columns.code[at]
    return bool(code >= 0 or (code == NO_LABEL and columns.row[at] >= 0))


def _bounds(join: LabelJoin, extra: int, *, asked: bool) -> NDArray[np.int64]:
    bounds = np.zeros(BOUNDS, dtype=np.int64)
    bounds[MAX_PENDING] = min(join.max_pending, UNBOUNDED)
    bounds[HORIZON] = min(join.horizon, UNBOUNDED)
    bounds[MAX_BYTES] = min(join.max_bytes, UNBOUNDED)
    bounds[SHARE] = bounds[MAX_BYTES] // EARLY_SHARE
    bounds[ROW_EXTRA], bounds[CORRECTIONS] = extra, join.corrections
    bounds[AFTER_MS], bounds[SILENT_CODE] = -1, OTHER_LABEL
    if join.silence is not None:
        bounds[AFTER_MS], label = min(join.silence.after, UNBOUNDED), join.silence.label
        if not asked and join.state.labels.knows(label):  # else Python says what silence falls on
            bounds[SILENT_CODE] = join.labels.codes[label]
    return bounds


def _count(join: LabelJoin, tally: NDArray[np.int64]) -> None:
    """Add the counts of a run to those of the join, and clear them."""
    counts: list[int] = tally.tolist()
    outcomes, delays = join.outcomes, join.label_delays
    for name, count in zip(OUTCOMES, counts[OUTCOME:DELAYS], strict=True):
        if count:
            outcomes[name] += count
    for bucket, count in enumerate(counts[DELAYS:]):
        delays.delays[bucket] += count
    delays.delay_ms += (counts[DELAY_HIGH] << 32) + counts[DELAY_LOW]
    delays.unlabelled += counts[UNLABELLED]
    tally[DELAY_HIGH:] = 0


def _columns(events: Events, sizes: Sequence[int], labels: Dictionary) -> EventColumns:
    ids = TextColumn.of(events.ids)
    return EventColumns(
        ids.data,
        ids.start,
        np.array(events.row, dtype=np.int64),
        _codes(events.labels, labels),
        np.array(events.weights, dtype=np.float64),
        np.array(events.times, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
    )


class _Codes(dict[Any, int]):
    """Label to code."""

    def __missing__(self, label: object) -> int:
        return OTHER_LABEL


def _codes(labels: Sequence[object], learned: Dictionary) -> NDArray[np.int32]:
    """The code of each label."""
    if isinstance(labels, CodedColumn):
        of_each = np.append(_codes(list(labels.values), learned), np.int32(NO_LABEL))
        return of_each[labels.code]
    kind = type(learned.values[0]) if learned.values else type(None)
    codes = _Codes(learned.codes)
    codes[None] = NO_LABEL
    if set(map(type, labels)) <= {kind, type(None)}:
        return np.fromiter(map(codes.__getitem__, labels), np.int32, len(labels))
    # Labels of other types may be equal to learned ones, as True is to 1, or may not be hashable.
    known = (kind, type(None))
    each = (codes[label] if type(label) in known else OTHER_LABEL for label in labels)
    return np.fromiter(each, np.int32, len(labels))
