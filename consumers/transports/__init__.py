"""Where records live, one room a device; `open_log` picks it by the URL.

sqlite:PATH             the embedded log, a file: no broker needed
kafka://HOST:PORT[,…]   Apache Kafka
memory:NAME             a log in this process, for tests and notebooks
"""

from __future__ import annotations

from collections.abc import Mapping

from consumers.base.errors import ConfigError
from consumers.config.units import without_login
from consumers.transports.protocol import Log

__all__ = ["open_log"]

_FORMS = "sqlite:PATH, kafka://HOST:PORT[,HOST:PORT…] or memory:NAME"


def open_log(url: str, *, kafka: Mapping[str, object] | None = None) -> Log:
    """Open the log a URL names; the client of the other devices is not even imported.

    Parameters
    ----------
    url
        `sqlite:PATH`, `kafka://HOST:PORT[,HOST:PORT…]` or `memory:NAME`.
    kafka
        Options for the Kafka client; the other devices have no use for them.

    Raises
    ------
    ConfigError
        The URL is none of these.
    TransportError
        The log cannot be reached or opened.

    Examples
    --------
    >>> from consumers.base.records import Outgoing, Partition
    >>> log = open_log("memory:example")
    >>> log.create_topic("flowers", 1)
    >>> log.append([Outgoing("flowers", key=b"7", value=b"{}")])
    >>> log.end_offsets([Partition("flowers", 0)])
    {Partition(topic='flowers', number=0): 1}
    """
    scheme, colon, rest = url.partition(":")
    if colon and scheme == "sqlite" and rest not in ("", ":memory:"):
        from consumers.transports.sqlite.log import SqliteLog

        return SqliteLog(rest)
    if colon and scheme == "memory" and rest:
        from consumers.transports.memory import MemoryLog

        return MemoryLog(rest)
    if scheme == "kafka" and rest.startswith("//"):
        servers = _servers(url)
        from consumers.transports.kafka.log import KafkaLog

        return KafkaLog(servers, {} if kafka is None else kafka)
    raise ConfigError(f"expected a transport as {_FORMS}, got {without_login(url)!r}")


def _servers(url: str) -> list[str]:
    """The HOST:PORT parts of a Kafka URL."""
    servers = url.removeprefix("kafka://").rstrip("/").split(",")
    for server in servers:
        if "@" in server:  # the client would take it for a host's name, and say it aloud
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
