"""How two identities differ, and that they survive the journal."""

from __future__ import annotations

import json

import pytest

from consumers.config import identity_difference, parse

CONFIG = """
name = "shop"
input = {transport = "memory:x", observations = "orders", labels = "paid"}
model = {type = "GaussianNB", parameters = {priors = {a = 0.25, b = 0.75}}}
features = {price = "numeric"}
"""


@pytest.mark.parametrize(
    "line", ["corrections = true", "max_pending_bytes = 2000000", "max_weight = 9"]
)
def test_bounds_and_corrections_are_in_the_identity(line: str) -> None:
    """With another value it is another model."""
    old, new = parse(CONFIG).identity(), parse(CONFIG + f"\n[labels]\n{line}\n").identity()

    assert [d.split(":")[0] for d in identity_difference(old, new)] == [f"labels.{line.split()[0]}"]


def test_bins_are_in_the_identity() -> None:
    """With bins it is another model."""
    binned = CONFIG.replace('"GaussianNB",', '"CategoricalNB", bins = {strategy = "quantile"},')
    old, new = parse(CONFIG).identity(), parse(binned).identity()

    assert "model.bins" in [d.split(":")[0] for d in identity_difference(old, new)]


def test_texts_for_missing_are_in_the_identity() -> None:
    """The order of the texts says nothing."""
    old = parse(CONFIG).identity()
    new, same = (
        parse(f"{CONFIG}\n[values]\nmissing = {texts}\n").identity()
        for texts in ('["NA", "-999"]', '["-999", "NA", "NA"]')
    )

    kept = parse(f'{CONFIG}\n[values]\non_bad_value = "missing"\n').identity()

    assert kept["values"] == {"missing": None, "on_bad_value": "missing"}
    assert identity_difference(new, same) == []
    assert identity_difference(old, new) == ['values.missing: was not set, now ["-999", "NA"]']


@pytest.mark.parametrize(
    ("key", "off", "on"),
    [
        ("numbers_as_text", "[]", '["price"]'),
        ("tombstones", '"dead_letter"', '"skip"'),
        ("changes", "[]", '["c", "r"]'),
    ],
)
def test_what_is_off_is_not_set(key: str, off: str, on: str) -> None:
    """Written or left out, a key that is off gives one identity; with the key on it is another."""
    old, kept, new = (
        parse(CONFIG.replace('labels = "paid"', f'labels = "paid"{more}')).identity()
        for more in ("", f", {key} = {off}", f", {key} = {on}")
    )

    assert key not in old["input"]
    assert kept == old
    assert identity_difference(old, new) == [f"input.{key}: was not set, now {on}"]


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
