"""Records of a topic as JSON, and JSON as records of a topic, for commands and requests.

The service itself decodes with journaled schemas. Here nothing is journaled, so the registry is
asked when a schema is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from consumers.base.errors import ConfigError, RecordError, RegistryError
from consumers.codecs.format import Document, FramedDocuments, Writer, framed, schema_id
from consumers.codecs.json_document import parse
from consumers.codecs.raw import RawDocuments, reading
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import SchemaBook, StoredSchema
from consumers.schemas.client import SchemaRegistry, subject_of

if TYPE_CHECKING:
    from consumers.config import Config

__all__ = ["NEWEST_SECONDS", "Translator"]

NEWEST_SECONDS = 60.0  # after which the registry is asked whether a topic has a newer schema

MOST_UNKNOWN = 10_000  # ids that the registry did not know
MOST_ROWS = 100_000  # of a message: the largest [commit] max_records


class _Newest(NamedTuple):
    """The newest schema of a topic: its id, its writer, and until when it is taken for that."""

    id: int
    write: Writer
    until: float


class Translator:
    """Translates records of the topics of a configuration.

    Parameters
    ----------
    config
        The configuration.
    reader_schema
        The schema to which records are converted; None: each keeps its own.
    clock
        Seconds that never go back.

    Examples
    --------
    >>> from consumers.config import parse as configured
    >>> translator = Translator(configured('''
    ... name = "visits"
    ... input = {transport = "memory:visits", observations = "visits"}
    ... '''))
    >>> translator.document(b'{"id": 7}'), translator.as_json(b'{"id": 7}')
    ({'id': 7}, b'{"id": 7}')
    """

    def __init__(
        self,
        config: Config,
        reader_schema: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        wire = self._wire = wire_format(config.input.format)
        self._registry = SchemaRegistry(wire, config.registry) if wire.schema_type else None
        self._observations, self._rows = config.input.observations, wire.rows
        self._book = SchemaBook()
        self._framed = FramedDocuments(wire, self._book, reader_schema)
        self._raw = None if wire.fields is None else RawDocuments(reading(wire, config.parser))
        self._unknown: set[int] = set()
        self._writers: dict[str, _Newest] = {}

    @property
    def translates(self) -> bool:
        """Whether some records are not JSON."""
        return not (self._registry is None and self._rows is None and self._raw is None)

    def knows(self, topic: str) -> bool:
        """Whether a record of a topic is made without a schema that the registry must be asked for.

        Once a minute one call asks whether there is a newer schema; the others do not wait for it.
        """
        return self._registry is None or topic in self._writers

    def document(self, value: bytes | None) -> Document:
        """The document of an observation; with schemas, of any record.

        Raises
        ------
        RecordError
            It cannot be decoded.
        RegistryError
            The registry does not answer.
        """
        if self._raw is not None:
            return self._raw(value)
        if self._registry is None:
            return parse(value)
        id_ = schema_id(value)
        if id_ is not None and id_ not in self._book and id_ not in self._unknown:
            schema = self._registry.schema(id_)
            if schema is not None:
                self._book.add(id_, schema)
            else:
                if len(self._unknown) >= MOST_UNKNOWN:
                    self._unknown.clear()
                self._unknown.add(id_)
        return self._wire.from_wire(self._framed(value))

    def rows(self, value: bytes) -> list[bytes] | None:
        """The rows of a message as JSON; None if it is a record without rows, or damaged."""
        if self._rows is None or not self._rows.recognizes(value):
            return None
        try:
            return list(map(msgspec.json.encode, self._rows.documents(value, MOST_ROWS)))
        except RecordError:
            return None

    def as_json(self, value: bytes) -> bytes:
        """A record as JSON, or as it is if it cannot be decoded. Rows are a list. A mail or a text
        is an observation, see `observation_as_json`."""
        rows = self.rows(value)
        if rows is not None:
            return b"[" + b",".join(rows) + b"]"
        return value if self._registry is None else self._decoded(value)

    def observation_as_json(self, value: bytes, row: int = 0) -> bytes:
        """An observation as JSON: one row of a message with rows; the record as it is if it cannot
        be decoded."""
        return self._decoded(value) if self._raw is not None else self.row_as_json(value, row)

    def _decoded(self, value: bytes) -> bytes:
        try:
            return msgspec.json.encode(self.document(value))
        except RecordError:
            return value

    def row_as_json(self, value: bytes, row: int) -> bytes:
        """One row of a message as JSON, or the whole record if it has no rows."""
        rows = self.rows(value)
        return self.as_json(value) if rows is None or row >= len(rows) else rows[row]

    @property
    def message_topic(self) -> str | None:
        """The topic whose messages have many rows; None if no topic has such messages."""
        return None if self._rows is None else self._observations

    def count(self, topic: str, value: bytes | None) -> int:
        """How many observations or labels a record of a topic has."""
        return (
            1 if self._rows is None or topic != self._observations else self._rows.measure(value)[0]
        )

    def message(self, documents: Sequence[Mapping[str, Any]]) -> bytes:
        """One message of documents, for `message_topic`.

        Raises
        ------
        ValueError
            The documents do not fit into one message.
        """
        assert self._rows is not None  # noqa: S101  there is such a topic
        return self._rows.message(documents)

    def record(self, topic: str, document: Mapping[str, Any]) -> bytes:
        """A document as a record of a topic, by the newest schema that is registered for it.

        Raises
        ------
        ConfigError
            No schema is registered, or it cannot be used.
        ValueError
            The document does not fit the schema.
        """
        if self._raw is not None and topic == self._observations:
            return self._wire.writer(StoredSchema("", ""))(document)
        if self._registry is None:
            if topic == self.message_topic:
                return self.message([document])
            return msgspec.json.encode(document)
        newest = self._writers.get(topic)
        if newest is None or self._clock() >= newest.until:
            if newest is not None:  # other threads use it meanwhile, because a registry may be slow
                self._writers[topic] = newest._replace(until=self._clock() + NEWEST_SECONDS)
            newest = self._writers[topic] = self._renewed(topic, newest)
        return framed(newest.id, newest.write(document))

    def records(self, topic: str, values: Iterable[bytes]) -> list[bytes]:
        """JSON objects as records of a topic. See `record`."""
        if not self.translates or (self._registry is None and topic != self._observations):
            return list(values)
        return [self.record(topic, parse(value)) for value in values]

    def newest(self, topic: str) -> tuple[int, StoredSchema] | None:
        """Id and text of the newest schema of a topic; None if it has none."""
        return None if self._registry is None else self._registry.latest(subject_of(topic))

    def register(self, topic: str, text: str) -> int:
        """Register a schema for the records of a topic; its id. It is the newest one then.

        Raises
        ------
        ConfigError
            The format has no schemas, or this one cannot be used or is incompatible.
        """
        if self._registry is None:
            raise ConfigError(
                "--register needs [input] format avro, protobuf or json_schema, and [registry]"
            )
        try:
            self._wire.writer(self._wire.compiled(StoredSchema(str(self._wire.schema_type), text)))
        except (RecordError, ValueError) as error:
            raise ConfigError(f"the schema for {topic} cannot be used: {error}") from None
        self._writers.pop(topic, None)
        return self._registry.register(subject_of(topic), text)

    def _renewed(self, topic: str, held: _Newest | None) -> _Newest:
        """The newest schema of a topic. If the registry does not answer, the one before is kept."""
        assert self._registry is not None  # noqa: S101  the format has schemas
        until = self._clock() + NEWEST_SECONDS
        try:
            if held is not None and self._registry.latest_id(subject_of(topic)) == held.id:
                return held._replace(until=until)
            return _Newest(*self._writer(topic), until)
        except RegistryError:
            if held is None:
                raise
            return held._replace(until=until)

    def _writer(self, topic: str) -> tuple[int, Writer]:
        subject = subject_of(topic)
        newest = self.newest(topic)
        if newest is None:
            raise ConfigError(
                f"expected a schema for records of {topic}, but the registry has no subject "
                f"{subject}; register one: headwater produce … --register {topic}=FILE"
            )
        id_, schema = newest
        why = schema.error
        if schema.type != self._wire.schema_type:
            why = f"it is of the type {schema.type}, not {self._wire.schema_type}"
        if not why:
            try:
                return id_, self._wire.writer(schema)
            except ValueError as error:
                why = str(error)
        raise ConfigError(f"the newest schema of {subject} cannot be used: {why}")
