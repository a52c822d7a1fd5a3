"""What a format of files is, and what is asked of its reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple, Protocol

from consumers.base.errors import ConfigError
from consumers.base.fields import MISSING
from consumers.base.units import decimal_marks
from consumers.files.cells import Convert
from consumers.files.encoding import checked_encoding
from consumers.files.file import File

__all__ = [
    "FIRST_LINE",
    "Assumption",
    "Format",
    "Options",
    "Reader",
    "Record",
    "Wanted",
    "as_records",
]

Record = dict[str, object]

FIRST_LINE = "first"  # --columns: the first line has the names
_NAMES = {"\\t": "\t", "tab": "\t", "space": " "}


class Assumption(NamedTuple):
    """Something that was guessed: in words, and the option that overrides it."""

    text: str
    option: str


@dataclass(frozen=True, slots=True)
class Options:
    """What the user says about files, None where it is guessed.

    Parameters
    ----------
    format
        The name of the format; by default the suffix says it.
    sep
        What separates the cells of a CSV: a character, or its name.
    encoding
        The encoding of a text.
    quote
        What quotes the cells of a CSV: a character, or `none`.
    columns
        The names of the columns of a CSV without a header, separated by commas. `first`: the first
        line has them, even if it looks like data.
    decimal
        The decimal mark of the numbers of a CSV, or those of its columns; see
        `consumers.files.dialect`.

    Raises
    ------
    ConfigError
        A value is not valid.
    """

    format: str | None = None
    sep: str | None = None
    encoding: str | None = None
    quote: str | None = None
    columns: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None:
            sep = _NAMES.get(self.sep, self.sep)
            if len(sep) != 1 or sep in '\r\n"':
                raise ConfigError(
                    f"expected --sep as one character, or as tab or space, got {self.sep!r}"
                )
            object.__setattr__(self, "sep", sep)
        if self.quote is not None and (
            self.quote != "none" and (len(self.quote) != 1 or self.quote in "\r\n ")
        ):
            raise ConfigError(f"expected --quote as one character or none, got {self.quote!r}")
        if self.quote is not None and self.quote == self.sep:
            raise ConfigError(f"--sep and --quote are both {self.sep!r}; give two characters")
        if self.encoding is not None:
            checked_encoding(self.encoding)
        names = self.names or ()
        if not all(names) or len(set(names)) < len(names):
            raise ConfigError(
                f"expected --columns as different names separated by commas, got {self.columns!r}"
            )
        try:
            _ = self.marks
        except ValueError as error:
            raise ConfigError(f"--decimal: {error}") from None

    @property
    def names(self) -> list[str] | None:
        """The names of the columns; None: they are in the first line."""
        if self.columns is None or self.columns == FIRST_LINE:
            return None
        return [name.strip() for name in self.columns.split(",")]

    @property
    def marks(self) -> dict[str, str]:
        """Column to decimal mark; `*` stands for all that prove none."""
        return {} if self.decimal is None else decimal_marks(self.decimal)

    @property
    def given(self) -> dict[str, str]:
        """Those that the user chose, without the format."""
        names = {character: name for name, character in _NAMES.items()}
        sep = None if self.sep is None else names.get(self.sep, self.sep)
        every = {
            "sep": sep,
            "encoding": self.encoding,
            "quote": self.quote,
            "columns": self.columns,
            "decimal": self.decimal,
        }
        return {name: value for name, value in every.items() if value is not None}


@dataclass(slots=True)
class Wanted:
    """How values are read.

    Parameters
    ----------
    types
        Column of a CSV to kind (numeric, binary, categorical, text), for columns that are not
        inferred.
    missing
        Texts of a CSV that mean "no value", with or without spaces around them.
    verbatim
        Columns of a CSV in which only an empty cell means "no value" and 1.0 is the integer 1: ids
        and labels.
    marks
        Column of a CSV to the decimal mark of its numbers; `*` to that of all columns that prove
        none.
    declared
        Fields of which a CSV must have at least one, if there are any.
    say
        Reports what was decided and is not usual, each in one line.
    converts, decided
        Column to its converter, and to its decimal mark, from earlier files: one place reads all
        its files alike.
    headers
        The different sets of columns of earlier files, the first one first.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    missing: frozenset[str] = MISSING
    verbatim: Collection[str | None] = ()
    marks: Mapping[str, str] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    say: Callable[[str], None] = lambda _line: None
    converts: dict[str, Convert] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)
    headers: list[frozenset[str]] = field(default_factory=list)


class Reader(Protocol):
    """Reads one file."""

    @property
    def guesses(self) -> Sequence[Assumption]:
        """What was guessed and is not what most files are."""

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """The records in the order of the file."""


def as_records(
    names: Sequence[str], columns: Sequence[Sequence[object]], count: int
) -> Iterator[Record]:
    """The records of columns, without the values that are None.

    Examples
    --------
    >>> list(as_records(["x", "y"], [[1, 2], [None, "b"]], 2))
    [{'x': 1}, {'x': 2, 'y': 'b'}]
    """
    if not columns:
        return ({} for _ in range(count))
    rows = map(zip, repeat(names), zip(*columns, strict=True))
    if any(None in column for column in columns):
        return ({name: value for name, value in row if value is not None} for row in rows)
    return map(dict, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    Parameters
    ----------
    name
        Its name, also for `--format`.
    title
        Its name in a sentence.
    suffixes
        The ends of the names of its files, with the dot.
    options
        The options that it understands, of `Options`.
    reader
        Makes the reader of a file.
    piped
        Whether it can be read from a pipe, from the beginning to the end.
    order
        The key by which the files of a place are sorted; None: their names.
    typed
        Whether its values have types. Otherwise `types`, `missing` and `verbatim` say how cells are
        read.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    options: frozenset[str]
    reader: Callable[[File, Options], Reader]
    order: Callable[[File], tuple[int, str]] | None = None
    typed: bool = True
    piped: bool = True

    def check(self, options: Options, origin: str) -> None:
        """Reject options that have no effect.

        Raises
        ------
        ConfigError
            One is given.
        """
        for name in options.given:
            if name not in self.options:
                raise ConfigError(f"{origin}: {self.title} has no --{name}; remove it")
