"""A bound on each request to the registry: seconds and bytes, from its beginning to its end.

Rule: the HTTP client has a timeout for each read, and reads an answer until it ends. A registry
that sends a byte a second, or never ends, would hold a call forever. So each read of its
connections is counted here.
"""

from __future__ import annotations

import threading
import time
from typing import Any

__all__ = ["LongAnswerError", "RequestBound", "bound"]


class LongAnswerError(Exception):
    """An answer has more bytes than are read."""


class RequestBound(threading.local):
    """What the request of this thread may still take.

    Parameters
    ----------
    seconds
        Of a request.
    most
        Bytes of an answer, with its headers.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self.begin()

    def begin(self) -> None:
        """A request begins."""
        self._until, self._left = time.monotonic() + self._seconds, self._most
        self.json = False

    def answered(self, response: Any) -> None:
        """An answer begins. `json`: it is one as registries give it."""
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise ValueError(f"expected an answer without compression, got {coding[:50]!r}")
        kind = response.headers.get("content-type", "")
        self.json = response.status_code == 200 and "json" in kind

    def timeout(self, asked: float | None) -> float:
        """The timeout of the next read or write."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"it took more than {self._seconds:g} s")
        return left if asked is None else min(asked, left)

    def take(self, count: int) -> None:
        """This many bytes were read."""
        self._left -= count
        if self._left < 0:
            raise LongAnswerError(f"its answer has more than {self._most:,} bytes")


def bound(session: Any, limit: RequestBound) -> None:
    """Bound all requests of a client of httpx, whose name depends on its version.

    Answers are not compressed, because a bound of their bytes would not bound what they unpack to.
    """
    session.headers["accept-encoding"] = "identity"
    session.event_hooks["response"].append(limit.answered)
    for transport in (session._transport, *session._mounts.values()):
        if transport is not None:
            pool = transport._pool
            pool._network_backend = _Network(pool._network_backend, limit)


class _Network:
    """Opens connections, as `httpcore` asks for them."""

    def __init__(self, network: Any, limit: RequestBound) -> None:
        self._network, self._limit = network, limit

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *rest: Any, **named: Any
    ) -> _Stream:
        timeout = self._limit.timeout(timeout)
        opened = self._network.connect_tcp(host, port, timeout, *rest, **named)
        return _Stream(opened, self._limit)


class _Stream:
    """A connection, as `httpcore` uses it."""

    def __init__(self, stream: Any, limit: RequestBound) -> None:
        self._stream, self._limit = stream, limit

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found: bytes = self._stream.read(max_bytes, self._limit.timeout(timeout))
        self._limit.take(len(found))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._limit.timeout(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        timeout = self._limit.timeout(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._limit)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
