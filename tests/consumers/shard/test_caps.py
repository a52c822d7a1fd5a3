"""What a sender can fill: each bound is reached whole, and one more has its reason or counter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Record
from consumers.config import infer, parse, schema_of
from consumers.config.sections import LONGEST_NAME
from consumers.shard.assembly import shard_of
from consumers.shard.challengers import ChallengerSet, configured
from consumers.shard.shard import Shard
from stream import BernoulliNB, CategoricalNB, MultinomialNB, Schema
from tests.consumers.feeds import NOW, batch, config_text, seen, shard, told

MIB = 1 << 20


def padded(size: int) -> bytes:
    """An observation of so many bytes."""
    rest = size - len(b'{"id":"1","x":""}')
    return b'{"id":"1","x":"' + b"x" * rest + b'"}'


def nested(depth: int) -> bytes:
    """An observation with so many objects and lists in one another."""
    return b'{"id":"1","x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def observation(value: bytes) -> Record:
    """A record without a key."""
    return Record("obs", 0, 0, NOW, None, value)


@pytest.mark.parametrize(
    ("fits", "more", "reason"),
    [
        (padded(MIB), padded(MIB + 1), "oversize"),
        (nested(128), nested(129), "unparsable"),
        (b'{"id":"%s"}' % (b"i" * 512), b'{"id":"%s"}' % (b"i" * 513), "no_id"),
        (b'{"id":"1","a":1e100}', b'{"id":"1","a":1.1e100}', "out_of_range"),
    ],
    ids=["record", "nesting", "id", "number"],
)
def test_observation_at_its_bound_is_predicted_and_beyond_it_a_dead_letter(
    fits: bytes, more: bytes, reason: str
) -> None:
    """Counted by its reason, and the state is as before."""
    machine = shard()
    machine.process(batch([observation(fits)]), NOW)
    at_bound = machine.view()
    refused = shard()
    refused.process(batch([observation(more)]), NOW)

    assert (at_bound.predictions, dict(at_bound.dead_letters)) == (1, {})
    assert (refused.view().predictions, dict(refused.view().dead_letters)) == (0, {reason: 1})


@pytest.mark.parametrize(
    ("fits", "more", "reason"),
    [
        (["y" * 512], "y" * 513, "label_kind"),
        ([f"y{n}" for n in range(4)], "one more", "max_classes"),
    ],
    ids=["label", "classes"],
)
def test_label_at_its_bound_is_learned_and_beyond_it_a_dead_letter(
    fits: list[str], more: str, reason: str
) -> None:
    """An id sent as a label cannot grow the model."""
    labels = [*fits, more]
    machine = shard(max_classes=4)
    records = [seen(str(n), n, a=1.0) for n in range(len(labels))]
    records += [told(str(n), label, n) for n, label in enumerate(labels)]
    machine.process(batch(records), NOW)

    assert machine.view().labels["joined"] == len(fits)
    assert dict(machine.view().dead_letters) == {reason: 1}


def overflow_of(machine: Any, rows: list[dict[str, Any]]) -> dict[str, int]:
    """What is counted as beyond a bound after these were learned."""
    records = [seen(str(n), n, **row) for n, row in enumerate(rows)]
    records += [told(str(n), "y", n) for n in range(len(rows))]
    machine.process(batch(records), NOW)
    return {bound: count for bound, count in machine.view().overflows.items() if count}


@pytest.mark.parametrize(
    ("learner", "kind", "fits", "more", "bound"),
    [
        (CategoricalNB(), "categorical", "c" * 512, "c" * 513, "values"),
        (MultinomialNB(), "text", "a " * 100_000, "a " * 100_001, "tokens"),
        (BernoulliNB(), "text", "a " * 100_000, "a " * 100_001, "tokens"),
    ],
    ids=["category", "tokens", "tokens present"],
)
def test_value_beyond_its_bound_is_counted_and_not_learned(
    learner: Any, kind: Any, fits: str, more: str, bound: str
) -> None:
    """The record itself is good, and is predicted and learned for the rest."""
    schema = Schema.of(x=kind)

    assert overflow_of(shard(learner.clone(), schema=schema), [{"x": fits}]) == {}
    assert overflow_of(shard(learner.clone(), schema=schema), [{"x": more}]) == {bound: 1}


def test_waiting_observations_beyond_their_bound_are_let_go_and_counted() -> None:
    """A sender of observations without labels cannot fill the memory."""
    machine = shard(max_pending=3)
    machine.process(batch([seen(str(n), n, a=1.0) for n in range(5)]), NOW)

    assert machine.view().labels["evicted"] == 2


@pytest.mark.parametrize("kind", ["categorical", "text"])
def test_large_observations_that_wait_are_bounded_by_their_bytes(kind: Any) -> None:
    """Far fewer than `max_pending`; by what is kept of them, in any split, and after a restart."""
    learner = CategoricalNB() if kind == "categorical" else MultinomialNB()
    bounds: dict[str, Any] = {"schema": Schema.of(x=kind), "max_pending_bytes": 1_000}
    words = [" ".join(f"w{n}x{k}" for k in range(30)) for n in range(9)]
    records = [seen(str(n), n, x=text) for n, text in enumerate(words)]
    whole, apart = shard(learner.clone(), **bounds), shard(learner.clone(), **bounds)
    whole.process(batch(records), NOW)
    for record in records[:5]:
        apart.process(batch([record]), NOW)
    again = shard(learner.clone(), **bounds)
    again.load_state(apart.to_state())
    again.process(batch(records[5:]), NOW)

    assert 0 < whole.view().pending < 9
    assert whole.view().labels["evicted"] == 9 - whole.view().pending
    assert again.fingerprint() == whole.fingerprint()


def test_a_challenger_lets_no_observation_of_the_model_go() -> None:
    """What it holds is not counted: [model] would learn another thing beside it (0019)."""
    bounds: dict[str, Any] = {"schema": Schema.of(x="text"), "max_pending_bytes": 1_000}
    words = [" ".join(f"w{n}x{k}" for k in range(30)) for n in range(9)]
    records = batch([seen(str(n), n, x=text) for n, text in enumerate(words)])
    alone, beside = shard(MultinomialNB(), **bounds), shard(MultinomialNB(), **bounds)
    rival = {"type": "MultinomialNB", "parameters": {"alpha": 0.5}}
    beside.set_challengers(ChallengerSet({"a": rival, "b": rival}))
    alone.process(records, NOW)
    beside.process(records, NOW)

    assert 0 < alone.view().pending < 9
    assert beside.view().pending == alone.view().pending
    assert beside.view().labels == alone.view().labels


def bounded(max_bytes: str, kind: str, more: str = "", model: str = "MixedNB") -> Shard:
    """A shard of a model whose memory is configured."""
    text = config_text("memory:x", ["x"]).replace(
        '"GaussianNB"', f'"{model}"\nmax_state_bytes = {max_bytes}'
    )
    config = parse(text.replace('x = "numeric"', f'x = "{kind}"') + more)
    fields = config.declared_schema
    assert fields is not None
    out = shard_of(config, fields)
    out.set_challengers(configured(config))
    return out


def hostile(n: int, classes: int) -> list[Record]:
    """Observations of categories that are all different and long, with labels."""
    records = []
    for i in range(n):
        records += [seen(f"{i}", i, x=f"{i}" + "c" * 500), told(f"{i}", f"y{i % classes}", i)]
    return records


@pytest.mark.parametrize(
    ("model", "most", "classes", "otherwise"),
    [("MixedNB", 4, 200, 4 << 20), ("auto", 48, 9, 3_400_000)],
)
def test_model_keeps_to_max_state_bytes(model, most, classes, otherwise) -> None:
    """Hostile categories of many classes: beyond the bound values are refused, and counted."""
    machine = bounded(f'"{most}MiB"', "categorical", model=model)
    free = bounded('"1GiB"', "categorical", model=model)
    for each in (machine, free):
        records = hostile(2000, classes)
        for at in range(0, len(records), 500):
            each.process(batch(records[at : at + 500]), NOW)

    def taken(shard: Shard) -> int:
        return sum(a.nbytes for a in shard.learner.to_state().arrays.values())

    assert machine.view().learned == free.view().learned == 2000
    assert taken(machine) < min(most << 20, otherwise) <= taken(free)
    assert machine.view().overflows["values"] > 1000
    assert free.view().overflows["values"] == 0


def test_challenger_keeps_to_max_state_bytes() -> None:
    """Its own, and where it has none as many GiB as the classes of [model] need."""
    rival = '\n[[challenger]]\nname = "rival"\ntype = "CategoricalNB"\n'
    machine = bounded('"4MiB"', "categorical", more=rival + 'max_state_bytes = "3MiB"')
    beside = bounded('"4MiB"', "categorical", more=rival)

    def most(shard: Shard) -> int:
        [_, challenger] = shard._contest.contestants()
        assert challenger.machine.learner._limited is not None
        return challenger.machine.learner._limited[0]

    assert (most(machine), most(beside)) == (3 << 20, 1 << 30)
    with pytest.raises(ConfigError, match="rival: CategoricalNB: max_state_bytes = 1,000 is too"):
        bounded('"4MiB"', "categorical", more=rival + "max_state_bytes = 1000")


def test_memory_that_holds_no_two_classes_is_refused_with_what_is_needed() -> None:
    """`MixedNB` with a text needs 8 MiB a class, and the default model more."""
    for model in ("MixedNB", "auto"):
        with pytest.raises(
            ConfigError, match=r"max_state_bytes = 1,048,576 is too little: two classes"
        ):
            bounded('"1MiB"', "text", model=model)


def test_inferred_fields_are_bounded_in_number_and_in_their_names() -> None:
    """The schema is journaled: a feed cannot make it larger than a record may be."""
    names = ["n" * LONGEST_NAME, "m" * (LONGEST_NAME + 1)]
    long, fits = infer([dict.fromkeys(names, n / 7) for n in range(50)], set(), text=False)
    many = infer([{f"f{k}": n / 7 for k in range(1001)} for n in range(2)], set(), text=False)

    assert (fits.name, fits.kind) == (names[0], "numeric")
    assert (long.kind, long.why) == (None, "its name has 1,001 characters, expected at most 1,000")
    assert len(schema_of(many[:1000]).fields) == 1000
    with pytest.raises(ConfigError, match="the sample shows 1,001 fields, at most 1,000"):
        schema_of(many)


def test_detail_of_a_dead_letter_is_cut() -> None:
    """What a sender wrote is in the value; the header says why in at most 500 bytes."""
    machine = shard()
    value = json.dumps({"id": "1", "urgent": "u" * 5000}).encode()
    [letter] = machine.process(batch([observation(value)]), NOW).dead_letters()
    headers = dict(letter.headers)

    assert headers["reason"] == b"wrong_kind"
    assert 0 < len(headers["detail"]) <= 500
    assert letter.value == value
