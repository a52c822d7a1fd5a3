"""One seed decides what a run of the tests draws, in all of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import seed
from tests.seed import VARIABLE

ROOT = Path(__file__).parents[1]
DRAWS = """
from pathlib import Path
from tests.seed import seeds

@seeds()
def test_drawn(seed):
    with Path(__file__).with_name("drawn").open("a") as file:
        print(seed, file=file)
    assert seed != 5
"""


def test_day_has_the_seed_of_the_commit_and_all_a_fresh_one(monkeypatch) -> None:
    """And the environment has it, for the processes that are started."""
    chosen = []
    for fresh in (False, False, True, True):
        monkeypatch.delenv(VARIABLE)
        chosen.append(seed.choose(fresh=fresh))
        assert os.environ[VARIABLE] == str(chosen[-1])

    assert chosen[0] == chosen[1]
    assert len({*chosen}) == 3


def test_seed_that_is_given_is_taken(monkeypatch) -> None:
    """By day and by night; the command that repeats the run names it."""
    monkeypatch.setenv(VARIABLE, "7")

    assert seed.choose(fresh=False) == seed.choose(fresh=True) == 7
    assert seed.again(["-k", "a b"]) == "HEADWATER_SEED=7 tests/run -k 'a b'"


@pytest.mark.parametrize(("of_examples", "examples"), [(1.0, 20), (0.1, 2), (0.001, 1), (10, 200)])
def test_costly_property_has_a_share_of_the_examples_and_at_least_one(
    of_examples: float, examples: int
) -> None:
    """Here of those of the day run."""
    run = settings.get_current_profile_name()
    seed.load_profile("day")
    try:
        assert seed.share(of_examples) == examples
    finally:
        seed.load_profile(run)


def test_workers_draw_by_the_seed_of_the_run_and_its_end_names_it(tmp_path: Path) -> None:
    """The first example is the seed itself; the one that fails stands above the command."""
    (tmp_path / "test_drawn.py").write_text(DRAWS)
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n", "1", *options, tmp_path],
        env={**os.environ, VARIABLE: "5", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    drawn = (tmp_path / "drawn").read_text().split()
    assert drawn[0] == "5", run.stdout + run.stderr
    assert "seed=5," in run.stdout
    assert "again: HEADWATER_SEED=5 tests/run -p tests.conftest" in run.stdout
