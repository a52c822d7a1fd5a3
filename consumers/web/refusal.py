"""Requests that are refused: by what status, why, and where it is counted."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

__all__ = ["CLOSES", "RefusedError", "UnmatchedError", "as_text"]

CLOSES = {"connection": "close"}  # with the refusal of a client that is not known


class RefusedError(Exception):
    """A request that is not answered as asked.

    Parameters
    ----------
    status
        The HTTP status.
    detail
        One line for the client: what was expected, what came, what to do.
    headers
        Further headers, such as Retry-After.
    counted
        The reason in `headwater_http_refused_total`; empty: it is not counted.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        counted: str = "",
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.counted = status, detail, counted
        self.headers = dict(headers or {})


class UnmatchedError(RefusedError):
    """A path that no route has, or a method that its routes do not have."""


def as_text(_: Request, error: RefusedError) -> Response:
    """The refusal as one line of text."""
    headers = {"cache-control": "no-store", **error.headers}
    return PlainTextResponse(f"{error.detail}\n", error.status, headers)
