"""CSV and TSV.

Rule: cells without a value are left out: empty ones, and texts such as `NA`. In the columns of ids
and labels only empty cells are left out, because `-`, `None` and `NA` are classes and ids in many
tables.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain, count, islice
from typing import TYPE_CHECKING

from consumers.base.errors import ConfigError
from consumers.base.fields import is_missing
from consumers.files.cells import (
    CONVERTS,
    Convert,
    guessed,
    guessed_name,
    is_no_record,
    is_number,
    units_text,
    values_of,
)
from consumers.files.dialect import (
    LONGEST_CELL,
    Dialect,
    decided,
    guessed_dialect,
    named_sep,
    question,
    rows_of,
)
from consumers.files.encoding import SAMPLE, encoding_of, text_of, title_of
from consumers.files.file import File, shortened
from consumers.files.format import (
    FIRST_LINE,
    Assumption,
    Format,
    Options,
    Record,
    Wanted,
    as_records,
)

if TYPE_CHECKING:
    from _csv import Reader

__all__ = ["FORMAT", "CsvReader"]

SAMPLED_ROWS = 1000  # rows that decide whether a column is numeric
COMPARED_ROWS = 200  # rows with which the first and the last one are compared
AT_ONCE = 1000  # rows whose columns are converted at once
ROW_NAMES = "index"  # of a first column without a name: pandas and R write row names there

_NAME_IT = "give each column its own name"
_Column = tuple[str, Convert, frozenset[str] | None]  # name, converter, texts that mean no value


class CsvReader:
    """Reads a CSV. Its first MiB decides how it is written."""

    def __init__(self, file: File, options: Options) -> None:
        self._file, self._options = file, options

    @cached_property
    def _looked(self) -> tuple[str, Dialect, bool]:
        """Encoding, dialect, and whether the first line is Excel's `sep=;`."""
        with self._file.opened() as stream:
            sample = stream.read(SAMPLE)
        encoding = encoding_of(self._file, sample, self._options.encoding)
        text = sample.decode(encoding, "replace")
        if len(sample) == SAMPLE:
            text = text[: text.rfind("\n") + 1] or text
        text = text.removeprefix("\ufeff")
        named = named_sep(text)
        if named is not None:
            text = text.partition("\n")[2]
        usual = "\t" if self._file.suffix == ".tsv" else ","
        given = self._options
        dialect = guessed_dialect(text, given.sep or named, given.quote, usual)
        return encoding, dialect, named is not None

    @property
    def guesses(self) -> Sequence[Assumption]:
        """Encoding, separator and quotes, if they are not the usual ones."""
        encoding, dialect, named = self._looked
        found = []
        given = self._options
        if given.encoding is None and not encoding.startswith("utf-8"):
            found.append(Assumption(f"as {title_of(encoding)}", "--encoding"))
        usual = "\t" if self._file.suffix == ".tsv" else ","
        if given.sep is None and not named and dialect.sep != usual:
            found.append(Assumption(dialect.separated, "--sep"))
        if given.quote is None and dialect.quote != '"':
            found.append(Assumption(f"quoted by {dialect.quote}", "--quote"))
        return found

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """The rows as records. `consumers.files.cells` reads their values."""
        return chain.from_iterable(self._parts(wanted))  # without a call of Python for each record

    def _parts(self, wanted: Wanted) -> Iterator[Iterable[Record]]:
        """The records of some rows, and so on; of a pipe one by one, when they arrive."""
        with self._rows() as rows:
            header, data = self._header(rows, wanted)
            self._compare(frozenset(header), wanted)
            absent = [None if name in wanted.verbatim else wanted.missing for name in header]
            filled = self._filled(rows, header, 1 if self._file.live else AT_ONCE)
            first, most, failed = data, self._most_sampled(), None
            try:
                while len(first) < most and (more := next(filled, None)) is not None:
                    first += more
            except (ConfigError, csv.Error, UnicodeDecodeError) as error:
                failed = error  # the rows before it are records
            sample = self._usual(first[:most], wanted, whole=len(first) < most)
            cells = [
                [row[i] for row in sample if not _absent(row[i], absent[i])]
                for i in range(len(header))
            ]
            if any(not name and some for name, some in zip(header, cells, strict=True)):
                raise ConfigError(
                    f"{self._file}: the header has a column without a name; {_NAME_IT}"
                )
            self._decide(dict(zip(header, cells, strict=True)), wanted)
            converts = [self._convert(*each, wanted) for each in zip(header, cells, strict=True)]
            columns = list(zip(header, converts, absent, strict=True))
            last: list[str] = []
            for some in chain([first] if first else [], filled):
                yield _records(some, columns)
                last = some[-1]
            if failed is not None:
                raise failed
            if len(first) >= most and is_no_record(last, sample[:COMPARED_ROWS]):
                wanted.say(self._no_record("the last line", last))

    def _compare(self, names: frozenset[str], wanted: Wanted) -> None:
        """Report a header with other columns than those of the first file, each once."""
        if names in wanted.headers:
            return
        wanted.headers.append(names)
        first = wanted.headers[0]
        parts = [
            f"{what} {shortened(', '.join(sorted(some)))}"
            for what, some in (("lacks", first - names), ("also has", names - first))
            if some
        ]
        if parts:
            wanted.say(f"{self._file}: it {' and '.join(parts)}, unlike the first file")

    def _usual(self, rows: list[list[str]], wanted: Wanted, *, whole: bool) -> list[list[str]]:
        """The rows that decide the kinds of the columns: without a first one, and if these are all
        rows of the file, a last one, that looks like no record. That is reported."""
        if rows and is_no_record(rows[0], rows[1:COMPARED_ROWS]):
            wanted.say(self._no_record("the first line after the header", rows[0]))
            rows = rows[1:]
        if whole and rows and is_no_record(rows[-1], rows[:-1][:COMPARED_ROWS]):
            wanted.say(self._no_record("the last line", rows[-1]))
            rows = rows[:-1]
        return rows

    def _no_record(self, which: str, row: Sequence[str]) -> str:
        """The line about a row that is read as a record and may be none."""
        return (
            f"{self._file}: {which} looks like no record ({shortened(', '.join(row))}): it is read "
            "as one; remove it if it is a sum, a count or a line of units"
        )

    def _most_sampled(self) -> int:
        """How many rows decide the kinds; of a pipe at most those that have arrived."""
        if not self._file.live:
            return SAMPLED_ROWS
        encoding, dialect, named = self._looked
        with self._file.opened() as stream:
            text = io.StringIO(stream.read(SAMPLE).decode(encoding, "replace"), newline="")
        here = 0
        with suppress(csv.Error):  # a quoted cell may have its end later
            for row in rows_of(text, dialect):
                here += any(row)
        return min(max(here - named - (self._options.names is None), 0), SAMPLED_ROWS)

    def _decide(self, columns: Mapping[str, Sequence[str]], wanted: Wanted) -> None:
        """Decide the decimal marks of new columns of numbers, and report what is not usual."""
        new = {
            name: cells
            for name, cells in columns.items()
            if name not in wanted.verbatim
            and name not in wanted.converts
            and wanted.types.get(name, "numeric") == "numeric"
        }
        given = {**wanted.marks, **self._options.marks}
        found = decided(new, given, wanted.decided.values(), wanted.types)
        if (why := question(new, found)) is not None:
            raise ConfigError(f"{self._file}: {why}")
        wanted.decided.update(found.marks)
        for line in found.lines(new, given):
            wanted.say(f"{self._file}: {line}; --decimal overrides it")
        for name in found.marks:
            if (units := units_text(new[name])) is not None:
                wanted.say(f"{self._file}: column {name!r}: {units}; write one unit in all rows")

    def _convert(self, name: str, cells: Sequence[str], wanted: Wanted) -> Convert:
        """The converter of a column: as declared, as in earlier files, or by its first cells."""
        kind = wanted.types.get(name)
        if kind is not None and (kind != "numeric" or name not in wanted.decided):
            return CONVERTS[kind]
        known = wanted.converts.get(name)
        if known is not None:
            return known
        if name in wanted.verbatim:
            found = guessed_name(cells)
        else:
            found = guessed(cells, wanted.decided.get(name, ""), declared=kind is not None)
        if cells:
            wanted.converts[name] = found
        return found

    @contextmanager
    def _rows(self) -> Iterator[Reader]:
        encoding, dialect, named = self._looked
        with text_of(self._file, encoding, "") as text:
            rows = rows_of(text, dialect)
            try:
                if named:
                    next(rows)
                yield rows
            except csv.Error as error:
                raise self._not_csv(rows, str(error)) from None

    def _not_csv(self, rows: Reader, why: str) -> ConfigError:
        do = "double the quotes inside a cell, or give --quote none to read quotes as text"
        if "end of data" in why:
            why = "a quoted cell never ends"
        if "field limit" in why:
            why, do = (
                f"a cell has more than {LONGEST_CELL:,} characters",
                "close its quotes, or cut it",
            )
        return ConfigError(f"{self._file}: line {rows.line_num} is not CSV ({why}); {do}")

    def _header(self, rows: Reader, wanted: Wanted) -> tuple[list[str], list[list[str]]]:
        """The column names, and the first row if it has none; names must include those of
        `wanted.types`.

        Columns without a name stay "". The first one is that of the row names, if others have a
        name. A name that is there again gets a number.
        """
        header = next((row for row in rows if row), None)
        if header is None:
            raise ConfigError(
                f"{self._file}: expected a header line with the names of the columns, got none"
            )
        names, data = self._options.names, []
        if names is not None:
            if len(names) != len(header):
                raise ConfigError(
                    f"{self._file}: line {rows.line_num} has {len(header)} cells, --columns has "
                    f"{len(names)} names"
                )
            header, data = names, [header]
        elif self._options.columns != FIRST_LINE and (cell := _value_in(header)) is not None:
            raise ConfigError(
                f"{self._file}: the first line looks like data ({shortened(cell)}), not like names "
                f"of columns; give the names by --columns a,b,c or say --columns {FIRST_LINE}"
            )
        header = [name if name.strip() else "" for name in header]
        header[0] = header[0].removeprefix("\ufeff")
        if not header[0] and any(header) and ROW_NAMES not in header:
            header[0] = ROW_NAMES
        header = self._numbered(header, wanted)
        if wanted.declared and wanted.declared.isdisjoint(header):
            shown = shortened(", ".join(filter(None, header)))
            named = shortened(", ".join(sorted(wanted.declared)))
            raise ConfigError(
                f"{self._file}: none of the declared fields ({named}) is a column; the first line "
                f"is {shown}: if it is a record, give the names by --columns a,b,c"
            )
        for name, kind in wanted.types.items():
            if name not in header:
                shown = shortened(", ".join(header))
                raise ConfigError(f"{self._file}: no column {name!r}; it has {shown}")
            if kind not in CONVERTS:
                raise ConfigError(
                    f"column {name!r}: expected one of {', '.join(CONVERTS)}, got {kind!r}"
                )
        return header, data

    def _numbered(self, header: list[str], wanted: Wanted) -> list[str]:
        """The names, with a number after each one that is there again, which is reported."""
        seen = Counter(filter(None, header))
        for twice in (name for name, times in seen.items() if times > 1):
            if twice in wanted.verbatim:
                raise ConfigError(
                    f"{self._file}: the header has column {shortened(twice)!r} twice, and it is "
                    "the id or the label; give one of them another name"
                )
        if len(seen) == sum(seen.values()):
            return header
        names: list[str] = []
        taken, numbers = set(seen), Counter[str]()
        for name in header:
            numbers[name] += 1
            if name and numbers[name] > 1:
                other = next(e for n in count(numbers[name]) if (e := f"{name}_{n}") not in taken)
                taken.add(other)
                wanted.say(
                    f"{self._file}: the header has column {shortened(name)!r} again: it is read as "
                    f"{shortened(other)!r}"
                )
                name = other
            names.append(name)
        return names

    def _filled(self, rows: Reader, header: list[str], at_once: int) -> Iterator[list[list[str]]]:
        """The rows that are not empty, in lists; each must be as long as the header, except for
        empty cells after it. Before an error come the rows before it."""
        width = len(header)
        first = True
        more = True
        while more:
            before = rows.line_num
            some: list[list[str]] = []
            failed: Exception | None = None
            try:
                some.extend(islice(rows, at_once))
            except (ConfigError, csv.Error, UnicodeDecodeError) as error:
                failed = error
            more = len(some) == at_once
            if set(map(len, some)) != {width} or not all(map(any, some)):
                some, wrong = self._even(some, width, before, first)
                failed = wrong or failed
            if some:
                yield some
                first = False
            if failed is not None:
                raise failed

    def _even(
        self, rows: Iterable[list[str]], width: int, before: int, first: bool
    ) -> tuple[list[list[str]], ConfigError | None]:
        """The rows that are not empty, without empty cells after `width`, up to one of another
        length, and the error about it. `before`: the lines before the first one."""
        kept: list[list[str]] = []
        for row in rows:
            if any(row):
                if len(row) < width or any(row[width:]):
                    return kept, self._uneven(before + 1, row, width, first and not kept)
                kept.append(row[:width])
            before += 1 + sum(map(_ends, row))
        return kept, None

    def _uneven(self, line: int, row: list[str], width: int, first: bool) -> ConfigError:
        """The error of a row with more or fewer cells than the header."""
        cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
        separator = {"\t": "tab", ",": "comma"}.get(sep := self._looked[1].sep, f'"{sep}"')
        do = f"quote cells that contain a {separator}"
        if len(row) < width:
            do = f"leave a cell without a value empty, with its {separator}"
        elif width == 1 and first:
            do = "remove lines above the names of the columns, or give --sep"
        return ConfigError(f"{self._file}: line {line} has {cells}, the header has {width}; {do}")


# A number with a decimal comma, or a date with a time.
_VALUE = re.compile(
    r"[-+]?\d+(?:[.' ]\d{3})*,\d+|\d{1,4}([-./])\d{1,2}\1\d{1,4}[ T]\d{1,2}:\d{2}.*"
)


def _value_in(header: Sequence[str]) -> str | None:
    """A cell of the first line that is no name: a number that is not whole, or one that is there
    twice, or a date with a time. Whole numbers are names in many tables.

    Examples
    --------
    >>> _value_in(["5.1", "setosa"]), _value_in(["1", "A11", "1"]), _value_in(["y", "0", "1"])
    ('5.1', '1', None)
    >>> _value_in(["B-7", "1.207,77"]), _value_in(["B-7", "09.10.2026 20:09"])
    ('1.207,77', '09.10.2026 20:09')
    """
    for cell in map(str.strip, header):
        if _VALUE.fullmatch(cell):
            return cell
    numbers = Counter(cell.strip() for cell in header if cell.strip() and is_number(cell))
    return next((cell for cell, times in numbers.items() if not cell.isdigit() or times > 1), None)


def _absent(cell: str, missing: frozenset[str] | None) -> bool:
    return not cell or (missing is not None and is_missing(cell, missing))


def _ends(cell: str) -> int:
    """How many lines end in a cell.

    Examples
    --------
    >>> [_ends(cell) for cell in ("a", "a\\nb", "a\\r\\n\\rb")]
    [0, 1, 2]
    """
    return cell.count("\n") + cell.count("\r") - cell.count("\r\n")


def _records(rows: Sequence[Sequence[str]], columns: Sequence[_Column]) -> Iterator[Record]:
    """Rows as records, one column after the other."""
    names, values = [], []
    for cells, (name, convert, missing) in zip(zip(*rows, strict=True), columns, strict=True):
        if name:
            names.append(name)
            values.append(values_of(cells, convert, missing))
    return as_records(names, values, len(rows))


FORMAT = Format(
    name="csv",
    title="CSV",
    suffixes=(".csv", ".tsv"),
    options=frozenset({"sep", "encoding", "quote", "columns", "decimal"}),
    reader=CsvReader,
    typed=False,
)
