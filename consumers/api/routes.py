"""The routes of the API, each behind its permission and the limit of requests.

Rule: a request counts as one that is answered when its body is there. The body of a refused request
is not read: the connection drops it (`consumers.web.limits`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from difflib import get_close_matches

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from consumers.api.api import Api
from consumers.api.bodies import JSON, Held, read, read_start
from consumers.api.openapi import document, page
from consumers.api.operations import OPERATIONS, Asked, Operation
from consumers.api.permission import Permission
from consumers.api.problems import ProblemError, by_protocol, respond
from consumers.config import Config
from consumers.mail.envelope import LARGEST

__all__ = ["routes", "unmatched"]

_PAGE = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}

REFUSED = {408: "slow", 429: "requests"}  # in the metric, by status

Handler = Callable[[Request], Awaitable[Response]]


def routes(whole: Config, api: Api, permission: Permission) -> list[BaseRoute]:
    """The routes of a service.

    Parameters
    ----------
    whole
        The configuration.
    api
        Answers.
    permission
        Who may ask.
    """
    name, config = whole.name, whole.serve
    limit = _Limit(config.max_requests)
    held = Held(config.max_requests * max(config.max_body_bytes, LARGEST))
    described = msgspec.json.encode(document(whole))

    def handler(operation: Operation) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                asked = request.query_params.get("record", "false").lower()
                recorded = operation.path == "/v1/predict" and asked not in ("false", "0")
                # A request has one token: with that for writing, the prediction is returned too.
                if not recorded or config.write_token is None:
                    permission.check(operation.needs, request.headers)
                if recorded:
                    permission.check("write", request.headers)
                _check_query(operation, request)
                with held.body() as take:
                    body = b""
                    if operation.raw:
                        body = await read_start(request, LARGEST, take)
                    elif operation.accepts is not None:
                        body = await read(request, config.max_body_bytes, take)
                    with limit:
                        return await operation.answer(Asked(request, body, api, config, name))
            except asyncio.CancelledError:  # the server stops, and waits no longer
                why = "the service stops; what was sent may be written, so send it with the same id"
                return respond(ProblemError(503, why, {"retry-after": "2"}), operation.path)
            except ProblemError as error:
                if error.status in REFUSED:
                    request.app.state.page.refused[REFUSED[error.status]] += 1
                return respond(error, operation.path)

        return answer

    async def openapi(_: Request) -> Response:
        return Response(described, headers=_PAGE, media_type=JSON)

    async def docs(_: Request) -> Response:
        return HTMLResponse(page(name), headers=_PAGE)

    return [
        *(Route(_pattern(o.path), handler(o), methods=[o.method]) for o in OPERATIONS),
        # The document of the protocol has a slash at its end, the protocol's text has not.
        *(Route("/v2/", handler(o), methods=[o.method]) for o in OPERATIONS if o.path == "/v2"),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
    ]


class _AnyId(StringConvertor):
    """An id may have any characters, also a slash (`%2F` is decoded before) and line breaks."""

    regex = "(?s:.+)"


register_url_convertor("id", _AnyId())


def _pattern(path: str) -> str:
    return path.replace("{id}", "{id:id}")


async def unmatched(request: Request, error: Exception) -> Response:
    """The answer to a path or a method that no route has: a problem on the paths of the API."""
    assert isinstance(error, HTTPException)  # noqa: S101  it is installed for these
    path, headers = request.url.path, dict(error.headers or {})
    if not (by_protocol(path) or path == "/v1" or path.startswith("/v1/")):
        return PlainTextResponse(error.detail, error.status_code, headers)
    detail = error.detail
    if error.status_code == 404:
        near = get_close_matches(path, [o.path for o in OPERATIONS], n=1, cutoff=0.8)
        meant = f"did you mean {near[0]}?" if near else "/docs lists what there is"
        detail = f"no operation has the path {path[:200]}; {meant}"
    elif error.status_code == 405:
        allowed = headers.get("Allow", "another method")
        detail = f"expected {allowed} for {path[:200]}, got {request.method[:20]}"
    return respond(ProblemError(error.status_code, detail, headers), path)


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
