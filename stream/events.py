"""What a call of the machine is given: observations and labels in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

__all__ = ["Event", "Events", "one_by_one"]

# Its number (-1: none, only what follows), its id, the row of an observation (-1: it is a label),
# label and weight, stream time, and how many records before it were dead letters.
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
        The label of a label, or the one inside an observation; None where there is none.
    weights
        Weight of the label.
    times
        Stream time in milliseconds.
    dead
        How many records were dead letters before each event, since the one before it, and after
        the last; None: nobody counts them.
    origin
        The record of an event as bytes. Of a label that comes before its observation they are kept
        with it, and given back should it not fit then. None: nothing is kept.
    """

    ids: Sequence[str]
    row: Sequence[int]
    labels: Sequence[object]
    weights: Sequence[float]
    times: Sequence[int]
    dead: Sequence[int] | None = None
    origin: Callable[[int], bytes] | None = None


def one_by_one(events: Events) -> Iterator[Event]:
    """Each event; behind them one of number -1, which tells of the dead letters at the end."""
    n = len(events.ids)
    dead = events.dead or [0] * (n + 1)
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
