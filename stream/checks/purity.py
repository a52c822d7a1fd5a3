"""Laws of I5: predicting does not change a learner."""

from __future__ import annotations

import copy
from typing import Any

from stream.checks.claims import Law, claim
from stream.checks.streams import delayed, records, run_blocks, run_one_by_one, takeable
from stream.data.block import PREDICT, Block
from stream.learner.base import Learner

__all__ = ["LAWS"]


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
    predicting_changes_nothing,
    asking_twice_gives_the_same_answer,
    predictions_between_learning_leave_no_trace,
    the_callers_record_is_left_alone,
)
