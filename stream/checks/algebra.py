"""Laws of I6: merging and unlearning.

Laws of weights: weight w counts as w records.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isclose
from typing import Any

import numpy as np

from stream.checks.streams import Law, Records, claim, records, refuses
from stream.data.schema import Label
from stream.errors import NotLearnedError, SchemaError, StreamError
from stream.learner.base import Learner

__all__ = ["LAWS"]


def fitted(learner: Learner, data: Records, start: int = 0, stop: int | None = None) -> Learner:
    """A clone that has learned some of the records."""
    model = learner.clone()
    part = slice(start, stop)
    model.learn_many(data.xs[part], data.ys[part], data.ws[part])
    return model


def same_state(one: Learner, other: Learner, what: str) -> None:
    """Equal headers, and arrays equal to 1e-9 of the largest magnitude."""
    a, b = one.to_state(), other.to_state()
    claim(_learned(a.header) == _learned(b.header), f"{what}: another header")
    for name, array in a.arrays.items():
        match = array.shape == b.arrays[name].shape
        scale = float(np.abs(array).max()) if array.size else 0.0
        match = match and np.allclose(array, b.arrays[name], rtol=1e-9, atol=1e-9 * scale)
        claim(match, f"{what}: another {name!r}")


def _learned(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header without `taken`, which only bounds the rounding of merged parts."""
    return {
        name: _learned(value) if isinstance(value, Mapping) else value
        for name, value in header.items()
        if name != "taken"
    }


def same_answers(one: Learner, other: Learner, data: Records, what: str) -> None:
    """Posteriors equal to 1e-6, because sums may differ in the last digits."""
    for x in data.xs:
        p, q = one.predict_proba_one(x), other.predict_proba_one(x)
        claim(_close(p, q), f"{what}: {q} instead of {p}")


def _close(p: dict[Label, float], q: dict[Label, float]) -> bool:
    return list(p) == list(q) and all(
        isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
        for a, b in zip(p.values(), q.values(), strict=True)
    )


def merging_equals_learning_both(learner: Learner) -> None:
    """merge(fit(A), fit(B)) is fit(A + B), with empty parts too. B does not change."""
    data = records(learner, seed=19)
    whole = fitted(learner, data)
    for at in (0, 1, len(data) // 2, len(data)):
        first, second = fitted(learner, data, 0, at), fitted(learner, data, at)
        before = second.fingerprint()
        claim(first.merge(second) is first, "merge returns the learner")
        claim(second.fingerprint() == before, "merging changed the learner that was given")
        if getattr(learner, "half_life", None) is None:  # otherwise units differ
            same_state(whole, first, f"merged at {at}")
        same_answers(whole, first, data, f"merged at {at}")
        first.learn_one(data.xs[0], data.ys[0])
        claim(second.fingerprint() == before, "a merged learner shares its arrays with the other")


def merging_what_does_not_fit_is_refused(learner: Learner) -> None:
    """A merge with another learner or with other kinds of labels is rejected. Nothing is merged."""
    data = records(learner, n=30, seed=20)
    model = fitted(learner, data)
    before = model.fingerprint()
    numbered = learner.clone()
    numbered.learn_many(data.xs, [1] * len(data))
    refuses(StreamError, partial(model.merge, numbered), "expected labels of another kind refused")
    other = learner.clone()
    other.__class__ = type("Foreign", (type(learner),), {})
    refuses(SchemaError, partial(model.merge, other), "expected another learner to be refused")
    claim(model.fingerprint() == before, "a refused merge changed the state")


def merging_with_oneself_is_learning_twice(learner: Learner) -> None:
    """No array is read after it was changed."""
    data = records(learner, n=30, seed=24)
    model, twin = fitted(learner, data), fitted(learner, data)
    model.merge(model)
    twin.merge(fitted(learner, data))
    same_state(twin, model, "merged with itself")


def unlearning_is_the_inverse_of_learning(learner: Learner) -> None:
    """In any order. Classes and features without a record are removed."""
    data = records(learner, n=60, seed=21)
    for at, order in ((0, 1), (25, 1), (25, -1), (59, 1)):
        model = fitted(learner, data)
        for i in list(range(at, len(data)))[::order]:
            model.unlearn_one(data.xs[i], data.ys[i], data.ws[i])
        kept = fitted(learner, data, 0, at)
        what = f"learned {len(data)}, unlearned {len(data) - at}"
        claim(model.classes == kept.classes, f"{what}: classes {model.classes}")
        claim(set(model.features) == set(kept.features), f"{what}: features {model.features}")
        same_answers(kept, model, data, what)


def unlearning_what_was_not_learned_is_refused(learner: Learner) -> None:
    """An unknown label, or more weight than was learned. The model does not change."""
    data = records(learner, n=30, seed=22)
    model = fitted(learner, data)
    before = model.fingerprint()
    for label, w in (("unknown", 1.0), (data.ys[0], 1e6)):
        refuses(
            NotLearnedError,
            partial(model.unlearn_one, data.xs[0], label, w, age=0),
            f"expected unlearning {label!r} with weight {w} to be refused",
        )
    for age in (-1, 0.5, True):
        refuses(
            NotLearnedError,
            partial(model.unlearn_one, data.xs[0], data.ys[0], 1e-3, age=age),  # type: ignore[arg-type]
            f"expected an age of {age!r} to be refused",
        )
    claim(model.fingerprint() == before, "a refused unlearning changed the state")


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


LAWS: tuple[Law, ...] = (
    weight_two_is_twice,
    weight_one_is_the_default,
    merging_equals_learning_both,
    merging_what_does_not_fit_is_refused,
    merging_with_oneself_is_learning_twice,
    unlearning_is_the_inverse_of_learning,
    unlearning_what_was_not_learned_is_refused,
)
