"""What one asker may take: connections, bytes of a request's head, seconds to send and to receive.

A server without these is held up by whoever opens connections and sends or reads nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = [
    "HEAD_BYTES",
    "MAX_CONNECTIONS",
    "REQUEST_SECONDS",
    "WRITE_SECONDS",
    "Limited",
    "limited",
]

MAX_CONNECTIONS = 256  # twice the pages that may be open: each may fetch beside its stream
HEAD_BYTES = 16 * 1024  # of a request line and its headers; more is answered with 400
REQUEST_SECONDS = 10.0  # from the first byte, or the connection, to a request's end
WRITE_SECONDS = 20.0  # in which something must be read of an answer that fills its buffer


class Limited(H11Protocol):
    """HTTP/1.1 by uvicorn, each connection within the limits; beyond them it is closed."""

    refused: Counter[str]  # whom one server refused; `limited` sets it
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self.refused["connections"] += 1
            transport.abort()
        else:
            self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Take what came; the clock runs while a request is unfinished."""
        super().data_received(data)
        if self.conn.their_state is h11.DONE:
            self._cancel()
        elif not self.transport.is_closing():
            self._expect_request()

    def on_response_complete(self) -> None:
        """From here the shorter timeout of an idle connection counts."""
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
        self._cancel()
        super().connection_lost(exc)
        self.resume_writing()

    def _expect_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limited(refused: Counter[str]) -> type[Limited]:
    """The protocol of one server, which counts whom it refuses."""
    return type("Limited", (Limited,), {"refused": refused})
