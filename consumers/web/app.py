"""The HTTP server: the live page, `/metrics`, `/healthz`, `/readyz`, and what `consumers.api` adds.

It runs in its own thread and handles no signals. It sees only a registry and a `Health`, both of
immutable values, so no request can change or delay a learner. Each route has a row in the table of
`consumers.web.routes`, and each request is checked by it before its handler is called.

The response of `/metrics`: its formats, and the share of a processor that it may take.

Rule: a client chooses one of a few formats and names nothing. Whatever it sends, the number of
responses in memory and the processor time have a bound.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import client

import msgspec
import uvicorn
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from consumers.base.errors import ConfigError
from consumers.base.health import Health
from consumers.web.access import Access
from consumers.web.gate import Gated
from consumers.web.limits import HEAD_BYTES, Connections, Front, Limited, places
from consumers.web.page import Handler, Page, PageCollector
from consumers.web.refusal import RefusedError, UnmatchedError, as_text
from consumers.web.routes import ROUTES, UNMATCHED
from consumers.web.status_feed import StatusFeed

__all__ = ["Exposition", "Server", "application", "plain_application"]

# Share of a processor that all formats together can take, at any rate of requests: a response that
# took 6 ms to compute is reused for 0.6 s.
SHARE = 0.01
_OPENMETRICS = "application/openmetrics-text"
_TEXT = choose_encoder("")
# By version. A prometheus_client that does not support a version chooses another format for it.
_OPEN = {v: choose_encoder(f"{_OPENMETRICS}; version={v}") for v in ("1.0.0", "2.0.0")}


class Exposition:
    """The metrics of a registry in the format that a client accepts.

    Examples
    --------
    >>> Exposition(CollectorRegistry()).respond("application/openmetrics-text; version=junk")
    ('text/plain; version=0.0.4; charset=utf-8', b'')
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._kept: dict[str, tuple[float, bytes]] = {}  # content type -> reused until, response
        self._paid = 0.0  # when the share has paid for all computed responses

    def respond(self, accept: str) -> tuple[str, bytes]:
        """Content type and body for an `Accept` header.

        A response is reused until the share has paid for it and for all before it. So at most one
        response per format is unpaid, and an eager client of one format does not keep the client of
        another from new values.
        """
        encode, content_type = _format(accept)
        until, body = self._kept.get(content_type, (0.0, b""))
        if time.monotonic() >= until:
            began = time.thread_time()
            body = encode(self._registry)
            cost = time.thread_time() - began
            self._paid = max(self._paid, time.monotonic()) + cost / SHARE
            self._kept[content_type] = (self._paid, body)
        return content_type, body


def _format(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The first OpenMetrics version of the header that is supported; otherwise text."""
    for accepted in accept.split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        if kind.lower() == _OPENMETRICS:
            versions = (p.removeprefix("version=") for p in parameters if p.startswith("version="))
            found = _OPEN.get(next(versions, "1.0.0"))
            if found is not None:
                return found
    return _TEXT


STOP_SECONDS = 5.0
ASK_SECONDS = 1.0  # timeout of the question to the server that has the port
ANSWER_BYTES = 4 * 2**20  # limit of its answer; a status document is far smaller

# Answers a request that is refused.
Respond = Callable[[Request, RefusedError], Response]


class _Named(msgspec.Struct):
    """What is read of another process's /status."""

    service: str


_decode_named = msgspec.json.Decoder(_Named).decode


def application(
    registry: CollectorRegistry,
    health: Callable[[], Health],
    *,
    name: str = "headwater",
    status_feeds: Callable[[], Mapping[int, StatusFeed]] = dict,
    access: Access | None = None,
    more: Mapping[str, Handler] | None = None,
    respond: Respond = as_text,
) -> Starlette:
    """The application.

    Parameters
    ----------
    registry
        What `/metrics` shows.
    health
        Returns the present health; called once per request, in the server's thread.
    name
        The service's name, for the page.
    status_feeds
        The status feeds of the shards that this process runs, by number; the page shows them.
    access
        Who may call what; None: every program of this machine, everything.
    more
        Further handlers, by the name of their row in `ROUTES`.
    respond
        Answers requests that are refused.
    """
    access = access or Access()
    exposition = Exposition(registry)

    async def metrics(request: Request) -> Response:
        content_type, body = exposition.respond(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def healthz(_: Request) -> Response:
        now = health()
        return PlainTextResponse(f"{now}\n", 200 if now.alive else 503, headers=_FRESH)

    async def readyz(_: Request) -> Response:
        now = health()
        return PlainTextResponse(f"{now}\n", 200 if now.ready else 503, headers=_FRESH)

    page = Page(
        *(name, health, status_feeds), contents=access.known, predictions=access.predictions
    )
    registry.register(PageCollector(page))
    handlers: dict[str, Handler] = {
        **page.handlers(),
        "GET /metrics": metrics,
        "GET /healthz": healthz,
        "GET /readyz": readyz,
        **(more or {}),
    }
    return _assembled(handlers, page, access, respond)


_FRESH = {"cache-control": "no-store"}


def plain_application(
    name: str, access: Access, handlers: Mapping[str, Handler], respond: Respond
) -> Starlette:
    """An application of these handlers, without pages and metrics. See `application`."""
    page = Page(name, lambda: Health("live"), dict)  # it has no route, and counts refusals
    return _assembled(handlers, page, access, respond)


def _assembled(
    handlers: Mapping[str, Handler], page: Page, access: Access, respond: Respond
) -> Starlette:
    """The routes of these handlers, each with the access of its row."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)  # noqa: S101  it is installed for these
        if error.counted:
            page.refused[error.counted] += 1
        return respond(request, error)

    async def unmatched(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  it is installed for these
        try:
            await access.check(UNMATCHED, request)
        except RefusedError as first:
            return await refused(request, first)
        return respond(request, UnmatchedError(error.status_code, error.detail, error.headers))

    app = Starlette(
        routes=[_route(name, handler, access) for name, handler in handlers.items()],
        exception_handlers={HTTPException: unmatched, RefusedError: refused},
    )
    app.router.redirect_slashes = False  # no answer without a check
    app.state.page, app.state.access = page, access
    return app


def _route(name: str, handler: Handler, access: Access) -> Route:
    row = ROUTES[name]

    async def checked(request: Request) -> Response:
        await access.check(row, request)
        return await handler(request)

    return Route(row.path.replace("{id}", "{id:id}"), checked, methods=[row.method])


class _AnyId(StringConvertor):
    """An id may have any characters, also a slash (`%2F` is decoded before) and line breaks."""

    regex = "(?s:.+)"


register_url_convertor("id", _AnyId())


class Server:
    """Serves an application from a daemon thread.

    Parameters
    ----------
    app
        The application.
    host
        Address to listen on.
    port
        Port to listen on; 0 takes a free one.

    Examples
    --------
    >>> server = Server(application(CollectorRegistry(), lambda: Health("live")), "127.0.0.1", 0)
    >>> server.start()  # doctest: +ELLIPSIS
    ('127.0.0.1', ...)
    >>> server.stop()
    """

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._access: Access = app.state.access
        refused = app.state.page.refused
        self._uvicorn = Gated(
            uvicorn.Config(
                Front(app, refused),
                loop="asyncio",
                http=Limited,
                h11_max_incomplete_event_size=HEAD_BYTES,
                ws="none",
                lifespan="off",
                log_config=None,  # the log of the service is used
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            ),
            self._access.tls,
            Connections(places(), refused),
        )
        self._thread: threading.Thread | None = None

    def start(self) -> tuple[str, int]:
        """Listen and return the address; requests are answered from now on.

        Raises
        ------
        ConfigError
            The server cannot listen on the address.
        """
        listening = _listen(self._host, self._port, self._app.state.page.name)
        address: tuple[str, int] = listening.getsockname()[:2]
        # Outside the main thread uvicorn installs no signal handlers.
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="headwater-http", daemon=True
        )
        self._thread.start()
        return address

    def stop(self) -> None:
        """Finish open requests and end; does nothing if it does not run."""
        if self._thread is not None:
            self._app.state.page.close()  # its streams do not end by themselves
            self._uvicorn.call(self._access.close)
            self._uvicorn.should_exit = True
            self._thread.join(STOP_SECONDS)
            self._thread = None

    def _run(self, listening: socket.socket) -> None:
        with listening:
            self._uvicorn.run([listening])


def _listen(host: str, port: int, name: str) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigError(_why_not(error, host, port, name)) from error


def _occupant(host: str, port: int) -> str | None:
    """The name of the service that listens there; None if it is another program, or does not
    answer at once and without a password."""
    connection = client.HTTPConnection(host, port, timeout=ASK_SECONDS)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        return _decode_named(answer.read(ANSWER_BYTES)).service
    except (OSError, client.HTTPException, ValueError):  # also of msgspec
        return None
    finally:
        connection.close()


def _why_not(error: OSError, host: str, port: int, name: str) -> str:
    if error.errno == errno.EADDRINUSE:
        if _occupant(host, port) == name:
            return (
                f"[http] port: this service already runs there: {name} answers on {host}:{port}; "
                "stop it, or set another port, or 0: several processes of one configuration on "
                "one host need different ports"
            )
        return (
            f"[http] port: expected a free port, but {host}:{port} is in use; "
            "stop what uses it, set another port, or 0 for any free one"
        )
    if error.errno == errno.EACCES:
        return f"[http] port: not allowed to listen on {port}; set one above 1023, or 0 for any"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return (
            f"[http] host: expected an address of this machine, got {host!r}; "
            "127.0.0.1 serves this machine only, 0.0.0.0 everyone"
        )
    return f"[http]: cannot listen on {host}:{port} ({error.strerror or error}); set another port"
