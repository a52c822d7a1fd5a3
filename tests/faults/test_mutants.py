"""The list of mutants fits the code: a piece that has moved must be found again, not skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_guard_stands_in_the_code_once(mutant) -> None:
    """And the tests that must notice its absence exist."""
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1
    for test in mutant.tests:
        path, name = test.split("::")
        assert f"def {name.split('[')[0]}(" in (ROOT / path).read_text()
