"""The events of one call: observations and labels, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.parameters import shown
from stream.data.schema import HEAVIEST
from stream.data.sequences import TextColumn
from stream.errors import SchemaError
from stream.join.reporters import LONGEST_REPORTER

__all__ = ["Events", "Integers", "check"]

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
