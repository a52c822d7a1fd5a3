"""Errors of requests as RFC 9457 problem details: what was expected, what came, what to do."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from consumers.api.contract import Problem

__all__ = ["MEDIA_TYPE", "ProblemError", "respond"]

MEDIA_TYPE = "application/problem+json"


class ProblemError(Exception):
    """A request that is not answered as asked.

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
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers, self.members = headers or {}, members


def respond(error: ProblemError) -> Response:
    """The response to the request.

    Examples
    --------
    >>> respond(ProblemError(404, "no such model")).body
    b'{"title":"Not Found","status":404,"detail":"no such model"}'
    """
    title = HTTPStatus(error.status).phrase
    body = msgspec.json.encode(Problem(title, error.status, error.detail, **error.members))  # type: ignore[arg-type]
    headers = {"cache-control": "no-store", **error.headers}
    return Response(body, error.status, headers, MEDIA_TYPE)
