"""No regular expression of the program takes longer than in proportion to its text."""

from __future__ import annotations

import re

import pytest

from tests.consumers.growing.patterns import Used, patterns, slow
from tests.seed import of_run

# In words what each did: a bracket that nothing closes, digits before a letter, spaces.
SLOW = {
    r"[\"'(][^\"')]*;": "search",
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+))\s*(px|pt|)(?![\w.])": "match",
    r"\s*!\s*important\s*$": "search",
    r"[^\s(]+(?:\([^)]*\))?": "findall",
    r" *[+-]?[\d.,]*\d[\d.,]* *": "fullmatch",
    r"(a+)+b": "match",
    r"(?:a|aa)*b": "fullmatch",
}
QUICK = {
    r"[\"'(][^\"'();]*;": "search",
    r"a*+b": "match",
    r"[^\s:]+:": "match",
    r"\w+|[^\w\s]+": "finditer",
}


@pytest.mark.parametrize("text", SLOW)
def test_slow_pattern_is_found(text: str) -> None:
    """Each was in the program, or takes exponential time."""
    assert slow(Used("", re.compile(text), SLOW[text]))


@pytest.mark.parametrize("text", QUICK)
def test_quick_pattern_is_not(text: str) -> None:
    assert slow(Used("", re.compile(text), QUICK[text]), of_run()) == ""


def test_no_pattern_takes_the_square_of_its_text() -> None:
    """Texts come from strangers: mails, requests, files, names of schemas."""
    every = patterns()
    found = [f"{used}: {text}" for used in every if (text := slow(used, of_run()))]

    assert len(every) > 100
    assert not found
