"""Who may call a route: judged by its row of the table, for each request.

Rule: a token opens the routes of the API and nothing else. Without one, a request needs a login
where there are logins, else a Host that is no foreign name; it must not come from a page of another
site; and the needs of its route must be met.

bcrypt is slow on purpose; guesses must not block others. So `Logins` has one hash at a time, in
another thread than the server's. The address with the fewest recent wrong logins is next; among
several, the newest. A right login is remembered and does not wait.

The checks of Host and Origin: they keep out the pages of other sites, which a browser opens.

In DNS rebinding a name of the attacker resolves to this machine, so the browser treats both as one
site. The browser sends that name as Host. An address as Host cannot be rebound, because no name was
resolved. With TLS the certificate does not match the name; a password is not sent to that name.

A page of another site can also send requests to the address itself, and open streams. It cannot
read the answers, but the requests are made. A browser names such a page in Origin, or in
Sec-Fetch-Site where it sends no Origin. It sends Sec-Fetch-Site over TLS and to loopback only.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from consumers.config import Config
from consumers.web.limits import Connection
from consumers.web.refusal import CLOSES, RefusedError
from consumers.web.routes import ANY, NEEDS, RouteSpec
from consumers.web.web_config import WebConfig, load_web_config

__all__ = ["Access", "Logins", "access_of"]

REMEMBERED = 100  # wrong logins that are remembered; a bcrypt hash of cost 12 takes 0.2 s
LONGEST_PASSWORD = 72  # bytes; bcrypt rejects longer passwords
WAITING = 128  # logins in the queue; above it the oldest of the fullest address is dropped
WAIT_SECONDS = 10.0  # at most in the queue
ADDRESSES = 1024  # with a count of wrong logins
LATELY_SECONDS = 60.0  # without a wrong login, after which those of an address are forgotten
FREE = 5  # wrong logins of an address that are answered without a delay
# Delay of further answers: a multiple of the time of the hash, and its maximum. A client that waits
# for its answers, over a hundred connections, leaves every second hash to others.
SLOWER, SLOWEST_SECONDS = 200, 30.0


class Logins:
    """Refuses with 401 unless a request names a user with the right password.

    The right logins and at most `REMEMBERED` wrong ones are remembered, as keyed hashes. A user who
    logged in once does not wait for clients that guess, and their guesses do not evict it. An
    unknown name takes as long as a wrong password.

    Parameters
    ----------
    users
        Name to bcrypt hash, at least one.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = {name.encode(): hashed.encode() for name, hashed in users.items()}
        self._any = next(iter(self._users.values()))
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()  # one per user: a hash has one password
        self._wrong: OrderedDict[bytes, None] = OrderedDict()
        self._turns = LoginQueue()
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End the delay of all answers; in the server's thread."""
        self._closed.set()

    async def check(self, header: str, connection: Connection) -> None:
        """Raise RefusedError unless an Authorization header has a right login."""
        right = await self._judged(header.encode("latin-1", "replace"), connection)
        if right is None:
            headers = CLOSES | {"retry-after": "1"}
            why = "too many logins wait to be checked; try again"
            raise RefusedError(429, why, headers, counted="logins")
        if not right:
            basic = {"www-authenticate": 'Basic realm="headwater", charset="UTF-8"'}
            raise RefusedError(401, "unauthorized", CLOSES | basic, counted="password")

    async def _judged(self, header: bytes, connection: Connection) -> bool | None:
        """Whether a login is right; None if it could not be checked in time."""
        parsed = _parsed(header)
        if parsed is None:
            return False
        name, password = parsed
        login = hmac.digest(self._key, name + b":" + password, hashlib.sha256)
        if login in self._right:
            return True
        if login in self._wrong:
            self._wrong.move_to_end(login)
            return False
        if not await self._turns.take(connection):
            return None
        try:
            if login in self._right:  # checked while this one waited
                return True
            began = time.monotonic()
            right = login not in self._wrong and await asyncio.to_thread(
                self._verify, name, password
            )
            took = time.monotonic() - began
        finally:
            self._turns.give()
        if right:
            self._right.add(login)
            return True
        self._wrong[login] = None
        while len(self._wrong) > REMEMBERED:
            self._wrong.popitem(last=False)
        if self._turns.wrong(connection.source) > FREE:
            await self._pause(min(SLOWER * took, SLOWEST_SECONDS))
        return False

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            return

    def _verify(self, name: bytes, password: bytes) -> bool:
        import bcrypt

        right = bool(bcrypt.checkpw(password, self._users.get(name, self._any)))
        return right and name in self._users


class LoginQueue:
    """The queue of logins that wait for their check.

    Within an address the newest is next: a client that guesses over many connections fills the end
    of the queue, and a later login from the same address does not wait for all of them.
    """

    def __init__(self) -> None:
        self._busy = False
        # By address, in order of arrival: the connections that wait, the oldest first.
        self._waiting: dict[str, list[tuple[asyncio.Future[bool], Connection]]] = {}
        self._errors: OrderedDict[str, tuple[int, float]] = OrderedDict()  # count, last time

    async def take(self, connection: Connection) -> bool:
        """Wait for a turn; False after the timeout. Each turn must be released."""
        if not self._busy:
            self._busy = True
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiting.setdefault(connection.source, []).append((waiter, connection))
        self._bound()
        timer = loop.call_later(WAIT_SECONDS, self._refuse, connection.source, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.give()
            raise
        finally:
            timer.cancel()
            self._forget(connection.source, waiter)

    def give(self) -> None:
        """Release the turn to the next."""
        while self._waiting:
            source = min(reversed(self._waiting), key=self._lately)
            queue = self._waiting.pop(source)
            waiter, connection = queue.pop()
            if queue:
                self._waiting[source] = queue  # after the others
            if waiter.done():
                continue
            waiter.set_result(not connection.ended)
            if not connection.ended:
                return
        self._busy = False

    def wrong(self, source: str) -> int:
        """Count a wrong login; returns the recent number."""
        count = self._lately(source) + 1
        self._errors[source] = count, time.monotonic()
        self._errors.move_to_end(source)
        while len(self._errors) > ADDRESSES:
            self._errors.popitem(last=False)
        return count

    def _lately(self, source: str) -> int:
        count, at = self._errors.get(source, (0, 0.0))
        return count if time.monotonic() - at < LATELY_SECONDS else 0

    def _bound(self) -> None:
        if sum(map(len, self._waiting.values())) > WAITING:
            source = max(self._waiting, key=lambda source: len(self._waiting[source]))
            waiter, _ = self._waiting[source][0]
            self._refuse(source, waiter)

    def _refuse(self, source: str, waiter: asyncio.Future[bool]) -> None:
        self._forget(source, waiter)
        if not waiter.done():
            waiter.set_result(False)

    def _forget(self, source: str, waiter: asyncio.Future[bool]) -> None:
        queue = [each for each in self._waiting.get(source, ()) if each[0] is not waiter]
        if queue:
            self._waiting[source] = queue
        else:
            self._waiting.pop(source, None)


def _parsed(header: bytes) -> tuple[bytes, bytes] | None:
    """Name and password of an Authorization header; None without them."""
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    if not colon or len(password) > LONGEST_PASSWORD or b"\0" in password:
        return None
    return name, password


log = logging.getLogger("headwater")

LONGEST = 100  # characters of a host in a message
_PORTS = {"http": 80, "https": 443}  # of an Origin or a Host without one


class AllowedHosts:
    """Addresses, loopback names and the allowed names.

    Parameters
    ----------
    allowed
        Names; upper and lower case are equal.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(name.lower().rstrip(".") for name in allowed) | {"localhost"}

    def check(self, header: str | None) -> None:
        """Raise RefusedError for a Host header with another name."""
        host = host_of(header)
        if self.allows(host):
            return
        shown = ascii(host[:LONGEST])
        log.warning(
            "expected an address or an allowed name as Host, got %s; if it is a name of this "
            "service, add it to [http] allowed_hosts",
            shown,
        )
        raise RefusedError(
            421,
            f"expected an address or an allowed name as Host, got {shown}; "
            "ask by address, or add the name to [http] allowed_hosts",
            CLOSES,
            counted="host",
        )

    def allows(self, host: str) -> bool:
        """Whether a host, without its port, is allowed.

        Examples
        --------
        >>> hosts = AllowedHosts(["metrics.example.org"])
        >>> [hosts.allows(h) for h in ("127.0.0.1", "::1", "Metrics.Example.org.", "a.localhost")]
        [True, True, True, True]
        >>> [hosts.allows(h) for h in ("evil.example", "127.0.0.1.evil.example", "", "::1%evil")]
        [False, False, False, False]
        """
        name = host.lower().rstrip(".")
        if name in self._allowed or name.endswith(".localhost"):
            return True
        try:
            return "%" not in name and bool(ip_address(name))  # a zone may be any text
        except ValueError:
            return False


def host_of(header: str | None) -> str:
    """The host of a Host header, without its port; "localhost" for a client too old to send one.

    Examples
    --------
    >>> [host_of(h) for h in ("a.b:80", "[::1]:8321", "10.0.0.1", None, "a:b")]
    ['a.b', '::1', '10.0.0.1', 'localhost', 'a:b']
    """
    if header is None:
        return "localhost"  # HTTP/1.0; every browser sends a Host
    text = header.strip()
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*))(?::\d*)?", text)
    return text if found is None else found[1] or found[2] or ""


def of_another_site(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a page of another site sends the request, without being left for it.

    Examples
    --------
    >>> of_another_site("GET", {}), of_another_site("GET", {"origin": "null"})
    (False, True)
    >>> link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    >>> [of_another_site("GET", link | {"sec-fetch-dest": d}) for d in ("document", "iframe")]
    [False, True]
    """
    origin = headers.get("origin")
    if origin is not None:
        return not _same_site(origin, headers.get("host", ""))
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    # A person follows a link, from a dashboard for example: one page replaces the other.
    mode, dest = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return not (method in ("GET", "HEAD") and mode == "navigate" and dest == "document")


def _same_site(origin: str, host: str) -> bool:
    """Whether a page has this Host. Another port is another site: another program serves it.

    Examples
    --------
    >>> [_same_site(origin, "localhost:8321") for origin in (
    ...     "http://localhost:8321", "http://localhost:3000", "http://localhost", "null")]
    [True, False, False, False]
    >>> _same_site("https://localhost", "localhost")
    True
    """
    try:
        page = urlsplit(origin)
        port = _PORTS.get(page.scheme)
        here, there = urlsplit(f"//{host}"), urlsplit(f"//{page.netloc}")
        same = (here.hostname, here.port or port) == (there.hostname, there.port or port)
    except ValueError:
        return False
    return same and bool(there.hostname)


class Access:
    """Checks each request of one server.

    Parameters
    ----------
    local
        Whether only this machine reaches the server.
    web
        Logins and TLS; None without.
    hosts
        Allowed host names, in addition to addresses and loopback names.
    read_token, write_token
        The bearer tokens of the API; None: there is no such token.

    Attributes
    ----------
    tls
        The server's side of TLS; None without TLS.
    known
        Whether every client is a program of this machine, or has a login or a certificate.
    predictions
        Whether every client may see predictions and their ids.

    Examples
    --------
    >>> Access().known, Access(local=False).known
    (True, False)
    """

    def __init__(
        self,
        *,
        local: bool = True,
        web: WebConfig | None = None,
        hosts: Iterable[str] = (),
        read_token: str | None = None,
        write_token: str | None = None,
    ) -> None:
        self._local = local
        self.tls: ssl.SSLContext | None = None if web is None else web.tls
        self.known = local or (web is not None and web.closed)
        self.predictions = self.known or read_token is None
        self._tokens = {"read": read_token, "write": write_token}
        self._logins = Logins(web.users) if web is not None and web.users else None
        # With TLS the certificate does not match a foreign name; a login is not sent to it.
        plain = self._logins is None and self.tls is None
        self._hosts = AllowedHosts(hosts) if plain else None

    def close(self) -> None:
        """End the delay of answers to wrong logins; in the server's thread."""
        if self._logins is not None:
            self._logins.close()

    async def check(self, row: RouteSpec, request: Request) -> None:
        """Return for a request that may be answered; RefusedError for another."""
        headers = request.headers
        needs = row.recording if row.recording and _records(request) else row.needs
        given = _bearer(headers.get("authorization", ""))
        if not self._opens(needs[0], given):
            if self._logins is not None:
                connection = request.scope["state"]["connection"]
                await self._logins.check(headers.get("authorization", ""), connection)
            if self._hosts is not None:
                self._hosts.check(headers.get("host"))
            if of_another_site(request.method, headers):
                raise RefusedError(
                    403,
                    "expected a program or the page of the service, got a page of another site; "
                    "ask from a program, or with a token",
                    counted="origin",
                )
            for need in needs:
                self._check(need, given)
        _check_type(row, headers.get("content-type", ""))
        request.scope["state"]["admit"]()

    def _opens(self, need: str, given: str) -> bool:
        """Whether a token opens a need."""
        tokens = [self._tokens[name] for name in NEEDS[need].tokens]
        return any(token is not None and _same(given, token) for token in tokens)

    def _check(self, name: str, given: str) -> None:
        """Raise RefusedError unless a need is met, for a request that passed the other checks."""
        need = NEEDS[name]
        asked = any(self._tokens[token] is not None for token in need.tokens)
        met = {"anyone": True, "known": self.known, "local": self._local}[need.others]
        if (met and not (asked and need.closes)) or self._opens(name, given):
            return
        key = f"[serve] {need.tokens[0]}_token"
        if asked:
            raise RefusedError(
                401,
                f"expected the bearer token of {key}, got another or none; send the header "
                "Authorization: Bearer TOKEN",
                {"www-authenticate": "Bearer"},
                counted="token",
            )
        raise RefusedError(
            403,
            f"expected {key} in the configuration, because others reach this port; set it",
            counted="token",
        )


def access_of(config: Config) -> Access:
    """The access to the server of a service. ConfigError if its web-config file cannot be used."""
    http, serve = config.http, config.serve
    return Access(
        local=http.loopback,
        web=None if http.web_config is None else load_web_config(http.web_config),
        hosts=(http.host, *http.allowed_hosts),
        read_token=serve.read_token,
        write_token=serve.write_token,
    )


def _records(request: Request) -> bool:
    """Whether the query asks to write; a value that is no truth value does."""
    return request.query_params.get("record", "false").lower() not in ("false", "0")


def _check_type(row: RouteSpec, content_type: str) -> None:
    """Raise RefusedError if the body has another type than the route takes."""
    kind = content_type.partition(";")[0].strip().lower()
    if row.takes and ANY not in row.takes and kind not in row.takes:
        expected = " or ".join(row.takes)
        raise RefusedError(
            415, f"expected Content-Type {expected}, got {kind[:100] or 'none'!r}; set it"
        )


def _bearer(header: str) -> str:
    """The token of an Authorization header; empty without one.

    Examples
    --------
    >>> _bearer("Bearer abc"), _bearer("bearer  abc "), _bearer("Basic abc")
    ('abc', 'abc', '')
    """
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode())
