"""Whatever becomes of the inputs: nothing is passed over, doubled or changed, unless it is said."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from consumers.service import differences, inputs
from consumers.service.inputs import LogWatch
from tests.seed import seeds
from tests.simulation.upheaval import CHANGES, RESTLESS, Upheaval
from tests.simulation.weather import until_all
from tests.simulation.world import SMALL

SHOWING = [
    31,
    15,
    4,
    *range(40),
]  # seeds that show each change; further ones where the code moved on
FINDING = [0, 4, 7, 25, *range(75)]  # seeds, of which some finds each guard that is taken out
OFTEN = {**RESTLESS, "changed": 0.03}  # so that a few seeds are enough


@seeds(0.1)
def test_inputs_that_change_are_read_whole_and_once_or_it_is_said(seed, tmp_path_factory) -> None:
    """Lost, doubled, other bits, unsaid, said without a reason: nothing."""
    world = Upheaval(seed, tmp_path_factory.mktemp("world"), **SMALL)
    world.run()

    assert world.wrong == []


def test_the_inputs_do_change(tmp_path) -> None:
    """In each way, and both answers are given, or the seeds would prove nothing."""
    kinds = {*CHANGES, "answered: new", "answered: same", "died"}
    worlds = (Upheaval(seed, tmp_path / f"{n}", **SMALL) for n, seed in enumerate(SHOWING))
    seen = until_all(kinds, (world.run().faults for world in worlds))

    assert kinds - sum(seen, Counter()).keys() == set()


def first_wrong(directory: Path) -> list[str]:
    """What the first of a few seeds finds that finds anything."""
    for n, seed in enumerate(FINDING):
        world = Upheaval(seed, directory / f"{n}", **SMALL, chances=OFTEN)
        try:
            world.run()
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        if world.wrong:
            return world.wrong
    return []


def ids_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are never read again."""
    for module in (differences, inputs):
        monkeypatch.setattr(module, "changed", lambda log, positions, tails: ({}, []))


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
