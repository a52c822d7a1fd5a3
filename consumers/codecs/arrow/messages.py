"""Messages of Arrow IPC -> rows, by column, and documents -> messages.

Rule: a row is the observation that it would be as a JSON object, without a key. Plain values become
columns at once (`plain.py`); a batch with any other value takes the way through documents, which
alone decides whether a row is bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from consumers.base.errors import RecordError
from consumers.codecs.arrow.plain import PlainColumns
from consumers.codecs.arrow.sizes import MOST_UNPACKED, size_of, stream_of, volume
from consumers.codecs.arrow.values import UnreadableTypeError, column_values, plain_type
from consumers.codecs.format import Document, shortened
from consumers.codecs.json import DecodedObservations, JsonObservations
from consumers.codecs.json_document import check_size
from consumers.codecs.rows import MessageRows

__all__ = ["ArrowMessages", "documents", "message_of"]


class ArrowMessages:
    """Reads messages as rows.

    Parameters
    ----------
    decoder
        Decodes documents; it has the schema and the names of the fields.
    """

    def __init__(self, decoder: JsonObservations) -> None:
        self._decoder = decoder
        id_, label = decoder.id_field, decoder.label_field
        names = [f.name for f in decoder.schema.fields]
        names += [id_] if label is None else [id_, label]
        self._needed = {part for name in names for part in (name, name.partition(".")[0])}
        self._plain = PlainColumns(decoder.schema, id_, label)

    def read(self, value: bytes | None, most: int) -> MessageRows:
        """The rows of a message, at most so many.

        Raises
        ------
        RecordError
            No row of it can be used.
        """
        whole = _batches(value, most)
        batches = [self._used(batch) for batch in whole]
        if sum(volume_of(batch) for batch in batches) > MOST_UNPACKED:
            raise _too_large("its values")
        starts = np.cumsum([0, *map(len, batches)])
        decoded = [self._decoded(batch) for batch in batches]

        def row(of: list[Any], at: int) -> Any:
            number = int(np.searchsorted(starts, at, side="right")) - 1
            return of[number].slice(at - int(starts[number]), 1)

        return MessageRows(
            int(starts[-1]),
            decoded,
            lambda at: _alone(row(batches, at)),
            lambda at: _as_json(row(whole, at)),
        )

    def _used(self, batch: Any) -> Any:
        """The columns that are read, each of which exists once."""
        names = [name for name in batch.schema.names if name in self._needed]
        for name, other in pairwise(sorted(names)):
            if name == other:
                raise RecordError("unparsable", f"two columns are named {name!r}")
        id_ = self._decoder.id_field
        if len(batch) and not {id_, id_.partition(".")[0]} & set(names):
            raise RecordError(
                "no_id",
                f"expected a column {id_!r} with the ids of the rows; the key of a message is not "
                "the id of its rows",
            )
        return batch.select(names)

    def _decoded(self, batch: Any) -> DecodedObservations:
        found = self._plain.convert(batch)
        if found is not None and found.ids is not None:
            return DecodedObservations(found.rows, found.ids, found.labels, {})
        return self.slow(batch)

    def slow(self, batch: Any) -> DecodedObservations:
        """The rows of a batch by way of documents."""
        return self._decoder.decode([None] * len(batch), _documents_of(batch))


def documents(value: bytes | None, most: int) -> list[Document]:
    """The rows of a message as documents, with all columns; RecordError if it cannot be read."""
    found = _batches(value, most)
    if sum(map(volume_of, found)) > MOST_UNPACKED:
        raise _too_large("its values")
    return [document for batch in found for document in _documents_of(batch)]


def message_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A message of rows; a row without a column has no value there.

    Raises
    ------
    ValueError
        The values of a column have no common type in Arrow.

    Examples
    --------
    >>> documents(message_of([{"id": "7", "shop": {"city": "Bonn"}}, {"id": "8"}]), 10)
    [{'id': '7', 'shop': {'city': 'Bonn'}}, {'id': '8'}]
    """
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        try:
            columns.append(pa.array([row.get(name) for row in rows]))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"has values in {name!r} that have no common type in Arrow: {shortened(error)}"
            ) from None
    return _written(pa.record_batch(columns, names=names))


def volume_of(batch: Any) -> int:
    """See `volume`, of all columns. RecordError names one whose type cannot be read."""
    total = 0
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            total += volume(column)
        except UnreadableTypeError as error:
            raise _unreadable(name, column, error) from None
    return total


def _batches(value: bytes | None, most: int) -> list[Any]:
    """The record batches of a message, validated."""
    if value is None:
        raise RecordError("unparsable", "expected an Arrow IPC stream, got no value")
    check_size(value)
    try:
        size = size_of(value)
    except ValueError as error:
        raise RecordError("unparsable", f"not an Arrow IPC stream: {error}") from None
    if size.rows > most:
        raise RecordError(
            "oversize", f"{size.rows:,} rows, at most {most:,} ([commit] max_records)"
        )
    if size.unpacked > MOST_UNPACKED:
        raise _too_large("its buffers and headers")
    import pyarrow as pa

    with _guarded():
        options = pa.ipc.IpcReadOptions(use_threads=False)  # trials run in forked processes
        reader = pa.ipc.open_stream(pa.py_buffer(stream_of(value)), options=options)
        list(reader.schema.names)  # raises an error if one is not UTF-8
        batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    rows = sum(map(len, batches))
    if rows != size.rows:
        raise RecordError("unparsable", f"its headers claim {size.rows:,} rows, it has {rows:,}")
    return batches


@contextmanager
def _guarded() -> Iterator[None]:
    """Every failure is a RecordError, because bytes may be anything."""
    try:
        yield
    except (MemoryError, RecordError):
        raise
    except Exception as error:
        raise RecordError("unparsable", f"not an Arrow IPC stream: {shortened(error)}") from None


def _too_large(what: str) -> RecordError:
    return RecordError("oversize", f"{what} need more than {MOST_UNPACKED:,} bytes unpacked")


def _unreadable(name: str, column: Any, error: Exception) -> RecordError:
    why = f"column {name!r} has the type {column.type}, which cannot be read: {error}"
    return RecordError("unparsable", shortened(ValueError(why)))


def _documents_of(batch: Any) -> list[Document]:
    rows: list[Document] = [{} for _ in range(len(batch))]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        with _guarded():
            try:
                values = column_values(column, strict=False)
            except UnreadableTypeError as error:
                raise _unreadable(name, column, error) from None
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                row[name] = value
    return rows


def _alone(row: Any) -> bytes:
    """A message of one row. A dictionary is replaced by its value: it may be much larger."""
    import pyarrow as pa

    columns = [
        column.cast(plain_type(column.type), safe=False)
        if pa.types.is_dictionary(column.type) or pa.types.is_nested(column.type)
        else column
        for column in row.columns
    ]
    return _written(pa.record_batch(columns, names=row.schema.names))


def _written(batch: Any) -> bytes:
    import pyarrow as pa

    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _as_json(row: Any) -> bytes:
    """A row with all its columns, also those that are not read: they are named to who asks."""
    document: Document = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            (value,) = column_values(column, strict=False)
        except Exception:  # of a column that is not read
            value = f"({column.type})"
        if value is not None:
            document[name] = value
    return msgspec.json.encode(document, enc_hook=repr)
