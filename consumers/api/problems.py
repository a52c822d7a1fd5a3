"""Errors of requests as RFC 9457 problem details: what was expected, what came, what to do.

Under `/v2` they have the form of the Open Inference Protocol.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from consumers.api.contract import InferError, Problem
from consumers.web.refusal import RefusedError

__all__ = ["MEDIA_TYPE", "ProblemError", "by_protocol", "respond"]

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
