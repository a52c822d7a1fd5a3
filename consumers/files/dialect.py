"""How a CSV is written: what separates its cells, and what quotes them. Pure.

Rule: the first rows decide. A separator is likely if it gives all of them as many cells as the
header, and more than one. Of several, the one that gives most cells, then most numbers, is taken.

The decimal marks of the columns of a CSV. Pure.

Rule: a mark is given, or proven by the cells of its column, or by other columns, because one
program writes a file. Where each cell of a column is a number with either mark, and no column
proves one, the user is asked: 1.234 read as 1.234 instead of 1234 is wrong by a factor of 1000.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from consumers.base.units import EVERY
from consumers.files.cells import UNDECIDED, mark_of, readings

if TYPE_CHECKING:
    from _csv import Reader

__all__ = [
    "LONGEST_CELL",
    "Dialect",
    "decided",
    "guessed_dialect",
    "named_sep",
    "question",
    "rows_of",
]

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


_SHOWN = 5  # names in a message


class Decided(NamedTuple):
    """The marks of columns.

    Parameters
    ----------
    marks
        Column of numbers to its mark: a point, a comma, "" if no cell has one, or `UNDECIDED`.
    proven, by_others
        The columns whose cells prove their mark, and those whose mark is the one of other columns.
    """

    marks: dict[str, str]
    proven: list[str]
    by_others: list[str]

    def lines(self, columns: Mapping[str, Sequence[str]], given: Mapping[str, str]) -> list[str]:
        """What was decided and is not usual, one line for each reason.

        Examples
        --------
        >>> columns = {"price": ["9,50"], "sum": ["1.234"]}
        >>> for line in decided(columns, {}).lines(columns, {}):
        ...     print(line)
        decimal commas in price: '9,50' is 9.5
        decimal commas, as in other columns, in sum: '1.234' is 1234
        """
        odd = [n for n in self.proven if self.marks[n] == "," and n not in given]
        found = [("", [] if given.get(EVERY) == "," else odd)]
        found += [(", as in other columns,", self.by_others)]
        return [
            f"decimal {'commas' if self.marks[names[0]] == ',' else 'points'}{why} in "
            f"{_named(names)}: {_example(columns[names[0]], self.marks[names[0]])}"
            for why, names in found
            if names
        ]


def decided(
    columns: Mapping[str, Sequence[str]],
    given: Mapping[str, str],
    earlier: Iterable[str] = (),
    declared: Iterable[str] = (),
) -> Decided:
    """The decimal marks of columns, by their first cells.

    Parameters
    ----------
    columns
        Name to the cells that have a value.
    given
        Name to the mark that the user gives; `EVERY` to that of all columns that prove none.
    earlier
        Marks that columns of earlier files prove.
    declared
        The columns that are declared as numbers. Cells without a number prove nothing there.

    Examples
    --------
    >>> decided({"x": ["950", "1.234"], "y": ["7"]}, {}).marks
    {'x': '?', 'y': ''}
    >>> decided({"x": ["950", "1.234"], "y": ["7,5"]}, {})
    Decided(marks={'x': ',', 'y': ','}, proven=['y'], by_others=['x'])
    """
    own = {
        name: mark_of(list(filter(readings, cells)) if name in declared else cells)
        for name, cells in columns.items()
    }
    proven = {mark for mark in (*own.values(), *earlier) if mark in (".", ",")}
    others = proven.pop() if len(proven) == 1 else ""
    marks, by_others = {}, []
    for name, mark in own.items():
        if mark is None:
            continue
        if name in given:
            mark = given[name]
        elif mark in ("", UNDECIDED):
            by_given = given.get(EVERY, "")
            if mark == UNDECIDED and not by_given and others:
                by_others.append(name)
            mark = by_given or others or mark
        marks[name] = mark
    return Decided(marks, [name for name, mark in own.items() if mark in (".", ",")], by_others)


def question(columns: Mapping[str, Sequence[str]], found: Decided) -> str | None:
    """What to ask about columns whose mark nothing says; None without such.

    Examples
    --------
    >>> columns = {"sum": ["950", "1.234"]}
    >>> print(question(columns, decided(columns, {})))
    column 'sum': '1.234' is 1.234 or 1234, and no cell shows which; say --decimal '.' or ','
    """
    names = [name for name, mark in found.marks.items() if mark == UNDECIDED]
    if not names:
        return None
    cell, values = _telling(columns[names[0]])
    what = f"column {names[0]!r}" if len(names) == 1 else f"columns {_named(names)}"
    either = " or ".join(map(str, values))
    return f"{what}: {cell!r} is {either}, and no cell shows which; say --decimal '.' or ','"


def _telling(cells: Sequence[str]) -> tuple[str, list[object]]:
    """A cell that is another number with the other mark, and both numbers."""
    every = ((cell, list(readings(cell).values())) for cell in cells)
    return next(found for found in every if len(set(map(repr, found[1]))) > 1)


def _example(cells: Sequence[str], mark: str) -> str:
    """A cell with a mark, and the number that it is."""
    every = ((cell, readings(cell).get(mark)) for cell in cells)
    known = [(cell, number) for cell, number in every if number is not None]
    cell, number = next((each for each in known if {",", "."} & set(each[0])), known[0])
    return f"{cell.strip()!r} is {number}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown
