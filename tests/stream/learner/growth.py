"""Programs of a sender that wants a learner to grow: many classes, values, tokens, all long."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from stream import (
    BernoulliNB,
    Calibrated,
    CategoricalBayes,
    CategoricalNB,
    ComplementNB,
    DecisionTreeClassifier,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedBayes,
    MixedNB,
    Mixture,
    MultinomialNB,
    PoissonNB,
    Schema,
    SpamScorer,
    TargetEncoded,
)
from stream.join.join import UNBOUNDED, LabelJoin
from stream.preprocessing import Discretized, Discretizer
from tests.stream.join.short_joins import observe, report

NUMBERS = {f"n{i}": "numeric" for i in range(6)}
CATEGORIES = {f"c{i}": "categorical" for i in range(4)}
LETTERS = ["a", "é", "😀"]  # one, two and four bytes a character, in memory


@dataclass(frozen=True)
class Grower:
    """A learner, the fields it is declared, and the bytes it is allowed."""

    make: Callable[[], Learner]
    fields: dict[str, Any]
    max_bytes: int
    counts: bool = False  # whether its numbers are whole, from 0

    @property
    def schema(self) -> Schema:
        return Schema.of(**self.fields)


TEXT = {"t": "text"}
GROWERS = {
    "MixedNB categories": Grower(MixedNB, NUMBERS | CATEGORIES, 4 << 20),
    "MixedNB texts": Grower(lambda: MixedNB(text=["t"]), TEXT | CATEGORIES, 64 << 20),
    "CategoricalNB": Grower(CategoricalNB, CATEGORIES, 2 << 20),
    "CategoricalNB of numbers": Grower(CategoricalNB, NUMBERS, 2 << 20),
    "CategoricalBayes": Grower(CategoricalBayes, CATEGORIES, 2 << 20),
    "MixedBayes": Grower(MixedBayes, NUMBERS | CATEGORIES, 24 << 20),
    "MultinomialNB exact": Grower(lambda: MultinomialNB(vocabulary="exact"), TEXT, 4 << 20),
    "MultinomialNB hashed": Grower(MultinomialNB, TEXT, 40 << 20),
    "ComplementNB": Grower(ComplementNB, TEXT, 40 << 20),
    "BernoulliNB": Grower(BernoulliNB, TEXT, 60 << 20),
    "GaussianNB": Grower(GaussianNB, NUMBERS, 1 << 20),
    "PoissonNB": Grower(PoissonNB, NUMBERS, 1 << 20, counts=True),
    "GaussianBayes": Grower(GaussianBayes, NUMBERS, 1 << 20),
    "Discretized": Grower(
        lambda: Discretized(Discretizer(), CategoricalNB()), NUMBERS | CATEGORIES, 2 << 20
    ),
    "LogisticRegression": Grower(LogisticRegression, NUMBERS | CATEGORIES, 8 << 20),
    "LogisticRegression texts": Grower(
        lambda: LogisticRegression(text=["t"]), TEXT | CATEGORIES, 64 << 20
    ),
    "SpamScorer": Grower(SpamScorer, TEXT | CATEGORIES, 8 << 20),
    "Calibrated": Grower(Calibrated, NUMBERS | CATEGORIES, 24 << 20),
    "Mixture": Grower(Mixture, NUMBERS | CATEGORIES, 48 << 20),
    "TargetEncoded": Grower(
        lambda: TargetEncoded(list(CATEGORIES), "LogisticRegression"),
        NUMBERS | CATEGORIES,
        16 << 20,
    ),
    "DecisionTreeClassifier": Grower(
        lambda: DecisionTreeClassifier(window=500, max_nodes=101), NUMBERS | CATEGORIES, 4 << 20
    ),
    "KNNClassifier": Grower(lambda: KNNClassifier(window=500), NUMBERS | CATEGORIES, 4 << 20),
}


def hostile(grower: Grower, rng: Random, most: int) -> Iterator[dict[str, Any]]:
    """Records whose values are as many, and as long, as they can be."""
    while True:
        letter = rng.choice(LETTERS)
        x: dict[str, Any] = {}
        for name, kind in grower.fields.items():
            own = f"{rng.getrandbits(60)}"
            long = own + letter * rng.choice([0, 1, 30, most])
            if kind == "numeric":
                x[name] = rng.random() * 10 ** rng.randint(-50, 50)
                x[name] = round(x[name]) if grower.counts else x[name]
            elif kind == "categorical":
                x[name] = long[:512] if rng.random() < 0.9 else long
            else:
                x[name] = " ".join(f"{own}{i}" for i in range(rng.randint(1, 60))) + " " + long
        yield x


def program(grower: Grower, seed: int, records: int, classes: int) -> list[tuple[Any, int]]:
    """Records and labels; classes come all along."""
    rng = Random(seed)
    source = hostile(grower, rng, 20_000)
    return [(next(source), rng.randrange(2 + (classes - 2) * i // records)) for i in range(records)]


def limited(grower: Grower) -> tuple[Learner, int]:
    """An empty learner with its bound, and how many classes that has room for."""
    learner = grower.make()
    return learner, learner.limit(grower.max_bytes, grower.schema, 40)


def grown(grower: Grower, seed: int, records: int, block: int = 50) -> tuple[Learner, int]:
    """The learner after so many hostile records, and the bytes that it then takes."""
    rng, (learner, classes) = Random(seed), limited(grower)
    source = hostile(grower, rng, 100_000)
    for x in [next(source) for _ in range(3)]:  # kernels are compiled, modules imported
        grower.make().learn_one(x, 0)
        learner.predict_proba_one(x)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for at in range(0, records, block):
            xs = [next(source) for _ in range(min(block, records - at))]
            ys = [rng.randrange(max(2, classes * (at + block) // records)) for _ in xs]
            learner.learn_many(xs, [min(y, classes - 1) for y in ys])
            learner.predict_proba_many(xs[:2])
            del xs
        return learner, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


PER_ID = 300  # bytes that an id takes in the arrays of the join, with their room to grow
FEW = 150_000  # bytes of the arrays of a join with few ids, and of what a call leaves behind


def grown_join(seed: int, events: int, *, bounded: bool = True) -> tuple[int, int]:
    """The bytes a join takes after so many hostile events, and what it is allowed."""
    _hostile(seed, events, bounded)  # loads its kernels, also the seldom ones: they are not counted
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        join, max_bytes, rows = _hostile(seed, events, bounded)
        taken = tracemalloc.get_traced_memory()[0] - before
        del rows
        held = join.pending + join.early + len(join.state.settled)
        return taken, max_bytes + PER_ID * held + FEW
    finally:
        tracemalloc.stop()


def _hostile(seed: int, events: int, bounded: bool) -> tuple[LabelJoin, int, dict[int, bytes]]:
    """A join after so many events, its bound, and what the store behind would hold, by slot."""
    rng = Random(seed)
    pending, max_bytes = rng.choice([10, 100, 1000]), rng.choice([20_000, 200_000, 1_000_000])
    corrections = rng.random() < 0.3
    join = LabelJoin(pending, 10_000, 50, corrections, max_bytes if bounded else UNBOUNDED)
    rows: dict[int, bytes] = {}
    for at in range(events):
        record = rng.randbytes(rng.choice([10, 1000, 30_000]))
        letter = rng.choice(LETTERS)
        id_ = f"{rng.randrange(events)}" + letter * rng.choice([0, 20, 500])
        label: Any = f"y{rng.randrange(60)}" + rng.choice(LETTERS[:1] * 9 + LETTERS) * 400
        if rng.random() < 0.02:
            label = 7
        size, what = rng.choice([0, 100, 5_000]), rng.random()
        if what < 0.4:
            plan = report(join, id_, label, time=at, origin=lambda _, one=record: one)
        else:
            inside = label if what < 0.6 else None
            plan = observe(join, id_, inside, time=at, size=size)
        if plan.correction is not None:
            join.conflicted(plan.correction)
        changes = plan.changes()
        for slot in changes.freed.tolist():
            rows.pop(slot, None)
        rows.update((slot, bytes(size)) for slot in changes.slot.tolist())
    return join, max_bytes, rows
