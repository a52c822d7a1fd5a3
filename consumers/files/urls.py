"""Files at a URL, by fsspec: `s3://`, `gs://`, `az://`, `https://` and what else it supports."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, BinaryIO, cast

from consumers.base.errors import ConfigError
from consumers.base.extras import install
from consumers.base.secrets import masked
from consumers.config.units import shown_url
from consumers.files.file import File

__all__ = ["check_drivers", "is_url", "one_line", "url_files"]

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+(://|::)")
_PATTERN = re.compile(r"[*?\[]")
_QUERY = re.compile(r"https?://[^?#]*[?#]")


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
