"""Checks the password of each request. bcrypt is slow on purpose; guesses must not block others.

Rule: one hash at a time, in another thread than the server's. The address with the fewest recent
wrong logins is next; among several, the newest. A right login is remembered and does not wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping

from consumers.web.limits import Connection
from consumers.web.refusal import CLOSES, RefusedError

__all__ = ["Logins"]

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
