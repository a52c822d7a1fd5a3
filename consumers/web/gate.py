"""The listening socket: connections are accepted within a limit, before TLS and before any byte.

asyncio's own server accepts without a limit, gives a TLS handshake a minute, and writes a traceback
for each connection it has no file descriptor for. This one counts at `accept`, and pauses.
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
from consumers.web.connections import Connection, Connections, source_of
from consumers.web.limits import Limited

if TYPE_CHECKING:
    import ssl

__all__ = ["Gated"]

log = logging.getLogger("headwater")

AT_ONCE = 16  # connections accepted before others are served again
BACKLOG = 128  # that the kernel keeps until they are accepted
PAUSE_SECONDS = 0.2  # where no file descriptor is left
SHUTDOWN_SECONDS = 5.0  # for the other side to end TLS properly


class Gate:
    """Accepts for one listening socket; to uvicorn it is one of its servers.

    Parameters
    ----------
    listening
        A bound socket.
    tls
        The server's side of TLS; None: none.
    connections
        Those there are.
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
        """Accept no more, and end those that have not begun."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        for connection in self._handshakes.values():
            connection.close()

    async def wait_closed(self) -> None:
        """Wait for those that had not begun."""
        await asyncio.gather(*self._handshakes)

    def _resume(self) -> None:
        if self._listening.fileno() >= 0:  # it may have been closed during the pause
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if self._connections.full:
                return  # the loop comes here again when some have ended
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptor, or no memory for one
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
            connection = self._connections.enter(
                source_of(str(address[0])), partial(_shut, accepted)
            )
            task = self._loop.create_task(self._begin(accepted, connection))
            self._handshakes[task] = connection
            task.add_done_callback(self._handshakes.pop)

    async def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        """Bring a connection to where its protocol takes over."""
        transport = None
        try:
            if not await self._spoken(accepted):
                return
            connection.spoken = True
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._protocol(connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else limits.REQUEST_SECONDS,
                ssl_shutdown_timeout=None if self._tls is None else SHUTDOWN_SECONDS,
            )
        except OSError as error:  # TLS's errors too: it was no handshake, or took too long
            # Its frames hold it, and with it 256 KiB of asyncio's buffer, until Python next looks
            # for cycles, which the service makes a rare event.
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

    async def _spoken(self, accepted: socket.socket) -> bool:
        """Wait for its first byte; whether one came. Until then it takes a file and no memory."""
        heard = asyncio.Event()
        timer = self._loop.call_later(limits.REQUEST_SECONDS, heard.set)
        self._loop.add_reader(accepted, heard.set)
        try:
            await heard.wait()
            return bool(accepted.recv(1, socket.MSG_PEEK))
        except OSError:  # nothing came in time, or it was reset
            return False
        finally:
            timer.cancel()
            self._loop.remove_reader(accepted)


def _shut(accepted: socket.socket) -> None:
    """End what is in the midst of its handshake: its transport reads the end, and closes it."""
    try:
        accepted.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        return


class Gated(uvicorn.Server):
    """uvicorn, accepting by a `Gate`.

    Parameters
    ----------
    config
        uvicorn's.
    tls
        The server's side of TLS; None: none.
    connections
        Those there are.
    """

    def __init__(
        self, config: uvicorn.Config, tls: ssl.SSLContext | None, connections: Connections
    ) -> None:
        super().__init__(config)
        self._tls, self._connections = tls, connections
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, what: Callable[[], None]) -> None:
        """Do it in the server's thread; from another one. Nothing happens unless it serves."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended, and all with it
                self._loop.call_soon_threadsafe(what)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept, on the sockets that are given."""
        self._loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        self.servers = [
            # uvicorn calls close and wait_closed of it.
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
            app_state={"connection": connection},
        )
