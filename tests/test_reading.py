"""How much code one record needs does not grow unnoticed (`benchmarks.reading`)."""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.reading import HELD, ROOT, grown


def test_a_record_crosses_no_more_code_than_before() -> None:
    """Functions, files and statements are at most 2 % more than those held."""
    command = [sys.executable, "-m", "benchmarks.reading", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert grown(json.loads(out), json.loads(HELD.read_text())) == []


def test_figure_that_grew_by_more_than_2_percent_is_named() -> None:
    """102 of 100 pass, 103 do not."""
    held = {"functions": 100, "files": 100}

    assert grown({"functions": 102, "files": 103}, held) == [
        "files: 103, and 100 are held; make it smaller, or hold today's figures on purpose by "
        "`python -m benchmarks.reading --write`"
    ]
