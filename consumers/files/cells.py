"""Cells of a CSV -> values. Pure.

Rule: the first cells of a column decide how all of it is read, so that a number does not become a
text from one row to the next. A later cell of another kind stays a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import isfinite

import msgspec

from consumers.base.fields import is_missing

__all__ = ["CONVERTS", "Convert", "guessed", "guessed_name", "is_number", "value_of", "values_of"]

LONGEST_INTEGER = 300  # digits: ids keep all of theirs; longer ones are no number of any field
FEW_WORDS = 3  # distinct texts among numbers that may mean "no value"
MANY_NUMBERS = 32  # distinct ones, with which a column is no category

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"(0|-?[1-9]\d*)(?:\.0*)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0\d", re.ASCII)
_TRUTH = {"true": True, "false": False}

# Decimal mark to the numbers that people write with it; the other mark groups thousands.
_WRITTEN = {
    ".": re.compile(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?", re.ASCII),
    ",": re.compile(r"[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?", re.ASCII),
}
_GROUPS = {".": ",", ",": "."}
_UNIT = re.compile(r"([+-]?)(?:[$€£¥] ?(.+)|(.+?) ?[$€£¥%])")

Convert = Callable[[str], object]


def guessed(cells: Sequence[str], separator: str = ",") -> Convert:
    """The converter of a column, by its first cells; without any, each cell is converted alone.

    Parameters
    ----------
    cells
        The cells that have a value.
    separator
        That of the file. Where it is a semicolon, a comma is the decimal mark.

    Examples
    --------
    >>> [guessed(cells)(cells[0]) for cells in (["2.50"], ["1,234", "7"], ["0,5"], ["$3"], ["x3"])]
    [2.5, 1234, 0.5, 3, 'x3']
    """
    if cells and all(cell.strip().lower() in _TRUTH for cell in cells):
        return _truth
    if all(_is_plain(cell) for cell in cells):
        return _plain_number
    for mark in (",", ".") if separator == ";" else (".", ","):
        if all(_written(cell, mark) is not cell for cell in cells):
            return partial(_written, mark=mark)
    return _plain_number if _numbers_and_words(cells) else _text


def guessed_name(cells: Sequence[str]) -> Convert:
    """The converter of a column of ids or labels: 1.0 is the integer 1, as pandas writes it beside
    empty cells; `5 %` and `+49171` are names.

    Examples
    --------
    >>> [guessed_name(cells)(cells[0]) for cells in (["1.0", "0.0"], ["1.0", "0.5"], ["5 %"])]
    [1, 1.0, '5 %']
    """
    if cells and all(cell.lower() in _TRUTH for cell in cells):
        return _truth
    if cells and all(_whole(cell) is not cell for cell in cells):
        return _whole
    return _plain_number if all(map(_is_plain, cells)) and "+" not in "".join(cells) else _text


def _numbers_and_words(cells: Sequence[str]) -> bool:
    """Whether these are measurements, and a few words such as `unknown` for "no value"."""
    words = [cell for cell in cells if not _is_plain(cell)]
    if 2 * len(words) > len(cells) or len(set(words)) > FEW_WORDS:
        return False
    if any(c.isdigit() for word in set(words) for c in word):
        return False
    return len(set(cells)) - len(set(words)) > MANY_NUMBERS


def is_number(cell: str) -> bool:
    """Whether a cell is a finite number.

    Examples
    --------
    >>> is_number(" -2.5"), is_number("007"), is_number("x"), is_number("nan")
    (True, True, False, False)
    """
    return isinstance(_number(cell), int | float)


def _is_plain(cell: str) -> bool:
    return _plain_number(cell) is not cell


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
    if not _WRITTEN[mark].fullmatch(digits):
        return cell
    number = _plain_number(digits.replace(_GROUPS[mark], "").replace(mark, "."))
    return cell if isinstance(number, str) else number


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
        The texts that mean "no value", beside the empty one.
    """
    if not cell or (missing is not None and is_missing(cell, missing)):
        return None
    return convert(cell)


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
    if convert in _OF_NUMBERS and (missing is None or not _numbers_among(missing)):
        numbers = _json_numbers(cells, whole=convert is _whole)
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
def _numbers_among(missing: frozenset[str]) -> bool:
    """Whether a number may mean "no value"."""
    return any(_NUMBER.fullmatch(text.strip()) for text in missing)


_OF_NUMBERS = (_plain_number, _number, _whole)
