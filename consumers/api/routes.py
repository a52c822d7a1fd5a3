"""The handlers of the API, each behind the limit of requests, and what its refusals look like.

Rule: a request counts as one that is answered when its body is there. The body of a refused request
is not read: the connection drops it (`consumers.web.limits`).

The OpenAPI 3.1 document and its page are made from the table of operations.
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from html import escape
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from consumers.api import contract
from consumers.api.api import Api
from consumers.api.bodies import (
    JSON,
    LINES,
    MEDIA_TYPE,
    Held,
    ProblemError,
    by_protocol,
    read,
    read_start,
    respond,
)
from consumers.api.operations import LABEL, OBSERVATION, OPERATIONS, UNNAMED, Asked, Operation
from consumers.codecs.json_document import LONGEST_ID
from consumers.config import Config
from consumers.mail.envelope import LARGEST_ASKED
from consumers.web.page import Handler
from consumers.web.refusal import RefusedError, UnmatchedError, as_text
from stream.data.schema import LARGEST, LONGEST_LABEL
from stream.join.reporters import LONGEST_REPORTER

__all__ = ["document", "handlers", "page", "refusal"]

_REF = "#/components/schemas/{name}"
_EVERY = (401, 403, 421, 429)  # problems of any operation
_TEXT = {"type": ["string", "null"]}
_KINDS: dict[str, Any] = {
    "numeric": {"type": ["number", "null"], "minimum": -LARGEST, "maximum": LARGEST},
    "binary": {"type": ["boolean", "null"]},
    "categorical": _TEXT,
    "text": _TEXT,
}
_LABEL: dict[str, Any] = {
    "type": ["string", "integer", "boolean"],
    "maxLength": LONGEST_LABEL,
    "minimum": -(2**63),
    "maximum": 2**63 - 1,
}


def document(config: Config) -> dict[str, Any]:
    """The OpenAPI document of a service, with the fields of its observations."""
    types: list[Any] = [o.returns[1] for o in OPERATIONS] + [contract.Problem, contract.Rejection]
    types.append(contract.InferError)
    types += [o.accepts for o in OPERATIONS if isinstance(o.accepts, type)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema: dict[Any, Any] = {str(t): s for t, s in zip(types, schemas, strict=True)}
    records = _records(config)
    schema |= {name: {"$ref": _REF.format(name=name)} for name in records}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, schema, _security(operation, config)
        )
    bearer = {"type": "http", "scheme": "bearer"}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"headwater: {config.name}", "version": version("headwater")},
        "paths": paths,
        "components": {
            "schemas": components | records,
            "securitySchemes": {"read_token": bearer, "write_token": bearer},
        },
    }


def _records(config: Config) -> dict[str, Any]:
    """The schemas of observations and labels."""
    id_, fields = (
        {"type": "string", "minLength": 1, "maxLength": LONGEST_ID},
        config.declared_schema,
    )
    declared = [] if fields is None else fields.fields
    properties: dict[str, Any] = {f.name: _KINDS[f.kind] for f in declared if "." not in f.name}
    properties[config.input.id.split(".")[0]] = {} if "." in config.input.id else id_
    if (label := config.input.label) is not None and "." not in label:
        properties[label] = {**_LABEL, "type": [*_LABEL["type"], "null"]}
    observation = {"type": "object", "properties": properties}
    weight = {"type": "number", "exclusiveMinimum": 0, "maximum": config.labels.max_weight}
    told = {"id": id_, "label": _LABEL, "w": weight}
    if (reporter := config.labels.reporter) is not None and "." not in reporter:
        told[reporter] = {"type": ["string", "integer", "null"], "maxLength": LONGEST_REPORTER}
    return {
        OBSERVATION: {**observation, "required": [config.input.id.split(".")[0]]},
        UNNAMED: observation,
        LABEL: {"type": "object", "properties": told, "required": ["id", "label"]},
    }


def _security(operation: Operation, config: Config) -> list[dict[str, list[str]]]:
    """Which token an operation needs; nobody is asked for one that is not configured."""
    name = f"{operation.needs}_token"
    return [{}] if getattr(config.serve, name) is None else [{name: []}]


def _operation(
    operation: Operation, schema: dict[str, Any], security: list[dict[str, list[str]]]
) -> dict[str, Any]:
    status, returns = operation.returns
    answer = schema[str(returns)]
    problem = {MEDIA_TYPE: {"schema": schema[str(contract.Problem)]}}
    if by_protocol(operation.path):
        problem = {JSON: {"schema": schema[str(contract.InferError)]}}
    content = {JSON: {"schema": answer}}
    if operation.lines and returns is contract.PredictionRecord:
        item = {"anyOf": [answer, schema[str(contract.Rejection)]]}
        content = {
            JSON: {"schema": {"anyOf": [answer, {"type": "array", "items": item}]}},
            LINES: {"schema": {"type": "string"}},
        }
    responses = {str(status): {"description": HTTPStatus(status).phrase, "content": content}}
    slow = () if operation.accepts is None and not operation.raw else (408,)
    for each in sorted({*operation.problems, *_EVERY, *slow}):
        responses[str(each)] = {"description": HTTPStatus(each).phrase, "content": problem}
    out: dict[str, Any] = {
        "summary": operation.summary,
        "security": security,
        "responses": responses,
    }
    if operation.parameters:
        out["parameters"] = [
            {
                "name": p.name,
                "in": p.where,
                "required": p.where == "path",
                "schema": p.schema,
                "description": p.about,
            }
            for p in operation.parameters
        ]
    if operation.accepts is not None:
        one = schema[str(operation.accepts)]
        body: dict[str, Any] = {JSON: {"schema": one}}
        if operation.lines:
            many = {"type": "array", "items": one}
            body = {JSON: {"schema": {"anyOf": [one, many]}}, LINES: {"schema": {"type": "string"}}}
        out["requestBody"] = {"required": True, "content": body}
    if operation.raw:
        text = {"schema": {"type": "string", "minLength": 1}}
        out["requestBody"] = {"required": True, "content": {operation.raw: text}}
    return out


def page(name: str) -> str:
    """The operations as a page; it loads nothing from elsewhere."""
    rows = "".join(
        f"<tr><td>{o.method}</td><td><code>{escape(o.path)}</code></td><td>{escape(o.summary)}"
        f"</td><td>{', '.join(f'<code>{p.name}</code>' for p in o.parameters)}</td>"
        f"<td>{o.needs}</td></tr>"
        for o in OPERATIONS
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>{escape(name)}: HTTP API</title><h1>{escape(name)}: HTTP API</h1>"
        '<p>Bodies, types and errors: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>'
        "<table><tr><th>method</th><th>path</th><th>what it does</th><th>parameters</th>"
        f"<th>token</th></tr>{rows}</table></html>"
    )


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
