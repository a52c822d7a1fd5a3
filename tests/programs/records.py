"""Ragged records: features that come, go and return, with values of every size.

A stream of dicts as a real feed may send them and no table holds them: up to 40 features, each of
one kind, each with its own life (it comes late, goes, and returns), and its own kind of values:
zeros, equal values, tiny, huge and negative ones, gaps as None, NaN or an absent key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from math import nan
from random import Random
from typing import Any

from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN

__all__ = ["NUMBERS", "Step", "Stream", "Width", "stream_of"]

LABELS: tuple[tuple[Hashable, ...], ...] = (
    ("a", "b", "c", "d", "e", "f"),
    (3, -1, 2**40, 0, 7, 8),
    (True, False),
)
WORDS = ("rain", "sun", "wind", "snow", "fog", "hail", "a", "7", "é")
WIDTHS = (1, 2, 3, 7, 8, 9, 12, 16, 17, 25, 40)

Draw = Callable[[Random, int], Any]
Width = tuple[int, int]  # fewest and most features


def _near(rng: Random, c: int, scale: float, at: float = 0.0) -> float:
    return at + scale * (rng.gauss(0.0, 1.0) + 0.8 * c)


# How a feature draws its value for a record of class c.
NUMBERS: dict[str, Draw] = {
    "normal": lambda rng, c: _near(rng, c, 1.0),
    "far": lambda rng, c: _near(rng, c, 3.0, 1e6),
    "small": lambda rng, c: _near(rng, c, 1e-9),
    "large": lambda rng, c: _near(rng, c, 1e12),
    "counts": lambda rng, c: rng.randrange(4 + c),
    "zeros": lambda rng, c: 0.0 if c == 0 or rng.random() < 0.7 else float(rng.randrange(-2, 3)),
    "equal": lambda rng, c: 0.1 * (c % 2),
    "constant": lambda rng, c: -2.5,
    "truths": lambda rng, c: rng.random() < 0.3 + 0.2 * (c % 2),
    "negative": lambda rng, c: -abs(_near(rng, c, 10.0)),
}
EXTREMES: dict[str, Draw] = {
    "tiny": lambda rng, c: _near(rng, c, 1e-170),
    "edge": lambda rng, c: rng.choice((1e100, -1e100, 5e-324, 1e-160, 0.0, -0.0, 1.0)),
    "huge": lambda rng, c: _near(rng, c, 1e98),
}
CATEGORIES: dict[str, Draw] = {
    "few": lambda rng, c: rng.choice("xyz"[: 2 + c % 2]),
    "many": lambda rng, c: f"v{rng.randrange(6 * (c + 1))}",
    "same": lambda rng, c: "same",
}
# To a learner of nothing but categories, whatever comes is one.
ANY: dict[str, Draw] = {
    **CATEGORIES,
    "numbers": lambda rng, c: rng.choice((3, 3.0, "3", 2, 2.5)),
    "flags": lambda rng, c: rng.random() < 0.5,
}
TEXTS: dict[str, Draw] = {
    "words": lambda rng, c: " ".join(rng.choice(WORDS[c % 3 :]) for _ in range(rng.randrange(6))),
}


@dataclass(frozen=True, slots=True)
class Step:
    """`op` on record number `row`."""

    op: int
    row: int


@dataclass(slots=True)
class Stream:
    """Records with labels and weights, and the steps over them in order."""

    xs: list[dict[Any, Any]] = field(default_factory=list)
    ys: list[Hashable] = field(default_factory=list)
    ws: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Feature:
    """A name, how values are drawn, and when it is there."""

    name: Any
    draw: Draw
    spells: tuple[tuple[int, int], ...]
    density: float

    def there(self, rng: Random, i: int) -> bool:
        return any(a <= i < b for a, b in self.spells) and rng.random() < self.density


def stream_of(
    rng: Random,
    kinds: frozenset[str],
    *,
    most: int = 120,
    width: Width = (0, 40),
    signed: bool = True,
    extremes: bool = True,
    numbers: dict[str, Draw] | None = None,
    texts: tuple[str, ...] = (),
) -> Stream:
    """A random stream.

    Parameters
    ----------
    kinds
        Of "numeric", "categorical" and "text": what features may be.
    most
        Records at most.
    width
        Fewest and most features.
    signed
        Whether a number may be below 0.
    extremes
        Whether values may come that leave no digits to compare with.
    numbers
        How numbers may be drawn, if not in every way.
    texts
        The names that texts must have.
    """
    n = rng.choice((1, 2, 5, 20, 40, 70, most))
    features = _features(rng, kinds, n, width, extremes, numbers, texts)
    labels = list(rng.choice(LABELS))[: rng.randrange(1, 7)]
    weigh = rng.choice((_one, _one, _few, _any))
    out = Stream()
    for i in range(n):
        late = 1 + len(labels) * min(i + 1, n // 2 + 1) // (n // 2 + 1)
        c = rng.randrange(min(late, len(labels)))
        x: dict[Any, Any] = {}
        for feature in features:
            if feature.there(rng, i):
                value = feature.draw(rng, c)
                x[feature.name] = value if signed or isinstance(value, str) else abs(value)
            elif rng.random() < 0.1:
                x[feature.name] = rng.choice((None, nan)) if feature.name not in texts else None
        if rng.random() < 0.2:
            shuffled = list(x.items())
            rng.shuffle(shuffled)
            x = dict(shuffled)
        out.xs.append(x)
        out.ys.append(labels[c])
        out.ws.append(weigh(rng))
    out.steps = _steps(rng, n)
    return out


def _features(
    rng: Random,
    kinds: frozenset[str],
    n: int,
    width: Width,
    extremes: bool,
    numbers: dict[str, Draw] | None,
    texts: tuple[str, ...],
) -> list[Feature]:
    ways = list((numbers or NUMBERS).values())
    some = [*ways, *EXTREMES.values()] if extremes and rng.random() < 0.3 else ways
    if rng.random() < 0.3:  # plain numbers, to see what the others hide
        some = ways[:1]
    usual = [k for k in WIDTHS if width[0] <= k <= width[1]] or [width[1]]
    count = rng.choice((*usual, rng.randint(*width)))
    out = []
    for k in range(count):
        kind = rng.choice(sorted(kinds))
        name: Any = rng.choice((f"f{k}", f"{k}", k, f"Z{k}", f"é{k}"))
        if kind == "text":
            if k >= len(texts):
                continue
            name, draw = texts[k], TEXTS["words"]
        elif kind == "categorical":
            draw = rng.choice(list((CATEGORIES if "numeric" in kinds else ANY).values()))
            name = f"c{k}"
        else:
            draw = rng.choice(some)
        out.append(Feature(name, draw, _spells(rng, n), rng.choice((0.1, 0.35, 0.8, 0.95, 1.0))))
    return out


def _spells(rng: Random, n: int) -> tuple[tuple[int, int], ...]:
    """From where to where a feature is there: always, from some record on, or coming and going."""
    kind = rng.random()
    if kind < 0.4:
        return ((0, n),)
    if kind < 0.6:
        return ((rng.randrange(n), n),)
    cuts = sorted(rng.randrange(n + 1) for _ in range(rng.choice((2, 2, 4))))
    return tuple(zip(cuts[::2], cuts[1::2], strict=True))


def _one(rng: Random) -> float:
    return 1.0


def _few(rng: Random) -> float:
    return rng.choice((1, 2.0, 0.5, 3))


def _any(rng: Random) -> float:
    return float(10.0 ** rng.uniform(-3, 4))


def _steps(rng: Random, n: int) -> list[Step]:
    """Each record predicted and learned at once, or learned later, or only one of both."""
    due: list[tuple[int, int, int, Step]] = []
    for i in range(n):
        kind = rng.random()
        if kind < 0.5:
            due.append((i, 0, i, Step(PREDICT_THEN_LEARN, i)))
        elif kind < 0.8:
            due.append((i, 0, i, Step(PREDICT, i)))
            due.append((i + rng.randrange(20), 1, i, Step(LEARN, i)))
        else:
            due.append((i, 0, i, Step(rng.choice((PREDICT, LEARN)), i)))
    return [step for *_, step in sorted(due, key=lambda each: each[:3])]
