"""Files of records: JSONL and CSV, plain or .gz, read line by line as dicts of JSON values.

Rule: every fault of a file is one `ConfigError` with the file and the line. Records are unchanged,
except that cells of a CSV without a value are left out: empty ones, and texts such as `NA`. In the
columns of ids and labels only empty cells are left out, because `-`, `None` and `NA` are classes
and ids in many tables.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shlex
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TextIO, cast

import msgspec

from consumers.base.errors import ConfigError
from consumers.base.missing import MISSING, is_missing
from consumers.offline.cells import CONVERTS, guessed, guessed_name

__all__ = ["FORMATS", "count_records", "format_of", "read_records"]

FIRST_LINE = 2**20  # bytes of it that are read
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
SAMPLED_ROWS = 1000  # rows that decide whether a column of a CSV is numeric
LONGEST_CELL = 1 << 24  # csv's default, 128 KiB, is below the 1 MiB of a record
SEPARATORS = ";\t|"  # or a comma
ROW_NAMES = "index"  # of a first column without a name: pandas and R write row names there

_NAME_IT = "give each column its own name"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Record = dict[str, object]


def read_records(
    path: Path,
    types: Mapping[str, str] | None = None,
    *,
    missing: Collection[str] = MISSING,
    verbatim: Collection[str | None] = (),
) -> Iterator[Record]:
    """The records of a file, one after the other; empty lines are skipped.

    A CSV is separated by commas, semicolons, tabs or `|`, as its header shows. A column is numeric
    if each of its first 1,000 cells is a number without a leading zero. It is binary if each of
    them is true or false, in upper or lower case. A later cell of another kind stays a string.
    `consumers.offline.cells` has the forms of numbers.

    Parameters
    ----------
    path
        `.jsonl`, `.ndjson`, `.csv` or `.tsv`, each also with `.gz`; UTF-8.
    types
        Column of a CSV to kind (numeric, binary, categorical, text), for columns that are not
        inferred. JSON has types.
    missing
        Texts of a CSV that mean "no value", with or without spaces around them.
    verbatim
        Columns of a CSV in which only an empty cell means "no value" and 1.0 is the integer 1: ids
        and labels.

    Raises
    ------
    ConfigError
        Missing, unreadable, not UTF-8, a line that is not a JSON object, a row with more or
        fewer cells than the header, or an unknown column in `types`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "shops.csv")
    ...     _ = path.write_text("zip,price,open\\n01234,2.5,NA\\n53111,?,yes\\n")
    ...     list(read_records(path))
    [{'zip': '01234', 'price': 2.5}, {'zip': '53111', 'open': 'yes'}]
    """
    if format_of(path) == "jsonl":
        return _read_jsonl(path)
    return _read_csv(path, types or {}, frozenset(missing), verbatim)


def count_records(path: Path) -> int:
    """The number of records of a file; faster than reading them, and less strict."""
    if format_of(path) == "jsonl":
        with _bytes(path) as lines:
            return sum(1 for line in lines if line.strip())
    with _rows(path) as (rows, _):
        return max(sum(1 for row in rows if any(row)) - 1, 0)


def format_of(path: Path) -> str:
    """`jsonl` or `csv`, by the suffix.

    Examples
    --------
    >>> format_of(Path("visits.csv.gz"))
    'csv'
    """
    suffixes = path.suffixes
    if suffixes and suffixes[-1].lower() == ".gz":
        suffixes.pop()
    found = FORMATS.get(suffixes[-1].lower()) if suffixes else None
    if found is None:
        known = ", ".join(FORMATS)
        do = "its lines are JSON: rename it" if _json_lines(path) else "convert it"
        raise ConfigError(
            f"{path}: expected a file name ending in {known} (or these with .gz); {do}"
        )
    return found


def _json_lines(path: Path) -> bool:
    """Whether the first line of a file is a JSON object, whatever its name."""
    try:
        with path.open("rb") as file:
            return isinstance(json.loads(file.readline(FIRST_LINE)), dict)
    except (OSError, ValueError, RecursionError):
        return False


def _read_jsonl(path: Path) -> Iterator[Record]:
    decode = msgspec.json.Decoder(dict[str, object]).decode
    with _bytes(path) as lines:
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark
            if line.isspace() or not line:
                continue
            try:
                yield decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield _decode_slowly(path, number, line)


def _decode_slowly(path: Path, number: int, line: bytes) -> Record:
    """Decode a line that the fast decoder rejects (NaN, for example), or raise the error."""
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise _not_utf8(path, f"line {number}", error) from None
    except RecursionError:
        raise ConfigError(f"{path}: line {number} is nested too deeply; flatten it") from None
    except ValueError as error:
        why = str(error)
        if isinstance(error, json.JSONDecodeError):  # its line number is within this line
            why = f"{error.msg} at character {error.pos + 1}"
        raise ConfigError(
            f"{path}: line {number} is not JSON ({why}); every line must be one JSON object"
        ) from None
    if not isinstance(record, dict):
        raise ConfigError(
            f"{path}: line {number} is JSON but not an object, got {_shortened(line)}; "
            "every line must be one JSON object"
        )
    return record


def _read_csv(
    path: Path,
    types: Mapping[str, str],
    missing: frozenset[str],
    verbatim: Collection[str | None],
) -> Iterator[Record]:
    with _rows(path) as (rows, separator):
        header = _header(path, rows, types)
        absent = [None if name in verbatim else missing for name in header]
        filled = _checked(path, rows, header)
        sample = list(islice(filled, SAMPLED_ROWS))
        converts = []
        for i, name in enumerate(header):
            cells = [row[i] for row in sample if not _absent(row[i], absent[i])]
            if not name and cells:
                raise ConfigError(f"{path}: the header has a column without a name; {_NAME_IT}")
            if name in types:
                converts.append(CONVERTS[types[name]])
            else:
                converts.append(
                    guessed_name(cells) if name in verbatim else guessed(cells, separator)
                )
        for row in chain(sample, filled):
            record = {}
            for name, convert, cell, no in zip(header, converts, row, absent, strict=True):
                value = None if not name or _absent(cell, no) else convert(cell)
                if value is not None:
                    record[name] = value
            yield record


def _absent(cell: str, missing: frozenset[str] | None) -> bool:
    return not cell or (missing is not None and is_missing(cell, missing))


def _header(path: Path, rows: Iterator[list[str]], types: Mapping[str, str]) -> list[str]:
    """The column names; they must be distinct and include those in `types`.

    Columns without a name stay "". The first one is that of the row names, if others have a name.
    """
    header = next((row for row in rows if row), None)
    if header is None:
        raise ConfigError(f"{path}: expected a header line with the names of the columns, got none")
    header = [name if name.strip() else "" for name in header]
    if not header[0] and any(header) and ROW_NAMES not in header:
        header[0] = ROW_NAMES
    for name in header:
        if name and header.count(name) > 1:
            raise ConfigError(f"{path}: the header has column {name!r} twice; {_NAME_IT}")
    for name, kind in types.items():
        if name not in header:
            raise ConfigError(f"{path}: no column {name!r}; it has {_shortened(', '.join(header))}")
        if kind not in CONVERTS:
            raise ConfigError(
                f"column {name!r}: expected one of {', '.join(CONVERTS)}, got {kind!r}"
            )
    return header


def _checked(path: Path, rows: Iterator[list[str]], header: list[str]) -> Iterator[list[str]]:
    """The rows that are not empty; each must be as long as the header, except for empty cells after
    it."""
    width = len(header)
    for number, row in enumerate((row for row in rows if any(row)), 1):
        if len(row) < width or any(row[width:]):
            cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            do = "quote cells that contain a comma"
            if len(row) < width:
                do = "leave a cell without a value empty, with its comma"
            elif width == 1 and number == 1:
                do = "remove lines above the names of the columns"
            raise ConfigError(f"{path}: row {number} has {cells}, the header has {width}; {do}")
        yield row[:width]


@contextmanager
def _bytes(path: Path) -> Iterator[BinaryIO]:
    """The file, decompressed; an error of the device becomes one line."""
    try:
        zipped = path.suffix.lower() == ".gz"
        with cast(BinaryIO, gzip.open(path)) if zipped else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; check the name") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: damaged gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from None


@contextmanager
def _rows(path: Path) -> Iterator[tuple[Iterator[list[str]], str]]:
    """The rows of a CSV with its header, and what separates its cells."""
    csv.field_size_limit(LONGEST_CELL)
    with _split(path, ",") as rows:
        header = next((row for row in rows if row), [])
        separator, spaced = _separator(header)
    with _split(path, separator, spaced=spaced) as rows:
        yield rows, separator


def _separator(header: Sequence[str]) -> tuple[str, bool]:
    """The separator of a file whose header was split at commas, and whether spaces follow it."""
    found = max(SEPARATORS, key=lambda each: sum(name.count(each) for name in header))
    if sum(name.count(found) for name in header) >= max(1, len(header)):
        return found, False
    return ",", len(header) > 1 and all(name.startswith(" ") for name in header[1:])


@contextmanager
def _split(path: Path, separator: str, *, spaced: bool = False) -> Iterator[Iterator[list[str]]]:
    with _bytes(path) as file:
        text: TextIO = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        rows = csv.reader(text, delimiter=separator, skipinitialspace=spaced)
        try:
            yield rows
        except csv.Error as error:
            raise ConfigError(f"{path}: line {rows.line_num} is not CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise _not_utf8(path, f"line {_undecodable(path)}", error) from None


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8, because the reader decodes many lines at once."""
    with _bytes(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


def _not_utf8(path: Path, where: str, error: UnicodeDecodeError) -> ConfigError:
    byte, encoding = error.object[error.start], "latin1"
    with _bytes(path) as file:
        if file.read(2) in _UTF_16:
            encoding = "utf-16"
    return ConfigError(
        f"{path}: {where}: byte 0x{byte:02x} is not UTF-8; convert the file, for "
        f"example with `iconv -f {encoding} -t utf-8 {shlex.quote(path.name)}`"
    )


def _shortened(text: str | bytes) -> str:
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    shown = shown.strip()
    return shown if len(shown) <= 80 else shown[:79] + "…"
