"""Generated records and steps for the laws: seeded, small, and more difficult than real ones.

They have numbers, texts, gaps, late features and classes, weights, and late labels.

A broken law raises AssertionError with one sentence, even under `python -O`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, Block
from stream.data.schema import Label
from stream.errors import InvalidRecordError
from stream.learner.base import Learner

__all__ = [
    "Law",
    "Records",
    "Step",
    "block_of",
    "claim",
    "delayed",
    "records",
    "refuses",
    "run_blocks",
    "run_one_by_one",
]

WORDS = ("rain", "sun", "wind", "snow", "fog", "hail")
CLASSES = ("first", "second", "third")


@dataclass(frozen=True, slots=True)
class Records:
    """Features, labels and weights of n records."""

    xs: list[dict[str, Any]]
    ys: list[Label]
    ws: list[float]

    def __len__(self) -> int:
        return len(self.xs)


class Step(NamedTuple):
    """`op` on record number `row`."""

    op: int
    row: int


def takes(learner: Learner, value: float) -> bool:
    """Whether it learns this number. A learner of counts rejects negative numbers."""
    try:
        learner.clone().learn_one({"a": value}, CLASSES[0])
    except InvalidRecordError:
        return False
    return True


def number_for(learner: Learner) -> Callable[[float], float]:
    """A function from any number to one that the learner accepts: not negative, or whole."""
    negative, fraction = takes(learner, -1.0), takes(learner, 0.5)

    def near(value: float) -> float:
        value = value if negative else abs(value)
        whole = fraction or isinstance(value, int) or not isfinite(value)
        return value if whole else float(round(value))

    return near


def takeable(learner: Learner) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from any record to one that the learner accepts, without texts that it rejects."""
    near, texts = number_for(learner), learner.strings != "refused"

    def record(x: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in x.items() if texts or not isinstance(v, str)}
        return {k: near(v) if type(v) in (float, int) else v for k, v in kept.items()}

    return record


def records(learner: Learner, n: int = 80, seed: int = 0) -> Records:
    """n records that `learner` accepts.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> from stream.checks.streams import records
    >>> len(records(GaussianNB(), n=10)), records(GaussianNB(), 5) == records(GaussianNB(), 5)
    (10, True)
    """
    rng = np.random.default_rng(seed)
    xs: list[dict[str, Any]] = []
    ys: list[Label] = []
    taken = takeable(learner)
    for i in range(n):
        c = int(rng.integers(3 if i > n // 2 else 2))
        x: dict[str, Any] = {
            "b": float(rng.normal(c, 1.0)),
            "a": float(rng.normal(1e6 - c, 3.0)),
            "count": int(rng.integers(4)),
            "flag": bool(rng.random() < 0.2 + 0.3 * c),
            "words": " ".join(rng.choice(WORDS, size=3).tolist()),
        }
        if i > n // 3:
            x["Late"] = float(rng.normal(-c, 0.1))
        for name in list(x):
            gap = rng.random()
            if gap < 0.05:
                del x[name]
            elif gap < 0.1:
                x[name] = None
            elif gap < 0.15 and name != "words":
                x[name] = nan
        xs.append(taken(x))
        ys.append(CLASSES[c])
    return Records(xs, ys, rng.choice([1.0, 1.0, 2.0, 0.5], size=n).tolist())


def delayed(n: int, seed: int = 0) -> list[Step]:
    """Steps over n records: learned at once, later, never, or without being predicted."""
    rng = np.random.default_rng(seed)
    due: list[tuple[int, int, Step]] = []
    for i in range(n):
        kind = rng.random()
        if kind < 0.4:
            due.append((i, i, Step(PREDICT_THEN_LEARN, i)))
        elif kind < 0.8:
            due.append((i, i, Step(PREDICT, i)))
            due.append((i + int(rng.integers(1, 20)), i, Step(LEARN, i)))
        else:
            due.append((i, i, Step(PREDICT if kind < 0.9 else LEARN, i)))
    return [step for _, _, step in sorted(due)]


def block_of(learner: Learner, data: Records, steps: Sequence[Step]) -> Block:
    """The steps as one block, with rows encoded by the learner."""
    rows = learner.rows([data.xs[step.row] for step in steps])
    labels = [data.ys[step.row] for step in steps]
    block = Block.of(rows, PREDICT, labels, [data.ws[step.row] for step in steps])
    block.op[:] = [step.op for step in steps]
    return block


def run_blocks(
    learner: Learner, data: Records, steps: Sequence[Step], cuts: Sequence[int]
) -> list[dict[Label, float]]:
    """Execute the steps in blocks that end at `cuts`; the posteriors in order."""
    out: list[dict[Label, float]] = []
    edges = [0, *sorted(cuts), len(steps)]
    for start, stop in pairwise(edges):
        block = block_of(learner, data, steps[start:stop])
        out += learner.progressive_many(block).dicts()
    return out


def run_one_by_one(
    learner: Learner, data: Records, steps: Sequence[Step]
) -> list[dict[Label, float]]:
    """Execute the steps by the one-record calls; the posteriors in order."""
    out: list[dict[Label, float]] = []
    for op, row in steps:
        if op != LEARN:
            out.append(learner.predict_proba_one(data.xs[row]))
        if op != PREDICT:
            learner.learn_one(data.xs[row], data.ys[row], data.ws[row])
    return out


Law = Callable[[Learner], None]


def claim(holds: bool, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it holds."""
    if not holds:
        raise AssertionError(sentence)


def refuses(error: type[Exception], call: Callable[[], object], sentence: str) -> None:
    """Raise AssertionError with `sentence` unless `call` raises `error`."""
    try:
        call()
    except error:
        return
    raise AssertionError(sentence)
