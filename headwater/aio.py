"""The asynchronous client. A log has no asynchronous interface, so threads wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

from consumers.api.contract import Label, PredictionRecord, Rejection
from consumers.base.errors import HeadwaterError
from headwater.async_http import AsyncHttpDoor
from headwater.calls import Ask, Call, Calls, Step
from headwater.log import PredictionStream
from headwater.records import Id, Time, Written
from headwater.settings import ClientBase, ClientSettings

__all__ = ["AsyncClient", "AsyncPredictionStream"]

T = TypeVar("T")

MOST_WAITING = 1000  # calls for one topic with the log at a time; further ones wait for their turn


class AsyncClient(ClientBase):
    """`Client` for asyncio: the same parameters, methods, types and errors.

    Many calls may wait at the same time. Over HTTP they share 16 connections; on a log those that
    wait are written with one append. Further calls wait for their turn.

    Examples
    --------
    >>> import asyncio
    >>> from consumers.transports import open_log
    >>> log = open_log("memory:async-client-example")
    >>> log.create_topic("visits", 1)
    >>> async def main() -> int:
    ...     async with AsyncClient("memory:async-client-example", observations="visits") as client:
    ...         calls = [client.observe({"pages": n}) for n in range(100)]
    ...         return len(await asyncio.gather(*calls))
    >>> asyncio.run(main())
    100
    """

    def _open(self, settings: ClientSettings) -> None:
        self._settings, self._calls = settings, Calls(settings)
        self._service = self._log = None
        self._waiting: dict[str, asyncio.Semaphore] = {}
        self._asking: dict[str, ThreadPoolExecutor] = {}
        self._streams: list[AsyncPredictionStream] = []
        if settings.over_http:
            self._service = AsyncHttpDoor(
                settings.url, settings.tokens, settings.tries, settings.tls
            )
        else:
            self._log = settings.log()

    async def observe(
        self,
        x: Mapping[str, object],
        id: Id | None = None,  # noqa: A002  the name of the field
        ts: Time | None = None,
    ) -> Written:
        """Write an observation; see `Client.observe`."""
        return await self._do(self._calls.observe(x, id, ts))

    async def observe_many(
        self,
        xs: Iterable[Mapping[str, object]],
        ids: Iterable[Id | None] | None = None,
        ts: Iterable[Time | None] | None = None,
    ) -> list[Written]:
        """Write observations, in chunks; see `Client.observe_many`."""
        return await self._do(self._calls.observe_many(xs, ids, ts))

    async def label(
        self,
        id: Id,  # noqa: A002  the name of the field
        label: Label,
        w: float | None = None,
        ts: Time | None = None,
        *,
        reporter: str | int | None = None,
    ) -> Written:
        """Write the label of an observation; see `Client.label`."""
        return await self._do(self._calls.label(id, label, w, ts, reporter))

    async def label_many(
        self,
        ids: Iterable[Id],
        labels: Iterable[Label],
        ws: Iterable[float | None] | None = None,
        ts: Iterable[Time | None] | None = None,
        *,
        reporters: Iterable[str | int | None] | None = None,
    ) -> list[Written]:
        """Write labels, in chunks; see `Client.label_many`."""
        return await self._do(self._calls.label_many(ids, labels, ws, ts, reporters))

    async def predict(
        self,
        x: Mapping[str, object],
        *,
        explain: int = 0,
        record: bool = False,
        strict: bool = False,
    ) -> PredictionRecord:
        """The prediction that the service would write now; see `Client.predict`."""
        return await self._do(self._calls.predict(x, explain, record=record, strict=strict))

    async def predict_many(
        self,
        xs: Iterable[Mapping[str, object]],
        *,
        explain: int = 0,
        record: bool = False,
        strict: bool = False,
    ) -> list[PredictionRecord | Rejection]:
        """The predictions of several observations; see `Client.predict_many`."""
        asked = self._calls.predict_many(xs, explain, record=record, strict=strict)
        return await self._do(asked)

    async def prediction(
        self,
        id: Id,  # noqa: A002  the name of the field
    ) -> PredictionRecord | None:
        """The newest prediction that was written for an id; see `Client.prediction`."""
        return await self._do(self._calls.prediction(id))

    def predictions(
        self,
        *,
        follow: bool = True,
        from_beginning: bool = False,
        resume: str | Path | None = None,
    ) -> AsyncPredictionStream:
        """The predictions of the service; see `Client.predictions`. Iterate with `async for`."""
        log = self._log
        if log is None:
            raise self._settings.no_stream()
        topic = self._settings.topic("predictions")
        stream = AsyncPredictionStream(
            lambda: log.predictions(
                topic, follow=follow, from_beginning=from_beginning, resume=resume
            )
        )
        self._streams = [*(other for other in self._streams if not other.closed), stream]
        return stream

    async def close(self) -> None:
        """Close the connections, and the streams of predictions."""
        for stream in self._streams:
            await stream.close()
        if self._service is not None:
            await self._service.close()
        if self._log is not None:
            await asyncio.to_thread(self._log.close)
        for thread in self._asking.values():
            thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def _do(self, call: Call[T]) -> T:
        """Perform the steps of a call; its result."""
        with closing(call):
            try:
                step = next(call)
                while True:
                    try:
                        given = await self._perform(step)
                    except HeadwaterError as error:
                        step = call.throw(error)
                    else:
                        step = call.send(given)
            except StopIteration as end:
                return cast(T, end.value)

    async def _perform(self, step: Step) -> object:
        if isinstance(step, Ask):
            assert self._service is not None  # noqa: S101  as the settings say
            return await self._service.ask(step.request)
        assert self._log is not None  # noqa: S101
        topic, records = step
        async with self._turn(topic):
            if self._log.translates:
                loop = asyncio.get_running_loop()
                thread = None if self._log.knows(topic) else self._asking_for(topic)
                records = await loop.run_in_executor(thread, self._log.translated, topic, records)
            future = asyncio.wrap_future(self._log.append(topic, records))
            try:
                return await asyncio.wait_for(future, self._settings.timeout)
            except TimeoutError:
                raise self._settings.late() from None

    def _turn(self, topic: str) -> asyncio.Semaphore:
        """The bound of a topic's calls. Each has its own, so that calls that wait for a slow
        registry do not keep those of another topic waiting."""
        if topic not in self._waiting:
            self._waiting[topic] = asyncio.Semaphore(MOST_WAITING)
        return self._waiting[topic]

    def _asking_for(self, topic: str) -> ThreadPoolExecutor:
        """The one thread for calls that need a topic's schema, so that those of other topics find a
        free thread while the registry is slow."""
        if topic not in self._asking:
            self._asking[topic] = ThreadPoolExecutor(1, "headwater-schemas")
        return self._asking[topic]


class AsyncPredictionStream(AsyncIterator[PredictionRecord]):
    """Predictions as they are committed; an asynchronous iterator and context manager.

    A thread of its own reads the log, one prediction at a time when it is asked for. `async with`
    waits until it knows where it starts. See `PredictionStream` for what `resume` promises. A
    cancelled wait loses no prediction: the next call returns the one that was awaited.
    """

    def __init__(self, opened: Callable[[], PredictionStream]) -> None:
        self._pool = ThreadPoolExecutor(1, "headwater-predictions")
        self._opening: Future[PredictionStream] = self._pool.submit(opened)
        self._next: asyncio.Future[PredictionRecord | None] | None = None
        self.closed = False

    @property
    def deleted(self) -> int:
        """How many records without a value were skipped; see `PredictionStream`."""
        opened = self._opening.done() and self._opening.exception() is None
        return self._opening.result().deleted if opened else 0

    async def start(self) -> Self:
        """Wait until the positions from which it reads are known; raises what is wrong."""
        await asyncio.shield(asyncio.wrap_future(self._opening))
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PredictionRecord:
        if self.closed:
            raise StopAsyncIteration
        if self._next is None:
            self._next = asyncio.wrap_future(self._pool.submit(self._take))
        try:
            found = await asyncio.shield(self._next)
        except Exception:  # not a cancelled wait, after which it is still awaited
            self._next = None
            raise
        self._next = None
        if found is None:
            await self.close()
            raise StopAsyncIteration
        return found

    def _take(self) -> PredictionRecord | None:
        return next(self._opening.result(), None)

    async def close(self) -> None:
        """Store the positions and close the log. The prediction that came last is repeated."""
        if not self.closed:
            self.closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            if self._opening.exception() is None:
                self._opening.result().close()
        finally:
            self._pool.shutdown()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()
