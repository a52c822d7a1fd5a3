"""Repeated log lines are limited; nothing is lost that happens rarely."""

from __future__ import annotations

import ast
import logging
import re
from functools import cache
from pathlib import Path
from random import Random

import pytest

import consumers
from consumers.service.runner import _report
from consumers.telemetry.log import ALL_AT_ONCE, AT_ONCE, KINDS, REPEATS, Lines, Repeats, configure


def line(text: str, *args: object, level: int = logging.WARNING) -> logging.LogRecord:
    """A record."""
    return logging.LogRecord("headwater", level, "", 0, text, args, None)


def test_line_that_repeats_is_limited_and_says_how_many_were_left_out() -> None:
    """A thousand times a second for a minute: 20, then one in five seconds."""
    now = [0.0]
    repeats = Repeats(lambda: now[0])
    passed = []
    for n in range(60_000):
        now[0] = n / 1000
        if repeats.filter(record := line(f"cannot accept <socket 0x{n:x}> of {n}")):
            passed.append(record)

    assert len(passed) == AT_ONCE + 11
    assert sum(getattr(each, "left_out", 0) for each in passed) <= repeats.left_out
    assert repeats.left_out == 60_000 - len(passed)
    assert "left_out=4999" in Lines().format(passed[-1])


def test_other_lines_pass_and_lines_of_debugging_all_do() -> None:
    """One kind that floods takes no other's place."""
    repeats = Repeats(lambda: 0.0)
    for _ in range(10_000):
        repeats.filter(line("flood"))

    assert repeats.filter(line("a snapshot failed"))
    assert all(repeats.filter(line("detail", level=logging.DEBUG)) for _ in range(1000))


def test_lines_of_every_kind_are_limited_together_and_few_kinds_remembered() -> None:
    """Lines whose text always differs are a flood too."""
    repeats, random = Repeats(lambda: 0.0), Random(0)
    words = ["".join(random.choices("abcdefgh", k=12)) for _ in range(5000)]

    assert sum(repeats.filter(line(word)) for word in words) == ALL_AT_ONCE
    assert len(repeats._kinds) == KINDS


def test_configured_log_is_limited() -> None:
    """The filter is on the handler, so that lines of libraries pass it too."""
    configure()
    handlers = [h for h in logging.getLogger().handlers if REPEATS in h.filters]
    try:
        assert len(handlers) == 1
    finally:
        logging.getLogger().removeHandler(handlers[0])


CALLS = {"debug", "info", "warning", "error", "exception", "critical"}


@cache
def templates() -> list[str]:
    """The first argument of every call of a logger in the service, if it is a text."""
    found = []
    for path in sorted(Path(consumers.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            ours = node.func.attr in CALLS and getattr(node.func.value, "id", "") == "log"
            if ours and isinstance(first := node.args[0], ast.Constant):
                found.append(first.value)
    return found


@pytest.mark.parametrize("flooding", sorted(set(templates())))
def test_flood_of_one_line_hides_no_other(flooding) -> None:
    """Whatever the service logs: the flood says one thing, every other line another."""
    repeats = Repeats(lambda: 0.0)

    def logged(template: str, word: str) -> bool:
        places = re.findall(r"%[^a-z%]*([a-z%])", template)
        args = [word if place in "sr" else 1 for place in places if place != "%"]
        return repeats.filter(line(template, *args))

    assert sum(logged(flooding, "flood") for _ in range(1000)) == AT_ONCE
    assert [each for each in templates() if each != flooding and not logged(each, "rare")] == []
    assert logged(flooding, "rare") is ("%s" in flooding and not re.search("[a-z]{2}", flooding))


def test_trials_are_told_beside_a_flood_of_other_lines() -> None:
    """That a record was condemned is logged once."""
    repeats = Repeats(lambda: 0.0)
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(repeats)
    log = logging.getLogger("headwater")
    log.addHandler(handler)
    try:
        for n in range(1000):
            log.warning("%s", f"the last start died {n} times")
        _report(["3 of 3 child processes died of one record (SIGSEGV)"])
    finally:
        log.removeHandler(handler)

    assert len(told) == AT_ONCE + 1
    assert told[-1].startswith("3 of 3 child processes")


def test_line_with_wrong_arguments_is_left_to_the_handler() -> None:
    """A limit on lines raises nothing where somebody logs."""
    repeats = Repeats(lambda: 0.0)

    assert repeats.filter(line("%d", "no number"))
    assert repeats.filter(line("%s %s", "one"))
    assert repeats.filter(line("50 %", 1))
