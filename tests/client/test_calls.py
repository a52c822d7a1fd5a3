"""The calls of both clients: the same for both, and cancelled at any point."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing
from headwater import AsyncClient, Client
from headwater.aio import AsyncPredictionStream
from headwater.calls import Append, Ask, Calls
from headwater.exchange import Request
from headwater.log import PredictionStream
from headwater.records import TopicNames
from headwater.settings import ClientSettings
from tests.waiting import PATIENCE


def public(of: type) -> dict[str, inspect.Signature]:
    """Its methods, with what they take."""
    names = [name for name in dir(of) if not name.startswith("_")]
    return {name: inspect.signature(getattr(of, name)) for name in names}


def test_both_clients_take_the_same() -> None:
    """Names, kinds, defaults and types of parameters; one is awaited."""
    ours, theirs = public(Client), public(AsyncClient)

    assert {name: s.parameters for name, s in ours.items()} == {
        name: s.parameters for name, s in theirs.items()
    }
    results = {n: (s.return_annotation, theirs[n].return_annotation) for n, s in ours.items()}
    assert results.pop("predictions") == ("PredictionStream", "AsyncPredictionStream")
    assert all(one == other for one, other in results.values())
    assert inspect.signature(Client) == inspect.signature(AsyncClient)


def test_call_is_a_sequence_of_steps() -> None:
    """Chunks, one after the other; the error of a step says what is written."""
    calls = Calls(ClientSettings(url="memory:calls", topics=TopicNames("obs", "ans")))
    call = calls.observe_many(({"n": n} for n in range(1500)), None, None)
    first = next(call)
    assert isinstance(first, Append)
    assert (first.topic, len(first.records)) == ("obs", 1000)
    second = call.send([(0, n) for n in range(1000)])
    assert isinstance(second, Append)
    assert len(second.records) == 500
    with pytest.raises(TransportError) as failed:
        call.throw(TransportError("the log is full"))
    assert failed.value.__notes__ == ["The 1,000 records before are written."]

    asked = Calls(ClientSettings(url="http://here")).prediction("a/b")
    assert next(asked) == Ask(
        Request("/v1/predictions/a%2Fb", "read", b"", "application/json", None)
    )


async def _service(answering: asyncio.Event, seen: list[bytes]) -> asyncio.Server:
    """A service that answers nothing before it may."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.lower().split(b"content-length: ")[1].split()[0])
                seen.append(await reader.readexactly(size))
                await answering.wait()
                body = b'{"records":[{"topic":"obs","partition":0,"offset":0}]}'
                writer.write(b"HTTP/1.1 202 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def test_cancelled_requests_leave_the_client_usable() -> None:
    """More than it has connections, at any point: waiting for a connection, or for the answer."""

    async def main() -> None:
        answering, seen = asyncio.Event(), list[bytes]()
        async with await _service(answering, seen) as server:
            port = server.sockets[0].getsockname()[1]
            async with AsyncClient(f"http://127.0.0.1:{port}") as client:
                for round_ in range(3):
                    before = len(seen)
                    tasks = [
                        asyncio.ensure_future(client.observe({"n": n}, id=f"{round_}-{n}"))
                        for n in range(40)
                    ]
                    async with asyncio.timeout(PATIENCE):
                        while len(seen) < before + 16:
                            await asyncio.sleep(0.001)
                    for task in tasks:
                        task.cancel()
                    done = await asyncio.gather(*tasks, return_exceptions=True)
                    assert {type(each) for each in done} == {asyncio.CancelledError}
                    assert len(seen) == before + 16
                answering.set()
                written = [client.observe({"n": n}) for n in range(40)]
                assert len(await asyncio.gather(*written)) == 40

    asyncio.run(main())


class HeldLog:
    """A log whose appends wait until they may."""

    def __init__(self) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self.ids: list[str] = []

    def append(self, records: list[Outgoing]) -> list[tuple[int, int]]:
        self.begun.set()
        assert self.may.wait(PATIENCE)
        first = len(self.ids)
        self.ids += [json.loads(record.value or b"")["id"] for record in records]
        return [(0, first + n) for n in range(len(records))]

    def close(self) -> None: ...


def test_cancelled_append_that_has_not_begun_is_not_written(monkeypatch) -> None:
    """One that has begun may be written. The other calls get the places of their records."""
    held = HeldLog()
    monkeypatch.setattr("headwater.log.open_log", lambda url, kafka: held)

    async def main() -> list[int]:
        async with AsyncClient("memory:x", observations="o") as client:
            begun = asyncio.ensure_future(client.observe({}, id="begun"))
            await asyncio.to_thread(held.begun.wait, PATIENCE)
            tasks = [asyncio.ensure_future(client.observe({}, id=f"w{n}")) for n in range(4)]
            await asyncio.sleep(0)
            cancelled = (begun, tasks[0], tasks[2])
            for task in cancelled:
                task.cancel()
            await asyncio.gather(*cancelled, return_exceptions=True)
            held.may.set()
            return [(await tasks[n]).offset for n in (1, 3)]

    assert asyncio.run(main()) == [1, 2]
    assert held.ids == ["begun", "w1", "w3"]


def test_stream_that_could_not_be_opened_has_skipped_nothing() -> None:
    """The reason is raised where a prediction is awaited, not where it is counted."""

    def opened() -> PredictionStream:
        raise TransportError("no such log")

    async def main() -> int:
        stream = AsyncPredictionStream(opened)
        with pytest.raises(TransportError, match="no such log"):
            await stream.start()
        return stream.deleted

    assert asyncio.run(main()) == 0
