"""Lines of the log: for people, for machines, and without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from consumers.telemetry.log import JsonLines, Lines, Style, configure

logger = logging.getLogger("consumers.example")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    names = ("headwater", "consumers", "stream", "kafka")
    handlers, levels = root.handlers[:], [logging.getLogger(n).level for n in names]
    level = root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in zip(names, levels, strict=True):
        logging.getLogger(name).setLevel(was)


def test_text_line_has_time_level_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """A person reads one line on stderr."""
    configure("text", "info")
    logger.info("went live", extra={"records": 500, "topic": "my topic", "note": ""})

    out, err = capsys.readouterr()
    time, rest = err.split(" ", 1)
    assert out == ""
    assert time.endswith("Z")
    assert len(time) == len("2026-01-01T00:00:00.000Z")
    assert rest == 'info went live records=500 topic="my topic" note=""\n'


def test_json_line_is_one_object_with_typed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine reads one JSON object a line; a field cannot displace what each line has."""
    configure("json", "info")
    fields = {"records": 500, "ratio": float("nan"), "live": True, "level": "mine", "big": 2**80}
    logger.warning("two\nlines", extra=fields | {"odd": {"a"}, "half": "\ud800"})

    line = capsys.readouterr().err
    assert line.count("\n") == 1
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "logger": "consumers.example",
        "message": "two\nlines",
        "records": 500,
        "ratio": None,
        "live": True,
        "big": 2**80,
        "odd": "{'a'}",
        "half": "\\ud800",
    }


def test_record_cannot_forge_a_text_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends and terminal codes from data are made visible."""
    configure("text", "info")
    logger.info("got %s", "a\n2026 error fake\x1b[31m", extra={"id": "x\r\ny", "raw": "\x1b[0m"})

    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert "\r" not in line


@pytest.mark.parametrize("style", ["text", "json"])
def test_secrets_are_never_written(style: Style, capsys: pytest.CaptureFixture[str]) -> None:
    """Not in a message, a field, an address or a traceback."""
    configure(style, "info")
    logger.info("connect kafka://me:hunter2@broker:9092 sasl_plain_password='hunter2 hunter2'")
    logger.info("with", extra={"sasl_plain_password": "hunter2", "url": "x://u:hunter2@h"})
    logger.info('{"ssl_password": "hunter2", "client_secret":"hunter2"}')
    logger.info("Authorization: Bearer hunter2hunter2")
    try:
        raise ValueError("oauth_token=hunter2")
    except ValueError:
        logger.exception("failed")

    written = capsys.readouterr().err
    assert "hunter2" not in written
    assert written.count("***") >= 8
    assert "ValueError" in written


def test_words_that_only_look_like_secrets_stay(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of tokens are no secret."""
    configure("text", "info")
    logger.info("learned tokens=5000", extra={"max_tokens": 9})

    assert capsys.readouterr().err.endswith("learned tokens=5000 max_tokens=9\n")


def test_exception_is_logged_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of the program is shown whole: in text below the line, in JSON as a field."""
    for style in ("text", "json"):
        configure(style, "info")
        try:
            raise ZeroDivisionError("oh")
        except ZeroDivisionError:
            logger.exception("bug")

    text, _, line = capsys.readouterr().err.rstrip().rpartition("\n")
    assert text.splitlines()[-1] == "ZeroDivisionError: oh"
    assert json.loads(line)["exception"].endswith("ZeroDivisionError: oh")


def test_second_configure_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """No line is written twice, and handlers of others stay."""
    foreign = logging.NullHandler()
    logging.getLogger().addHandler(foreign)
    configure("json", "debug")
    configure("text", "info")
    logger.info("once")

    mine = [h for h in logging.getLogger().handlers if isinstance(h.formatter, Lines | JsonLines)]
    assert capsys.readouterr().err.count("once") == 1
    assert len(mine) == 1
    assert foreign in logging.getLogger().handlers


@pytest.mark.parametrize(
    ("level", "kafka", "ours", "others"),
    [
        ("debug", logging.INFO, logging.DEBUG, logging.WARNING),
        ("info", logging.WARNING, logging.INFO, logging.WARNING),
        ("error", logging.ERROR, logging.ERROR, logging.ERROR),
    ],
)
def test_libraries_are_quieter_than_we_are(level: str, kafka: int, ours: int, others: int) -> None:
    """The Kafka client is never heard below INFO: at DEBUG it prints whole requests."""
    configure("text", level)  # type: ignore[arg-type]

    assert logging.getLogger("kafka.conn").getEffectiveLevel() == kafka
    assert logging.getLogger("stream.x").getEffectiveLevel() == ours
    assert logging.getLogger("numba.core").getEffectiveLevel() == others
