"""The records of the journal: what a shard consumed, commit by commit. Pure.

Record 0 is the `IdentityRecord` of the service. Each later one is a `CommitRecord`, with the offset
range of every partition that moved, a `RollbackRecord`, a `ChallengersRecord` or an `InputsRecord`.
The order of the records inside a commit is not stored: `consumers.journal.merge` recomputes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from consumers.base.errors import TransportError
from consumers.base.records import Batch, Fetched, Outgoing, Partition
from consumers.journal.checksum import RangeChecksum, checksum
from consumers.shard.outcome import OutputShape

__all__ = [
    "ChallengersRecord",
    "CommitRecord",
    "IdentityRecord",
    "InputsRecord",
    "JournalRecord",
    "LaterRecord",
    "Range",
    "RangeCheck",
    "RollbackRecord",
    "decode",
    "encode",
    "entry_of",
    "mark_of",
    "tails",
    "written",
]

MERGE_VERSION = 1
FIRST_JOIN_RULES = 1  # of a journal that does not name them
FIRST_CODEC_RULES = 1
MOST_EARLY = 10_000  # refused early labels that an entry names: it must fit a record
TAIL_RECORDS = 64  # of each partition, kept to know its log by
TAIL_BYTES = 64 * 1024


class IdentityRecord(msgspec.Struct, tag="identity", tag_field="kind", frozen=True):
    """Record 0: what the service is, for good.

    `identity` is the configuration that decides what is learned; `fields` the schema as declared
    or inferred; `starts` the offsets consumption starts at; `born` is like no other journal's, so
    that no snapshot of another one is ever taken for its own. `join` numbers the rules by which
    labels meet observations, see `stream.join`: a journal keeps those it was begun with. `codec`
    numbers those by which bytes are read, see `consumers.codecs.json_document`, likewise.
    `replaces` is what was left of an earlier run where it was begun in spite of that.
    """

    name: str
    shard: int
    identity: dict[str, Any]
    fields: list[tuple[str, str]]
    starts: list[tuple[str, int, int]]
    born: str
    merge: int = MERGE_VERSION
    join: int = FIRST_JOIN_RULES
    codec: int = FIRST_CODEC_RULES
    replaces: list[str] = []

    @property
    def seq(self) -> int:
        """Its number."""
        return 0

    @property
    def now(self) -> int:
        """It has no clock."""
        return 0


class Range(msgspec.Struct, array_like=True, frozen=True):
    """Records of one partition: offsets first … end-1, how many, and their checksum."""

    topic: str
    partition: int
    first: int
    end: int
    count: int
    crc32: int


class CommitRecord(msgspec.Struct, tag="batch", tag_field="kind", frozen=True, omit_defaults=True):
    """One commit. What was decided beside the records is journaled, so that a replay sees the same.

    `now` is the wall clock in ms; `skips` the records (topic, partition, offset, reason) that were
    passed over; `max_dead_letter_ratio` where the breaker stood. `chain` is the shard's hash of
    every prediction and score bit so far: a replay that goes another way shows at once. `drift` is
    what is watched from this entry on, where that changed: an alarm may change the model. `aside`
    says that its outputs were written after it, outside of its transaction (at least once).
    `topics` are the ids of input topics that the journal did not know before.
    `shape` is that of its outputs, where it changed; a journal that names none has the configured
    one. `early` are the early labels that became dead letters in it, offsets by partition: where a
    rollback cuts the entry out, they are dead letters all the same.
    `snapshots` are those written or begun with since the entry before: position, and fingerprint
    of the state. One that holds another state by now is not gone on from.
    """

    seq: int
    now: int
    ranges: list[Range]
    predictions: int
    dead_letters: int
    chain: str = ""
    skips: list[tuple[str, int, int, str]] = []
    max_dead_letter_ratio: float = 0.5
    drift: dict[str, Any] | None = None
    aside: bool = False
    topics: dict[str, str] = {}
    shape: OutputShape | None = None
    early: list[tuple[str, int, list[int]]] = []
    snapshots: list[tuple[int, str]] = []


class RollbackRecord(msgspec.Struct, tag="reset", tag_field="kind", frozen=True):
    """A rollback: from here on the shard is what it was after entry `to`.

    The entries between are cut out of the model's history: their records stay consumed and their
    predictions said, and nothing of them is learned any more. `chain` is that of entry `to`.
    """

    seq: int
    now: int
    to: int
    chain: str
    reason: str = ""


class ChallengersRecord(
    msgspec.Struct, tag="roster", tag_field="kind", frozen=True, omit_defaults=True
):
    """From here on these are the challengers, name to block; those that are new start empty.

    `threshold` is the e-value at which one of them is promoted, None for never. `champion` is who
    speaks from here on, "" for [model]; None: who did. `chain` is that of the entry before.
    """

    seq: int
    now: int
    challengers: dict[str, dict[str, Any]]
    chain: str
    threshold: float | None = None
    champion: str | None = None
    reason: str = ""


class InputsRecord(msgspec.Struct, tag="inputs", tag_field="kind", frozen=True, omit_defaults=True):
    """From here on the inputs are others: partitions were added, or a topic was made again.

    `starts` is where reading goes on, for partitions that are new or begin again; `gone` those that
    exist no more; `topics` the ids that hold from here on. `chain` is that of the entry before.
    """

    seq: int
    now: int
    chain: str
    starts: list[tuple[str, int, int]] = []
    gone: list[tuple[str, int]] = []
    topics: dict[str, str] = {}
    reason: str = ""


LaterRecord = CommitRecord | RollbackRecord | ChallengersRecord | InputsRecord
JournalRecord = IdentityRecord | LaterRecord

_decoder: msgspec.json.Decoder[JournalRecord] = msgspec.json.Decoder(JournalRecord)
_encoder = msgspec.json.Encoder()


def encode(entry: JournalRecord) -> bytes:
    """The entry as JSON."""
    return _encoder.encode(entry)


def written(entry: JournalRecord, journal: Partition, now: int) -> Outgoing:
    """The entry as a record of its journal."""
    return Outgoing(journal.topic, str(entry.seq).encode(), encode(entry), now, (), journal.number)


def decode(value: bytes | None) -> JournalRecord:
    """The inverse of `encode`.

    Raises
    ------
    TransportError
        It is no entry: the journal topic holds something else.
    """
    try:
        return _decoder.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TransportError(
            f"the journal holds a record that is no entry ({error}); "
            "is another program writing to its topic?"
        ) from None


def entry_of(
    batch: Batch,
    firsts: Mapping[Partition, int],
    *,
    seq: int,
    now: int,
    said: tuple[int, int],
    chain: str = "",
    skips: Sequence[tuple[str, int, int, str]] = (),
    max_dead_letter_ratio: float = 0.5,
    drift: dict[str, Any] | None = None,
    aside: bool = False,
    topics: Mapping[str, str] | None = None,
    shape: OutputShape | None = None,
    early: Iterable[tuple[Partition, int]] = (),
    snapshots: Mapping[int, str] | None = None,
) -> CommitRecord:
    """The journal entry of a batch.

    Parameters
    ----------
    firsts
        Where each partition stood: ranges tile, gaps of the log included.
    said
        How many predictions and dead letters it brought.
    chain
        The shard's hash after it.
    skips, max_dead_letter_ratio, drift, aside, topics, shape, snapshots
        See `CommitRecord`.
    early
        Where the early labels lie that it refused; the first `MOST_EARLY` are journaled.
    """
    refused: dict[Partition, list[int]] = {}
    for partition, offset in islice(early, MOST_EARLY):
        refused.setdefault(partition, []).append(offset)
    sums = _checksums(batch)
    ranges = [
        Range(p.topic, p.number, firsts[p], end, count, sums[p])
        for p, (_, end, count) in sorted(batch.ranges.items())
    ]
    return CommitRecord(
        seq,
        now,
        ranges,
        *said,
        chain,
        list(skips),
        max_dead_letter_ratio,
        drift,
        aside,
        dict(topics or {}),
        shape,
        [(*partition, offsets) for partition, offsets in sorted(refused.items())],
        sorted((snapshots or {}).items()),
    )


class RangeCheck:
    """Whether records, read again, are those that an entry consumed.

    Parameters
    ----------
    entry
        It.

    Notes
    -----
    An entry is usually read again as one batch; one that holds more than fits memory comes in
    several.
    """

    def __init__(self, entry: CommitRecord) -> None:
        self._entry = entry
        self._left = sum(r.count for r in entry.ranges)
        self._sums: dict[Partition, RangeChecksum] = {}

    def add(self, batch: Batch) -> bool:
        """The next records; True with the last of them, once all are seen to be the same.

        Raises
        ------
        TransportError
            The log has changed or lost records since.
        """
        self._left -= len(batch)
        if not self._sums and not self._left:  # all at once
            sums = _checksums(batch)
            found = {p: (count, sums[p]) for p, (_, _, count) in batch.ranges.items()}
        else:
            for part in filter(len, batch.parts):
                self._sums.setdefault(part.partition, RangeChecksum()).add(part)
            if self._left > 0:
                return False
            found = {p: (s.count, s.value) for p, s in self._sums.items()}
        self._compare(found)
        return True

    def end(self) -> None:
        """There are no more records. TransportError where some are missing."""
        if self._left > 0:
            self._compare({p: (s.count, s.value) for p, s in self._sums.items()})

    def _compare(self, found: Mapping[Partition, tuple[int, int]]) -> None:
        for r in self._entry.ranges:
            partition = Partition(r.topic, r.partition)
            count, crc = found.get(partition, (0, 0))
            if count != r.count or crc != r.crc32:
                raise TransportError(
                    f"{partition} offsets {r.first} to {r.end - 1}: expected {r.count} records "
                    f"with checksum {r.crc32:08x}, the log now gives {count}; its records have "
                    "changed or expired, and this model cannot be rebuilt from them"
                )


def tails(batch: Batch) -> dict[Partition, Range]:
    """The last records of each partition of a batch: what its log is known by afterwards."""
    out = {}
    for part in filter(len, batch.parts):
        size = count = 0
        for key, value in zip(reversed(part.keys), reversed(part.values), strict=True):
            size += len(key or b"") + len(value or b"")
            if count and (count == TAIL_RECORDS or size > TAIL_BYTES):
                break
            count += 1
        last = Fetched(
            part.partition,
            part.offsets[-count:],
            part.timestamps[-count:],
            part.keys[-count:],
            part.values[-count:],
        )
        first, end = last.offsets[0], last.offsets[-1] + 1
        out[part.partition] = Range(*part.partition, first, end, count, checksum(last))
    return out


def _checksums(batch: Batch) -> dict[Partition, int]:
    return {part.partition: checksum(part) for part in filter(len, batch.parts)}


def mark_of(identity: IdentityRecord) -> str:
    """The hash of an identity: what tells snapshots of one journal from those of all others."""
    plain = msgspec.to_builtins(identity)
    if plain["join"] == FIRST_JOIN_RULES:  # hashed before it was a field
        del plain["join"]
    if plain["codec"] == FIRST_CODEC_RULES:
        del plain["codec"]
    if not plain["replaces"]:
        del plain["replaces"]
    text = msgspec.json.encode(plain, order="sorted")
    return hashlib.sha256(text).hexdigest()
