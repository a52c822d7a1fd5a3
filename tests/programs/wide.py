"""Wide records: schemas of 0 … 1,000 fields of each kind, and the rows at the ends of each kind.

`tests.programs.records` has up to 40 features, as a feed may send them. Scratch of a kernel that is
sized by one quantity and filled by another one overflows only beside few of the one and many of
the other: a text of two characters beside 700 numbers. So each kind has its own count here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from random import Random
from typing import Any
from unittest.mock import patch

from stream import Learner
from stream.checks.streams import takeable
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN
from stream.keyed import PerKeyNB
from stream.learner.registry import learners
from tests.programs.learners import FAMILIES, Choice, choice
from tests.programs.records import Step, Stream
from tests.programs.ways import SHORT, differences

__all__ = ["MOST", "WIDE", "counts_of", "row_of", "wide_program"]

MOST = 1000  # fields, as many as are inferred
COUNTS = (0, 0, 1, 1, 2, 3, 7, 8, 9, 16, 17, 63, 64, 65, 129, 300, 700, 1000)
FEW = 12  # fields of a learner that takes the cube of their number
CUBIC = {"gaussian_bayes", "mixed_bayes", "GaussianBayes", "MixedBayes"}
KINDS = frozenset({"numeric", "binary", "categorical", "text"})
LABELS = ("a", "b", "c", "d", "e", "f", "g", "h", "i")

TEXTS = (
    "", " ", "a", "hi", "v i a g r a", "FREE 1,000", "\u200b" * 9, "\ud800", "\0", "\u2028",
    "世界" * 40, "\U0001f600" * 300, "'" * 50, "a\u0301" * 90, "z\u00ad" * 70, "x" * 1000,
    "1 " * 600, "Q1a " * 260, "é" * 501, "٣" * 400, "w " * 40_000,
)  # fmt: skip
WORDS = ("", "a", "red", "é" * 40, "x" * 500, "\0", "\U0010ffff", "7", "true")
NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 5e-324, -5e-324, 1e-160, 1e100, -1e100, 1e15, 2.0**53,
    255.0, 256.0, -32768.0, 65535.5,
)  # fmt: skip


def counts_of(rng: Random, kinds: frozenset[str], most: int = MOST) -> dict[str, int]:
    """How many fields of each kind; at most `most` together."""
    left, counts = most, dict.fromkeys(sorted(kinds), 0)
    for kind in rng.sample(sorted(kinds), len(kinds)):
        counts[kind] = min(rng.choice(COUNTS), left)
        left -= counts[kind]
    return counts


def row_of(rng: Random, counts: Mapping[str, int], signed: bool = True) -> dict[str, Any]:
    """A record with about the share of its fields that it draws: none, few, most or all."""
    share = rng.choice((0.0, 0.1, 0.9, 1.0, 1.0))
    # Long texts in many fields only take time.
    texts = TEXTS if counts.get("text", 0) < 20 else TEXTS[:12]
    x: dict[str, Any] = {}
    draws: dict[str, Callable[[], Any]] = {
        "numeric": lambda: rng.choice(NUMBERS),
        "binary": lambda: rng.random() < 0.5,
        "categorical": lambda: rng.choice((rng.choice(WORDS), f"v{rng.randrange(300)}")),
        "text": lambda: rng.choice(texts),
    }
    for kind, count in counts.items():
        for i in range(count):
            if rng.random() >= share:
                continue
            value = draws[kind]()
            if type(value) is float:
                value = value if signed else abs(value)
                value = rng.choice((value, value, value, nan, None))
            x[f"{kind[0]}{i}"] = value
    return x


def _choice(rng: Random, name: str) -> Choice:
    """A learner of a family, or one with its defaults. Both get what they accept."""
    if name in FAMILIES:
        return choice(rng, name)
    kind = learners()[name]
    return Choice(kind(per="c0") if issubclass(kind, PerKeyNB) else kind(), KINDS)


WIDE = (*FAMILIES, *learners())


def stream_of(rng: Random, chosen: Choice, most: int) -> tuple[Learner, Stream]:
    """The learner, with the names of its texts, and a few wide records."""
    counts = counts_of(rng, chosen.kinds, most)
    learner = chosen.learner
    accepted = takeable(learner)
    if "text" in learner._get_params():
        learner = learner.clone({"text": [f"t{i}" for i in range(counts.get("text", 0))]})
    out = Stream()
    labels = LABELS[: rng.choice((1, 2, 3, 9))]
    for i in range(rng.choice((1, 2, 4, 9))):
        out.xs.append(accepted(row_of(rng, counts, chosen.signed)))
        out.ys.append(rng.choice(labels))
        out.ws.append(rng.choice((1.0, 1.0, 1e-9, 1e6)))
        op = rng.choice((PREDICT_THEN_LEARN, PREDICT_THEN_LEARN, PREDICT, LEARN))
        out.steps.append(Step(op, i))
    return learner, out


def wide_program(name: str, seed: int, most: int = MOST) -> list[str]:
    """A learner of this family or class over wide records: what some way does differently."""
    rng = Random(f"wide {name} {seed}")
    chosen = _choice(rng, name)
    learner, stream = stream_of(rng, chosen, FEW if name in CUBIC else most)
    with patch.multiple("stream.mixture.belief", **SHORT):
        found = differences(learner, stream, seed)
    return [f"{line} (wide {name} {seed}: {' '.join(repr(learner).split())})" for line in found]
