"""Limits of one connection: bytes of a request's head, seconds to send and to receive.

Without them, a client that opens connections and neither sends nor reads blocks the server.

Rule: a request whose body is not wanted is answered at once. What the client still sends is dropped
until it has read the answer, because a connection that is closed before may lose it.

The open connections, their sources, and which one is closed for a new one.

Rule: a new connection is always accepted. At the limit, a connection of the address with the most
connections is closed. So an address that opens many loses its own, and a health check with one
connection is answered. Live pages are not closed; at most half of all can be live pages.
"""

from __future__ import annotations

import asyncio
import re
import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = [
    "HEAD_BYTES",
    "MAX_CONNECTIONS",
    "REQUEST_SECONDS",
    "WRITE_SECONDS",
    "Connection",
    "Connections",
    "Front",
    "Limited",
    "places",
    "refuse",
    "source_of",
]

MAX_CONNECTIONS = 256  # twice the limit of live pages: each can fetch while it streams
FEWEST = 8  # connections at least, at any limit of open files
CLOSING = 4  # closing connections that are allowed in addition
KNOWN = 256  # remembered addresses with an admitted request


class Connection:
    """One connection, from its acceptance to its end.

    Attributes
    ----------
    source
        Its address, grouped by `source_of`.
    received
        Whether a byte has arrived.
    admitted
        Whether an admitted request is being answered now.
    live
        Whether that response is the stream of a live page.
    ended
        Whether it has ended.
    close
        Closes it immediately.
    """

    __slots__ = ("admitted", "close", "ended", "live", "received", "source")

    def __init__(self, source: str, close: Callable[[], None]) -> None:
        self.source, self.close = source, close
        self.received = self.admitted = self.live = self.ended = False


class Connections:
    """The connections of one server.

    Parameters
    ----------
    limit
        Maximum number of connections.
    refused
        Counts, under "connections", those that were closed for a new one.

    Examples
    --------
    >>> refused = Counter()
    >>> all_of_them = Connections(2, refused)
    >>> first, second = (all_of_them.enter("a", lambda: None) for _ in range(2))
    >>> other = all_of_them.enter("b", lambda: None)
    >>> first.ended, second.ended, other.ended, dict(refused)
    (True, False, False, {'connections': 1})
    """

    def __init__(self, limit: int, refused: Counter[str]) -> None:
        self.limit, self._refused = limit, refused
        self._open: dict[Connection, None] = {}  # in order of arrival
        self._closing: set[Connection] = set()  # closed for others, but their files are open
        self._known: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether too many connections that were closed for others still have open files."""
        return len(self._open) + len(self._closing) >= self.limit + CLOSING

    def enter(self, source: str, close: Callable[[], None]) -> Connection:
        """Add a new connection; at the limit, close another one."""
        while len(self._open) >= self.limit and self.evict():
            pass
        connection = Connection(source, close)
        self._open[connection] = None
        return connection

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        connection.ended, connection.close = True, _nothing
        self._open.pop(connection, None)
        self._closing.discard(connection)

    def admit(self, connection: Connection) -> None:
        """Mark its request as admitted and remember its address."""
        connection.admitted = True
        self._known[connection.source] = None
        self._known.move_to_end(connection.source)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def evict(self) -> bool:
        """Close one connection; False if there are only live pages.

        Addresses without an admitted request come first, then the address with the most
        connections, then silent connections before idle ones, then the oldest.
        """
        choice = [each for each in self._open if not each.live]
        if not choice:
            return False
        strangers = [each for each in choice if each.source not in self._known]
        # A single unknown connection may be the new one itself, so it is not closed.
        choice = strangers if len(strangers) > self.limit // 4 else choice
        most = Counter(each.source for each in self._open)
        chosen = min(choice, key=lambda each: (-most[each.source], each.received, each.admitted))
        close = chosen.close
        self.leave(chosen)
        self._closing.add(chosen)
        self._refused["connections"] += 1
        close()
        return True


def _nothing() -> None:
    """Does nothing, for a connection that has ended."""


def places() -> int:
    """The limit of connections: a quarter of the files that the process can open.

    The rest is for the transport, the snapshots and their libraries.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY
    return max(FEWEST, min(MAX_CONNECTIONS, soft // 4)) if few else MAX_CONNECTIONS


def source_of(host: str) -> str:
    """What counts as one source: an IPv4 address, or the /64 network of an IPv6 address.

    Examples
    --------
    >>> source_of("::ffff:10.0.0.7"), source_of("2001:db8::1:2"), source_of("2001:db8::9")
    ('10.0.0.7', '2001:db8::/64', '2001:db8::/64')
    """
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    network = int(found) >> 64 << 64
    return f"{IPv6Address(network)}/64"


_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(/.*)?\Z", re.IGNORECASE | re.DOTALL)

HEAD_BYTES = 16 * 1024  # of a request line and its headers; more is answered with 400 or 431
PIECE_BYTES = 1024  # of a head, parsed one after another; of a body `HEAD_BYTES`
REQUEST_SECONDS = 10.0  # from the first byte, or the connection, to a request's end
LINGER_SECONDS = 10.0  # for a client to end what it sends after its answer
DRAINED_BYTES = (
    64 * 1024
)  # of a body after its answer that are read, so that the next request can follow
WRITE_SECONDS = 20.0  # within which the client must read from a full buffer


class Limited(H11Protocol):
    """uvicorn's HTTP/1.1; a connection that exceeds the limits is closed."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _ahead = 0  # bytes that arrived during a response
    _drained = -1  # bytes of a body that arrived after its answer; -1: not now
    _lingers = False  # whether only the end of the client's sending is awaited

    def __init__(self, connection: Connection, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connection, self._all = connection, connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection and the timeout of its first request."""
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes in pieces; the timeout runs until a request is complete.

        h11 limits a head only while it is incomplete, so a head that arrives at once would pass
        with any size. A piece of a body may have its end, and as much of the next head as may be
        ahead; smaller pieces take longer.
        """
        if self._lingers:
            return
        start = 0
        while start < len(data):
            size = HEAD_BYTES if self.conn.their_state is h11.SEND_BODY else PIECE_BYTES
            piece = data[start : start + size]
            start += size
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
                self._ahead += len(piece)
                if self._ahead > HEAD_BYTES:
                    self.transport.abort()
                    return
            if self.conn.their_state is h11.MUST_CLOSE:
                return  # the client closes after its last request
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if self._drained >= 0 and not self._drain(len(piece)):
                return
        if self.conn.their_state is h11.DONE:
            self._cancel()
        else:
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP. A request that it is a part of is not answered any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def on_response_complete(self) -> None:
        """Start the shorter timeout of an idle connection."""
        self._connection.admitted = self._connection.live = False
        self._ahead = 0
        super().on_response_complete()
        self._cancel()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self._drained = 0
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _drain(self, size: int) -> bool:
        """Nothing needs this piece of a body, but after its end the client may ask again: whether
        what follows is read."""
        self._drained += size
        if self.conn.their_state is not h11.SEND_BODY:
            self._drained = -1
            self._cancel()
        elif self._drained > DRAINED_BYTES:
            self._cancel()
            self._linger()
        return not self._lingers

    def _linger(self) -> None:
        """Nothing reads the rest of a long body: end our side, and drop it for a while."""
        self._lingers = True
        self._unset_keepalive_if_required()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.abort)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def pause_writing(self) -> None:
        """The client reads slowly; start the timeout for a full buffer."""
        super().pause_writing()
        self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read; stop that timeout."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._all.leave(self._connection)
        self._cancel()
        super().connection_lost(exc)
        self.resume_writing()
        # They refer to each other: separated, they are freed without a collection of cycles.
        self.cycle = None  # type: ignore[assignment]

    def _expect_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Front:
    """Checks the head of every request, before it has a route.

    Parameters
    ----------
    app
        Answers the others.
    refused
        Counts, under "head", heads that are too long, or say two lengths of the body.
    """

    def __init__(self, app: ASGIApp, refused: Counter[str]) -> None:
        self._app, self._refused = app, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, or reject it."""
        _make_relative(scope)
        if head_bytes(scope) > HEAD_BYTES:
            self._refused["head"] += 1
            await refuse(send, 431, f"expected a head of up to {HEAD_BYTES} bytes; send less\n")
        elif ambiguous(scope):
            self._refused["head"] += 1
            await refuse(send, 400, "expected one length of the body, got two; send one\n")
        else:
            await self._app(scope, receive, send)


def _make_relative(scope: Scope) -> None:
    """Read a target with a host (`GET http://HOST/healthz`), as it is sent to a proxy. Its host
    replaces the header (RFC 9112, 3.2.2).

    Examples
    --------
    >>> scope = {"raw_path": b"HTTP://a.b:80/v1/x%2Fy", "headers": [(b"host", b"c"), (b"x", b"y")]}
    >>> _make_relative(scope)
    >>> scope["path"], scope["raw_path"], scope["headers"]
    ('/v1/x/y', b'/v1/x%2Fy', [(b'host', b'a.b:80'), (b'x', b'y')])
    """
    found = _ABSOLUTE.match(scope["raw_path"])
    if found is None:
        return
    host, path = found.groups()
    scope["raw_path"] = path or b"/"
    scope["path"] = unquote(scope["raw_path"].decode("ascii"))
    others = [(name, value) for name, value in scope["headers"] if name != b"host"]
    scope["headers"] = [(b"host", host), *others]


def ambiguous(scope: Scope) -> bool:
    """Whether a proxy may see another end of the request: two requests could be one to it.

    RFC 9112, 6.1 and 6.3: a length beside a transfer coding, or a coding in HTTP/1.0, can be an
    attempt to smuggle a request.

    Examples
    --------
    >>> chunked, length = (b"transfer-encoding", b"chunked"), (b"content-length", b"4")
    >>> [ambiguous({"http_version": "1.1", "headers": each})
    ...  for each in ([chunked], [length], [length, chunked])]
    [False, False, True]
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return False
    return b"content-length" in names or scope["http_version"] == "1.0"


def head_bytes(scope: Scope) -> int:
    """The bytes of a request's line and headers, without insignificant spaces."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return len(scope["raw_path"]) + len(scope["query_string"]) + headers + 16


async def refuse(send: Send, status: int, why: str) -> None:
    """Answer with one line and close the connection."""
    body = why.encode()
    every = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})
