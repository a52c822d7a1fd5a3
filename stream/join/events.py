"""The events of one call: observations and labels, in order; and as columns, for kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.parameters import shown
from stream.data.schema import HEAVIEST, Dictionary
from stream.data.sequences import CodedColumn, TextColumn, taken
from stream.errors import SchemaError
from stream.join._kernels.ids import NO_LABEL, OTHER_LABEL
from stream.join.reporters import LONGEST_REPORTER
from stream.join.state import JoinState

__all__ = ["EventColumns", "EventFeed", "Events", "Integers", "check"]

WHOLE = (int, np.integer)
NUMBER = (*WHOLE, float, np.floating)
LATEST = 2**63 - 1  # milliseconds

Integers = Sequence[int] | NDArray[np.int64]


@dataclass(slots=True)
class Events:
    """Observations and labels in order, for one call.

    Parameters
    ----------
    ids
        One for each event, as every column. Columns of numbers may be arrays, ids a `TextColumn`
        and labels a `CodedColumn`.
    row
        Index of the observation's features; -1 for a label.
    labels
        The label, or the one inside an observation; None for an observation without a label.
    weights
        Weight of the label.
    times
        Stream time in milliseconds.
    dead
        The number of dead letters directly before each event, and after the last one. None: not
        counted.
    reporters
        Who gave each label; None: nobody is named.
    origin
        Returns the record of an event as bytes. The bytes are kept with a label that comes before
        its observation, for a dead letter if the label cannot be learned later. None: not kept.
    """

    ids: Sequence[str]
    row: Integers
    labels: Sequence[object]
    weights: Sequence[float] | NDArray[np.float64]
    times: Integers
    dead: Sequence[int] | None = None
    reporters: Sequence[str | None] | None = None
    origin: Callable[[int], bytes] | None = None


def check(events: Events, rows: int) -> None:
    """Check the events, which refer to `rows` rows. O(events), one column at a time.

    Raises
    ------
    SchemaError
        Columns differ in length, an id is not a text, a row does not exist, a time is not a whole
        number, a weight is not a number above 0 and at most 2**53, or a reporter is not a text of 1
        to 256 characters.
    """
    try:
        n = len(events.ids)
        lengths = [len(c) for c in (events.row, events.labels, events.weights, events.times)]
        dead = n + 1 if events.dead is None else len(events.dead)
        reporters = n if events.reporters is None else len(events.reporters)
    except TypeError:
        raise SchemaError("the columns of events must be sequences") from None
    if {*lengths, reporters} != {n} or dead != n + 1:
        raise SchemaError(f"{n} events need {n} values in each column, and {n + 1} in dead")
    if not isinstance(events.ids, TextColumn):
        _column("an id must be text", events.ids, (str,))
    _column(f"row must be from -1 to {rows - 1}", events.row, WHOLE, -1, rows - 1)
    _column("a time must be a whole number of ms", events.times, WHOLE, -LATEST, LATEST)
    if events.dead is not None:
        _column("dead must be whole numbers", events.dead, WHOLE, 0, LATEST)
    for name in events.reporters or ():
        if name is not None and not (type(name) is str and 0 < len(name) <= LONGEST_REPORTER):
            rule = f"a reporter must be text of 1 to {LONGEST_REPORTER} characters"
            raise SchemaError(f"{rule}, got {shown(name)}")
    rule = "a weight must be a number above 0 and at most 2**53"
    _column(rule, events.weights, NUMBER, math.ulp(0.0), HEAVIEST)


def _column(rule: str, values: Any, kinds: tuple[type, ...], *bounds: float) -> None:
    exact = np.int64 if kinds == WHOLE else np.float64
    if bounds and isinstance(values, np.ndarray) and values.dtype == exact and values.ndim == 1:
        least, most = bounds
        outside = values[~((values >= least) & (values <= most))]  # NaN too
        if outside.size:
            raise SchemaError(f"{rule}, got {shown(outside[0].item())}")
        return
    types = set(map(type, values))
    odd = {each for each in types if each is bool or not issubclass(each, kinds)}
    wrong = [value for value in values if type(value) in odd] if odd else []
    if bounds and not odd:
        least, most = bounds
        # For whole numbers, minimum and maximum suffice. A NaN could hide from them.
        some = {min(values), max(values)} if types and types <= {int} else set(values)
        wrong = [value for value in some if not least <= value <= most]
    if wrong:
        raise SchemaError(f"{rule}, got {shown(wrong[0])}")


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
