"""Streams whose labels come late, and learners that run over them in calls of any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream import Learner, State
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin


def delayed(n: int, delay: int, classes: int = 3) -> tuple[list[dict[str, Any]], Events]:
    """Observations, each with its label `delay` observations later."""
    rng = np.random.default_rng(n + delay)
    xs: list[dict[str, Any]] = []
    for _ in range(n):
        y = int(rng.integers(classes))
        xs.append({"a": float(rng.normal(y)), "c": "xyz"[int(rng.integers(3))]})
    return xs, late(["pqr"[int(x["a"] > 1)] for x in xs], delay)


def late(labels: list[str], delay: int) -> Events:
    """An observation for each label, which comes `delay` observations later, or never."""
    stream: list[tuple[int, str, str | None]] = []  # row or -1, id, label
    for i in range(len(labels)):
        stream.append((i, f"{i}", None))
        if i >= delay:
            stream.append((-1, f"{i - delay}", labels[i - delay]))
    rows, ids, told = (list(column) for column in zip(*stream, strict=True))
    m = len(stream)
    return Events(ids, rows, told, [1.0] * m, list(range(m)))


def run_late(
    model: Learner, xs: list[dict[str, Any]], events: Events, size: int, save: bool
) -> tuple[list[dict[Any, float]], str]:
    """Predictions and state, in calls of `size` events, saved and loaded between if `save`."""
    rows = model.rows(xs)
    machine = Progressive(model, LabelJoin(1000, corrections=True), rows)
    out = []
    for at in range(0, len(events.row), size):
        part = slice(at, at + size)
        given = events.row[part]
        used = np.array([r for r in given if r >= 0], dtype=np.int64)
        place = {row: at for at, row in enumerate(used.tolist())}
        own = [place.get(row, -1) for row in given]
        now = Events(
            events.ids[part], own, events.labels[part], events.weights[part], events.times[part]
        )
        out += machine.process(rows.take(used), now).predictions.dicts()
        if save:
            state = State.from_bytes(machine.to_state().to_bytes())
            machine = Progressive(model.clone(), LabelJoin(1000, corrections=True), rows)
            machine.load_state(state)
    return out, machine.to_state().fingerprint()
