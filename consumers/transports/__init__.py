"""Where records live, one folder a device; `open_log` picks it by the URL.

What is true of each is its entry in `registry`. What all of them promise is `protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders, transport_of

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["open_log"]


def open_log(
    url: str,
    *,
    kafka: Mapping[str, object] | None = None,
    key_headers: KeyHeaders = NO_KEY_HEADERS,
) -> Log:
    """Open the log that a URL names; the clients of other transports are not imported.

    Parameters
    ----------
    url
        For example `sqlite:feed.db`. docs/config.md lists the transports.
    kafka
        Options for the Kafka client; the other transports ignore them.
    key_headers
        Topic to the name of a header. `read` and `poll` return its value as the key of a record. A
        record without the header, or without a value, keeps its own key. Only the headers of these
        topics are read.

    Raises
    ------
    ConfigError
        The URL is not that of a transport.
    TransportError
        The log cannot be reached or opened.

    Examples
    --------
    >>> from consumers.base.records import Outgoing, Partition
    >>> log = open_log("memory:example")
    >>> log.create_topic("flowers", 1)
    >>> log.append([Outgoing("flowers", key=b"7", value=b"{}")])
    [(0, 0)]
    >>> log.end_offsets([Partition("flowers", 0)])
    {Partition(topic='flowers', number=0): 1}
    """
    return transport_of(url).open(url.partition(":")[2], kafka or {}, key_headers)
