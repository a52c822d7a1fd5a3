"""Laws of I4: no NaN and no +inf in states or results; missing values are not evidence."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, nan
from typing import Any

import numpy as np

from stream.checks.claims import Law, claim
from stream.checks.streams import CLASSES, delayed, number_for, records, run_blocks, takeable
from stream.data.schema import Label
from stream.learner.base import Learner

__all__ = ["LAWS"]

LARGE, DENORMAL = 1e100, 5e-324
EXTREMES: dict[str, list[float]] = {
    "constant": [7.0],
    "zeros": [0.0],
    "largest": [LARGE],
    "alternating signs": [LARGE, -LARGE],
    "denormals": [DENORMAL, 0.0, 3 * DENORMAL],
    "all magnitudes": [LARGE, DENORMAL, -1.0, 1e-160, -LARGE, 1e50, 0.0],
    "large and almost equal": [1e16, 1e16 + 2.0, 1e16 + 4.0],
}
EXTREME_WEIGHTS = (DENORMAL, 1e-300, 1e16, 1e150, 1e308)


def _finite_state(learner: Learner, after: str) -> None:
    for name, array in learner.to_state().arrays.items():
        if array.dtype.kind == "f":
            bad = np.isnan(array) | (array == np.inf)
            claim(not bool(bad.any()), f"NaN or +inf in {name!r} after {after}")


def _distribution(p: dict[Label, float], after: str) -> None:
    values = list(p.values())
    claim(all(isfinite(v) and 0.0 <= v <= 1.0 for v in values), f"{p} is no posterior, {after}")
    claim(not values or abs(sum(values) - 1.0) < 1e-9, f"{p} does not sum to 1, {after}")


def _cycles(learner: Learner) -> Iterator[tuple[str, list[float]]]:
    near = number_for(learner)
    for name, values in EXTREMES.items():
        yield name, list(map(near, values))


def posteriors_sum_to_one(learner: Learner) -> None:
    """Each posterior is a distribution over the classes known by then; empty before the first."""
    data = records(learner, seed=7)
    model = learner.clone()
    claim(model.predict_proba_one(data.xs[0]) == {}, "a posterior before anything was learned")
    for p in run_blocks(model, data, delayed(len(data), seed=7), []):
        _distribution(p, "on an ordinary stream")


def missing_in_any_form_is_no_evidence(learner: Learner) -> None:
    """Absent, None and NaN are equivalent, in learning and in predicting."""
    data = records(learner, seed=8)
    forms: tuple[Any, ...] = (None, nan, np.float32("nan"))
    models = [learner.clone() for _ in range(1 + len(forms))]
    for i, (x, y) in enumerate(zip(data.xs, data.ys, strict=True)):
        gone = ("a", "b", "Late", "count")[i % 4]
        bare = {k: v for k, v in x.items() if k != gone}
        variants = [bare, *({**bare, gone: form} for form in forms)]
        predicted = [m.predict_proba_one(v) for m, v in zip(models, variants, strict=True)]
        claim(
            predicted.count(predicted[0]) == len(predicted),
            "absent, None and NaN give other predictions",
        )
        for model, variant in zip(models, variants, strict=True):
            model.learn_one(variant, y)
    states = {model.fingerprint() for model in models}
    claim(len(states) == 1, "absent, None and NaN give other states")


def a_record_without_evidence_gets_an_answer(learner: Learner) -> None:
    """No feature, only gaps, only unknown features: still a distribution."""
    data = records(learner, n=30, seed=9)
    model, taken = learner.clone(), takeable(learner)
    model.learn_many(data.xs, data.ys)
    for x in ({}, {"a": None, "b": nan}, {"stranger": 3.0, "other": "text"}):
        _distribution(model.predict_proba_one(taken(x)), f"on {x}")


def extremes_never_poison(learner: Learner) -> None:
    """Largest, denormal, constant and alternating values, alone and with ordinary ones."""
    taken = takeable(learner)
    for name, values in _cycles(learner):
        model = learner.clone()
        for i in range(24):
            x = {"a": values[i % len(values)], "b": values[(i // 3) % len(values)], "c": i % 5}
            _distribution(model.predict_proba_one(x), f"before learning, {name}")
            model.learn_one(x, CLASSES[i % 3 if i > 6 else 0])
            _finite_state(model, name)
            for probe in ({"a": 0.5, "b": LARGE}, {"a": LARGE, "c": DENORMAL}):
                _distribution(model.predict_proba_one(taken(probe)), f"off the data, {name}")


def extreme_weights_never_poison(learner: Learner) -> None:
    """A weight that the state cannot represent is rejected with an error."""
    for w in EXTREME_WEIGHTS:
        for name, values in _cycles(learner):
            model = learner.clone()
            for i in range(8):
                x = {"a": values[i % len(values)], "b": float(i)}
                try:
                    model.learn_one(x, CLASSES[i % 2], w if i % 3 else 1.0)
                except ValueError:
                    continue
                _finite_state(model, f"weight {w}, {name}")
                _distribution(model.predict_proba_one(x), f"weight {w}, {name}")


LAWS: tuple[Law, ...] = (
    posteriors_sum_to_one,
    missing_in_any_form_is_no_evidence,
    a_record_without_evidence_gets_an_answer,
    extremes_never_poison,
    extreme_weights_never_poison,
)
