"""What a wire format is: how the bytes of a record become a document of JSON values, and back.

Rule: an entry imports a decoder when it is used, because a configuration is checked without one.

Confluent's framing: a zero byte, the id of the schema in four bytes, then the payload.

Rule: the header decides which schema a record has, and nothing else does. A record without a header
is bad, because its schema could only be guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from consumers.base.errors import RecordError
from consumers.codecs.json_document import LARGEST_RECORD, check_size
from consumers.codecs.schemas import SchemaBook, StoredSchema
from stream.data.schema import Kind

if TYPE_CHECKING:
    from consumers.codecs.json import JsonObservations
    from consumers.codecs.rows import MessageReader

__all__ = [
    "HEADER",
    "Check",
    "Document",
    "Fields",
    "FramedDocuments",
    "Reader",
    "RowFormat",
    "WireFormat",
    "Writer",
    "framed",
    "schema_id",
    "schema_ids",
]

Document = dict[str, Any]
Reader = Callable[[bytes], Document]  # raises RecordError
Check = Callable[[bytes], None]  # raises RecordError
Fields = Mapping[str, Kind]
Writer = Callable[[Mapping[str, Any]], bytes]  # raises ValueError


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format whose messages of observations have many rows. Other records are JSON.

    Parameters
    ----------
    measure
        Rows and unpacked bytes of a message, without decoding it; one row and no bytes if it cannot
        be read.
    reader
        Makes the reader of messages from the decoder of documents.
    recognizes
        Whether a value is such a message, and not JSON.
    documents
        The rows of a message as documents, at most so many. RecordError if it cannot be read.
    message
        A message of documents. ValueError if they have no common type.
    """

    measure: Callable[[bytes | None], tuple[int, int]]
    reader: Callable[[JsonObservations], MessageReader]
    recognizes: Callable[[bytes | None], bool]
    documents: Callable[[bytes | None, int], list[Document]]
    message: Callable[[Sequence[Mapping[str, Any]]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """One wire format. With `schema_type`, records are framed with the id of a schema.

    A format with `fields` is one of observations only: labels and predictions are JSON then.

    Parameters
    ----------
    name
        What `[input] format` names.
    title
        Its name in sentences.
    about
        A few words for the documentation.
    schema_type
        How a schema registry names it; "" if the records have no schema.
    modules, extra
        The modules it needs that not every installation has, and the extra that installs them.
    reader
        Makes the decoder of records that were written with a schema. The second argument is the
        reader's schema, or None. RecordError if the schema cannot be used.
    counter
        Makes the check that a payload has not too many values, without decoding it; None: each
        value has bytes of its own. RecordError if the schema cannot be used.
    writer
        Makes the encoder of documents. ValueError if the schema cannot be used.
    compiled
        Makes the stored form of a schema that the registry returned. It may start a process.
        RecordError if the schema cannot be used.
    predictions
        The schema of predictions as it is registered, and as it is stored; None without schemas.
    to_wire, from_wire
        Convert the document of a prediction to that of its schema, and back.
    content_type
        Its media type.
    check_reader
        Checks a reader's schema and returns it in a form in which equal ones are equal texts.
        ValueError if it is wrong. None: the format has no reader's schema.
    rows
        How messages with many rows are read. None: a message is one record.
    fields
        The fields of every observation, if the format decides them.
    versions
        Name to version of what decides the values of these fields. Another version is another
        model.
    identified
        The id in the bytes of a record without a key; None if its document has the id.
    expanded
        Completes a document that a request has in JSON. RecordError if it cannot.
    field
        The field of such a document that has the whole record in base64; None if it has none.
    ignoring
        Makes the format that takes some parts of a record for no evidence, by their names.
    """

    name: str
    title: str
    about: str
    schema_type: str = ""
    modules: tuple[str, ...] = ()
    extra: str = "registry"
    reader: Callable[[StoredSchema, str | None], Reader]
    counter: Callable[[StoredSchema], Check] | None = None
    writer: Callable[[StoredSchema], Writer]
    compiled: Callable[[StoredSchema], StoredSchema] = lambda schema: schema
    predictions: Callable[[], tuple[str, StoredSchema]] | None = None
    to_wire: Callable[[Document], Document] = lambda document: document
    from_wire: Callable[[Document], Document] = lambda document: document
    content_type: str = "application/json"
    check_reader: Callable[[str], str] | None = None
    rows: RowFormat | None = None
    fields: Fields | None = None
    versions: Callable[[], Mapping[str, str]] = dict
    identified: Callable[[bytes], str] | None = None
    expanded: Callable[[Document], Document] = lambda document: document
    field: str | None = None
    ignoring: Callable[[tuple[str, ...]], WireFormat] | None = None


HEADER = 5  # bytes
_MAGIC = 0
MOST_SHOWN = 300  # characters of a library's message


def framed(id_: int, payload: bytes) -> bytes:
    """The record of a payload.

    Examples
    --------
    >>> framed(258, b"xy")
    b'\\x00\\x00\\x00\\x01\\x02xy'
    """
    return id_.to_bytes(HEADER, "big") + payload


def schema_id(value: bytes | None) -> int | None:
    """The id in the header of a record; None if it has no header.

    Examples
    --------
    >>> schema_id(framed(258, b"xy")), schema_id(b'{"id": 7}'), schema_id(None)
    (258, None, None)
    """
    if value is None or len(value) < HEADER or value[0] != _MAGIC:
        return None
    return int.from_bytes(value[1:HEADER], "big")


def schema_ids(values: Iterable[bytes | None]) -> list[int]:
    """The distinct ids in the headers of records, in their order. Larger records are rejected
    without their schema, so they count as records without a header."""
    headers = {v[:HEADER]: None for v in values if v is not None and len(v) <= LARGEST_RECORD}
    return [id_ for id_ in map(schema_id, headers) if id_ is not None]


class FramedDocuments:
    """Decodes framed records to documents.

    Parameters
    ----------
    wire
        The format.
    book
        The schemas.
    readers_schema
        The schema to which every record is converted; None: each keeps its own.
    """

    def __init__(self, wire: WireFormat, book: SchemaBook, readers_schema: str | None) -> None:
        self._wire, self._book, self._readers_schema = wire, book, readers_schema
        self._readers: dict[int, tuple[StoredSchema, Reader | RecordError]] = {}

    def __call__(self, value: bytes | None) -> Document:
        """The document of a record.

        Raises
        ------
        RecordError
            It has no header, its schema is unknown or cannot be used, or it does not fit it.
        """
        wire = self._wire
        if value is None:
            raise RecordError("unparsable", f"expected {wire.title}, got no value")
        check_size(value)
        id_ = schema_id(value)
        if id_ is None:
            raise RecordError(
                "unparsable",
                f"expected {wire.title} after a zero byte and the id of its schema (Confluent's "
                f"framing), got {value[:HEADER].hex(' ') or 'an empty value'}",
            )
        return self._reader(id_)(value[HEADER:])

    def _reader(self, id_: int) -> Reader:
        schema = self._book.get(id_)
        if schema is None:
            raise RecordError("unknown_schema", f"the registry has no schema with the id {id_}")
        made = self._readers.get(id_)
        if made is None or made[0] is not schema:
            if len(self._readers) > 2 * len(self._book):
                self._readers.clear()
            made = self._readers[id_] = (schema, self._made(id_, schema))
        reader = made[1]
        if isinstance(reader, RecordError):
            raise reader.bare()
        return reader

    def _made(self, id_: int, schema: StoredSchema) -> Reader | RecordError:
        wire = self._wire
        if schema.type != wire.schema_type:
            why = f"expected a schema of the type {wire.schema_type}, got {schema.type}"
        elif schema.error:
            why = schema.error
        else:
            try:
                read = wire.reader(schema, self._readers_schema)
                if wire.counter is None:
                    return read
                return partial(_counted, wire.counter(schema), read)
            except RecordError as error:
                why = error.detail
        return RecordError("unusable_schema", f"schema {id_}: {why}")


def _counted(check: Check, read: Reader, payload: bytes) -> Document:
    check(payload)
    return read(payload)


def shortened(error: BaseException) -> str:
    """The message of a library in one line, for the detail of a dead letter.

    Half a character, which a schema can have as `\\ud800`, cannot be written and becomes `?`.
    """
    text = " ".join(f"{error}".split()) or type(error).__name__
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def guarded(decode: Callable[[bytes], Document], title: str) -> Reader:
    """A decoder whose every failure is a RecordError, because bytes may be anything."""

    def read(payload: bytes) -> Document:
        try:
            return decode(payload)
        except RecordError:
            raise
        except Exception as error:
            raise RecordError(
                "unparsable", f"not {title} of its schema: {shortened(error)}"
            ) from None

    return read
