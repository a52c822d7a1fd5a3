"""The checks of Host and Origin: they keep out the pages of other sites, which a browser opens.

In DNS rebinding a name of the attacker resolves to this machine, so the browser treats both as one
site. The browser sends that name as Host. An address as Host cannot be rebound, because no name was
resolved. With TLS the certificate does not match the name; a password is not sent to that name.

A page of another site can also send requests to the address itself, and open streams. It cannot
read the answers, but the requests are made. A browser names such a page in Origin, or in
Sec-Fetch-Site where it sends no Origin. It sends Sec-Fetch-Site over TLS and to loopback only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from consumers.web.refusal import CLOSES, RefusedError

__all__ = ["AllowedHosts", "host_of", "of_another_site"]

log = logging.getLogger("headwater")

LONGEST = 100  # characters of a host in a message
_PORTS = {"http": 80, "https": 443}  # of an Origin or a Host without one


class AllowedHosts:
    """Addresses, loopback names and the allowed names.

    Parameters
    ----------
    allowed
        Names; upper and lower case are equal.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(name.lower().rstrip(".") for name in allowed) | {"localhost"}

    def check(self, header: str | None) -> None:
        """Raise RefusedError for a Host header with another name."""
        host = host_of(header)
        if self.allows(host):
            return
        shown = ascii(host[:LONGEST])
        log.warning(
            "expected an address or an allowed name as Host, got %s; if it is a name of this "
            "service, add it to [http] allowed_hosts",
            shown,
        )
        raise RefusedError(
            421,
            f"expected an address or an allowed name as Host, got {shown}; "
            "ask by address, or add the name to [http] allowed_hosts",
            CLOSES,
            counted="host",
        )

    def allows(self, host: str) -> bool:
        """Whether a host, without its port, is allowed.

        Examples
        --------
        >>> hosts = AllowedHosts(["metrics.example.org"])
        >>> [hosts.allows(h) for h in ("127.0.0.1", "::1", "Metrics.Example.org.", "a.localhost")]
        [True, True, True, True]
        >>> [hosts.allows(h) for h in ("evil.example", "127.0.0.1.evil.example", "", "1.2.3")]
        [False, False, False, False]
        """
        name = host.lower().rstrip(".")
        if name in self._allowed or name.endswith(".localhost"):
            return True
        try:
            return bool(ip_address(name))
        except ValueError:
            return False


def host_of(header: str | None) -> str:
    """The host of a Host header, without its port; "localhost" for a client too old to send one.

    Examples
    --------
    >>> [host_of(h) for h in ("a.b:80", "[::1]:8321", "10.0.0.1", None, "a:b")]
    ['a.b', '::1', '10.0.0.1', 'localhost', 'a:b']
    """
    if header is None:
        return "localhost"  # HTTP/1.0; every browser sends a Host
    text = header.strip()
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::\d*)?", text)
    return text if found is None else found[1] or found[2] or ""


def of_another_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a page of another site sends the request, without being left for it.

    Examples
    --------
    >>> of_another_site("GET", {}), of_another_site("GET", {"origin": "null"})
    (False, True)
    >>> link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    >>> [of_another_site("GET", link | {"sec-fetch-dest": d}) for d in ("document", "iframe")]
    [False, True]
    """
    origin = headers.get("origin")
    if origin is not None:
        return not _same_site(origin, headers.get("host", ""))
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    # A person follows a link, from a dashboard for example: one page replaces the other.
    mode, dest = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return not (method in ("GET", "HEAD") and mode == "navigate" and dest == "document")


def _same_site(origin: str, host: str) -> bool:
    """Whether a page has this Host. Another port is another site: another program serves it.

    Examples
    --------
    >>> [_same_site(origin, "localhost:8321") for origin in (
    ...     "http://localhost:8321", "http://localhost:3000", "http://localhost", "null")]
    [True, False, False, False]
    >>> _same_site("https://localhost", "localhost")
    True
    """
    try:
        page = urlsplit(origin)
        port = _PORTS.get(page.scheme)
        here, there = urlsplit(f"//{host}"), urlsplit(f"//{page.netloc}")
        same = (here.hostname, here.port or port) == (there.hostname, there.port or port)
    except ValueError:
        return False
    return same and bool(there.hostname)
