"""The transports that are shipped. Each is one folder, and the `__init__.py` there has its entry.

Rule: what is true of a transport as a whole is stated once, in its `TRANSPORT`. The URLs that a
configuration accepts, what commands do on it, and the table in docs/config.md are made from that.
No other file asks for a scheme by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from consumers.base.errors import ConfigError
from consumers.base.secrets import without_login

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = [
    "NO_KEY_HEADERS",
    "KeyHeaders",
    "Transport",
    "forms",
    "is_well_formed",
    "local_path",
    "transport_of",
    "transports",
    "unknown_transport",
]


KeyHeaders = Mapping[str, str]  # topic to the header that replaces the keys of its records
NO_KEY_HEADERS: KeyHeaders = {}


def _nothing() -> None:
    """The warm-up of a transport that compiles nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """One transport: how its URL is written, how it is opened, and what it can do.

    Parameters
    ----------
    scheme
        What stands before the first colon of the URL.
    form
        The URL with placeholders, as messages and the documentation show it.
    about
        A few words on what it is, to be read in parentheses after the form.
    pattern
        Regular expression of what follows the scheme and the colon in a configuration.
    open
        Makes the log from what follows the colon, the section [kafka], and the headers that replace
        keys (see `open_log`). It imports the client only when it is called. ConfigError if the URL
        names no log of this transport.
    groups
        Whether several processes can share the shards of a service.
    names_path
        Whether the URL names a path of this machine, relative to the configuration.
    private
        Whether only this process sees the log. It is gone when the process ends.
    creates_topics
        Whether commands create missing topics themselves. On a broker an operator does.
    expires
        Whether old records are deleted by their timestamps, so that an early timestamp is a risk.
    offsets_after_commit
        How many offsets after a journal record hold no record.
    compacts
        Whether its log has a `compactor`, for `headwater compact`.
    warm_up
        Compiles what the transport runs.
    notes
        Paragraphs of Markdown for docs/config.md.
    """

    scheme: str
    form: str
    about: str
    pattern: str
    open: Callable[[str, Mapping[str, object], KeyHeaders], Log]
    groups: bool = False
    names_path: bool = False
    private: bool = False
    creates_topics: bool = True
    expires: bool = False
    offsets_after_commit: int = 0
    compacts: bool = False
    warm_up: Callable[[], None] = _nothing
    notes: str = ""


@cache
def transports() -> dict[str, Transport]:
    """Scheme to transport, by scheme: one for each folder of this room.

    Examples
    --------
    >>> transports()["sqlite"].form
    'sqlite:FILE.db'
    """
    folders = [found.name for found in iter_modules([str(Path(__file__).parent)]) if found.ispkg]
    entries: list[Transport] = [
        import_module(f"{__package__}.{folder}").TRANSPORT for folder in folders
    ]
    return {entry.scheme: entry for entry in sorted(entries, key=lambda entry: entry.scheme)}


def transport_of(url: str) -> Transport:
    """The transport of a URL, by its scheme.

    Raises
    ------
    ConfigError
        No transport has this scheme.

    Examples
    --------
    >>> transport_of("kafka://localhost:9092").groups, transport_of("sqlite:feed.db").groups
    (True, False)
    """
    scheme, colon, _ = url.partition(":")
    found = transports().get(scheme)
    if found is None or not colon:
        raise unknown_transport(url)
    return found


def is_well_formed(url: str) -> bool:
    """Whether a configuration accepts the URL.

    Examples
    --------
    >>> is_well_formed("sqlite:feed.db"), is_well_formed("sqlite:"), is_well_formed("redis://x")
    (True, False, False)
    """
    scheme, colon, rest = url.partition(":")
    found = transports().get(scheme)
    return bool(colon) and found is not None and _matches(found, rest)


def _matches(transport: Transport, rest: str) -> bool:
    return re.fullmatch(transport.pattern, rest, re.DOTALL) is not None


def local_path(url: str) -> str | None:
    """The path that the URL names; None if it names none.

    Examples
    --------
    >>> local_path("sqlite:feed.db"), local_path("memory:feed")
    ('feed.db', None)
    """
    scheme, colon, rest = url.partition(":")
    found = transports().get(scheme)
    return rest if colon and found is not None and found.names_path else None


def forms(*, private: bool = True) -> str:
    """The URLs of all transports, for a message; without those that are private, if asked so.

    Examples
    --------
    >>> forms().split(" or ")[-1]
    'sqlite:FILE.db'
    """
    *most, last = [t.form for t in transports().values() if private or not t.private]
    return f"{', '.join(most)} or {last}"


def unknown_transport(url: str) -> ConfigError:
    """The error for a URL that no transport opens."""
    return ConfigError(f"expected a transport as {forms()}, got {without_login(url)!r}")
