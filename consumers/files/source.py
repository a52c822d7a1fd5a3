"""A place with files of one format, read one after the other as dicts of JSON values."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path, PurePosixPath
from pkgutil import iter_modules
from typing import NoReturn

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.fields import MISSING
from consumers.base.units import shown_url
from consumers.files.file import COMPRESSIONS, File, of_a_program
from consumers.files.format import Format, Options, Reader, Record, Wanted
from consumers.files.formats.jsonl import JsonlReader
from consumers.files.mails import in_maildir, looks_like_mail
from consumers.files.places import is_url, place_of
from consumers.files.tables import TableReader

__all__ = ["FileSource", "formats", "read_records"]


@cache
def formats() -> dict[str, Format]:
    """Name to format, by name.

    Examples
    --------
    >>> formats()["csv"].suffixes
    ('.csv', '.tsv')
    """
    folder = Path(__file__).parent / "formats"
    names = sorted(found.name for found in iter_modules([str(folder)]))
    entries: list[Format] = [
        import_module(f"{__package__}.formats.{name}").FORMAT for name in names
    ]
    return {entry.name: entry for entry in entries}


def format_named(name: str) -> Format:
    """The format that a user named.

    Raises
    ------
    ConfigError
        No format has this name.
    """
    found = formats().get(name.lower())
    if found is None:
        raise ConfigError(f"expected --format as one of {', '.join(formats())}, got {name!r}")
    return found


def format_of(file: File) -> Format | None:
    """The format by the suffix of a name; None if no format has it.

    Examples
    --------
    >>> from consumers.files.file import local_file
    >>> format_of(local_file(Path("visits.csv.gz"))).title
    'CSV'
    """
    return next((each for each in formats().values() if file.suffix in each.suffixes), None)


def known_suffixes() -> str:
    """All suffixes in one line, for messages."""
    names = ", ".join(suffix for each in formats().values() for suffix in each.suffixes)
    return f"{names} (also with {' '.join(each.suffix for each in COMPRESSIONS)})"


DEFAULT = "jsonl"  # the format of a pipe, which has no suffix
FIRST_LINE = 2**20  # bytes of it that are read


def _silent(line: str) -> None:
    """Reports nothing."""


class FileSource:
    """The files of a place, which can be read several times.

    Parameters
    ----------
    place
        A file, a directory, a pattern such as `visits-*.csv`, or a URL of them; or an open pipe.
    options
        What the user says about the files.
    say
        Reports what was guessed and what was left out, each in one line.

    Raises
    ------
    ConfigError
        There is no such file, the format is not known, or there are several.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "shops.csv")
    ...     _ = path.write_text("zip;price\\n01234;2,5\\n")
    ...     source = FileSource(path, say=lambda line: print(line.partition(": ")[2]))
    ...     list(source.records())
    read separated by ";"; --sep overrides it
    decimal commas in price: '2,5' is 2.5; --decimal overrides it
    [{'zip': '01234', 'price': 2.5}]
    """

    def __init__(
        self,
        place: str | Path | File,
        options: Options | None = None,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self.options, self._say = options or Options(), say
        self._readers: dict[int, Reader] = {}
        self._said: set[str] = set()
        self.decimal_marks: dict[str, str] = {}  # of the columns of a CSV, in the last reading
        text = str(place)
        if isinstance(place, File):
            self._shown, self._files = text, [place]
            self.format = format_named(self.options.format or DEFAULT)
            self.format.check(self.options, text)
            if not self.format.piped:
                raise ConfigError(
                    f"{self}: {self.format.title} cannot be read from a pipe; write it to a file "
                    "and give its name"
                )
            return
        kind = place_of(text)
        self._shown = shown_url(text) if is_url(text) else text
        files = kind.files(text)
        if not files:
            raise ConfigError(f"{self}: the {kind.name} has no files; check the name")
        if self.options.format is not None:
            self.format = format_named(self.options.format)
        elif kind.name == "directory" or len(files) > 1:
            files, self.format = self._of_one_format(files)
        else:
            self.format = format_of(files[0]) or _unknown(files[0])
        self.format.check(self.options, str(self))
        self._files = files if self.format.order is None else sorted(files, key=self.format.order)

    def __str__(self) -> str:
        return self._shown

    @property
    def name(self) -> str:
        """The last part of its name, without a query.

        Examples
        --------
        >>> FileSource("data/visits.csv.gz").name
        'visits.csv.gz'
        """
        return PurePosixPath(self._shown.partition("?")[0]).name

    def _of_one_format(self, files: list[File]) -> tuple[list[File], Format]:
        """The files of a directory or a pattern that have a format, and this format."""
        kinds: dict[str, list[File]] = {}
        for file in files:
            kind = format_of(file)
            if kind is not None and not PurePosixPath(file.path).name.startswith((".", "_")):
                kinds.setdefault(kind.name, []).append(file)
        if not kinds:
            if any(map(in_maildir, files)):
                raise ConfigError(
                    f"{self}: this looks like a Maildir, with mails in its folders cur and new; "
                    "give --format maildir"
                )
            mail = looks_like_mail(files[0]) if files else None
            do = "give --format" if mail is None else f"they look like mail: give --format {mail}"
            raise ConfigError(
                f"{self}: expected files with names ending in {known_suffixes()}, got "
                f"{len(files):,} others; {do}"
            )
        if len(kinds) > 1:
            counts = " and ".join(f"{len(kinds[name]):,} {name}" for name in sorted(kinds))
            raise ConfigError(
                f"{self}: expected files of one format, got {counts} files; give a pattern in "
                "quotes, for example '*.csv'"
            )
        [(name, found)] = kinds.items()
        rest = len(files) - len(found)
        left = f"; {rest:,} with other names left out" if rest else ""
        if any(in_maildir(file) for file in files if format_of(file) is None):
            left += " (--format maildir reads the mails in cur and new)"
        self._say(f"{self}: {counted(len(found), f'{format_named(name).title} file')}{left}")
        return found, format_named(name)

    def records(
        self,
        types: Mapping[str, str] | None = None,
        *,
        missing: Collection[str] = MISSING,
        verbatim: Collection[str | None] = (),
        marks: Mapping[str, str] | None = None,
        declared: frozenset[str] = frozenset(),
    ) -> Iterator[Record]:
        """The records of all files. For the arguments see `read_records`, and `Wanted`."""
        wanted = self._wanted(types, missing, verbatim, marks, declared)
        readers = (self._reader(number, file) for number, file in enumerate(self._files))
        return chain.from_iterable(reader.records(wanted) for reader in readers)

    @property
    def files(self) -> Sequence[File]:
        """Its files, in the order in which they are read."""
        return self._files

    def records_of(
        self,
        number: int,
        types: Mapping[str, str] | None = None,
        *,
        missing: Collection[str] = MISSING,
        verbatim: Collection[str | None] = (),
        marks: Mapping[str, str] | None = None,
    ) -> Iterator[Record]:
        """The records of one file, read as in `records`: the first file decides what is inferred
        for the columns of a CSV."""
        wanted = self._wanted(types, missing, verbatim, marks)
        if number and not self.format.typed:
            next(self._reader(0, self._files[0]).records(wanted), None)
        return self._reader(number, self._files[number]).records(wanted)

    def _wanted(
        self,
        types: Mapping[str, str] | None,
        missing: Collection[str],
        verbatim: Collection[str | None],
        marks: Mapping[str, str] | None,
        declared: frozenset[str] = frozenset(),
    ) -> Wanted:
        given = types or {}, frozenset(missing), verbatim, marks or {}, declared
        wanted = Wanted(*given, say=self._say_once)
        self.decimal_marks = wanted.decided
        return wanted

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)

    @property
    def tables(self) -> list[TableReader] | None:
        """A reader of each file, if the format has columns with types; else None."""
        readers = [self._reader(number, file) for number, file in enumerate(self._files)]
        tables = [reader for reader in readers if isinstance(reader, TableReader)]
        return tables if len(tables) == len(readers) else None

    @property
    def lines(self) -> list[JsonlReader] | None:
        """A reader of each file, if each line is a record; else None."""
        readers = [self._reader(number, file) for number, file in enumerate(self._files)]
        lines = [reader for reader in readers if isinstance(reader, JsonlReader)]
        return lines if len(lines) == len(readers) else None

    def _reader(self, number: int, file: File) -> Reader:
        """The reader of a file; reports what it guesses, once."""
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = self.format.reader(file, self.options)
            guesses = reader.guesses
            text = ", ".join(guess.text for guess in guesses)
            if guesses and text not in self._said:
                self._said.add(text)
                options = " and ".join(guess.option for guess in guesses)
                override = "overrides it" if len(guesses) == 1 else "override it"
                self._say(f"{file}: read {text}; {options} {override}")
        return reader


def read_records(
    place: str | Path,
    types: Mapping[str, str] | None = None,
    *,
    missing: Collection[str] = MISSING,
    verbatim: Collection[str | None] = (),
    options: Options | None = None,
) -> Iterator[Record]:
    """The records of a place, one after the other.

    A column of a CSV is numeric if each of its first 1,000 cells is a number without a leading
    zero. It is binary if each of them is true or false, in upper or lower case. A later cell of
    another kind stays a string. `consumers.files.cells` has the forms of numbers.

    Parameters
    ----------
    place
        See `FileSource`.
    types
        Column of a CSV to kind (numeric, binary, categorical, text), for columns that are not
        inferred. Other formats have types.
    missing
        Texts of a CSV that mean "no value", with or without spaces around them.
    verbatim
        Columns of a CSV in which only an empty cell means "no value" and 1.0 is the integer 1: ids
        and labels.
    options
        What is not guessed.

    Raises
    ------
    ConfigError
        Missing, unreadable, damaged, of another encoding, a record that is no JSON object, a row
        with more or fewer cells than the header, or an unknown column in `types`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "shops.csv")
    ...     _ = path.write_text("zip,price,open\\n01234,2.5,NA\\n53111,?,yes\\n")
    ...     list(read_records(path))
    [{'zip': '01234', 'price': 2.5}, {'zip': '53111', 'open': 'yes'}]
    """
    return FileSource(place, options).records(types, missing=missing, verbatim=verbatim)


def _unknown(file: File) -> NoReturn:
    """Raise the error of a file whose name has no known suffix."""
    do = "convert it, or give --format, such as --format csv"
    if (other := of_a_program(file.beginning(16))) is not None:
        do = other
    elif _json_lines(file):
        do = "its lines are JSON: give --format jsonl"
    elif (mail := looks_like_mail(file)) is not None:
        do = f"it looks like mail: give --format {mail}"
    raise ConfigError(f"{file}: expected a file name ending in {known_suffixes()}; {do}")


def _json_lines(file: File) -> bool:
    """Whether the first line of a file is a JSON object, whatever its name."""
    try:
        with file.opened() as stream:
            return isinstance(json.loads(stream.readline(FIRST_LINE)), dict)
    except (ConfigError, ValueError, RecursionError):
        return False
