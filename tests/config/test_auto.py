"""What `auto` is: several learners, or what a journal says, or MixedNB with parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import log
from random import Random
from statistics import fmean
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.config.auto import DEFAULTS, OF_PARAMETERS, Defaults, auto_of, learner_type, resolved
from consumers.config.learner import BinsConfig, ModelConfig
from consumers.journal.records import IdentityRecord, decode, defaults_of, encode, mark_of
from consumers.shard.models import build, unused
from stream import Block, Calibrated, Learner, Mixture, Schema
from stream.data.block import PREDICT_THEN_LEARN
from stream.data.schema import KINDS
from stream.mixture.experts import EXPERTS
from stream.mixture.guesses import ClassShares, NoChange
from tests.oracles.mixture import floored
from tests.seed import share

VALUES = st.sampled_from([0.0, 1.0, -2.0, 7.5])
PLAIN = {"type": OF_PARAMETERS}
IDENTITY = IdentityRecord(
    "svc", 0, {"model": {"type": "auto"}}, [("x", "numeric")], [], "born", PLAIN, {}
)


def named(part: Learner) -> tuple[str, dict[str, Any]]:
    """Type and parameters, of the learner inside too."""
    if isinstance(part, Calibrated):
        name, parameters = named(part._parts[0])
        return f"Calibrated({name})", {**parameters, "calibration_rate": part.learning_rate}
    return type(part).__name__, part._get_params()


def test_auto_is_a_stacked_mixture() -> None:
    """Its experts are those of `Mixture(stack=True)`, so that what is measured of one holds for
    both."""
    learner = build(ModelConfig())
    same = Mixture(stack=True)

    assert isinstance(learner, Mixture)
    assert learner.rest
    assert learner.stack
    assert list(learner.expert_weights) == list(same.expert_weights)
    assert list(map(named, learner._parts)) == list(map(named, same._parts))
    assert learner_type(ModelConfig(), DEFAULTS) == "auto"


@settings(max_examples=share(0.05))
@given(
    st.lists(st.tuples(VALUES, st.sampled_from("ppppqr")), min_size=20, max_size=60),
    st.integers(1, 40),
)
def test_auto_is_at_most_a_constant_worse_than_guessing(stream, run) -> None:
    """Of the mixture ln 11 for its eleven experts and ln 5 for the share rates; of the stack ln 3
    and ln 2; on every stream, with labels at once, beside floored guesses."""
    xs = [{"a": a, "c": str(a)} for a, _ in stream]
    ys = [stream[i // run * run][1] for i in range(len(stream))]
    auto, loss = build(ModelConfig()), 0.0
    guesses: dict[Learner, float] = {ClassShares(): 0.0, NoChange(): 0.0}
    for x, y in zip(xs, ys, strict=True):
        p = auto.predict_proba_one(x)
        for guess in guesses:
            if y in p:
                own = floored(floored(guess.predict_proba_one(x), list(p)), list(p), 1e-6)
                guesses[guess] -= log(own[y])
            guess.learn_one(x, y)
        loss -= log(p[y]) if y in p else 0.0
        auto.learn_one(x, y)

    assert len(auto.expert_weights) == 11
    assert loss <= min(guesses.values()) + log(11 * 5 * 3 * 2) + 1e-9


def test_auto_is_as_often_right_as_the_last_label_where_runs_come_and_go() -> None:
    """Of 1,000 labels in turn, 98 % and then 40 % are kept, and the others are drawn by chance. The
    share of all labels that stayed is then right of neither."""
    differ = []
    for seed in range(3):  # always these
        rng = Random(seed)
        ys = ["p"]
        for i in range(1, 6000):
            keep = 0.98 if i // 1000 % 2 == 0 else 0.4
            ys.append(ys[-1] if rng.random() < keep else rng.choice("pqr"))
        xs = [{"a": rng.gauss(0, 1)} for _ in ys]
        auto = build(ModelConfig()).declare(Schema.of(a="numeric"))
        block = Block.of(auto.rows(xs), PREDICT_THEN_LEARN, ys)
        found = auto.progressive_many(block).dicts()[1000:]
        right = [max(p, key=p.__getitem__) == y for p, y in zip(found, ys[1000:], strict=True)]
        stayed = [y == last for last, y in pairwise(ys[999:])]
        differ += [int(s) - int(r) for s, r in zip(stayed, right, strict=True)]

    assert fmean(differ) <= 0.002


@pytest.mark.parametrize(
    "changes",
    [{"parameters": {"half_life": 500.0}}, {"bins": BinsConfig()}],
    ids=["parameters", "bins"],
)
def test_auto_with_parameters_or_bins_is_mixed_naive_bayes(changes) -> None:
    """Its parameters would else be those of nothing."""
    model = ModelConfig(**changes)
    name, parameters = resolved(model, DEFAULTS)

    assert (name, parameters) == ("MixedNB", model.parameters)
    assert learner_type(model, DEFAULTS) == "MixedNB"
    build(model)


def test_auto_of_a_journal_is_what_it_says() -> None:
    """Here a calibrated mixture, whose correction is weighed."""
    mixture = {"type": "Mixture", "experts": [dict(e) for e in EXPERTS], "rest": True}
    auto = {"type": "Calibrated", "learner": mixture, "learning_rate": 0.05, "hedge": True}
    read = decode(encode(msgspec.structs.replace(IDENTITY, auto=auto)))
    assert isinstance(read, IdentityRecord)
    learner = build(ModelConfig(), defaults_of(read))

    assert isinstance(learner, Calibrated)
    assert learner.to_state() == build(ModelConfig(), Defaults(auto=auto)).to_state()
    assert isinstance(learner._parts[0], Mixture)
    assert not learner._parts[0].stack


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


def test_auto_encodes_categories_with_many_values() -> None:
    """Around the same mixture; without categories it is the mixture alone."""
    found = auto_of(Schema.of(shop="categorical", town="categorical", a="numeric"))
    mixture = auto_of(Schema.of(a="numeric"))

    assert found == {"type": "TargetEncoded", "fields": ["shop", "town"], "learner": mixture}
    assert learner_type(ModelConfig(), Defaults(found)) == "auto"
    learner = build(ModelConfig(), Defaults(found))
    assert list(learner.expert_weights) == list(build(ModelConfig()).expert_weights)


def test_nearest_neighbours_are_left_out_where_there_is_only_text() -> None:
    """They do not read it, so they would guess."""

    def experts(**fields: Any) -> list[Any]:
        found: Mapping[str, Any] = auto_of(Schema.of(**fields))
        return list(found.get("learner", found)["experts"])

    neighbours = {"type": "KNNClassifier"}
    assert neighbours not in experts(body="text")
    assert neighbours in experts(body="text", hops="numeric")
    assert neighbours in experts(color="categorical")
