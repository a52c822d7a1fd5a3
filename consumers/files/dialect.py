"""How a CSV is written: what separates its cells, and what quotes them. Pure.

Rule: the first rows decide. A separator is likely if it gives all of them as many cells as the
header, and more than one. Of several, the one that gives most cells, then most numbers, is taken.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _csv import Reader

__all__ = ["LONGEST_CELL", "Dialect", "guessed_dialect", "named_sep", "rows_of"]

SEPARATORS = ",;\t|"
QUOTES = "\"'"
LOOKED_AT = 100  # rows
LONGEST_CELL = 1 << 24  # csv's default, 128 KiB, is below the 1 MiB of a record

_QUOTED = re.compile(r" *'[^']+'")
_NAMED_SEP = re.compile(r'"?sep=([^\w"\r\n])"?\r?\n', re.IGNORECASE)
_NUMBER = re.compile(r" *[+-]?[.,]*\d[\d.,]* *")
_NAMES = {"\t": "tabs", " ": "spaces"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV is written.

    Parameters
    ----------
    sep
        What separates the cells.
    quote
        What stands around cells that contain it; None: nothing.
    spaced
        Whether a space follows each separator.
    """

    sep: str = ","
    quote: str | None = '"'
    spaced: bool = False

    @property
    def separated(self) -> str:
        """In words, for messages.

        Examples
        --------
        >>> Dialect(";").separated, Dialect("\\t").separated
        ('separated by ";"', 'separated by tabs')
        """
        shown = _NAMES.get(self.sep, f'"{self.sep}"')
        return f"separated by {shown}"


def rows_of(lines: Iterator[str] | io.TextIOBase, dialect: Dialect) -> Reader:
    """The rows of a CSV. Quotes that are not closed are an error."""
    csv.field_size_limit(LONGEST_CELL)
    return csv.reader(
        lines,
        delimiter=dialect.sep,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
        skipinitialspace=dialect.spaced,
        strict=True,
    )


def named_sep(text: str) -> str | None:
    """The separator that the first line names for Excel, as in `sep=;`; None: it is another line.

    Examples
    --------
    >>> named_sep("sep=;\\r\\nx;y\\r\\n"), named_sep("sep=x,y\\n1,2\\n")
    (';', None)
    """
    found = _NAMED_SEP.match(text)
    return found and found[1]


def guessed_dialect(text: str, sep: str | None, quote: str | None, usual: str = ",") -> Dialect:
    """The dialect of a CSV.

    Parameters
    ----------
    text
        Its first lines.
    sep, quote
        The choices of the user; None is guessed. `quote` "none": nothing quotes.
    usual
        The separator if several are as likely.

    Examples
    --------
    >>> guessed_dialect("x;y\\n0,5;1\\n", None, None).sep
    ';'
    """
    seps = [sep] if sep is not None else [usual, *(s for s in SEPARATORS if s != usual)]
    if quote is not None:
        return _separated(text, seps, None if quote == "none" else quote)
    found = _separated(text, seps, QUOTES[0])
    names = _header(text, found)
    if QUOTES[0] in text or not names or not all(_QUOTED.fullmatch(name) for name in names):
        return found
    other = _separated(text, seps, QUOTES[1])
    rows, whole = _first(text, other)
    return other if whole and _width(rows) is not None else found


def _separated(text: str, seps: list[str], quote: str | None) -> Dialect:
    """The likely separator."""
    candidates = [_spaced(text, Dialect(sep, quote)) for sep in seps]
    if len(candidates) == 1:
        return candidates[0]
    tables = [_first(text, each)[0] for each in candidates]
    fits = [(_width(rows) or 0, _numbers(rows[1:])) for rows in tables]
    if max(fits)[0] > 1:
        return candidates[fits.index(max(fits))]
    # Some row is wrong: the header decides alone.
    headers = [len(_header(text, each)) for each in candidates]
    return candidates[headers.index(max(headers))]


def _spaced(text: str, dialect: Dialect) -> Dialect:
    """The dialect with `spaced`, if the header has a space after each separator."""
    header = _header(text, dialect)
    spaced = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    return Dialect(dialect.sep, dialect.quote, spaced and dialect.sep != " ")


def _header(text: str, dialect: Dialect) -> list[str]:
    return next(iter(_first(text, dialect, 1)[0]), [])


def _first(text: str, dialect: Dialect, n: int = LOOKED_AT) -> tuple[list[list[str]], bool]:
    """The first rows that are not empty, and whether no quote is wrong there."""
    rows: list[list[str]] = []
    reader = rows_of(iter(io.StringIO(text, newline="")), dialect)
    try:
        rows.extend(islice((row for row in reader if any(row)), n))
    except csv.Error:
        return rows, False
    return rows, True


def _numbers(rows: list[list[str]]) -> int:
    """How many cells look like numbers, with any decimal mark."""
    return sum(_NUMBER.fullmatch(cell) is not None for row in rows for cell in row)


def _width(rows: list[list[str]]) -> int | None:
    """How many cells each row has; None if they differ, except for empty ones at the end."""
    width = len(rows[0]) if rows else 0
    if all(len(row) >= width and not any(row[width:]) for row in rows):
        return width
    return None
