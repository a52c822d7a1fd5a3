"""Where files are: one entry each for a URL, a directory, a pattern and one file.

Rule: the files of a place are read in the order of their names. In a directory, files with another
suffix and names that begin with `.` or `_` are left out, and their number is reported.

Files at a URL, by fsspec: `s3://`, `gs://`, `az://`, `https://` and what else it supports.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from consumers.base.errors import ConfigError
from consumers.base.extras import install
from consumers.base.secrets import masked
from consumers.base.units import shown_url
from consumers.files.file import File, local_file

__all__ = [
    "PLACES",
    "check_drivers",
    "is_url",
    "one_line",
    "place_of",
]

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+(://|::)")
_PATTERN = re.compile(r"[*?\[]")
_QUERY = re.compile(r"https?://[^?#]*[?#]")


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
    return [file for path in found if not path.is_dir() for file in _one(str(path))]


def _one(text: str) -> list[File]:
    """The file of a name.

    Raises
    ------
    ConfigError
        It is a pipe or a device. Files are read several times, and a pipe has its records once.
    """
    path = Path(text)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # opening it says why
        return [local_file(path)]
    if not stat.S_ISREG(mode):
        raise ConfigError(
            f"{text}: expected a file, got a pipe or a device, which can be read only once; write "
            "its records to a file, or pipe them to `headwater produce TOPIC -`"
        )
    return [local_file(path)]


def is_url(place: str) -> bool:
    """Whether a place is a URL.

    Examples
    --------
    >>> [is_url(place) for place in ("s3://visits/may.csv", "zip::may.zip", "visits.csv", "a:b")]
    [True, True, False, False]
    """
    return _URL.match(place) is not None


def check_drivers(url: str, what: str) -> None:
    """Check that fsspec and its driver for a URL are installed.

    Parameters
    ----------
    what
        What needs them, in messages.

    Raises
    ------
    ConfigError
        One is missing, or the URL is not valid.
    """
    try:
        from fsspec.core import split_protocol
        from fsspec.registry import get_filesystem_class
    except ImportError:
        raise ConfigError(
            f"{what} needs fsspec, which is not installed; run `{install('remote')}`"
        ) from None
    try:
        for each in url.split("::"):  # file systems inside others: zip::s3://bucket/file.zip
            get_filesystem_class(split_protocol(each)[0] or each)
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"{what} cannot be used ({one_line(error)}); "
            "correct the URL, or install the driver that fsspec names"
        ) from None


def one_line(error: Exception) -> str:
    """An error of a driver in one line, without credentials."""
    text = masked(" ".join(str(error).split()))  # before it is shortened
    return shown_url(f"{type(error).__name__}: {text}" if text else type(error).__name__)[:300]


def url_files(url: str) -> list[File]:
    """The file at a URL, the files in its folder, or those that match its pattern, by name.

    Raises
    ------
    ConfigError
        The driver is missing, or the file system does not answer.
    """
    shown = shown_url(url)
    check_drivers(url, shown)
    from fsspec.core import url_to_fs

    if _QUERY.match(url):  # its question mark is no pattern
        path = re.split("[?#]", url)[0]
        return [File(shown, path, partial(_open_url, url), one_line)]
    try:
        system, root = url_to_fs(url)
        if _PATTERN.search(root):
            paths = sorted(system.glob(root))
            names = [path for path in paths if not system.isdir(path)]
        elif system.isdir(root):
            names = sorted(system.find(root))
        else:
            names = [root]
    except Exception as error:  # drivers raise what they like
        raise ConfigError(f"{shown}: cannot be read ({one_line(error)})") from None
    front = shown.partition("://")[0]
    return [
        File(
            shown if name == root else f"{front}://{system._strip_protocol(name).lstrip('/')}",
            name,
            partial(_open, system, name, shown),
            one_line,
        )
        for name in names
    ]


def _open(system: Any, name: str, shown: str) -> BinaryIO:
    try:
        return cast(BinaryIO, system.open(name, "rb"))
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ConfigError(f"{shown}: cannot be read ({one_line(error)})") from None


def _open_url(url: str) -> BinaryIO:
    from fsspec.core import open as opened

    try:
        return cast(BinaryIO, opened(url, "rb").open())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ConfigError(f"{shown_url(url)}: cannot be read ({one_line(error)})") from None


PLACES = (
    PlaceKind("URL", is_url, url_files),
    PlaceKind("directory", os.path.isdir, _in_directory),  # False also for names that are too long
    PlaceKind("pattern", _is_pattern, _matching),
    PlaceKind("file", lambda text: True, _one),
)
