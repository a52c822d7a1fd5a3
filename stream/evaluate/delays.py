"""Delays of labels, offline: a data set as the events that would have come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stream.evaluate.events import Events

__all__ = ["delayed"]


def delayed(
    dataset: Iterable[tuple[Mapping[str, Any], Any]], delay: int, size: int
) -> Iterator[tuple[list[Mapping[str, Any]], Events]]:
    """Blocks of the data set with each label moved `delay` records back."""
    lag = max(delay, 1)
    owed: deque[tuple[str, Any]] = deque()
    xs: list[Mapping[str, Any]] = []
    out: list[tuple[str, int, object, float, int]] = []
    for i, (x, y) in enumerate(dataset):
        if len(owed) == lag:
            out += _label(*owed.popleft(), i)
        out.append((str(i), len(xs), None, 1.0, i))
        xs.append(x)
        owed.append((str(i), y))
        if len(xs) == size:
            yield xs, _events(out)
            xs, out = [], []
    for id_, label in owed:
        out += _label(id_, label, i + 1)
    yield xs, _events(out)


def _label(id_: str, y: object, time: int) -> list[tuple[str, int, object, float, int]]:
    return [] if y is None else [(id_, -1, y, 1.0, time)]


def _events(out: list[tuple[str, int, object, float, int]]) -> Events:
    ids, row, labels, weights, times = zip(*out, strict=True) if out else ((),) * 5
    return Events(ids, row, labels, weights, times)
