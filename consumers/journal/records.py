"""The records of the journal: what a shard consumed, commit by commit. Pure.

Record 0 is the `IdentityRecord` of the service. Each later record is a `CommitRecord`, with the
offset range of every partition that moved, a `RollbackRecord`, a `ChallengersRecord`, an
`InputsRecord`, a `SchemasRecord`, a `MixRecord`, a `RelearnRecord` or a `MovedRecord`. The order of
input records within a commit is not stored: `consumers.journal.merge` recomputes it.

Each later record has `settings`: the journal offset of the `RelearnRecord` whose settings the model
has from there on, 0 for those of record 0. So the last record alone says which settings apply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.converter import UNDECODABLE
from consumers.base.counts import counted
from consumers.base.errors import JournalFormatError
from consumers.base.records import Batch, Outgoing, Partition
from consumers.codecs.schemas import StoredSchema
from consumers.config.auto import Defaults
from consumers.journal.checksum import checksums
from consumers.shard.shape import OutputShape

__all__ = [
    "ChallengersRecord",
    "CommitRecord",
    "History",
    "IdentityRecord",
    "ImportedModel",
    "InputsRecord",
    "JournalRecord",
    "LaterRecord",
    "MixRecord",
    "MovedFrom",
    "MovedRecord",
    "PeerStatistics",
    "Range",
    "RelearnRecord",
    "RollbackRecord",
    "SchemasRecord",
    "StoredFile",
    "decode",
    "defaults_of",
    "encode",
    "entry_of",
    "mark_of",
    "packed",
    "unpacked",
    "written",
]

MOST_EARLY = 10_000  # refused early labels in one journal record, which must fit its topic


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a journal holds. A field that this version does not know is an error: a newer version
    has written it, and without its meaning the model would be another one."""


class StoredFile(_Stored, frozen=True):
    """A file in the journal: its hash and size, and the number of journal records that hold it, see
    `consumers.journal.model_parts`."""

    sha256: str
    size: int
    parts: int


class ImportedModel(StoredFile, frozen=True):
    """The model with which a journal began: its file, its fingerprint, and where it comes from."""

    fingerprint: str
    source: dict[str, Any]

    def __str__(self) -> str:
        if "history" in self.source:
            return (
                f"learned from {self.source['history']}, with {counted(self.labels, 'label')} "
                f"learned (sha256 {self.sha256[:16]})"
            )
        known = {"model": "?", "service": "?", "position": "?", **self.source}
        return (
            f"{known['model']} of the service {known['service']} at journal position "
            f"{known['position']}, with {counted(self.labels, 'label')} learned "
            f"(sha256 {self.sha256[:16]})"
        )

    @property
    def labels(self) -> int:
        """How many labels it had learned; 0 if its file does not say it."""
        found = self.source.get("learned")
        return found if isinstance(found, int) else 0


class History(_Stored, frozen=True):
    """What the model of record 0 learned before it, see `headwater backfill`.

    `manifest` is the file that lists the splits of the history, and `waiting` the one with the
    records that still waited for their counterpart; None without any. `cut` is "offsets" if
    the inputs continue at the offset where the history ends, "time" if they continue at its time.
    `until` is that time in ms, None if it was not given. `time` is the stream time in ms at which
    the service continues, None if it is not known.
    """

    manifest: StoredFile
    waiting: StoredFile | None
    cut: str
    until: int | None
    time: int | None


class MovedFrom(_Stored, frozen=True):
    """The shards of which the shards of a journal were made, see `headwater reshard`.

    `journal` is their journal, and `shards` how many they were. They have published the predictions
    of the records up to number `last` of this journal.
    """

    journal: str
    shards: int
    last: int


class IdentityRecord(_Stored, frozen=True, tag="identity", tag_field="kind", omit_defaults=True):
    """Journal record 0: the identity of the service. It never changes.

    `identity` is the part of the configuration that decides what is learned. `fields` is the
    declared or inferred schema. `starts` are the offsets at which consumption starts. `born` is
    unique to this journal, so that it never loads a snapshot of another journal. `auto` is type and
    parameters of the learner for which `auto` stands. `topics` are the ids of the input topics to
    which `starts` belong. `replaces` describes the traces of an earlier run that the operator chose
    to replace. `model` is the imported model and `history` what it learned, if this service learned
    it. `moved` is set if the service had another number of shards before. `relearned` is not in
    record 0: it is number and offset of the `RelearnRecord` that replaced `identity`, see `under`.
    """

    name: str
    shard: int
    identity: dict[str, Any]
    fields: list[tuple[str, str]]
    starts: list[tuple[str, int, int]]
    born: str
    auto: dict[str, Any]
    topics: dict[str, str]
    replaces: list[str] = []
    relearned: tuple[int, int] | None = None
    model: ImportedModel | None = None
    history: History | None = None
    moved: MovedFrom | None = None

    @property
    def seq(self) -> int:
        """Its number in the journal."""
        return 0

    @property
    def now(self) -> int:
        """It carries no clock."""
        return 0

    @property
    def since(self) -> int:
        """Number of the record that set `identity`: 0, or that of a `RelearnRecord`."""
        return 0 if self.relearned is None else self.relearned[0]

    @property
    def settings(self) -> int:
        """Offset of the `RelearnRecord` that set `identity`; 0 for record 0 itself."""
        return 0 if self.relearned is None else self.relearned[1]

    def under(self, identity: dict[str, Any], relearned: tuple[int, int]) -> IdentityRecord:
        """The same service with the settings of a `RelearnRecord`, by its number and offset."""
        return msgspec.structs.replace(self, identity=identity, relearned=relearned)


class Range(_Stored, frozen=True, array_like=True):
    """Records of one partition: offsets from `first` to `end` - 1, their count and checksum."""

    topic: str
    partition: int
    first: int
    end: int
    count: int
    crc32: int


class CommitRecord(_Stored, frozen=True, tag="commit", tag_field="kind", omit_defaults=True):
    """One commit. It also holds all other decisions, so that a replay repeats it.

    `now` is the wall clock in ms. `skips` are the records (topic, partition, offset, reason) that
    were not processed. `max_dead_letter_ratio` is the limit of the breaker. `chain` is the shard's
    hash of every prediction and score so far; a replay that diverges finds another hash. `drift` is
    what is monitored from this commit on, if that changed, because an alarm may change the model.
    `aside` means that the outputs were written after it, outside of its transaction (at least
    once). `topics` are ids of input topics that are new to the journal. `shape` is the format of
    the outputs, if it changed. `early` are the
    early labels that became dead letters in this commit, offsets by partition; they stay dead
    letters if a rollback removes the commit. `snapshots` are those written or loaded since the
    previous record: position, and fingerprint of the state. A snapshot with another fingerprint is
    not used. `against` is set with [labels] silence: a bit for each record in the order of the
    commit, 1 if the published prediction was decided otherwise than silence asks. Bits of 0 at the
    end are left out, see `packed`.
    `max_rows` is how many rows a message has at most, if messages have rows; the counts of `ranges`
    are those of messages.
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
    settings: int = 0
    against: bytes | None = None
    max_rows: int = 0


class RollbackRecord(_Stored, frozen=True, tag="rollback", tag_field="kind", omit_defaults=True):
    """A rollback: from here on the shard has the state after record `to`.

    The records between are removed from the model's history. Their input stays consumed, their
    predictions stay published, and nothing is learned from them. `chain` is that of record `to`.
    """

    seq: int
    now: int
    to: int
    chain: str
    reason: str = ""
    settings: int = 0


class ChallengersRecord(
    _Stored, frozen=True, tag="challengers", tag_field="kind", omit_defaults=True
):
    """The challengers from here on, name to configuration. New challengers start empty.

    `threshold` is the e-value at which a challenger is promoted, None for never. `champion` is the
    champion from here on, "" for [model]; None keeps the current one. `chain` is that of the
    previous record.
    """

    seq: int
    now: int
    challengers: dict[str, dict[str, Any]]
    chain: str
    threshold: float | None = None
    champion: str | None = None
    reason: str = ""
    settings: int = 0


class InputsRecord(_Stored, frozen=True, tag="inputs", tag_field="kind", omit_defaults=True):
    """The inputs changed: partitions were added, or a topic was recreated.

    `starts` is where reading continues, for partitions that are new or restart. `gone` are
    partitions that no longer exist. `topics` are the ids from here on. `chain` is that of the
    previous record.
    """

    seq: int
    now: int
    chain: str
    starts: list[tuple[str, int, int]] = []
    gone: list[tuple[str, int]] = []
    topics: dict[str, str] = {}
    reason: str = ""
    settings: int = 0


class SchemasRecord(_Stored, frozen=True, tag="schemas", tag_field="kind", omit_defaults=True):
    """Schemas of the registry, by id, that the records after it may have.

    A commit is processed only when the journal has every schema of its records that the registry
    knows. So a replay decodes them without a registry. `chain` is that of the previous record.
    """

    seq: int
    now: int
    chain: str
    schemas: list[tuple[int, StoredSchema]]
    settings: int = 0


class PeerStatistics(_Stored, frozen=True, array_like=True):
    """The statistics that another shard has published: a file in its partition of the mix topic,
    in the records with offsets from `first` to `end` - 1."""

    shard: int
    first: int
    end: int
    file: StoredFile


class MixRecord(_Stored, frozen=True, tag="mix", tag_field="kind", omit_defaults=True):
    """From here on the shard predicts with these statistics of other shards, and with those of the
    shards that earlier records name.

    The transaction of this record may also have published the own statistics, which changes
    nothing here. `chain` is that of the previous record.
    """

    seq: int
    now: int
    chain: str
    peers: list[PeerStatistics] = []
    settings: int = 0


class RelearnRecord(_Stored, frozen=True, tag="relearn", tag_field="kind"):
    """New settings: from here on the shard is one that has had them since record 0.

    `identity` replaces that of record 0. A replay to this record or a later one processes all
    commits of the history with the new settings. The hashes of the records before this one belong
    to the earlier settings; `chain` is the hash that the new settings give at this record. No
    challengers are left.
    """

    seq: int
    now: int
    identity: dict[str, Any]
    chain: str
    reason: str = ""


class MovedRecord(_Stored, frozen=True, tag="moved", tag_field="kind", omit_defaults=True):
    """The last record of a journal: the service continues with `shards` shards in another journal.

    `chain` is that of the previous record.
    """

    seq: int
    now: int
    chain: str
    shards: int
    journal: str
    reason: str = ""
    settings: int = 0


LaterRecord = (
    CommitRecord
    | RollbackRecord
    | ChallengersRecord
    | InputsRecord
    | SchemasRecord
    | MixRecord
    | RelearnRecord
    | MovedRecord
)
JournalRecord = IdentityRecord | LaterRecord

_decoder: msgspec.json.Decoder[JournalRecord] = msgspec.json.Decoder(JournalRecord)
_encoder = msgspec.json.Encoder()


def encode(entry: JournalRecord) -> bytes:
    """The journal record as JSON."""
    return _encoder.encode(entry)


def written(entry: JournalRecord, journal: Partition, now: int) -> Outgoing:
    """The journal record as a record of its topic."""
    return Outgoing(journal.topic, str(entry.seq).encode(), encode(entry), now, (), journal.number)


def decode(value: bytes | None) -> JournalRecord:
    """The inverse of `encode`.

    Raises
    ------
    JournalFormatError
        It is not a journal record that this version knows.
    """
    try:
        return _decoder.decode(value or b"")
    except UNDECODABLE as error:
        raise JournalFormatError(
            f"expected a journal record, got something else ({error}): another program, or a newer "
            "version, writes to the journal's topic; start that version, or restore the topic"
        ) from None


def entry_of(
    batch: Batch,
    firsts: Mapping[Partition, int],
    *,
    seq: int,
    now: int,
    outputs: tuple[int, int],
    chain: str = "",
    skips: Sequence[tuple[str, int, int, str]] = (),
    max_dead_letter_ratio: float = 0.5,
    drift: dict[str, Any] | None = None,
    aside: bool = False,
    topics: Mapping[str, str] | None = None,
    shape: OutputShape | None = None,
    early: Iterable[tuple[Partition, int]] = (),
    snapshots: Mapping[int, str] | None = None,
    settings: int = 0,
    against: NDArray[np.bool_] | None = None,
    max_rows: int = 0,
) -> CommitRecord:
    """The journal record of a batch.

    Parameters
    ----------
    firsts
        The position of each partition before the batch. So ranges have no gaps between them, also
        if the log has some.
    outputs
        How many predictions and dead letters the batch produced.
    chain
        The shard's hash after the batch.
    skips, max_dead_letter_ratio, drift, aside, topics, shape, snapshots, settings
        See `CommitRecord`.
    against, max_rows
        See `CommitRecord`.
    early
        Partition and offset of the early labels that it refused. The first `MOST_EARLY` are
        journaled.
    """
    refused: dict[Partition, list[int]] = {}
    for partition, offset in islice(early, MOST_EARLY):
        refused.setdefault(partition, []).append(offset)
    sums = dict(zip(batch.parts.partitions, checksums(batch.parts), strict=True))
    ranges = [
        Range(p.topic, p.number, firsts[p], end, count, sums[p])
        for p, (_, end, count) in sorted(batch.ranges.items())
    ]
    return CommitRecord(
        seq,
        now,
        ranges,
        *outputs,
        chain,
        list(skips),
        max_dead_letter_ratio,
        drift,
        aside,
        dict(topics or {}),
        shape,
        [(*partition, offsets) for partition, offsets in sorted(refused.items())],
        sorted((snapshots or {}).items()),
        settings,
        None if against is None else packed(against),
        max_rows,
    )


def packed(flags: NDArray[np.bool_]) -> bytes:
    """A bit for each value, without the zero bytes at the end.

    Examples
    --------
    >>> flags = np.array([True, False, True] + [False] * 20)
    >>> packed(flags)
    b'\\x05'
    >>> np.array_equal(unpacked(packed(flags), len(flags)), flags)
    True
    """
    return np.packbits(flags, bitorder="little").tobytes().rstrip(b"\0")


def unpacked(bits: bytes, count: int) -> NDArray[np.bool_]:
    """The inverse of `packed` for `count` values."""
    # numpy does not fill up no bytes at all: it returns whatever is in memory.
    whole = np.frombuffer(bits.ljust(-(-count // 8), b"\0"), np.uint8)
    return np.unpackbits(whole, count=count, bitorder="little").astype(np.bool_)


def defaults_of(identity: IdentityRecord) -> Defaults:
    """The defaults with which the journal began."""
    return Defaults(identity.auto)


def mark_of(identity: IdentityRecord) -> str:
    """The hash of an identity. It distinguishes the snapshots of this journal from all others."""
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
