"""Repeated log lines are limited; nothing is lost that happens rarely."""

from __future__ import annotations

import logging
from random import Random

from consumers.telemetry.log import REPEATS, Lines, configure
from consumers.telemetry.repeats import ALL_AT_ONCE, AT_ONCE, KINDS, Repeats


def line(text: str, level: int = logging.WARNING) -> logging.LogRecord:
    """A record."""
    return logging.LogRecord("headwater", level, "", 0, text, (), None)


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
    assert all(repeats.filter(line("detail", logging.DEBUG)) for _ in range(1000))


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
