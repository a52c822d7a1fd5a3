"""Errors of the Kafka client in one line with a remedy, and a time limit for its calls."""

from __future__ import annotations

import errno
import logging
import queue
import re
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import errors

from consumers.base.errors import (
    RESTART,
    ConfigError,
    FencedError,
    HeadwaterError,
    NoAnswerError,
    RecordsMissingError,
    RecordTooLargeError,
    TransportError,
    UnreadableCodecError,
)
from consumers.transports.kafka.codecs import UnpackedSizeError, remedy

__all__ = ["CONNECT", "explain", "explained", "hear_client", "within"]

CONNECT = "connect"  # the action while a client is created

_FENCED = (
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
    errors.TransactionCoordinatorFencedError,
    errors.FencedInstanceIdError,
)
_REFUSED = (
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedSaslMechanismError,
    errors.IllegalSaslStateError,
)


# What a process or host has too little of; no error of the configuration.
_LACKING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}


class _Memory(logging.Handler):
    """The last warnings of the client: it reports the cause of a failed connection only there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.complaints: deque[str] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        self.complaints.append(record.getMessage())


_memory = _Memory()


def hear_client() -> None:
    """Keep the client's log off the terminal, and its secrets out of every log.

    The client warns about each lost connection, and at DEBUG it prints passwords, keys and values.
    If the root logger is at DEBUG, its warnings are passed on.
    """
    logger = logging.getLogger("kafka")
    logger.setLevel(max(logger.level, logging.INFO))
    logger.propagate = logging.getLogger().isEnabledFor(logging.DEBUG)
    if _memory not in logger.handlers:
        logger.addHandler(_memory)
    _memory.complaints.clear()


@contextmanager
def explained(servers: Sequence[str], doing: str) -> Iterator[None]:
    """Convert the client's errors inside to ours. `doing` is the action: "read topic 'x'"."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        raise explain(error, servers, doing) from error


def explain(error: BaseException, servers: Sequence[str], doing: str) -> HeadwaterError:
    """The error of this project for an error of the client, in one line."""
    for inner in error.args:  # the client wraps earlier errors of a request
        if isinstance(inner, errors.KafkaError):
            return explain(inner, servers, doing)
    where = ",".join(servers)
    detail = " ".join(str(error).split())
    if isinstance(error, _FENCED):
        return FencedError(
            f"expected to own the shard, but Kafka at {where} has fenced this owner: another one "
            "has taken over, or a commit took longer than transaction_timeout_ms; nothing was "
            f"written; {RESTART}"
        )
    if isinstance(error, errors.KafkaTimeoutError) and "bootstrap" in detail:
        return _unreachable(where)
    if isinstance(error, _REFUSED):
        return _credentials(where, detail)
    if isinstance(error, errors.AuthorizationError):
        return TransportError(
            f"expected permission to {doing} at Kafka {where}, but it was denied ({detail}); "
            "request the ACL or correct [kafka]"
        )
    if isinstance(error, errors.OffsetOutOfRangeError):
        return RecordsMissingError(
            f"expected to {doing} at Kafka {where}, but its offsets no longer exist ({detail}): "
            "retention removed them or the topic was recreated; raise its retention.ms"
        )
    if isinstance(error, errors.CorruptRecordError):
        return TransportError(
            f"could not {doing} at Kafka {where}: damaged on the broker ({detail})"
        )
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return RecordTooLargeError(
            f"could not {doing} at Kafka {where}: a record, or a batch of records, is larger than "
            "the topic accepts; raise its max.message.bytes, or lower batch_size in [kafka]"
        )
    if isinstance(error, errors.UnsupportedVersionError):
        return TransportError(
            f"could not {doing}: Kafka at {where} is too old; version 3.3 or newer is needed"
        )
    if isinstance(error, errors.InvalidTimestampError):
        return TransportError(
            f"could not {doing} at Kafka {where}: a timestamp is further from the broker's clock "
            "than an output topic accepts; compare the clocks, and raise the topic's "
            "message.timestamp.before.max.ms or message.timestamp.after.max.ms"
        )
    if isinstance(error, UnpackedSizeError):
        return UnreadableCodecError(
            f"could not {doing} at Kafka {where}: {detail}; raise fetch_max_bytes in [kafka], of "
            "which a batch may have eight times, then restart"
        )
    if isinstance(error, errors.UnsupportedCodecError):
        return UnreadableCodecError(f"could not {doing} at Kafka {where}: {remedy(detail)}")
    if isinstance(error, errors.KafkaConfigurationError):
        return ConfigError(f"[kafka] {detail}; correct it")
    if (own := _of_this_process(error, detail, doing)) is not None:
        return own
    if isinstance(error, errors.RetriableError):
        silent = isinstance(error, errors.KafkaTimeoutError | errors.KafkaConnectionError)
        return (NoAnswerError if silent else TransportError)(
            f"could not {doing}: Kafka at {where} did not answer in time "
            f"({type(error).__name__}: {detail}); check that it runs, then start again"
        )
    kind = type(error).__name__
    return TransportError(
        f"could not {doing} at Kafka {where}: {detail if kind in detail else f'{kind}: {detail}'}"
    )


def _of_this_process(error: BaseException, detail: str, doing: str) -> HeadwaterError | None:
    """What the client could not get from this host; None for other errors."""
    lacking = isinstance(error, OSError) and error.errno in _LACKING
    if lacking or "can't start new thread" in detail:
        return TransportError(
            f"could not {doing}: this process may not have what a client of Kafka needs "
            f"({detail}); raise its limit, for files `ulimit -n`, or LimitNOFILE of systemd"
        )
    if doing == CONNECT and isinstance(error, OSError | ValueError | RuntimeError):
        # A certificate that cannot be read, or a mechanism whose library is missing.
        return ConfigError(f"[kafka] the client cannot be set up ({detail}); correct it")
    return None


def _unreachable(where: str) -> HeadwaterError:
    """No broker there, or it refused the connection. The client's log shows which."""
    complaints = [" ".join(complaint.split()) for complaint in reversed(_memory.complaints)]
    for complaint in complaints:
        detail = re.sub(r"^Bootstrap connection to \S+ failed: | \(backoff .*\)$", "", complaint)
        if "Authentication" in complaint or "Sasl" in complaint:
            return _credentials(where, detail)
        if "Handshake failed" in complaint or ssl.SSLError.__name__ in complaint:
            return _handshake(where, detail)
    for complaint in complaints:
        if "socket disconnected" in complaint and (found := _disconnected(complaint)):
            return TransportError(f"Kafka at {where} ended the connection {found}")
    return NoAnswerError(
        f"no Kafka broker at {where}; start one or correct [input] transport "
        "(and security_protocol in [kafka], if it needs TLS or SASL)"
    )


def _credentials(where: str, detail: str) -> HeadwaterError:
    if errors.IllegalSaslStateError.__name__ in detail:
        return TransportError(
            f"expected a login (SASL) with Kafka at {where}, but this port has none; correct "
            "security_protocol in [kafka] or the port in [input] transport"
        )
    return TransportError(
        f"Kafka at {where} refused the credentials ({detail}); correct sasl_* in [kafka]"
    )


def _handshake(where: str, detail: str) -> HeadwaterError:
    """Why the TLS handshake failed, and what to correct."""
    found = re.search(r"(?s)\[SSL: \w+\] (.*?)(?: \(_ssl\.c:\d+)?$", detail.rstrip(")"))
    detail = found[1] if found else detail
    if "mismatch" in detail:
        todo = "write [input] transport with a host name of its certificate"
    elif "certificate verify failed" in detail:
        todo = "set ssl_cafile in [kafka] to the certificate of the broker's authority"
    elif "EOF" in detail or "wrong version" in detail or "record layer" in detail:
        todo = "it may not speak TLS at this port: correct security_protocol in [kafka] or the port"
    else:
        todo = "correct security_protocol and ssl_* in [kafka]"
    return TransportError(
        f"expected TLS with Kafka at {where}, but its handshake failed ({detail}); {todo}"
    )


def _disconnected(complaint: str) -> str | None:
    """The probable cause, from the time at which a broker closed the connection.

    A broker answers a wrong password and then closes the connection. The client often receives
    both at once, and drops the answer.
    """
    if complaint.startswith("Bootstrap attempt"):
        return "at the first request: it may need a login; set security_protocol and sasl_*"
    if "Connection lost" not in complaint:
        return None
    if "broker_version=unknown" in complaint:
        return "at once: it may need TLS; set security_protocol and ssl_cafile in [kafka]"
    return "during the login: it may have refused the credentials; correct sasl_* in [kafka]"


def within(seconds: float, what: str, call: Callable[[], Any]) -> Any:
    """The result of the call. NoAnswerError if it takes longer, and its thread is abandoned.

    For calls of the client that wait without a limit: they retry for ever if a topic was removed
    or a coordinator does not answer.
    """
    results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((call(), None))
        except BaseException as error:
            results.put((None, error))

    threading.Thread(target=work, name=f"headwater: {what}", daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except queue.Empty:
        raise NoAnswerError(
            f"expected Kafka to {what} within {seconds:g} s, but it did not: whether it was done "
            "is unknown; check that the broker runs, then start again"
        ) from None
    if error is not None:
        raise error
    return result
