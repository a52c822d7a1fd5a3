"""Laws of I3: a record is applied whole or not at all."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import Any

from stream.checks.claims import Law, claim, refuses
from stream.checks.streams import CLASSES, Records, records
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


LAWS: tuple[Law, ...] = (
    a_bad_value_is_refused_whole,
    a_text_for_a_number_is_applied_whole_or_not_at_all,
    a_bad_label_is_refused_whole,
    a_bad_weight_is_refused_whole,
    a_class_beyond_the_bound_is_refused_whole,
    one_bad_record_leaves_its_block_unlearned,
)
