"""Which connections there are, where they come from, and which one ends for a newcomer.

Rule: a newcomer always gets a place. When all are taken, a connection of the address that holds
most is closed, so that whoever opens many pays for them and a health check with one connection is
answered. Live pages keep their places; at most half of all may be live pages.
"""

from __future__ import annotations

import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

__all__ = ["MAX_CONNECTIONS", "Connection", "Connections", "places", "source_of"]

MAX_CONNECTIONS = 256  # twice the pages that may be open: each may fetch beside its stream
FEWEST = 8  # connections, however few files the process may open
CLOSING = 4  # connections that may be in the midst of their end beside those
KNOWN = 256  # addresses remembered because a request of theirs was let in


class Connection:
    """One connection, from its acceptance to its end.

    Attributes
    ----------
    source
        Where it comes from, as `source_of` groups addresses.
    spoken
        Whether anything has come over it.
    admitted
        Whether a request that was let in is being answered now.
    live
        Whether that answer is a live page's stream.
    ended
        Whether it is over.
    close
        Ends it at once.
    """

    __slots__ = ("admitted", "close", "ended", "live", "source", "spoken")

    def __init__(self, source: str, close: Callable[[], None]) -> None:
        self.source, self.close = source, close
        self.spoken = self.admitted = self.live = self.ended = False


class Connections:
    """The connections of one server.

    Parameters
    ----------
    limit
        How many there may be.
    refused
        Counts, under "connections", those that were closed for a newcomer.

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
        self._open: dict[Connection, None] = {}  # in the order they came
        self._closing: set[Connection] = set()  # closed for others, their files not yet
        self._known: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether too many that were closed for others still hold their files."""
        return len(self._open) + len(self._closing) >= self.limit + CLOSING

    def enter(self, source: str, close: Callable[[], None]) -> Connection:
        """Give a new connection its place; where none is left, another one ends."""
        while len(self._open) >= self.limit and self.evict():
            pass
        connection = Connection(source, close)
        self._open[connection] = None
        return connection

    def leave(self, connection: Connection) -> None:
        """Note that a connection is over."""
        connection.ended, connection.close = True, _nothing
        self._open.pop(connection, None)
        self._closing.discard(connection)

    def admit(self, connection: Connection) -> None:
        """Note that its request is let in, and remember where it came from."""
        connection.admitted = True
        self._known[connection.source] = None
        self._known.move_to_end(connection.source)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def evict(self) -> bool:
        """End one connection: of strangers before those whose requests were let in, of the address
        that has most, the oldest: a silent one before one that is not being answered. False where
        there are only live pages."""
        choice = [each for each in self._open if not each.live]
        if not choice:
            return False
        strangers = [each for each in choice if each.source not in self._known]
        # A single stranger may be the newcomer before this one: that is no crowd to be thinned out.
        choice = strangers if len(strangers) > self.limit // 4 else choice
        most = Counter(each.source for each in self._open)
        chosen = min(choice, key=lambda each: (-most[each.source], each.spoken, each.admitted))
        close = chosen.close
        self.leave(chosen)
        self._closing.add(chosen)
        self._refused["connections"] += 1
        close()
        return True


def _nothing() -> None:
    """What is over needs no end."""


def places() -> int:
    """How many connections a process may hold: a quarter of the files it may open.

    The rest is for the log, its broker, snapshots and what they need besides.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY
    return max(FEWEST, min(MAX_CONNECTIONS, soft // 4)) if few else MAX_CONNECTIONS


def source_of(host: str) -> str:
    """What counts as one address: that of IPv4, the network of a site (/64) of IPv6.

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
