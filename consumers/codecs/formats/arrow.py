"""Arrow IPC: a message of observations is a stream of record batches, and each row a record.

Labels and predictions are JSON objects, one for each message.
"""

from __future__ import annotations

from consumers.codecs.arrow.messages import ArrowMessages, documents, is_arrow, message_of
from consumers.codecs.arrow.sizes import size_of
from consumers.codecs.format import RowFormat, WireFormat
from consumers.codecs.formats import json

__all__ = ["FORMAT"]


def _measure(value: bytes | None) -> tuple[int, int]:
    try:
        return size_of(value or b"")
    except ValueError:
        return 1, 0


FORMAT = WireFormat(
    name="arrow",
    title="Arrow IPC",
    about="Arrow IPC streams of observations, with labels as JSON",
    modules=("pyarrow",),
    extra="arrow",
    reader=json.FORMAT.reader,
    writer=json.FORMAT.writer,
    rows=RowFormat(_measure, ArrowMessages, is_arrow, documents, message_of),
)
