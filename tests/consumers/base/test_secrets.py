"""A secret that was read is shown as *** whatever it turns up in: a log, a message, a traceback."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from consumers import cli
from consumers.base.errors import ConfigError, TransportError
from consumers.base.secrets import Secret, masked, redacted
from consumers.config import parse
from consumers.telemetry.log import Style, configure
from consumers.transports import open_log
from consumers.transports.kafka.errors import hear_client

CANARY = "canary-9c41'\"\\never-shown"  # a repr of it, and JSON, write it otherwise

CONFIG = """
name = "shop"
[input]
transport = "kafka://127.0.0.1:1"
observations = "orders"
[model]
type = "GaussianNB"
[kafka]
security_protocol = "SASL_SSL"
sasl_mechanism = "PLAIN"
sasl_plain_username = "ann"
sasl_plain_password = "${env:HEADWATER_TEST_CANARY}"
"""


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> str:
    """A password, read from the environment as a service would."""
    monkeypatch.setenv("HEADWATER_TEST_CANARY", CANARY)
    assert parse(CONFIG).kafka["sasl_plain_password"] == CANARY
    return CANARY


@pytest.fixture
def quiet() -> Iterator[None]:
    """Leave the log as it was found."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], level = before
    root.setLevel(level)


def shown(canary: str, text: str) -> bool:
    """Whether the text holds the canary, however it is quoted."""
    forms = {canary, repr(canary)[1:-1], json.dumps(canary)[1:-1], canary[:11]}
    return any(form in text for form in forms)


@pytest.mark.parametrize(
    "text",
    ["sasl_plain_password='hunter2 hunter2'", '{"ssl_password": "hunter2"}', "password=hunter2"],
)
def test_secret_that_is_a_name_of_secrets_hides_no_other(text: str) -> None:
    """Somebody's password is "password"."""
    Secret("password")

    assert "hunter2" not in redacted(text)


@pytest.mark.parametrize("style", ["text", "json"])
def test_log_masks_it_in_messages_fields_and_tracebacks(
    canary: str, quiet: None, style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    """At debug, where most is said."""
    configure(style, "debug")
    log = logging.getLogger("headwater")
    log.debug("connecting with %s", canary)
    log.debug("connecting with %r", {"password": canary, "other": str(canary)})
    log.debug("connecting", extra={"login": canary})
    try:
        raise TransportError(f"refused {canary}")
    except TransportError:
        log.exception("it failed")
    said = capsys.readouterr().err

    assert said.count("connecting") == 3
    assert "Traceback" in said
    assert "***" in said
    assert not shown(canary, said)


@pytest.mark.parametrize("debug", [False, True])
def test_command_masks_it_in_its_last_line_and_in_the_traceback(
    canary: str,
    debug: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also of an error nobody thought of, chained to another."""

    def fails() -> None:
        try:
            raise ValueError(f"inner {canary!s}")
        except ValueError as error:
            raise RuntimeError(f"outer {str(canary)!r}") from error

    if debug:
        monkeypatch.setenv("HEADWATER_DEBUG", "1")
    with pytest.raises(SystemExit) as ended:
        cli._reporting(fails)()
    said = capsys.readouterr().err

    assert ended.value.code == 1
    assert ("Traceback" in said) is debug
    assert "outer '***'" in said
    assert not shown(canary, said)


def test_check_masks_it_in_what_it_finds_wrong(
    canary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path is read from the environment too, and a message about it names it."""
    monkeypatch.setenv("HEADWATER_TEST_PATH", "/no/such/canary-9c41-path")
    path = tmp_path / "shop.toml"
    path.write_text(CONFIG + 'ssl_cafile = "${env:HEADWATER_TEST_PATH}"\n')
    code = cli.main(["check", str(path)])
    captured = capsys.readouterr()
    said = captured.out + captured.err

    assert code == 2
    assert "wrong    transport: [kafka] ssl_cafile cannot be read" in said
    assert not shown(canary, said)


@pytest.mark.parametrize("level", [logging.NOTSET, logging.DEBUG, logging.WARNING])
def test_the_clients_log_is_never_below_info(level: int) -> None:
    """At DEBUG it prints its settings, passwords included, and every key and value."""
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(level)
    try:
        hear_client()

        assert logger.level == max(level, logging.INFO)
    finally:
        logger.setLevel(before)


def test_login_in_a_transport_is_refused_and_not_shown() -> None:
    """The client would take it for a host's name."""
    with pytest.raises(ConfigError) as caught:
        open_log("kafka://ann:canary-9c41@broker:9092")

    assert str(caught.value) == (
        "expected kafka://HOST:PORT[,HOST:PORT…], got 'kafka://***@broker:9092': a login is "
        "given as sasl_plain_username and sasl_plain_password in [kafka]"
    )


def test_short_secret_is_masked_where_it_stands_alone() -> None:
    """Masking every letter of it would make messages unreadable, and tell it."""
    Secret("qz7")

    assert masked("refused qz7, not qz78") == "refused ***, not qz78"


def test_secret_within_a_longer_one_leaves_no_rest() -> None:
    """The longer one is masked first."""
    Secret("part-of-a-secret")
    Secret("part-of-a-secret-that-is-longer")

    assert redacted("it is part-of-a-secret-that-is-longer") == "it is ***"


def test_empty_secret_masks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable is no text to look for."""
    monkeypatch.setitem(os.environ, "HEADWATER_TEST_CANARY", "")
    parse(CONFIG)

    assert masked("as it was") == "as it was"
