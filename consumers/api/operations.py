"""Every operation over HTTP: parameters, bodies and problems; one entry each.

Method, path and who may use it are in its row of `consumers.web.routes`. The handlers and the
OpenAPI document are made from this table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from consumers.api import contract, inference
from consumers.api.api import Api
from consumers.api.bodies import JSON, LINES, ProblemError, RequestRecords, records_of
from consumers.config.serve import ServeConfig
from consumers.web.routes import ROUTES

__all__ = ["LABEL", "OBSERVATION", "OPERATIONS", "UNNAMED", "Asked", "Operation"]

FRESH = {"cache-control": "no-store"}
LARGEST_NUMBER = 9  # digits


class Asked(NamedTuple):
    """A request with its body, and what answers it."""

    request: Request
    body: bytes
    api: Api
    config: ServeConfig
    name: str

    @property
    def records(self) -> RequestRecords:
        """The records of its body."""
        kind = self.request.headers.get("content-type", "")
        return records_of(self.body, kind, self.config.max_records)

    def number(self, key: str, default: int | None = None) -> int | None:
        """A whole number of the query."""
        text = self.request.query_params.get(key)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= LARGEST_NUMBER):
            raise ProblemError(400, f"expected a whole number for {key}, got {text[:50]!r}")
        return int(text)

    def flag(self, key: str) -> bool:
        """A truth value of the query."""
        text = self.request.query_params.get(key, "false").lower()
        if text not in ("true", "false", "1", "0"):
            raise ProblemError(400, f"expected true or false for {key}, got {text[:50]!r}")
        return text in ("true", "1")


class Parameter(NamedTuple):
    """A parameter of the path or the query, as in OpenAPI."""

    name: str
    where: str
    schema: dict[str, Any]
    about: str


class Operation(NamedTuple):
    """One operation.

    `row`: the name of its row in `ROUTES`.
    `accepts`: type of a record of the body, or the name of its schema; None without a body.
    `returns`: status and type of the answer. `problems`: the other statuses. `raw`: the media type
    of a body that is no JSON; its first bytes are enough.
    """

    row: str
    answer: Callable[[Asked], Awaitable[Response]]
    returns: tuple[int, Any]
    accepts: Any = None
    parameters: tuple[Parameter, ...] = ()
    problems: tuple[int, ...] = ()
    raw: str = ""

    @property
    def method(self) -> str:
        """Of its row."""
        return ROUTES[self.row].method

    @property
    def path(self) -> str:
        """Of its row."""
        return ROUTES[self.row].path

    @property
    def lines(self) -> bool:
        """Whether many records can come at once."""
        return LINES in ROUTES[self.row].takes

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return ROUTES[self.row].about

    @property
    def needs(self) -> str:
        """The token of its row."""
        return ROUTES[self.row].needs[0]


async def _predict(asked: Asked) -> Response:
    explain = asked.number("explain", 0) or 0
    records, strict = asked.records, asked.flag("strict")
    if asked.flag("record"):
        answers = await asked.api.recorded(records, strict=strict)
    else:
        shard = asked.number("shard")
        answers = await asked.api.predict(records, shard, explain, strict=strict)
    if records.form == "lines":
        body = b"".join(answer + b"\n" for answer in answers)
        return Response(body, headers=FRESH, media_type=LINES)
    body = answers[0] if records.form == "one" else b"[" + b",".join(answers) + b"]"
    return Response(body, headers=FRESH, media_type=JSON)


async def _observe(asked: Asked) -> Response:
    places = await asked.api.observe(asked.records)
    return _json(contract.Appended(places), 202)


async def _label(asked: Asked) -> Response:
    places = await asked.api.label(asked.records)
    return _json(contract.Appended(places), 202)


async def _model(asked: Asked) -> Response:
    return _json(asked.api.model(asked.number("shard")))


async def _prediction(asked: Asked) -> Response:
    body = await asked.api.prediction(asked.request.path_params["id"])
    return Response(body, headers=FRESH, media_type=JSON)


async def _explain(asked: Asked) -> Response:
    id_, most = asked.request.path_params["id"], asked.number("explain", 10) or 0
    return Response(await asked.api.explained(id_, most), headers=FRESH, media_type=JSON)


async def _server(asked: Asked) -> Response:
    return _json(inference.server_metadata())


async def _live(asked: Asked) -> Response:
    return _json({"live": True})


async def _ready(asked: Asked) -> Response:
    asked.api.answerer(None)
    return _json({"ready": True})


async def _model_ready(asked: Asked) -> Response:
    _check_name(asked)
    asked.api.answerer(None)
    return _json({"name": asked.name, "ready": True})


async def _metadata(asked: Asked) -> Response:
    _check_name(asked)
    answerer, _ = asked.api.answerer(None)
    return _json(inference.model_metadata(asked.name, answerer.copy))


async def _infer(asked: Asked) -> Response:
    _check_name(asked)
    answerer, _ = asked.api.answerer(None)
    if "inference-header-content-length" in asked.request.headers:
        raise ProblemError(
            400, "expected the data of tensors in JSON, got bytes; set binary_data=False"
        )
    request = inference.request_of(asked.body)
    values = inference.records_in(request, answerer, asked.config.max_records)
    read = await asked.api.read(answerer, [b"%d" % i for i in range(len(values))], values)
    return _json(inference.infer(asked.name, request, answerer, read))


async def _rspamd(asked: Asked) -> Response:
    headers = asked.request.headers
    coding = headers.get("content-encoding") or headers.get("compression") or ""
    return _json(await asked.api.checked(asked.body, coding))


def _check_name(asked: Asked) -> None:
    if asked.request.path_params["name"] != asked.name:
        raise ProblemError(404, f"expected the model {asked.name!r}, which is the only one")


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, FRESH, JSON)


_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**LARGEST_NUMBER - 1}
_SHARD = Parameter("shard", "query", _NUMBER, "The shard whose model answers; default: the first.")
_EXPLAIN = Parameter(
    "explain",
    "query",
    {"type": "integer", "minimum": 0, "maximum": 100},
    "How many features to explain. A recorded prediction is explained by [output] explain.",
)
_RECORD = Parameter(
    "record",
    "query",
    {"type": "boolean", "default": False},
    "Write the observation to the input topic, and answer when its prediction is committed. "
    "An observation without an id gets a new one. Needs the write token.",
)
_STRICT = Parameter(
    "strict",
    "query",
    {"type": "boolean", "default": False},
    "Reject an observation with a field that is not used, see `notes`.",
)
_ID = Parameter("id", "path", {"type": "string", "minLength": 1}, "The id of the observation.")
_NAME = Parameter("name", "path", {"type": "string"}, "The name of the service.")
OBSERVATION, UNNAMED, LABEL = "Observation", "ObservationToPredict", "LabelRecord"
_LOG = (503, 504)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST /v1/predict",
        _predict,
        (200, contract.PredictionRecord),
        accepts=UNNAMED,
        parameters=(_SHARD, _EXPLAIN, _RECORD, _STRICT),
        problems=(400, 404, 409, 413, 415, 422, *_LOG),
    ),
    Operation(
        "POST /v1/observations",
        _observe,
        (202, contract.Appended),
        accepts=OBSERVATION,
        problems=(400, 413, 415, 422, *_LOG),
    ),
    Operation(
        "POST /v1/labels",
        _label,
        (202, contract.Appended),
        accepts=LABEL,
        problems=(400, 404, 413, 415, 422, *_LOG),
    ),
    Operation(
        "GET /v1/model",
        _model,
        (200, contract.ModelStatus),
        parameters=(_SHARD,),
        problems=(400, 404, 503),
    ),
    Operation(
        "GET /v1/predictions/{id}",
        _prediction,
        (200, contract.PredictionRecord),
        parameters=(_ID,),
        problems=(400, 404, *_LOG),
    ),
    Operation(
        "GET /v1/explain/{id}",
        _explain,
        (200, contract.PredictionRecord),
        parameters=(_ID, _EXPLAIN),
        problems=(400, 404, 422, *_LOG),
    ),
    Operation(
        "POST /checkv2",
        _rspamd,
        (200, contract.RspamdReply),
        problems=(400, 404, 413, 415, 422, 503),
        raw="application/octet-stream",
    ),
    Operation(
        "GET /v2",
        _server,
        (200, contract.ServerMetadata),
    ),
    Operation(
        "GET /v2/health/live",
        _live,
        (200, dict[str, bool]),
    ),
    Operation(
        "GET /v2/health/ready",
        _ready,
        (200, dict[str, bool]),
        problems=(503,),
    ),
    Operation(
        "GET /v2/models/{name}",
        _metadata,
        (200, contract.ModelMetadata),
        parameters=(_NAME,),
        problems=(404, 503),
    ),
    Operation(
        "GET /v2/models/{name}/ready",
        _model_ready,
        (200, dict[str, Any]),
        parameters=(_NAME,),
        problems=(404, 503),
    ),
    Operation(
        "POST /v2/models/{name}/infer",
        _infer,
        (200, contract.InferResponse),
        accepts=contract.InferRequest,
        parameters=(_NAME,),
        problems=(400, 404, 413, 415, 503),
    ),
)
