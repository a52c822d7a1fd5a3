"""Records before record 0: the parts of a model, and observations that wait for a label.

Files in the journal, such as an imported model: in parts, in records before the identity.

The statistics that shards exchange are files in parts too, in the mix topic.

Rule: parts are bytes, not history. `consumers.journal.reader.entries` skips them, so nothing
that reads the history sees them. The identity names each file by its hash, and without the identity
they mean nothing: an import that was interrupted leaves parts that nobody reads.

Records of a history that still wait for their counterpart when a service begins. Pure.

An observation waits for its label, an early label for its observation. The journal holds the
records themselves, because the inputs may have expired when a replay needs them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import TransportError
from consumers.base.records import Batch, Outgoing, Partition, Record, ranges_of
from consumers.journal.records import StoredFile
from consumers.transports.protocol import Log

__all__ = [
    "MOST_BYTES",
    "PART_KEY",
    "ModelPart",
    "batch_of",
    "from_bytes",
    "has_parts",
    "joined_parts",
    "part_count",
    "parts_of",
    "stored",
    "to_bytes",
]

PART_BYTES = 256 * 1024  # in JSON 350 kB: a third of what a topic of Kafka takes by default
MOST_BYTES = 2**30  # of a file that can be imported
PART_KEY = b"model"  # the keys of all other records are numbers


class ModelPart(msgspec.Struct, tag="model", tag_field="kind", frozen=True):
    """One part of the file with this hash. In JSON its bytes are base64."""

    sha256: str
    part: int
    parts: int
    data: bytes


_decoder = msgspec.json.Decoder(ModelPart)


def part_count(size: int) -> int:
    """How many parts a file of this size has.

    Examples
    --------
    >>> part_count(1), part_count(256 * 1024), part_count(256 * 1024 + 1)
    (1, 1, 2)
    """
    return -(-size // PART_BYTES)


def stored(data: bytes) -> StoredFile:
    """How the journal names a file."""
    return StoredFile(hashlib.sha256(data).hexdigest(), len(data), part_count(len(data)))


def parts_of(data: bytes, journal: Partition, now: int) -> Iterator[Outgoing]:
    """The file as records of the journal's topic, in order."""
    sha256, count = hashlib.sha256(data).hexdigest(), part_count(len(data))
    for part in range(count):
        piece = data[part * PART_BYTES : (part + 1) * PART_BYTES]
        value = msgspec.json.encode(ModelPart(sha256, part, count, piece))
        yield Outgoing(journal.topic, PART_KEY, value, now, (), journal.number)


def has_parts(log: Log, journal: Partition) -> bool:
    """Whether the journal holds parts of a model."""
    first, end = log.beginning_offsets([journal])[journal], log.end_offsets([journal])[journal]
    if first >= end:
        return False
    return any(PART_KEY in fetched.keys for fetched in log.read({journal: first}, {journal: end}))


def joined_parts(
    log: Log,
    journal: Partition,
    file: StoredFile,
    first: int,
    end: int,
    what: str = "imported model with which it began",
) -> bytes:
    """The file, from the records of the journal from `first` up to `end`. `what` it is, for errors.

    Raises
    ------
    TransportError
        A part is missing or was changed.
    """
    found: dict[int, bytes] = {}
    for fetched in log.read({journal: first}, {journal: end}) if first < end else ():
        for key, value in zip(fetched.keys, fetched.values, strict=True):
            if key != PART_KEY or len(found) == file.parts:
                continue
            try:
                part = _decoder.decode(value or b"")
            except UNDECODABLE:
                continue
            if part.sha256 == file.sha256 and 0 <= part.part < file.parts:
                found.setdefault(part.part, part.data)
    data = b"".join(found[part] for part in sorted(found))
    if len(found) < file.parts or hashlib.sha256(data).hexdigest() != file.sha256:
        raise TransportError(
            f"{journal} no longer holds the {what} (sha256 {file.sha256[:16]}, "
            f"{len(found)} of {file.parts} parts)"
        )
    return data


_records = msgspec.msgpack.Decoder(list[Record])


def to_bytes(records: Sequence[Record]) -> bytes:
    """The records as the content of a file.

    Examples
    --------
    >>> record = Record("mails", 0, 7, 1000, b"a", b"{}")
    >>> from_bytes(to_bytes([record])) == [record]
    True
    """
    return msgspec.msgpack.encode(records)


def from_bytes(data: bytes) -> list[Record]:
    """The inverse of `to_bytes`."""
    return _records.decode(data)


def batch_of(records: Sequence[Record]) -> Batch:
    """The records, in their order, as one batch."""
    partitions = sorted({Partition(r.topic, r.partition) for r in records})
    places = {partition: i for i, partition in enumerate(partitions)}
    source = np.array([places[Partition(r.topic, r.partition)] for r in records], dtype=np.int64)
    offsets = np.array([r.offset for r in records], dtype=np.int64)
    times = np.array([r.timestamp for r in records], dtype=np.int64)
    keys, values = [r.key for r in records], [r.value for r in records]
    ranges = ranges_of(partitions, source, offsets)
    return Batch(partitions, source, offsets, times, keys, values, ranges)
