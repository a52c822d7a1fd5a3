"""Links: where they lead, and the registrable domain by the Public Suffix List.

A domain is one word, with `_` for its dots and hyphens, so that no tokenizer splits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import unquote

from stream.remembered import remembered

__all__ = ["domain_of", "link_of", "urls_in", "word_of"]

_REST = r"[^\s<>\"'\]\[(){}|\\^`]{1,2000}"
_AFTER_SCHEME = re.compile(rf"://{_REST}")  # both begin with a literal, so the search is fast
_WWW = re.compile(rf"www\.{_REST}")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,19}$")
_END = ".,;:!?*_~"
_INSIDE = ("/", ".", "@", "-")  # before `www.` inside another URL or address
# Browsers need no slashes after these schemes.
_AUTHORITY = re.compile(
    r"(?:(?:https?|ftp):[/\\]*|(?:[a-z][a-z0-9+.-]{0,20}:)?[/\\]{2,})([^/\\?#]*)([^?#]*)",
    re.IGNORECASE,
)
# A link without a scheme: a host with letters at its end, and a path.
_BARE = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,8}[a-z]{2,24}", re.IGNORECASE)
_PATH = re.compile(_REST)
_BEFORE = "([{<\"'"
_LONGEST_BARE = 200
_UNSEEN = str.maketrans("", "", "\t\n\r")
_ADDRESS = re.compile(
    r"\d{1,3}(?:\.\d{1,3}){3}|0x[0-9a-f]{8}|\d{8,10}|\[[0-9a-f:.]+\]", re.IGNORECASE
)
_NO_WORD = re.compile(r"\W+")
_LONGEST_HOST = 253


class Link(NamedTuple):
    """Where a link leads: host, registrable domain as a word, path, and what is odd about it."""

    host: str
    domain: str
    path: str
    odd: tuple[str, ...]


def urls_in(text: str) -> list[str]:
    """The URLs of a text, without the punctuation after them.

    Examples
    --------
    >>> urls_in("see https://example.org/a?b=1, or www.example.com.")
    ['https://example.org/a?b=1', 'www.example.com']
    >>> urls_in("bit.ly/abc and/or (evil.example/path)")
    ['//bit.ly/abc', '//evil.example/path']
    """
    out = []
    if "://" in text:
        for found in _AFTER_SCHEME.finditer(text):
            at = found.start()
            scheme = _SCHEME.search(text[max(0, at - 20) : at])
            out.append((scheme.group() if scheme else "http") + found.group().rstrip(_END))
    if "www." in text or "WWW." in text:
        if "WWW." in text:
            text = text.replace("WWW.", "www.")
        for found in _WWW.finditer(text):
            before = text[found.start() - 1 : found.start()]
            if not (before.isalnum() or before in _INSIDE):
                out.append(found.group().rstrip(_END))
    return [*out, *_bare_in(text)] if "/" in text else out


def _bare_in(text: str) -> Iterator[str]:
    """The URLs without a scheme, which mail programs make links of."""
    at = text.find("/")
    while at >= 0:
        if at and text[at - 1].isalpha():
            before = text[max(at - _LONGEST_BARE, 0) : at].split()
            host = before[-1].lstrip(_BEFORE) if before else ""
            if host[:4].lower() != "www." and _BARE.fullmatch(host):
                path = _PATH.match(text, at)
                yield f"//{host}{path.group().rstrip(_END) if path else ''}"
                at = path.end() if path else at
        at = text.find("/", at + 1)


@remembered(1 << 14)
def link_of(url: str) -> Link | None:
    """Where a URL leads; None if it names no host.

    Examples
    --------
    >>> link_of("https://user@www.example.co.uk:8080/a/b?c=d")
    Link(host='www.example.co.uk', domain='example_co_uk', path='/a/b', odd=('port', 'userinfo'))
    >>> link_of("mailto:a@example.org")
    """
    url = url.strip().translate(_UNSEEN)  # as browsers do
    found = _AUTHORITY.match(f"//{url}" if url[:4].lower() == "www." else url)
    if found is None:
        return None
    authority, path = found.groups()
    odd = []
    _, at, place = authority.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit():
        host = place
    elif port not in ("80", "443"):
        odd.append("port")
    if at:
        odd.append("userinfo")
    host = unquote(host) if "%" in host else host
    host = host.strip().rstrip(".").lower()
    if not host or len(host) > _LONGEST_HOST:
        return None
    if _ADDRESS.fullmatch(host):
        odd.append("address")
    elif "xn--" in host or not host.isascii():
        odd.append("idn")
    return Link(host, domain_of(host), path, tuple(odd))


@remembered(1 << 14)
def domain_of(host: str) -> str:
    """The registrable domain of a host, as a word; of a name that has none, the name.

    An international name is in its ASCII form, whichever form the mail has.

    Examples
    --------
    >>> domain_of("mail.shop.example.co.uk"), domain_of("192.0.2.7"), domain_of("www.bücher.de")
    ('example_co_uk', '192_0_2_7', 'xn_bcher_kva_de')
    """
    name = host.lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return word_of(name)
    if _ADDRESS.fullmatch(name):
        return word_of(name)
    return word_of(_suffixes().privatesuffix(name) or name)


@remembered(1 << 12)
def word_of(text: str) -> str:
    """The text as one word in lower case.

    Examples
    --------
    >>> word_of("Text/HTML"), word_of("--")
    ('text_html', '')
    """
    return _NO_WORD.sub("_", text.lower()).strip("_")


@cache
def _suffixes() -> Any:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
