"""States that an earlier release saved load into today's learners, and go on as they did.

`states/` holds one state a learner, of 50 records of `stream.checks.streams`, and the posteriors
of ten more records as that release gave them. A new release adds files and never changes these.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream
from stream import CategoricalNB, Learner, MixedNB, State, StateError

STATES = Path(__file__).parent / "states"
POSTERIORS = json.loads((STATES / "posteriors.json").read_text())


def at_first(name: str) -> Learner:
    """The learner with the defaults of the first release."""
    kind = getattr(stream, name)
    model: Learner = kind(**kind.first_defaults)
    return model


@pytest.mark.parametrize("name", sorted(POSTERIORS))
def test_a_state_of_an_earlier_release_answers_as_it_did(name) -> None:
    """Every learner that was shipped, with the defaults it had then, to 1e-9."""
    model = at_first(name)
    model.load_state(State.from_bytes((STATES / f"{name}.npz").read_bytes()))

    for asked in POSTERIORS[name]:
        assert model.predict_proba_one(asked["x"]) == pytest.approx(asked["p"], rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    "name", ["CategoricalBayes", "CategoricalNB", "MixedBayes", "MixedNB", "MultinomialNB"]
)
def test_parameters_that_were_added_leave_such_a_state_as_it_is(name) -> None:
    """Saved again, it has the same header: a parameter that means "as before" is left out."""
    state = State.from_bytes((STATES / f"{name}.npz").read_bytes())
    model = at_first(name).load_state(state)

    assert model.to_state().header["parameters"] == state.header["parameters"]


@pytest.mark.parametrize(
    ("saved", "loading"),
    [
        (MixedNB(m=2), MixedNB()),
        (MixedNB(), MixedNB(m=2)),
        (MixedNB(m=2), MixedNB(m=3)),
        (MixedNB(smooth="zeros"), MixedNB()),
        (MixedNB(m=1, p=0.5), MixedNB(m=1)),
        (CategoricalNB(m=1, p={"a": {"x": 1}}), CategoricalNB(m=1, p={"a": {"y": 1}})),
    ],
)
def test_a_state_of_another_value_of_an_added_parameter_is_refused(saved, loading) -> None:
    """Left out means "as before", and nothing else."""
    with pytest.raises(StateError, match="expected the state of a"):
        loading.load_state(saved.to_state())
