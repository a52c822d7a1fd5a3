"""The body of a request as the bytes of its records, within bounds.

Rule: a client that sends slowly holds nothing but its connection and the bytes that it has sent.
Those of all requests are bounded together.

Errors of requests as RFC 9457 problem details: what was expected, what came, what to do.

Under `/v2` they have the form of the Open Inference Protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from consumers.api.contract import InferError, Problem
from consumers.codecs.json_document import uncut
from consumers.web.refusal import RefusedError
from consumers.web.routes import JSON, LINES

__all__ = [
    "JSON",
    "LINES",
    "MEDIA_TYPE",
    "Held",
    "ProblemError",
    "RequestRecords",
    "by_protocol",
    "read",
    "read_start",
    "records_of",
    "respond",
]

MEDIA_TYPE = "application/problem+json"
COUNTED = {408: "slow", 429: "requests"}  # by status, as in the metric


class ProblemError(RefusedError):
    """A request of the API that is not answered as asked.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        One line for the client.
    headers
        Further headers, such as Retry-After.
    members
        Further members of the problem, see `Problem`.
    """

    def __init__(
        self, status: int, detail: str, headers: dict[str, str] | None = None, **members: object
    ) -> None:
        super().__init__(status, detail, headers, counted=COUNTED.get(status, ""))
        self.members = members


def by_protocol(path: str) -> bool:
    """Whether a path is one of the Open Inference Protocol."""
    return path == "/v2" or path.startswith("/v2/")


def respond(error: RefusedError, path: str) -> Response:
    """The response to the request with this path.

    Examples
    --------
    >>> respond(ProblemError(404, "no such id"), "/v1/predictions/7").body
    b'{"title":"Not Found","status":404,"detail":"no such id"}'
    >>> respond(ProblemError(404, "no such model"), "/v2/models/spam").body
    b'{"error":"no such model"}'
    """
    headers = {"cache-control": "no-store", **error.headers}
    if by_protocol(path):
        body = msgspec.json.encode(InferError(error.detail))
        return Response(body, error.status, headers, "application/json")
    title = HTTPStatus(error.status).phrase
    members = error.members if isinstance(error, ProblemError) else {}
    body = msgspec.json.encode(Problem(title, error.status, error.detail, **members))  # type: ignore[arg-type]
    return Response(body, error.status, headers, MEDIA_TYPE)


DROPPED = 64 * 2**20  # bytes of a long mail after those that are looked at
BODY_SECONDS = 8.0  # from the head of a request to the end of its body; the connection has 10

_objects = msgspec.json.Decoder(list[msgspec.Raw])


class RequestRecords(NamedTuple):
    """The bytes of each record, and the form of the request: `one`, `list` or `lines`."""

    values: list[bytes]
    form: str


class Held:
    """The bytes of the bodies of all requests that are read or answered now.

    Parameters
    ----------
    most
        The bound.

    Examples
    --------
    >>> held = Held(10)
    >>> with held.body() as first, held.body() as second:
    ...     first(6)
    ...     second(5)
    Traceback (most recent call last):
    consumers.api.bodies.ProblemError: too many bytes of requests are held; send it again
    >>> held.left
    10
    """

    def __init__(self, most: int) -> None:
        self.left = most

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Takes bytes of one body, until the end of its request. ProblemError beyond the bound
        (429)."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if size > self.left:
                raise ProblemError(
                    429, "too many bytes of requests are held; send it again", {"retry-after": "1"}
                )
            self.left -= size
            mine += size

        try:
            yield take
        finally:
            self.left += mine


async def read(request: Request, most: int, take: Callable[[int], None]) -> bytes:
    """The body, of at most `most` bytes.

    Parameters
    ----------
    take
        Called with the size of each piece, see `Held`.

    Raises
    ------
    ProblemError
        It is longer (413), compressed (415), comes too slowly (408), or the client has gone.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ProblemError(
            415, f"expected a body without Content-Encoding, got {coding[:100]!r}; send it as it is"
        )
    too_long = ProblemError(
        413, f"expected a body of up to {most:,} bytes, got more; send fewer records at once"
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_long
    body = bytearray()
    async with _pieces(request) as pieces:
        async for piece in pieces:
            take(len(piece))
            body += piece
            if len(body) > most:
                raise too_long
    return bytes(body)


async def read_start(request: Request, most: int, take: Callable[[int], None]) -> bytes:
    """The first `most` bytes of a body. The rest is read and dropped, up to `DROPPED` bytes. See
    `read`."""
    body, dropped = bytearray(), 0
    async with _pieces(request) as pieces:
        async for piece in pieces:
            taken = piece[: most - len(body)]
            take(len(taken))
            body += taken
            dropped += len(piece) - len(taken)
            if dropped > DROPPED:
                raise ProblemError(
                    413, f"expected a body of up to {most + DROPPED:,} bytes, got more"
                )
    return bytes(body)


@asynccontextmanager
async def _pieces(request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
    """The pieces of a body, within a time."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            yield request.stream()
    except TimeoutError:
        raise ProblemError(
            408, f"expected the whole body within {BODY_SECONDS:g} s; send fewer records at once"
        ) from None
    except ClientDisconnect:
        raise ProblemError(400, "expected the whole body, but the client has gone") from None


def records_of(body: bytes, content_type: str, most: int) -> RequestRecords:
    """The records of a body: one JSON object, a list of them, or one in each line.

    Parameters
    ----------
    body, content_type
        Of the request; a type that its route takes (`consumers.web.routes`).
    most
        The largest number of records.

    Raises
    ------
    ProblemError
        The body is not JSON (400), or has too many records (413).

    Examples
    --------
    >>> records_of(b'[{"a": 1}, {"a": 2}]', "application/json", 10)
    RequestRecords(values=[b'{"a": 1}', b'{"a": 2}'], form='list')
    >>> records_of(b'{"a": 1}', "application/json; charset=utf-8", 10).form
    'one'
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == LINES:
        values = [line for line in body.split(b"\n") if line and not line.isspace()]
        form = "lines"
    elif body.lstrip()[:1] == b"[":
        try:
            values, form = _items(body), "list"
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProblemError(
                400, f"expected a list of JSON objects, got another: {error}"
            ) from None
    else:
        values, form = [body], "one"
    if len(values) > most:
        raise ProblemError(
            413, f"expected up to {most:,} records, got {len(values):,}; send fewer at once"
        )
    return RequestRecords(values, form)


def _items(body: bytes) -> list[bytes]:
    """The bytes of each item of a list, as they are in the body."""
    whole = uncut(body)  # of the same length, and its texts are whole, which msgspec needs
    items = [bytes(raw) for raw in _objects.decode(whole)]
    if whole == body:
        return items
    end, out = 0, []
    for item in items:  # between two there are spaces and a comma only
        start = whole.index(item, end)
        end = start + len(item)
        out.append(body[start:end])
    return out
