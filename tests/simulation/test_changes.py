"""Configurations that change at every start, journals that are lost: the predictions stay."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from consumers.journal import records as journal
from consumers.service import crash_guard, recovery
from consumers.service.crash_guard import CrashGuard
from tests.simulation.changes import ChangingWorld, undisturbed, wrong

SEEDS = 16
SMALL = {"records": 60, "commits": 12}


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Each failure warns."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> ChangingWorld:
    """What an undisturbed service writes."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), **SMALL)


def test_changed_configurations_and_lost_journals_change_no_prediction(expected, tmp_path) -> None:
    """Nor lose or double one, condemn a record, or go by without a word."""
    found, faults = {}, Counter[str]()
    for seed in range(SEEDS):
        world = ChangingWorld(seed, tmp_path / str(seed), **SMALL).run()
        faults += world.told.faults
        if lines := wrong(world, expected):
            found[seed] = lines

    assert found == {}
    kinds = {"journal_renamed", "journal_lost", "journal_offsets_expired", "tried"}
    assert kinds - faults.keys() == set()
    assert faults["configuration_changed"] > 5 * SEEDS
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
        for seed in range(12):
            try:
                found = wrong(ChangingWorld(seed, tmp_path / str(seed), **SMALL).run(), expected)
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            if found:
                break
    finally:
        for each in MUTANTS[mutant]:
            each.stop()

    assert found
