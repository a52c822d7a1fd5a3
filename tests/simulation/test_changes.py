"""Configurations that change at every start, journals that are lost: the predictions stay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from consumers.journal import records as journal
from consumers.service import crash_guard, recovery
from consumers.service.crash_guard import CrashGuard
from tests.seed import seeds
from tests.simulation.changes import ChangingWorld, undisturbed, wrong
from tests.simulation.weather import until_all
from tests.simulation.world import SMALL

# Seeds whose worlds have every kind of change; further ones where the code has moved on.
SHOWING = [8, 6, 4, 0, *range(16)]
FINDING = [0, 3, *range(12)]  # seeds, of which some finds each rule that is taken out


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> ChangingWorld:
    """What an undisturbed service writes."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), **SMALL)


@seeds(0.04)
def test_changed_configurations_and_lost_journals_change_no_prediction(
    seed, expected, tmp_path_factory
) -> None:
    """Nor lose or double one, condemn a record, or go by without a word."""
    world = ChangingWorld(seed, tmp_path_factory.mktemp("world"), **SMALL).run()

    assert wrong(world, expected) == []


def test_the_worlds_do_change(expected, tmp_path) -> None:
    """Each kind of change happens, and configurations change all the time."""
    kinds = {"journal_renamed", "journal_lost", "journal_offsets_expired", "tried"}
    worlds = (ChangingWorld(seed, tmp_path / f"{n}", **SMALL) for n, seed in enumerate(SHOWING))
    seen = until_all(kinds, (world.run().told.faults for world in worlds))
    faults = sum(seen, Counter())

    assert kinds - faults.keys() == set()
    assert faults["configuration_changed"] > 5 * len(seen)
    assert len(expected.made) > 50


made = journal.entry_of


def shapeless(*args, **options):
    """Entries as they were: without a shape."""
    return made(*args, **{**options, "shape": None})


def condemned(guard: CrashGuard, court: object) -> bool:
    """Whoever is alone in hand when the service has died often enough."""
    return True


MUTANTS = {
    "shape": [patch.object(journal, "entry_of", shapeless)],
    "traces": [patch.object(recovery, "check_first_start", lambda *_: None)],
    "trial": [
        patch.object(CrashGuard, "_rejected", condemned),
        patch.object(crash_guard, "STARTS", 1),
    ],
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_service_without_one_of_its_rules_is_found_out(mutant, expected, tmp_path: Path) -> None:
    """The same worlds show it."""
    for each in MUTANTS[mutant]:
        each.start()
    try:
        found = []
        for n, seed in enumerate(FINDING):
            try:
                found = wrong(ChangingWorld(seed, tmp_path / f"{n}", **SMALL).run(), expected)
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            if found:
                break
    finally:
        for each in MUTANTS[mutant]:
            each.stop()

    assert found
