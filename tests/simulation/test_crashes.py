"""Whatever fails and whenever: exactly once, and the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example

from consumers.transports.kafka import owner as kafka_owner
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.owner import KafkaOwner
from stream.contest.compare.paired import Comparison
from tests.seed import seeds
from tests.simulation.client import LIES
from tests.simulation.weather import CALM, DEADLY, STORMY, until_all
from tests.simulation.world import KEYED, SMALL, Told, World, violations

# Seeds whose worlds have every kind of fault; further ones where the code has moved on.
SHOWING = [81, 73, 30, 3, 32, 52, 61, *range(100)]


@seeds(0.25)
def test_service_in_a_failing_world_does_what_it_would_have_done(
    seed, expected, tmp_path_factory
) -> None:
    """Each prediction once, in order, with the same bytes; the state is the journal's."""
    told = World(seed, tmp_path_factory.mktemp("world"), **SMALL).run()

    assert violations(told, expected) == []


def test_the_worlds_do_fail(tmp_path) -> None:
    """Every kind of fault happens in them, or they would prove nothing."""
    kinds = {*STORMY, "damaged", "disk: enospc", "disk: eio", "disk: short", "disk: power"}
    worlds = (World(seed, tmp_path / f"{n}", **SMALL) for n, seed in enumerate(SHOWING))

    seen = until_all(kinds, (world.run().faults for world in worlds))

    assert kinds - sum(seen, Counter()).keys() == set()


@seeds(0.075)
def test_at_least_once_repeats_the_same_bytes_and_learns_once(
    seed, expected, tmp_path_factory
) -> None:
    """Nothing is lost, whatever is said twice is said alike, and the state is the journal's."""
    directory = tmp_path_factory.mktemp("world")
    told = World(seed, directory, **SMALL, guarantee="at_least_once").run()

    assert violations(told, expected, repeats=True) == []


CHALLENGERS = """
[[challenger]]
name = "bins"
type = "CategoricalNB"
[[challenger]]
name = "near"
type = "KNNClassifier"
window = 50
[promotion]
rule = "e_value"
threshold = 1.2
"""


CHALLENGED = {"records": 240, "commits": 20, "more": CHALLENGERS}


@pytest.fixture(scope="module")
def soon() -> Iterator[None]:
    """A comparison of so few records is decided."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Comparison, "RECORDS", 10)
        patch.setattr(Comparison, "CHANGES", 2)
        yield


@pytest.fixture(scope="module")
def challenged(soon, tmp_path_factory) -> Told:
    """What an undisturbed service with challengers writes: two models speak."""
    told = World(0, tmp_path_factory.mktemp("undisturbed"), **CHALLENGED, chances=CALM).run()
    predictions = [part for part in told.said if part.topic == "svc-predictions"]
    said = [value for part in predictions for _, value in told.said[part]]
    assert {b'"name":"svc"' in (value or b"") for value in said} == {True, False}
    return told


@seeds(0.02)
def test_challengers_in_a_failing_world_are_promoted_where_they_would_have_been(
    seed, challenged, tmp_path_factory
) -> None:
    """The line-up is journaled through the same failures, and so is who speaks."""
    told = World(seed, tmp_path_factory.mktemp("world"), **CHALLENGED).run()

    assert violations(told, challenged) == []


OF_KEYS = {"records": 240, "commits": 20, "key": "https"}


@pytest.fixture(scope="module")
def of_keys(tmp_path_factory) -> Told:
    """What an undisturbed service with a model of each key writes."""
    return World(0, tmp_path_factory.mktemp("undisturbed"), **OF_KEYS, chances=CALM).run()


@seeds(0.02)
def test_models_of_keys_in_a_failing_world_say_what_they_would_have(
    seed, of_keys, tmp_path_factory
) -> None:
    """The sums of each key survive the same failures."""
    told = World(seed, tmp_path_factory.mktemp("world"), **OF_KEYS).run()

    assert violations(told, of_keys) == []


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> Told:
    """What an undisturbed service with its keys on disk writes, as one with them in memory does."""
    calm = {**KEYED, "chances": CALM}
    in_memory = World(0, tmp_path_factory.mktemp("in-memory"), **calm).run()
    told = World(0, tmp_path_factory.mktemp("undisturbed"), **calm, on_disk=True).run()
    assert told.said == in_memory.said
    return told


@example(seed=3)  # damages the file of the keys
@seeds(0.02)
def test_keys_on_disk_in_a_failing_world_say_what_those_in_memory_would_have(
    seed, on_disk, tmp_path_factory
) -> None:
    """Whatever dies between the rows and the snapshot, and whatever damages the file, no key is
    lost or learned twice. Two processes may meet at one file."""
    directory = tmp_path_factory.mktemp("world")
    told = World(seed, directory, **KEYED, chances=DEADLY, on_disk=True).run()

    assert violations(told, on_disk) == []
    assert told.faults["damaged keys"] > 0 or seed != 3


DRIFT = """
[drift]
keep = 20
warm_up = 5
[[drift.detectors]]
on = "error"
type = "ADWIN"
clock = 1
delta = 0.5
action = "forget"
[[drift.detectors]]
on = "score"
type = "PageHinkley"
min_instances = 10
threshold = 0.5
action = "reset"
"""


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory) -> Told:
    """What an undisturbed service with detectors writes: their alarms change the model."""
    what = {"records": 240, "commits": 20, "chances": CALM}
    plain = World(0, tmp_path_factory.mktemp("plain"), **what).run()
    expected = World(0, tmp_path_factory.mktemp("undisturbed"), **what, more=DRIFT).run()
    said, without = (
        [
            value
            for part, lines in told.said.items()
            if "predictions" in part.topic
            for _, value in lines
        ]
        for told in (expected, plain)
    )
    assert said != without, "no alarm changed the model"
    return expected


@seeds(0.02)
def test_alarms_in_a_failing_world_act_where_they_would_have(
    seed, alarmed, tmp_path_factory
) -> None:
    """Detectors and the records for a restart survive the same failures."""
    what = {"records": 240, "commits": 20, "more": DRIFT}
    told = World(seed, tmp_path_factory.mktemp("world"), **what).run()

    assert violations(told, alarmed) == []


def test_one_seed_is_one_run(tmp_path) -> None:
    """What it finds can be looked at again."""
    one, two = (World(7, tmp_path / name, **SMALL).run() for name in "ab")

    assert one.faults == two.faults
    assert one.commits == two.commits
    assert one.from_journal == two.from_journal


def unasked(producer, futures, seconds) -> None:
    """The futures are not looked at."""
    producer.flush(seconds)


def every_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transactional id each: nobody is fenced, whatever the group would say."""
    original = KafkaOwner.__init__

    def init(self, options, name, shard, inputs, place):
        every_its_own.count += 1
        original(self, options, name, f"{shard}.{every_its_own.count}", inputs, place)

    monkeypatch.setattr(KafkaOwner, "__init__", init)


every_its_own.count = 0


def read_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of aborted transactions are consumed, too."""
    original = KafkaOptions.consumer
    uncommitted = {"isolation_level": "read_uncommitted"}
    monkeypatch.setattr(KafkaOptions, "consumer", lambda self: original(self) | uncommitted)


def positions_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction of records alone."""

    def finish(self, producer, positions):
        producer.commit_transaction()

    monkeypatch.setattr(KafkaOwner, "_finish", finish)


GUARDS = {
    "futures": lambda patch: patch.setattr(kafka_owner, "acknowledged", unasked),
    "fence": every_its_own,
    "isolation": read_all,
    "offsets": positions_left_out,
}


# More of what the client lies about, so that a few seeds are enough.
LOSSY = {**STORMY, "undelivered": 0.03, "slept": 0.01, "overtaken": 0.01}


def first_wrong(directory: Path, expected: Told, lies: frozenset[str] = LIES) -> list[str]:
    """What the first of a few seeds finds that finds anything."""
    for seed in range(10):
        world = World(seed, directory / str(seed), **SMALL, chances=LOSSY, lies=lies)
        try:
            told = world.run()
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        if found := violations(told, expected):
            return found
    return []


@pytest.mark.parametrize("guard", GUARDS)
def test_guard_that_is_taken_out_is_missed(guard, expected, tmp_path, monkeypatch) -> None:
    """The same worlds find it: they are no calm ones."""
    GUARDS[guard](monkeypatch)

    assert first_wrong(tmp_path, expected) != []


def test_a_truthful_client_needs_no_look_at_the_futures(expected, tmp_path, monkeypatch) -> None:
    """What the guard above is for are the lies of this client, P2, P4 and P5."""
    monkeypatch.setattr(kafka_owner, "acknowledged", unasked)

    assert first_wrong(tmp_path, expected, frozenset()) == []
