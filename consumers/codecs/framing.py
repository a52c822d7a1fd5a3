"""Confluent's framing: a zero byte, the id of the schema in four bytes, then the payload.

Rule: the header decides which schema a record has, and nothing else does. A record without a header
is bad, because its schema could only be guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from consumers.base.errors import RecordError
from consumers.codecs.format import Check, Document, Reader, WireFormat
from consumers.codecs.json_document import LARGEST_RECORD, check_size
from consumers.codecs.schemas import SchemaBook, StoredSchema

__all__ = ["HEADER", "FramedDocuments", "framed", "schema_id", "schema_ids"]

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
