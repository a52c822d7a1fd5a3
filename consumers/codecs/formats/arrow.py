"""Arrow IPC: a message of observations is a stream of record batches, and each row a record.

Labels and predictions are JSON objects, one for each message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from consumers.codecs.arrow.sizes import is_arrow, size_of
from consumers.codecs.format import Document, RowFormat, WireFormat
from consumers.codecs.formats import json

if TYPE_CHECKING:
    from consumers.codecs.json import JsonObservations
    from consumers.codecs.rows import MessageReader

__all__ = ["FORMAT"]


def _measure(value: bytes | None) -> tuple[int, int]:
    try:
        return size_of(value or b"")
    except ValueError:
        return 1, 0


def _reader(decoder: JsonObservations) -> MessageReader:
    from consumers.codecs.arrow.messages import ArrowMessages

    return ArrowMessages(decoder)


def _documents(value: bytes | None, most: int) -> list[Document]:
    from consumers.codecs.arrow.messages import documents

    return documents(value, most)


def _message(rows: Sequence[Mapping[str, Any]]) -> bytes:
    from consumers.codecs.arrow.messages import message_of

    return message_of(rows)


FORMAT = WireFormat(
    name="arrow",
    title="Arrow IPC",
    about="Arrow IPC streams of observations, with labels as JSON",
    modules=("pyarrow",),
    extra="arrow",
    reader=json.FORMAT.reader,
    writer=json.FORMAT.writer,
    rows=RowFormat(_measure, _reader, is_arrow, _documents, _message),
)
