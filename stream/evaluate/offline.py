"""Offline: turn a data set into the events of a stream, with each label at its time.

Rule: the order is that of river's `simulate_qa`: labels that are due come before the next record.
Here this also holds if the times of the data set go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from stream.data.parameters import number, shown
from stream.data.schema import HEAVIEST
from stream.errors import SchemaError
from stream.evaluate.quality import QualityView
from stream.evaluate.result import Timed, Verification
from stream.join.events import Events
from stream.learner.base import Predictions

__all__ = ["Checkpoint", "Chunk", "Delay", "Moment", "Record", "chunks", "timed"]

Features = Mapping[str, Any]
Record = tuple[Features, Any] | tuple[Features, Any, Mapping[str, float]]
Moment = str | Callable[[Features], Any] | None
Delay = Any  # a number, a timedelta, the name of a field, or a function of features and label

_Line = tuple[str, int, object, float, int]  # the columns of `Events`


@dataclass(frozen=True, slots=True)
class Checkpoint(QualityView):
    """The scores after `n` records.

    Parameters
    ----------
    n
        Records predicted so far. Records whose label has not yet come are not in the scores.
    predictions
        The predictions since the previous checkpoint, in order.
    verification
        At the last checkpoint with `verify`: the comparison with river's own loop.
    """

    n: int
    predictions: Predictions
    verification: Verification | None = None


class Chunk(NamedTuple):
    """A part of the data set in stream order.

    Parameters
    ----------
    xs
        Features of the records to predict.
    events
        Observations and labels in order.
    n
        Records predicted up to its end.
    waiting
        The largest number of records that wait for a label at once.
    checkpoint
        Whether a checkpoint follows it.
    """

    xs: list[Features]
    events: Events
    n: int
    waiting: int
    checkpoint: bool


def chunks(
    dataset: Iterable[Record], moment: Moment, delay: Delay, size: int, step: int | None
) -> Iterator[Chunk]:
    """The data set in parts of at most `size` records, with a cut at each multiple of `step`.

    Parameters
    ----------
    dataset, moment, delay, step
        See `progressive`.
    """
    owed: list[tuple[Any, int, object, float]] = []  # time, number of the record, label, weight
    xs: list[Features] = []
    out: list[_Line] = []
    n = unlabelled = most = 0
    for _, x, y, w, now, wait in timed(dataset, moment, delay):
        try:
            while owed and owed[0][0] <= now:
                out.append(_label(heappop(owed), n))
            if y is not None:
                heappush(owed, (_due(now, wait, n), n, y, w))
        except TypeError:
            raise SchemaError(
                f"record {n}: cannot compare its moment {shown(now)} with earlier ones"
            ) from None
        out.append((str(n), len(xs), None, 1.0, n))
        xs.append(x)
        if y is None:
            unlabelled += 1
        n += 1
        most = max(most, len(owed) + unlabelled)
        due = step is not None and n % step == 0
        if due or len(xs) == size:
            yield Chunk(xs, _events(out), n, most + size, due or step is None)
            xs, out = [], []
    out += [_label(heappop(owed), n) for _ in range(len(owed))]
    yield Chunk(xs, _events(out), n, most + size, checkpoint=True)


def timed(dataset: Iterable[Record], moment: Moment, delay: Delay) -> Iterator[Timed]:
    """The records of a data set with their times, without the fields that hold the times."""
    when, waits = _when(moment), _wait(delay)
    try:
        records = iter(dataset)
    except TypeError:
        raise SchemaError(f"expected records of features and label, got {shown(dataset)}") from None
    hidden = {name for name in (moment, delay) if isinstance(name, str)}
    for n, record in enumerate(records):
        x, y, w = _read(record, n)
        now = _asked(when, n, x)
        wait = None if y is None else _waited(waits, x, y, n)
        shown_x = {k: v for k, v in x.items() if k not in hidden} if hidden else x
        yield Timed(n, shown_x, y, w, now, wait)


def _read(record: Any, n: int) -> tuple[Features, Any, float]:
    """Features, label and weight of a record."""
    known = isinstance(record, tuple | list) and len(record) in (2, 3)
    x, y, more = (*record, {})[:3] if known else (None, None, None)
    if not isinstance(x, Mapping) or not isinstance(more, Mapping):
        raise SchemaError(
            f'record {n}: expected features, label and optionally {{"w": weight}}, got '
            f"{shown(record)}"
        )
    return x, y, number("w", more.get("w", 1.0), 0.0, HEAVIEST, above=True)


def _asked(when: Callable[[int, Features], Any], n: int, x: Features) -> Any:
    """The time of a record."""
    try:
        now = when(n, x)
    except KeyError as error:
        raise SchemaError(
            f"record {n}: it has no field {error}, which `moment` refers to"
        ) from None
    if not _there(now):
        raise SchemaError(f"record {n}: a moment must not be missing, got {shown(now)}")
    return now


def _waited(waits: Callable[[Features, Any], Any], x: Features, y: Any, n: int) -> Any:
    """The delay of the label of a record."""
    try:
        return waits(x, y)
    except KeyError as error:
        why = f"record {n}: it has no field {error}, which `delay` refers to"
        raise SchemaError(why) from None


def _due(now: Any, delay: Any, n: int) -> Any:
    """The time at which the label of a record arrives."""
    try:
        at_once = isinstance(delay, int | float | np.number) and delay == 0
        due = now if at_once else now + delay  # also if moments are not numbers
    except (TypeError, ValueError):
        raise SchemaError(
            f"record {n}: expected a delay that can be added to the moment {shown(now)}, such as a "
            f"number to a number or a timedelta to a datetime, got {shown(delay)}"
        ) from None
    if not _there(due):
        raise SchemaError(f"record {n}: a delay must not be missing, got {shown(delay)}")
    return due


def _there(moment: Any) -> bool:
    """Whether a moment is present, not missing such as NaN."""
    return getattr(moment, "ndim", 0) == 0 and bool(moment == moment)


def _when(moment: Moment) -> Callable[[int, Features], Any]:
    if moment is None:
        return lambda i, _: i
    if isinstance(moment, str):
        return lambda _, x: x[moment]
    if not callable(moment):
        raise SchemaError(f"moment must be a field or a function, got {shown(moment)}")
    return lambda _, x: moment(x)


def _wait(delay: Delay) -> Callable[[Features, Any], Any]:
    if isinstance(delay, str):
        return lambda x, _: x[delay]
    if callable(delay):
        return lambda x, y: delay(x, y)
    return lambda _, __: 0 if delay is None else delay


def _label(due: tuple[Any, int, object, float], n: int) -> _Line:
    _, record, y, w = due
    return str(record), -1, y, w, n


def _events(out: list[_Line]) -> Events:
    ids, row, labels, weights, times = zip(*out, strict=True) if out else ((),) * 5
    return Events(ids, row, labels, weights, times)
