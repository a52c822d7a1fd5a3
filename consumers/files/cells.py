"""Cells of a CSV -> values. Pure.

Rule: the first cells of a column decide how all of it is read, so that a number does not become a
text from one row to the next. A later cell of another kind stays a string. The decimal mark of a
column is proven by its cells, or asked for, and never guessed: 1.234 alone may be 1234.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from math import isfinite

import msgspec

from consumers.base.fields import is_missing

__all__ = [
    "CONVERTS",
    "UNDECIDED",
    "Convert",
    "guessed",
    "guessed_name",
    "is_no_record",
    "is_number",
    "mark_of",
    "readings",
    "units_text",
    "value_of",
    "values_of",
]

LONGEST_INTEGER = 300  # digits: ids keep all of theirs; longer ones are no number of any field
FEWEST_OTHERS = 3  # records that show what the cells of a column are
FEW_WORDS = 3  # distinct texts among numbers that may mean "no value"
MANY_NUMBERS = 32  # distinct ones, with which a column is no category

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"(0|-?[1-9]\d*)(?:\.0*)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0\d", re.ASCII)
_CODE = re.compile(r"\d+[eE]\d+", re.ASCII)  # programs write a sign or a point: 1e+06, 1.2e6
_TRUTH = {"true": True, "false": False}

# Decimal mark to the numbers that people write with it. Thousands are grouped by the other mark, or
# by an apostrophe or a space, which are no mark anywhere. A blank also groups the digits of phones,
# so it counts only before a decimal mark.
_OTHER = {".": ",", ",": "."}
_GROUPS = "'\u2019\xa0\u202f"
_WRITTEN = {
    mark: re.compile(
        rf"[+-]?(?:\d+|\d{{1,3}}([{other}{_GROUPS}]| (?=[\d ]+[{mark}]\d))\d{{3}}(?:\1\d{{3}})*)"
        rf"(?:[{mark}]\d+)?",
        re.ASCII,
    )
    for mark, other in _OTHER.items()
}
_EITHER = re.compile(r"-?[1-9]\d{0,2}\.\d{3}", re.ASCII)  # of JSON's numbers: 1.234 may be 1234
UNDECIDED = "?"  # of a column: each of its cells is a number with either mark, and not the same one
_SIGNS = "$€£¥%"
_UNIT = re.compile(r"([+-]?)(?:[$€£¥] ?(.+)|(.+?) ?[$€£¥%])")

# How the last line of an export begins that sums up the others, in some languages.
_TOTAL = re.compile(
    r"\W*(?:(?:grand|sub)?[- ]?totale?s?|sums?|average|mean|count|s[uo]mm[ae]|gesamt\w*|insgesamt"
    r"|mittelwert|durchschnitt|anzahl|moyenne|suma|media)\b",
    re.IGNORECASE,
)

Convert = Callable[[str], object]


def guessed(cells: Sequence[str], mark: str = "", *, declared: bool = False) -> Convert:
    """The converter of a column, by its first cells; without any, each cell is converted alone.

    Parameters
    ----------
    cells
        The cells that have a value.
    mark
        The decimal mark; "" if nothing says which one it is. Then a later cell that is a number
        with either mark stays a string.
    declared
        Whether the column is declared as numbers: leading zeros are then no sign of a code.

    Examples
    --------
    >>> [guessed(cells, ".")(cells[0]) for cells in (["2.50"], ["1,234.5"], ["$3"], ["x3"])]
    [2.5, 1234.5, 3, 'x3']
    >>> [guessed(["0,5"], ",")(cell) for cell in ("1.234", "1.234.567,8", "1.5")]
    [1234, 1234567.8, '1.5']
    """
    if not declared:
        if cells and all(cell.strip().lower() in _TRUTH for cell in cells):
            return _truth
        if mark_of(cells) is None:
            return _text
    plain = _number if declared else _plain_number
    if mark == "," or any(plain(cell) is cell for cell in cells if _has_readings(cell)):
        return partial(_written, mark=mark or ".")
    return plain if mark else _UNMARKED[plain]


def mark_of(cells: Sequence[str]) -> str | None:
    """The decimal mark of a column of numbers, which its cells prove.

    "" if no cell has a mark, `UNDECIDED` if each cell is a number with either mark and they
    disagree, and None if the column has no numbers.

    Examples
    --------
    >>> [mark_of(c) for c in (["950", "12.50"], ["1.234", "2,5"], ["950", "1.234"], ["7"], ["x"])]
    ['.', ',', '?', '', None]
    """
    if _json_numbers(cells, whole=False) is not None:  # as most columns are
        marked = [cell for cell in cells if "." in cell]
        if not marked:
            return ""
        return UNDECIDED if all(map(_EITHER.fullmatch, map(str.strip, marked))) else "."
    each: dict[str, dict[str, object]] = {}
    words = set()
    for cell in dict.fromkeys(cells):
        found = readings(cell)
        if found:
            each[cell] = found
            continue
        words.add(cell)
        if len(words) > FEW_WORDS:
            return None
    if words and not _numbers_and_words(cells, words):
        return None
    numbers = each.values()
    marks = [mark for mark in _OTHER if all(mark in found for found in numbers)]
    if len(marks) < 2:
        return marks[0] if marks else None
    return "" if all(map(_agree, numbers)) else UNDECIDED


def readings(cell: str) -> dict[str, object]:
    """The number in a cell by decimal mark; empty if it is no number with any.

    Examples
    --------
    >>> readings("1.234"), readings("1 234,5"), readings("007"), readings("555 123")
    ({'.': 1.234, ',': 1234}, {',': 1234.5}, {}, {})
    """
    found = {mark: _written(cell, mark) for mark in _OTHER}
    return {mark: number for mark, number in found.items() if number is not cell}


def units_text(cells: Sequence[str]) -> str | None:
    """The line about a column of numbers with several units, of which only the numbers are read.

    Examples
    --------
    >>> print(units_text(["2.50 €", "$3", "$4"]))
    '2.50 €' and '$3' have different units, and only the numbers are read
    >>> units_text(["$3", "4"])
    >>> print(units_text(["5", "5 %"]))
    '5' and '5 %' have different units, and only the numbers are read
    """
    first: dict[str, str] = {}
    for cell in cells:
        sign = "".join(each for each in cell if each in _SIGNS)
        if sign not in first:
            first[sign] = cell.strip()
    if "%" not in first:  # a currency is often left out, beside others of the same
        first.pop("", None)
    if len(first) < 2:
        return None
    one, other = list(first.values())[:2]
    return f"{one!r} and {other!r} have different units, and only the numbers are read"


def _has_readings(cell: str) -> bool:
    return bool(readings(cell))


def _agree(found: Mapping[str, object]) -> bool:
    """Whether a number is the same with each mark that it can have, and can have both."""
    return len(found) == len(_OTHER) and len(set(map(repr, found.values()))) == 1


def guessed_name(cells: Sequence[str]) -> Convert:
    """The converter of a column of ids or labels: 1.0 is the integer 1, as pandas writes it beside
    empty cells; `5 %`, `+49171` and `12E5` are names.

    Examples
    --------
    >>> columns = ["1.0", "0.0"], ["1.0", "0.5"], ["5 %"], ["12E5"], ["nan", "1"]
    >>> [guessed_name(cells)(cells[0]) for cells in columns]
    [1, 1.0, '5 %', '12E5', 'nan']
    """
    if cells and all(cell.lower() in _TRUTH for cell in cells):
        return _truth
    if cells and all(_whole(cell) is not cell for cell in cells):
        return _whole
    if any("+" in cell or _CODE.fullmatch(cell) for cell in cells):
        return _text
    return _plain_number if all(map(_is_plain, cells)) else _text


def _numbers_and_words(cells: Sequence[str], words: Collection[str]) -> bool:
    """Whether these are measurements, and a few words such as `unknown` for "no value"."""
    if 2 * sum(cell in words for cell in cells) > len(cells) or len(words) > FEW_WORDS:
        return False
    if any(c.isdigit() for word in words for c in word):
        return False
    return len(set(cells)) - len(words) > MANY_NUMBERS


def is_no_record(row: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a row of a table is a sum, a count or a line of units rather than a record.

    It has other kinds of cells than all `others`: no number where these have numbers, nothing where
    these have something. One such cell is enough beside a word such as `Total`, which none of the
    others has in the same place, and so is a number as large as the sum of the others. Without such
    a word it takes two, one of them a text, or a row of one cell.

    Examples
    --------
    >>> others = [["1", "bonn", "2.5"], ["2", "köln", "7.0"], ["3", "bonn", "1.5"]]
    >>> [is_no_record(row, others) for row in (["Total", "", "11.0"], ["s", "", "°C"])]
    [True, True]
    >>> is_no_record(["End of list", "", ""], others)
    True
    >>> is_no_record(["4", "", "NA"], others)
    False
    """
    if len(others) < FEWEST_OTHERS:
        return False
    columns = list(zip(*others, strict=True))
    first = next((number for number, cell in enumerate(row) if cell.strip()), 0)
    totals = bool(_TOTAL.match(row[first])) and row[first] not in columns[first]
    texts = empty = sums = 0
    for cell, column in zip(row, columns, strict=True):
        if not cell.strip():
            empty += all(map(str.strip, column))
        elif not (is_missing(cell) or _has_readings(cell)):
            texts += all(map(_has_readings, column))
        elif totals:
            sums += _is_sum(cell, column)
    if totals:
        return texts + empty + sums > 0
    alone = empty > 1 and sum(map(bool, map(str.strip, row))) == 1
    return alone or (texts > 0 and texts + empty > 1)


def _is_sum(cell: str, column: Sequence[str]) -> bool:
    """Whether a number is at least the sum of those in other rows, none of which is below 0."""
    for mark in _OTHER:
        numbers = [_written(each, mark) for each in (cell, *column)]
        if all(isinstance(each, int | float) for each in numbers):
            own, *others = (float(str(each)) for each in numbers)
            return min(others) >= 0.0 and own >= sum(others) > 0.0
    return False


def is_number(cell: str) -> bool:
    """Whether a cell is a finite number.

    Examples
    --------
    >>> is_number(" -2.5"), is_number("007"), is_number("x"), is_number("nan")
    (True, True, False, False)
    """
    return isinstance(_number(cell), int | float)


def _is_plain(cell: str) -> bool:
    return not isinstance(_plain_number(cell), str | None)


def _plain_number(cell: str) -> object:
    """The number in a cell, unless it has a leading zero, as codes such as post codes do."""
    return cell if _LEADING_ZERO.match(cell.strip()) else _number(cell)


def _number(cell: str) -> object:
    """An int or a float, None for NaN, or the cell itself if it is not a finite number."""
    digits = cell.strip()
    if not _NUMBER.fullmatch(digits):
        return None if digits.lower() == "nan" else cell
    if len(digits) <= LONGEST_INTEGER and digits.lstrip("+-").isdigit():
        return int(digits)
    number = float(digits)
    return number if isfinite(number) else cell


def _whole(cell: str) -> object:
    """The integer in a cell, also where it is written as a decimal number."""
    found = _WHOLE.fullmatch(cell)
    if found is None or len(found[1]) > LONGEST_INTEGER:
        return cell
    return int(found[1])


def _written(cell: str, mark: str) -> object:
    """The number in a cell with this decimal mark, groups of thousands, a currency or a percent
    sign; without a number the cell itself."""
    digits = cell.strip()
    unit = _UNIT.fullmatch(digits)
    if unit is not None:
        digits = unit[1] + (unit[2] or unit[3])
    found = _WRITTEN[mark].fullmatch(digits)
    if found is not None:
        ungrouped = digits if found[1] is None else digits.replace(found[1], "")
        digits = ungrouped.replace(mark, ".")
    elif unit is not None or (mark == "," and "." in digits):
        return cell
    number = _plain_number(digits)
    return cell if isinstance(number, str) else number


def _unmarked(cell: str, read: Convert) -> object:
    """The number in a cell, unless it is another one with the other decimal mark."""
    found = readings(cell)
    return cell if len(found) > 1 and not _agree(found) else read(cell)


def _truth(cell: str) -> object:
    return _TRUTH.get(cell.strip().lower(), cell)


def _binary(cell: str) -> object:
    return _TRUTH.get(cell.lower(), _number(cell))


def _text(cell: str) -> object:
    return cell


CONVERTS: dict[str, Convert] = {
    "numeric": _number,
    "binary": _binary,
    "categorical": _text,
    "text": _text,
}


def value_of(cell: str, convert: Convert, missing: frozenset[str] | None) -> object:
    """The value of a cell; None for one without a value.

    Parameters
    ----------
    missing
        The texts that mean "no value", beside the empty one. A number among them also means it in
        another form: -9999.0 is -9999.

    Examples
    --------
    >>> [value_of(cell, _number, frozenset({"-9999"})) for cell in ("-9999", "-9999.0", "7")]
    [None, None, 7]
    """
    if not cell or (missing is not None and is_missing(cell, missing)):
        return None
    value = convert(cell)
    if missing is not None and type(value) in (int, float) and value in _numbers_in(missing):
        return None
    return value


def values_of(
    cells: Sequence[str], convert: Convert, missing: frozenset[str] | None
) -> Sequence[object]:
    """The value of each of many cells of a column, as `value_of` has it.

    Numbers are read all at once, other cells once for each different one.

    Examples
    --------
    >>> values_of(["1", "2.50", "1e3"], CONVERTS["numeric"], frozenset({"NA"}))
    [1, 2.5, 1000.0]
    >>> values_of(["1", "NA", "x"], CONVERTS["numeric"], frozenset({"NA"}))
    [1, None, 'x']
    """
    numbers = None
    if convert in _OF_NUMBERS and (missing is None or not _numbers_in(missing)):
        numbers = _json_numbers(cells, whole=convert is _whole)
        if convert in _UNMARKED.values() and float in set(map(type, numbers or ())):
            numbers = None
    if numbers is not None:
        return numbers
    known = {cell: value_of(cell, convert, missing) for cell in set(cells)}
    return list(map(known.__getitem__, cells))


def _json_numbers(cells: Sequence[str], *, whole: bool) -> list[object] | None:
    """The cells as numbers, None if one of them is no number as in JSON: then it may still be one
    for a converter. JSON's numbers are read alike by all converters of numbers, unless they are
    longer than an integer may be.

    `whole`: None too if one is no integer, is -0, or has spaces around it.
    """
    try:
        numbers = msgspec.json.decode(f"[{','.join(cells)}]".encode())
    except (ValueError, UnicodeEncodeError):  # msgspec's errors are of the first kind
        return None
    kinds = set(map(type, numbers))
    if len(numbers) != len(cells) or not kinds <= ({int} if whole else {int, float}):
        return None
    if whole and ("-0" in cells or any(map(str.isspace, "".join(cells)))):
        return None
    return numbers if max(map(len, cells), default=0) <= LONGEST_INTEGER else None


@cache
def _numbers_in(missing: frozenset[str]) -> frozenset[float]:
    """The numbers that mean "no value"."""
    found = (text.strip() for text in missing)
    return frozenset(float(text) for text in found if _NUMBER.fullmatch(text))


_UNMARKED: dict[Convert, Convert] = {
    read: partial(_unmarked, read=read) for read in (_plain_number, _number)
}
_OF_NUMBERS = (_plain_number, _number, _whole, *_UNMARKED.values())
