"""The handlers of the API, each behind the limit of requests, and what its refusals look like.

Rule: a request counts as one that is answered when its body is there. The body of a refused request
is not read: the connection drops it (`consumers.web.limits`).
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from consumers.api.api import Api
from consumers.api.bodies import JSON, Held, ProblemError, by_protocol, read, read_start, respond
from consumers.api.openapi import document, page
from consumers.api.operations import OPERATIONS, Asked, Operation
from consumers.config import Config
from consumers.mail.envelope import LARGEST_ASKED
from consumers.web.page import Handler
from consumers.web.refusal import RefusedError, UnmatchedError, as_text

__all__ = ["handlers", "refusal"]

_PAGE = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def handlers(whole: Config, api: Api) -> dict[str, Handler]:
    """The handlers of a service, by the names of their rows in `consumers.web.routes`.

    Parameters
    ----------
    whole
        The configuration.
    api
        Answers.
    """
    name, config = whole.name, whole.serve
    limit = _Limit(config.max_requests)
    held = Held(config.max_requests * max(config.max_body_bytes, LARGEST_ASKED // 4))
    described = msgspec.json.encode(document(whole))

    def handler(operation: Operation) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                _check_query(operation, request)
                with held.body() as take:
                    body = b""
                    if operation.raw:
                        body = await read_start(request, LARGEST_ASKED, take)
                    elif operation.accepts is not None:
                        body = await read(request, config.max_body_bytes, take)
                    with limit:
                        return await operation.answer(Asked(request, body, api, config, name))
            except asyncio.CancelledError:  # the server stops, and waits no longer
                why = "the service stops; what was sent may be written, so send it with the same id"
                raise ProblemError(503, why, {"retry-after": "2"}) from None

        return answer

    async def openapi(_: Request) -> Response:
        return Response(described, headers=_PAGE, media_type=JSON)

    async def docs(_: Request) -> Response:
        return HTMLResponse(page(name), headers=_PAGE)

    made = {operation.row: handler(operation) for operation in OPERATIONS}
    return {
        **made,
        "GET /v2/": made["GET /v2"],
        "GET /openapi.json": openapi,
        "GET /docs": docs,
    }


def refusal(request: Request, error: RefusedError) -> Response:
    """The answer to a request that is refused: a problem on the paths of the API, else text."""
    path = request.url.path
    if not (by_protocol(path) or path in ("/v1", "/checkv2") or path.startswith("/v1/")):
        return as_text(request, error)
    if isinstance(error, UnmatchedError) and error.status == 404:
        near = get_close_matches(path, [o.path for o in OPERATIONS], n=1, cutoff=0.8)
        meant = f"did you mean {near[0]}?" if near else "/docs lists what there is"
        error = ProblemError(404, f"no operation has the path {path[:200]}; {meant}")
    elif isinstance(error, UnmatchedError) and error.status == 405:
        allowed = error.headers.get("Allow", "another method")
        detail = f"expected {allowed} for {path[:200]}, got {request.method[:20]}"
        error = ProblemError(405, detail, error.headers)
    return respond(error, path)


def _check_query(operation: Operation, request: Request) -> None:
    """Raise ProblemError if the query has a parameter that the operation does not know.

    Clients of the Open Inference Protocol may add parameters of other servers.
    """
    if by_protocol(operation.path):
        return
    known = [p.name for p in operation.parameters if p.where == "query"]
    for name in request.query_params:
        if name not in known:
            expected = f"expected {', '.join(known)}" if known else "expected none"
            raise ProblemError(400, f"no query parameter {name[:50]!r}; {expected}")


class _Limit:
    """The number of requests that are answered now; a further one is refused."""

    def __init__(self, most: int) -> None:
        self._left = most

    def __enter__(self) -> None:
        if self._left == 0:
            raise ProblemError(
                429, "too many requests are being answered; ask again", {"retry-after": "1"}
            )
        self._left -= 1

    def __exit__(self, *_: object) -> None:
        self._left += 1
