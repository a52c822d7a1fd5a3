"""Close the sockets that a closed client abandons.

kafka-python 3.0.12 leaves two to the collector: that of a connection which is not made in the end,
and that of a connection which still had bytes to send.
"""

from __future__ import annotations

import weakref
from typing import Any

from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaTCPTransport

__all__ = ["close_abandoned_sockets"]

_connect = KafkaNetSocket.sock_connect
_init_transport = KafkaTCPTransport.__init__


async def _connect_or_close(self: Any, net: Any, sock: Any, *args: Any, **named: Any) -> Any:
    try:
        return await _connect(self, net, sock, *args, **named)
    except BaseException:  # also if its task was cancelled
        sock.close()
        raise


def _init_and_close_with(self: Any, net: Any, sock: Any, *args: Any, **named: Any) -> None:
    _init_transport(self, net, sock, *args, **named)
    weakref.finalize(self, sock.close).atexit = False


def close_abandoned_sockets() -> None:
    """Change the client's connections in this process."""
    KafkaNetSocket.sock_connect = _connect_or_close
    KafkaTCPTransport.__init__ = _init_and_close_with
