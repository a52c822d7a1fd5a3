"""One program whose labels come late, run in every way that must make no difference (I1, I2).

Labels come some records later, at once or never; some are sent again as another label, perhaps of a
class that no record had. What learners noted at the prediction waits with the row. Calls of one
event, of all, and of random sizes with the whole machine saved and loaded between: each prediction
and the state at the end are compared to the last bit.
"""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

from stream import Learner, State
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from tests.programs.learners import choice
from tests.programs.records import Stream, stream_of
from tests.programs.ways import SHORT

__all__ = ["FAMILIES", "late_program"]

FAMILIES = ("mixture", "calibrated", "logistic", "mixed", "knn", "target_encoded")
WAYS: dict[str, tuple[tuple[int, ...], float]] = {  # sizes of calls, how often saved between
    "ones": ((1,), 0.0),
    "cuts": ((1, 2, 7, 30), 0.0),
    "saved": ((1, 5, 30), 0.3),
}

Said = list[list[tuple[Any, float]]]


def late_program(family: str, seed: int) -> list[str]:
    """A random learner over random records with late labels: what some way does differently."""
    rng = Random(f"late {family} {seed}")
    chosen = choice(rng, family)
    stream = stream_of(
        rng, chosen.kinds, width=chosen.width, signed=chosen.signed, texts=chosen.texts
    )
    events, room = _events(stream, rng), rng.choice((1000, 20))
    with patch.multiple("stream.mixture.belief", **SHORT):
        found = _differences(chosen.learner, stream, events, room, rng)
    name = " ".join(repr(chosen.learner).split())
    return [f"late {line} ({family} {seed}: {name})" for line in found]


def _differences(
    model: Learner, stream: Stream, events: Events, room: int, rng: Random
) -> list[str]:
    """What some way does differently from one call."""
    said, kept = _run(model, stream, events, room, (len(events.row),), 0.0, rng)
    found = []
    for way, (sizes, saves) in WAYS.items():
        other, after = _run(model, stream, events, room, sizes, saves, rng)
        odd = sum(a != b for a, b in zip(said, other, strict=True))
        if odd:
            found.append(f"values: {way}: {odd} of {len(said)} predictions differ")
        if after != kept:
            found.append(f"state: {way}: another state")
    return found


def _events(stream: Stream, rng: Random) -> Events:
    """Observations in order; labels after 0 to 40 of them or never; some corrected later."""
    due: list[tuple[float, int, int, Any]] = []
    kind = type(stream.ys[0])
    new = {str: "new", int: 77, bool: True}[kind]
    for i, y in enumerate(stream.ys):
        due.append((i, 0, i, None))
        if rng.random() < 0.1:
            continue
        at = i + rng.choice((0.0, 0.5, 7.5, rng.randrange(40)))
        due.append((at, 1, i, y))
        if rng.random() < 0.2:
            due.append((at + rng.randrange(30), 2, i, rng.choice((*stream.ys, new))))
    due.sort(key=lambda each: each[:3])
    rows = [i if what == 0 else -1 for _, what, i, _ in due]
    weights = [1.0 if what == 0 else stream.ws[i] for _, what, i, _ in due]
    ids, labels = [f"{i}" for _, _, i, _ in due], [label for *_, label in due]
    return Events(ids, rows, labels, weights, list(range(len(due))))


def _run(
    model: Learner,
    stream: Stream,
    events: Events,
    room: int,
    sizes: tuple[int, ...],
    saves: float,
    rng: Random,
) -> tuple[Said, str]:
    """Predictions, and the fingerprint of the whole machine at the end."""
    rows = model.clone().rows(stream.xs)

    def machine() -> Progressive:
        return Progressive(model.clone(), LabelJoin(room, corrections=True), rows)

    said: Said = []
    runs, at = machine(), 0
    while at < len(events.row):
        part = slice(at, at + rng.choice(sizes))
        given = events.row[part]
        used = [row for row in given if row >= 0]
        place = {row: k for k, row in enumerate(used)}
        now = Events(
            events.ids[part],
            [place.get(row, -1) for row in given],
            events.labels[part],
            events.weights[part],
            events.times[part],
        )
        out = runs.process(rows.take(np.array(used, dtype=np.int64)), now)
        said += [list(one.items()) for one in out.predictions.dicts()]
        if rng.random() < saves:
            state = State.from_bytes(runs.to_state().to_bytes())
            runs = machine()
            runs.load_state(state)
        at = part.stop
    return said, runs.to_state().fingerprint()
