"""The schema registry over HTTP, by the client of confluent-kafka.

Rule: an id is unknown only if the registry says so itself, by its own error code. Anything else (no
answer, a proxy's 404, a refused login) says nothing about the id: it is a RegistryError, and the
caller asks again. So an outage never makes a dead letter. A schema is whatever somebody could
register: one that cannot be used is stored with the reason, and never an exception.

The HTTP client has a timeout for each read, and reads an answer until it ends. A registry that
sends a byte a second, or never ends, would hold a call forever. So each read of its connections is
counted here, and a request is bounded in seconds and bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from consumers.base.errors import ConfigError, RecordError, RegistryError
from consumers.base.secrets import masked
from consumers.base.units import duration_ms, shown_url
from consumers.codecs.format import WireFormat, shortened
from consumers.codecs.schemas import LARGEST_SCHEMA, StoredSchema

if TYPE_CHECKING:
    from consumers.config.serve import RegistryConfig

__all__ = [
    "RequestBound",
    "SchemaRegistry",
    "bound",
    "subject_of",
]


class LongAnswerError(Exception):
    """An answer has more bytes than are read."""


class RequestBound(threading.local):
    """What the request of this thread may still take.

    Parameters
    ----------
    seconds
        Of a request.
    most
        Bytes of an answer, with its headers.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self.begin()

    def begin(self) -> None:
        """A request begins."""
        self._until, self._left = time.monotonic() + self._seconds, self._most
        self.json = False

    def answered(self, response: Any) -> None:
        """An answer begins. `json`: it is one as registries give it."""
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise ValueError(f"expected an answer without compression, got {coding[:50]!r}")
        kind = response.headers.get("content-type", "")
        self.json = response.status_code == 200 and "json" in kind

    def timeout(self, asked: float | None) -> float:
        """The timeout of the next read or write."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"it took more than {self._seconds:g} s")
        return left if asked is None else min(asked, left)

    def take(self, count: int) -> None:
        """This many bytes were read."""
        self._left -= count
        if self._left < 0:
            raise LongAnswerError(f"its answer has more than {self._most:,} bytes")


def bound(session: Any, limit: RequestBound) -> None:
    """Bound all requests of a client of httpx, whose name depends on its version.

    Answers are not compressed, because a bound of their bytes would not bound what they unpack to.
    """
    session.headers["accept-encoding"] = "identity"
    session.event_hooks["response"].append(limit.answered)
    for transport in (session._transport, *session._mounts.values()):
        if transport is not None:
            pool = transport._pool
            pool._network_backend = _Network(pool._network_backend, limit)


class _Network:
    """Opens connections, as `httpcore` asks for them."""

    def __init__(self, network: Any, limit: RequestBound) -> None:
        self._network, self._limit = network, limit

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *rest: Any, **named: Any
    ) -> _Stream:
        timeout = self._limit.timeout(timeout)
        opened = self._network.connect_tcp(host, port, timeout, *rest, **named)
        return _Stream(opened, self._limit)


class _Stream:
    """A connection, as `httpcore` uses it."""

    def __init__(self, stream: Any, limit: RequestBound) -> None:
        self._stream, self._limit = stream, limit

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        found: bytes = self._stream.read(max_bytes, self._limit.timeout(timeout))
        self._limit.take(len(found))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._limit.timeout(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _Stream:
        timeout = self._limit.timeout(timeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._limit)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


MOST_REFERENCES = 100  # of one schema, with those of its references
LARGEST_ANSWER = 8 * LARGEST_SCHEMA  # bytes: in JSON a character may be `\\ud83d\\ude00`
LONGEST_NAME = 500  # characters of a subject, of the name of a reference and of a type
MOST_SHOWN = 1000  # characters of the reason why a schema cannot be used
_UNKNOWN = (40400, 40401, 40402, 40403)  # schema, subject, version; 40400 is that of mock://
_INCOMPATIBLE = 409

T = TypeVar("T")

_mocks: dict[str, Any] = {}  # URL to client, so that one program sees one registry
_lock = threading.Lock()


def subject_of(topic: str) -> str:
    """The subject of a topic's values, by Confluent's default strategy.

    Examples
    --------
    >>> subject_of("payments")
    'payments-value'
    """
    return f"{topic}-value"


class SchemaRegistry:
    """Asks the registry. Usable from several threads.

    Parameters
    ----------
    wire
        The format, which decides the type of schemas.
    settings
        The section [registry].

    Examples
    --------
    >>> from consumers.codecs.registry import wire_format
    >>> from consumers.config.serve import RegistryConfig
    >>> registry = SchemaRegistry(wire_format("avro"), RegistryConfig(url="mock://example"))
    >>> id_ = registry.register("visits-value", '"string"')
    >>> registry.schema(id_).text, registry.schema(id_ + 1)
    ('"string"', None)
    """

    def __init__(self, wire: WireFormat, settings: RegistryConfig) -> None:
        self._wire, self._settings = wire, settings
        self._url = shown_url(settings.url or "")
        self._bound = RequestBound(duration_ms(settings.timeout) / 1000, LARGEST_ANSWER)
        self._client = _client(settings, self._bound)

    def schema(self, id_: int) -> StoredSchema | None:
        """The schema with this id, with all that it refers to; None if the registry has none.

        A schema that cannot be used says why in `error`.

        Raises
        ------
        RegistryError
            The registry did not answer, or refused the request.
        """
        try:
            found = self._asked(lambda: self._client.get_schema(id_))
        except RecordError as error:
            return StoredSchema(self._wire.schema_type, "", (), error.detail)
        finally:
            self._client.clear_caches()  # which have no bound, and the journal keeps the schema
        return None if found is None else self._stored(found)

    def latest(self, subject: str) -> tuple[int, StoredSchema] | None:
        """Id and schema of the newest version of a subject; None if it has none."""
        found = self._asked(lambda: self._client.get_latest_version(subject))
        return None if found is None else (self._id(found.schema_id), self._stored(found.schema))

    def latest_id(self, subject: str) -> int | None:
        """The id of the newest version of a subject; None if it has none."""
        found = self._asked(lambda: self._client.get_latest_version(subject))
        return None if found is None else self._id(found.schema_id)

    def register(self, subject: str, text: str) -> int:
        """Register a schema under a subject; its id. Nothing changes if it is registered already.

        Raises
        ------
        ConfigError
            The subject's compatibility rule refuses it.
        RegistryError
            The registry did not answer, or refused the request.
        """
        from confluent_kafka.schema_registry import Schema

        schema = Schema(text, self._wire.schema_type)
        found = self._asked(lambda: self._client.register_schema(subject, schema), subject)
        if found is None:
            raise RegistryError(f"the schema registry {self._url} has no subject {subject}")
        return self._id(found)

    def predictions_schema(self, topic: str) -> int:
        """The id of the schema of predictions, registered for their topic; 0 for a format without.

        Raises
        ------
        ConfigError
            It is not registered, and `[registry] auto_register` is off.
        RegistryError
            The registry did not answer, or refused the request.
        """
        from confluent_kafka.schema_registry import Schema

        if self._wire.predictions is None:
            return 0
        text, _ = self._wire.predictions()
        subject = subject_of(topic)
        if self._settings.auto_register:
            return self.register(subject, text)
        schema = Schema(text, self._wire.schema_type)
        found = self._asked(lambda: self._client.lookup_schema(subject, schema))
        if found is None:
            raise ConfigError(
                f"expected the schema of predictions under the subject {subject}, but it is not "
                "registered and [registry] auto_register is false; register this text: "
                f"{' '.join(text.split())}"
            )
        return self._id(found.schema_id)

    def _id(self, found: object) -> int:
        if not isinstance(found, int) or isinstance(found, bool):
            raise self._nonsense(f"expected the id of a schema, got {found!r}")
        return found

    def _text(self, found: object) -> str:
        if not isinstance(found, str):
            raise self._nonsense(f"expected a schema as text, got {found!r}")
        return found

    def _nonsense(self, why: str) -> RegistryError:
        """Not a fault of the record, which waits for a right answer."""
        return RegistryError(
            f"{self._url} does not answer as a schema registry does: {masked(why[:300])}; "
            "check [registry] url"
        )

    def _stored(self, schema: Any) -> StoredSchema:
        kind = self._text(schema.schema_type or "AVRO")
        text = self._text(schema.schema_str or "")
        try:
            _check_text("its type", kind, LONGEST_NAME)
            stored = StoredSchema(kind, text, tuple(self._references(schema).items()))
            _check(stored)
            if kind == self._wire.schema_type:
                stored = self._wire.compiled(stored)
                _check(stored)
        except RecordError as error:
            return StoredSchema(_shown(kind), "", (), _shown(error.detail))
        return stored

    def _references(self, schema: Any) -> dict[str, str]:
        """Name to text of all schemas that it refers to, each after those that it needs."""
        found: dict[str, str] = {}
        opened: set[str] = set()
        size = 0

        def add(references: Any) -> None:
            nonlocal size
            for each in references or ():
                _check_reference(each)
                if each.name in opened:
                    continue
                opened.add(each.name)
                if len(opened) > MOST_REFERENCES:
                    raise _unusable(f"it refers to more than {MOST_REFERENCES} schemas")
                get = partial(self._client.get_version, each.subject, each.version)
                other: Any = self._asked(get)
                if other is None:
                    raise _unusable(
                        f"it refers to version {each.version} of {each.subject}, which the "
                        "registry does not have"
                    )
                add(other.schema.references)
                text = found[each.name] = self._text(other.schema.schema_str or "")
                size += len(text)
                _check_characters(size)

        add(schema.references)
        return found

    def _asked(self, request: Callable[[], T], subject: str = "") -> T | None:
        """The answer; None if the registry has no such schema, subject or version. `subject`: that
        of a schema to register."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        self._bound.begin()
        try:
            return request()
        except SchemaRegistryError as error:
            if error.http_status_code == 404 and error.error_code in _UNKNOWN:
                return None
            why = masked(shortened(error))
            if subject and error.http_status_code == _INCOMPATIBLE:
                raise ConfigError(
                    f"the schema registry {self._url} refuses the schema for {subject} as "
                    f"incompatible with an earlier version: {why}; change the compatibility of "
                    "the subject, or use another topic"
                ) from None
            raise RegistryError(
                f"the schema registry {self._url} refused a request: {why}"
            ) from None
        except LongAnswerError as error:
            if self._bound.json:  # as a registry answers: this schema has so much
                raise _unusable(f"{error}") from None
            raise self._nonsense(f"{error}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # what it answers
            raise self._nonsense(f"{type(error).__name__}: {shortened(error)}") from None
        except Exception as error:  # of its HTTP client
            why = masked(f"{type(error).__name__}: {shortened(error)}")
            raise RegistryError(f"the schema registry {self._url} does not answer: {why}") from None


def _unusable(why: str) -> RecordError:
    return RecordError("unusable_schema", why)


def _shown(text: str) -> str:
    """The beginning of a text that may be anything, as the journal can have it."""
    return text[:MOST_SHOWN].encode("utf-8", "replace").decode()


def _check_text(what: str, text: object, most: int) -> None:
    """RecordError if it is no text, too long, or has half a character."""
    if not isinstance(text, str):
        raise _unusable(f"expected {what} as text, got {type(text).__name__}")
    if len(text) > most:
        raise _unusable(f"{what} has {len(text):,} characters, at most {most:,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _unusable(f"{what} has a lone surrogate at character {error.start:,}") from None


def _check_reference(reference: Any) -> None:
    _check_text("the name of a reference", reference.name, LONGEST_NAME)
    _check_text("the subject of a reference", reference.subject, LONGEST_NAME)
    version = reference.version
    if not isinstance(version, int) or not 0 < version < 2**31:
        raise _unusable(f"expected the version of a reference, got {str(version)[:50]!r}")


def _check(schema: StoredSchema) -> None:
    """RecordError if a journal record cannot have the schema."""
    _check_characters(schema.nbytes)
    for what, text in (("it", schema.text), *((repr(n), t) for n, t in schema.references)):
        _check_text(what, text, LARGEST_SCHEMA)
    if (size := len(msgspec.json.encode(schema))) > 2 * LARGEST_SCHEMA:
        raise _unusable(f"it has {size:,} bytes in JSON, at most {2 * LARGEST_SCHEMA:,}")


def _check_characters(size: int) -> None:
    if size > LARGEST_SCHEMA:
        raise _unusable(
            f"it has {size:,} characters with its references, at most {LARGEST_SCHEMA:,}"
        )


def _client(settings: RegistryConfig, limit: RequestBound) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    url = settings.url or ""
    if url.startswith("mock://"):
        with _lock:
            if url not in _mocks:
                _mocks[url] = SchemaRegistryClient.new_client({"url": url})
            return _mocks[url]
    options: dict[str, Any] = {
        "url": url,
        "timeout": duration_ms(settings.timeout) / 1000,
        "max.retries": 0,  # the caller asks again, and can be stopped meanwhile
        "cache.latest.ttl.sec": 1,  # by default the newest version is never asked for again
    }
    if settings.password is not None:
        options["basic.auth.user.info"] = f"{settings.username}:{settings.password}"
    if settings.token is not None:
        # The client requires a cluster, which registries other than Confluent's ignore.
        options |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": str(settings.token),
            "bearer.auth.logical.cluster": "none",
        }
    for key, path in (
        ("ssl.ca.location", settings.ca),
        ("ssl.certificate.location", settings.certificate),
        ("ssl.key.location", settings.key),
    ):
        if path is not None:
            options[key] = str(path)
    try:
        client = SchemaRegistryClient(options)
        bound(client._rest_client.session, limit)
        return client
    except (OSError, ValueError) as error:  # a file of TLS
        raise ConfigError(f"[registry]: {masked(shortened(error))}") from None
