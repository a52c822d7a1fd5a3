"""The formats that can be read: one module of `formats` each.

Rule: what is true of a format is stated once, in its `FORMAT`. No other file asks for a format by
its name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from consumers.base.errors import ConfigError
from consumers.files.file import COMPRESSIONS, File
from consumers.files.format import Format

__all__ = ["format_named", "format_of", "formats", "known_suffixes"]


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
