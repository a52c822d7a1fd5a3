"""Clients that send slowly, or more than is wanted, over real sockets."""

from __future__ import annotations

import http.client
import socket
import sqlite3
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from consumers.api import bodies
from consumers.api.bodies import ProblemError
from consumers.web import limits
from tests.waiting import PATIENCE, until
from tests.web.living import Living, living

MORE = """
[serve]
max_age = "10ms"
max_requests = 2
max_body_bytes = 1024
"""
RECORD = b'{"a": 1.0, "b": 0.5}'


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Living]:
    """A service that answers two requests at the same time."""
    with living(tmp_path_factory.mktemp("slow"), transport="sqlite", more=MORE) as service:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        yield service


def address(url: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def begun(url: str, body: bytes, length: int, path: str = "/v1/predict", more: str = ""):
    """A connection with a request whose body has only begun."""
    held = socket.create_connection(address(url), PATIENCE)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {length}\r\n{more}\r\n"
    )
    held.sendall(head.encode() + body)
    return held


def whole(held: socket.socket) -> bytes:
    """All that comes until the other side ends it."""
    found = b""
    while more := held.recv(65536):
        found += more
    return found


def refusals(service: Living) -> Counter[str]:
    """The metric."""
    with service.asked("/metrics") as answer:
        text = answer.read().decode()
    name = 'headwater_http_refused_total{reason="'
    lines = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    return Counter({line.partition('"')[0]: int(float(line.split()[-1])) for line in lines})


def test_slow_bodies_keep_nobody_out(service) -> None:
    """Two requests are answered at the same time, and twenty bodies have only begun."""
    with ExitStack() as all_of_them, httpx.Client(base_url=service.url) as client:
        held = [
            all_of_them.enter_context(begun(service.url, RECORD[:5], len(RECORD)))
            for _ in range(20)
        ]
        for _ in range(10):
            assert client.post("/v1/predict", content=RECORD, headers=JSON).status_code == 200
        for one in held:  # they are answered when they are complete
            one.sendall(RECORD[5:])
            assert one.recv(12) == b"HTTP/1.1 200"


JSON = {"content-type": "application/json"}


def test_slow_body_is_answered_and_counted(service, monkeypatch) -> None:
    """By 408, and the connection ends; it was cut without a word."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
    with begun(service.url, RECORD[:5], len(RECORD)) as held:
        answer = whole(held)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"expected the whole body within 0.05 s" in answer
    until(lambda: refusals(service)["slow"] == 1)  # /metrics is computed now and then


def test_bytes_of_all_bodies_are_bounded() -> None:
    """A body gives back what it took, also if it was refused."""
    held = bodies.Held(10)
    with held.body() as first:
        first(4)
        first(4)
        with held.body() as second:
            second(2)
            with pytest.raises(ProblemError) as refused:
                second(1)
        assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
        assert held.left == 2
    assert held.left == 10


def test_further_request_is_refused_while_two_wait(service) -> None:
    """429 with Retry-After and a count; those that wait for the log are answered when it is free,
    and so is everybody after them."""
    before = refusals(service)["requests"]
    assert service.directory is not None
    log = service.directory / "log.db"
    with (
        closing(sqlite3.connect(log, isolation_level=None)) as other,
        ExitStack() as both,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
    ):
        other.execute("BEGIN IMMEDIATE")  # another process writes
        waiting = [
            both.enter_context(begun(service.url, written, len(written), "/v1/observations"))
            for written in (b'{"id": "w1", "a": 1.0}', b'{"id": "w2", "a": 1.0}')
        ]
        refused = until(lambda: (a := client.get("/v1/model")).status_code != 200 and a)
        other.execute("ROLLBACK")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["detail"] == "too many requests are being answered; ask again"
        for one in waiting:
            assert one.recv(12) == b"HTTP/1.1 202"
        assert client.get("/v1/model").status_code == 200
    until(lambda: refusals(service)["requests"] > before)


@pytest.mark.parametrize("more", ["", "expect: 100-continue\r\n"])
def test_too_large_body_is_answered_before_it_is_sent(service, more: str) -> None:
    """Whoever waits to be asked for the body is not asked; who sends it all sees the answer."""
    size = 20 * 2**20
    with begun(service.url, b"", size, more=more) as held:
        assert held.recv(12) == b"HTTP/1.1 413"
        for _ in range(size >> 16):
            held.sendall(bytes(1 << 16))
        assert b"expected a body of up to 1,024 bytes" in whole(held)


def test_client_that_sends_all_before_it_reads_sees_the_answer(service) -> None:
    """As the one of Python does: 413, a wrong path, and a body without a declared length."""
    with closing(http.client.HTTPConnection(*address(service.url), timeout=PATIENCE)) as client:
        for path, status in (("/v1/predict", 413), ("/v1/nothing", 404), ("/v1/predict", 413)):
            body = iter([bytes(1 << 20)] * 12) if path == "/v1/predict" else bytes(12 << 20)
            client.request("POST", path, body, JSON, encode_chunked=path == "/v1/predict")
            answer = client.getresponse()
            assert (answer.status, answer.read() != b"") == (status, True)
            client.close()


def test_client_that_never_ends_its_body_is_cut(service, monkeypatch) -> None:
    """Some seconds after its answer."""
    monkeypatch.setattr(limits, "LINGER_SECONDS", 0.2)
    piece = bytes(1 << 20)
    with begun(service.url, b"", 10**12) as held, pytest.raises((ConnectionError, BrokenPipeError)):
        deque(iter(lambda: held.sendall(piece), piece), 0)  # until it fails


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/v1/model", "localhost", b"200"),
        ("HTTP://127.0.0.1:99/v1/model?shard=0", "evil.example", b"200"),
        ("http://localhost", "localhost", b"200"),
        ("http://localhost/v1/modle", "localhost", b"404"),
        ("http://evil.example/v1/model", "localhost", b"421"),
        ("http://me@localhost/v1/model", "localhost", b"421"),
        ("ftp://localhost/v1/model", "localhost", b"404"),
    ],
)
def test_target_may_have_the_host(service, target: str, host: str, status: bytes) -> None:
    """As it is sent to a proxy; every server must take it, and its host counts, not the header."""
    with socket.create_connection(address(service.url), PATIENCE) as held:
        held.sendall(f"GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
        assert whole(held).split()[1] == status


def test_next_request_follows_a_body_that_came_after_its_answer(service) -> None:
    """The answer to a refused request said nothing of an end, so the connection is kept."""
    evil = "origin: https://evil.example\r\n"
    with closing(begun(service.url, b"", len(RECORD), "/v1/observations", evil)) as held:
        refused = http.client.HTTPResponse(held)
        refused.begin()
        assert (refused.status, refused.getheader("connection")) == (403, None)
        refused.read()
        held.sendall(RECORD + b"GET /v1/model HTTP/1.1\r\nhost: localhost\r\n\r\n")
        known = http.client.HTTPResponse(held)
        known.begin()

        assert known.status == 200
