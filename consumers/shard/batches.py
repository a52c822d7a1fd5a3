"""The records of a batch: as the join keeps one, and which of them are observations or skipped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import RecordError
from consumers.base.records import Batch, Partition, Record
from consumers.codecs.json import DecodedObservations
from consumers.shard.views import FieldCheck
from stream.join.events import Integers

__all__ = ["Skip", "fields_of", "given_back", "kept", "of_rows", "record_of", "skipped"]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode

Skip = tuple[str, int, int, str]


def kept(batch: Batch, i: int) -> bytes:
    """Record `i` as bytes, which the join keeps for an early label."""
    return _encode(record_of(batch, i))


def record_of(batch: Batch, i: int) -> Record:
    """Record `i`; of a row, its message has the same key and place."""
    (topic, number), offset = batch.place(i)
    timestamp = int(batch.timestamps[i])
    return Record(topic, number, offset, timestamp, batch.keys[i], batch.values[i])


def given_back(raw: bytes) -> Record:
    """The inverse of `kept`."""
    return _decode(raw)


def fields_of(x: DecodedObservations, first: int) -> FieldCheck:
    """Which declared fields the first observations have; rejected ones have none."""
    n = min(first, len(x.rows))
    present = x.rows.take(np.arange(n)).present
    return FieldCheck(n - sum(k < n for k in x.rejected), present)


def of_rows(
    values: NDArray[np.bool_], row: Integers, at: Sequence[int], rows: int, records: int
) -> NDArray[np.bool_]:
    """Of values of the records of a batch those of its `rows` observations.

    `row` is the row of each event (-1: a label), `at` its record. An unusable observation has no
    event, and False. Of `values`, those of the first `records` count; what is left out is False.
    """
    of, seen = np.array(row, dtype=np.int64), np.flatnonzero(np.array(row, dtype=np.int64) >= 0)
    whole, out = np.zeros(records, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    whole[: len(values)] = values[:records]
    out[of[seen]] = whole[np.array(at, dtype=np.int64)[seen]]
    return out


def skipped(batch: Batch, skips: Collection[Skip]) -> dict[int, RecordError]:
    """Index in the batch to the error of each record that must be skipped."""
    out: dict[int, RecordError] = {}
    for topic, number, offset, reason in skips:
        if Partition(topic, number) not in batch.partitions:
            continue  # in another piece of the batch
        source = batch.partitions.index(Partition(topic, number))
        # There is no match if compaction has removed the record.
        for at in np.flatnonzero((batch.source == source) & (batch.offsets == offset)).tolist():
            why = "a child process died each time it processed this record"
            out[at] = RecordError(reason, why)  # type: ignore[arg-type]
    return out
