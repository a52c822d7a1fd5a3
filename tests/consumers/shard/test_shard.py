"""The heart: same bits for any cut, every bad record a dead letter, the wire's fields exactly."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import get_args

import pytest

from consumers.base.errors import (
    DEAD_LETTER_REASONS,
    REPORTER_REASONS,
    SCHEMA_REASONS,
    DeadLetterReason,
)
from consumers.base.records import Partition, Record
from consumers.config.learner import ModelConfig
from consumers.shard.models import build
from stream import GaussianNB, MultinomialNB, Schema
from tests.consumers.feeds import NOW, SCHEMA, batch, seen, shard, stream, told

YEARS = 10 * 365 * 86_400_000


def run(machine, records: list[Record], cuts=(), now: int = NOW):
    """All records in batches that end at `cuts`: predictions and dead letters, as written."""
    predictions, dead = [], []
    for start, stop in pairwise([0, *sorted(cuts), len(records)]):
        outcome = machine.process(batch(records[start:stop]), now)
        predictions += outcome.predictions()
        dead += outcome.dead_letters()
    return predictions, dead


CUTS = {
    "halves": [200],
    "sevens": list(range(7, 400, 7)),
    "single": list(range(1, 400)),
    "empty": [0, 0, 100, 100],
}


@pytest.fixture(scope="module")
def whole():
    """A stream in one batch: its records, output and final shard."""
    records = stream(250, seed=4)
    machine = shard()
    return records, run(machine, records), machine


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_any_cut_of_a_merged_stream_writes_the_same_bytes(whole, cuts) -> None:
    """Predictions, dead letters, counts and the whole state (I1)."""
    records, output, machine = whole
    cut = shard()

    assert run(cut, records, cuts) == output
    assert cut.fingerprint() == machine.fingerprint()
    assert cut.view().labels == machine.view().labels


def test_stream_of_the_tests_meets_every_turn(whole) -> None:
    """What the cuts are tested on is worth it: many outcomes, many reasons, three classes."""
    records, (predictions, dead), machine = whole
    view = machine.view()

    assert {"joined", "early", "duplicate"} <= set(view.labels)
    assert len({dict(d.headers)["reason"] for d in dead}) >= 6
    assert len(view.quality.classes) == 3
    assert len(predictions) == view.observations - sum(
        dict(d.headers)["topic"] == b"obs" for d in dead
    )
    assert len(records) > 400


def test_restored_shard_goes_on_bit_for_bit(whole) -> None:
    """At several places, through JSON-able headers and arrays (I2)."""
    records, output, machine = whole
    for at in (1, 130, 399):
        before, after = shard(), shard()
        predictions, dead = run(before, records[:at])
        after.load_state(before.to_state())
        assert after.positions == before.positions
        more, worse = run(after, records[at:])

        assert (predictions + more, dead + worse) == output
        assert after.fingerprint() == machine.fingerprint()


def test_saved_state_does_not_change_with_the_shard(whole) -> None:
    """The snapshot writer works on a copy while the loop goes on."""
    records, _, _ = whole
    going = shard()
    run(going, records[:100])
    state = going.to_state()
    before = state.fingerprint()

    run(going, records[100:])

    assert state.fingerprint() == before


BAD: dict[str, Record] = {
    "wrong_kind": seen("x", a="text"),
    "infinite": Record("obs", 0, 0, NOW, b"k", b'{"id":"x","a":1e999}'),
    "out_of_range": seen("x", a=1e101),
    "label_kind": told("g", 5),
    "max_classes": told("g", "third"),
    "unparsable": Record("obs", 0, 0, NOW, b"\xff", b"\x00\xffno json"),
    "oversize": Record("obs", 0, 0, NOW, None, b"x" * (1 << 20) + b"x"),
    "no_id": Record("obs", 0, 0, NOW, None, b'{"a":1}'),
    "no_label": Record("ans", 0, 0, NOW, None, b'{"id":"g"}'),
    "bad_weight": told("g", "first", w=101),
}


def test_every_reason_has_an_example() -> None:
    """The list of reasons is the list tested here; others have a file of their own."""
    elsewhere = {"crash_poison", "correction_rate", *SCHEMA_REASONS, *REPORTER_REASONS}
    assert (
        {*BAD, "negative_count", *elsewhere}
        == set(DEAD_LETTER_REASONS)
        == set(flat(DeadLetterReason))
    )


def flat(literal) -> list[str]:
    return [name for arg in get_args(literal) for name in (flat(arg) if get_args(arg) else [arg])]


@pytest.mark.parametrize("reason", BAD)
def test_bad_record_becomes_a_dead_letter_and_teaches_nothing(reason) -> None:
    """Original key and bytes, reason, source and code version in the headers; the learner is
    unchanged (I3)."""
    machine = shard(max_classes=2, version="1.2")
    run(machine, [seen("1", a=1), told("1", "first"), seen("2", a=2), told("2", "second")])
    run(machine, [seen("g", a=1.0)])
    before = machine.learner.fingerprint()
    bad = BAD[reason]._replace(offset=77, partition=3)
    predictions, (dead,) = run(machine, [bad])

    assert predictions == []
    assert (dead.topic, dead.key, dead.value) == ("dead", bad.key, bad.value)
    assert dead.timestamp == bad.timestamp
    headers = dict(dead.headers)
    assert headers.pop("detail")
    assert headers == {
        "reason": reason.encode(),
        "topic": bad.topic.encode(),
        "partition": b"3",
        "offset": b"77",
        "version": b"1.2",
    }
    assert machine.learner.fingerprint() == before
    assert machine.view().dead_letters == {reason: 1}


def test_negative_count_becomes_a_dead_letter() -> None:
    """A model of counts cannot take it, though it fits the schema; its neighbours are taken."""
    machine = shard(MultinomialNB(), schema=Schema.of(n="numeric"))
    predictions, dead = run(machine, [seen("1", n=1), seen("2", 1, n=-1), seen("3", 2, n=2)])

    assert [json.loads(p.value)["id"] for p in predictions] == ["1", "3"]
    assert [dict(d.headers)["reason"] for d in dead] == [b"negative_count"]


def test_bad_records_leave_the_good_ones_of_their_batch_alone() -> None:
    """With and without them, the same predictions and the same learner."""
    good = [seen("1", a=1), told("1", "x"), seen("2", a=2), told("2", "y"), seen("3", a=3)]
    clean, dirty = shard(), shard()
    expected, _ = run(clean, good)
    worst = [BAD[reason] for reason in ("infinite", "oversize", "wrong_kind", "no_id", "no_label")]
    mixed = [record for pair in zip(worst, good, strict=True) for record in pair]
    found, dead = run(dirty, mixed)

    assert [(p.key, json.loads(p.value)["probabilities"]) for p in found] == [
        (p.key, json.loads(p.value)["probabilities"]) for p in expected
    ]
    assert len(dead) == 5
    assert dirty.learner.fingerprint() == clean.learner.fingerprint()


def test_prediction_record_has_exactly_the_fields_of_the_wire() -> None:
    """Nothing in it depends on the wall clock; its partition is that of its observation."""
    machine = shard()
    run(machine, [seen("1", a=0), told("1", "x"), seen("2", 1, a=5), told("2", "y", 1)])
    asked = Record("obs", 3, 9, NOW + 7, b"key", b'{"id":"q","a":0}')
    (early,), _ = run(machine, [asked], now=NOW)
    value = json.loads(early.value)

    probabilities = value.pop("probabilities")
    assert value == {
        "id": "q",
        "prediction": "x",
        "model": {"name": "svc", "type": "GaussianNB", "learned": 2},
        "position": {"topic": "obs", "partition": 3, "offset": 9},
        "ts": NOW + 7,
    }
    assert [label for label, _ in probabilities] == ["x", "y"]
    assert sum(p for _, p in probabilities) == pytest.approx(1)
    assert early[:2] == ("out", b"q")
    assert (early.headers, early.partition) == ((), 1)
    assert early.timestamp == NOW, "an output is never stamped after the clock of its commit"


def test_prediction_tells_how_many_labels_were_learned_before_it() -> None:
    """Inside a batch and across batches."""
    records = [seen("1", a=1), told("1", "x"), seen("2", a=1), told("2", "x"), seen("3", a=1)]
    predictions, _ = run(shard(), records, cuts=[3])

    assert [json.loads(p.value)["model"]["learned"] for p in predictions] == [0, 1, 2]


def test_prediction_tells_the_most_probable_labels_up_to_top() -> None:
    """All of them are known to the model, `top` are written."""
    machine = shard(top=2)
    records = [r for i in range(5) for r in (seen(f"{i}", a=i), told(f"{i}", f"c{i}"))]
    predictions, _ = run(machine, [*records, seen("q", a=3)])
    probabilities = json.loads(predictions[-1].value)["probabilities"]

    assert len(probabilities) == 2
    assert probabilities[0][1] >= probabilities[1][1]


def test_label_inside_the_observation_is_learned_after_its_prediction() -> None:
    """The first prediction knows nothing, the second knows the first label."""
    machine = shard(label_field="y")
    predictions, _ = run(machine, [seen("1", a=1, y="x"), seen("2", 1, a=1, y="z")])

    assert [json.loads(p.value)["prediction"] for p in predictions] == [None, "x"]
    assert machine.learner.classes == ["x", "z"]
    assert machine.view().labels == {"joined": 2}


def test_bad_label_inside_makes_the_observation_a_dead_letter() -> None:
    """No prediction for what was not applied."""
    machine = shard(label_field="y")
    predictions, (dead,) = run(machine, [seen("1", a=1, y="x"), seen("2", 1, a=1, y=2)])

    assert len(predictions) == 1
    assert dict(dead.headers)["reason"] == b"label_kind"
    detail = b"expected text of at most 512 characters, like the first label, got the integer 2"
    assert dict(dead.headers)["detail"] == detail
    assert machine.view().predictions == 1
    assert machine.view().observations == 2


@pytest.mark.parametrize(
    ("first", "label", "told_why"),
    [
        (True, 1, "expected a truth value, like the first label, got the integer 1"),
        (1, True, "expected a 64-bit integer, like the first label, got the truth value true"),
        (False, "yes", "expected a truth value, like the first label, got the text 'yes'"),
        (7, 2**70, f"expected a 64-bit integer, like the first label, got the integer {2**70}"),
        ("a", "b" * 600, "got the text of 600 characters 'bbb"),
    ],
)
def test_dead_label_says_its_kind_and_that_of_the_first(first, label, told_why: str) -> None:
    """Whichever cut, in the header and in the log whole: both kinds, so that one can act on it."""
    records = [seen("1", a=1), told("1", first, 0), seen("2", 1, a=1), told("2", label, 1)]
    for cuts in ([], [1, 2, 3]):
        *_, (dead,) = run(shard(), records, cuts)
        assert told_why in dict(dead.headers)["detail"].decode()


def test_record_years_ahead_does_not_expire_what_waits() -> None:
    """A timestamp over a minute ahead of the journaled clock does not move stream time."""
    machine = shard(horizon=3_600_000)
    run(machine, [seen("1", a=1), seen("2", 1, a=1, ts=NOW + YEARS)])

    assert machine.stream_time == NOW
    assert machine.view().pending == 2
    assert machine.view().labels == {}


def test_stream_time_goes_on_with_the_journaled_clock() -> None:
    """Expiry happens by the timestamps of later records, and never goes back."""
    machine = shard(horizon=3_600_000)
    run(machine, [seen("1", a=1)])
    run(machine, [seen("2", 1, a=1, ts=NOW - YEARS)])
    assert machine.stream_time == NOW

    run(machine, [told("1", "x", ts=NOW + 3_600_001)], now=NOW + 3_600_001 - 60_000)

    assert machine.view().labels == {"expired": 2, "late": 1}


def test_clock_of_the_entry_decides_and_not_the_batch_it_came_in() -> None:
    """The same records with the same clock, cut or not, give the same stream time (I1)."""
    records = [seen(str(i), i, a=1, ts=NOW + i * YEARS // 3) for i in range(6)]
    one, cut = shard(), shard()
    run(one, records)
    run(cut, records, cuts=[1, 2, 5])

    assert one.fingerprint() == cut.fingerprint()


def test_positions_move_past_dead_letters_too() -> None:
    """Every record is consumed, whatever it was."""
    machine = shard()
    run(machine, [Record("obs", 0, 4, NOW, None, b"no"), Record("ans", 0, 8, NOW, None, b"no")])

    assert machine.positions == {Partition("obs", 0): 5, Partition("ans", 0): 9}


def test_view_counts_everything_of_all_time() -> None:
    """What the metrics read: totals from the state, also after it was restored."""
    records = stream(60, seed=9)
    machine, restored = shard(), shard()
    run(machine, records)
    restored.load_state(machine.to_state())
    before, after = machine.view(), restored.view()

    assert before.observations == sum(r.topic == "obs" for r in records)
    assert (
        before.learned
        == before.labels["joined"]
        == before.quality.scores["all"].scored + (before.quality.unscored)
    )
    for name in ("observations", "predictions", "learned", "labels", "dead_letters", "pending"):
        assert getattr(after, name) == getattr(before, name)
    assert after.quality.scores == before.quality.scores


def test_missing_features_are_no_evidence() -> None:
    """Absent, null and NaN give the same prediction, and none is a dead letter (I4)."""
    machine = shard(GaussianNB(), schema=SCHEMA)
    run(machine, [seen("1", a=1, b=1), told("1", "x"), seen("2", 1, a=9, b=1), told("2", "y", 1)])
    nan = Record("obs", 0, 4, NOW, None, b'{"id":"n","a":9,"b":NaN}')
    predictions, dead = run(machine, [seen("p", 2, a=9), seen("q", 3, a=9, b=None), nan])
    said = [json.loads(p.value)["probabilities"] for p in predictions]

    assert dead == []
    assert said == [said[0]] * 3


def with_bad_values(n: int) -> list[Record]:
    """Observations of which every third has a value of the wrong kind, with their labels."""
    out = []
    for i in range(n):
        a = "dear" if i % 3 == 0 else i % 7
        urgent = 7 if i % 5 == 0 else True
        out += [seen(str(i), i, a=a, b=i % 4, urgent=urgent), told(str(i), "xy"[i % 2], i)]
    return out


def test_bad_value_can_be_missing_and_is_counted_by_field() -> None:
    """The record is predicted and learned as if the field were absent; others are dead letters."""
    machine, same = shard(keep_bad=True), shard()
    first, label = seen("1", a=1, b=2), told("1", "x")
    found = run(machine, [first, label, seen("2", 1, a="dear", b=3), told("2", "y", 1)])
    expected = run(same, [first, label, seen("2", 1, b=3), told("2", "y", 1)])
    _, dead = run(machine, [seen("3", 2, a="dear"), Record("obs", 0, 3, NOW, None, b"{")])

    assert found == expected
    assert machine.learner.fingerprint() == same.learner.fingerprint()
    assert machine.view().bad_values == {"a": 1, "b": 0, "urgent": 0, "colour": 0}
    assert same.view().bad_values == {}
    assert [dict(d.headers)["reason"] for d in dead] == [b"wrong_kind", b"unparsable"]


def test_bad_values_of_a_dead_letter_are_not_counted() -> None:
    """A record that the learner refuses was not used."""
    schema = Schema.of(n="numeric", c="numeric")
    machine = shard(MultinomialNB(), schema=schema, keep_bad=True)
    _, dead = run(machine, [seen("1", n="many", c=-1), seen("2", 1, n="many", c=1)])

    assert [dict(d.headers)["reason"] for d in dead] == [b"negative_count"]
    assert machine.view().bad_values == {"n": 1, "c": 0}


def test_any_cut_and_any_restart_count_the_same_bad_values() -> None:
    """The counts are state (I1, I2)."""
    records = with_bad_values(60)
    whole, cut = shard(keep_bad=True), shard(keep_bad=True)
    output = run(whole, records)
    before = run(cut, records[:41])
    restored = shard(keep_bad=True)
    restored.load_state(cut.to_state())
    after = run(restored, records[41:], range(7, 79, 7))

    assert [x + y for x, y in zip(before, after, strict=True)] == list(output)
    assert restored.fingerprint() == whole.fingerprint()
    assert restored.view().bad_values == {"a": 20, "b": 0, "urgent": 12, "colour": 0}


@pytest.mark.parametrize("strategy", ["mdl", "quantile"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_any_cut_writes_the_same_bytes_with_bins(strategy, cuts) -> None:
    """Bins that are learned move record by record, whatever shares a batch (I1)."""
    records = stream(250, seed=4)
    learner = build(ModelConfig(type="MixedNB", bins={"strategy": strategy}))
    machine, cut = shard(learner.clone()), shard(learner.clone())

    assert run(cut, records, cuts) == run(machine, records)
    assert cut.fingerprint() == machine.fingerprint()
    assert machine.learner.discretizer.bins
