"""The files that a command reads, and the options that say how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.base.errors import ConfigError

if TYPE_CHECKING:
    from consumers.files.file import File
    from consumers.files.source import FileSource

__all__ = [
    "ColumnsOption",
    "DecimalOption",
    "EncodingOption",
    "FormatOption",
    "QuoteOption",
    "SepOption",
    "flags",
    "opened",
    "say_unit",
    "types_of",
]

FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of FILE; else by the end of its name."),
]
SepOption = Annotated[
    str | None,
    typer.Option("--sep", metavar="C", help="What separates the cells of a CSV: ';', tab, …"),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", metavar="E", help="Encoding of a text file: utf-8, cp1252, …"),
]
QuoteOption = Annotated[
    str | None,
    typer.Option("--quote", metavar="C", help="What quotes the cells of a CSV, or none."),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B", help="Names of columns; a CSV has no header then."),
]

DecimalOption = Annotated[
    str | None,
    typer.Option("--decimal", metavar="MARK|F=MARK", help="Decimal mark of a CSV: '.' or ','."),
]


def opened(
    place: str | File,
    name: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    quote: str | None = None,
    columns: str | None = None,
    decimal: str | None = None,
) -> FileSource:
    """The files of a place. What is guessed is reported on stderr.

    Raises
    ------
    ConfigError
        No file exists, or an option has no effect.
    """
    from consumers.files.format import Options
    from consumers.files.source import FileSource

    how = Options(name, sep, encoding, quote, columns, decimal)
    return FileSource(place, how, lambda line: typer.echo(line, err=True))


def flags(source: FileSource) -> list[str]:
    """The options with which a source was opened, for another command.

    Examples
    --------
    >>> from consumers.files.format import Options
    >>> from consumers.files.source import FileSource
    >>> flags(FileSource("visits.csv", Options(sep="tab")))
    ['--sep', 'tab']
    """
    how = source.options
    given = {**({"format": how.format} if how.format else {}), **how.given}
    return [word for name, value in given.items() for word in (f"--{name}", value)]


def types_of(pairs: Sequence[str], source: FileSource) -> dict[str, str]:
    """The kinds of `--types`: FIELD=KIND, several separated by commas.

    Raises
    ------
    ConfigError
        A pair has another form, or the values of the format have types.

    Examples
    --------
    >>> from consumers.files.source import FileSource
    >>> types_of(["zip=categorical,note=text"], FileSource("visits.csv"))
    {'zip': 'categorical', 'note': 'text'}
    """
    kinds = {}
    for pair in ",".join(pairs).split(",") if pairs else []:
        name, equals, kind = pair.rpartition("=")
        if not (name and equals and kind):
            raise ConfigError(f"expected --types FIELD=KIND, got {pair!r}; as in zip=categorical")
        kinds[name.strip()] = kind.strip()
    if kinds and source.format.typed:
        raise ConfigError(
            f"{source}: --types is for CSV only, because {source.format.title} has types; remove it"
        )
    return kinds


def say_unit(records: Iterable[Mapping[str, object]], time_field: str | None) -> None:
    """Say which unit the numbers of a field of time have, where their size says it, with the first
    moment: a wrong one is seen at once."""
    from datetime import UTC, datetime

    from consumers.base.fields import TimeField, field_of, timestamp_ms, unit_of

    name, unit = (None, None) if time_field is None else TimeField.of(time_field)
    first = None if name is None else next((field_of(record, name) for record in records), None)
    if unit is None and (found := unit_of(first)) is not None:
        moment = datetime.fromtimestamp(timestamp_ms(first) / 1000, UTC)
        typer.echo(
            f"time {name}: read in {found}, the first is {moment:%Y-%m-%d %H:%M:%S} UTC; "
            f"--time-field {name}:{'ms' if found == 's' else 's'} names another unit",
            err=True,
        )
