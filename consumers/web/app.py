"""The HTTP server: the live page, `/metrics`, `/healthz`, `/readyz`.

It runs in its own thread and handles no signals. It sees only a registry and a `Health`, both of
immutable values, so no request can change or delay a learner. Only GET and HEAD are allowed.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import client
from typing import Any

import msgspec
import uvicorn
from prometheus_client.registry import CollectorRegistry
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from consumers.base.errors import ConfigError
from consumers.base.health import Health
from consumers.web.connections import Connections, places
from consumers.web.exposition import Exposition
from consumers.web.gate import Gated
from consumers.web.hosts import AllowedHosts, AnyHost
from consumers.web.limits import HEAD_BYTES, Front, Guard, Limited
from consumers.web.logins import Logins
from consumers.web.page import Page, PageCollector
from consumers.web.status_feed import StatusFeed
from consumers.web.web_config import WebConfig

__all__ = ["Server", "application"]

STOP_SECONDS = 5.0
ASK_SECONDS = 1.0  # timeout of the question to the server that has the port
ANSWER_BYTES = 4 * 2**20  # limit of its answer; a status document is far smaller


Unmatched = Callable[[Request, Exception], Awaitable[Response]]


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
    bytes_of_dead: bool = True,
    more: Sequence[BaseRoute] = (),
    unmatched: Unmatched | None = None,
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
    bytes_of_dead
        Whether the page also shows the first bytes of dead letters.
    more
        Further routes.
    unmatched
        Answers requests whose path or method no route has; None: as text.
    """

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

    page = Page(name, health, status_feeds, bytes_of_dead=bytes_of_dead)
    registry.register(PageCollector(page))
    app = Starlette(
        routes=[
            *page.routes(),  # a Route without methods allows GET and HEAD only
            Route("/metrics", metrics),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            *more,
        ],
        exception_handlers=_handlers(unmatched),
    )
    app.state.page = page
    return app


_FRESH = {"cache-control": "no-store"}


def _handlers(unmatched: Unmatched | None) -> dict[Any, Unmatched]:
    return {} if unmatched is None else {HTTPException: unmatched}


def plain_application(name: str, routes: Sequence[BaseRoute], unmatched: Unmatched) -> Starlette:
    """An application of these routes, without pages and metrics. See `application`."""
    app = Starlette(routes=routes, exception_handlers=_handlers(unmatched))
    app.state.page = Page(name, lambda: Health("live"), dict)  # no route: it counts refusals
    return app


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
    access
        Access control and TLS; None allows every client.
    names
        Allowed host names, in addition to addresses and loopback names.
    passing
        Makes the guard of all requests from that of pages.

    Examples
    --------
    >>> server = Server(application(CollectorRegistry(), lambda: Health("live")), "127.0.0.1", 0)
    >>> server.start()  # doctest: +ELLIPSIS
    ('127.0.0.1', ...)
    >>> server.stop()
    """

    def __init__(
        self,
        app: Starlette,
        host: str,
        port: int,
        access: WebConfig | None = None,
        names: Sequence[str] = (),
        passing: Callable[[Guard], Guard] = lambda guard: guard,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        refused = app.state.page.refused
        tls = None if access is None else access.tls
        self._logins = Logins(access.users, refused) if access and access.users else None
        guard: Guard = self._logins or (AnyHost() if tls else AllowedHosts((host, *names), refused))
        connections = Connections(places(), refused)
        self._uvicorn = Gated(
            uvicorn.Config(
                Front(app, passing(guard), connections, refused),
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
            tls,
            connections,
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
            if self._logins is not None:
                self._uvicorn.call(self._logins.close)
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
