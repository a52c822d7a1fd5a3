"""Connections beyond their number, their bytes and their time, and what is left of them."""

from __future__ import annotations

import asyncio.sslproto
import gc
import re
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from random import Random

import bcrypt
import pytest
import trustme
from prometheus_client.registry import CollectorRegistry
from uvicorn.protocols.http.h11_impl import H11Protocol

from consumers.base.health import Health
from consumers.web import limits, page
from consumers.web.access import Access
from consumers.web.app import Server, application
from consumers.web.limits import HEAD_BYTES, Connection, Connections, Limited
from consumers.web.web_config import WebConfig
from tests.seed import seeds
from tests.waiting import PATIENCE, until

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
HASH = bcrypt.hashpw(b"correct", b"$2b$04$abcdefghijklmnopqrstuu").decode()


class Running:
    """A server, live, and what it refused."""

    def __init__(self, config: WebConfig | None) -> None:
        app = application(CollectorRegistry(), lambda: Health("live"), access=Access(web=config))
        self.refused: Counter[str] = app.state.page.refused
        self.server = Server(app, "127.0.0.1", 0)
        self.address = self.server.start()

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection."""
        return socket.create_connection(self.address, PATIENCE, (source, 0))


@contextmanager
def serving(config: WebConfig | None = None) -> Iterator[Running]:
    """A server for one test."""
    running = Running(config)
    try:
        yield running
    finally:
        running.server.stop()


@pytest.fixture(scope="module")
def secure() -> tuple[WebConfig, ssl.SSLContext]:
    """TLS for a server, and for its clients."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return WebConfig(server, {}), client


def answered(held: socket.socket, request: bytes = GET) -> int:
    """The status of the answer; 0 where the connection ends instead."""
    try:
        held.sendall(request)
        found = b""
        while (more := held.recv(4096)) and not _whole(found := found + more):
            pass
    except OSError:
        return 0
    return int(found.split()[1]) if found else 0


def _whole(answer: bytes) -> bool:
    """Whether it is an answer to its end, or a stream that has begun."""
    head, end, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(end) and (length is None or len(body) >= int(length[1]))


def ended(held: socket.socket) -> bool:
    """Whether the other side has ended the connection."""
    held.settimeout(PATIENCE)
    try:
        return held.recv(4096) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_small_responses_are_sent_at_once() -> None:
    """Nagle's algorithm is off: the second write of a response waits for no ACK of the first."""
    with serving() as running, running.connect() as client:
        client.sendall(GET)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        accepted = [
            each
            for each in gc.get_objects()
            if type(each) is socket.socket  # a proxy may refer to nothing
            and each.fileno() >= 0
            and each.getsockname() == running.address
            and each is not client
            and _peer(each) == client.getsockname()
        ]
        assert accepted
        assert all(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in accepted)


def _peer(each: socket.socket) -> object:
    try:
        return each.getpeername()
    except OSError:  # it listens
        return None


def test_newcomer_is_answered_when_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 idle connections locked out `/healthz`: the oldest of those that send nothing goes."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 8)
    with serving() as running, ExitStack() as held:
        idle = [held.enter_context(running.connect()) for _ in range(8)]
        newcomers = [held.enter_context(running.connect()) for _ in range(3)]
        statuses = [answered(each) for each in newcomers]
        gone = [ended(each) for each in idle[:3]]
        kept = answered(idle[3])

    assert statuses == [200] * 3
    assert gone == [True] * 3
    assert kept == 200
    assert running.refused["connections"] == 3


def test_who_opens_many_pays_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection of another address stays, though it is older than all of the crowd's."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 8)
    with serving() as running, ExitStack() as held:
        quiet = held.enter_context(running.connect("127.0.0.2"))
        until(lambda: answered(quiet) == 200)
        for _ in range(40):
            held.enter_context(running.connect("127.0.0.3"))
        until(lambda: running.refused["connections"] >= 33)

        assert answered(quiet) == 200


def test_live_pages_keep_their_places_and_leave_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten places five may be live pages; a crowd does not take those."""
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 10)
    request = b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with serving() as running, ExitStack() as held:
        pages = [held.enter_context(running.connect()) for _ in range(6)]
        opened = [answered(each, request) for each in pages]
        for _ in range(40):
            held.enter_context(running.connect())
        until(lambda: running.refused["connections"] >= 30)
        open_pages = running.server._app.state.page.open

    assert opened == [200] * 5 + [503]
    assert open_pages == 5
    assert running.refused["pages"] == 1
    assert page.MAX_STREAMS * 2 <= 256


@pytest.mark.parametrize("kind", ["idle", "half", "plain", "whole"])
def test_tls_connections_are_limited_before_their_handshake(
    kind: str, secure: tuple[WebConfig, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they held is free at once: asyncio's 256 KiB each do not wait for a search of cycles.

    But for one now and then, whose handshake fails twice.
    """
    monkeypatch.setattr(limits, "MAX_CONNECTIONS", 8)
    config, trusting = secure
    gc.collect()
    gc.disable()
    try:
        with serving(config) as running:
            with ExitStack() as held:
                for _ in range(60):
                    one = held.enter_context(running.connect())
                    if kind == "half":
                        one.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100)
                    elif kind == "plain":
                        one.sendall(GET)
                    elif kind == "whole":
                        wrapped = trusting.wrap_socket(one, server_hostname="127.0.0.1")
                        assert answered(held.enter_context(wrapped)) == 200
                with (
                    running.connect() as one,
                    trusting.wrap_socket(one, server_hostname="127.0.0.1") as last,
                ):
                    status = answered(last)
            kinds = (asyncio.sslproto.SSLProtocol, Limited, Connection)
            until(lambda: sum(issubclass(type(each), kinds) for each in gc.get_objects()) < 12)
    finally:
        gc.enable()

    assert status == 200


def head(size: int, filler: bytes = b"y") -> bytes:
    """A request whose head has so many bytes."""
    start, end = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ", b"z\r\n\r\n"
    return start + filler * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("filler", [b"y", b" "])
@pytest.mark.parametrize("before", [b"", GET])
@pytest.mark.parametrize(("size", "taken"), [(HEAD_BYTES - 64, True), (100_000, False)])
def test_head_is_bounded_however_it_comes(
    filler: bytes, before: bytes, size: int, taken: bool
) -> None:
    """At once, of spaces, or behind another request: 100,000 bytes were accepted."""
    with serving() as running, running.connect() as held:
        found = b""
        try:
            held.sendall(before + head(size, filler))
            held.shutdown(socket.SHUT_WR)
            while more := held.recv(4096):
                found += more
        except OSError:  # the end of a connection that is refused while it sends
            pass

    assert found.count(b"HTTP/1.1 200 ") == (before != b"") * (taken or b"200" in found) + taken


@pytest.mark.parametrize("length", [8_000, 40_000])
def test_head_behind_a_body_is_bounded_too(length: int) -> None:
    """A body is parsed in larger pieces than a head, and a piece may have the end of the body."""
    start = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % length
    with serving() as running, running.connect() as held:
        found = b""
        try:
            held.sendall(start + b"x" * length + head(100_000))
            held.shutdown(socket.SHUT_WR)
            while more := held.recv(4096):
                found += more
        except OSError:  # the end of a connection that is refused while it sends
            pass

    assert b"HTTP/1.1 200 " not in found


def test_body_that_comes_at_once_is_parsed_in_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece has its price: 8,000 bytes were parsed in eight."""
    pieces: list[int] = []
    take = H11Protocol.data_received

    def noted(protocol: H11Protocol, data: bytes) -> None:
        pieces.append(len(data))
        take(protocol, data)

    monkeypatch.setattr(H11Protocol, "data_received", noted)
    start = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000\r\n\r\n"
    with serving() as running, running.connect() as held:
        held.sendall(start + b"x" * 8000)
        held.shutdown(socket.SHUT_WR)
        while held.recv(4096):
            pass

    assert sum(pieces) == len(start) + 8000
    assert len(pieces) < 5


STREAM = b"GET /events HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (GET[:-2] + b"connection: close\r\n\r\n" + GET, 200),
        (b"GET /healthz HTTP/1.0\r\n\r\nno HTTP\r\n\r\n", 200),
        (GET + b"no HTTP\r\n\r\n", 200),
        (GET[:-2] + CHUNKED + b"0\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", 400),
        (STREAM + b"connection: close\r\n\r\n", 200),
        (STREAM + CHUNKED, 200),
        (GET[:-2] + CHUNKED, 200),
    ],
)
def test_what_is_no_http_fails_nowhere(
    sent: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind a request, in it, and while it is answered: no traceback is logged."""
    with serving() as running:
        with running.connect() as client:
            assert answered(client, sent) == status
            if sent.endswith(CHUNKED):
                with suppress(OSError):
                    client.sendall(b"no chunk\r\n")
                assert _ends(client)
        with running.connect() as client:
            assert answered(client) == 200
    assert [each for each in caplog.records if each.exc_info] == []


def _ends(held: socket.socket) -> bool:
    """Whether the other side ends the connection, after what it still sends."""
    with suppress(ConnectionError):
        while held.recv(4096):
            pass
    return True


@pytest.mark.parametrize(
    ("version", "lengths", "status"),
    [
        ("1.1", "content-length: 4\r\ntransfer-encoding: chunked\r\n", 400),
        ("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400),
        ("1.0", "transfer-encoding: chunked\r\n", 400),
        ("1.1", "transfer-encoding: chunked\r\n", 405),
    ],
)
def test_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(
    version: str, lengths: str, status: int
) -> None:
    """A proxy that believes the other length would take the rest for a request of somebody else."""
    smuggled = f"POST /healthz HTTP/{version}\r\nhost: localhost\r\n{lengths}\r\n0\r\n\r\n".encode()
    with serving() as running, running.connect() as held:
        held.sendall(smuggled + GET)
        held.shutdown(socket.SHUT_WR)
        found = b""
        while more := held.recv(4096):
            found += more
        refused = running.refused["head"]

    statuses = [int(each) for each in re.findall(rb"HTTP/1.1 (\d+)", found)]
    assert statuses == ([400] if status == 400 else [405, 200])
    assert refused == (status == 400)


def test_places_are_a_quarter_of_the_files_that_may_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest is for the log, snapshots and what else the service opens."""
    found = []
    for soft in (1024, 160, 20, 1_000_000, limits.resource.RLIM_INFINITY):
        monkeypatch.setattr(limits.resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        found.append(limits.places())

    assert found == [256, 40, 8, 256, 256]


@seeds(0.5)
def test_connections_never_exceed_their_limit_whatever_comes(seed) -> None:
    """Random arrivals, ends, admissions and pages: an honest address keeps its one connection."""
    random, limit = Random(seed), 8
    table = Connections(limit, Counter())
    ours = table.enter("us", lambda: None)
    table.admit(ours)
    crowd: list[Connection] = []
    for _ in range(200):
        open_ = [each for each in crowd if not each.ended]
        what = random.random()
        if what < 0.6 or not open_:
            crowd.append(table.enter(random.choice("abc"), lambda: None))
        elif what < 0.8:
            table.leave(random.choice(open_))
        else:
            one = random.choice(open_)
            table.admit(one)
            one.live = random.random() < 0.5 and sum(e.live for e in open_) < limit // 2

        assert len(table) <= limit
        assert not ours.ended
