"""A service whose river model knows two classes, and whose labels may have more."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from consumers.config import parse
from consumers.config.learner import ChallengerConfig, ModelConfig
from consumers.shard.models import build, challenging, two_classes_only
from stream import Schema
from tests.consumers.feeds import config_text, fill

LOGISTIC = "river:linear_model.LogisticRegression"
MODEL = f'type = "{LOGISTIC}"\npipeline = ["preprocessing.StandardScaler"]\n'

RECORDS = [({"a": float(i % 3), "b": 0.1 * i}, "pqr"[i % 3]) for i in range(90)]


@pytest.mark.parametrize("trust", [False, True])
def test_third_class_is_predicted_and_repeated_after_a_restart(
    make_service: Callable, trust: bool
) -> None:
    """Stopped in the middle, with and without snapshots."""
    changes = {"features": ("a", "b"), "model": MODEL + f"trust_pickle = {str(trust).lower()}\n"}
    whole, halves = make_service(), make_service()
    for service in (whole, halves):
        fill(service.log, RECORDS, delay=4)
    whole.run(**changes)
    halves.run(stop_after=2, **changes)
    halves.run(**changes)
    values = [r.value for r in whole.records("svc-predictions")]

    assert [r.value for r in halves.records("svc-predictions")] == values
    assert {label for label, _ in json.loads(values[-1])["probabilities"]} == {"p", "q", "r"}
    assert whole.records("svc-dead-letters") == []


def test_two_classes_make_a_single_model() -> None:
    """`max_classes = 2` promises that no third label comes."""
    assert two_classes_only(build(ModelConfig(type=LOGISTIC, max_classes=2))) == []
    assert two_classes_only(build(ModelConfig(type=LOGISTIC))) == ["LogisticRegression"]


def test_experts_follow_the_classes_of_the_model() -> None:
    """In a mixture that would else hold two classes."""
    text = f'type = "Mixture"\nexperts = ["GaussianNB", "{LOGISTIC}"]\n'
    mixture = build(parse(config_text("memory:x", ("a",), model=text)).model)

    assert two_classes_only(mixture) == ["LogisticRegression"]
    assert mixture.max_classes > 2


def test_challenger_holds_the_classes_of_the_model() -> None:
    """Else it would be refused."""
    challenger = ChallengerConfig(name="linear", type=LOGISTIC)
    schema = Schema.of(a="numeric")
    several, two = (challenging(challenger, n, False, schema) for n in (3, 2))

    assert two_classes_only(several) == ["LogisticRegression"]
    assert (two_classes_only(two), two.max_classes) == ([], 2)
