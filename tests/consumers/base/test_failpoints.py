"""Failpoints: armed by a variable, exact about when, and nothing without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.base.failpoints import POINTS
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
PROGRAM = """
from consumers.base.failpoints import reach
for turn in range(4):
    print(turn, flush=True)
    reach("after_check")
"""


def run(armed: str | None) -> subprocess.CompletedProcess[str]:
    """The program above with the variable set."""
    environment = {k: v for k, v in os.environ.items() if k != "HEADWATER_FAILPOINT"}
    if armed is not None:
        environment["HEADWATER_FAILPOINT"] = armed
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_process_is_killed_at_the_time_that_was_named() -> None:
    """At the third, by SIGKILL, with the point's name as its last word."""
    ended = run("before_begin:kill,after_check:kill@3")

    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["0", "1", "2"]
    assert ended.stderr == "failpoint after_check\n"


def test_unset_or_other_points_change_nothing() -> None:
    """A run of four turns, silent."""
    for armed in (None, "", "in_commit:kill"):
        ended = run(armed)

        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.split() == ["0", "1", "2", "3"]


def test_raise_is_a_transport_error() -> None:
    """As if the broker had failed there."""
    ended = run("after_check:raise@2")

    assert ended.stdout.split() == ["0", "1"]
    assert "TransportError: failpoint after_check" in ended.stderr


@pytest.mark.parametrize("armed", ["nowhere:kill", "after_check:explode", "after_check"])
def test_unknown_point_or_action_is_refused(armed) -> None:
    """A fault plan with a slip must not pass for one that was survived."""
    ended = run(armed)

    assert f"expected NAME:kill|stop|sleep|raise[+MS][@N], NAME one of {POINTS[0]}" in ended.stderr
    assert ended.returncode != 0
