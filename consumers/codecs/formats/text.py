"""A text as a record: its bytes are UTF-8, and its id is the key of the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumers.base.errors import RecordError
from consumers.codecs.format import Document, Fields, Reader, WireFormat, Writer
from consumers.codecs.json_document import check_size
from consumers.codecs.schemas import StoredSchema

__all__ = ["FORMAT"]

FIELDS: Fields = {"text": "text"}


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    return _read


def _read(value: bytes) -> Document:
    check_size(value)
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError as error:
        raise RecordError(
            "unparsable",
            f"expected a text in UTF-8, got 0x{value[error.start]:02x} at byte {error.start}",
        ) from None


def _writer(schema: StoredSchema) -> Writer:
    return _write


def _write(document: Mapping[str, Any]) -> bytes:
    text = document.get("text")
    if not isinstance(text, str):
        raise ValueError('expected a "text", which is the whole record in the format text')
    return text.encode()


FORMAT = WireFormat(
    name="text",
    title="text",
    about="one text in UTF-8 each, the field `text`; its id is the key",
    reader=_reader,
    writer=_writer,
    fields=FIELDS,
)
