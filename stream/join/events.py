"""The events of one call: observations and labels, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from stream.data.parameters import shown
from stream.data.schema import HEAVIEST
from stream.errors import SchemaError

__all__ = ["Event", "Events", "check", "one_by_one"]

WHOLE = (int, np.integer)
NUMBER = (*WHOLE, float, np.floating)
LATEST = 2**63 - 1  # milliseconds

# Its number (-1: the end), its id, the row of an observation (-1: it is a label), label and weight,
# stream time, and how many records before it were dead letters.
Event = tuple[int, str, int, object, float, int, int]


@dataclass(slots=True)
class Events:
    """Observations and labels in order, for one call.

    Parameters
    ----------
    ids
        One an event.
    row
        Index of the observation's features; -1 for a label.
    labels
        The label, or the one inside an observation; None for an observation without a label.
    weights
        Weight of the label.
    times
        Stream time in milliseconds.
    dead
        How many records were dead letters between the event before and each event, and after the
        last one; None: they are not counted.
    origin
        Gives the record of an event as bytes. They are kept with a label that comes before its
        observation, for its dead letter if it cannot be learned then. None: they are not kept.
    """

    ids: Sequence[str]
    row: Sequence[int]
    labels: Sequence[object]
    weights: Sequence[float]
    times: Sequence[int]
    dead: Sequence[int] | None = None
    origin: Callable[[int], bytes] | None = None


def check(events: Events, rows: int) -> None:
    """Whether these events can be taken, of so many rows; O(events), each column as a whole.

    Raises
    ------
    SchemaError
        Columns that differ in length; an id that is no text, a row that is not there, a time that
        is no whole number, a weight that is no number above 0 or is beyond 2**53.
    """
    try:
        n = len(events.ids)
        lengths = [len(c) for c in (events.row, events.labels, events.weights, events.times)]
        dead = n + 1 if events.dead is None else len(events.dead)
    except TypeError:
        raise SchemaError("the columns of events must be sequences") from None
    if set(lengths) != {n} or dead != n + 1:
        raise SchemaError(f"{n} events need {n} of each column, and {n + 1} of dead")
    _column("an id must be text", events.ids, (str,))
    _column(f"row must be from -1 to {rows - 1}", events.row, WHOLE, -1, rows - 1)
    _column("a time must be a whole number of ms", events.times, WHOLE, -LATEST, LATEST)
    if events.dead is not None:
        _column("dead must be whole numbers", events.dead, WHOLE, 0, LATEST)
    rule = "a weight must be a number above 0 and at most 2**53"
    _column(rule, events.weights, NUMBER, math.ulp(0.0), HEAVIEST)


def _column(rule: str, values: Sequence[Any], kinds: tuple[type, ...], *bounds: float) -> None:
    types = set(map(type, values))
    odd = {each for each in types if each is bool or not issubclass(each, kinds)}
    wrong = [value for value in values if type(value) in odd] if odd else []
    if bounds and not odd:
        least, most = bounds
        # Of whole numbers two do; a NaN among others would hide from them.
        some = {min(values), max(values)} if types and types <= {int} else set(values)
        wrong = [value for value in some if not least <= value <= most]
    if wrong:
        raise SchemaError(f"{rule}, got {shown(wrong[0])}")


def one_by_one(events: Events) -> Iterator[Event]:
    """Each event; behind them one of number -1, which tells of the dead letters at the end."""
    n = len(events.ids)
    dead = [0] * (n + 1) if events.dead is None else events.dead
    every: Iterator[Event] = zip(
        range(n),
        events.ids,
        events.row,
        events.labels,
        events.weights,
        events.times,
        dead,
        strict=False,  # one more number of dead letters than events
    )
    return chain(every, [(-1, "", -1, None, 1.0, 0, dead[n])])
