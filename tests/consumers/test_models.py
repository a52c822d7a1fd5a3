"""[model] to a learner: what its parameters may be, and the one line about what they may not."""

from __future__ import annotations

from typing import Any

import pytest

from consumers.config.learner import OWN_MODELS, Model
from consumers.errors import ConfigError
from consumers.models import build, family, unused
from stream.schema import KINDS, Schema


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
        build(Model(type=kind, parameters=parameters))

    assert str(caught.value) == f"[model] {kind}: {expected}"


@pytest.mark.parametrize("kind", OWN_MODELS)
def test_defaults_of_every_learner_are_of_their_declared_types(kind: str) -> None:
    """So whatever a learner's page shows as a default may be written down."""
    defaults = {k: v for k, v in family(kind)()._get_params().items() if v is not None}

    assert repr(build(Model(type=kind, parameters=defaults))) == repr(build(Model(type=kind)))


def test_whole_number_is_a_number() -> None:
    """`ridge = 1` in TOML is an integer, and meant."""
    assert build(Model(type="GaussianBayes", parameters={"ridge": 1}))._get_params()["ridge"] == 1


def test_fields_a_learner_does_not_use_are_named_by_kind() -> None:
    """The first ten of a kind; nothing is said where all are used, or of a river model."""
    wide = Schema.of(n="numeric", note="text", **{f"c{i:02}": "categorical" for i in range(12)})
    told = unused(Model(type="GaussianNB"), wide)

    assert told == (
        "GaussianNB does not use note (text), "
        "c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 and 2 more (categorical)"
    )
    assert unused(Model(), Schema.of(**{kind: kind for kind in KINDS})) is None
    assert unused(Model(type="river:dummy.NoChangeClassifier"), wide) is None
