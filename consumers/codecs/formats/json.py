"""JSON without a schema: the record is the document. No header, no registry."""

from __future__ import annotations

import msgspec

from consumers.codecs.format import Reader, WireFormat, Writer
from consumers.codecs.json_document import parse
from consumers.codecs.schemas import StoredSchema

__all__ = ["FORMAT"]


def _reader(schema: StoredSchema, readers_schema: str | None) -> Reader:
    return parse


def _writer(schema: StoredSchema) -> Writer:
    return msgspec.json.Encoder().encode


FORMAT = WireFormat(
    name="json",
    title="JSON",
    about="JSON objects without a schema",
    reader=_reader,
    writer=_writer,
)
