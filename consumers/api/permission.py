"""Who may ask and who may write: bearer tokens, or this machine alone.

Rule: without a token only loopback can read, and only a program on it can write. A web page cannot:
a browser sends an Origin with each of its writes, and asks before it sends JSON to another site.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import Send

from consumers.api.problems import ProblemError
from consumers.config.serve import ServeConfig
from consumers.web.connections import Connection
from consumers.web.limits import Guard

__all__ = ["Permission", "with_tokens"]

_PORTS = {"http": 80, "https": 443}  # of an Origin or a Host without one


class Permission:
    """Checks each request.

    Parameters
    ----------
    config
        The tokens.
    loopback
        Whether only this machine reaches the server.
    closed
        Whether the server authenticates clients itself, by logins or certificates.
    """

    def __init__(self, config: ServeConfig, *, loopback: bool, closed: bool) -> None:
        self._read, self._write = config.read_token, config.write_token
        self._open = loopback or closed
        self._loopback = loopback

    def check(self, need: str, headers: Mapping[str, str]) -> None:
        """Raise ProblemError unless the request may `read` or `write`."""
        token = self._read if need == "read" else self._write
        key = f"[serve] {need}_token"
        if token is not None:
            if not _same(bearer(headers.get("authorization", "")), token):
                raise ProblemError(
                    401,
                    f"expected the bearer token of {key}, got another or none; send the header "
                    "Authorization: Bearer TOKEN",
                    {"www-authenticate": "Bearer"},
                )
        elif need == "read" and not self._open:
            raise ProblemError(
                403, f"expected {key} in the configuration, because others reach this port; set it"
            )
        elif need == "write":
            self._check_local(headers, key)

    def _check_local(self, headers: Mapping[str, str], key: str) -> None:
        if not self._loopback:
            raise ProblemError(
                403, f"expected {key} in the configuration, because others reach this port; set it"
            )
        origin = headers.get("origin")
        if origin is None and headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
            return
        if not _same_origin(origin or "", headers.get("host", "")):
            raise ProblemError(
                403, f"expected a program, got a page of another site; use one, or set {key}"
            )


def _same_origin(origin: str, host: str) -> bool:
    """Whether a page has this Host. Another port is another site: another program serves it.

    Examples
    --------
    >>> [_same_origin(origin, "localhost:8321") for origin in (
    ...     "http://localhost:8321", "http://localhost:3000", "http://localhost", "null")]
    [True, False, False, False]
    >>> _same_origin("https://localhost", "localhost")
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


def bearer(header: str) -> str:
    """The token of an Authorization header; empty without one.

    Examples
    --------
    >>> bearer("Bearer abc"), bearer("bearer  abc "), bearer("Basic abc")
    ('abc', 'abc', '')
    """
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def with_tokens(guard: Guard, config: ServeConfig) -> Guard:
    """The guard of the server, which lets requests with a valid token pass without a login."""
    tokens = [t for t in (config.read_token, config.write_token) if t is not None]

    async def check(headers: Mapping[bytes, bytes], connection: Connection, send: Send) -> bool:
        given = bearer(headers.get(b"authorization", b"").decode("latin-1"))
        if any(_same(given, token) for token in tokens):
            return True
        return await guard(headers, connection, send)

    return check


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode())
