"""The records of a batch: as the join keeps one, and which of them are observations or skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import IgnoredRecordError, RecordError
from consumers.base.records import Batch, Partition, Record
from consumers.codecs.json import DecodedObservations
from consumers.shard.views import FieldCheck
from stream.join.events import Integers

__all__ = [
    "NOTHING",
    "Explained",
    "RecordPlace",
    "Skip",
    "fields_of",
    "given_back",
    "kept",
    "of_rows",
    "record_of",
    "skipped",
    "without_ignored",
]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode

Skip = tuple[str, int, int, str]
RecordPlace = tuple[Partition, int, int | None]  # the row of its message; None without rows


class Explained(NamedTuple):
    """Which predictions are explained, and by how many features: that of one place, or all."""

    shares: int = 0
    only: RecordPlace | None = None


NOTHING = Explained()


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
    batch: Batch,
    row: Integers,
    at: Sequence[int],
    rows: int,
    against: NDArray[np.bool_] | None,
    only: RecordPlace | None,
) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
    """For each of the `rows` observations of a batch, what is known of its record.

    `row` is the row of each event (-1: a label), `at` its record. An unusable observation has no
    event, and False.

    Returns
    -------
    ndarray or None
        Its value in `against`, which has one for each record; what is left out is False.
    ndarray or None
        Whether it is the record at the place `only`.
    """
    if against is None and only is None:
        return None, None
    of = np.array(row, dtype=np.int64)
    seen = np.flatnonzero(of >= 0)
    record = np.array(at, dtype=np.int64)[seen]

    def rowwise(values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        whole, out = np.zeros(len(batch), dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
        whole[: len(values)] = values[: len(batch)]
        out[of[seen]] = whole[record]
        return out

    return (
        None if against is None else rowwise(against),
        None if only is None else rowwise(_is_at(batch, only)),
    )


def _is_at(batch: Batch, place: RecordPlace) -> NDArray[np.bool_]:
    """For each record of a batch whether it is the one at this place."""
    partition, offset, row = place
    if partition not in batch.partitions:
        return np.zeros(len(batch), dtype=np.bool_)
    source = batch.partitions.index(partition)
    found: NDArray[np.bool_] = (batch.source == source) & (batch.offsets == offset)
    return found if row is None or batch.index is None else found & (batch.index == row)


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


def without_ignored(
    rejected: dict[int, RecordError],
    values: Sequence[object],
    counts: Counter[str],
    tombstones: bool,
) -> dict[int, RecordError]:
    """The rejected records that are dead letters; the others are counted as ignored. `tombstones`:
    whether records without a value are ignored."""
    kept = {
        i: error
        for i, error in rejected.items()
        if not isinstance(error, IgnoredRecordError) and not (tombstones and values[i] is None)
    }
    counts.update(Counter(ignored=len(rejected) - len(kept)) + Counter())  # if not 0
    return kept
