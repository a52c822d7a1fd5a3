"""The conversations of `exchange` over the network, by httpx."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from consumers.base.errors import ConfigError
from consumers.base.secrets import Secret, without_login
from headwater.exchange import Pause, Reply, Request, Retries, Send, conversation, next_step

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncHttpDoor", "HttpDoor", "Tokens"]

MOST_CONNECTIONS = 16  # of an asynchronous client; further calls wait for one


class Tokens:
    """The bearer tokens. No repr and no message shows them."""

    def __init__(self, read: str | None, write: str | None) -> None:
        self._tokens = {"read": read and Secret(read), "write": write and Secret(write)}

    def arguments(self, request: Request, step: Send) -> dict[str, Any]:
        """The arguments of httpx for a request. A token replaces the login of the URL."""
        token = self._tokens[request.needs]
        headers = {"content-type": request.kind}
        more: dict[str, Any] = {"headers": headers, "timeout": step.seconds}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
            more["auth"] = None
        return {"content": request.body, **more}


class HttpDoor:
    """A service at a URL, for one call after the other.

    Parameters
    ----------
    url
        The address of the service.
    tokens
        Those of `[serve]`.
    retries
        How often and how long a call is tried.
    tls
        The certificates that are trusted, and the one that is shown.
    sleep
        Waits some seconds.
    """

    def __init__(
        self,
        url: str,
        tokens: Tokens,
        retries: Retries,
        tls: ssl.SSLContext | None = None,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._where, self._tokens, self._retries = without_login(url), tokens, retries
        self._sleep = sleep
        self._client: httpx.Client = _made("Client", url, tls)

    def ask(self, request: Request) -> bytes:
        """The body of the answer. For the errors see `conversation`."""
        talk = conversation(request, self._where, self._retries)
        came: Reply | str | None = None
        while not isinstance(step := next_step(talk, came), bytes):
            came = self._done(request, step)
        return step

    def _done(self, request: Request, step: Send | Pause) -> Reply | str | None:
        import httpx

        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return None
        try:
            arguments = self._tokens.arguments(request, step)
            found = self._client.request(request.method, request.path, **arguments)
        except httpx.RequestError as error:
            return _why(error)
        return Reply(found.status_code, found.headers, found.content)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncHttpDoor:
    """The same for many calls at the same time, over at most 16 connections."""

    def __init__(
        self, url: str, tokens: Tokens, retries: Retries, tls: ssl.SSLContext | None = None
    ) -> None:
        self._where, self._tokens, self._retries = without_login(url), tokens, retries
        self._client: httpx.AsyncClient = _made("AsyncClient", url, tls)
        self._free = asyncio.Semaphore(MOST_CONNECTIONS)

    async def ask(self, request: Request) -> bytes:
        """The body of the answer. For the errors see `conversation`."""
        async with self._free:  # the timeout begins when it is the turn of this call
            talk = conversation(request, self._where, self._retries)
            came: Reply | str | None = None
            while not isinstance(step := next_step(talk, came), bytes):
                came = await self._done(request, step)
            return step

    async def _done(self, request: Request, step: Send | Pause) -> Reply | str | None:
        import httpx

        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            arguments = self._tokens.arguments(request, step)
            found = await self._client.request(request.method, request.path, **arguments)
        except httpx.RequestError as error:
            return _why(error)
        return Reply(found.status_code, found.headers, found.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _made(kind: str, url: str, tls: ssl.SSLContext | None) -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise ConfigError(
            "a client of a service over HTTP needs httpx; pip install 'headwater[client]', or "
            "give the URL of the log"
        ) from None
    try:
        base = httpx.URL(url)
        # httpx logs the URL of each request, so the password must not be in it.
        login = httpx.BasicAuth(base.username, Secret(base.password)) if base.username else None
        base = base.copy_with(username="", password="")
        limits = httpx.Limits(max_connections=MOST_CONNECTIONS)
        trusted = tls or base.scheme == "https"  # loading certificates takes a while
        return getattr(httpx, kind)(base_url=base, auth=login, verify=trusted, limits=limits)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ConfigError(
            f"expected http://HOST:PORT, got {without_login(url)!r} ({error})"
        ) from None


def _why(error: httpx.RequestError) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
