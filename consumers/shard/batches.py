"""The records of a batch: as the join keeps one, and which of them are observations or skipped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import RecordError
from consumers.base.records import Batch, Partition, Record
from consumers.codecs.account import FieldTally
from consumers.codecs.columns import ColumnRecords
from consumers.codecs.json import DecodedObservations, JsonObservations
from consumers.codecs.unused import Note, bounded
from stream.join.events import Integers

__all__ = [
    "NOTHING",
    "Explained",
    "RecordPlace",
    "SeenFields",
    "Skip",
    "given_back",
    "kept",
    "of_rows",
    "record_of",
    "skipped",
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


@dataclass(frozen=True, slots=True)
class SeenFields:
    """The observations of a batch beside what was decoded of them.

    Parameters
    ----------
    decoder
        What decoded them.
    batch
        The batch.
    at
        int64, ascending: their indices in it.
    decoded
        What was decoded.
    """

    decoder: JsonObservations
    batch: Batch
    at: NDArray[np.int64]
    decoded: DecodedObservations

    @classmethod
    def of(
        cls,
        decoder: JsonObservations,
        batch: Batch,
        is_label: NDArray[np.bool_],
        passed: Collection[int],
        decoded: DecodedObservations,
    ) -> SeenFields:
        """Those that are no labels and were decoded."""
        seen = ~is_label
        seen[list(passed)] = False
        return cls(decoder, batch, np.flatnonzero(seen), decoded)

    def results(
        self, noted: bool, before: int | None
    ) -> tuple[FieldTally | None, Callable[[int], list[Note]] | None]:
        """`fields` and `notes` of an outcome, each if it is asked for; `before`: as of
        `FieldTally.of`."""
        tally = None
        if before is not None:
            decoder, found = self.decoder, self.decoded
            tally = FieldTally.of(decoder, found, lambda k: self._value(int(self.at[k])), before)
        return tally, self.notes if noted else None

    def notes(self, i: int) -> list[Note]:
        """What of the observation at this index of the batch is not used."""
        bad = self.decoded.bad.get(int(np.searchsorted(self.at, i)), ())
        return bounded(self.decoder.notes(self._value(i), bad))

    def _value(self, i: int) -> bytes | None:
        values = self.batch.values
        return values.as_json(i) if isinstance(values, ColumnRecords) else values[i]


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
