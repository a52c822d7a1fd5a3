"""The log of a command: `--transport URL` or that of `--config CONFIG`."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.transports.registry import forms, local_path

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = [
    "ConfigOption",
    "TransportOption",
    "check_topics",
    "has_directory",
    "is_absent",
    "open_chosen",
]

TransportOption = Annotated[
    str | None,
    typer.Option("--transport", metavar="URL", help=f"The log: {forms(private=False)}."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="CONFIG", help="Use the log of this configuration."),
]


def is_absent(url: str) -> bool:
    """Whether the URL names a path that does not exist or is not accessible."""
    path = local_path(url)
    # Not Path.exists, which raises if a name is too long or a directory is not readable.
    return path is not None and not os.path.exists(Path(path))


def has_directory(url: str) -> bool:
    """Whether the URL names a path in a directory that exists."""
    path = local_path(url)
    return path is not None and os.path.isdir(Path(path).parent)


def check_topics(config: Config, file: Path, wanted: Iterable[str], there: Collection[str]) -> None:
    """Check that the topics of a command exist.

    Raises
    ------
    ConfigError
        Some do not exist; names all of them, and the command that creates them.
    """
    from consumers.base.errors import ConfigError

    missing = [topic for topic in wanted if topic not in there]
    if missing:
        raise ConfigError(
            f"no topic {', '.join(missing)} on {config.input.transport}; "
            f"`headwater check {shlex.quote(str(file))} --create` creates missing topics"
        )


def open_chosen(
    transport: str | None, config: Path | None, *, existing: bool = False
) -> tuple[str, Log]:
    """The chosen URL and its log, opened.

    Parameters
    ----------
    existing
        Reject a file that does not exist, instead of creating an empty one.

    Raises
    ------
    ConfigError
        None or two are given, or the file does not exist.
    TransportError
        The log cannot be reached or opened.
    """
    from consumers.base.errors import ConfigError
    from consumers.transports import open_log

    if (transport is None) == (config is None):
        came = "neither" if transport is None else "both"
        raise ConfigError(
            f"expected --transport URL or --config CONFIG, got {came}; "
            "for example --transport sqlite:feed.db"
        )
    if config is None:
        url = str(transport)
        opened = partial(open_log, url)
    else:
        from consumers.config import load
        from consumers.config.load import log_of

        settings = load(config)
        url, opened = settings.input.transport, partial(log_of, settings)
    if existing and is_absent(url):
        raise ConfigError(f"{url}: no such file; `headwater produce` creates one")
    return url, opened()
