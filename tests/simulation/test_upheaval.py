"""Whatever becomes of the inputs: nothing is passed over, doubled or changed, unless it is said."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers.service import inputs
from consumers.service.inputs import LogWatch
from tests.simulation.upheaval import CHANGES, RESTLESS, Upheaval

SEEDS = 40
SMALL = {"records": 60, "commits": 12}
OFTEN = {**RESTLESS, "changed": 0.03}  # so that a few seeds are enough


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Each failure warns, and there are thousands."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_inputs_that_change_are_read_whole_and_once_or_it_is_said(tmp_path) -> None:
    """Lost, doubled, other bits, unsaid, said without a reason: none in any seed."""
    wrong, faults = {}, Counter[str]()
    for seed in range(SEEDS):
        world = Upheaval(seed, tmp_path / str(seed), **SMALL)
        faults += world.run().faults
        if world.wrong:
            wrong[seed] = world.wrong

    assert wrong == {}
    assert faults.keys() >= {*CHANGES, "answered: new", "answered: same", "died"}


def first_wrong(directory: Path) -> list[str]:
    """What the first of a few seeds finds that finds anything."""
    for seed in range(75):
        world = Upheaval(seed, directory / str(seed), **SMALL, chances=OFTEN)
        try:
            world.run()
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        if world.wrong:
            return world.wrong
    return []


def ids_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are never read again."""
    monkeypatch.setattr(inputs, "changed", lambda log, positions, tails: ({}, []))


def records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are never compared: a running service does not see that a topic was made again."""
    original = inputs.Topic
    monkeypatch.setattr(
        "consumers.transports.kafka.log.Topic",
        lambda partitions, made, epochs: original(partitions, "", epochs),
    )


def not_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start alone compares."""
    monkeypatch.setattr(LogWatch, "due", lambda self, *, idle: False)


def read_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins again begins where it ends."""
    from consumers.transports.kafka.log import KafkaLog

    monkeypatch.setattr(KafkaLog, "beginning_offsets", KafkaLog.end_offsets)


GUARDS = [ids_alone, records_alone, not_while_it_runs, read_from_the_end]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_guard_that_is_taken_out_is_missed(guard, tmp_path, monkeypatch) -> None:
    """The same worlds find it."""
    guard(monkeypatch)

    assert first_wrong(tmp_path) != []


def test_one_seed_is_one_run(tmp_path) -> None:
    """What it finds can be looked at again."""
    one, two = (Upheaval(7, tmp_path / name, **SMALL).run() for name in "ab")

    assert (one.faults, one.commits) == (two.faults, two.commits)
