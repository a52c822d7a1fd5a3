"""[model] to a learner: what its parameters may be, and the one line about what they may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from consumers.base.errors import ConfigError
from consumers.config import parse
from consumers.config.auto import DEFAULTS, learner_type
from consumers.config.learner import ChallengerConfig, ModelConfig, model_types
from consumers.shard.challengers import challenger_block
from consumers.shard.models import build, check_able, check_fields, unused
from stream.data.schema import KINDS, Schema
from stream.keyed import PerKeyNB
from stream.preprocessing import Discretized

CORRECTING = parse(
    "name = 'x'\nlabels = {corrections = true}\n"
    "[input]\ntransport = 'memory:x'\nobservations = 'obs'"
)


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("MixedBayes", {"conditional": "true"}, "conditional: expected true or false, got 'true'"),
        ("MixedBayes", {"conditional": 1}, "conditional: expected true or false, got 1"),
        ("GaussianBayes", {"ridge": "big"}, "ridge: expected a number, got 'big'"),
        ("GaussianNB", {"half_life": True}, "half_life: expected a number, got true"),
        ("KNNClassifier", {"window": 5.5}, "window: expected a whole number, got 5.5"),
        ("KNNClassifier", {"scale": "rnge"}, "scale: expected 'range' or 'std', got 'rnge'"),
        ("GaussianNB", {"priors": {"a": "x"}}, "priors a: expected a number, got 'x'"),
        ("GaussianNB", {"priors": [0.5, 0.5]}, "priors: expected a table, got a list"),
        ("MixedNB", {"text": "body"}, "text: expected a list, got 'body'"),
        ("MixedNB", {"text": ["body", 3]}, "text 1: expected text, got 3"),
    ],
)
def test_parameter_of_another_type_is_one_line_with_its_name(
    kind: str, parameters: dict[str, Any], expected: str
) -> None:
    """What a learner would take for something else, or fail at in words of its own."""
    with pytest.raises(ConfigError) as caught:
        build(ModelConfig(type=kind, parameters=parameters))

    assert str(caught.value) == f"[model] {kind}: {expected}"


@pytest.mark.parametrize("kind", sorted(set(model_types()) - {"auto"}))
def test_defaults_of_every_learner_are_of_their_declared_types(kind: str) -> None:
    """So whatever a learner's page shows as a default may be written down."""
    defaults = {
        k: v for k, v in build(ModelConfig(type=kind))._get_params().items() if v is not None
    }

    assert repr(build(ModelConfig(type=kind, parameters=defaults))) == repr(
        build(ModelConfig(type=kind))
    )


def test_whole_number_is_a_number() -> None:
    """`ridge = 1` in TOML is an integer, and meant."""
    assert (
        build(ModelConfig(type="GaussianBayes", parameters={"ridge": 1}))._get_params()["ridge"]
        == 1
    )


def test_fields_a_learner_does_not_use_are_named_by_kind() -> None:
    """The first ten of a kind; nothing is said where all are used, or of a river model."""
    eleven = unused(
        ModelConfig(type="GaussianNB"), Schema.of(**dict.fromkeys("abcdefghijk", "text"))
    )
    assert eleven == "GaussianNB does not use a, b, c, d, e, f, g, h, i, j and 1 more (text)"
    wide = Schema.of(n="numeric", note="text", **{f"c{i:02}": "categorical" for i in range(12)})
    told = unused(ModelConfig(type="GaussianNB"), wide)

    assert told == (
        "GaussianNB does not use note (text), "
        "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 2 more (categorical)"
    )
    assert unused(ModelConfig(), Schema.of(**{kind: kind for kind in KINDS})) is None
    assert unused(ModelConfig(type="river:dummy.NoChangeClassifier"), wide) is None


BINNED: list[dict[str, Any]] = [
    {},
    {"strategy": "mdl", "n_bins": 4},
    {"strategy": "quantile", "n_bins": 3},
    {"strategy": "uniform"},
    {"edges": {"price": [10, 20.5]}},
]


@pytest.mark.parametrize("bins", BINNED, ids=str)
@pytest.mark.parametrize("kind", ["CategoricalNB", "CategoricalBayes", "auto", "MixedBayes"])
def test_bins_stand_before_a_learner_of_categories(kind: str, bins: dict[str, Any]) -> None:
    """Of [model] and of a [[challenger]], as configured and as its journaled block says."""
    model = ModelConfig(type=kind, bins=bins)
    learner = build(model)
    learner.learn_many([{"price": float(i)} for i in range(64)], ["ab"[i > 40] for i in range(64)])
    block = challenger_block(ChallengerConfig(name="c", type=kind, bins=bins))
    again = build(ChallengerConfig.model_validate({**json.loads(json.dumps(block)), "name": "c"}))

    assert isinstance(learner, Discretized)
    assert learner.discretizer.cuts("price")
    assert again.fingerprint() == build(model).fingerprint() != learner.fingerprint()


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"type": "GaussianNB", "bins": {}}, "bins need a learner of categories"),
        ({"type": "MultinomialNB", "bins": {}}, "bins need a learner of categories"),
    ],
)
def test_bins_before_a_learner_of_numbers_are_refused(model, expected: str) -> None:
    """In one line that says what to do."""
    with pytest.raises(ConfigError, match=expected) as caught:
        build(ModelConfig(**model))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bins", "expected"),
    [
        ({"n_bins": 1}, "n_bins must be a whole number from 2 to 64, got 1"),
        ({"edges": {"a": [2, 1]}}, "must rise"),
        ({"edges": {"a": [2]}, "n_bins": 3}, "n_bins is for learned bins"),
        ({"edges": {"a": [2]}, "strategy": "mdl"}, "strategy is for learned bins"),
        ({"strategy": "kmeans"}, "strategy"),
        ({"width": 3}, "width"),
    ],
)
def test_bins_that_cannot_be_made_are_refused(bins: dict[str, Any], expected: str) -> None:
    """When the file is read."""
    with pytest.raises(ValidationError, match=expected):
        ModelConfig(type="CategoricalNB", bins=bins)


def test_bins_before_a_river_model_are_refused() -> None:
    """River has transformers of its own."""
    with pytest.raises(ValidationError, match="pipeline"):
        ModelConfig(type="river:naive_bayes.BernoulliNB", bins={})


def test_edges_of_a_field_that_is_no_number_are_refused() -> None:
    """By the schema, declared or inferred."""
    schema = Schema.of(price="numeric", colour="categorical")
    model = ModelConfig(type="CategoricalNB", bins={"edges": {"colour": [1.0]}})

    check_fields(ModelConfig(type="CategoricalNB", bins={"edges": {"price": [1.0]}}), schema)
    check_fields(ModelConfig(type="CategoricalNB"), schema)
    with pytest.raises(ConfigError, match="'colour' is not a numeric field"):
        check_fields(model, schema)


def test_distributions_are_refused_where_they_name_no_number() -> None:
    """A truth value is counted, and with bins every number is a category."""
    schema = Schema.of(visits="numeric", seen="binary", colour="categorical")
    visits, seen = (
        ModelConfig(type="MixedNB", distributions={name: "bernoulli"})
        for name in ("visits", "seen")
    )
    binned = ModelConfig(type="MixedNB", distributions={"visits": "bernoulli"}, bins={})

    check_fields(visits, schema)
    with pytest.raises(ConfigError, match=r"'seen' is not a numeric field .* ones are visits"):
        check_fields(seen, schema)
    with pytest.raises(ConfigError, match="remove bins or distributions"):
        check_fields(binned, schema)
    with pytest.raises(ConfigError, match=r'distributions.* must be one of "bernoulli".*normall'):
        build(ModelConfig(type="MixedNB", distributions={"visits": "normall"}))


def test_per_is_a_model_for_each_key() -> None:
    """With a type that has no keys, and without a field for the key, the error says what to do."""
    schema = Schema.of(tenant="categorical", price="numeric")
    model = ModelConfig(per="tenant", strength=3)

    learner = build(model)
    check_fields(model, schema)

    assert isinstance(learner, PerKeyNB)
    assert (learner.per, learner.strength) == ("tenant", 3)
    assert learner_type(model, DEFAULTS) == "PerKeyNB"
    inside = {"type": "Calibrated", "learner": {"type": "PerKeyNB", "per": "price"}}
    mixture = ModelConfig(type="Mixture", experts=["MixedNB", inside])
    for wrong, hint in (
        (ModelConfig(per="price"), 'PerKeyNB: per: .price. is not .* numeric; .* "categorical"'),
        (ModelConfig(type="PerKeyNB"), "per: .key. is not a categorical .* tenant"),
        (mixture, "per: .price. is not a categorical .* numeric"),
    ):
        with pytest.raises(ConfigError, match=hint):
            check_fields(wrong, schema)
    with pytest.raises(ConfigError, match=r"MixedNB: no parameter .per.; .* type = .PerKeyNB."):
        build(ModelConfig(type="MixedNB", per="tenant"))
    with pytest.raises(ConfigError, match="PerKeyNB cannot unlearn"):
        check_able(CORRECTING, learner)


def test_learned_bins_refuse_corrections_by_name() -> None:
    """A label cannot be taken back from bins that have moved."""
    with pytest.raises(ConfigError, match="CategoricalNB after learned bins cannot unlearn"):
        check_able(CORRECTING, build(ModelConfig(type="CategoricalNB", bins={})))
    fixed = build(ModelConfig(type="CategoricalNB", bins={"edges": {"a": [1.0]}}))
    check_able(CORRECTING, fixed)


def test_p_of_each_value_is_a_table() -> None:
    """As TOML has it: text for keys."""
    p = {"sky": {"sunny": 0.75, "rainy": 0.25}}

    assert build(ModelConfig(type="MixedNB", parameters={"m": 2, "p": p}))._get_params()["p"] == p
