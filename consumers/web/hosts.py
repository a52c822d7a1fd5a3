"""The Host check: it prevents that a page of another site reads this one through a browser.

In DNS rebinding a name of the attacker resolves to this machine, so the browser treats both as one
site. The browser sends that name as Host. An address as Host cannot be rebound, because no name was
resolved. With TLS the certificate does not match the name; a password is not sent to that name.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from starlette.types import Send

from consumers.web.connections import Connection
from consumers.web.limits import refuse

__all__ = ["AllowedHosts", "AnyHost", "host_of"]

log = logging.getLogger("headwater")

LONGEST = 100  # characters of a host in a message


class AnyHost:
    """Allows every host, because TLS or a password keeps other sites out."""

    async def __call__(
        self, headers: Mapping[bytes, bytes], connection: Connection, send: Send
    ) -> bool:
        """True."""
        return True


class AllowedHosts:
    """Answers 421 unless the Host is an address, a loopback name or an allowed name.

    Parameters
    ----------
    allowed
        Names; upper and lower case are equal.
    refused
        Counts, under "host", requests with another name.
    """

    def __init__(self, allowed: Iterable[str], refused: Counter[str]) -> None:
        self._allowed = frozenset(name.lower().rstrip(".") for name in allowed) | {"localhost"}
        self._refused = refused

    async def __call__(
        self, headers: Mapping[bytes, bytes], connection: Connection, send: Send
    ) -> bool:
        """Whether the request is allowed; if not, it is answered here."""
        host = host_of(headers.get(b"host"))
        if self.allows(host):
            return True
        self._refused["host"] += 1
        shown = ascii(host[:LONGEST])
        log.warning(
            "expected an address or an allowed name as Host, got %s; if it is a name of this "
            "service, add it to [http] allowed_hosts",
            shown,
        )
        await refuse(
            send,
            421,
            f"expected an address or an allowed name as Host, got {shown}; "
            "ask by address, or add the name to [http] allowed_hosts\n",
        )
        return False

    def allows(self, host: str) -> bool:
        """Whether a host, without its port, is allowed.

        Examples
        --------
        >>> hosts = AllowedHosts(["metrics.example.org"], Counter())
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


def host_of(header: bytes | None) -> str:
    """The host of a Host header, without its port; "localhost" for a client too old to send one.

    Examples
    --------
    >>> [host_of(h) for h in (b"a.b:80", b"[::1]:8321", b"10.0.0.1", None, b"a:b")]
    ['a.b', '::1', '10.0.0.1', 'localhost', 'a:b']
    """
    if header is None:
        return "localhost"  # HTTP/1.0; every browser sends a Host
    text = header.decode("latin-1").strip()
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::\d*)?", text)
    return text if found is None else found[1] or found[2] or ""
