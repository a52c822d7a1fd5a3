"""Laws of weights: weight w counts as w records."""

from __future__ import annotations

import numpy as np

from stream.checks.claims import Law, claim
from stream.checks.streams import records
from stream.learner.base import Learner

__all__ = ["LAWS"]


def weight_two_is_twice(learner: Learner) -> None:
    """The state after w=2 equals that after learning twice, up to rounding."""
    data = records(learner, seed=17)
    heavy, twice = learner.clone(), learner.clone()
    for x, y in zip(data.xs, data.ys, strict=True):
        heavy.learn_one(x, y, w=2.0)
        twice.learn_one(x, y)
        twice.learn_one(x, y)
    one, other = heavy.to_state(), twice.to_state()
    claim(dict(one.header) == dict(other.header), "a weight of 2 gives another header than twice")
    for name, array in one.arrays.items():
        scale = float(np.abs(array).max()) if array.size else 0.0
        claim(
            array.shape == other.arrays[name].shape
            and np.allclose(array, other.arrays[name], rtol=1e-12, atol=1e-12 * scale),
            f"a weight of 2 gives another {name!r} than learning twice",
        )


def weight_one_is_the_default(learner: Learner) -> None:
    """learn_one without a weight equals learn_one with w=1, bit for bit."""
    data = records(learner, seed=18)
    given, default = learner.clone(), learner.clone()
    for x, y in zip(data.xs, data.ys, strict=True):
        given.learn_one(x, y, w=1.0)
        default.learn_one(x, y)
    claim(given.fingerprint() == default.fingerprint(), "w=1 differs from no weight")


LAWS: tuple[Law, ...] = (weight_two_is_twice, weight_one_is_the_default)
