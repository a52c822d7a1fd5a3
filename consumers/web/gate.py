"""The listening socket: connections are accepted within a limit, before TLS and before any byte.

asyncio's server accepts without a limit, allows a minute for a TLS handshake, and logs a traceback
for each connection without a file descriptor. This one counts at `accept`, and pauses.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from consumers.web import limits
from consumers.web.limits import Connection, Connections, Limited, source_of

if TYPE_CHECKING:
    import ssl

__all__ = ["Gated"]

log = logging.getLogger("headwater")

AT_ONCE = 16  # connections accepted in one turn of the event loop
BACKLOG = 128  # connections that the kernel queues
PAUSE_SECONDS = 0.2  # without a free file descriptor
SHUTDOWN_SECONDS = 5.0  # for the client to end TLS


class Gate:
    """Accepts connections of one listening socket; uvicorn uses it as a server.

    Parameters
    ----------
    listening
        A bound socket.
    tls
        The server's side of TLS; None without TLS.
    connections
        The open connections.
    protocol
        Makes the protocol of one connection.
    """

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        connections: Connections,
        protocol: Callable[[Connection], Limited],
    ) -> None:
        self._listening, self._tls = listening, tls
        self._connections, self._protocol = connections, protocol
        self._loop = asyncio.get_running_loop()
        self._handshakes: dict[asyncio.Task[None], Connection] = {}
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Stop accepting, and close connections before their first request."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for connection in self._handshakes.values():
            connection.close()

    async def wait_closed(self) -> None:
        """Wait until those connections are closed."""
        await asyncio.gather(*self._handshakes)

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:  # it can be closed during the pause
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if self._connections.full:
                return  # called again when some have ended
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor, or no memory
                log.warning(
                    "cannot accept a connection (%s); one is closed for the next, trying again in "
                    "%g s",
                    error.strerror,
                    PAUSE_SECONDS,
                )
                self._connections.evict()
                self._loop.remove_reader(self._listening)
                self._loop.call_later(PAUSE_SECONDS, self._resume)
                return
            accepted.setblocking(False)
            # asyncio does this only for sockets that name their protocol, and `create_server` does
            # not. Without it a response of two writes waits 40 ms for the client's delayed ACK.
            with suppress(OSError):  # already ended
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._connections.enter(
                source_of(str(address[0])), partial(_shut, accepted)
            )
            task = self._loop.create_task(self._begin(accepted, connection))
            self._handshakes[task] = connection
            task.add_done_callback(self._handshakes.pop)

    async def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        """Prepare a connection and hand it to its protocol."""
        transport = None
        try:
            if not await self._byte_arrived(accepted):
                return
            connection.received = True
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._protocol(connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else limits.REQUEST_SECONDS,
                ssl_shutdown_timeout=None if self._tls is None else SHUTDOWN_SECONDS,
            )
        except OSError as error:  # TLS errors too: no handshake, or too slow
            # Its frames keep it and 256 KiB of asyncio's buffer alive until the next collection of
            # cycles, which is rare in the service.
            error.__traceback__ = error.__context__ = None
        finally:
            if transport is None:
                self._loop.call_soon(accepted.close)  # after its transport, if it had one
                self._connections.leave(connection)
        if transport is None:
            return
        if connection.ended:  # meanwhile
            transport.abort()
        else:
            connection.close = transport.abort

    async def _byte_arrived(self, accepted: socket.socket) -> bool:
        """Wait for the first byte; whether it arrived. Until then it takes a file but no memory."""
        heard = asyncio.Event()
        timer = self._loop.call_later(limits.REQUEST_SECONDS, heard.set)
        self._loop.add_reader(accepted, heard.set)
        try:
            await heard.wait()
            return bool(accepted.recv(1, socket.MSG_PEEK))
        except OSError:  # timeout, or reset by the client
            return False
        finally:
            timer.cancel()
            self._loop.remove_reader(accepted)


def _shut(accepted: socket.socket) -> None:
    """End a connection during its handshake: its transport reads the end and closes it."""
    try:
        accepted.shutdown(socket.SHUT_RDWR)
    except OSError:  # already ended
        return


class Gated(uvicorn.Server):
    """uvicorn, accepting by a `Gate`.

    Parameters
    ----------
    config
        uvicorn's.
    tls
        The server's side of TLS; None without TLS.
    connections
        The open connections.
    """

    def __init__(
        self, config: uvicorn.Config, tls: ssl.SSLContext | None, connections: Connections
    ) -> None:
        super().__init__(config)
        self._tls, self._connections = tls, connections
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, what: Callable[[], None]) -> None:
        """Run a call in the server's thread, from another thread; does nothing unless it serves."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the server has ended
                self._loop.call_soon_threadsafe(what)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept on the given sockets."""
        self._loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        self.servers = [
            # uvicorn calls its close and wait_closed.
            Gate(each, self._tls, self._connections, self._protocol)  # type: ignore[misc]
            for each in sockets or ()
        ]
        self.started = True

    def _protocol(self, connection: Connection) -> Limited:
        return Limited(
            connection,
            self._connections,
            config=self.config,
            server_state=self.server_state,
            app_state={
                "connection": connection,
                "admit": partial(self._connections.admit, connection),
            },
        )
