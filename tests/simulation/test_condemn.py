"""Kills at every rate: no innocent record is condemned, and every one that kills is."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest

from consumers.service import crash_guard
from consumers.service.crash_guard import CrashGuard
from tests.seed import seeds
from tests.simulation.kills import life, wrong

RECORDS = 8


@seeds(10)
def test_kills_at_any_rate_condemn_no_innocent_and_spare_no_poison(seed) -> None:
    """Of the service and of its children, at any step, in the midst of a trial too."""
    assert wrong(life(seed, RECORDS), RECORDS) == []


def test_the_lives_hold_what_they_are_about() -> None:
    """Kills, deaths, trials, strikes at children, and records that are condemned."""
    told: Counter[str] = Counter()
    for seed in range(500):
        one = life(seed, RECORDS)
        told += Counter(
            kills=one.kills,
            strikes=one.strikes,
            deaths=one.deaths,
            tried=one.tried,
            condemned=len(one.condemned),
        )

    assert min(told.values()) > 100, told


def by_deaths_alone(guard: CrashGuard, court: object) -> bool:
    """As it was: who is alone in hand when the service has died often enough is condemned."""
    return True


MUTANTS = {
    "deaths of the service condemn": {"_rejected": by_deaths_alone},
    "one child that dies condemns": {"TRIALS": 1, "TRIALS_OUTSIDE": 1},
    "nothing is tried": {"STARTS": 10**9},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_guard_without_its_rules_is_found_out(mutant) -> None:
    """The same lives show it."""
    changes = MUTANTS[mutant]
    target = CrashGuard if "_rejected" in changes else crash_guard
    with patch.multiple(target, **changes):
        assert any(wrong(life(seed, RECORDS), RECORDS) for seed in range(500))
