"""The decimal marks of the columns of a CSV. Pure.

Rule: a mark is given, or proven by the cells of its column, or by other columns, because one
program writes a file. Where each cell of a column is a number with either mark, and no column
proves one, the user is asked: 1.234 read as 1.234 instead of 1234 is wrong by a factor of 1000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from consumers.config.units import EVERY
from consumers.files.cells import UNDECIDED, mark_of, readings

__all__ = ["Decided", "decided", "question"]

_SHOWN = 5  # names in a message


class Decided(NamedTuple):
    """The marks of columns.

    Parameters
    ----------
    marks
        Column of numbers to its mark: a point, a comma, "" if no cell has one, or `UNDECIDED`.
    by_others
        The columns whose mark is the one of other columns.
    """

    marks: dict[str, str]
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
        known = {name for name in self.marks if name in given} | set(self.by_others)
        if given.get(EVERY) != ",":
            found = [("", [n for n, mark in self.marks.items() if mark == "," and n not in known])]
        else:
            found = []
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
    Decided(marks={'x': ',', 'y': ','}, by_others=['x'])
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
    return Decided(marks, by_others)


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
