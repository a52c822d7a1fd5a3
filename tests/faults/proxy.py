"""A TCP proxy that fails on demand: drop, delay, half-open, and single requests by their API key.

It knows of the Kafka protocol only that a request is four bytes of length and begins with its API
key. Runs in a thread of its own; every switch may be thrown from any other.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["END_TXN", "Proxy"]

END_TXN = 26


class Proxy:
    """Listens on 127.0.0.1:`port` and forwards to 127.0.0.1:`target`.

    Attributes
    ----------
    refusing
        New connections are closed at once.
    silent
        Bytes are taken and go nowhere, both ways: the other side seems to have gone.
    delay
        Seconds by which each piece is late, both ways.
    hold
        API key to the seconds for which the next such request is held; it is delivered then, even
        if its sender has given up. Used up by one request.
    lose
        API keys whose next request is delivered and whose answer is not: the connection breaks.
    """

    def __init__(self, port: int, target: int) -> None:
        self._port, self._target = port, target
        self.refusing = self.silent = False
        self.delay = 0.0
        self.hold: dict[int, float] = {}
        self.lose: set[int] = set()
        self.met = 0  # requests held or lost
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the proxy could not listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(10)

    def break_all(self) -> None:
        """Every connection is reset."""
        self._loop.call_soon_threadsafe(self._abort)

    def heal(self) -> None:
        """Everything is as it should be; what was silent is reset, for its bytes are lost."""
        if self.silent:
            self.break_all()
        self.refusing = self.silent = False
        self.delay = 0.0
        self.hold.clear()
        self.lose.clear()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._ending = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._ready.set()
        await self._ending.wait()
        server.close()
        self._abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        broken = asyncio.Event()
        up = asyncio.create_task(self._requests(reader, far_writer, broken))
        down = asyncio.create_task(self._answers(far_reader, writer, broken))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if not far_reader.at_eof() and self._tasks:
                await asyncio.wait(set(self._tasks))  # what is held is still to be delivered
        finally:
            for task in (up, down):
                task.cancel()
            for each in (writer, far_writer):
                each.transport.abort()
                self._writers.discard(each)

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broken: asyncio.Event
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(head, "big"))
                key = int.from_bytes(body[:2], "big")
                if self.silent:
                    continue
                if key in self.hold:
                    self.met += 1
                    task = asyncio.create_task(self._late(writer, head + body, self.hold.pop(key)))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                    await task
                    continue
                if key in self.lose:
                    self.lose.discard(key)
                    self.met += 1
                    broken.set()
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(head + body)
                await writer.drain()

    async def _late(self, writer: asyncio.StreamWriter, request: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(OSError):
            writer.write(request)
            await writer.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broken: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                if broken.is_set():
                    return
                if self.silent:
                    continue
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(piece)
                await writer.drain()
