"""The body of a request as the bytes of its records, within bounds."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from starlette.requests import ClientDisconnect, Request

from consumers.api.contract import JSON, LINES
from consumers.api.problems import ProblemError

__all__ = ["JSON", "LINES", "RequestRecords", "drain", "read", "read_start", "records_of"]

DROPPED = 64 * 2**20  # bytes of a long mail after those that are looked at
DRAINED = 4  # times the largest body: what is read of a refused one

_objects = msgspec.json.Decoder(list[msgspec.Raw])


class RequestRecords(NamedTuple):
    """The bytes of each record, and the form of the request: `one`, `list` or `lines`."""

    values: list[bytes]
    form: str


async def read(request: Request, most: int) -> bytes:
    """The body, of at most `most` bytes.

    Raises
    ------
    ProblemError
        It is longer (413), or the client has gone.
    """
    too_long = ProblemError(
        413, f"expected a body of up to {most:,} bytes, got more; send fewer records at once"
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        await drain(request, most)
        raise too_long
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                await drain(request, most)
                raise too_long
    except ClientDisconnect:
        raise ProblemError(400, "expected the whole body, but the client has gone") from None
    return bytes(body)


async def read_start(request: Request, most: int) -> bytes:
    """The first `most` bytes of a body. The rest is read and dropped, up to `DROPPED` bytes.

    Raises
    ------
    ProblemError
        It is longer than that (413), or the client has gone.
    """
    body, dropped = bytearray(), 0
    try:
        async for piece in request.stream():
            taken = piece[: most - len(body)]
            body += taken
            dropped += len(piece) - len(taken)
            if dropped > DROPPED:
                raise ProblemError(
                    413, f"expected a body of up to {most + DROPPED:,} bytes, got more"
                )
    except ClientDisconnect:
        raise ProblemError(400, "expected the whole body, but the client has gone") from None
    return bytes(body)


async def drain(request: Request, most: int) -> None:
    """Read the rest of a refused body, up to a bound: a client that still sends when the connection
    is closed may not see the answer."""
    left = DRAINED * most
    try:
        async for piece in request.stream():
            left -= len(piece)
            if left < 0:
                return
    except (ClientDisconnect, RuntimeError):  # it has gone, or the body was read
        return


def records_of(body: bytes, content_type: str, most: int) -> RequestRecords:
    """The records of a body: one JSON object, a list of them, or one in each line.

    Parameters
    ----------
    body, content_type
        Of the request.
    most
        The largest number of records.

    Raises
    ------
    ProblemError
        The type is another (415), the body is not JSON (400), or has too many records (413).

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
    elif kind != JSON:
        raise ProblemError(
            415,
            f"expected Content-Type {JSON} or {LINES}, got {kind[:100] or 'none'!r}; set it",
        )
    elif body.lstrip()[:1] == b"[":
        try:
            values, form = [bytes(raw) for raw in _objects.decode(body)], "list"
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
