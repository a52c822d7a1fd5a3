"""Laws: bad values are rejected, extreme ones do no harm, and predicting changes nothing.

I3: a record is applied whole or not at all. I4: no NaN and no +inf in states or results; missing
values are not evidence. I5: predicting does not change a learner.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from stream.checks.streams import (
    CLASSES,
    Law,
    Records,
    claim,
    delayed,
    number_for,
    records,
    refuses,
    run_blocks,
    run_one_by_one,
    takeable,
)
from stream.data.block import PREDICT, Block
from stream.data.schema import Label
from stream.errors import InvalidRecordError
from stream.learner.base import Learner

__all__ = ["LAWS"]

BAD_VALUES: tuple[Any, ...] = (
    inf,
    -inf,
    1e200,
    -1e101,
    10**400,
    [1.0],
    {"a": 1.0},
    b"1",
    (1, 2),
    1j,
    object(),
)
BAD_LABELS: tuple[Any, ...] = (1, True, 1.0, None, nan, ["first"], b"first")
BAD_WEIGHTS = (0.0, -1.0, nan, inf)


def _learned(learner: Learner) -> tuple[Learner, Records, str]:
    data = records(learner, n=30, seed=6)
    model = learner.clone()
    model.learn_many(data.xs, data.ys)
    return model, data, model.fingerprint()


def a_bad_value_is_refused_whole(learner: Learner) -> None:
    """Its valid features, its label and its new features are not learned either."""
    model, data, before = _learned(learner)
    for bad in BAD_VALUES:
        if learner.numbers == "categorical" and isinstance(bad, tuple):
            continue  # a learner of categories accepts it as a name
        for name in ("a", "never_seen"):
            x = {**data.xs[0], "A0": 1.0, name: bad, "z": 1.0}
            for label in (CLASSES[0], "new"):
                refuses(
                    InvalidRecordError,
                    partial(model.learn_one, x, label),
                    f"expected learn_one to refuse {bad!r}",
                )
            refuses(
                InvalidRecordError,
                partial(model.predict_proba_one, x),
                f"expected predict_proba_one to refuse {bad!r}",
            )
            claim(model.fingerprint() == before, f"the refused value {bad!r} changed the state")


def a_text_for_a_number_is_applied_whole_or_not_at_all(learner: Learner) -> None:
    """A learner may ignore texts, learn them or reject them. If it rejects a text, it does not
    change."""
    model, data, before = _learned(learner)
    try:
        model.learn_one({**data.xs[0], "a": "1e6"}, "new")
    except InvalidRecordError:
        claim(model.fingerprint() == before, "a refused text changed the state")
        return
    claim("new" in model.classes, "a record that was not refused was not learned")


def a_bad_label_is_refused_whole(learner: Learner) -> None:
    """A label that differs in kind from the first one, or an invalid label."""
    model, data, before = _learned(learner)
    for bad in BAD_LABELS:
        refuses(
            InvalidRecordError,
            partial(model.learn_one, {**data.xs[0], "new": 1.0}, bad),
            f"expected the label {bad!r} to be refused",
        )
        claim(model.fingerprint() == before, f"the refused label {bad!r} changed the state")


def a_bad_weight_is_refused_whole(learner: Learner) -> None:
    """A weight is finite and greater than 0."""
    model, data, before = _learned(learner)
    for bad in BAD_WEIGHTS:
        refuses(
            ValueError,
            partial(model.learn_one, {**data.xs[0], "new": 1.0}, "new", bad),
            f"expected the weight {bad!r} to be refused",
        )
        claim(model.fingerprint() == before, f"the refused weight {bad!r} changed the state")


def a_class_beyond_the_bound_is_refused_whole(learner: Learner) -> None:
    """A class beyond the bound is rejected and does not change the state."""
    model, data, before = _learned(learner)
    model._classes.bound = len(model.classes)
    refuses(
        InvalidRecordError,
        partial(model.learn_one, {**data.xs[0], "new": 1.0}, "beyond the bound"),
        "expected one class more than the bound to be refused",
    )
    claim(model.fingerprint() == before, "the refused class changed the state")


def one_bad_record_leaves_its_block_unlearned(learner: Learner) -> None:
    """learn_many learns all records or, on an error, none of them."""
    model, data, before = _learned(learner)
    values, labels = [*data.xs, {"a": inf}], [*data.ys, CLASSES[0]]
    refuses(
        InvalidRecordError,
        partial(model.learn_many, values, labels),
        "expected learn_many to refuse an infinity",
    )
    refuses(
        InvalidRecordError,
        partial(model.learn_many, data.xs, [*data.ys[:-1], 7]),
        "expected learn_many to refuse a label of another kind",
    )
    claim(model.fingerprint() == before, "a refused block changed the state")


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


def predicting_changes_nothing(learner: Learner) -> None:
    """With known and unknown features and labels, before and after learning, for every call."""
    data = records(learner, seed=10)
    unknown: list[dict[str, Any]] = [{"stranger": 1.0, "other": "text"}, {}, {"a": 1.0, "zz": 2}]
    strangers = list(map(takeable(learner), unknown))
    model = learner.clone()
    for learned in (False, True):
        if learned:
            model.learn_many(data.xs, data.ys)
        before = model.fingerprint()
        for x in [*strangers, *data.xs[:20]]:
            model.predict_proba_one(x)
            model.predict_one(dict(x.items()))
        xs = [*data.xs, *strangers]
        model.predict_proba_many(xs)
        labels = [f"never learned {i}" for i in range(len(xs))]
        model.progressive_many(Block.of(model.rows(xs), PREDICT, labels))
        claim(model.fingerprint() == before, "predicting changed the state")


def asking_twice_gives_the_same_answer(learner: Learner) -> None:
    """The same record gets the same bits."""
    data = records(learner, seed=11)
    model = learner.clone()
    model.learn_many(data.xs, data.ys)
    for x in data.xs:
        claim(
            model.predict_proba_one(x) == model.predict_proba_one(x),
            "a second prediction differs from the first",
        )


def predictions_between_learning_leave_no_trace(learner: Learner) -> None:
    """Learning a stream gives the same state with and without predictions."""
    data = records(learner, seed=12)
    steps = delayed(len(data), seed=12)
    asked, block, silent = learner.clone(), learner.clone(), learner.clone()
    run_one_by_one(asked, data, steps)
    run_blocks(block, data, steps, [])
    for op, row in steps:
        if op != PREDICT:
            silent.learn_one(data.xs[row], data.ys[row], data.ws[row])
    claim(asked.fingerprint() == silent.fingerprint(), "predictions left a trace in the state")
    claim(block.fingerprint() == silent.fingerprint(), "a block's predictions left a trace")


def the_callers_record_is_left_alone(learner: Learner) -> None:
    """Neither learning nor predicting changes the record."""
    data = records(learner, n=20, seed=13)
    model = learner.clone()
    for x, y in zip(data.xs, data.ys, strict=True):
        before = repr(x)
        model.predict_proba_one(x)
        model.learn_one(x, y)
        claim(repr(x) == before, "a record was changed")
    frozen = copy.deepcopy(model)
    model.learn_many(data.xs, data.ys)
    claim(frozen.fingerprint() != model.fingerprint(), "a copy of a learner shares its state")


LAWS: tuple[Law, ...] = (
    a_bad_value_is_refused_whole,
    a_text_for_a_number_is_applied_whole_or_not_at_all,
    a_bad_label_is_refused_whole,
    a_bad_weight_is_refused_whole,
    a_class_beyond_the_bound_is_refused_whole,
    one_bad_record_leaves_its_block_unlearned,
    posteriors_sum_to_one,
    missing_in_any_form_is_no_evidence,
    a_record_without_evidence_gets_an_answer,
    extremes_never_poison,
    extreme_weights_never_poison,
    predicting_changes_nothing,
    asking_twice_gives_the_same_answer,
    predictions_between_learning_leave_no_trace,
    the_callers_record_is_left_alone,
)
