"""Programs of learning, taking back and merging, in any order, over values at the ends of a double.

Each of three learners has an oracle of its own that keeps every record; a merge is the same records
learned in turn. A learner that was merged goes on, and shares nothing with the one it went into.
"""

from __future__ import annotations

from random import Random
from typing import Any

from stream import NotLearnedError, NotSupportedError
from tests.programs.against import Compared, ask, pair
from tests.programs.exact import Oracle
from tests.programs.ways import infinite

__all__ = ["FAMILIES", "merged"]

FAMILIES = ("gaussian", "covariance", "mixed", "categorical")
OPERATIONS = 24
# Pools of values: one a feature, or several in turn.
POOLS: tuple[tuple[float, ...], ...] = (
    (0.0, 1.0, -1.0, 2.0),
    (0.0, 1e-170, 2e-170, -1e-170),
    (0.0, 5e-324, 1e-160),
    (1e100, -1e100, 0.0),
    (1e9, 1e9 + 1.0, -1e9),
    (2.0**-200, 2.0**-199, 0.0),
)


def merged(family: str, seed: int) -> Compared:
    """One random program of a family."""
    rng, out, start = Random(f"{family} merged {seed}"), Compared(), f"{family} {seed}"
    while family == "covariance" and not _known(pair(Random(start), family)[1]):
        start += "+"
    pairs = [pair(Random(start), family) for _ in range(3)]
    name = f"{family} {seed}: {' '.join(repr(pairs[0][0]).split())}"
    features = [rng.sample(POOLS, rng.randrange(1, 3)) for _ in range(rng.randrange(1, 4))]
    for turn in range(OPERATIONS):
        kind, i = rng.random(), rng.randrange(3)
        if kind < 0.6:
            _learn(*pairs[i], features, rng)
        elif kind < 0.8:
            _take_back(*pairs[i], rng, out, f"{name} at {turn}")
        else:
            _merge(*pairs[i], *pairs[i - 1])
        out.wrong += [f"{line}: {name} at {turn}" for line in infinite(pairs[i][0])]
    for one, known in pairs:
        # The oracle of a covariance does not know the rounding that a far value leaves.
        taken = family == "covariance" and not all(record.counts for record in known.records)
        if not (taken or _faded(known)):
            known.rough = True
            ask(one, known, _record(known, features, rng), out, f"{name} at the end")
    return out


def _known(oracle: Any) -> bool:
    """Whether its oracle knows all: what fades it takes back as if it did not fade.

    And with ridge = 0 a class may be a point, which rounding meets or misses.
    """
    return oracle.half_life is None and oracle.ridge > 0


def _record(oracle: Oracle, features: list[list[tuple[float, ...]]], rng: Random) -> dict[str, Any]:
    """Values of every feature; a category is one of the numbers as text."""
    x: dict[str, Any] = {}
    for k, pools in enumerate(features):
        value = rng.choice(rng.choice(pools))
        x[f"f{k}"], x[f"c{k}"] = value, f"{value}"
    kept = oracle.features(x)
    return {name: value for name, value in x.items() if name in kept}


def _learn(
    learner: Any, oracle: Oracle, features: list[list[tuple[float, ...]]], rng: Random
) -> None:
    y, w = rng.choice("aab"), rng.choice((1.0, 1.0, 2.0, 0.5))
    x = _record(oracle, features, rng)
    learner.learn_one(x, y, w)
    oracle.learn(x, y, w)


def _take_back(learner: Any, oracle: Oracle, rng: Random, out: Compared, where: str) -> None:
    """Any record that is still there."""
    there = [i for i, record in enumerate(oracle.records) if record.counts]
    if not there or _faded(oracle):
        return
    i = rng.choice(there)
    record = oracle.records[i]
    x = {n: v if isinstance(v, str) else float(v) for n, v in record.x.items()}
    age = None if oracle.half_life is None else oracle.learned - record.at
    try:
        learner.unlearn_one(x, record.y, float(record.w), age=age)
    except (NotLearnedError, NotSupportedError) as error:
        out.wrong.append(f"state: {where}: record {i} cannot be taken back: {error}")
        return
    oracle.unlearn(i)


def _merge(learner: Any, oracle: Oracle, other: Any, others: Oracle) -> None:
    """Put other into learner; its oracle learns the same records."""
    before = other.fingerprint()
    learner.merge(other)
    assert other.fingerprint() == before
    for record in others.records:
        x = {n: v if isinstance(v, str) else float(v) for n, v in record.x.items()}
        oracle.learn(x, record.y, float(record.w))
        if not record.counts:
            oracle.unlearn(len(oracle.records) - 1)


def _faded(oracle: Oracle) -> bool:
    """Whether sums hold weights beside which what was taken back leaves rounding."""
    if oracle.half_life is None:
        return False
    ages = [oracle.learned - record.at for record in oracle.records]
    return max(ages, default=0) > 15 * oracle.half_life
