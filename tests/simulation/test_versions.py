"""Two versions of the program at one service: refused in clear words, or the same predictions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from consumers.base.errors import TransportError
from consumers.snapshots import locate
from tests.seed import seeds
from tests.simulation.versions import WAYS, Versions
from tests.simulation.weather import STORMY
from tests.simulation.world import SMALL, Told, violations

# Lives are short, so that versions take turns.
OFTEN = {**STORMY, "died": 0.02, "succeeded": 0.005, "snapshot_unwritten": 0.0}
SEEDS = range(160, 184)  # of which each way has some, and one finds each mutant


def found_by(seed: int, directory: Path, expected: Told) -> list[str]:
    """What is wrong in the world of a seed."""
    world = Versions(seed, directory, **SMALL, chances=OFTEN)
    told = world.run()
    return world.wrong + violations(told, expected)


@seeds(0.05)
def test_versions_in_turn_change_no_prediction_and_an_older_one_is_not_let_in(
    seed, expected, tmp_path_factory
) -> None:
    """Nor does it fence anybody, or write anything."""
    assert found_by(seed, tmp_path_factory.mktemp("world"), expected) == []


def test_versions_do_take_turns(tmp_path) -> None:
    """Or the worlds would prove nothing."""
    faults: Counter[str] = Counter()
    ways = set()
    for seed in SEEDS:
        world = Versions(seed, tmp_path / str(seed), **SMALL, chances=OFTEN)
        if world.way not in ways:
            ways.add(world.way)
            faults += world.run().faults

    assert ways == set(WAYS)
    assert min(faults["this"], faults["next"], faults["refused"]) > 0


MUTANTS = {
    "state": (locate, "newer", lambda about: None),
}


@pytest.mark.parametrize("way", MUTANTS)
def test_version_that_reads_what_it_does_not_know_is_found_out(way, expected, tmp_path) -> None:
    """The same worlds find it."""
    worlds = (n for n in SEEDS if Versions(n, tmp_path / "way", **SMALL).way == way)
    found: list[str] = []
    with patch.object(*MUTANTS[way]):
        for seed in worlds:
            try:
                found = found_by(seed, tmp_path / str(seed), expected)
            except TransportError as error:  # the journal does not repeat what was predicted
                found = [str(error)]
            if found:
                break

    assert found
