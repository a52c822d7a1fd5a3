"""What one connection may take: bytes of a request's head, seconds to send and to receive.

A server without these is held up by whoever opens connections and sends or reads nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from consumers.web.connections import Connection, Connections

__all__ = [
    "HEAD_BYTES",
    "REQUEST_SECONDS",
    "WRITE_SECONDS",
    "Front",
    "Guard",
    "Limited",
    "head_bytes",
    "refuse",
]

# Of a request's headers and its connection: whether it may pass. Who refuses also answers.
Guard = Callable[[Mapping[bytes, bytes], Connection, Send], Awaitable[bool]]

HEAD_BYTES = 16 * 1024  # of a request line and its headers; more is answered with 400 or 431
PIECE_BYTES = 1024  # of a head, looked at one after another
REQUEST_SECONDS = 10.0  # from the first byte, or the connection, to a request's end
WRITE_SECONDS = 20.0  # in which something must be read of an answer that fills its buffer


class Limited(H11Protocol):
    """HTTP/1.1 by uvicorn, each connection within the limits; beyond them it is closed."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _ahead = 0  # bytes that came while a request was being answered

    def __init__(self, connection: Connection, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._connection, self._all = connection, connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection; its first request must come in time."""
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Take what came, a piece of a head at a time; the clock runs while one is unfinished.

        h11 holds heads to their limit only while they are incomplete: one that comes at once would
        pass, whatever its size.
        """
        for start in range(0, len(data), PIECE_BYTES):
            piece = data[start : start + PIECE_BYTES]
            if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
                self._ahead += len(piece)
                if self._ahead > HEAD_BYTES:
                    self.transport.abort()
                    return
            super().data_received(piece)
            if self.transport.is_closing():
                return
        if self.conn.their_state is h11.DONE:
            self._cancel()
        else:
            self._expect_request()

    def on_response_complete(self) -> None:
        """From here the shorter timeout of an idle connection counts."""
        self._connection.admitted = self._connection.live = False
        self._ahead = 0
        super().on_response_complete()
        self._cancel()
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()  # a body nobody reads, and it may never end

    def pause_writing(self) -> None:
        """The asker reads more slowly than it is told; it may not stop reading."""
        super().pause_writing()
        self._unread = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._all.leave(self._connection)
        self._cancel()
        super().connection_lost(exc)
        self.resume_writing()
        # Each knows the other: apart, they go at once, not when Python next looks for cycles.
        self.cycle = None  # type: ignore[assignment]

    def _expect_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Front:
    """What every request passes: the limit of its head, then whoever guards the pages.

    Parameters
    ----------
    app
        What answers a request that is let in.
    guard
        Refuses a request itself and returns False, or lets it in.
    connections
        Those there are.
    refused
        Counts, under "head", those that are too long.
    """

    def __init__(
        self, app: ASGIApp, guard: Guard, connections: Connections, refused: Counter[str]
    ) -> None:
        self._app, self._guard, self._refused = app, guard, refused
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        connection: Connection = scope["state"]["connection"]
        if head_bytes(scope) > HEAD_BYTES:
            self._refused["head"] += 1
            await refuse(send, 431, f"expected a head of up to {HEAD_BYTES} bytes; send less\n")
        elif await self._guard(dict(scope["headers"]), connection, send):
            self._connections.admit(connection)
            await self._app(scope, receive, send)


def head_bytes(scope: Scope) -> int:
    """The bytes of a request's line and headers, but for spaces that mean nothing."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return len(scope["raw_path"]) + len(scope["query_string"]) + headers + 16


async def refuse(send: Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a line, and end the connection."""
    body = why.encode()
    every = [
        *headers,
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})
