"""What one asker may take: connections, bytes of a request's head, seconds to send a request.

A server without these is held up by whoever opens connections and sends nothing.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_BYTES", "MAX_CONNECTIONS", "REQUEST_SECONDS", "Limited"]

MAX_CONNECTIONS = 64  # Prometheus needs one, an orchestrator another
HEAD_BYTES = 16 * 1024  # of a request line and its headers; more is answered with 400
REQUEST_SECONDS = 10.0  # from the first byte, or the connection, to a request's end


class Limited(H11Protocol):
    """HTTP/1.1 by uvicorn, each connection within the limits; beyond them it is closed."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
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

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._cancel()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
