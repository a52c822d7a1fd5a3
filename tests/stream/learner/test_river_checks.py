"""river's own checks hold for every shipped learner, with default parameters."""

from __future__ import annotations

import random
from functools import cache

import pytest
from river import checks

from stream.checks.__main__ import shipped
from stream.checks.streams import takeable, takes

# Name of a check to why it is left out. Empty: nothing is.
LEFT_OUT: dict[str, str] = {}
# Checks with their first data set only: what they find is not in the values of records.
ONCE = {"check_bounded_memory_growth": "test_growth.py compares bytes with their bounds"}


@cache
def fractions(kind) -> bool:
    """Whether learners of this kind take them."""
    return takes(kind(), 0.5)


def on_records_it_takes(learner, check):
    """The check, its data set in whole numbers where the learner refuses fractions."""
    if "dataset" in getattr(check, "keywords", {}) and not fractions(type(learner)):
        taken = takeable(learner)
        check.keywords["dataset"] = [(taken(x), y) for x, y in check.keywords["dataset"]]
    return check


def cases():
    """Each check of each learner, with the number of its data set in the id."""
    for learner in shipped():
        seen: dict[str, int] = {}
        for check in checks.yield_checks(learner):
            name = check.__name__
            if name in LEFT_OUT:
                continue
            seen[name] = seen.get(name, -1) + 1
            if seen[name] and name in ONCE:
                continue
            yield pytest.param(learner, check, id=f"{type(learner).__name__}-{name}-{seen[name]}")


@pytest.mark.parametrize(("learner", "check"), list(cases()))
def test_learner_passes_rivers_check(learner, check) -> None:
    """A learner is a river classifier in every respect river checks."""
    random.seed(0)  # the checks draw features from the global generator

    on_records_it_takes(learner, check)(learner.clone())


def test_no_learner_skips_a_check_of_river() -> None:
    """A check is left out here, with its reason, or not at all."""
    skipped = {name for learner in shipped() for name in learner._unit_test_skips()}

    assert skipped <= set(LEFT_OUT)
