"""The conversations of `exchange` over the network: connections, and the bytes of `http1` on them.

A connection is kept for the next request. One that the service has closed meanwhile is replaced.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Semaphore
from typing import TYPE_CHECKING

import h11

from consumers.base.secrets import without_login
from headwater.exchange import Pause, Reply, Request, Retries, Send, conversation, next_step
from headwater.http1 import (
    MOST_READ,
    Exchange,
    Tokens,
    address_of,
    exchanged,
    ready_again,
    why,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["FAILURES", "MOST_CONNECTIONS", "HttpDoor", "trusted"]

MOST_CONNECTIONS = 16  # of a client; further calls wait for one
FAILURES = (OSError, h11.RemoteProtocolError)  # TimeoutError and those of TLS are OSErrors


class HttpDoor:
    """A service at a URL. Several threads may use it.

    Parameters
    ----------
    url
        The address of the service.
    tokens
        Those of `[serve]`.
    retries
        How often and how long a call is tried.
    tls
        The certificates that are trusted, and the one that is shown.
    sleep
        Waits some seconds.

    Raises
    ------
    ConfigError
        The URL is not that of a service.
    """

    def __init__(
        self,
        url: str,
        tokens: Tokens,
        retries: Retries,
        tls: ssl.SSLContext | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._address, self._tls = address_of(url), tls
        self._where, self._tokens, self._retries = without_login(url), tokens, retries
        self._sleep = sleep
        self._free = Semaphore(MOST_CONNECTIONS)
        self._idle: list[_Link] = []

    def ask(self, request: Request) -> bytes:
        """The body of the answer. For the errors see `conversation`."""
        with self._free:  # the timeout begins when it is the turn of this call
            talk = conversation(request, self._where, self._retries)
            came: Reply | str | None = None
            while not isinstance(step := next_step(talk, came), bytes):
                came = self._done(request, step)
            return step

    def _done(self, request: Request, step: Send | Pause) -> Reply | str | None:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return None
        until = time.monotonic() + step.seconds
        link: _Link | None = None
        try:
            link = self._link(until)
            reply = link.moved(exchanged(link.http, request, self._address, self._tokens), until)
            link.reused = ready_again(link.http)
            return reply
        except FAILURES as error:
            return why(error)
        finally:
            if link is not None and link.reused:
                self._idle.append(link)
            elif link is not None:
                link.close()

    def _link(self, until: float) -> _Link:
        """A connection: the one used last, or a new one."""
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            link.reused = False
            if link.is_open():
                return link
            link.close()
        host, port = self._address.host, self._address.port
        link = _Link(socket.create_connection((host, port), _left(until)))
        if self._address.tls:
            try:
                self._tls = self._tls or trusted()
                link.socket = self._tls.wrap_socket(link.socket, server_hostname=host)
            except BaseException:
                link.close()
                raise
        return link

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()


class _Link:
    """A connection, and what h11 knows of it. `reused`: whether a next request may use it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.http = h11.Connection(h11.CLIENT)
        self.reused = False

    def is_open(self) -> bool:
        """Whether the service has not closed it: nothing is there to be read."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.socket, selectors.EVENT_READ)
            return not waiting.select(0)

    def moved(self, exchange: Exchange, until: float) -> Reply:
        """The reply, after the bytes of the exchange were moved."""
        try:
            out = next(exchange)
            while True:
                self.socket.settimeout(_left(until))
                with suppress(ConnectionError):  # refused before the end; its answer may be there
                    self.socket.sendall(out)
                self.socket.settimeout(_left(until))
                out = exchange.send(self.socket.recv(MOST_READ))
        except StopIteration as end:
            reply: Reply = end.value
            return reply

    def close(self) -> None:
        """Close it."""
        self.socket.close()


def trusted() -> ssl.SSLContext:
    """The authorities that this machine trusts. Loading them takes a while."""
    from ssl import create_default_context

    return create_default_context()


def _left(until: float) -> float:
    """The seconds until then; at least one millisecond, because 0 means no timeout."""
    return max(until - time.monotonic(), 0.001)
