"""Laws of I2: a learner restored from a state equals the saved learner, bit for bit."""

from __future__ import annotations

from functools import partial

import numpy as np

from stream.checks.streams import Law, claim, delayed, records, refuses, run_blocks
from stream.data.state import State
from stream.errors import StateError
from stream.learner.base import Learner

__all__ = ["LAWS"]


def a_restored_learner_goes_on_bit_for_bit(learner: Learner) -> None:
    """Saved before the first record, early and late. It continues as if it had not been saved."""
    data = records(learner, seed=14)
    steps = delayed(len(data), seed=14)
    for at in (0, 1, len(steps) // 2, len(steps)):
        model = learner.clone()
        run_blocks(model, data, steps[:at], [])
        restored = learner.clone()
        claim(restored.load_state(model.to_state()) is restored, "load_state returns the learner")
        claim(restored.to_state() == model.to_state(), "state changes on its way out and in")
        claim(
            run_blocks(restored, data, steps[at:], []) == run_blocks(model, data, steps[at:], []),
            "a restored learner predicts otherwise",
        )
        claim(restored.fingerprint() == model.fingerprint(), "a restored learner learns otherwise")


def saved_state_is_a_copy(learner: Learner) -> None:
    """Neither the saved nor the restored learner writes to the state afterwards."""
    data = records(learner, seed=15)
    model = learner.clone()
    model.learn_many(data.xs[:40], data.ys[:40])
    unlearns = "unlearning_is_the_inverse_of_learning" not in learner.not_applicable
    if unlearns:
        model.unlearn_one(data.xs[39], data.ys[39])
    state = model.to_state()
    before = state.fingerprint()
    model.learn_many(data.xs[40:], data.ys[40:])
    if unlearns:
        model.unlearn_one(data.xs[-1], data.ys[-1])
    restored = learner.clone().load_state(state)
    restored.learn_many(data.xs[40:], data.ys[40:])
    claim(state.fingerprint() == before, "a learner wrote to a state it had given away")


def damaged_state_is_refused(learner: Learner) -> None:
    """A missing, wrong or too short array raises StateError at once."""
    data = records(learner, n=30, seed=16)
    model = learner.clone()
    model.learn_many(data.xs, data.ys)
    state = model.to_state()
    for name, array in state.arrays.items():
        rest = {k: v for k, v in state.arrays.items() if k != name}
        damaged = {"missing": rest, "of another kind": {**rest, name: array.astype("complex128")}}
        if array.ndim and len(array):
            damaged["too short"] = {**rest, name: np.ascontiguousarray(array[:-1])}
        for how, arrays in damaged.items():
            refuses(
                StateError,
                partial(learner.clone().load_state, State(state.header, arrays)),
                f"expected StateError for the array {name!r} {how}",
            )
    for key in state.header:
        header = {k: v for k, v in state.header.items() if k != key}
        refuses(
            StateError,
            partial(learner.clone().load_state, State(header, state.arrays)),
            f"expected StateError for a header without {key!r}",
        )


def another_learners_state_is_refused(learner: Learner) -> None:
    """load_state rejects the state of another learner and names what it expected."""
    state = learner.clone().to_state()
    foreign = State({**state.header, "learner": "Another"}, state.arrays)
    refuses(
        StateError,
        partial(learner.clone().load_state, foreign),
        "expected another learner's state to be refused",
    )


LAWS: tuple[Law, ...] = (
    a_restored_learner_goes_on_bit_for_bit,
    saved_state_is_a_copy,
    damaged_state_is_refused,
    another_learners_state_is_refused,
)
