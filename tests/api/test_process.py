"""Requests answered by a process of their own, which the service feeds with its models."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from consumers.api.process import ServingProcess
from consumers.base.errors import ConfigError
from consumers.config import parse
from consumers.shard.answer import Answerer, ModelCopies
from tests.waiting import PATIENCE, until
from tests.web.living import Living, living

MORE = '[serve]\nmax_age = "40ms"\ntimeout = "60s"\n'


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Living]:
    """A service on a file, after 40 labels."""
    with living(tmp_path_factory.mktemp("process"), transport="sqlite", more=MORE) as service:
        service.send(40)
        yield service


@pytest.fixture(scope="module")
def serving(service) -> Iterator[ServingProcess]:
    """Its process for requests."""
    process = ServingProcess(on_port(service, 0), service.runner.status_feeds, Counter())
    try:
        yield process
    finally:
        process.close()


def on_port(service: Living, port: int):
    """The configuration of the service, with a port for requests."""
    config = service.runner._config
    return config.model_copy(update={"serve": config.serve.model_copy(update={"port": port})})


def ready(client: httpx.Client, learned: int) -> bool:
    """Whether the process has the model with so many labels."""
    try:
        answer = client.get("/v1/model")
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and answer.json()["learned"] >= learned


def test_what_it_refuses_is_counted_by_the_service(serving) -> None:
    """The metrics are those of the service. A second count adds to the first."""
    for n in (1, 3):
        while serving._refused["host"] < n:
            before = serving._refused["host"]
            with httpx.Client(base_url=f"http://127.0.0.1:{serving.port}") as client:
                assert client.get("/v1/model", headers={"host": "evil.example"}).status_code == 421
            until(lambda before=before: serving._refused["host"] == before + 1)


def test_answers_are_those_of_the_service(service, serving) -> None:
    """The same prediction from both ports, and a record that is written and predicted."""
    record = {"id": "p1", "a": 1.0, "b": 0.3}
    own, other = f"http://127.0.0.1:{serving.port}", service.url
    with (
        httpx.Client(base_url=own, timeout=PATIENCE) as client,
        httpx.Client(base_url=other) as here,
    ):
        until(lambda: ready(client, 40))
        first, second = (c.post("/v1/predict", json=record).json() for c in (client, here))
        for answer in (first, second):
            assert answer.pop("age_ms") >= 0
            answer.pop("ts")
        assert first == second
        recorded = client.post("/v1/predict?record=true", json=record)
        assert recorded.json()["position"]["topic"] == "obs"
        assert client.get("/metrics").status_code == 404
        assert client.get("/v1/model").json()["scores"] == here.get("/v1/model").json()["scores"]


def test_model_follows_the_service(service, serving) -> None:
    """What the loop learned is there soon."""
    service.send(20)
    with httpx.Client(base_url=f"http://127.0.0.1:{serving.port}", timeout=PATIENCE) as client:
        until(lambda: ready(client, service.status_feed.view.learned))


def test_model_that_is_slow_to_copy_is_followed(service, monkeypatch) -> None:
    """The process learns it from the journal, and the loop makes no more copies."""
    slow = [True]
    fixed = property(lambda copies: slow[0], lambda copies, value: None)
    monkeypatch.setattr(ModelCopies, "slow", fixed, raising=False)
    copies = service.status_feed.copies
    process = ServingProcess(on_port(service, 0), service.runner.status_feeds, Counter())
    try:
        until(lambda: not copies.enabled)
        held = copies.newest
        service.send(20)
        learned = service.status_feed.view.learned
        with httpx.Client(base_url=f"http://127.0.0.1:{process.port}", timeout=PATIENCE) as client:
            until(lambda: ready(client, learned))
            answer = client.post("/v1/predict", json={"a": 1.0, "b": 0.3}).json()
        assert copies.newest is held
    finally:
        process.close()
        slow[0], copies.enabled = False, True

    until(lambda: copies.newest.learned == learned)
    answerer = Answerer(copies.newest)
    (expected,) = answerer.answer(answerer.read([b"0"], [b'{"a": 1.0, "b": 0.3}']), 0)
    assert answer["probabilities"] == json.loads(expected)["probabilities"]
    assert answer["model"]["learned"] == learned


def test_killed_process_is_started_again(service, serving) -> None:
    """The service goes on, and requests are answered again."""
    first = serving._child.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: serving._child.pid != first)
    service.send(1)
    with httpx.Client(timeout=PATIENCE) as client:
        until(lambda: ready(_at(client, serving.port), 40))


def _at(client: httpx.Client, port: int) -> httpx.Client:
    client.base_url = f"http://127.0.0.1:{port}"
    return client


def test_stopped_process_does_not_hold_up_the_service(service, monkeypatch) -> None:
    """A process that reads nothing is killed at the end, also while a model is being sent."""
    monkeypatch.setattr("consumers.api.process.STOP_SECONDS", 0.2)
    process = ServingProcess(on_port(service, 0), service.runner.status_feeds, Counter())
    child = process._child
    os.kill(child.pid, signal.SIGSTOP)
    sending = threading.Event()

    def large(shard: int, feed: object) -> bytes:
        sending.set()
        return b"x" * 2**24  # more than a pipe holds

    process._news = large  # type: ignore[method-assign,assignment]
    assert sending.wait(PATIENCE)

    process.close()

    assert not child.is_alive()
    assert not process._thread.is_alive()


def test_model_that_cannot_be_sent_is_logged_once(service, caplog) -> None:
    """The process goes on."""

    class Unsendable(dict):
        def __reduce__(self):
            raise TypeError("no pickle of it")

    process = ServingProcess(on_port(service, 0), service.runner.status_feeds, Counter())
    try:
        process._news = lambda shard, feed: Unsendable()  # type: ignore[method-assign]
        until(lambda: process._said)
        assert process._thread.is_alive()
    finally:
        process.close()
    said = [r for r in caplog.records if "cannot be sent" in r.message]
    assert len(said) == 1


def test_port_in_use_is_one_line(service) -> None:
    """It names the key and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^\[serve\] port: .*{port} is in use"):
            ServingProcess(on_port(service, port), service.runner.status_feeds, Counter())


def test_log_of_one_process_cannot_be_served_by_another() -> None:
    """The child would see another, empty log."""
    text = """
name = "svc"
[input]
transport = "memory:x"
observations = "obs"
[model]
type = "GaussianNB"
[serve]
port = 0
"""
    with pytest.raises(ConfigError, match=r"\[serve\] port: expected a log that other processes"):
        parse(text)
