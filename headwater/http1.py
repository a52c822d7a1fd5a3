"""HTTP/1.1 without I/O, by h11: the address of a service, and one request on a connection.

Rule: a request is a generator that yields the bytes to send, or none to wait for more, and takes
those that were received. Both doors only move the bytes, so they cannot differ.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Generator
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import h11

from consumers.base.errors import ConfigError
from consumers.base.secrets import Secret, masked, without_login
from headwater.exchange import Reply, Request

__all__ = [
    "MOST_READ",
    "Exchange",
    "Tokens",
    "address_of",
    "exchanged",
    "ready_again",
    "why",
]

MOST_READ = 2**16  # bytes that are received at a time
PORTS = {"http": 80, "https": 443}

Exchange = Generator[bytes, bytes, Reply]


class ServiceAddress(NamedTuple):
    """Where a service is. `login`: the value of `authorization` that the URL gives, or none."""

    host: str
    port: int
    named: str  # host and port as the header `host` has them
    prefix: str  # of every path
    tls: bool
    login: Secret | None


def address_of(url: str) -> ServiceAddress:
    """The address in a URL.

    Raises
    ------
    ConfigError
        It is not the URL of a service.

    Examples
    --------
    >>> address_of("http://localhost:8321").named
    'localhost:8321'
    >>> found = address_of("https://me:password@here/spam/")
    >>> found.host, found.port, found.prefix, found.tls
    ('here', 443, '/spam', True)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if parts.scheme not in PORTS or not host:
            raise ValueError("no host" if parts.scheme in PORTS else "another scheme")
        bare = host if host.isascii() else host.encode("idna").decode()
        if not re.fullmatch(r"[!-~]+", bare):
            raise ValueError("no name of a host")
    except ValueError as error:
        raise ConfigError(
            f"expected http://HOST:PORT, got {without_login(url)!r} ({error})"
        ) from None
    prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    login = None
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = Secret(f"Basic {b64encode(user.encode()).decode()}")
    named = f"[{bare}]" if ":" in bare else bare
    if port is not None:
        named = f"{named}:{port}"
    tls = parts.scheme == "https"
    return ServiceAddress(bare, port or PORTS[parts.scheme], named, prefix, tls, login)


class Tokens:
    """The bearer tokens. No repr and no message shows them.

    Raises
    ------
    ConfigError
        One cannot be sent.
    """

    def __init__(self, read: str | None, write: str | None) -> None:
        for name, token in (("read", read), ("write", write)):
            if token and (not token.isascii() or not token.isprintable() or " " in token):
                raise ConfigError(
                    f"expected a {name} token of visible characters of ASCII, got another one; "
                    "check the file or variable that it is from"
                )
        self._tokens = {"read": read and Secret(read), "write": write and Secret(write)}

    def authorization(self, request: Request, address: ServiceAddress) -> str | None:
        """The value of the header for a request. A token replaces the login of the URL."""
        token = self._tokens[request.needs]
        return f"Bearer {token}" if token else address.login


def exchanged(
    connection: h11.Connection, request: Request, address: ServiceAddress, tokens: Tokens
) -> Exchange:
    """The exchange of a request for its reply.

    Raises
    ------
    h11.RemoteProtocolError
        What came is not an answer.
    """
    headers = [
        ("host", address.named),
        ("user-agent", "headwater"),
        ("content-type", request.kind),
        ("content-length", str(len(request.body))),
    ]
    if (authorization := tokens.authorization(request, address)) is not None:
        headers.append(("authorization", authorization))
    head = h11.Request(method=request.method, target=address.prefix + request.path, headers=headers)
    out = connection.send(head) or b""
    if request.body:
        out += connection.send(h11.Data(request.body)) or b""
    out += connection.send(h11.EndOfMessage()) or b""
    status, found, body = 0, dict[str, str](), bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            received = yield out
            connection.receive_data(received)
            out = b""
        elif isinstance(event, h11.Response):
            status = event.status_code
            found = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Reply(status, found, bytes(body))
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the connection was closed before an answer")


def ready_again(connection: h11.Connection) -> bool:
    """Whether a connection can have another request; then it is made ready for it."""
    done = connection.our_state is h11.DONE and connection.their_state is h11.DONE
    if not done or connection.trailing_data != (b"", False):  # more came, or its end
        return False
    connection.start_next_cycle()
    return True


def why(error: BaseException) -> str:
    """Why no reply came, in a line without secrets."""
    return masked(" ".join(f"{type(error).__name__}: {error}".split()).rstrip(": "))
