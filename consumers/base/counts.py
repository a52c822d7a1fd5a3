"""Numbers of things, and texts of records, in messages."""

from __future__ import annotations

__all__ = ["counted", "first_ones", "printable"]


def counted(n: int, one: str, more: str | None = None) -> str:
    """A number and its noun; `more` is the plural where an s is not enough.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(2, "entry", "entries")
    ('1 record', '1,200 records', '2 entries')
    """
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def first_ones(n: int, one: str) -> str:
    """The first `n` of something, with its noun.

    Examples
    --------
    >>> first_ones(1, "record"), first_ones(1200, "record")
    ('the first record', 'the first 1,200 records')
    """
    return f"the first {one}" if n == 1 else f"the first {counted(n, one)}"


def printable(text: str) -> str:
    """A text from a record, with its control codes and invisible characters escaped.

    Examples
    --------
    >>> printable("né"), printable("a\\x1b[31m")
    ('né', "'a\\\\x1b[31m'")
    """
    return text if text.isprintable() and text else repr(text)
