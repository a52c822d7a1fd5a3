"""The asynchronous client. A log has no asynchronous interface, so threads wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from consumers.api.contract import Label, PredictionRecord, Rejection
from consumers.base.errors import HeadwaterError
from headwater.errors import ServiceError
from headwater.exchange import (
    ask_for,
    known_prediction,
    post,
    prediction_of,
    predictions_of,
    written_of,
)
from headwater.http import AsyncHttpDoor
from headwater.log import PredictionStream
from headwater.records import (
    Id,
    Prepared,
    Time,
    Written,
    chunks,
    prepare_label,
    prepare_labels,
    prepare_observations,
)
from headwater.settings import ClientBase, ClientSettings

__all__ = ["AsyncClient", "AsyncPredictionStream"]

MOST_WAITING = 1000  # appends to a log at the same time; further calls wait for their turn


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
        self._settings = settings
        self._service = self._log = None
        self._waiting = asyncio.Semaphore(MOST_WAITING)
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
        given = None if id is None else [id]
        times = None if ts is None else [ts]
        [made] = prepare_observations([x], given, times, self._settings.id_field)
        return (await self._write("observations", [made], None))[0]

    async def observe_many(
        self,
        xs: Iterable[Mapping[str, object]],
        ids: Iterable[Id | None] | None = None,
        ts: Iterable[Time | None] | None = None,
    ) -> list[Written]:
        """Write observations, in chunks; see `Client.observe_many`."""
        records = prepare_observations(xs, ids, ts, self._settings.id_field)
        return await self._write_all("observations", records)

    async def label(
        self,
        id: Id,  # noqa: A002  the name of the field
        label: Label,
        w: float | None = None,
        ts: Time | None = None,
    ) -> Written:
        """Write the label of an observation; see `Client.label`."""
        return (await self._write("labels", [prepare_label(id, label, w, ts)], None))[0]

    async def label_many(
        self,
        ids: Iterable[Id],
        labels: Iterable[Label],
        ws: Iterable[float | None] | None = None,
        ts: Iterable[Time | None] | None = None,
    ) -> list[Written]:
        """Write labels, in chunks; see `Client.label_many`."""
        return await self._write_all("labels", prepare_labels(ids, labels, ws, ts))

    async def predict(
        self, x: Mapping[str, object], *, explain: int = 0, record: bool = False
    ) -> PredictionRecord:
        """The prediction that the service would write now; see `Client.predict`."""
        records = self._settings.to_predict([x], explain, record=record)
        request = ask_for(list(records), explain, None, record=record)
        return prediction_of(await self._asked().ask(request))

    async def predict_many(
        self, xs: Iterable[Mapping[str, object]], *, explain: int = 0, record: bool = False
    ) -> list[PredictionRecord | Rejection]:
        """The predictions of several observations; see `Client.predict_many`."""
        service = self._asked()
        found: list[PredictionRecord | Rejection] = []
        for chunk in chunks(self._settings.to_predict(xs, explain, record=record)):
            body = await service.ask(ask_for(chunk, explain, len(found), record=record))
            found += predictions_of(body, len(found))
        return found

    async def prediction(
        self,
        id: Id,  # noqa: A002  the name of the field
    ) -> PredictionRecord | None:
        """The newest prediction that was written for an id; see `Client.prediction`."""
        try:
            return prediction_of(await self._asked().ask(known_prediction(id)))
        except ServiceError as error:
            if error.status == 404 and error.problem is not None:
                return None
            raise

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
        stream = AsyncPredictionStream(
            lambda: log.predictions(follow=follow, from_beginning=from_beginning, resume=resume)
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    def _asked(self) -> AsyncHttpDoor:
        if self._service is None:
            raise self._settings.no_predict()
        return self._service

    async def _write_all(self, role: str, records: Iterable[Prepared]) -> list[Written]:
        written: list[Written] = []
        try:
            for chunk in chunks(records):
                written += await self._write(role, chunk, len(written))
        except HeadwaterError as error:
            if written:
                error.add_note(f"The {len(written):,} records before are written.")
            raise
        return written

    async def _write(self, role: str, records: list[Prepared], first: int | None) -> list[Written]:
        """Write one chunk. `first`: the number of its first record; None: it is the only one."""
        if self._log is not None:
            topic = self._log.topic(role)
            async with self._waiting:
                if self._log.translates:
                    records = await asyncio.to_thread(self._log.translated, role, records)
                future = asyncio.wrap_future(self._log.append(role, records))
                try:
                    places = await asyncio.wait_for(future, self._settings.timeout)
                except TimeoutError:
                    raise self._settings.late() from None
            return [r.written(topic, *place) for r, place in zip(records, places, strict=True)]
        if any(record.ts is not None for record in records):
            raise self._settings.no_time()
        request = post(f"/v1/{role}", "write", records, first)
        return written_of(await self._asked().ask(request), records)


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
