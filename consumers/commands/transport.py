"""Which log a command works on: `--transport URL` or the one of `--config CONFIG`."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.transports.protocol import Log

__all__ = ["ConfigOption", "TransportOption", "check_topics", "is_absent", "open_chosen"]

TransportOption = Annotated[
    str | None,
    typer.Option(
        "--transport", metavar="URL", help="The log: sqlite:FILE.db or kafka://HOST:PORT[,…]."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="CONFIG", help="Take the log of this configuration."),
]


def is_absent(url: str) -> bool:
    """Whether it names an embedded log whose file is not there, or not to be seen."""
    # Not Path.exists, which raises for a name that is too long, or behind what may not be read.
    return url.startswith("sqlite:") and not os.path.exists(Path(url[7:]))


def check_topics(config: Config, file: Path, wanted: Iterable[str], there: Collection[str]) -> None:
    """Whether the topics that a command needs are there.

    Raises
    ------
    ConfigError
        Some are not; names all of them, and what makes them.
    """
    from consumers.base.errors import ConfigError

    missing = [topic for topic in wanted if topic not in there]
    if missing:
        raise ConfigError(
            f"no topic {', '.join(missing)} on {config.input.transport}; "
            f"`headwater check {file} --create` makes missing topics"
        )


def open_chosen(
    transport: str | None, config: Path | None, *, existing: bool = False
) -> tuple[str, Log]:
    """The URL that was chosen and its log, opened.

    Parameters
    ----------
    existing
        Refuse a file that is not there, rather than make an empty one.

    Raises
    ------
    ConfigError
        None was chosen, or two; or no such file.
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
    kafka: Mapping[str, object] | None = None
    if config is not None:
        from consumers.config import load

        settings = load(config)
        transport, kafka = settings.input.transport, settings.kafka
    url = str(transport)
    if existing and is_absent(url):
        raise ConfigError(f"{url}: no such file; `headwater produce` makes one")
    return url, open_log(url, kafka=kafka)
