"""[decision] in the file: what is accepted, and the one line about what is not."""

from __future__ import annotations

import pytest

from stream.decision import Budget
from tests.config.test_load import SMALLEST, config, problem

LOSSES = """
[decision]
reject = 2
[decision.losses]
lend = {pays = 0, defaults = 10.5}
refuse = {pays = 1, defaults = 0}
"""


def test_losses_and_reject_make_a_rule() -> None:
    """Whole numbers and fractions, actions that are no classes."""
    rule = config(LOSSES).decision.rule

    assert rule is not None
    assert rule.decide_one({"pays": 0.5, "defaults": 0.5}).action == "refuse"
    assert rule.decide_one({"pays": 0.75, "defaults": 0.25}).risks == {
        "lend": 2.625,
        "refuse": 0.75,
    }
    assert rule.reject_loss == 2


def test_nothing_is_decided_unless_something_is_configured() -> None:
    """Neither without the section nor with an empty one."""
    assert config("").decision.rule is None
    assert config("[decision]").decision.rule is None


def test_reject_alone_decides_by_the_number_of_mistakes() -> None:
    """The labels are the actions, and every mistake costs 1."""
    rule = config("[decision]\nreject = 0.3").decision.rule

    assert rule is not None
    assert rule.decide_one({"a": 0.75, "b": 0.25}).action == "a"
    assert rule.decide_one({"a": 0.625, "b": 0.375}).rejected


def test_rejecting_may_be_a_gain_where_actions_are() -> None:
    """A gain is a negative loss: what matters is whether an action can be worth more."""
    rule = config("[decision]\nreject = -1\nlosses.bet = {win = -5, lose = 3}").decision.rule

    assert rule is not None
    assert rule.decide_one({"win": 0.75, "lose": 0.25}).action == "bet"
    assert rule.decide_one({"win": 0.25, "lose": 0.75}).rejected


def test_budget_is_a_rule_of_its_own() -> None:
    """No losses are decided by, and nothing that is learned changes."""
    for label, name in (("true", "true"), ("1", "1"), ('"yes"', "yes")):
        text = f"[decision]\nmax_false_positive_rate = {{label = {label}, rate = 0.01}}"
        rule = config(text).decision.max_false_positive_rate
        assert rule is not None
        assert rule.label == name
    told = config('[decision]\nmax_false_positive_rate = {label = "spam", rate = 0.001}')

    assert told.decision.budget == Budget("spam", 0.001)
    assert told.decision.rule is None
    assert told.identity() == config("").identity()
    assert config("").decision.budget is None


def test_decisions_are_no_part_of_the_identity() -> None:
    """They change nothing that is learned, and may change at any time."""
    assert config(LOSSES).identity() == config("").identity()


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("reject = true", "[decision] reject: expected a number, got true"),
        ("reject = inf", "[decision]: reject_loss must be a number within ±1e100, got inf"),
        (
            "reject = -1",
            "[decision]: reject = -1 is less than any action can cost (0), so every record would "
            "be rejected; raise it",
        ),
        (
            "reject = 1\nlosses.a = {x = 2, y = 3}",
            "[decision]: reject = 1 is less than any action can cost (2), so every record would "
            "be rejected; raise it",
        ),
        ("losses = 3", "[decision] losses: expected a table, got 3"),
        (
            "losses = {}",
            "[decision]: losses must not be empty; leave them out for losses of 0 and 1",
        ),
        ('losses.a = {x = "1"}', "[decision] losses a x: expected a number, got '1'"),
        (
            "losses.a = {x = 1, y = 2}\nlosses.b = {x = 1}",
            "[decision]: losses['b'] has no loss for the case that 'y' is true; add it, for "
            "example losses.b = {x = 1, y = 0}",
        ),
        (
            'losses.a = {x = 2}\nmax_false_positive_rate = {label = "x", rate = 0.1}',
            "[decision]: max_false_positive_rate and losses exclude each other, because each "
            "decides alone; remove one of them",
        ),
        (
            'reject = 0.5\nmax_false_positive_rate = {label = "x", rate = 0.1}',
            "[decision]: max_false_positive_rate and reject exclude each other, because each "
            "decides alone; remove one of them",
        ),
        (
            'max_false_positive_rate = {label = "x", rate = 0.5}',
            "[decision] max_false_positive_rate: rate must be from 1e-06 and below 0.5, got 0.5",
        ),
        (
            'max_false_positive_rate = {label = "x"}',
            "[decision] max_false_positive_rate rate: required, but missing",
        ),
        (
            'max_false_positive_rate = {label = "x", rate = 0.1}\n[labels]\nsilence = "y"\n'
            'after = "1h"\ncorrections = true',
            "[labels] silence excludes [decision] max_false_positive_rate: it gives no label to "
            "flagged records, so false positives would not be counted; remove one of them",
        ),
        (
            '[labels]\nsilence = "y"\ncorrections = true\nlabel_frequency = 0.3',
            "[labels] label_frequency needs [decision] losses: without them everything above one "
            "half is put away, also by an early error, and what is put away teaches nothing",
        ),
        (
            'losses.a = {x = 2, y = 0}\n[labels]\nsilence = "y"\ncorrections = true\n'
            "label_frequency = 0.3\n[output]\nexplain = 3",
            "[labels] label_frequency and [output] explain exclude each other: an explanation is "
            "of the probability before it is corrected; remove one of them",
        ),
        (
            'max_false_positive_rate = {label = "x", rate = 0.1}\n[[challenger]]\nname = "n"\n'
            'type = "GaussianNB"',
            "[[challenger]] excludes [decision] max_false_positive_rate: the evidence is about "
            "one model; remove one of them",
        ),
        (
            'max_false_positive_rate = {label = "x", rate = 0.1}\n[drift]\naction = "reset"\n'
            'detectors = [{on = "error", type = "ADWIN"}]',
            "a [drift] action other than alert excludes [decision] max_false_positive_rate: the "
            "evidence is about the model that the action replaces; remove one of them",
        ),
        ("loses = {}", "[decision] loses: unknown key; did you mean 'losses'?"),
        (
            "max_false_positive_rate = 0.01",
            "[decision] max_false_positive_rate: expected a table {label = …, rate = …, "
            "min_learned = …, unsure = …, min_probability = …}, got 0.01",
        ),
        (
            'max_false_positive_rate = {label = "x", rate = 0.1, of = 1}',
            "[decision] max_false_positive_rate of: unknown key; known here: label, rate, "
            "min_learned, unsure, min_probability",
        ),
    ],
)
def test_wrong_decision_is_one_line(section: str, expected: str) -> None:
    """It names the section and what to do."""
    assert problem(f"{SMALLEST}[decision]\n{section}") == f"shop.toml: {expected}"
