"""As `http`, for asyncio: many calls of a loop at the same time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import h11

from consumers.base.secrets import without_login
from headwater.exchange import Pause, Reply, Request, Retries, Send, conversation, next_step
from headwater.http import FAILURES, MOST_CONNECTIONS, trusted
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

__all__ = ["AsyncHttpDoor"]


class AsyncHttpDoor:
    """A service at a URL; see `HttpDoor`. It is for one loop."""

    def __init__(
        self, url: str, tokens: Tokens, retries: Retries, tls: ssl.SSLContext | None = None
    ) -> None:
        self._address, self._tls = address_of(url), tls
        self._where, self._tokens, self._retries = without_login(url), tokens, retries
        self._free = asyncio.Semaphore(MOST_CONNECTIONS)
        self._idle: list[_AsyncLink] = []

    async def ask(self, request: Request) -> bytes:
        """The body of the answer. For the errors see `conversation`."""
        async with self._free:
            talk = conversation(request, self._where, self._retries)
            came: Reply | str | None = None
            while not isinstance(step := next_step(talk, came), bytes):
                came = await self._done(request, step)
            return step

    async def _done(self, request: Request, step: Send | Pause) -> Reply | str | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        link: _AsyncLink | None = None
        try:
            async with asyncio.timeout(step.seconds):
                link = await self._link()
                reply = await link.moved(exchanged(link.http, request, self._address, self._tokens))
                link.reused = ready_again(link.http)
                return reply
        except FAILURES as error:
            return why(error)
        finally:
            if link is not None and link.reused:
                self._idle.append(link)
            elif link is not None:
                link.close()

    async def _link(self) -> _AsyncLink:
        while self._idle:
            link = self._idle.pop()
            link.reused = False
            if not link.reader.at_eof():
                return link
            link.close()
        host, port = self._address.host, self._address.port
        if self._address.tls:
            self._tls = self._tls or trusted()
            streams = await asyncio.open_connection(host, port, ssl=self._tls, server_hostname=host)
        else:
            streams = await asyncio.open_connection(host, port)
        return _AsyncLink(*streams)

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            link = self._idle.pop()
            link.close()
            with suppress(OSError):
                await link.writer.wait_closed()


class _AsyncLink:
    """As `_Link`, by streams of asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http = h11.Connection(h11.CLIENT)
        self.reused = False

    async def moved(self, exchange: Exchange) -> Reply:
        """The reply, after the bytes of the exchange were moved."""
        try:
            out = next(exchange)
            while True:
                self.writer.write(out)
                with suppress(ConnectionError):
                    await self.writer.drain()
                out = exchange.send(await self.reader.read(MOST_READ))
        except StopIteration as end:
            reply: Reply = end.value
            return reply

    def close(self) -> None:
        """Close it, without waiting."""
        self.writer.close()
