"""Tables (Parquet, Arrow IPC) as batches of columns, see `consumers.offline.columns`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from consumers.codecs.arrow.plain import PlainColumns
from consumers.files.tables import TableReader
from consumers.offline.columns import ColumnFeed, Piece, Times
from stream.data.schema import Schema

__all__ = ["TableFeed"]


class TableFeed(ColumnFeed):
    """The records of tables, as the shard of a replay gets them.

    Parameters
    ----------
    tables
        The files, in order.
    schema, settings
        As of `ColumnFeed`.
    """

    def __init__(self, tables: list[TableReader], schema: Schema, **settings: Any) -> None:
        super().__init__(schema, **settings)
        self._tables = tables
        inside = self._labels is None
        self._columns = PlainColumns(schema, self._id_field, self._label_field, inside=inside)

    def _pieces(self, max_rows: int | None) -> Iterator[Piece | None]:
        """The observations, at most so many at a time; None for a batch that is not plain."""
        first = 0
        for table in self._tables:
            row = 0
            for batch in chain.from_iterable(_cut(b, max_rows) for b in table.batches()):
                if self._limit is not None:
                    batch = batch.slice(0, self._limit - first)
                if len(batch):
                    yield self._piece(table, batch, first, row)
                first, row = first + len(batch), row + len(batch)
                if first == self._limit:
                    return

    def _piece(self, table: TableReader, batch: Any, first: int, row: int) -> Piece | None:
        columns = self._columns.convert(batch)
        times = None if columns is None else self._times_of(table, batch, first, row)
        if columns is None or times is None:
            return None
        ids = columns.ids
        if ids is None:
            ids = list(map(str, range(first, first + len(batch))))

        def encode(i: int) -> bytes:
            [record] = table.records_of(batch.slice(i, 1), row + i)
            return self._encoded(record, first + i)

        return Piece(columns, ids, times, first, encode)

    def _times_of(self, table: TableReader, batch: Any, first: int, row: int) -> Times | None:
        """The timestamps; None if one of them is not a time."""
        name = self._time_field
        if name is None:
            return np.arange(first, first + len(batch))
        if name not in batch.schema.names:
            return None
        return self._times(table.values(name, batch.column(name), row))


def _cut(batch: Any, max_rows: int | None) -> Iterator[Any]:
    step = max_rows or max(len(batch), 1)
    for start in range(0, len(batch), step):
        yield batch.slice(start, step)
