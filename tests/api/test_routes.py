"""Every route x every credential x Origin x Content-Type x Host, in every kind of service.

What is expected is written here by hand, as docs/routes.md promises it, and shares nothing with the
table that the access is made from.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import bcrypt
import pytest
from prometheus_client.registry import CollectorRegistry
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from consumers.api.routes import handlers, refusal
from consumers.base.health import Health
from consumers.config import parse
from consumers.web.access import Access
from consumers.web.app import application
from consumers.web.limits import Connection
from consumers.web.page import Page
from consumers.web.routes import NEEDS, ROUTES
from consumers.web.web_config import WebConfig

READ, WRITE, HERE = "read" * 5, "write" * 5, "127.0.0.1:8321"
HASH = bcrypt.hashpw(b"correct", b"$2b$04$abcdefghijklmnopqrstuu").decode()


def basic(password: str) -> str:
    """The header of a login."""
    return f"Basic {b64encode(f'ann:{password}'.encode()).decode()}"


def certified() -> ssl.SSLContext:
    """TLS that admits clients with a certificate only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


LOGINS = WebConfig(None, {"ann": HASH})
TOKENS = {"read_token": READ, "write_token": WRITE}
SERVICES: dict[str, dict[str, Any]] = {
    "local": {},
    "local, tokens": TOKENS,
    "local, read token": {"read_token": READ},
    "local, write token": {"write_token": WRITE},
    "open": {"local": False},
    "open, tokens": {"local": False, **TOKENS},
    "logins": {"local": False, "web": LOGINS},
    "logins, tokens": {"local": False, "web": LOGINS, **TOKENS},
    "local, logins": {"web": LOGINS},
    "certificates": {"local": False, "web": WebConfig(certified(), {})},
    "TLS, tokens": {
        "local": False,
        "web": WebConfig(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), {}),
        **TOKENS,
    },
}
# What a program gets that has no token, and a login where there are logins: who is asked for what.
KINDS = ("page", "words", "description", "read", "write", "both")
WITHOUT_TOKEN = {
    "local": (200, 200, 200, 200, 200, 200),
    "local, tokens": (200, 200, 200, 401, 401, 401),
    "local, read token": (200, 200, 200, 401, 200, 401),
    "local, write token": (200, 200, 200, 200, 401, 401),
    "open": (200, 403, 200, 403, 403, 403),
    "open, tokens": (200, 401, 200, 401, 401, 401),
    "logins": (200, 200, 200, 200, 403, 403),
    "logins, tokens": (200, 200, 200, 401, 401, 401),
    "local, logins": (200, 200, 200, 200, 200, 200),
    "certificates": (200, 200, 200, 200, 403, 403),
    "TLS, tokens": (200, 401, 200, 401, 401, 401),
}
OPENED_BY = {
    "page": (),
    "words": ("read",),
    "description": ("read", "write"),
    "read": ("read",),
    "write": ("write",),
    "both": ("write",),
}


class Place(NamedTuple):
    """A route as a client sees it: its kind, and the media types of its body."""

    method: str
    path: str
    kind: str
    takes: tuple[str, ...] | None = None  # None: any, and none


RECORDS = ("application/json", "application/json; charset=utf-8", "application/x-ndjson")
PLACES = [
    *(
        Place("GET", path, "page")
        for path in (
            *("/", "/assets/0/page.js", "/status", "/events", "/metrics", "/healthz", "/readyz"),
            *("/no/such/path", "/docs/", "/v1", "/v2/no"),
        )
    ),
    Place("DELETE", "/v1/labels", "page"),
    Place("GET", "/explain", "words"),
    Place("GET", "/features", "words"),
    Place("GET", "/openapi.json", "description"),
    Place("GET", "/docs", "description"),
    *(
        Place("GET", path, "read")
        for path in (
            *("/v1/model", "/v1/predictions/a/b", "/v1/explain/7", "/v2", "/v2/"),
            *("/v2/health/live", "/v2/health/ready", "/v2/models/shop", "/v2/models/shop/ready"),
        )
    ),
    Place("POST", "/checkv2", "read"),
    Place("POST", "/v2/models/shop/infer", "read"),
    Place("POST", "/v1/predict", "read", RECORDS),
    Place("POST", "/v1/predict?record=false", "read", RECORDS),
    Place("POST", "/v1/predict?record=true", "both", RECORDS),
    Place("POST", "/v1/predict?record=maybe", "both", RECORDS),
    Place("POST", "/v1/observations", "write", RECORDS),
    Place("POST", "/v1/labels", "write", RECORDS),
]
CREDENTIALS = {
    None: None,
    "read": f"Bearer {READ}",
    "write": f"bearer {WRITE}",
    "wrong token": f"Bearer {READ}x",
    "login": basic("correct"),
    "wrong login": basic("wrong"),
}
OURS: tuple[dict[str, str], ...] = (
    {},
    {"origin": f"http://{HERE}"},
    {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
)
FOREIGN: tuple[dict[str, str], ...] = (
    {"origin": "https://other.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:3000"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
)
TYPES = (*RECORDS, "text/plain", "application/x-www-form-urlencoded", "message/rfc822", None)


def promised(
    service: str, place: Place, credential: str | None, kind: str | None, *, ours: bool, host: bool
) -> int:
    """The status, as docs/routes.md promises it; 200 for a request that is answered."""
    settings = SERVICES[service]
    typed = 200 if place.takes is None or kind in place.takes else 415
    if credential in OPENED_BY[place.kind] and f"{credential}_token" in settings:
        return typed
    web = settings.get("web")
    if web is LOGINS and credential != "login":
        return 401
    if web is None and not host:
        return 421
    if not ours:
        return 403
    if service == "local, read token" and place.kind == "both" and credential == "read":
        return typed  # it may read by its token, and write as every program of this machine
    status = WITHOUT_TOKEN[service][KINDS.index(place.kind)]
    return typed if status == 200 else status


async def answered(_: Request) -> Response:
    """In place of every handler."""
    return PlainTextResponse("answered")


def served(service: str) -> Any:
    """The application of a service, with all routes."""
    return application(
        CollectorRegistry(),
        lambda: Health("live"),
        access=Access(**SERVICES[service]),
        more=dict.fromkeys(ROUTES, answered),
        respond=refusal,
    )


async def status_of(app: Any, place: Place, headers: dict[str, str]) -> int:
    """The status of the answer to a request."""
    path, _, query = place.path.partition("?")
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": place.method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {"connection": Connection("10.0.0.9", lambda: None), "admit": lambda: None},
    }
    await app(scope, receive, send)
    [status] = statuses
    return int(status)


# Place, credential, Content-Type, headers, whether the page is ours, and whether the Host is.
Asked = tuple[Place, str | None, str | None, dict[str, str], bool, bool]


def requests() -> Iterator[Asked]:
    """All of them for one service."""
    for place in PLACES:
        types = TYPES if place.method == "POST" else (None,)
        for credential, kind, host in product(CREDENTIALS, types, (True, False)):
            for others, ours in ((OURS, True), (FOREIGN, False)):
                for origin in others:
                    headers = {"host": HERE if host else "evil.example", **origin}
                    if not host and origin == OURS[1]:
                        headers["origin"] = "http://evil.example"  # a name that was bound again
                    if kind is not None:
                        headers["content-type"] = kind
                    if (login := CREDENTIALS[credential]) is not None:
                        headers["authorization"] = login
                    yield place, credential, kind, headers, ours, host


UNMATCHED = [
    place
    for place in PLACES
    if place.method == "DELETE" or place.path in ("/no/such/path", "/docs/", "/v1", "/v2/no")
]


async def broken(service: str, asked: list[Asked]) -> list[str]:
    """The requests whose answer is not the promised one."""
    app, found = served(service), []
    for place, credential, kind, headers, ours, host in asked:
        status = await status_of(app, place, headers)
        if status in (404, 405) and place in UNMATCHED:
            status = 200  # as far as access goes
        expected = promised(service, place, credential, kind, ours=ours, host=host)
        if status != expected:
            found.append(f"{place.method} {place.path} {headers}: {status}, not {expected}")
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_each_request_gets_what_the_page_of_routes_promises(service: str) -> None:
    """All routes x credentials x pages of sites x types x hosts."""
    asked = list(requests())

    assert len(asked) > 5000
    assert asyncio.run(broken(service, asked)) == []


@pytest.mark.parametrize("name", ROUTES)
def test_walk_notices_another_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with any other need, or another body, breaks a promise in some service."""
    row = ROUTES[name]
    others = [row._replace(needs=(need,)) for need in NEEDS if (need,) != row.needs]
    if row.takes:
        others.append(row._replace(takes=("text/csv",)))
    if row.recording:
        others += [row._replace(recording=each) for each in ((), ("write",), ("read",))]
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+(/b)?", re.escape(row.path))
    asked = [
        each
        for each in requests()
        if each[0].method == row.method
        and re.fullmatch(pattern, each[0].path.partition("?")[0])
        and each[3].keys() <= {"host", "authorization", "content-type"}  # no page of any site
        and each[5]
        and each[2] in (None, "application/json")
    ]
    missed = []
    for other in others:
        monkeypatch.setitem(ROUTES, name, other)
        if not any(asyncio.run(broken(service, asked)) for service in SERVICES):
            missed.append(other)

    assert len(asked) >= len(CREDENTIALS)
    assert missed == []


def test_every_route_of_the_server_is_walked() -> None:
    """The hand-written places match each route of the application, and the rest matches none."""
    routes = [route for route in served("local").routes if isinstance(route, Route)]
    matched = {
        place: [
            route.path
            for route in routes
            if place.method in route.methods and route.path_regex.match(place.path.split("?")[0])
        ]
        for place in PLACES
    }

    assert {path for paths in matched.values() for path in paths} == {r.path for r in routes}
    assert [place for place, paths in matched.items() if not paths] == UNMATCHED
    assert all(len(paths) <= 1 for paths in matched.values())


def test_table_has_a_row_for_each_handler_and_no_other() -> None:
    """A row without a handler would be promised in the docs and answered with 404."""
    config = parse(
        'name = "shop"\n[input]\ntransport = "memory:x"\nobservations = "o"\n'
        '[model]\ntype = "GaussianNB"'
    )
    page = Page("shop", lambda: Health("live"), dict).handlers()
    of_server = {"GET /metrics", "GET /healthz", "GET /readyz"}

    assert {*page, *of_server, *handlers(config, None)} == set(ROUTES)  # type: ignore[arg-type]


def test_handler_without_a_row_is_not_served() -> None:
    """A new route needs a row, which says who may call it."""
    with pytest.raises(KeyError, match="GET /new"):
        application(CollectorRegistry(), lambda: Health("live"), more={"GET /new": answered})
