"""What `auto` is: several learners, or what a journal says, or MixedNB with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from consumers.config.auto import DEFAULTS, FIRST_AUTO, Defaults, auto_of, learner_type, resolved
from consumers.config.bins import BinsConfig
from consumers.config.learner import ModelConfig
from consumers.journal.records import IdentityRecord, decode, defaults_of, encode, mark_of
from consumers.shard.models import build, unused
from stream import Calibrated, Learner, MixedNB, Mixture, Schema
from stream.data.schema import KINDS

OLD = Defaults(auto=FIRST_AUTO)
IDENTITY = IdentityRecord("svc", 0, {"model": {"type": "auto"}}, [("x", "numeric")], [], "born")


def given(part: Learner) -> tuple[str, dict[str, Any]]:
    """Type and parameters, of the learner inside too."""
    if isinstance(part, Calibrated):
        name, parameters = given(part._parts[0])
        return f"Calibrated({name})", {**parameters, "calibration_rate": part.learning_rate}
    return type(part).__name__, part._get_params()


def test_auto_is_a_calibrated_mixture() -> None:
    """Its experts are those of `Mixture`, so that what is measured of one holds for both."""
    learner = build(ModelConfig())

    assert isinstance(learner, Calibrated)
    mixture = learner._parts[0]
    assert isinstance(mixture, Mixture)
    assert mixture.rest
    assert list(mixture.expert_weights) == list(Mixture().expert_weights)
    assert list(map(given, mixture._parts)) == list(map(given, Mixture()._parts))
    assert learner_type(ModelConfig(), DEFAULTS) == "auto"


@pytest.mark.parametrize(
    "changes",
    [{"parameters": {"half_life": 500.0}}, {"bins": BinsConfig()}],
    ids=["parameters", "bins"],
)
def test_auto_with_parameters_or_bins_is_mixed_naive_bayes(changes) -> None:
    """As in every version before."""
    model = ModelConfig(**changes)
    name, parameters = resolved(model, DEFAULTS)

    assert (name, parameters) == ("MixedNB", model.parameters)
    assert learner_type(model, DEFAULTS) == "MixedNB"
    build(model)


def test_auto_of_a_journal_that_does_not_say_it_is_mixed_naive_bayes() -> None:
    """In the learner, and in the name that predictions show."""
    assert IDENTITY.auto is msgspec.UNSET
    assert defaults_of(IDENTITY).auto == FIRST_AUTO
    assert isinstance(build(ModelConfig(), OLD), MixedNB)
    assert learner_type(ModelConfig(), OLD) == "MixedNB"
    assert "auto" not in msgspec.to_builtins(IDENTITY)


@pytest.mark.parametrize("kinds", [KINDS, ("text",), ("numeric",)], ids=str)
def test_auto_of_a_journal_is_the_learner_it_names(kinds) -> None:
    """Whatever a later version prefers: type and all parameters are in the first record."""
    schema = Schema.of(**{f"f{kind}": kind for kind in kinds})
    entry = msgspec.structs.replace(IDENTITY, auto=auto_of(schema))
    read = decode(encode(entry))
    assert isinstance(read, IdentityRecord)
    assert defaults_of(read).auto == auto_of(schema)
    assert mark_of(read) != mark_of(IDENTITY)

    learner = build(ModelConfig(), defaults_of(read))
    assert learner.to_state() == build(ModelConfig(), Defaults(auto=auto_of(schema))).to_state()
    assert unused(ModelConfig(), schema) is None


def test_nearest_neighbours_are_left_out_where_there_is_only_text() -> None:
    """They do not read it, so they would guess."""

    def experts(**fields: Any) -> list[Any]:
        found: Mapping[str, Any] = auto_of(Schema.of(**fields))
        return list(found["learner"]["experts"])

    neighbours = {"type": "Calibrated", "learner": "KNNClassifier"}
    assert neighbours not in experts(body="text")
    assert neighbours in experts(body="text", hops="numeric")
    assert neighbours in experts(color="categorical")
