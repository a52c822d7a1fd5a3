"""JSON lines as batches of columns, see `consumers.offline.columns`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np

from consumers.codecs.arrow.plain import PlainBatch
from consumers.codecs.blocks import ObservationBlocks
from consumers.codecs.json_document import LARGEST_RECORD
from consumers.files.formats.jsonl import JsonlReader
from consumers.offline.columns import ColumnFeed, Piece
from stream.data.schema import Schema

__all__ = ["LineFeed"]

LINES = 1 << 13  # of a piece
GROWTH = 8  # a record that is written again is at most so many times as long: 1e9 is 1000000000.0


class LineFeed(ColumnFeed):
    """The records of JSON lines, as the shard of a replay gets them.

    Parameters
    ----------
    readers
        The files, in order.
    schema, settings
        As of `ColumnFeed`.
    """

    def __init__(self, readers: Sequence[JsonlReader], schema: Schema, **settings: Any) -> None:
        super().__init__(schema, **settings)
        self._readers = readers
        id_field, label, time_field = self._id_field, self._label_field, self._time_field
        names = [f.name for f in schema.fields] + [id_field]
        names += [name for name in (label, time_field) if name is not None]
        self._blocks = None
        if len(set(names)) == len(names):  # or a field is a feature and something else too
            largest = LARGEST_RECORD // GROWTH
            self._blocks = ObservationBlocks(schema, id_field, label, time_field, largest)

    def _pieces(self, max_rows: int | None) -> Iterator[Piece | None]:
        lines = islice(chain.from_iterable(r.lines() for r in self._readers), self._limit)
        first = 0
        while chunk := list(islice(lines, max_rows or LINES)):
            yield self._piece(chunk, first)
            first += len(chunk)

    def _piece(self, lines: list[bytes], first: int) -> Piece | None:
        if self._blocks is None:
            return None
        n = len(lines)
        block = self._blocks.read([b"%d" % i for i in range(first, first + n)], lines)
        whole = block.whole
        times = (
            np.arange(first, first + n) if self._time_field is None else self._times(block.times)
        )
        if block.left or times is None or (whole.any() and not whole.all()):
            return None

        def encode(i: int) -> bytes:
            return self._encoded(self._readers[0].record_of(lines[i]), first + i)

        columns = PlainBatch(block.rows, block.ids, block.labels, whole=bool(whole.any()))
        return Piece(columns, block.ids, times, first, encode)
