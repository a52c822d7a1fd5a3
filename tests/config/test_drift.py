"""[drift] in the file: what is accepted, and the one line about what is not."""

from __future__ import annotations

import pytest

from stream.drift import DriftRule, MonitorRule
from tests.config.test_load import SMALLEST, config, problem

BOTH = """
[drift]
action = "forget"
keep = 200
detectors = [
    {on = "error", type = "DDM", drift_threshold = 4},
    {on = "feature:height", type = "KSWIN", alpha = 0.0001, action = "alert"},
]
"""


def test_detectors_make_a_rule() -> None:
    """Parameters stand beside the type; an action of its own goes before that of the section."""
    assert config(BOTH).drift.rule == DriftRule(
        (
            MonitorRule("error", "DDM", {"drift_threshold": 4}, "forget"),
            MonitorRule("feature:height", "KSWIN", {"alpha": 0.0001}, "alert"),
        ),
        keep=200,
    )


def test_nothing_is_watched_unless_something_is_configured() -> None:
    """Neither without the section nor with one that names no detector."""
    assert config("").drift.rule == DriftRule()
    assert config('[drift]\naction = "reset"\nkeep = 5').drift.rule == DriftRule()


def test_drift_is_no_part_of_the_identity() -> None:
    """It may be changed at any time: what is watched is journaled."""
    assert config(BOTH).identity() == config("").identity()


@pytest.mark.parametrize(
    ("detector", "told"),
    [
        ('{type = "ADWIN"}', "on: required, but missing"),
        ('{on = "error", type = "ADVIN"}', "did you mean 'ADWIN'?"),
        ('{on = "accuracy", type = "ADWIN"}', 'on must be "error", "log_loss", "score" or'),
        ('{on = "score", type = "DDM"}', "DDM accepts only errors, got on = 'score'; use ADWIN"),
        ('{on = "error", type = "DDM", delta = 1}', "DDM has no parameter 'delta'"),
        ('{on = "error", type = "ADWIN", delta = inf}', "expected a finite number"),
        ('{on = "error", type = "ADWIN", delta = 7}', "delta must be a number"),
        ('{on = "error", type = "ADWIN", action = "stop"}', "'alert', 'forget', 'reset' or"),
        ('{on = "error", type = "KSWIN", window_size = 40}', "at least twice stat_size"),
    ],
)
def test_a_detector_that_cannot_be_is_one_line(detector, told) -> None:
    """What was expected, what came."""
    line = problem(f"[drift]\ndetectors = [{detector}]")

    assert "[drift]" in line
    assert told in line


def test_every_faulty_detector_is_told_at_once() -> None:
    """By its number; what is right is not mentioned."""
    detectors = (("error", "ADVIN"), ("error", "ADWIN"), ("score", "DDM"))
    listed = ", ".join(f'{{on = "{on}", type = "{name}"}}' for on, name in detectors)
    told = problem(f"[drift]\ndetectors = [{listed}]").splitlines()

    drift = [line for line in told if "[drift]" in line]
    assert len(drift) == 2
    assert "[drift] detectors number 1: expected a detector of" in drift[0]
    assert "[drift] detectors number 3: DDM accepts only errors" in drift[1]


def test_every_feature_that_cannot_be_watched_is_told_at_once() -> None:
    """In the one line about features."""
    detectors = ", ".join(f'{{on = "feature:{n}", type = "ADWIN"}}' for n in ("height", "town"))
    features = '[features]\nheights = "numeric"\ntown = "categorical"'
    told = problem(f"{SMALLEST}[drift]\ndetectors = [{detectors}]\n{features}")

    assert "no numeric feature 'height'; did you mean 'heights'?" in told
    assert "no numeric feature 'town'; only numbers can be watched" in told


def test_two_detectors_of_a_type_on_one_quantity_are_refused() -> None:
    """Their metrics could not be told apart."""
    twice = '{on = "error", type = "ADWIN"}, {on = "error", type = "ADWIN", delta = 0.1}'

    assert "ADWIN on error is there twice" in problem(f"[drift]\ndetectors = [{twice}]")


def test_to_choose_a_champion_takes_a_challenger() -> None:
    """The model alone is no choice."""
    one = '[drift]\naction = "challenger"\ndetectors = [{on = "error", type = "ADWIN"}]\n'
    rival = '[[challenger]]\nname = "rival"\ntype = "GaussianNB"\n'

    assert "there is one; add a [[challenger]]" in problem(SMALLEST + one)
    assert config(one + rival).drift.rule.chooses


def test_a_feature_that_is_declared_otherwise_is_refused_at_once() -> None:
    """With the name that was meant, where one is near; inferred ones are looked at the start."""
    one = '[drift]\ndetectors = [{on = "feature:height", type = "ADWIN"}]\n'

    told = problem(SMALLEST + one + '[features]\nheights = "numeric"')
    assert "no numeric feature 'height'; did you mean 'heights'?" in told
    told = problem(SMALLEST + one + '[features]\nheight = "categorical"')
    assert "only numbers can be watched" in told
    assert config(one + '[features]\nheight = "binary"').drift.rule.features == ("height",)
