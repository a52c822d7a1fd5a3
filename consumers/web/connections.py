"""The open connections, their sources, and which one is closed for a new one.

Rule: a new connection is always accepted. At the limit, a connection of the address with the most
connections is closed. So an address that opens many loses its own, and a health check with one
connection is answered. Live pages are not closed; at most half of all can be live pages.
"""

from __future__ import annotations

import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

__all__ = ["MAX_CONNECTIONS", "Connection", "Connections", "places", "source_of"]

MAX_CONNECTIONS = 256  # twice the limit of live pages: each can fetch while it streams
FEWEST = 8  # connections at least, at any limit of open files
CLOSING = 4  # closing connections that are allowed in addition
KNOWN = 256  # remembered addresses with an admitted request


class Connection:
    """One connection, from its acceptance to its end.

    Attributes
    ----------
    source
        Its address, grouped by `source_of`.
    received
        Whether a byte has arrived.
    admitted
        Whether an admitted request is being answered now.
    live
        Whether that response is the stream of a live page.
    ended
        Whether it has ended.
    close
        Closes it immediately.
    """

    __slots__ = ("admitted", "close", "ended", "live", "received", "source")

    def __init__(self, source: str, close: Callable[[], None]) -> None:
        self.source, self.close = source, close
        self.received = self.admitted = self.live = self.ended = False


class Connections:
    """The connections of one server.

    Parameters
    ----------
    limit
        Maximum number of connections.
    refused
        Counts, under "connections", those that were closed for a new one.

    Examples
    --------
    >>> refused = Counter()
    >>> all_of_them = Connections(2, refused)
    >>> first, second = (all_of_them.enter("a", lambda: None) for _ in range(2))
    >>> other = all_of_them.enter("b", lambda: None)
    >>> first.ended, second.ended, other.ended, dict(refused)
    (True, False, False, {'connections': 1})
    """

    def __init__(self, limit: int, refused: Counter[str]) -> None:
        self.limit, self._refused = limit, refused
        self._open: dict[Connection, None] = {}  # in order of arrival
        self._closing: set[Connection] = set()  # closed for others, but their files are open
        self._known: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether too many connections that were closed for others still have open files."""
        return len(self._open) + len(self._closing) >= self.limit + CLOSING

    def enter(self, source: str, close: Callable[[], None]) -> Connection:
        """Add a new connection; at the limit, close another one."""
        while len(self._open) >= self.limit and self.evict():
            pass
        connection = Connection(source, close)
        self._open[connection] = None
        return connection

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        connection.ended, connection.close = True, _nothing
        self._open.pop(connection, None)
        self._closing.discard(connection)

    def admit(self, connection: Connection) -> None:
        """Mark its request as admitted and remember its address."""
        connection.admitted = True
        self._known[connection.source] = None
        self._known.move_to_end(connection.source)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def evict(self) -> bool:
        """Close one connection; False if there are only live pages.

        Addresses without an admitted request come first, then the address with the most
        connections, then silent connections before idle ones, then the oldest.
        """
        choice = [each for each in self._open if not each.live]
        if not choice:
            return False
        strangers = [each for each in choice if each.source not in self._known]
        # A single unknown connection may be the new one itself, so it is not closed.
        choice = strangers if len(strangers) > self.limit // 4 else choice
        most = Counter(each.source for each in self._open)
        chosen = min(choice, key=lambda each: (-most[each.source], each.received, each.admitted))
        close = chosen.close
        self.leave(chosen)
        self._closing.add(chosen)
        self._refused["connections"] += 1
        close()
        return True


def _nothing() -> None:
    """Does nothing, for a connection that has ended."""


def places() -> int:
    """The limit of connections: a quarter of the files that the process can open.

    The rest is for the transport, the snapshots and their libraries.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY
    return max(FEWEST, min(MAX_CONNECTIONS, soft // 4)) if few else MAX_CONNECTIONS


def source_of(host: str) -> str:
    """What counts as one source: an IPv4 address, or the /64 network of an IPv6 address.

    Examples
    --------
    >>> source_of("::ffff:10.0.0.7"), source_of("2001:db8::1:2"), source_of("2001:db8::9")
    ('10.0.0.7', '2001:db8::/64', '2001:db8::/64')
    """
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    network = int(found) >> 64 << 64
    return f"{IPv6Address(network)}/64"
