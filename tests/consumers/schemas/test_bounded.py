"""A request to the registry has one bound of seconds and one of bytes, whatever it answers."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from consumers.base.errors import RegistryError
from consumers.codecs.registry import wire_format
from consumers.config.serve import RegistryConfig
from consumers.schemas.client import LARGEST_ANSWER, RequestBound, SchemaRegistry
from tests.waiting import PATIENCE

JSON = b"Content-Type: application/vnd.schemaregistry.v1+json\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
SCHEMA = b'{"schema": "\\"string\\""}'
SECONDS = 0.5  # of a request, as configured


@contextmanager
def answering(
    answer: Callable[[socket.socket], None], timeout: str = "60s"
) -> Iterator[SchemaRegistry]:
    """A registry whose every answer is written by a function, until the other side closes."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    taken, _ = server.accept()
                    held.append(taken)
                    with taken, suppress(OSError):
                        taken.settimeout(PATIENCE)
                        taken.recv(65536)
                        answer(taken)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        registry = SchemaRegistry(wire_format("avro"), RegistryConfig(url=url, timeout=timeout))
        try:
            yield registry
        finally:
            registry._client._rest_client.session.close()
            for each in (server, *held):  # the client keeps its connections
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            thread.join()


def dripping(piece: bytes, before: bytes = b"") -> Callable[[socket.socket], None]:
    """One piece every tenth of a second, forever."""

    def answer(taken: socket.socket) -> None:
        taken.sendall(before)
        gone = threading.Event()
        while not gone.wait(0.1):
            taken.sendall(piece)

    return answer


DRIPS = {
    "body": dripping(b" ", OK + JSON + b"\r\n"),
    "headers": dripping(b"X: y\r\n", OK),
    "status": dripping(b"1", b"HTTP/1.1 200 "),
    "chunks": dripping(b"1\r\n \r\n", OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n"),
}


@pytest.mark.parametrize("answer", DRIPS.values(), ids=DRIPS)
def test_answer_in_pieces_takes_no_longer_than_its_timeout(answer) -> None:
    """Each piece came in time, so a call took as long as the registry wanted."""
    with answering(answer, "500ms") as registry:
        begun = time.monotonic()
        with pytest.raises(RegistryError, match="does not answer"):
            registry.schema(7)
        took = time.monotonic() - begun

    assert SECONDS / 2 < took < SECONDS + PATIENCE / 10


@pytest.mark.parametrize("where", ["of a registry", "of another server", "headers"])
def test_answer_without_an_end_is_not_read_whole(where) -> None:
    """4.7 GB were. A registry's answer is a schema that is too large; another one says nothing."""
    sent = [0]
    begins = {"of a registry": JSON + b"\r\n", "of another server": b"\r\n", "headers": b"X: "}

    def answer(taken: socket.socket) -> None:
        taken.sendall(OK + begins[where])
        while True:
            sent[0] += taken.send(b"a" * 65536)

    with answering(answer) as registry:
        if where == "of a registry":
            assert "more than 2,097,152 bytes" in registry.schema(7).error
        else:
            with pytest.raises(RegistryError):
                registry.schema(7)

    assert sent[0] < 8 * LARGEST_ANSWER  # with what the sockets hold


def test_compressed_answer_is_refused() -> None:
    """It was not asked for, and a megabyte could unpack to a gigabyte."""
    body = gzip.compress(SCHEMA)

    def answer(taken: socket.socket) -> None:
        head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        taken.sendall(OK + JSON + head + body)

    with answering(answer) as registry, pytest.raises(RegistryError, match="without compression"):
        registry.schema(7)


def test_requests_one_after_the_other_have_a_bound_each() -> None:
    """The bound is one of a request, not of the connection, which is kept."""
    body = SCHEMA + b" " * (LARGEST_ANSWER // 4)
    connections, requests = [0], [0]

    def answer(taken: socket.socket) -> None:
        connections[0] += 1
        asked = True
        while asked:
            requests[0] += 1
            taken.sendall(OK + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            asked = bool(taken.recv(65536))

    with answering(answer) as registry:
        found = [registry.schema(7).text for _ in range(6)]

    assert found == ['"string"'] * 6
    assert connections[0] < requests[0] == 6


def test_step_of_a_request_has_what_is_left_of_its_time() -> None:
    """Or less, if the client gives it less."""
    limit = RequestBound(60.0, 1)

    assert limit.timeout(0.5) == 0.5
    assert 0.0 < limit.timeout(None) <= 60.0
    assert 0.0 < limit.timeout(600.0) <= 60.0
