"""Laws of I1: the split of a stream into blocks does not change a bit of predictions or state."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream.checks.streams import Law, claim, delayed, records, run_blocks, run_one_by_one
from stream.data.block import Block, Rows
from stream.learner.base import Learner

__all__ = ["LAWS"]


def any_split_gives_the_same_bits(learner: Learner) -> None:
    """One block, blocks of random sizes, some of them empty, blocks of one step."""
    data = records(learner)
    steps = delayed(len(data))
    whole = learner.clone()
    predicted = run_blocks(whole, data, steps, [])
    state = whole.fingerprint()
    rng = np.random.default_rng(1)
    random_cuts = [rng.integers(len(steps), size=k).tolist() for k in (1, 3, 10, 40)]
    for cuts in [*random_cuts, list(range(1, len(steps)))]:
        other = learner.clone()
        claim(
            run_blocks(other, data, steps, cuts) == predicted,
            f"{len(cuts)} cuts: predictions differ from those of one block",
        )
        claim(
            other.fingerprint() == state, f"{len(cuts)} cuts: state differs from that of one block"
        )


def a_block_equals_one_record_calls(learner: Learner) -> None:
    """progressive_many equals predict_proba_one and learn_one, bit for bit."""
    data = records(learner, seed=2)
    steps = delayed(len(data), seed=2)
    block, single = learner.clone(), learner.clone()
    claim(
        run_blocks(block, data, steps, []) == run_one_by_one(single, data, steps),
        "predictions of a block differ from those of one-record calls",
    )
    claim(
        block.fingerprint() == single.fingerprint(),
        "state after a block differs from that after one-record calls",
    )


def learn_many_equals_learn_one(learner: Learner) -> None:
    """learn_many is learn_one of each in turn, weights included; so are the predictions."""
    data = records(learner, seed=3)
    many, single = learner.clone(), learner.clone()
    many.learn_many(data.xs, data.ys, data.ws)
    for x, y, w in zip(data.xs, data.ys, data.ws, strict=True):
        single.learn_one(x, y, w)
    claim(many.fingerprint() == single.fingerprint(), "learn_many differs from learn_one's loop")
    claim(
        many.predict_proba_many(data.xs) == [single.predict_proba_one(x) for x in data.xs],
        "predict_proba_many differs from predict_proba_one",
    )
    asked: list[dict[Any, Any]] = [*data.xs]
    claim(
        many.predict_many(asked) == [single.predict_one(x) for x in asked],
        "predict_many differs from predict_one",
    )


def an_array_equals_its_records(learner: Learner) -> None:
    """An array is learned and predicted as its rows, and is neither changed nor kept."""
    data = records(learner, seed=8)
    names = ("a", "b", "Late")
    memory = np.array([[x.get(name) for name in names] for x in data.xs], dtype=np.float64)
    kept = memory.copy()
    xs = [{str(j): v for j, v in enumerate(row)} for row in memory.tolist()]
    many, single = learner.clone(), learner.clone()
    many.learn_many(memory, np.array(data.ys))
    for x, y in zip(xs, data.ys, strict=True):
        single.learn_one(x, y)
    state = many.fingerprint()
    claim(state == single.fingerprint(), "learn_many of an array differs from learn_one's loop")
    claim(
        many.predict_proba_many(memory).tolist()
        == [list(single.predict_proba_one(x).values()) for x in xs],
        "predict_proba_many of an array differs from predict_proba_one",
    )
    claim(np.array_equal(memory, kept, equal_nan=True), "the array was changed")
    memory[:] = 1.0
    claim(many.fingerprint() == state, "the array was kept")


def the_order_of_features_never_matters(learner: Learner) -> None:
    """A record is a set of features: the order of dicts and columns has no effect."""
    data = records(learner, seed=4)
    rng = np.random.default_rng(4)
    straight, shuffled = learner.clone(), learner.clone()
    for x, y in zip(data.xs, data.ys, strict=True):
        names = list(x)
        rng.shuffle(names)
        mixed = {name: x[name] for name in names}
        claim(
            straight.predict_proba_one(x) == shuffled.predict_proba_one(mixed),
            "the order of a record's features changes the prediction",
        )
        straight.learn_one(x, y)
        shuffled.learn_one(mixed, y)
    claim(
        straight.fingerprint() == shuffled.fingerprint(),
        "the order of a record's features changes the state",
    )


def the_order_of_columns_never_matters(learner: Learner) -> None:
    """Columns in the order of a schema and columns sorted by name give the same bits."""
    data = records(learner, seed=5)
    by_name, backwards = learner.clone(), learner.clone()
    rows = by_name.rows(data.xs)
    predicted = by_name.progressive_many(Block.of(rows, 2, data.ys)).dicts()
    turned = Rows(
        rows.numeric_names[::-1],
        np.ascontiguousarray(rows.numeric[:, ::-1]),
        rows.categorical_names[::-1],
        rows.categorical[:, ::-1].copy(),
        rows.text_names[::-1],
        rows.text[:, ::-1].copy(),
        rows.binary_names,
    )
    claim(
        backwards.progressive_many(Block.of(turned, 2, data.ys)).dicts() == predicted,
        "the order of a block's columns changes predictions",
    )
    claim(
        by_name.fingerprint() == backwards.fingerprint(),
        "the order of a block's columns changes the state",
    )


LAWS: tuple[Law, ...] = (
    any_split_gives_the_same_bits,
    a_block_equals_one_record_calls,
    learn_many_equals_learn_one,
    an_array_equals_its_records,
    the_order_of_features_never_matters,
    the_order_of_columns_never_matters,
)
