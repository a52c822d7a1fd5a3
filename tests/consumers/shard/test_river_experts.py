"""A service whose mixture has classifiers of river, from the configuration to the snapshot."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from consumers.base.errors import ConfigError
from consumers.config import parse
from consumers.config.auto import DEFAULTS
from consumers.config.learner import ModelConfig, Trust, accepted_keys, uses_river
from consumers.shard.challengers import ChallengerSet, configured
from consumers.shard.models import build, unused
from stream import RiverClassifier, Schema
from stream.learner.base import Learner
from tests.consumers.feeds import config_text, fill, phishing

MIXED = """type = "Mixture"
experts = [
  "MixedNB",
  "river:naive_bayes.GaussianNB",
  {type = "river:tree.HoeffdingTreeClassifier", grace_period = 20},
]
"""


def of_river(learner: Learner) -> list[RiverClassifier]:
    return [part for part in learner.with_parts() if isinstance(part, RiverClassifier)]


def model(text: str = MIXED, more: str = "") -> ModelConfig:
    return parse(config_text("memory:x", ("a",), model=text + more)).model


def test_experts_have_the_seed_and_the_trust_of_the_model() -> None:
    """A seed of their own goes first."""
    own = MIXED.replace(
        '"river:naive_bayes.GaussianNB"',
        '{type = "river:forest.ARFClassifier", n_models = 2, seed = 3}, "river:tree.SGTClassifier"',
    )
    forest, *rest = of_river(build(model(own, "seed = 7\ntrust_pickle = true\n")))

    assert forest.model.seed == 3
    assert all(part.trust_pickle for part in (forest, *rest))
    again = of_river(build(model(own)))
    assert not any(part.trust_pickle for part in again)


def test_seed_of_the_model_reaches_an_expert_without_one() -> None:
    """As it reaches a river model alone."""
    text = 'type = "Mixture"\nexperts = ["river:forest.ARFClassifier"]\nseed = 7\n'

    assert of_river(build(model(text)))[0].model.seed == 7


def test_calibrated_river_model_is_built() -> None:
    """`learner` names one as `experts` does."""
    text = 'type = "Calibrated"\nlearner = "river:naive_bayes.GaussianNB"\n'

    assert len(of_river(build(model(text)))) == 1
    assert unused(model(text), Schema.of(a="numeric")) is None


def test_keys_of_river_need_a_classifier_of_river() -> None:
    """An expert is one, but transformers stand before the expert and not before the mixture."""
    with pytest.raises(ValidationError, match="trust_pickle is for river models only"):
        ModelConfig(type="Mixture", parameters={"experts": ["MixedNB"]}, trust_pickle=True)
    with pytest.raises(ValidationError, match="pipeline is for river models only"):
        ModelConfig(
            type="Mixture",
            parameters={"experts": ["river:naive_bayes.GaussianNB"]},
            pipeline=("preprocessing.StandardScaler",),
        )
    assert uses_river({"type": "river:naive_bayes.GaussianNB"})
    assert not uses_river({"type": "MixedNB", "parameters": {"priors": {"river:x": 0.5}}})
    block = {"type": "Mixture", "parameters": {"experts": ["river:a.B"]}, "seed": 3, "pipeline": []}
    assert "seed" in accepted_keys(block)
    assert "pipeline" not in accepted_keys(block)


@pytest.mark.parametrize(
    ("expert", "message"),
    [
        ('"river:tree.Hoeffding"', "experts: river has no classifier 'tree.Hoeffding'; nearest: "),
        (
            '{type = "river:tree.HoeffdingTreeClassifier", trust_pickle = true}',
            "trust_pickle is a key of [model], not of an expert; move it there",
        ),
    ],
)
def test_bad_expert_is_refused_by_one_line(expert, message) -> None:
    """That says what to change."""
    with pytest.raises(ConfigError) as caught:
        build(model(f'type = "Mixture"\nexperts = [{expert}]\n'))

    assert str(caught.value).startswith("[model] Mixture: ")
    assert message in str(caught.value)


def test_challenger_with_river_experts_is_journaled_with_its_seed_and_not_its_trust() -> None:
    """And comes back from the journal as it was."""
    more = f'[[challenger]]\nname = "mixed"\nseed = 5\ntrust_pickle = true\n{MIXED}'
    found = configured(parse(config_text("memory:x", ("a",)) + more))
    block = found.challengers["mixed"]

    assert (block["seed"], "trust_pickle" in block, "pipeline" in block) == (5, False, False)
    assert found.pickled() == ["mixed"]
    back = ChallengerSet(found.challengers, found.threshold)

    for trusted in ((), ("mixed",)):
        learner = back.learner(
            "mixed", Trust(frozenset(trusted)), 2, False, Schema.of(a="numeric"), DEFAULTS
        )
        assert [m.trust_pickle for m in of_river(learner)] == [bool(trusted)] * 2


@pytest.mark.parametrize("trust", [False, True])
def test_restart_repeats_and_continues_the_predictions(make_service, trust) -> None:
    """Stopped in the middle, with and without snapshots: each prediction as in one run."""
    changes = {"model": MIXED + f"trust_pickle = {str(trust).lower()}\n"}
    whole, halves = make_service(), make_service()
    for service in (whole, halves):
        fill(service.log, phishing(160))
    whole.run(**changes)
    halves.run(stop_after=2, **changes)
    live = halves.rebuilt(**changes)
    assert bool(live.shard.unsaved) is not trust
    halves.run(**changes)

    assert [r.value for r in halves.records("svc-predictions")] == [
        r.value for r in whole.records("svc-predictions")
    ]
    assert len(whole.records("svc-predictions")) == 160
    assert live.shard.pickled
    assert not live.shard.repeatable
