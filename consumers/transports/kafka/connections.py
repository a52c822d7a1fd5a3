"""Close the socket of a connection that is not made in the end.

kafka-python 3.0.12 leaves it to the collector, for example if a client is closed while it connects.
"""

from __future__ import annotations

from typing import Any

from kafka.net.inet import KafkaNetSocket

__all__ = ["close_abandoned_sockets"]

_connect = KafkaNetSocket.sock_connect


async def _connect_or_close(self: Any, net: Any, sock: Any, *args: Any, **named: Any) -> Any:
    try:
        return await _connect(self, net, sock, *args, **named)
    except BaseException:  # also if its task was cancelled
        sock.close()
        raise


def close_abandoned_sockets() -> None:
    """Change the client's connections in this process."""
    KafkaNetSocket.sock_connect = _connect_or_close
