"""The HTTP side of a client without I/O: what is sent, when it is repeated, what an answer means.

Rule: a request is repeated after 429, after 503, and when the connection failed. For a write this
may write its records twice: a lost answer does not say whether they are in the log. That is safe,
because each record has an id: the join drops a repeated label, and learns a repeated observation
once. All attempts together take at most the timeout. So nothing is repeated after a timeout.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote

import msgspec

from consumers.api.contract import Appended, PredictionRecord, Problem, Rejection
from consumers.base.errors import HeadwaterError, RecordError
from consumers.web.routes import JSON, LINES
from headwater.errors import ServiceError
from headwater.records import Prepared, Written

__all__ = [
    "Pause",
    "Reply",
    "Request",
    "Retries",
    "Send",
    "ask_for",
    "conversation",
    "known_prediction",
    "next_step",
    "post",
    "prediction_of",
    "predictions_of",
    "written_of",
]

T = TypeVar("T")
_decode_prediction = msgspec.json.Decoder(PredictionRecord).decode
_decode_rejection = msgspec.json.Decoder(Rejection).decode
_decode_appended = msgspec.json.Decoder(Appended).decode
_decode_problem = msgspec.json.Decoder(Problem).decode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
AGAIN = (429, 503)
REJECTED = 422
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds


class Request(NamedTuple):
    """One operation. `first`: the number of its first record in the call; None: it has one.
    Without a body it is a GET."""

    path: str
    needs: Literal["read", "write"]
    body: bytes
    kind: str
    first: int | None

    @property
    def method(self) -> str:
        """The method of HTTP."""
        return "POST" if self.body else "GET"


class Reply(NamedTuple):
    """What came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Send(NamedTuple):
    """Send the request. The answer is a `Reply`, or a text: why no reply arrived."""

    seconds: float


class Pause(NamedTuple):
    """Wait before the next attempt."""

    seconds: float


Conversation: TypeAlias = Generator[Send | Pause, Reply | str | None, bytes]


class Retries(NamedTuple):
    """How often and how long a call is tried.

    Parameters
    ----------
    timeout
        Seconds of all attempts together.
    most
        How many attempts follow the first one.
    clock
        Seconds from any start.
    chance
        A number from 0 to 1. It spreads clients that failed at the same time.
    """

    timeout: float
    most: int
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    def pause(self, attempt: int, reply: Reply | str) -> float:
        """Seconds before the next attempt, at least those of Retry-After.

        Examples
        --------
        >>> tries = Retries(30, 5, chance=lambda: 1.0)
        >>> [tries.pause(n, "lost") for n in (0, 1, 2, 9)]
        [0.1, 0.2, 0.4, 5.0]
        >>> tries.pause(0, Reply(429, {"retry-after": "2"}, b""))
        2.0
        """
        longest = min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)
        asked = _retry_after(reply.headers) if isinstance(reply, Reply) else 0.0
        return max(asked, longest * (0.5 + self.chance() / 2))


def post(
    path: str, needs: Literal["read", "write"], records: list[Prepared], first: int | None
) -> Request:
    """The request with these records: one as JSON, several as lines.

    Examples
    --------
    >>> post("/v1/labels", "write", [Prepared("7", b"{}", None)], first=0).body
    b'{}\\n'
    """
    if first is None:
        [record] = records
        return Request(path, needs, record.value, JSON, None)
    return Request(path, needs, b"".join(r.value + b"\n" for r in records), LINES, first)


def ask_for(
    records: list[Prepared],
    explain: int,
    first: int | None,
    *,
    record: bool = False,
    strict: bool = False,
) -> Request:
    """The request for predictions. With `record` the observations are written too.

    Examples
    --------
    >>> asked = ask_for([Prepared("7", b"{}", None)], 0, None, record=True)
    >>> asked.path, asked.needs
    ('/v1/predict?record=true', 'write')
    """
    query = ["record=true"] if record else [f"explain={explain}"] if explain else []
    query += ["strict=true"] if strict else []
    path = "?".join(["/v1/predict", "&".join(query)] if query else ["/v1/predict"])
    return post(path, "write" if record else "read", records, first)


def known_prediction(id_: str | int) -> Request:
    """The request for the newest prediction of an id.

    Examples
    --------
    >>> known_prediction("7/a#b").path
    '/v1/predictions/7%2Fa%23b'
    """
    return Request(f"/v1/predictions/{quote(str(id_), safe='')}", "read", b"", JSON, None)


def prediction_of(body: bytes) -> PredictionRecord:
    """The answer to `ask_for` with one record."""
    return _read(_decode_prediction, body)


def predictions_of(body: bytes, first: int) -> list[PredictionRecord | Rejection]:
    """The answer to `ask_for` with several. An index counts the records of the whole call."""
    found: list[PredictionRecord | Rejection] = []
    for line in body.splitlines():
        try:
            found.append(_decode_prediction(line))
        except UNREADABLE:
            rejection = _read(_decode_rejection, line)
            rejection.index += first
            found.append(rejection)
    return found


def written_of(body: bytes, records: list[Prepared]) -> list[Written]:
    """The answer to a request that writes."""
    places = _read(_decode_appended, body).records
    return [
        record.written(place.topic, place.partition, place.offset)
        for record, place in zip(records, places, strict=True)
    ]


def _read(decode: Callable[[bytes], T], body: bytes) -> T:
    """An answer; ServiceError if it is not one of headwater, such as the page of a proxy."""
    try:
        return decode(body)
    except UNREADABLE as error:
        raise ServiceError(
            f"expected an answer of headwater, got another ({error}); check the URL, and what "
            "stands between"
        ) from None


def conversation(request: Request, where: str, retries: Retries) -> Conversation:
    """Yields each action, is sent its result, and returns the body of the answer.

    Parameters
    ----------
    where
        The URL of the service for messages.

    Raises
    ------
    RecordError
        The service rejected a record; none of the request is written.
    ServiceError
        It did not answer, or answered another error.
    """
    until = retries.clock() + retries.timeout
    for attempt in count():
        reply = yield Send(max(until - retries.clock(), 0.001))
        if reply is None:
            raise TypeError("expected what came as the answer to Send, got None")
        if isinstance(reply, Reply) and 200 <= reply.status < 300:
            return reply.body
        pause = retries.pause(attempt, reply)
        again = isinstance(reply, str) or reply.status in AGAIN
        if not again or attempt >= retries.most or retries.clock() + pause >= until:
            raise _error(reply, where, attempt + 1, request.first)
        yield Pause(pause)
    raise AssertionError("count() does not end")


def next_step(talk: Conversation, came: Reply | str | None) -> Send | Pause | bytes:
    """The action that follows a result, or the body of the answer."""
    try:
        return talk.send(came)
    except StopIteration as end:
        return bytes(end.value)


def _error(reply: Reply | str, where: str, attempts: int, first: int | None) -> HeadwaterError:
    if isinstance(reply, str):
        tried = "" if attempts == 1 else f" after {attempts} attempts"
        return ServiceError(
            f"expected an answer from {where}, got none{tried} ({reply}); check that it runs"
        )
    problem: Problem | None = None
    try:
        problem = _decode_problem(reply.body)
    except UNREADABLE:
        phrase = HTTPStatus(reply.status).phrase if reply.status in list(HTTPStatus) else ""
        return ServiceError(
            f"expected an answer of headwater from {where}, got {reply.status} {phrase}; check "
            "the URL, and what stands between",
            reply.status,
        )
    if reply.status == REJECTED and problem.reason is not None:
        number = None if first is None else first + (problem.index or 0)
        place = "" if number is None else f"record {number}: "
        return RecordError(cast(Any, problem.reason), f"{place}{problem.detail}")
    return ServiceError(f"{where} answered {reply.status}: {problem.detail}", reply.status, problem)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, or the seconds until a date; 0 without the header."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
