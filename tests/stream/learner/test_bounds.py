"""Wide schemas with checked indices; many more by `python -m tests.long.bounds`."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from stream.mixture._kernels.calibrate import correct_by_bin
from tests.programs.services import codec_program
from tests.programs.wide import WIDE, wide_program
from tests.waiting import PATIENCE

# One text of two characters beside so many numbers: two features a number, each once.
SHORT_TEXT = """
from numpy import zeros
from stream.data.block import Rows
from stream.text.features import features

numbers = {f"n{i}": i + 0.5 for i in range(700)}
rows = Rows.from_dicts([{"t": "hi", **numbers}], strings="text")
for _ in range(300):
    start = features(rows, zeros(1, dtype="int64")).start.tolist()
print(*start)
"""
WIDE_SPAM = """
from tests.long.bounds import one
print(*[line for n in range(12) for line in one("SpamScorer", n) + one("JSON", n)])
"""


def checked(program: str) -> str:
    """What a program prints in a process whose kernels check their indices."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_short_text_beside_many_numbers_stays_in_its_memory() -> None:
    """The scratch was sized by the text, and its heap was overwritten by the numbers."""
    assert checked(SHORT_TEXT) == "0 1 3 5 1405 1405 1405 1405\n"


def test_nothing_is_read_of_classes_before_the_first_label() -> None:
    """As plain Python, which checks indices, with arrays of no class."""
    none, right = np.empty(0), np.zeros((20, 2))

    correct_by_bin.py_func(none, 0, 0, 0, right, none)

    assert not right.any()


def test_messages_and_records_of_any_width_stay_in_their_memory() -> None:
    """The learner with most scratch, and the decoder of JSON."""
    assert checked(WIDE_SPAM) == "\n"


@pytest.mark.parametrize("name", WIDE)
def test_no_way_of_running_wide_records_changes_a_bit(name: str) -> None:
    """By ones, in a block, in cuts, saved: many fields, with the ends of their values."""
    assert wide_program(name, 0, most=130) == []


def test_wide_json_is_decoded_as_by_the_slow_path() -> None:
    """Schemas of up to 1,000 fields of each kind."""
    assert [line for seed in range(20) for line in codec_program(seed)] == []
