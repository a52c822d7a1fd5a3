"""Apache Kafka: records read and written in batches, one transaction a commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from consumers.base.errors import ConfigError
from consumers.base.secrets import without_login
from consumers.transports.registry import KeyHeaders, Transport, unknown_transport

if TYPE_CHECKING:
    from consumers.transports.protocol import Log

__all__ = ["TRANSPORT"]

_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/,@\[\]]+):\d{1,5}"


def _open(rest: str, options: Mapping[str, object], key_headers: KeyHeaders) -> Log:
    url = f"kafka:{rest}"
    if not rest.startswith("//"):
        raise unknown_transport(url)
    servers = _servers(url)
    from consumers.transports.kafka.log import KafkaLog

    return KafkaLog(servers, options, key_headers)


def _servers(url: str) -> list[str]:
    """The HOST:PORT parts of a Kafka URL."""
    servers = url.removeprefix("kafka://").rstrip("/").split(",")
    for server in servers:
        if "@" in server:  # the client would take it for a host's name, and show it
            raise ConfigError(
                f"expected kafka://HOST:PORT[,HOST:PORT…], got {without_login(url)!r}: a login "
                "is given as sasl_plain_username and sasl_plain_password in [kafka]"
            )
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(
                f"expected kafka://HOST:PORT[,HOST:PORT…], got {without_login(url)!r}: "
                f"{server!r} is not HOST:PORT"
            )
    return servers


def _warm_up() -> None:
    from consumers.transports.kafka.batches import rehearse

    rehearse()


TRANSPORT = Transport(
    scheme="kafka",
    form="kafka://HOST:PORT[,HOST:PORT]",
    about="Apache Kafka 3.3 or newer",
    pattern=rf"//{_SERVER}(,{_SERVER})*",
    open=_open,
    groups=True,
    creates_topics=False,
    expires=True,
    offsets_after_commit=1,  # the marker that ends the transaction
    warm_up=_warm_up,
)
