"""The events of a call as columns, for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Dictionary
from stream.data.sequences import CodedColumn, TextColumn, taken
from stream.join._kernels.ids import NO_LABEL, OTHER_LABEL
from stream.join.events import Events
from stream.join.state import JoinState

__all__ = ["EventColumns", "EventFeed"]


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

    Attributes
    ----------
    at : int
        The next event.
    stop : int
        Plans take events before this one. Event n, after the last one, stands for the dead letters
        at the end.
    """

    def __init__(self, events: Events, sizes: Sequence[int]) -> None:
        self.events, self.sizes = events, sizes
        self.at, self.count = 0, len(events.ids)
        self.stop = self.count + 1
        self._columns: EventColumns | None = None
        self._known = 0  # labels that have codes in `_columns`
        self._told = -1  # the last event whose dead letters were counted
        self._dead: NDArray[np.int64] | None = None  # the events after dead letters

    def columns(self, state: JoinState) -> EventColumns:
        """The columns, with the codes of the labels learned so far. There is room for the ids."""
        labels = state.labels.learned
        if self._columns is None:
            self._columns = _columns(self.events, self.sizes, labels)
            state.table.reserve(self.count - self.at, self._columns.data.size)
        elif self._known < len(labels):
            code = self._columns.code
            unknown = self.at + np.flatnonzero(code[self.at :] == OTHER_LABEL)
            code[unknown] = _codes(taken(self.events.labels, unknown), labels)
        self._known = len(labels)
        return self._columns

    def dead(self) -> int:
        """Dead letters directly before the next event, once."""
        if self.events.dead is None or self._told >= self.at:
            return 0
        self._told = self.at
        return self.events.dead[self.at]

    def before_dead(self) -> int:
        """The first event from the next one on that comes after a dead letter; else the end."""
        end = min(self.count, self.stop)
        if self.events.dead is None:
            return end
        if self._dead is None:
            self._dead = np.flatnonzero(np.array(self.events.dead, dtype=np.int64))
        at = int(np.searchsorted(self._dead, self.at + (self._told >= self.at)))
        return min(int(self._dead[at]), end) if at < self._dead.size else end


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
