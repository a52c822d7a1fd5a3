"""Every parameter of every learner is checked when it is constructed, in one line that names it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import stream
from stream import Learner, SchemaError
from stream.checks.__main__ import shipped
from stream.data.parameters import flag, names, number, one_of, whole
from stream.decision import BayesDecision
from stream.neighbors.memory import MAX_WINDOW
from stream.preprocessing import Discretizer, MDLDiscretizer

HUGE = 10**400
# What is no number, whatever its range; and what no float can hold.
NO_NUMBER: list[Any] = ["1", "", True, False, [1.0], {"a": 1}, nan, inf, -inf, HUGE, -HUGE, 1j]
NO_WHOLE = [*NO_NUMBER, None, 2.5, 2.0, 0, -1, 10**11, 10**12, np.float64(2.0), np.bool_(True)]
NO_CHOICE: list[Any] = ["", "no such", 1, True, nan, HUGE, ["full"], {"ml": 1}, np.array([1, 2])]
NO_FLAG: list[Any] = ["false", "true", "", 0, 1, None, 0.0, nan, HUGE, [], [True]]
NO_MAPPING: list[Any] = [0, 1, False, True, "", "a", [], [["a", [1]]], (), nan, HUGE]
NO_DOMAINS = [
    *NO_MAPPING,
    *({"c": values} for values in ("xz", b"xz", [], 5, None, ["1", 1], [["x"]], [None], [nan])),
    {"c": [inf]},
    {"c": [HUGE]},
    {"c": [1.0, 1]},
    {1: ["x"]},
]
NO_PRIORS = [
    *NO_MAPPING,
    *({"a": p} for p in ("1", True, None, [1], nan, inf, HUGE, -0.5, 1.5)),
    {"a": 0.5},
    {},
]

BAD: dict[str, list[Any]] = {
    "a": [*NO_NUMBER, None, -1.0, 1e200],
    "alpha": [*NO_NUMBER, None, -1.0, 1e101],
    "b": [*NO_NUMBER, None, -1.0, 1e200],
    "binarize": [*NO_NUMBER, None, 1e200],
    "conditional": NO_FLAG,
    "covariance": [*NO_CHOICE, None],
    "distributions": [*NO_MAPPING, *({"a": of} for of in ("no such", 1, None)), {1: "bernoulli"}],
    "domains": NO_DOMAINS,
    "edges": [
        *NO_MAPPING,
        *({"a": e} for e in ([None], [], "12", ["1"], [True], [HUGE], [2, 1])),
        *({"a": e} for e in ([0, inf], [nan], [1, 1.0])),
    ],
    "experts": [
        *NO_MAPPING,
        {"a": 1},
        ["GaussianNB", 1],
        ["no such"],
        "MixedNB",
        [None],
        [{"half_life": 3}],
        [{"type": 1}],
    ],
    "learner": [None, 1, "no such", ["MixedNB"], {"half_life": 3}],
    "fields": ["shop", 5, None, [1], {"a": 1}, True, nan, HUGE, ["a", "a"], ["a\x1fb"]],
    "max_categories": [*NO_WHOLE, 2**20 + 1],
    "grace_period": [*NO_WHOLE, MAX_WINDOW + 1],
    "half_life": [*NO_NUMBER, 0, 0.5, -3],
    "l2": [*NO_NUMBER, None, -0.1, 1.1],
    "learning_rate": [*NO_NUMBER, None, 0, -1.0, 101],
    "m": [*NO_NUMBER, -1],
    "max_cells": [*NO_WHOLE, 2**25],
    "max_depth": [*NO_WHOLE, 65],
    "max_nodes": [*NO_WHOLE, 2**20 + 1],
    "max_tokens": NO_WHOLE,
    "metric": [*NO_CHOICE, None],
    "missing": [*NO_CHOICE, None],
    "n_bins": [*(bad for bad in NO_WHOLE if bad is not None), 1, 65],
    "n_neighbors": [*NO_WHOLE, 1001],
    "norm": NO_FLAG,
    "pairs": NO_FLAG,
    "rest": NO_FLAG,
    "stack": NO_FLAG,
    "hedge": NO_FLAG,
    "p": [
        *[bad for bad in NO_NUMBER if bad is not inf],
        -1,
        *({"a": of} for of in ({}, {"x": 0.5}, {"x": True}, {"x": -1, "y": 2}, {None: 1}, [1])),
        {1: {"x": 1}},
    ],
    "per": ["", 5, None, [1], {"a": 1}, True, nan, HUGE],
    "strength": [bad for bad in [*NO_NUMBER, -1.0, 1e200] if bad is not None],
    "max_keys": NO_WHOLE,
    "keys_on_disk": NO_FLAG,
    "priors": NO_PRIORS,
    "ridge": [*NO_NUMBER, None, -1e-9],
    "scale": NO_CHOICE,
    "shrinkage": [*NO_NUMBER, None, -0.1, 1.1],
    "smooth": [*NO_CHOICE, None],
    "start": [*NO_CHOICE, None],
    "strategy": [*NO_CHOICE, None],
    "text": ["body", 5, None, [1], {"a": 1}, True, nan, HUGE],
    "token_alpha": [bad for bad in [*NO_NUMBER, -1.0] if bad is not None],
    "thin": [*[bad for bad in NO_WHOLE if bad not in (10**11, 10**12)], 1],
    "var_smoothing": [*NO_NUMBER, None, -1e-9],
    "variance": [*NO_CHOICE, None],
    "vocabulary": [*NO_CHOICE, None],
    "weights": [*NO_CHOICE, None],
    "window": [*NO_WHOLE, MAX_WINDOW + 1],
}
KINDS = [*(type(learner) for learner in shipped()), Discretizer, MDLDiscretizer]


def cases() -> Iterator[Any]:
    """Each learner, each of its parameters."""
    for kind in KINDS:
        for name in signature(kind).parameters:
            yield pytest.param(kind, name, id=f"{kind.__name__}-{name}")


@pytest.mark.parametrize(("kind", "name"), list(cases()))
def test_bad_value_of_a_parameter_is_refused_by_its_name(kind, name) -> None:
    """Text, truth values for numbers, None, out of range, not finite, beyond every float."""
    estimates = name == "p" and "m" in signature(kind).parameters
    for bad in BAD[name]:
        given = {name: bad, "m": 1.0} if estimates else {name: bad}
        told = refusal(kind, given)
        assert told.startswith(name), (bad, told)
        assert "\n" not in told
        assert len(told) < 200


def refusal(kind, given: dict[str, Any]) -> str:
    """What it says of parameters that it cannot use."""
    try:
        kind(**given)
    except SchemaError as error:
        return str(error)
    pytest.fail(f"{kind.__name__} takes {given}")


SCALARS: list[dict[str, Any]] = [
    {"kind": "GaussianNB", "var_smoothing": np.float32(0.5), "half_life": np.int64(20)},
    {"kind": "GaussianBayes", "ridge": np.float32(0.5), "shrinkage": np.float64(0.25)},
    {"kind": "CategoricalNB", "m": np.int64(2), "p": np.float32(0.5)},
    {"kind": "CategoricalNB", "domains": {"a": [np.int64(1), np.float64(2.5)]}},
    {"kind": "CategoricalBayes", "alpha": np.int8(1), "max_cells": np.int64(9)},
    {"kind": "BernoulliNB", "binarize": np.float16(0.5), "priors": {"p": np.float32(1.0)}},
    {"kind": "MultinomialNB", "vocabulary": np.str_("exact"), "max_tokens": np.uint8(3)},
    {"kind": "ComplementNB", "norm": np.bool_(True)},
    {"kind": "MixedBayes", "conditional": np.bool_(True), "thin": np.int64(3)},
    {"kind": "KNNClassifier", "n_neighbors": np.int32(2), "window": np.int64(9), "p": np.int64(2)},
]


@pytest.mark.parametrize("given", SCALARS, ids=lambda given: str(given["kind"]))
def test_scalars_of_numpy_are_the_numbers_they_are(given) -> None:
    """The same learner, state and all, as with Python's own."""
    kind = getattr(stream, given["kind"])
    scalars = {name: value for name, value in given.items() if name != "kind"}
    plain = {name: _plain(value) for name, value in scalars.items()}
    one, other = kind(**scalars), kind(**plain)
    for model in (one, other):
        model.learn_many([{"a": 1}, {"a": 2}], ["p", "p"])

    assert one.to_state() == other.to_state()
    assert other.load_state(one.to_state()).predict_one({"a": 1}) == "p"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.item()


def test_every_parameter_of_a_learner_is_in_the_table() -> None:
    """A new parameter needs bad values here."""
    known = {name for kind in KINDS for name in signature(kind).parameters}

    assert known == set(BAD)


def test_a_parameter_is_stored_as_pythons_own() -> None:
    """So that equal learners have equal states: alpha = 1 is alpha = 1.0."""
    one, other = stream.MultinomialNB(alpha=1), stream.MultinomialNB(alpha=1.0)

    assert one.fingerprint() == other.fingerprint()
    assert type(stream.KNNClassifier(window=np.int64(9)).window) is int


@pytest.mark.parametrize("losses", [0, "a", [["a"]], {"a": [1, 2]}, {"a": 1}, {"a": None}, {}])
def test_losses_of_another_shape_are_refused_in_one_line(losses) -> None:
    """A mapping of mappings is expected."""
    with pytest.raises(SchemaError, match="losses") as caught:
        BayesDecision(losses)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [*NO_NUMBER, 1e200])
def test_loss_that_is_no_number_is_refused_by_its_name(bad) -> None:
    """Of an action and of rejecting."""
    with pytest.raises(SchemaError, match=r"losses\['a'\]\['b'\] must be a number"):
        BayesDecision({"a": {"b": bad}})
    with pytest.raises(SchemaError, match="reject_loss must be a number"):
        BayesDecision(reject_loss=bad)


def test_largest_window_holds_as_many_attributes_as_its_documentation_says() -> None:
    """None is left out silently for the window's size: a larger one is refused."""
    model: Learner = stream.KNNClassifier(window=MAX_WINDOW)
    model.learn_one({f"f{i:02}": 1.0 for i in range(33)}, "a")

    assert len(model.features) == 32
    assert model.overflows["features"] == 1
    with pytest.raises(SchemaError, match=f"window must be a whole number from 1 to {MAX_WINDOW}"):
        stream.KNNClassifier(window=MAX_WINDOW + 1)


def test_neighbors_are_at_most_the_window() -> None:
    """The error names both."""
    with pytest.raises(SchemaError, match="n_neighbors must be at most window = 3, got 5"):
        stream.KNNClassifier(window=3)


def test_domains_are_the_same_to_every_learner_of_categories() -> None:
    """A list of values is taken by all, and a text is a list to none."""
    for kind in (stream.CategoricalNB, stream.CategoricalBayes, stream.MixedNB, stream.MixedBayes):
        kind(domains={"c": ["x", "z", ("a", 1)]})
        kind(domains={})
        with pytest.raises(SchemaError, match=r"domains\['c'\] must be a list .* got 'xz'"):
            kind(domains={"c": "xz"})
        with pytest.raises(SchemaError, match="'1' and 1 are the same value"):
            kind(domains={"c": ["1", 1]})


def test_message_of_a_number_says_the_range_and_what_came() -> None:
    """In the same words for every parameter."""
    for call, says in (
        (lambda: number("a", "x"), "a must be a number within ±1e100, got 'x'"),
        (lambda: number("a", 0, 0, above=True), "a must be a number greater than 0 and at most"),
        (lambda: number("a", 2, 0, 1), "a must be a number from 0 to 1, got 2"),
        (lambda: whole("a", True, 1, 9), "a must be a whole number from 1 to 9, got True"),
        (lambda: flag("a", 1), "a must be true or false, got 1"),
        (lambda: one_of("a", "c", (None, "b")), "a must be one of None, \"b\", got 'c'"),
        (lambda: names("a", "b"), "a must be a list of names, got 'b'; write \\['b'\\]"),
        (
            lambda: number("a", 10**5000),
            "a must be a number .*, got a number too long to print",
        ),
    ):
        with pytest.raises(SchemaError, match=says):
            call()
