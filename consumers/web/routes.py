"""Every route of the service, one row each: who may call it, and what body it takes.

Made from this table: the routes of the server, the access to each (`consumers.web.access`), the
OpenAPI document, and docs/routes.md. Without a row there is no route.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ANY", "JSON", "LINES", "NEEDS", "ROUTES", "UNMATCHED", "Need", "RouteSpec", "page"]

JSON, LINES = "application/json", "application/x-ndjson"
ANY = "*"  # no Content-Type is expected
RECORDS = (JSON, LINES)


class Need(NamedTuple):
    """Who may call a route.

    Parameters
    ----------
    tokens
        Names of the tokens that open it. A request with one of them needs nothing else.
    others
        Who else may call it: `anyone` that the server admits; `known`, the programs of this machine
        or clients with a login or a certificate; `local`, the programs of this machine.
    closes
        Whether a token that is configured keeps out all others.
    """

    tokens: tuple[str, ...]
    others: str
    closes: bool = False


NEEDS = {
    "look": Need((), "anyone"),
    "describe": Need(("read", "write"), "anyone"),
    "explain": Need(("read",), "known"),
    "read": Need(("read",), "known", closes=True),
    "write": Need(("write",), "local", closes=True),
}


class RouteSpec(NamedTuple):
    """One route.

    Parameters
    ----------
    method, path, about
        GET also allows HEAD. `about` is one line for people.
    needs
        Names of `NEEDS`. All are required, or the token of the first.
    recording
        The needs of a request with `?record=true`; empty where there is no such parameter.
    takes
        Media types of the body, or `ANY`; empty without a body.
    """

    method: str
    path: str
    about: str
    needs: tuple[str, ...] = ("look",)
    recording: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


_READ, _WRITE = ("read",), ("write",)
_EVERY = (
    RouteSpec("GET", "/", "The live page"),
    RouteSpec("GET", "/assets/{key}/{file}", "Its script and style"),
    RouteSpec("GET", "/status", "What the page shows, as JSON"),
    RouteSpec("GET", "/events", "The same as a stream"),
    RouteSpec("GET", "/explain", "The features of a prediction on the page", ("explain",)),
    RouteSpec("GET", "/features", "The features with most evidence", ("explain",)),
    RouteSpec("GET", "/metrics", "Metrics for Prometheus"),
    RouteSpec("GET", "/healthz", "Whether the process should be replaced"),
    RouteSpec("GET", "/readyz", "Whether the service is live or a standby"),
    RouteSpec("GET", "/openapi.json", "The routes below as OpenAPI 3.1", ("describe",)),
    RouteSpec("GET", "/docs", "The same as a page", ("describe",)),
    RouteSpec(
        *("POST", "/v1/predict", "Predict observations; nothing is learned"),
        *(_READ, ("write", "read"), RECORDS),
    ),
    RouteSpec(
        *("POST", "/v1/observations", "Write observations to the input topic"),
        *(_WRITE, (), RECORDS),
    ),
    RouteSpec(
        *("POST", "/v1/labels", "Write labels, or corrections, to the label topic"),
        *(_WRITE, (), RECORDS),
    ),
    RouteSpec("GET", "/v1/model", "What the model is, has learned, and how good it is", _READ),
    RouteSpec("GET", "/v1/predictions/{id}", "The newest prediction for an id", _READ),
    RouteSpec(
        "GET", "/v1/explain/{id}", "Predict an earlier observation again, with reasons", _READ
    ),
    # Programs that ask rspamd send any media type, or none: the body is the mail.
    RouteSpec(
        *("POST", "/checkv2", "A verdict on a mail, in the shape of rspamd; nothing is learned"),
        *(_READ, (), (ANY,)),
    ),
    RouteSpec("GET", "/v2", "The server (Open Inference Protocol)", _READ),
    # The document of the protocol has a slash at its end, the protocol's text has not.
    RouteSpec("GET", "/v2/", "The same", _READ),
    RouteSpec(
        "GET", "/v2/health/live", "Whether the process answers (Open Inference Protocol)", _READ
    ),
    RouteSpec(
        "GET", "/v2/health/ready", "Whether there is a model (Open Inference Protocol)", _READ
    ),
    RouteSpec(
        "GET", "/v2/models/{name}", "The tensors of the model (Open Inference Protocol)", _READ
    ),
    RouteSpec(
        "GET", "/v2/models/{name}/ready", "Whether it is ready (Open Inference Protocol)", _READ
    ),
    # Clients of the protocol send JSON under other media types, or under none.
    RouteSpec(
        *("POST", "/v2/models/{name}/infer", "Predict by tensors (Open Inference Protocol)"),
        *(_READ, (), (ANY,)),
    ),
)
ROUTES = {f"{row.method} {row.path}": row for row in _EVERY}
UNMATCHED = RouteSpec("", "", "A path or a method without a route")


def page() -> str:
    """The text of docs/routes.md.

    Examples
    --------
    >>> page().startswith("# Routes")
    True
    """
    needs = (
        f"| `{name}` | {_tokens(need)} | {_others(need, local=True)} | "
        f"{_others(need, local=False)} | {'everybody' if need.others == 'anyone' else 'nobody'} |"
        for name, need in NEEDS.items()
    )
    rows = []
    for row in _EVERY:
        rows.append(_line(row, "", row.needs))
        if row.recording:
            rows.append(_line(row, "?record=true", row.recording))
    return _PAGE.format(needs="\n".join(needs), rows="\n".join(rows))


def _tokens(need: Need) -> str:
    return " or ".join(f"`{name}_token`" for name in need.tokens) or "none"


def _others(need: Need, *, local: bool) -> str:
    """Who may call it without a token, on a service of one of two kinds."""
    if need.others == "local" and not local:
        return "nobody"
    who = "this machine" if local else "who has a login"
    return f"{who}, while {_tokens(need)} is not set" if need.closes else who


def _line(row: RouteSpec, query: str, needs: tuple[str, ...]) -> str:
    takes = "any" if ANY in row.takes else ", ".join(f"`{kind}`" for kind in row.takes) or "–"
    named = " and ".join(f"`{need}`" for need in needs)
    return f"| `{row.method} {row.path}{query}` | {row.about} | {named} | {takes} |"


_PAGE = """\
# Routes

Every route of a service, and who may call it. The server takes its routes and the access to them
from the same table, `consumers/web/routes.py`, and this page is generated from it. `GET` also
allows `HEAD`.

| route | answer | needs | Content-Type of the body |
|---|---|---|---|
{rows}

The routes after `/readyz` exist if `[serve] enabled` is true. With `[serve] port` they are on that
port.

## Who may call it

A request with a token of the second column passes; it is sent as `Authorization: Bearer TOKEN`.
Without one it depends on who reaches the service. A service is local if `[http] host` is loopback.
A login is a password or a client certificate of `[http] web_config`.

| needs | token | without: of a local service | of one with logins | of one without |
|---|---|---|---|---|
{needs}

- **Logins.** With `basic_auth_users` every request needs a login, also on loopback and also for
  `/healthz`. A token replaces it only where the second column has it: a token opens neither the
  page nor the metrics.
- **Two needs** are both required. The token of the first one is enough.
- **Host.** Without TLS and logins, `Host` must be an address, `localhost` or a name in `[http]
  allowed_hosts`. Another one is refused with 421. With a token that opens the route any name is
  allowed.
- **Origin.** A request of a page of another site is refused with 403, on every route. Such a page
  has another `Origin` than the `Host` of the request, or `null`; or the request has no `Origin`,
  and the browser calls it `cross-site` or `same-site` in `Sec-Fetch-Site`. Another port is another
  site. Programs send neither. A link may be followed: the browser then shows the answer as a page
  of its own. A token that opens the route is enough, because no browser adds one by itself.
- **Content-Type.** Another one than those of the table is refused with 415. `any`: also none.

## What the page shows

Where others reach the service and there are no logins, the page and `/status` have no contents of
records: of dead letters the position and the reason only, no reporters, no keys. If `[serve]
read_token` is set, they have no ids and no predictions either, because those need the token.
"""
