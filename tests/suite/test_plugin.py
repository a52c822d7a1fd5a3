"""What a run says at its end, and what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.seed import VARIABLE
from tests.suite import day
from tests.suite.day import Measured
from tests.suite.plugin import MEASURES
from tests.suite.steps import ROOT

OWN_TABLE = """
from pathlib import Path
from tests.suite import day
day.TABLE = Path(__file__).with_name("seconds.tsv")
"""
TABLE = "tests/test_a.py::test_long\t1\t60.00\ntests/test_b.py::test_other\t1\t60.00\n"
Run = Callable[..., tuple[int, str]]
TESTS = """
import time
def test_long(): pass
def test_short(): pass
def test_fails(): assert False
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The tests of a project of two files."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(OWN_TABLE)
    (folder / "seconds.tsv").write_text(TABLE)
    (folder / "test_a.py").write_text(TESTS)
    (folder / "test_b.py").write_text("def test_other(): pass\ndef test_quick(): pass\n")
    return folder


@pytest.fixture
def run(own: Path, tmp_path: Path) -> Run:
    """A function that runs pytest there, and returns its exit code and what it said."""

    def pytest_(*arguments: str) -> tuple[int, str]:
        options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, *arguments],
            cwd=tmp_path,
            env={**os.environ, VARIABLE: "5", "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return pytest_


@pytest.mark.parametrize("processes", ["0", "1"])
def test_it_names_what_was_asked_for_and_not_run(run: Run, processes: str) -> None:
    """After the failures; what -k does not choose would not run by --all either."""
    code, said = run("-n", processes, "-k", "test_a")

    assert code == 1
    assert "1 failed, 1 passed" in said
    last = said[said.index("short test summary info") :]
    assert "not run by day: 1 test (1 in tests); `tests/run --all` runs all" in last
    assert "what was drawn, again: HEADWATER_SEED=5 tests/run -p tests.conftest" in last


@pytest.mark.parametrize("arguments", [MEASURES[1:], [*MEASURES, "-k", "a"], ["--write-seconds"]])
def test_table_of_a_part_of_the_tests_is_refused(run: Run, own: Path, arguments: list[str]) -> None:
    """All tests that it does not have would run by day."""
    code, said = run(*arguments)

    assert code == 4
    assert "--write-seconds measures all tests, as the day draws: tests/run --all" in said
    assert (own / "seconds.tsv").read_text() == TABLE


def test_table_is_of_a_green_run(run: Run, own: Path) -> None:
    """One that was ended has not measured the rest."""
    code, said = run(*MEASURES)

    assert code == 1
    assert "not written: the table, because not all tests passed" in said
    assert (own / "seconds.tsv").read_text() == TABLE

    (own / "test_a.py").write_text(TESTS.replace("assert False", "time.sleep(0.2)"))
    assert run(*MEASURES)[0] == 0
    assert (own / "seconds.tsv").read_text().startswith("tests/test_a.py::test_fails\t1\t0.2")


def test_family_that_was_skipped_keeps_its_row(tmp_path: Path, monkeypatch) -> None:
    """On a machine without a browser, tests of pages would seem to be cheap."""
    monkeypatch.setattr(day, "TABLE", tmp_path / "seconds.tsv")
    day.write({"a.py::test_page[1]": 2.0, "a.py::test_page[2]": 2.0, "a.py::test_gone": 9.0}, [])
    took = {"a.py::test_page[1]": 0.2, "a.py::test_page[2]": 0.0, "a.py::test_new": 1.0}

    day.write(took, ["a.py::test_page[2]"])

    assert day.load() == {"a.py::test_new": Measured(1, 1.0), "a.py::test_page": Measured(2, 4.0)}


@pytest.mark.parametrize("given", ["x", "-1", str(2**32)])
def test_wrong_seed_is_one_line(run: Run, given: str) -> None:
    """It may come from a shell of another day."""
    code, said = run("--hypothesis-seed", given)

    assert code == 4
    assert f"HEADWATER_SEED expects a whole number below 4,294,967,296, got '{given}'" in said
