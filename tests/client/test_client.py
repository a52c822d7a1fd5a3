"""Both clients against a service that runs, over HTTP and through its log."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from consumers.api.contract import PredictionRecord, Rejection
from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from consumers.transports.positions import Positions
from headwater import AsyncClient, Client, ConfigError, RecordError, ServiceError, TransportError
from tests.consumers.schemas.registered import Registered
from tests.waiting import PATIENCE, until
from tests.web.living import Living, living

TOPICS = {"observations": "obs", "labels": "ans", "predictions": "svc-predictions"}
READ, WRITE = "r" * 20, "w" * 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the service."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def service(path: Path) -> Iterator[Living]:
    """A service with tokens, after 60 labels."""
    tokens = f'read_token = "${{file:{path}/read}}"\nwrite_token = "${{file:{path}/write}}"\n'
    (path / "read").write_text(READ)
    (path / "write").write_text(WRITE)
    more = f'[serve]\nmax_age = "10ms"\ntimeout = "60s"\n{tokens}'
    with living(path, transport="sqlite", more=more) as service:
        service.send(60)
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 60)
        yield service


@pytest.fixture(scope="module")
def url(path: Path) -> str:
    """Its log."""
    return f"sqlite:{path / 'log.db'}"


@pytest.fixture(params=["http", "log"])
def client(request, service: Living, url: str) -> Iterator[Client]:
    """A client of it."""
    with (
        Client(service.url, read_token=READ, write_token=WRITE)
        if request.param == "http"
        else Client(url, **TOPICS)
    ) as client:
        yield client


def value(service: Living, topic: str, offset: int) -> tuple[bytes | None, dict, int]:
    """Key, value and timestamp of a record in the log."""
    at = Partition(topic, 0)
    (chunk,) = service._feed.read({at: offset}, {at: offset + 1})
    return chunk.keys[0], json.loads(chunk.values[0]), chunk.timestamps[0]


def test_observation_and_label_are_written_and_learned(client: Client, service: Living) -> None:
    """The result says where they are; the service joins them."""
    learned = service.status_feed.view.learned
    name = repr(client)
    seen = client.observe({"a": 1.0, "b": 0.3}, id=name)
    told = client.label(name, "right", w=2.0)

    assert (seen.id, seen.topic, told.topic) == (name, "obs", "ans")
    assert value(service, "obs", seen.offset)[:2] == (
        name.encode(), {"a": 1.0, "b": 0.3, "id": name},
    )  # fmt: skip
    assert value(service, "ans", told.offset)[1] == {"id": name, "label": "right", "w": 2.0}
    until(lambda: service.status_feed.view.learned == learned + 1)


def test_reporters_are_in_their_field(client: Client, service: Living) -> None:
    """One by one and together; who is not named has none."""
    told = client.label("r", "right", reporter="ann")
    many = client.label_many(["r", "s"], ["right", "left"], reporters=[7, None])

    assert value(service, "ans", told.offset)[1] == {"id": "r", "label": "right", "reporter": "ann"}
    assert value(service, "ans", many[0].offset)[1]["reporter"] == "7"
    assert "reporter" not in value(service, "ans", many[1].offset)[1]
    with pytest.raises(RecordError, match="expected a reporter"):
        client.label("r", "right", reporter="x" * 257)
    with pytest.raises(ConfigError, match="as many ids"):
        client.label_many(["r", "s"], ["right", "left"], reporters=["ann"])


def test_many_records_are_written_in_their_order(client: Client, service: Living) -> None:
    """In several chunks; the ids are those that were given or made."""
    n = 1500
    written = client.observe_many(({"a": i / n, "b": 0.0} for i in range(n)), ids=range(n, 2 * n))
    labelled = client.label_many(range(n, 2 * n), ["left"] * n)

    assert [each.id for each in written] == [str(i) for i in range(n, 2 * n)]
    assert [each.id for each in labelled] == [each.id for each in written]
    assert [each.offset for each in written] == list(
        range(written[0].offset, written[0].offset + n)
    )
    assert value(service, "obs", written[-1].offset)[1]["a"] == (n - 1) / n


def test_prediction_of_a_service_is_typed(service: Living) -> None:
    """As in the topic, with the age of the model."""
    with Client(service.url, read_token=READ) as client:
        found = client.predict({"a": 1.0, "b": 0.3}, explain=1)
        many = client.predict_many([{"a": 1.0}, {"a": "x"}, {"a": 0.0}])

    assert isinstance(found, PredictionRecord)
    assert found.prediction in ("left", "right")
    assert found.age_ms is not None
    assert found.explanation is not None
    assert [type(each) for each in many] == [PredictionRecord, Rejection, PredictionRecord]
    assert isinstance(many[1], Rejection)
    assert (many[1].index, many[1].reason) == (1, "wrong_kind")


def test_fields_that_are_not_used_are_notes_or_with_strict_an_error(service: Living) -> None:
    """The same in both clients, for one record and for many."""

    async def asynchronous() -> list[PredictionRecord | Rejection]:
        async with AsyncClient(service.url, read_token=READ) as client:
            with pytest.raises(RecordError, match="not_used: field 'bb'"):
                await client.predict({"a": 1.0, "bb": 2}, strict=True)
            return await client.predict_many([{"a": 1.0}, {"bb": 2}], strict=True)

    with Client(service.url, read_token=READ) as client:
        found = client.predict({"a": 1.0, "bb": 2})
        with pytest.raises(RecordError, match="not_used: field 'bb': no field of the model"):
            client.predict({"a": 1.0, "bb": 2}, strict=True)
        many = client.predict_many([{"a": 1.0}, {"bb": 2}], strict=True)

    assert [(note.field, note.what) for note in found.notes] == [("bb", "unknown")]
    for both in (many, asyncio.run(asynchronous())):
        assert isinstance(both[0], PredictionRecord)
        assert isinstance(both[1], Rejection)
        assert (both[0].notes, both[1].index, both[1].reason) == ([], 1, "not_used")


def test_recorded_prediction_is_that_of_the_topic(service: Living) -> None:
    """The observation is written, with an id of its own if it has none, and can be labelled."""

    async def asynchronous() -> list[PredictionRecord | Rejection]:
        async with AsyncClient(service.url, read_token=READ, write_token=WRITE) as client:
            alone = await client.predict({"a": 0.2}, record=True)
            return [alone, *await client.predict_many([{"a": 0.1}, {"a": 0.3}], record=True)]

    with Client(service.url, read_token=READ, write_token=WRITE) as client:
        found = client.predict({"a": 1.0, "id": "recorded"}, record=True)
        many = [*client.predict_many([{"a": 0.5}] * 2, record=True), *asyncio.run(asynchronous())]
        with pytest.raises(ConfigError, match=r"record or explain; .* by \[output\] explain"):
            client.predict({"a": 1.0}, record=True, explain=1)
    with (
        Client(service.url, read_token=READ) as client,
        pytest.raises(ServiceError, match="answered 401"),
    ):
        client.predict({"a": 1.0}, record=True)

    assert found.id == "recorded"
    for each in (found, *many):
        assert isinstance(each, PredictionRecord)
        assert each.age_ms is None  # it is the one that was written
        assert value(service, "obs", each.position.offset)[1]["id"] == each.id


def test_rejected_record_is_an_error_with_its_number(service: Living) -> None:
    """Nothing of its chunk is written; the chunks before are, as the note says."""
    with Client(service.url, read_token=READ, write_token=WRITE) as client:
        with pytest.raises(RecordError, match="wrong_kind") as alone:
            client.observe({"a": "x"})
        with pytest.raises(RecordError, match="record 1002: ") as caught:
            client.observe_many([{"a": 0.0}] * 1002 + [{"a": "x"}])

    assert "record" not in str(alone.value).split(":")[1]
    assert caught.value.__notes__ == ["The 1,000 records before are written."]


def test_wrong_token_is_one_line(service: Living) -> None:
    """With the status, and without the token."""
    with Client(service.url, write_token="x" * 20) as client:
        with pytest.raises(
            ServiceError, match=r"answered 401: expected the bearer token"
        ) as caught:
            client.observe({"a": 1.0})

        assert caught.value.status == 401
        assert "x" * 20 not in str(caught.value) + repr(client)


def test_service_that_does_not_run_is_one_line() -> None:
    """After the attempts that were allowed."""
    with Client("http://127.0.0.1:9", retries=1) as client:
        with pytest.raises(ServiceError, match="got none after 2 attempts") as caught:
            client.predict({})

        assert caught.value.status is None


def test_time_of_a_record_is_the_one_given(service: Living, url: str) -> None:
    """In the log; a service stamps records itself."""
    moment = datetime(2024, 3, 1, 12, tzinfo=UTC)
    with Client(url, **TOPICS) as client:
        first = client.observe({"a": 1.0}, ts=moment)
        second = client.observe({"a": 1.0}, ts=1709294400000)
        label = client.label(first.id, "left", ts="2024-03-01T12:00:00Z")
    with Client(service.url) as client, pytest.raises(ConfigError, match="expected no ts"):
        client.observe({"a": 1.0}, ts=moment)

    for each in (first, second, label):
        assert value(service, each.topic, each.offset)[2] == 1709294400000


def test_predictions_are_typed_and_end_at_the_present_end(service: Living, url: str) -> None:
    """All of them from the beginning; only new ones otherwise."""
    service.send(1)
    with Client(url, **TOPICS) as client:
        every = list(client.predictions(follow=False, from_beginning=True))
        new = list(client.predictions(follow=False))

    assert [each.id for each in every][:60] == [f"r{i}" for i in range(60)]
    assert every[-1].position.topic == "obs"
    assert new == []


def test_predictions_are_followed(service: Living, url: str) -> None:
    """From the call on: what is written after it is seen."""
    with Client(url, **TOPICS) as client:
        stream = client.predictions()
        client.observe({"a": 1.0}, id="followed")
        found = next(each for each in stream if each.id == "followed")

    assert found.prediction in ("left", "right")
    assert list(stream) == []  # it was closed with the client


def test_resumed_predictions_repeat_the_last_one_only(
    service: Living, url: str, tmp_path: Path
) -> None:
    """One that was returned is processed when the next one is asked for."""
    resume = tmp_path / "predictions.pos"
    with Client(url, **TOPICS) as client:
        with client.predictions(from_beginning=True, resume=resume) as stream:
            first = [next(stream).id for _ in range(5)]
        again = client.predictions(follow=False, from_beginning=True, resume=resume)
        rest = [each.id for each in again]
        nothing = list(client.predictions(follow=False, from_beginning=True, resume=resume))

    assert (first[-1], rest[0], nothing) == ("r4", "r4", [])
    assert rest[:50] == [f"r{i}" for i in range(4, 54)]


READER = """
import sys
from headwater import Client
client = Client(sys.argv[1], predictions="svc-predictions")
for each in client.predictions(from_beginning=True, resume=sys.argv[2]):
    print(each.id, flush=True)
"""


def test_killed_reader_misses_no_prediction(service: Living, url: str, tmp_path: Path) -> None:
    """By SIGKILL, while it processes one."""
    resume = str(tmp_path / "predictions.pos")
    seen: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", READER, url, resume], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        seen += [reader.stdout.readline().strip() for _ in range(25)]
        os.kill(reader.pid, signal.SIGKILL)
        seen += [line.strip() for line in reader.stdout if line.endswith("\n")]
        reader.wait(PATIENCE)
    with Client(url, **TOPICS) as client:
        rest = client.predictions(follow=False, from_beginning=True, resume=resume)
        seen += [each.id for each in rest]
        every = client.predictions(follow=False, from_beginning=True)

        assert {each.id for each in every} == set(seen)


def test_what_the_other_side_does_is_one_line(service: Living, url: str) -> None:
    """It says which client to make."""
    with Client(url, **TOPICS) as client, pytest.raises(ConfigError, match="a log cannot predict"):
        client.predict({"a": 1.0})
    with Client(service.url) as client, pytest.raises(ConfigError, match="expected a log, because"):
        client.predictions()
    with Client(url) as client, pytest.raises(ConfigError, match="topic of the observations"):
        client.observe({"a": 1.0})


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("ftp://x", {}, "expected http://HOST:PORT or a log as"),
        ("payments.toml", {}, "expected http://HOST:PORT or a log as"),
        ("http://[", {}, "http"),
        ("http://x", {"labels": "l"}, "topics and kafka are for a log"),
        ("sqlite:no-such.db", {}, "no such log"),
        ("memory:x", {"read_token": READ}, "tokens and tls are for a service"),
        ("memory:x", {"timeout": 0}, "expected timeout above 0"),
        ("kafka://me:secret@x:1", {"observations": "o"}, r"kafka://\*\*\*@x:1"),
    ],
)
def test_bad_arguments_are_one_line(url: str, options: dict, words: str) -> None:
    """Secrets of a URL are not repeated."""
    with pytest.raises((ConfigError, TransportError), match=words) as caught:
        Client(url, **options).observe({})

    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_topic_of_other_records_is_one_line(service: Living, url: str) -> None:
    """A typo in the name of the topic."""
    with Client(url, predictions="ans") as client:
        with pytest.raises(ConfigError, match=r"expected a prediction at offset 0 of ans\[0\]"):
            next(client.predictions(from_beginning=True))
        with pytest.raises(ConfigError, match="has no topic 'nowhere'"):
            Client(url, predictions="nowhere").predictions()


def test_records_without_a_value_are_skipped_and_counted(
    service: Living, url: str, tmp_path: Path
) -> None:
    """They delete the predictions of their id; it was an error. Positions advance after them."""
    where, resume = "memory:deleted-predictions", tmp_path / "deleted.pos"
    with Client(url, **TOPICS) as client:
        made = [msgspec.json.encode(p) for p in islice(client.predictions(from_beginning=True), 2)]
    log = open_log(where)
    log.create_topic("p", 1)
    log.append([Outgoing("p", b"r", value) for value in (None, made[0], None, None, made[1], None)])

    with Client(where, predictions="p") as client:
        stream = client.predictions(follow=False, from_beginning=True, resume=resume)
        assert [each.id for each in stream] == ["r0", "r1"]
        assert stream.deleted == 4
        assert Positions.read(resume).next == {Partition("p", 0): 6}

    async def main() -> int:
        async with AsyncClient(where, predictions="p") as client:
            stream = client.predictions(follow=False, from_beginning=True)
            return len([each async for each in stream]) + 10 * stream.deleted

    assert asyncio.run(main()) == 42


def test_configuration_names_log_topics_and_id(tmp_path: Path) -> None:
    """And the address that predicts."""
    (tmp_path / "c.toml").write_text(
        'name = "n"\n[input]\ntransport = "sqlite:log.db"\nobservations = "o"\nid = "order"\n'
        'label = "y"\n[features]\nx = "numeric"\n[http]\nport = 9999\n'
    )
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    for topic in ("o", "n-predictions"):
        log.create_topic(topic, 1)
    with Client.from_config(tmp_path / "c.toml") as client:
        written = client.observe({"x": 1.0}, id=7)
        assert list(client.predictions(follow=False)) == []
        with pytest.raises(ConfigError, match=r"http://127\.0\.0\.1:9999"):
            client.predict({"x": 1.0})
        with pytest.raises(ConfigError, match="topic of the labels"):
            client.label(7, "a")
    (chunk,) = log.read({Partition("o", 0): 0}, {Partition("o", 0): 1})
    log.close()

    assert (written.topic, chunk.values) == ("o", [b'{"x":1.0,"order":7}'])


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_records_with_schemas_are_written_and_read(tmp_path: Path, kind: str) -> None:
    """By the registry of the configuration; one that does not fit its schema is one line."""
    shop = Registered(tmp_path, kind, url=f"sqlite:{tmp_path / 'log.db'}")
    (tmp_path / "shop.toml").write_text(shop.text())

    async def more() -> None:
        async with AsyncClient.from_config(tmp_path / "shop.toml") as client:
            await client.observe({"amount": 2.0, "shop": {"city": "Rom"}}, id="v2")

    with Client.from_config(tmp_path / "shop.toml") as client:
        client.observe({"amount": 1.5, "shop": {"city": "Bonn"}}, id="v1")
        client.label("v1", "yes")
        asyncio.run(more())
        with pytest.raises(RecordError, match="a record for visits ") as caught:
            client.observe({"amount": "many", "shop": {"city": "Bonn"}}, id="v3")
        shop.run()
        found = list(client.predictions(follow=False, from_beginning=True))
    shop.log.close()

    assert "\n" not in str(caught.value)
    assert [each.id for each in found] == ["v1", "v2"]
    assert found[1].prediction == "yes"


class SlowRegistry:
    """Does not answer for the schema of the labels until it may."""

    def __init__(self, client: Client | AsyncClient) -> None:
        assert client._log is not None
        assert client._log._translator is not None
        registry = client._log._translator._registry
        self.asked, self.may = threading.Event(), threading.Event()
        self._latest, registry.latest = registry.latest, self.latest

    def latest(self, subject: str) -> object:
        if subject == "bought-value":
            self.asked.set()
            assert self.may.wait(PATIENCE)
        return self._latest(subject)


def test_slow_registry_holds_up_the_calls_that_need_it(tmp_path: Path) -> None:
    """Labels wait for their schema. Observations, whose schema is known, do not."""
    shop = Registered(tmp_path, "avro", url=f"sqlite:{tmp_path / 'log.db'}")
    (tmp_path / "shop.toml").write_text(shop.text())
    bought = {"amount": 1.5, "shop": {"city": "Bonn"}}

    with Client.from_config(tmp_path / "shop.toml") as client, ThreadPoolExecutor(3) as pool:
        client.observe(bought, id="v0")
        slow = SlowRegistry(client)
        waiting = [pool.submit(client.label, "v0", "yes") for _ in range(3)]
        assert slow.asked.wait(PATIENCE)
        client.observe(bought, id="v1")
        assert not any(each.done() for each in waiting)
        slow.may.set()
        written = [each.result(PATIENCE).offset for each in waiting]
    shop.log.close()

    assert sorted(written) == [0, 1, 2]


@pytest.mark.parametrize("most", [1000, 50])
def test_slow_registry_leaves_threads_to_other_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many asynchronous calls wait for a schema, also as many as may wait for a topic."""
    monkeypatch.setattr("headwater.aio.MOST_WAITING", most)
    shop = Registered(tmp_path, "avro", url=f"sqlite:{tmp_path / 'log.db'}")
    (tmp_path / "shop.toml").write_text(shop.text())
    bought = {"amount": 1.5, "shop": {"city": "Bonn"}}

    async def main() -> list[int]:
        async with AsyncClient.from_config(tmp_path / "shop.toml") as client:
            await client.observe(bought, id="v0")
            slow = SlowRegistry(client)
            waiting = [asyncio.create_task(client.label("v0", "yes")) for _ in range(50)]
            assert await asyncio.to_thread(slow.asked.wait, PATIENCE)
            await asyncio.wait_for(client.observe(bought, id="v1"), PATIENCE)
            assert not any(each.done() for each in waiting)
            slow.may.set()
            return [each.offset for each in await asyncio.gather(*waiting)]

    written = asyncio.run(main())
    shop.log.close()

    assert sorted(written) == list(range(50))


class SlowLog:
    """A log whose appends are counted, and wait until they may."""

    def __init__(self) -> None:
        self.appends: list[int] = []

    def append(self, records: list[Outgoing]) -> list[tuple[int, int]]:
        self.appends.append(len(records))
        return [(0, n) for n in range(len(records))]

    def close(self) -> None: ...


def test_async_calls_share_an_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2,500 that wait, at most 1,000 are with the log at a time."""
    slow = SlowLog()
    monkeypatch.setattr("headwater.log.open_log", lambda url, kafka: slow)

    async def main() -> int:
        async with AsyncClient("memory:x", observations="o") as client:
            return len(await asyncio.gather(*(client.observe({"n": n}) for n in range(2500))))

    assert asyncio.run(main()) == 2500
    assert sum(slow.appends) == 2500
    assert len(slow.appends) < 1250
    assert max(slow.appends) <= 1000


@pytest.mark.parametrize("over", ["http", "log"])
def test_async_client_does_the_same(service: Living, url: str, over: str) -> None:
    """Write, read and ask, many at the same time."""

    async def main() -> None:
        arguments = {"read_token": READ, "write_token": WRITE} if over == "http" else TOPICS
        async with AsyncClient(service.url if over == "http" else url, **arguments) as client:
            ids = [f"{over}-{n}" for n in range(40)]
            written = await asyncio.gather(*(client.observe({"a": 1.0}, id=id_) for id_ in ids))
            assert [each.id for each in written] == ids
            assert (await client.label(ids[0], "right")).topic == "ans"
            assert len(await client.observe_many([{"a": 0.0}] * 3)) == 3
            assert len(await client.label_many(ids[1:3], ["right", "right"])) == 2
            if over == "http":
                assert (await client.predict({"a": 1.0})).prediction in ("left", "right")
                assert len(await client.predict_many([{"a": 1.0}, {"a": "x"}])) == 2
                with pytest.raises(RecordError):
                    await client.observe({"a": "x"})
                with pytest.raises(ConfigError):
                    client.predictions()
            else:
                with pytest.raises(ConfigError):
                    await client.predict({"a": 1.0})

    asyncio.run(main())


def test_async_predictions_survive_a_cancelled_wait(service: Living, url: str) -> None:
    """The prediction that was awaited is returned by the next call."""

    async def main() -> list[str]:
        async with AsyncClient(url, **TOPICS) as client:
            async with client.predictions() as stream:
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(anext(stream), 0.01)
                ids = [f"cancelled-{n}" for n in range(3)]
                await client.observe_many([{"a": 1.0}] * 3, ids)
                found: list[str] = []
                async for each in stream:
                    found += [each.id] if each.id.startswith("cancelled") else []
                    if len(found) == 3:
                        break
            present = client.predictions(follow=False, from_beginning=True)
            assert len([each async for each in present]) > 60
            waiting = asyncio.ensure_future(anext(client.predictions()))
            await asyncio.sleep(0)
        with pytest.raises((StopAsyncIteration, RuntimeError)):
            await waiting  # the client was closed
        return found

    assert asyncio.run(main()) == [f"cancelled-{n}" for n in range(3)]
