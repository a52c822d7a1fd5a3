"""Several processes at once, of two shards: exactly once, and the same bits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from consumers.transports.kafka import owner as kafka_owner
from consumers.transports.kafka.owner import KafkaOwner
from tests.seed import seeds
from tests.simulation.crowd import CROWDED, Crowd
from tests.simulation.weather import CALM
from tests.simulation.world import SMALL, Told, violations

SEEDS = range(20)  # of which some finds each rule that is taken out


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What processes without faults write: they only take over from each other."""
    return Crowd(0, tmp_path_factory.mktemp("undisturbed"), **SMALL, chances=CALM).run()


@seeds(0.1)
def test_processes_that_meet_anywhere_predict_what_one_would_have(
    seed, expected, tmp_path_factory
) -> None:
    """Each prediction once, in order, with the same bytes; and every life gets on."""
    told = Crowd(seed, tmp_path_factory.mktemp("world"), **SMALL).run()

    assert violations(told, expected) == []


def test_processes_do_meet(tmp_path) -> None:
    """Or the worlds would prove nothing."""
    faults: Counter[str] = Counter()
    for seed in SEEDS:
        faults += Crowd(seed, tmp_path / str(seed), **SMALL).run().faults
        if faults["fenced"] > 5 and faults["died"]:
            break

    assert faults["fenced"] > 5
    assert faults["died"] > 0


def test_one_seed_is_one_run(tmp_path) -> None:
    """What it finds can be looked at again, whatever threads the machine runs first."""
    one, two = (Crowd(7, tmp_path / name, **SMALL).run() for name in "ab")

    assert (one.faults, one.commits, one.said) == (two.faults, two.commits, two.said)


def every_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transactional id each: nobody is fenced."""
    original, count = KafkaOwner.__init__, iter(range(10**6))

    def init(self, options, name, shard, *rest):
        original(self, options, name, f"{shard}.{next(count)}", *rest)

    monkeypatch.setattr(KafkaOwner, "__init__", init)


def never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The futures of a commit are not looked at."""

    def unasked(producer, futures, seconds) -> None:
        producer.flush(seconds)

    monkeypatch.setattr(kafka_owner, "acknowledged", unasked)


GUARDS = [every_its_own, never_asked]
LOSSY = {**CROWDED, "undelivered": 0.03, "slept": 0.01}


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_guard_that_is_taken_out_is_missed(guard, expected, tmp_path: Path, monkeypatch) -> None:
    """The same worlds find it."""
    guard(monkeypatch)
    found: list[str] = []
    for seed in SEEDS:
        try:
            told = Crowd(seed, tmp_path / str(seed), **SMALL, chances=LOSSY).run()
            found = violations(told, expected)
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        if found:
            break

    assert found
