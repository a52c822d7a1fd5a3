"""A TOML file -> Config, or a ConfigError with one line for each fault; and the log of a Config.

Paths in the file are relative to the file. The secrets of [kafka] and [snapshots] key are
kept elsewhere and read here. No message and no repr of the configuration shows them.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from consumers.base.counts import NUMBERS, wrong_number
from consumers.base.errors import ConfigError
from consumers.base.secrets import DISTINCT, HIDDEN, Secret, masked, secret_key, without_login
from consumers.base.units import shown_url, shown_urls, url_secrets
from consumers.config.model import Config
from consumers.transports.registry import local_path

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["exposed_secrets", "load", "log_of", "message", "parse", "read_text", "section_of"]

# Section and key of each secret outside of [kafka].
SECRETS = (
    ("snapshots", "key"),
    ("serve", "read_token"),
    ("serve", "write_token"),
    ("registry", "password"),
    ("registry", "token"),
)

_POINTER = re.compile(r"\$\{(env|file):(.+)\}")

# By pydantic's error types. For the other types pydantic's message is used.
_EXPECTED = {
    **{kind: f"expected {number}" for kind, number in NUMBERS.items()},
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
    "dict_type": "expected a table",
    "mapping_type": "expected a table",
    "sequence_str": "expected a list",
    "is_instance_of": "expected a list",
    "model_type": "expected a section (a TOML table)",
    "string_too_short": "expected a text that is not empty",
    "tuple_type": "expected a list",
    # Pydantic checks one pattern only: that of names.
    "string_pattern_mismatch": (
        "expected up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
    ),
}


def load(path: Path) -> Config:
    """The configuration in a file.

    Raises
    ------
    ConfigError
        The file is missing or not TOML, or has wrong keys or values; one line for each fault.
    """
    text = read_text(path, "config file", "write one with `headwater init FILE`")
    return parse(text, source=str(path), directory=path.parent)


def parse(text: str, *, source: str = "config", directory: Path = Path()) -> Config:
    """The configuration in a text.

    Parameters
    ----------
    text
        TOML.
    source
        Its name in messages.
    directory
        The directory to which its paths are relative.

    Examples
    --------
    >>> config = parse('''
    ... name = "phishing"
    ... input = {transport = "sqlite:log.db", observations = "pages"}
    ... model = {type = "GaussianNB"}
    ... ''')
    >>> config.predictions_topic, config.commit.usual_records
    ('phishing-predictions', 5000)
    >>> parse('nam = "phishing"', source="feed.toml")
    Traceback (most recent call last):
    consumers.base.errors.ConfigError: feed.toml: nam: unknown key; did you mean 'name'?
    feed.toml: [input]: required, but missing
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        if source.lower().endswith((".csv", ".jsonl", ".ndjson", ".json", ".tsv")):
            raise ConfigError(
                f"{source}: expected a configuration, which is TOML, got a file of records by its "
                f"name; `headwater init {shlex.quote(source)}` writes a configuration for it"
            ) from None
        raise ConfigError(f"{source}: not valid TOML: {e}") from None
    wrong: list[str] = []
    if isinstance(raw.get("kafka"), dict):
        for key, value in raw["kafka"].items():
            try:
                raw["kafka"][key] = _pointed("kafka", key, value, source, directory)
            except ConfigError as e:
                wrong.append(str(e))
    for name, key in SECRETS:
        if isinstance(section := raw.get(name), dict) and key in section:
            try:
                section[key] = _pointed(name, key, section[key], source, directory, secret=True)
            except ConfigError as e:
                wrong.append(str(e))
                del section[key]  # report it once, and do not repeat the secret
    given = raw.get("input")
    if isinstance(given, dict) and isinstance(file := given.get("reader_schema"), str):
        try:
            given["reader_schema"] = _reader_schema(file, directory)
        except ConfigError as e:
            wrong.append(f"{source}: [input] reader_schema: {e}")
            del given["reader_schema"]
    snapshots = raw.get("snapshots")
    if isinstance(snapshots, dict) and isinstance(url := snapshots.get("copy_to"), str):
        _remember(url)
    try:
        config = Config.model_validate(raw)
    except ValidationError as e:
        wrong = [*(f"{source}: {line}" for line in _lines(e)), *wrong]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return _anchored(config, directory)


def _reader_schema(file: str, directory: Path) -> str:
    """The schema itself, because it decides what is learned, wherever its file is."""
    if "://" in file or "\0" in file:
        raise ConfigError(f"expected a file of this machine, got {shown_url(file)!r}")
    return read_text(directory / _home(file), "schema", "correct the path")


def _remember(url: str) -> None:
    """Mask the secrets of a URL in every message of a driver, except short ones."""
    for text in url_secrets(url):
        if len(text) >= DISTINCT:
            Secret(text)


def read_text(path: Path, what: str, remedy: str) -> str:
    """The text of a file the user named.

    Raises
    ------
    ConfigError
        It cannot be read. The message names `what` was expected and the `remedy`.
    """
    try:
        with open(path, encoding="utf-8-sig", opener=_without_waiting) as file:
            return file.read()
    except FileNotFoundError:
        raise ConfigError(f"no {what} {path}; {remedy}") from None
    except OSError as e:
        raise ConfigError(f"cannot read {what} {path}: {e.strerror}; check the path") from None
    except UnicodeDecodeError as e:
        raise ConfigError(
            f"{what} {path} is not UTF-8 (byte {e.start}); save it as UTF-8"
        ) from None


def _without_waiting(path: str, flags: int) -> int:
    """A named pipe to which nobody writes is empty. Opening it would wait for ever."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def exposed_secrets(path: Path) -> list[str]:
    """The files of secrets in a configuration that every user of this machine can read, each as a
    line of what to do. The configuration was read before.
    """
    lines = []
    for section, table in tomllib.loads(read_text(path, "config file", "correct the path")).items():
        for key, value in table.items() if isinstance(table, dict) else ():
            found = _POINTER.fullmatch(value) if isinstance(value, str) else None
            if found is None or found[1] != "file":
                continue
            file = path.parent / _home(found[2])
            with suppress(OSError):  # it was there a moment ago
                if file.stat().st_mode & stat.S_IROTH:
                    what = f"{file}, which [{section}] {key} names"
                    lines.append(f"every user of this machine can read {what}; chmod 600 it")
    return lines


def _anchored(config: Config, directory: Path) -> Config:
    snapshots = config.snapshots.model_copy(
        update={"directory": directory / _home(config.snapshots.directory)}
    )
    url = config.input.transport
    if (path := local_path(url)) is not None:
        url = f"{url.partition(':')[0]}:{directory / _home(path)}"
        config = config.model_copy(
            update={"input": config.input.model_copy(update={"transport": url})}
        )
    http = config.http
    if http.web_config is not None:
        http = http.model_copy(update={"web_config": directory / _home(http.web_config)})
    files = {key: getattr(config.registry, key) for key in ("ca", "certificate", "key")}
    registry = config.registry.model_copy(
        update={key: directory / _home(path) for key, path in files.items() if path is not None}
    )
    return config.model_copy(update={"snapshots": snapshots, "http": http, "registry": registry})


def _home(path: Path | str) -> str:
    # Not Path.expanduser, which raises if there is no user NAME for ~NAME.
    return os.path.expanduser(path)


def _pointed(
    section: str,
    key: str,
    value: object,
    source: str,
    directory: Path,
    *,
    secret: bool | None = None,
) -> object:
    """`value`, or what it points to, wrapped as a Secret if it must not be shown."""
    where = f"{source}: [{section}] {key}"
    secret = secret_key(key) if secret is None else secret
    pointer = isinstance(value, str) and _POINTER.fullmatch(value)
    if not pointer:
        if secret or (isinstance(value, str) and without_login(value) != value):
            if isinstance(value, str) and re.fullmatch(r"\$\{\w+\}", value):
                raise ConfigError(
                    f'{where}: expected "${{env:NAME}}" or "${{file:PATH}}", got braces without '
                    "either; write env: before the name of a variable"
                )
            # People copy, commit and share the file, but not the place it points to.
            raise ConfigError(
                f'{where}: expected "${{env:NAME}}" or "${{file:PATH}}", got a secret in the '
                "clear; move it to a variable or file that only the service reads"
            )
        return value
    kind, name = pointer.groups()
    if kind == "env":
        if name not in os.environ:
            raise ConfigError(f"{where}: environment variable {name} is not set; export it")
        return Secret(os.environ[name])
    try:
        text = read_text(directory / _home(name), "secret file", "create it or correct the path")
    except ConfigError as e:
        raise ConfigError(f"{where}: {e}") from None
    return Secret(text.rstrip("\r\n"))


def _lines(error: ValidationError) -> list[str]:
    lines, suggested = [], set()
    details = error.errors(include_url=False)
    for detail in details:
        if detail["type"] == "extra_forbidden":
            hint, known = _hint(detail["loc"])
            suggested.add(known)
            lines.append(f"{_where(detail['loc'])}: unknown key; {hint}")
    for detail in details:
        if detail["type"] == "missing":
            # One line is enough for a misspelt key.
            if detail["loc"] not in suggested:
                lines.append(f"{_where(detail['loc'])}: required, but missing")
        elif detail["type"] != "extra_forbidden":
            where, what = _where(detail["loc"]), message(detail)
            if detail["type"] == "model_type" and len(detail["loc"]) > 1:
                what = what.replace(_EXPECTED["model_type"], _table(detail["loc"]))
            lines.append(f"{where}: {what}" if where else what)
    return lines


def _hint(loc: tuple[int | str, ...]) -> tuple[str, tuple[int | str, ...]]:
    """What to write instead of an unknown key, and the key that was probably meant."""
    *parents, key = loc
    keys = _keys(parents)
    homes = [s for s in Config.model_fields if key in _keys([s])] if not parents else []
    if homes:
        return f"it belongs in [{homes[0]}]", ()
    near = get_close_matches(str(key), keys, n=1)
    if near:
        return f"did you mean {near[0]!r}?", (*parents, near[0])
    return f"known here: {', '.join(keys)}", ()


def section_of(annotation: object) -> type[BaseModel] | None:
    """The section that a key holds, alone or in a list; None if it holds none."""
    kind = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _keys(parents: list[int | str]) -> list[str]:
    fields = Config.model_fields
    for parent in parents:
        if isinstance(parent, int):  # an item of a list of sections
            continue
        annotation = fields[parent].annotation
        inner = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
        section = next(filter(None, map(section_of, inner)), None)
        if section is None:
            return []
        fields = section.model_fields
    return list(fields)


def _table(loc: tuple[int | str, ...]) -> str:
    """What is expected where a key holds a table."""
    keys = [] if isinstance(loc[-1], int) else _keys([*loc])
    shown = ", ".join(f"{key} = …" for key in keys)
    return f"expected a table {{{shown}}}" if keys else "expected a table"


def _where(loc: tuple[int | str, ...]) -> str:
    if not loc:
        return ""
    section = Config.model_fields.get(str(loc[0]))
    if section is None or loc[0] == "name":
        return ".".join(map(str, loc))
    many = section_of(section.annotation) not in (None, section.annotation)
    head, rest = f"[[{loc[0]}]]" if many else f"[{loc[0]}]", loc[1:]
    if many and rest:
        head, rest = f"{head} number {int(rest[0]) + 1}", rest[1:]
    names = (f"number {part + 1}" if isinstance(part, int) else part for part in rest)
    key = " ".join(part for part in names if part != "[key]")
    return f"{head} {key}" if key else head


def message(detail: ErrorDetails) -> str:
    """What pydantic expected and what it got, without secrets."""
    if detail["type"] == "value_error":
        return shown_urls(masked(str(detail["ctx"]["error"])))
    if detail["type"] == "too_long":
        most, came = detail["ctx"]["max_length"], detail["ctx"]["actual_length"]
        return f"expected at most {most}, got {came}"
    if detail["type"] == "tuple_type" and isinstance(detail["input"], Mapping):
        return "expected a list, got a table; a list of tables has two brackets: [[…]]"
    number = isinstance(detail["input"], int | float)  # a text may be a secret, see `_shown`
    if number and not _hides(detail) and (beyond := wrong_number(detail)) is not None:
        return beyond
    otherwise = detail["msg"].replace("Input should be", "expected", 1)
    expected = _EXPECTED.get(detail["type"], otherwise)
    return f"{expected}, got {HIDDEN if _hides(detail) else _shown(detail['input'])}"


def _hides(detail: ErrorDetails) -> bool:
    """Whether the value may be a secret, by its key, which can be misspelt."""
    whole = detail["loc"] in (("kafka",), ("snapshots",)) and isinstance(detail["input"], str)
    names = (name for part in detail["loc"] for name in str(part).split("."))
    return whole or any(map(secret_key, names))


def _shown(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "a table" if isinstance(value, Mapping) else "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = shown_urls(masked(repr(value)))  # mask before cutting: half a secret is not recognised
    return text if len(text) <= 80 else text[:77] + "..."


def log_of(config: Config) -> Log:
    """Open the log with all that the configuration says about it.

    Raises
    ------
    ConfigError
        The URL names no log.
    TransportError
        The log cannot be reached or opened.
    """
    from consumers.transports import open_log

    source = config.input
    return open_log(source.transport, kafka=config.kafka, key_headers=source.key_headers)
