"""The two doors over a network: what is sent, what may come, and which connection is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
import trustme

from consumers.base.errors import ConfigError
from headwater.async_http import AsyncHttpDoor
from headwater.errors import ServiceError
from headwater.exchange import Request, Retries
from headwater.http import HttpDoor
from headwater.http1 import Tokens, address_of
from tests.waiting import PATIENCE

REQUEST = Request("/v1/labels", "write", b"{}", "application/json", None)
ONCE = Retries(PATIENCE, 0)
NO_TOKENS = Tokens(None, None)
DONE = b"HTTP/1.1 202 Accepted\r\ncontent-length: 4\r\n\r\ndone"
CLOSE = b""  # instead of an answer

Kind = type[HttpDoor] | type[AsyncHttpDoor]
both = pytest.mark.parametrize("kind", [HttpDoor, AsyncHttpDoor])


@dataclass
class Scripted:
    """A server that gives these answers, in order, and keeps what was sent.

    Parameters
    ----------
    answers
        One for each request. A connection is closed after an answer that has no length.
    reads
        Whether it reads a request before it answers.
    tls
        Its certificate.
    """

    answers: Sequence[bytes]
    reads: bool = True
    tls: ssl.SSLContext | None = None
    seen: list[bytes] = field(default_factory=list)
    connections: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its URL."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=self._serve, args=(listening,))
            thread.start()
            try:
                yield f"http{'s' if self.tls else ''}://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                with suppress(OSError):
                    listening.shutdown(socket.SHUT_RDWR)
                thread.join(PATIENCE)

    def _serve(self, listening: socket.socket) -> None:
        left = list(self.answers)
        while left:
            with suppress(OSError):  # refused TLS, or a client that is gone
                self._talk(listening, left)
            self.closed.set()

    def _talk(self, listening: socket.socket, left: list[bytes]) -> None:
        try:
            connected, _ = listening.accept()
        except OSError:
            left.clear()
            return
        self.connections += 1
        if self.tls:
            connected = self.tls.wrap_socket(connected, server_side=True)
        with connected as stream:
            while left:
                if self.reads and not self._read(stream):
                    return
                answer = left.pop(0)
                for part in range(0, len(answer), 7):  # in pieces, as a network gives them
                    stream.sendall(answer[part : part + 7])
                if b"content-length" not in answer and b"chunked" not in answer:
                    stream.shutdown(socket.SHUT_WR)
                    return

    def _read(self, stream: socket.socket) -> bool:
        """Whether a request came."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := stream.recv(2**16)):
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        while len(body) < size:
            body += stream.recv(2**16)
        self.seen.append(head + b"\r\n\r\n" + body)
        return True


def ask(
    kind: Kind,
    url: str,
    requests: Sequence[Request] = (REQUEST,),
    tokens: Tokens = NO_TOKENS,
    tls: ssl.SSLContext | None = None,
    retries: Retries = ONCE,
    between: threading.Event | None = None,
) -> list[bytes]:
    """The answers that a door gets, one after the other."""
    if kind is HttpDoor:
        found = []
        with closing(HttpDoor(url, tokens, retries, tls)) as door:
            for request in requests:
                found.append(door.ask(request))
                if between is not None:
                    between.wait(PATIENCE)
        return found

    async def main() -> list[bytes]:
        door = AsyncHttpDoor(url, tokens, retries, tls)
        found = []
        try:
            for request in requests:
                found.append(await door.ask(request))
                if between is not None:
                    await asyncio.to_thread(between.wait, PATIENCE)
        finally:
            await door.close()
        return found

    return asyncio.run(main())


@both
@pytest.mark.parametrize(
    "answer",
    [
        DONE,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\ndo\r\n2\r\nne\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\ndone",
        b"HTTP/1.1 100 Continue\r\n\r\n" + DONE,
    ],
)
def test_answer_may_have_any_form_of_http(kind: Kind, answer: bytes) -> None:
    """In pieces of any size."""
    server = Scripted([answer])
    with server.running() as url:
        found = ask(kind, f"{url}/behind/")

    assert found == [b"done"]
    head, _, body = server.seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /behind/v1/labels HTTP/1.1\r\nhost: 127.0.0.1:")
    assert body == b"{}"


@both
def test_connection_is_kept_for_the_next_request(kind: Kind) -> None:
    """A mail server asks often."""
    server = Scripted([DONE] * 3)
    with server.running() as url:
        ask(kind, url, [REQUEST] * 3)

    assert server.connections == 1


@both
def test_connection_that_was_closed_meanwhile_is_replaced(kind: Kind) -> None:
    """Without a second attempt, because nothing was sent on it."""
    server = Scripted([b"HTTP/1.1 200 OK\r\n\r\none", DONE])
    kept = Scripted([DONE.replace(b"done", b"kept"), DONE])
    kept._talk = partial(_one_answer, kept)  # type: ignore[method-assign]
    with server.running() as url:
        assert ask(kind, url, [REQUEST] * 2) == [b"one", b"done"]
    with kept.running() as url:
        assert ask(kind, url, [REQUEST] * 2, between=kept.closed) == [b"kept", b"done"]

    assert (server.connections, kept.connections) == (2, 2)


def _one_answer(server: Scripted, listening: socket.socket, left: list[bytes]) -> None:
    """Answer one request and close, though the answer does not say so."""
    rest = left[1:]
    del left[1:]
    Scripted._talk(server, listening, left)
    left += rest


@both
def test_refusal_before_the_end_of_a_request_is_read(kind: Kind) -> None:
    """As of a body that is too large."""
    server = Scripted([b"HTTP/1.1 413 Content Too Large\r\n\r\n"], reads=False)
    with server.running() as url, pytest.raises(ServiceError) as error:
        ask(kind, url, [REQUEST._replace(body=b"x" * 2**25)])

    assert error.value.status in (413, None)  # a reset may overtake the answer


@both
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (CLOSE, "got none"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal status line"),
        (DONE[:-1].replace(b"content-length", b"Content-Length"), "got none"),
    ],
)
def test_other_answer_is_one_line(kind: Kind, answer: bytes, words: str) -> None:
    """Of something that is no service, or that ends in the middle."""
    with Scripted([answer]).running() as url, pytest.raises(ServiceError, match=words):
        ask(kind, url)


@both
def test_answer_that_does_not_come_is_not_awaited_for_ever(kind: Kind) -> None:
    """The call ends at its timeout."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ServiceError, match="TimeoutError"),
    ):
        ask(kind, f"http://127.0.0.1:{silent.getsockname()[1]}", retries=Retries(0.05, 0))


@both
def test_tokens_are_sent_and_not_shown(kind: Kind) -> None:
    """Each operation has its own."""
    tokens = Tokens("r" * 20, "w" * 20)
    server = Scripted([DONE, DONE])
    with server.running() as url:
        ask(kind, url, [REQUEST, REQUEST._replace(needs="read")], tokens)

    sent = [head.partition(b"authorization: ")[2].split(b"\r\n")[0] for head in server.seen]
    assert sent == [b"Bearer " + b"w" * 20, b"Bearer " + b"r" * 20]
    assert "w" * 20 not in repr(tokens) + str(vars(tokens))


@pytest.mark.parametrize("token", ["tö" * 10, "t" * 20 + "\n", "t t" * 10])
def test_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    """A file with two lines, for example."""
    with pytest.raises(ConfigError, match="expected a write token of visible") as error:
        Tokens(None, token)

    assert token not in str(error.value)


@both
@pytest.mark.parametrize(
    ("token", "sent"), [(None, b"Basic bWU6cGFzc0B3b3Jk"), ("t" * 20, b"Bearer " + b"t" * 20)]
)
def test_login_of_the_url_is_sent_and_not_shown(kind: Kind, token: str | None, sent: bytes) -> None:
    """As the web_config of a service asks for it; a token replaces it."""
    server = Scripted([DONE, b"HTTP/1.1 500 me:pass@word\r\n\r\n"])
    with server.running() as url:
        url = url.replace("//", "//me:pass%40word@")
        ask(kind, url, tokens=Tokens(None, token))
        with pytest.raises(ServiceError) as error:
            ask(kind, url)

    assert sent in server.seen[0]
    assert "pass" not in str(error.value)


@both
def test_certificate_is_verified(kind: Kind) -> None:
    """By the context that is given, or else by what the machine trusts."""
    authority = trustme.CA()
    own, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(own)
    authority.configure_trust(trusting)

    with Scripted([DONE], tls=own).running() as url:
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(kind, url)
        assert ask(kind, url, tls=trusting) == [b"done"]


@pytest.mark.parametrize(
    "url", ["http://", "http://[", "http://here:x", "http://a b", "ftp://here"]
)
def test_wrong_url_is_one_line(url: str) -> None:
    """It says what was expected."""
    with pytest.raises(ConfigError, match="expected http://HOST:PORT, got "):
        address_of(url)


def test_door_sleeps_between_attempts() -> None:
    """And sends the same request again."""
    slept: list[float] = []
    busy = b"HTTP/1.1 503 Busy\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n"
    server = Scripted([busy, DONE])
    with server.running() as url:
        door = HttpDoor(url, NO_TOKENS, Retries(PATIENCE, 5), sleep=slept.append)
        assert door.ask(REQUEST) == b"done"
        door.close()

    assert slept == [3.0]
    assert server.seen[0] == server.seen[1]
