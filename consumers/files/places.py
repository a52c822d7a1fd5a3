"""Where files are: one entry each for a URL, a directory, a pattern and one file.

Rule: the files of a place are read in the order of their names. In a directory, files with another
suffix and names that begin with `.` or `_` are left out, and their number is reported.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from consumers.base.errors import ConfigError
from consumers.files.file import File, local_file
from consumers.files.urls import is_url, url_files

__all__ = ["PLACES", "PlaceKind", "place_of"]


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """A kind of place.

    Parameters
    ----------
    name
        Its name in messages.
    is_one
        Whether a text is such a place.
    files
        Its files, in order; ConfigError if they cannot be listed.
    """

    name: str
    is_one: Callable[[str], bool]
    files: Callable[[str], list[File]]


def place_of(text: str) -> PlaceKind:
    """The kind of a place.

    Raises
    ------
    ConfigError
        It is empty: the directory in which the command runs is named `.`.

    Examples
    --------
    >>> [place_of(text).name for text in ("s3://visits/*.csv", "visits-*.csv", "visits.csv")]
    ['URL', 'pattern', 'file']
    """
    if not text:
        raise ConfigError("expected a file, a directory or a URL, got an empty name; give one")
    return next(place for place in PLACES if place.is_one(text))


def _in_directory(text: str) -> list[File]:
    found = sorted(path for path in Path(text).rglob("*") if path.is_file())
    return [local_file(path) for path in found]


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not os.path.exists(text)


def _matching(text: str) -> list[File]:
    found = sorted(map(Path, glob.glob(text, recursive=True)))
    return [local_file(path) for path in found if not path.is_dir()]


PLACES = (
    PlaceKind("URL", is_url, url_files),
    PlaceKind("directory", os.path.isdir, _in_directory),  # False also for names that are too long
    PlaceKind("pattern", _is_pattern, _matching),
    PlaceKind("file", lambda text: True, lambda text: [local_file(Path(text))]),
)
