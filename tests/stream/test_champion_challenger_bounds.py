"""What a roster refuses, and what it lets go."""

from __future__ import annotations

import pytest

from stream import (
    GaussianBayes,
    GaussianNB,
)
from stream.contest.champion import MODEL
from stream.errors import SchemaError, StateError
from tests.stream.test_champion_challenger import contest, run, uneven, whole


def test_dismissed_challenger_leaves_the_others_as_they_were() -> None:
    """And the champion cannot be dismissed."""
    events = uneven(100)
    going, without = contest(), contest()
    for name in ("one", "two"):
        going.enroll(name, GaussianBayes(), 0)
    without.enroll("two", GaussianBayes(), 0)
    run(going, events[:100])
    run(without, events[:100])
    going.dismiss("one")
    run(going, events[100:], start=100)
    run(without, events[100:], start=100)

    assert whole(going) == whole(without)
    going.promote("two")
    with pytest.raises(SchemaError, match="promote another one first"):
        going.dismiss("two")


def test_new_challenger_does_not_inherit_how_another_of_its_name_did_of_late() -> None:
    """A block that was changed is a new model: an alarm must not promote it, empty, for the old."""
    going = contest()
    going.enroll("bayes", GaussianBayes(), 0)
    run(going, uneven(100))
    before = going._lately.best(MODEL)
    going.dismiss("bayes")
    going.enroll("bayes", GaussianBayes(), 100)

    assert (before, going._lately.best(MODEL)) == ("bayes", MODEL)


def test_roster_is_bounded_and_names_are_one_each() -> None:
    """Eight challengers, none twice, none that is not there."""
    going = contest()
    for i in range(8):
        going.enroll(f"c{i}", GaussianNB(), 0)

    with pytest.raises(SchemaError, match="at most 8"):
        going.enroll("c8", GaussianNB(), 0)
    with pytest.raises(SchemaError, match="already"):
        going.enroll("c3", GaussianNB(), 0)
    with pytest.raises(SchemaError, match="expected one of c0"):
        going.promote("c9")


def test_state_of_other_challengers_is_refused() -> None:
    """A roster is loaded into the same one."""
    one, other = contest(), contest()
    one.enroll("a", GaussianNB(), 0)
    other.enroll("b", GaussianNB(), 0)

    with pytest.raises(StateError, match="expected challengers"):
        other.load_state(one.to_state())
