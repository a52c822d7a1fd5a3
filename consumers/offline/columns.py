"""Files as batches of columns for a shard, without JSON in between: tables (Parquet, Arrow IPC) and
lines of JSON.

Rule: the shard gets the records, timestamps, offsets and order that `consumers.offline.evaluate`
makes of the same file. A file with a value that is not plain, or with times that do not increase,
is left to that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.fields import TimeField, key_of, timestamp_ms
from consumers.base.records import Batch, Partition
from consumers.codecs.arrow.plain import PlainBatch, PlainColumns
from consumers.codecs.blocks import ObservationBlocks
from consumers.codecs.columns import ColumnRecords
from consumers.codecs.json import DecodedLabels, DecodedObservations
from consumers.codecs.json_document import LARGEST_RECORD
from consumers.files.formats.jsonl import JsonlReader
from consumers.files.tables import TableReader
from consumers.offline.feed import LateLabels, encoded, timed
from stream.data.block import Rows
from stream.data.schema import Schema

__all__ = [
    "ColumnFeed",
    "LineFeed",
    "TableFeed",
    "Times",
]


Times = NDArray[np.int64]


@dataclass(slots=True)
class ColumnSurvey:
    """Counts of a first reading: observations, labels, and the declared fields that occur."""

    records: int = 0
    labels: int = 0
    fields: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Piece:
    """Consecutive observations: their columns, ids, times, and the number of the first one."""

    columns: PlainBatch
    ids: Sequence[str]
    times: Times
    first: int
    encode: Callable[[int], bytes]


@dataclass(slots=True)
class _Labels:
    """Labels that wait: ids, labels, and the number or the time at which they are due."""

    ids: list[str] = field(default_factory=list)
    labels: list[object] = field(default_factory=list)
    due: list[int] = field(default_factory=list)

    def pop(self, count: int) -> _Labels:
        """Remove and return the first `count`."""
        out = _Labels(self.ids[:count], self.labels[:count], self.due[:count])
        for column in (self.ids, self.labels, self.due):
            del column[:count]
        return out


class ColumnFeed(ABC):
    """The records of files, as the shard of a replay gets them.

    Parameters
    ----------
    schema
        The features.
    topic
        The topic of the observations.
    id_field
        The field with the id; records are numbered without it.
    label_field
        The field with the label inside the observation; None if labels come later.
    labels
        How labels come later; None if they are inside.
    time_field
        The field with the time; None: 1 ms apart from 0.
    limit
        The number of observations; None: all.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        topic: str,
        id_field: str,
        label_field: str | None,
        labels: LateLabels | None,
        time_field: str | None,
        limit: int | None = None,
    ) -> None:
        self._schema, self._topic, self._labels = schema, topic, labels
        self._id_field, self._limit = id_field, limit
        time = None if time_field is None else TimeField.of(time_field)
        self._time_field = None if time is None else time.name
        self._unit = None if time is None else time.unit
        self._label_field = label_field if labels is None else labels.field

    @abstractmethod
    def _pieces(self, max_rows: int | None) -> Iterator[Piece | None]:
        """The observations, at most so many at a time; None for some that are not plain."""

    def _times(self, values: Sequence[object]) -> Times | None:
        """The timestamps of these values of the field of time; None if one of them is no time."""
        try:
            times = [timestamp_ms(value, self._unit) for value in values]
        except ValueError:
            return None
        return np.array(times, dtype=np.int64)

    def _encoded(self, record: Mapping[str, object], number: int) -> bytes:
        """An observation as it would be written to a topic, with this number if it has no id."""
        one = timed(
            [record],
            self._topic,
            start=0,
            id_field=self._id_field,
            first_id=number,
            labels=self._labels,
        )
        value = next(one).value
        assert value is not None  # noqa: S101  an observation has one
        return value

    def survey(
        self, progress: Callable[[int], None], until: int | None = None
    ) -> ColumnSurvey | None:
        """Read all files; None if this feed cannot give their records.

        Parameters
        ----------
        progress
            Called with the number of records read since the last call.
        until
            Count the observations before this time in ms only. None: all.
        """
        found = ColumnSurvey()
        latest = -1
        for piece in self._pieces(max_rows=None):
            if piece is None or int(piece.times[0]) <= latest or np.any(np.diff(piece.times) <= 0):
                return None
            latest = int(piece.times[-1])
            rows = piece.columns.rows
            found.records += len(rows) if until is None else int(np.sum(piece.times < until))
            found.labels += sum(label is not None for label in piece.columns.labels)
            found.fields |= rows.present
            progress(len(rows))
        usable = found.records and (self._labels is None or found.labels)
        return found if usable else None

    def batches(self, size: int) -> Iterator[Batch]:
        """The records in the order of a service, at most `size` observations at a time.

        `survey` has accepted the files before.
        """
        waiting, written, end, observed, whole = _Labels(), 0, 0, 0, False
        for piece in self._pieces(max_rows=size):
            assert piece is not None  # noqa: S101  the survey saw no other
            due, at = self._due(waiting, piece)
            end, observed = int(piece.times[-1]), piece.first + len(piece.ids)
            whole = piece.columns.whole
            yield self._batch(piece, due, at, written)
            written += len(due.ids)
        if waiting.ids:
            at = (
                np.arange(end + 1, end + 1 + len(waiting.ids))
                if self._labels is not None and self._labels.by_number
                else np.array(waiting.due, dtype=np.int64)
            )
            last = _nothing(self._schema, observed, whole)
            yield self._batch(last, waiting, at, written)

    def _due(self, waiting: _Labels, piece: Piece) -> tuple[_Labels, Times]:
        """Add the labels of a piece to those that wait; return those that are due, with times."""
        if self._labels is None:
            return _Labels(), np.empty(0, dtype=np.int64)
        by_number, wait = self._labels.by_number, self._labels.wait
        numbers = range(piece.first, piece.first + len(piece.ids))
        since: Sequence[int] = numbers if by_number else piece.times.tolist()
        for id_, label, at in zip(piece.ids, piece.columns.labels, since, strict=True):
            if label is not None:
                waiting.ids.append(id_)
                waiting.labels.append(label)
                waiting.due.append(at + wait)
        due = waiting.pop(int(np.searchsorted(waiting.due, since[-1], side="right")))
        at_ms = np.array(due.due, dtype=np.int64)
        return due, piece.times[at_ms - piece.first] if by_number else at_ms

    def _batch(self, piece: Piece, due: _Labels, at: Times, written: int) -> Batch:
        """Observations and labels in order of time, an observation before a label."""
        n, m = len(piece.ids), len(due.ids)
        none: list[object] = [None] * n
        inside = piece.columns.labels if self._labels is None else none
        x = DecodedObservations(piece.columns.rows, piece.ids, inside, {})
        y = DecodedLabels(due.ids, due.labels, [1.0] * m, {})
        ids, times = [*piece.ids, *due.ids], np.concatenate([piece.times, at])
        source, index = np.repeat([0, 1], [n, m]), np.concatenate([np.arange(n), np.arange(m)])
        offsets = index + np.where(source == 0, piece.first, written)
        if m:
            order = np.lexsort((source, times))
            ids = [ids[i] for i in order.tolist()]
            source, index, offsets, times = (c[order] for c in (source, index, offsets, times))

        def encode(i: int) -> bytes:
            k = int(index[i])
            if source[i] == 0:
                return piece.encode(k)
            id_ = int(due.ids[k]) if piece.columns.whole else due.ids[k]
            return encoded({"id": id_, "label": due.labels[k]})

        topics = [self._topic] if self._labels is None else [self._topic, self._labels.topic]
        partitions = [Partition(topic, 0) for topic in topics]
        starts = {partitions[0]: (piece.first, piece.first + n, n)} if n else {}
        if m:
            starts[partitions[1]] = (written, written + m, m)
        keys = list(map(key_of, ids))
        records = ColumnRecords(x, y, n + m, encode)
        return Batch(partitions, source, offsets, times, keys, records, starts)


def _nothing(schema: Schema, first: int, whole: bool) -> Piece:
    """No observation, before the labels that are left at the end."""
    none = np.empty(0, dtype=np.int64)
    columns = PlainBatch(Rows.empty(schema), [], [], whole=whole)
    return Piece(columns, [], none, first, lambda _: b"")


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
