"""The options of the Kafka client that a user may set, and the settings of each client.

An option on which exactly once depends is refused by its name. Names and types are checked here,
before the client gets them, because its errors repeat values, and a value may be a password. An
option that would send a password unencrypted, or to an unverified host, needs `insecure = true`.

kafka-python 3.0.12 leaves two sockets to the collector: that of a connection which is not made in
the end, and that of a connection which still had bytes to send. They are closed here.
"""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaTCPTransport

from consumers.base.errors import ConfigError
from consumers.transports.kafka.codecs import CODECS, lacking

__all__ = [
    "KafkaOptions",
    "close_abandoned_sockets",
]


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


close_abandoned_sockets()  # every client of this process has its settings from here

_EVERY_CLIENT: dict[str, type] = {
    "client_id": str,
    "security_protocol": str,
    "ssl_check_hostname": bool,
    "ssl_cafile": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_crlfile": str,
    "sasl_mechanism": str,
    "sasl_plain_username": str,
    "sasl_plain_password": str,
    "sasl_kerberos_name": str,
    "sasl_kerberos_service_name": str,
    "sasl_kerberos_domain_name": str,
    "proxy_url": str,
    "client_dns_lookup": str,
    "bootstrap_timeout_ms": int,
    "request_timeout_ms": int,
    "retry_backoff_ms": int,
    "reconnect_backoff_ms": int,
    "reconnect_backoff_max_ms": int,
    "connections_max_idle_ms": int,
    "metadata_max_age_ms": int,
    "receive_buffer_bytes": int,
    "send_buffer_bytes": int,
}
_CONSUMER: dict[str, type] = {
    "client_rack": str,
    "fetch_max_wait_ms": int,
    "fetch_min_bytes": int,
    "fetch_max_bytes": int,
    "max_partition_fetch_bytes": int,
}
_PRODUCER: dict[str, type] = {
    "transaction_timeout_ms": int,
    "delivery_timeout_ms": int,
    "max_block_ms": int,
    "linger_ms": int,
    "batch_size": int,
    "compression_type": str,
    "max_request_size": int,
}
_MAY_BE_ZERO = frozenset(
    ["fetch_min_bytes", "linger_ms", "reconnect_backoff_ms", "retry_backoff_ms"]
)
# Options of headwater, which are not passed to a client.
_OURS: dict[str, type] = {"replication_factor": int, "retention_ms": int, "insecure": bool}
_ALL = _EVERY_CLIENT | _CONSUMER | _PRODUCER | _OURS

# A change of any of these silently loses or doubles records, or removes a time limit.
_FIXED = frozenset(
    [
        "acks",
        "allow_auto_create_topics",
        "auto_commit_interval_ms",
        "auto_offset_reset",
        "check_crcs",
        "consumer_timeout_ms",
        "default_offset_commit_callback",
        "enable_auto_commit",
        "enable_idempotence",
        "group_id",
        "group_instance_id",
        "heartbeat_interval_ms",
        "isolation_level",
        "key_deserializer",
        "key_serializer",
        "max_in_flight_requests_per_connection",
        "max_poll_interval_ms",
        "max_poll_records",
        "partition_assignment_strategy",
        "partitioner",
        "retries",
        "session_timeout_ms",
        "transactional_id",
        "value_deserializer",
        "value_serializer",
    ]
)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")  # others need Python objects

_DEFAULTS: dict[str, Any] = {
    "client_id": "headwater",
    "bootstrap_timeout_ms": 5_000,  # a wrong address is reported soon
    "request_timeout_ms": 10_000,
    "retry_backoff_ms": 20,  # the client sleeps this long on its I/O thread, also between commits
    # Per answer of a broker. Three may be in memory: one raw, one as records, one being received.
    "fetch_max_bytes": 16 * 2**20,
    # Less than the transaction's timeout, so that a record which cannot be delivered fails first.
    "delivery_timeout_ms": 20_000,
    "transaction_timeout_ms": 30_000,  # maximum time for which a killed owner delays readers
    "max_block_ms": 20_000,
    "linger_ms": 5,
    "batch_size": 256 * 1024,  # a commit of 2,000 predictions in one or two requests
    # No compression: predictions are small, and compression costs more than it saves.
    "compression_type": None,
    "max_request_size": 8 * 2**20,
    "replication_factor": -1,  # the broker's default
    # Created topics keep everything. A journal must not lose records, and the records of a data
    # set are years old by their timestamps, so a retention of a week would delete them at once.
    "retention_ms": -1,
}


SESSION_MS = 6_000  # a member that is silent for longer is dead: the minimum a broker allows
# A member hears of a rebalance by its heartbeats. Nobody runs a shard that moves meanwhile.
HEARTBEAT_MS = 400


class KafkaOptions:
    """The settings of each client, from the section [kafka] of a configuration.

    Raises
    ------
    ConfigError
        An option is unknown, fixed, or of the wrong kind.

    Examples
    --------
    >>> options = KafkaOptions(["127.0.0.1:9092"], {"linger_ms": 10})
    >>> options["linger_ms"], options["replication_factor"]
    (10, -1)
    >>> options.consumer()["isolation_level"]
    'read_committed'
    >>> KafkaOptions(["127.0.0.1:9092"], {"acks": 1})
    Traceback (most recent call last):
    ...
    consumers.base.errors.ConfigError: [kafka] acks is fixed, exactly once depends on it; remove it
    """

    def __init__(self, servers: Sequence[str], options: Mapping[str, object]) -> None:
        for name, value in options.items():
            _check(name, value)
        protocol = _check_protocol(options)
        if protocol.startswith("SASL_"):
            _check_credentials(options)
        if protocol.endswith("SSL"):
            _check_certificates(options)
        _check_timeouts(options)
        _check_compression(options.get("compression_type"))
        self.servers = list(servers)
        self._given: dict[str, Any] = dict(options)

    def __getitem__(self, name: str) -> Any:
        """The given option, or its default."""
        return self._given.get(name, _DEFAULTS.get(name))

    def _of(self, names: Mapping[str, type]) -> dict[str, Any]:
        chosen = _DEFAULTS | self._given
        return {name: chosen[name] for name in names if name in chosen}

    def admin(self) -> dict[str, Any]:
        """The settings of a client that manages topics."""
        return {"bootstrap_servers": self.servers, **self._of(_EVERY_CLIENT)}

    def consumer(self) -> dict[str, Any]:
        """The settings of every consumer. Partitions are assigned to it, and positions set."""
        return {
            **self.admin(),
            **self._of(_CONSUMER),
            "metrics_enabled": False,  # nobody reads the client's own metrics, and they cost time
            "isolation_level": "read_committed",  # the default shows records of aborted commits
            "enable_auto_commit": False,  # positions are committed with the outputs, or not at all
            "auto_offset_reset": "none",  # a lost position must raise an error, not jump
            # No deserializers: after one raises, the client's poll never returns again.
        }

    def member(self, group: str) -> dict[str, Any]:
        """The settings of a member of a group that reads nothing."""
        return {
            **self.consumer(),
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "auto_offset_reset": "latest",  # it has no position, and needs none
        }

    def producer(self, transactional_id: str | None) -> dict[str, Any]:
        """The settings of a producer: idempotent, acks from all, transactional with an id."""
        return {
            **self.admin(),
            **self._of(_PRODUCER),
            "metrics_enabled": False,
            "acks": "all",
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "transactional_id": transactional_id,
        }

    def seconds(self, name: str) -> float:
        """An option in ms as seconds."""
        return float(self[name]) / 1000


def _check(name: str, value: object) -> None:
    if name in _FIXED:
        raise ConfigError(f"[kafka] {name} is fixed, exactly once depends on it; remove it")
    if name == "bootstrap_servers":
        raise ConfigError("[kafka] bootstrap_servers is written as [input] transport; move it")
    if name not in _ALL:
        near = get_close_matches(name, _ALL, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "remove it"
        raise ConfigError(f"[kafka] expected an option that may be set, got {name!r}; {hint}")
    expected = _ALL[name]
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        kind = {int: "a whole number", str: "text", bool: "true or false"}[expected]
        came = "text" if isinstance(value, str) else f"a {type(value).__name__}"
        raise ConfigError(f"[kafka] {name}: expected {kind}, got {came}; correct it")
    least = 0 if name in _MAY_BE_ZERO else 1
    if isinstance(value, int) and expected is int and name not in _OURS and value < least:
        raise ConfigError(f"[kafka] {name}: expected {least} or more, got {value}; correct it")


def _among(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(
            f"[kafka] {name}: expected one of {', '.join(known)}, got {value!r}; correct it"
        )


def _check_protocol(options: Mapping[str, object]) -> str:
    """The protocol. No option for TLS or SASL may be silently ignored by it."""
    protocol = str(options.get("security_protocol", "PLAINTEXT"))
    _among("security_protocol", options.get("security_protocol", protocol), _PROTOCOLS)
    for prefix, what, used in (
        ("sasl_", "SASL", protocol.startswith("SASL_")),
        ("ssl_", "TLS", protocol.endswith("SSL")),
    ):
        unused = [name for name in options if name.startswith(prefix)]
        if unused and not used:
            raise ConfigError(
                f"[kafka] {unused[0]} is for {what}, but security_protocol is {protocol}; set "
                f'security_protocol = "{"SASL_SSL" if what == "SASL" else "SSL"}", or remove it'
            )
    if options.get("insecure") is not True:
        if protocol == "SASL_PLAINTEXT":
            raise ConfigError(
                "[kafka] security_protocol SASL_PLAINTEXT logs in without encryption: an "
                "eavesdropper can read the records and try passwords; set SASL_SSL, or insecure = "
                "true"
            )
        if options.get("ssl_check_hostname") is False:
            raise ConfigError(
                "[kafka] ssl_check_hostname = false lets any host with a certificate of the "
                "authority pass for the broker; remove it, or set insecure = true"
            )
    return protocol


def _check_credentials(options: Mapping[str, object]) -> None:
    """Errors that the client would report only in its log, or not at all."""
    mechanism = options.get("sasl_mechanism")
    if mechanism is None:
        raise ConfigError(
            "[kafka] security_protocol needs SASL, but sasl_mechanism is missing; add it, such as "
            'sasl_mechanism = "SCRAM-SHA-512"'
        )
    _among("sasl_mechanism", mechanism, _MECHANISMS)
    if mechanism != "GSSAPI":
        for name in ("sasl_plain_username", "sasl_plain_password"):
            if not options.get(name):
                raise ConfigError(f"[kafka] sasl_mechanism {mechanism} needs {name}; add it")


def _check_certificates(options: Mapping[str, object]) -> None:
    """Check that the files for TLS exist and have the right content."""

    def path(name: str) -> str:
        return str(options[name])

    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    loads: dict[str, Callable[[], object]] = {
        "ssl_cafile": lambda: trusted.load_verify_locations(path("ssl_cafile")),
        "ssl_crlfile": lambda: trusted.load_verify_locations(path("ssl_crlfile")),
        "ssl_keyfile": lambda: Path(path("ssl_keyfile")).open("rb").close(),
        # Always with a password, even an empty one: otherwise OpenSSL would prompt for it.
        "ssl_certfile": lambda: trusted.load_cert_chain(
            path("ssl_certfile"),
            path("ssl_keyfile") if "ssl_keyfile" in options else None,
            str(options.get("ssl_password", "")),
        ),
    }
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        raise ConfigError("[kafka] ssl_keyfile is given, but ssl_certfile is missing; add it")
    for name, load in loads.items():
        if name not in options:
            continue
        try:
            load()
        except ssl.SSLError as error:
            expected = "certificates in PEM"
            if name == "ssl_certfile":
                expected = "a certificate in PEM with its key, opened by ssl_password"
            raise ConfigError(
                f"[kafka] {name}: expected {expected}, but OpenSSL found none "
                f"({error.reason or 'no reason is known'}); correct it"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"[kafka] {name} cannot be read ({error.strerror}); correct it"
            ) from None


# Sum of options, comparison, other option, and reason. The client itself requires the last two.
_TIMEOUT_RULES = (
    (
        ("delivery_timeout_ms",),
        "less than",
        "transaction_timeout_ms",
        "a record that cannot be delivered must fail before the broker aborts its transaction",
    ),
    (
        ("linger_ms", "request_timeout_ms"),
        "at most",
        "delivery_timeout_ms",
        "a record is sent at least once within it",
    ),
    (
        ("fetch_max_wait_ms",),
        "less than",
        "request_timeout_ms",
        "the broker answers an empty fetch only then",
    ),
    (
        ("request_timeout_ms",),
        "less than",
        "connections_max_idle_ms",
        "a connection that waits for an answer is not idle",
    ),
)


def _check_timeouts(options: Mapping[str, object]) -> None:
    """Check how the effective timeouts compare, given or by default."""
    clients: dict[str, Any] = KafkaConsumer.DEFAULT_CONFIG | KafkaProducer.DEFAULT_CONFIG
    effective = clients | _DEFAULTS | dict(options)
    for summed, relation, other, why in _TIMEOUT_RULES:
        limit, came = effective[other], sum(effective[name] for name in summed)
        if came < limit or (came == limit and relation == "at most"):
            continue
        shown = " + ".join(summed)
        unset = [f"{name} {effective[name]}" for name in (*summed, other) if name not in options]
        defaults = f" (by default {', '.join(unset)})" if unset else ""
        raise ConfigError(
            f"[kafka] {shown}: expected {relation} {other} ({limit}), got {came}{defaults}: {why}; "
            f"lower {summed[-1]} or raise {other}"
        )


def _check_compression(codec: object) -> None:
    """Check that the codec is available. The client would notice only when it is created."""
    if codec is None:
        return
    _among("compression_type", codec, CODECS)
    package = lacking().get(str(codec))
    if package is not None:
        raise ConfigError(
            f"[kafka] compression_type {codec}: its library is not installed; pip install {package}"
        )
