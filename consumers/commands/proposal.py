"""The configuration that `init` writes: its name, its place, and the log that it names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from consumers.base.errors import ConfigError
from consumers.transports.registry import local_path

__all__ = [
    "NameOption",
    "OutputOption",
    "check_directory",
    "check_new",
    "checked_name",
    "quoted",
    "relative",
    "write",
]

NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Name of the service; by default that of the source."),
]
OutputOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File to write; default NAME.toml.")
]


def checked_name(name: str) -> str:
    """`name`, if it can be the name of a service."""
    from consumers.config.propose import service_name

    if name != service_name(name):
        raise ConfigError(
            f"expected --name of up to 100 letters, digits, '.', '_' and '-', got {name!r}; "
            f"for example --name {service_name(name)}"
        )
    return name


def check_new(output: Path, *, force: bool) -> None:
    """Reject a file that exists, unless it may be replaced."""
    if output.exists() and not force:
        raise ConfigError(f"{output} exists; give --force to overwrite it or --output FILE")


def write(output: Path, text: str) -> None:
    """Write the configuration."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot write {output}: {e.strerror}; give --output FILE") from None


def check_directory(transport: str) -> None:
    """Reject a log that the next command could not create."""
    path = local_path(transport)
    directory = Path(path or "").parent
    if path is not None and not directory.is_dir():
        raise ConfigError(f"--transport {transport}: no directory {directory}; create it first")


def quoted(names: Iterable[str]) -> str:
    """Names of fields as a shell takes them, to choose from.

    Examples
    --------
    >>> quoted(["at", "Order Date"])
    "at or 'Order Date'"
    """
    return " or ".join(map(shlex.quote, names))


def relative(url: str, directory: Path) -> str:
    """A path of the command line, relative to the configuration in `directory`."""
    path = local_path(url)
    if path is None or Path(path).is_absolute():
        return url
    return f"{url.partition(':')[0]}:{os.path.relpath(path, directory)}"
