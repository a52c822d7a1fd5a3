"""What is shown of a configuration, right or wrong, holds no eight characters of a secret."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from consumers.base.errors import ConfigError
from consumers.base.secrets import masked
from consumers.config import Config, parse
from consumers.shard.models import build
from tests.config.every_key import SECRETS, SIGNING, TOKEN, every_key, place, shown, toml

IN_URL = "Rk4wTz8sHq2vBn6y"  # the password in a URL
SIGNATURE = "c5e1f7a90b3d8642" * 4  # in its query
CLEAR = "d4k-n0t/in+the=clear" * 3  # where no secret may stand
NEVER = (*SECRETS, IN_URL, SIGNATURE, CLEAR)
URL = f"s3://ann:{IN_URL}@bucket/path?token={TOKEN[::-1]}&X-Signature={SIGNATURE}"
WRONG: list[Any] = [
    5, -1, True, "", "x", "€" * 200, [], ["x"], [5], {}, {"x": 1}, URL, f"{URL} {URL}", [URL],
    {"password": CLEAR}, {"api_key": [CLEAR]}, "${env:HEADWATER_TEST_PASSWORD}",
    "${file:signing-key}", "${file:nothing}", "${env:NOTHING}", "${PASSWORD}",
]  # fmt: skip
INLINE = [CLEAR, [CLEAR], {"x": CLEAR}, {"key": CLEAR}]
SECRET_KEYS = ("password", "sasl_plain_password", "token", "private_key", "client_secret")


def paths(table: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every section and key."""
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


def changed(table: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The configuration with another value there; without the key where it is None."""
    copied = copy.deepcopy(table)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copied


def wrong() -> Iterator[dict[str, Any]]:
    """The configuration with one thing wrong."""
    table = every_key("fixed")
    for path in paths(table):
        yield changed(table, path, None)
        yield changed(table, (*path[:-1], f"{path[-1]}s"), "x")
        for value in WRONG:
            yield changed(table, path, value)
    sections = [(), *(path for path in paths(table) if isinstance(_at(table, path), dict))]
    for section in sections:  # a login in the wrong place, or in the clear
        for key in SECRET_KEYS:
            for value in INLINE:
                yield changed(table, (*section, key), value)
    for path in [("snapshots",), ("kafka",), ("snapshots", "key"), ("kafka", SECRET_KEYS[1])]:
        for value in INLINE:
            yield changed(table, path, value)
            yield changed(table, path, [{"key": value}])


def _at(table: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        table = table[key]
    return table


def leaked(text: str, directory: Path, refused: list[str]) -> list[str]:
    """Secrets in what can be seen of a configuration: the error with its traceback, or every repr.

    What is accepted is no secret but where one may stand: a field may be called like a URL.
    """
    try:
        config = parse(text, directory=directory)
    except ConfigError as error:
        refused.append(str(error))
        said = [str(error), repr(error), "".join(traceback.format_exception(error))]
        return shown("\n".join(said), NEVER)
    try:
        for model in (config.model, *config.challenger):
            build(model)
    except ConfigError as error:
        refused.append(str(error))
        if found := shown(f"{error}\n{error!r}", NEVER):
            return found
    return shown(f"{config!r}\n{config}\n{config.identity()}\n{config.topics}", SECRETS)


@pytest.fixture
def placed(tmp_path, monkeypatch) -> Path:
    """Where a configuration finds its secrets."""
    place(tmp_path, monkeypatch.setenv)
    return tmp_path


def test_nothing_shown_of_a_wrong_configuration_holds_a_secret(placed) -> None:
    """Each key missing, misspelt and of every wrong value; each login in each wrong place."""
    count, refused = 0, list[str]()
    for table in wrong():
        count += 1
        assert leaked(toml(table), placed, refused) == [], (table, refused[-1:])

    assert count > 2000
    assert len(refused) > count / 2


def test_nothing_shown_of_a_torn_file_holds_a_secret(placed) -> None:
    """Bytes cut out, doubled or put elsewhere: most of it is no TOML, or other keys."""
    text, random = toml(every_key("fixed")).replace(", ", ",\n"), Random(14)
    for _ in range(500):
        at, length = random.randrange(len(text)), random.randrange(1, 60)
        piece = random.choice(["", text[at : at + length] * 2, "\n", '"', "[[x]]\n"])
        torn = text[:at] + piece + text[at + length :]
        assert leaked(torn, placed, []) == [], torn


def test_pydantics_own_message_holds_no_value() -> None:
    """Whoever validates without `parse`, and logs what came of it."""
    for path in [("snapshots", "key"), ("snapshots",), ("name",), ("http", "port")]:
        table = changed(every_key("fixed"), path, SIGNING)
        with pytest.raises(ValidationError) as caught:
            Config.model_validate(table)
        assert shown(str(caught.value), NEVER) == []
        assert shown(repr(caught.value), NEVER) == []


def test_what_a_driver_repeats_of_a_url_is_masked(placed) -> None:
    """It knows the login and the token that it was given."""
    table = changed(every_key("fixed"), ("snapshots", "copy_to"), URL)
    parse(toml(table), directory=placed)

    assert shown(masked(f"denied: {IN_URL}, {SIGNATURE} and {SIGNING}"), NEVER) == []
