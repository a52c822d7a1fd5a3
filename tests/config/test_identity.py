"""How two identities differ, and that they survive the journal."""

from __future__ import annotations

import json

from consumers.config import identity_difference, parse

CONFIG = """
name = "shop"
input = {transport = "memory:x", observations = "orders", labels = "paid"}
model = {type = "GaussianNB", parameters = {priors = {a = 0.25, b = 0.75}}}
features = {price = "numeric"}
"""


def test_identity_equals_itself_after_json() -> None:
    """The journal stores it as JSON."""
    identity = parse(CONFIG).identity()

    assert identity_difference(json.loads(json.dumps(identity)), identity) == []


def test_differences_name_the_dotted_key_with_both_values() -> None:
    """The operator sees what to change back."""
    old = parse(CONFIG).identity()
    new = parse(CONFIG.replace("0.25", "0.5").replace('price = "numeric"', 'kind = "text"'))

    assert identity_difference(old, new.identity()) == [
        'features.kind: was not set, now "text"',
        'features.price: was "numeric", now not set',
        "model.parameters.priors.a: was 0.25, now 0.5",
    ]


def test_integer_and_truth_value_are_different() -> None:
    """1 == True in Python; as a parameter they are two things."""
    assert identity_difference({"a": 1}, {"a": True}) == ["a: was 1, now true"]
