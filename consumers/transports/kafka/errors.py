"""What the Kafka client raises, as one line a user can act on; and calls that may hang, bounded."""

from __future__ import annotations

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
    ConfigError,
    FencedError,
    HeadwaterError,
    RecordTooLargeError,
    TransportError,
    UnreadableCodecError,
)
from consumers.transports.kafka.codecs import UnpackedSizeError, remedy

__all__ = ["CONNECT", "explain", "explained", "hear_client", "within"]

CONNECT = "connect"  # what is being done while a client is made

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


class _Memory(logging.Handler):
    """The last complaints of the client: why a connection failed it tells only its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.complaints: deque[str] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        self.complaints.append(record.getMessage())


_memory = _Memory()


def hear_client() -> None:
    """Keep the client's log off the terminal, and its secrets out of any log.

    It complains of each lost connection, and at DEBUG it prints passwords, keys and values. Where
    the root logger is at DEBUG, its complaints are passed on.
    """
    logger = logging.getLogger("kafka")
    logger.setLevel(max(logger.level, logging.INFO))
    logger.propagate = logging.getLogger().isEnabledFor(logging.DEBUG)
    if _memory not in logger.handlers:
        logger.addHandler(_memory)
    _memory.complaints.clear()


@contextmanager
def explained(servers: Sequence[str], doing: str) -> Iterator[None]:
    """Turn what the client raises inside into one of our errors; `doing`: "read topic 'x'"."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        raise explain(error, servers, doing) from error


def explain(error: BaseException, servers: Sequence[str], doing: str) -> HeadwaterError:
    """Our error for one of the client's, in one line."""
    for inner in error.args:  # the client wraps what a request met earlier
        if isinstance(inner, errors.KafkaError):
            return explain(inner, servers, doing)
    where = ",".join(servers)
    told = " ".join(str(error).split())
    if isinstance(error, _FENCED):
        return FencedError(
            f"expected to own the shard, Kafka at {where} has fenced this owner: another one has "
            "taken over, or a commit outlasted transaction_timeout_ms; nothing was written, stop "
            "or restart this one"
        )
    if isinstance(error, errors.KafkaTimeoutError) and "bootstrap" in told:
        return _unreachable(where)
    if isinstance(error, _REFUSED):
        return _credentials(where, told)
    if isinstance(error, errors.AuthorizationError):
        return TransportError(
            f"expected the right to {doing} at Kafka {where}, it was denied ({told}); ask for the "
            "ACL or correct [kafka]"
        )
    if isinstance(error, errors.OffsetOutOfRangeError):
        return TransportError(
            f"expected to {doing} at Kafka {where}, its offsets are no longer kept ({told}): "
            "retention removed them or the topic was made anew; raise its retention.ms"
        )
    if isinstance(error, errors.CorruptRecordError):
        return TransportError(f"could not {doing} at Kafka {where}: damaged on the broker ({told})")
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return RecordTooLargeError(
            f"could not {doing} at Kafka {where}: a record, or a batch of them, is larger than the "
            "topic takes; raise its max.message.bytes, or lower batch_size in [kafka]"
        )
    if isinstance(error, errors.UnsupportedVersionError):
        return TransportError(f"could not {doing}: Kafka at {where} is too old, 3.3 is needed")
    if isinstance(error, errors.InvalidTimestampError):
        return TransportError(
            f"could not {doing} at Kafka {where}: a timestamp is further from the broker's clock "
            "than an output topic takes; compare the clocks, and raise the topic's "
            "message.timestamp.before.max.ms or message.timestamp.after.max.ms"
        )
    if isinstance(error, UnpackedSizeError):
        return UnreadableCodecError(
            f"could not {doing} at Kafka {where}: {told}; raise fetch_max_bytes in [kafka], an "
            "eighth of that, then restart"
        )
    if isinstance(error, errors.UnsupportedCodecError):
        return UnreadableCodecError(f"could not {doing} at Kafka {where}: {remedy(told)}")
    if isinstance(error, errors.KafkaConfigurationError):
        return ConfigError(f"[kafka] {told}; correct it")
    if doing == CONNECT and isinstance(error, OSError | ValueError | RuntimeError):
        # A certificate that cannot be read, a mechanism whose library is not there.
        return ConfigError(f"[kafka] the client cannot be set up ({told}); correct it")
    if isinstance(error, errors.RetriableError):
        return TransportError(
            f"could not {doing}: Kafka at {where} did not answer in time "
            f"({type(error).__name__}: {told}); see whether it is up, then start again"
        )
    kind = type(error).__name__
    return TransportError(
        f"could not {doing} at Kafka {where}: {told if kind in told else f'{kind}: {told}'}"
    )


def _unreachable(where: str) -> HeadwaterError:
    """Nobody there, or somebody who would not have us: the client's log knows which."""
    complaints = [" ".join(complaint.split()) for complaint in reversed(_memory.complaints)]
    for complaint in complaints:
        told = re.sub(r"^Bootstrap connection to \S+ failed: | \(backoff .*\)$", "", complaint)
        if "Authentication" in complaint or "Sasl" in complaint:
            return _credentials(where, told)
        if "Handshake failed" in complaint or ssl.SSLError.__name__ in complaint:
            return _handshake(where, told)
    for complaint in complaints:
        if "socket disconnected" in complaint and (found := _hung_up(complaint)):
            return TransportError(f"Kafka at {where} ended the connection {found}")
    return TransportError(
        f"no Kafka broker at {where}; start one or correct [input] transport "
        "(and security_protocol in [kafka], if it wants TLS or SASL)"
    )


def _credentials(where: str, told: str) -> HeadwaterError:
    if errors.IllegalSaslStateError.__name__ in told:
        return TransportError(
            f"expected a login (SASL) with Kafka at {where}, it has none at this port; correct "
            "security_protocol in [kafka] or the port in [input] transport"
        )
    return TransportError(
        f"Kafka at {where} refused the credentials ({told}); correct sasl_* in [kafka]"
    )


def _handshake(where: str, told: str) -> HeadwaterError:
    """Why there was no TLS, and the one thing to look at."""
    found = re.search(r"\[SSL: \w+\] (.*?)(?: \(_ssl\.c:\d+\))?\)*$", told)
    told = found[1] if found else told
    if "mismatch" in told:
        todo = "write [input] transport with a host name that its certificate holds"
    elif "certificate verify failed" in told:
        todo = "set ssl_cafile in [kafka] to the certificate of the broker's authority"
    elif "EOF" in told or "wrong version" in told or "record layer" in told:
        todo = "it may not speak TLS at this port: correct security_protocol in [kafka] or the port"
    else:
        todo = "correct security_protocol and ssl_* in [kafka]"
    return TransportError(
        f"expected TLS with Kafka at {where}, its handshake failed ({told}); {todo}"
    )


def _hung_up(complaint: str) -> str | None:
    """What the moment tells at which a broker hung up without a word.

    A broker answers a wrong password and hangs up; the client often reads both at once, and then
    drops the answer.
    """
    if complaint.startswith("Bootstrap attempt"):
        return "at the first request: it may want a login; set security_protocol and sasl_*"
    if "Connection lost" not in complaint:
        return None
    if "broker_version=unknown" in complaint:
        return "at once: it may want TLS; set security_protocol and ssl_cafile in [kafka]"
    return "during the login: it may have refused the credentials; correct sasl_* in [kafka]"


def within(seconds: float, what: str, call: Callable[[], Any]) -> Any:
    """The call's result; TransportError when it takes longer, and it is left behind.

    For calls of the client that wait without a limit: they retry for ever on a topic that is
    gone or a coordinator that does not answer.
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
        raise TransportError(
            f"expected Kafka to {what} within {seconds:g} s, it did not: whether it was done is "
            "unknown; see whether the broker is up, then start again"
        ) from None
    if error is not None:
        raise error
    return result
