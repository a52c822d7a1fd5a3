"""A commit as a shard processes it: its records, what is journaled of it, and its pieces.

Rule: the digest of a commit does not depend on the pieces in which it is processed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import IgnoredRecordError, RecordError
from consumers.base.records import Batch, Partition, Record
from consumers.codecs.account import NO_RECORDS, FieldTally, SeenRecords
from consumers.codecs.columns import ColumnRecords
from consumers.codecs.json import DecodedObservations, JsonLabels, JsonObservations
from consumers.codecs.unused import Note, bounded
from consumers.shard.shape import OutputShape
from stream.data.schema import Label
from stream.evaluate.quality import Quality
from stream.evaluate.result import Result, joined
from stream.join.events import Integers

__all__ = [
    "NOTHING",
    "PRESENT",
    "Commit",
    "EarlierPieces",
    "Explained",
    "SeenFields",
    "Skip",
    "digest",
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


@dataclass(frozen=True, slots=True)
class Commit:
    """What the journal has of a commit, without its records and its clock, and what an audit asks
    for.

    Parameters
    ----------
    skips
        Records (topic, partition, offset, reason) that become dead letters unprocessed.
    max_dead_letter_ratio
        The limit of the breaker; None: the configured one.
    drift
        The drift rule from this commit on; None: the present one.
    outputs
        The settings of outputs; None: the configured ones.
    against
        Which records were decided against silence when they were published; None: by this model.
    max_rows
        The largest number of rows of a message; 0: the configured one.
    explain
        Which predictions are explained, in addition to `[output] explain`.
    """

    skips: Sequence[Skip] = ()
    max_dead_letter_ratio: float | None = None
    drift: dict[str, Any] | None = None
    outputs: OutputShape | None = None
    against: NDArray[np.bool_] | None = None
    max_rows: int = 0
    explain: Explained = NOTHING


PRESENT = Commit()  # as configured


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
    """The observations of a batch beside what was decoded of them, and its label records.

    Parameters
    ----------
    decoder, label_decoder
        What decoded them.
    batch
        The batch.
    at, labels_at
        int64, ascending: the indices of both in it.
    decoded
        What was decoded of the observations.
    """

    decoder: JsonObservations
    label_decoder: JsonLabels
    batch: Batch
    at: NDArray[np.int64]
    labels_at: NDArray[np.int64]
    decoded: DecodedObservations

    @classmethod
    def of(
        cls,
        decoders: tuple[JsonObservations, JsonLabels],
        batch: Batch,
        is_label: NDArray[np.bool_],
        passed: Collection[int],
        decoded: DecodedObservations,
    ) -> SeenFields:
        """Those that were decoded."""
        seen = np.ones(len(batch), dtype=np.bool_)
        seen[list(passed)] = False
        at, labels_at = (np.flatnonzero(seen & chosen) for chosen in (~is_label, is_label))
        return cls(*decoders, batch, at, labels_at, decoded)

    def tally(self, before: SeenRecords = NO_RECORDS) -> FieldTally:
        """How often each field was used. `before`: what the account has."""
        at, labels_at = self.at, self.labels_at
        of = (self.decoder, self.decoded, lambda k: self._value(int(at[k])))
        tally = FieldTally.of(*of, before.observations)
        if not labels_at.size:
            return tally
        find, value = self.label_decoder.unknown, lambda k: self._value(int(labels_at[k]))
        return replace(
            tally, labels=FieldTally.of_labels(find, labels_at.size, value, before.labels)
        )

    def notes(self, i: int) -> list[Note]:
        """The fields of the observation at this index of the batch that are not used."""
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


def without_ignored(
    rejected: dict[int, RecordError],
    values: Sequence[object],
    counts: Counter[str],
    tombstones: bool,
) -> dict[int, RecordError]:
    """The rejected records that are dead letters; the others are counted as ignored. `tombstones`:
    whether records without a value are ignored."""
    if not rejected:
        return rejected
    kept = {
        i: error
        for i, error in rejected.items()
        if not isinstance(error, IgnoredRecordError) and not (tombstones and values[i] is None)
    }
    if ignored := len(rejected) - len(kept):
        counts["ignored"] += ignored
    return kept


@dataclass(slots=True)
class EarlierPieces:
    """The results of earlier pieces of a commit that is processed in several pieces.

    Parameters
    ----------
    parts
        Their results.
    events
        How many events they had.
    last
        Whether the next piece is the last one, whose outcome has the digest of all pieces.
    """

    parts: list[Result] = field(default_factory=list)
    events: int = 0
    last: bool = True

    def add(self, result: Result, events: int) -> list[Result]:
        """Add the result of one piece. Returns those of all pieces so far."""
        alarms = [alarm._replace(at=alarm.at + self.events) for alarm in result.alarms]
        self.parts.append(replace(result, alarms=alarms, explanations=None))
        self.events += events
        return self.parts


def digest(parts: Sequence[Result], labels: Iterable[Label], scored: Iterable[Quality]) -> bytes:
    """Eight bytes of the predictions of all pieces and of the scores after them.

    Parameters
    ----------
    parts
        The results of the pieces.
    labels
        The labels that were learned so far.
    scored
        The scores of the models.
    """
    result = parts[0] if len(parts) == 1 else joined(list(parts), list(labels))
    made = result.predictions
    hashed = blake2b(digest_size=8)
    for part in (made.proba, made.known, result.predicted, result.learned_before):
        hashed.update(part.tobytes())
    if result.verdicts is not None:
        hashed.update(result.verdicts.flagged.tobytes())
        hashed.update(result.verdicts.unsure.tobytes())
    for quality in scored:
        hashed.update(quality.bits())
    for alarm in result.alarms:
        hashed.update(repr(tuple(alarm)).encode())
    return hashed.digest()
