"""The files that a command reads, the options that say how, and their first reading: a file is read
as a whole, so that errors are found before anything is written or learned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.base.counts import first_ones
from consumers.base.errors import ConfigError
from consumers.commands.meter import Meter
from consumers.files.pipe import STDIN, Pipe

if TYPE_CHECKING:
    from consumers.files.file import File
    from consumers.files.source import FileSource
    from consumers.offline.feed import LateLabels

__all__ = [
    "ColumnsOption",
    "DecimalOption",
    "EncodingOption",
    "FormatOption",
    "QuoteOption",
    "SepOption",
    "Survey",
    "flags",
    "moment_text",
    "opened",
    "pipe_of",
    "say_unit",
    "survey",
    "types_of",
    "zones_text",
]

ZONES = 1000  # times that are looked at for their zones

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


def pipe_of(
    file: str, *, rate: float | None, delay: str, envelope: bool, resume: Path | None
) -> Pipe | None:
    """Standard input, if the file is `-`. Refuses options that the other kind has."""
    if file != STDIN:
        if envelope or resume is not None:
            raise ConfigError("--envelope and --resume are for stdin; give - as FILE, or remove")
        return None
    if rate is not None or delay != "0":
        raise ConfigError("--rate and --delay are for files; stdin is written when it arrives")
    if resume is not None and not envelope:
        raise ConfigError(
            "--resume needs --envelope, whose lines say where each record comes from; add it here "
            "and to `headwater tail`"
        )
    if sys.stdin is None:  # another file may have its number
        raise ConfigError("expected records on stdin, but it is closed; open it, or give a file")
    return Pipe()


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
    """Say what is not written in the times of a field: the unit of numbers, where their size says
    it, with the first moment, and the zone of texts. What is wrong is seen at once."""
    from consumers.base.fields import TimeField, field_of, timestamp_ms, unit_of

    if time_field is None:
        return
    name, unit = TimeField.of(time_field)
    times = [field_of(record, name) for record in islice(records, ZONES)]
    first = times[0] if times else None
    if unit is None and (found := unit_of(first)) is not None:
        typer.echo(
            f"time {name}: read in {found}, the first is {moment_text(timestamp_ms(first))} UTC; "
            f"--time-field {name}:{'ms' if found == 's' else 's'} names another unit",
            err=True,
        )
    elif (line := zones_text(times)) is not None:
        typer.echo(f"time {name}: {line}", err=True)


def zones_text(times: Sequence[object]) -> str | None:
    """The line about times without a zone; None if each has one, or is no text.

    Examples
    --------
    >>> print(zones_text(["2026-03-29 02:30"]))
    no zone, read as UTC; write one, as in 2026-03-29T02:30+02:00, if it is another
    >>> print(zones_text(["2026-03-29 02:30", "2026-03-29T02:30Z"]))
    1 of the first 2 values has no zone and is read as UTC, beside others; write one in each
    """
    texts = [text for text in times if isinstance(text, str)]
    naive = [text for text in texts if not _has_zone(text)]
    if not naive:
        return None
    if len(naive) == len(texts):
        return "no zone, read as UTC; write one, as in 2026-03-29T02:30+02:00, if it is another"
    verbs = "has no zone and is" if len(naive) == 1 else "have no zone and are"
    return (
        f"{len(naive):,} of {first_ones(len(texts), 'value')} {verbs} read as UTC, beside others; "
        "write one in each"
    )


def _has_zone(text: str) -> bool:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:  # it is refused where it is used
        return True


def moment_text(ms: int) -> str:
    """A time in UTC, to the second.

    Examples
    --------
    >>> moment_text(1_700_000_000_999)
    '2023-11-14 22:13:20'
    """
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"


METERED = 100  # records between two looks at the clock


@dataclass(slots=True)
class Survey:
    """Counts of a first reading of the file."""

    records: int = 0
    labels: int = 0
    without_id: int = 0
    in_order: bool = True


def survey(
    records: Iterable[Mapping[str, object]],
    origin: str,
    labels: LateLabels | None,
    time_field: str | None,
    id_field: str = "id",
) -> Survey:
    """Read the whole file once, so that errors are found before the first record is written.

    Raises
    ------
    ConfigError
        No records, no labels, or an invalid time or id; the message names `origin`.
    """
    from consumers.base.fields import field_of, time_of
    from consumers.offline.feed import id_of

    found = Survey()
    latest = 0
    names: set[str] = set()
    with Meter("records read") as meter:
        for record in records:
            id_ = field_of(record, id_field)
            if id_ is None:
                found.without_id += 1
            elif type(id_) is not str or not id_:
                id_of(found.records, record, id_field)
            found.records += 1
            if not found.records % METERED:
                meter.advance(METERED)
            if labels is not None:
                found.labels += field_of(record, labels.field) is not None
                if not found.labels:
                    names.update(record)
            if time_field is not None:
                try:
                    timestamp = time_of(record, time_field)
                except ValueError as error:
                    where = f"{origin}: record {found.records}, field {time_field!r}"
                    raise ConfigError(f"{where}: {error}") from None
                found.in_order &= timestamp >= latest
                latest = timestamp
    if not found.records:
        raise ConfigError(f"{origin}: expected records, got none; nothing was written")
    if labels is not None and not found.labels:
        shown = ", ".join(sorted(names)[:20])
        raise ConfigError(
            f"{origin}: no record has a label in field {labels.field!r}; fields are {shown}"
        )
    return found
