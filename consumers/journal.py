"""The journal: what a shard consumed, entry by entry, and the order it consumed it in. Pure.

Entry 0 is the `Identity` of the service; each later one is an `Entry`, the offset range of every
partition that moved, a `Reset` or a `Roster`. The order inside an entry is not stored: it is
recomputed from the records by `merge`, so it never depends on how polls happened to fall.

Order (version 1): a k-way merge of the partitions' heads by (record timestamp, observation before
label, topic, partition); within a partition offsets are never reordered.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.errors import TransportError
from consumers.records import Batch, Fetched, Outgoing, Partition, credible

__all__ = [
    "Entry",
    "Identity",
    "Journaled",
    "Merge",
    "Range",
    "Reset",
    "Roster",
    "check",
    "decode",
    "encode",
    "entry_of",
    "merge",
    "written",
]

MERGE_VERSION = 1
FIRST_JOIN_RULES = 1  # of a journal that does not name them
NO_CLOCK = 1 << 62  # every timestamp is credible


class Identity(msgspec.Struct, tag="identity", tag_field="kind", frozen=True):
    """Entry 0: what the service is, for good.

    `identity` is the configuration that decides what is learned; `fields` the schema as declared
    or inferred; `starts` the offsets consumption starts at; `born` is like no other journal's, so
    that no snapshot of another one is ever taken for its own. `join` numbers the rules by which
    labels meet observations, see `stream.join`: a journal keeps those it was begun with.
    """

    name: str
    shard: int
    identity: dict[str, Any]
    fields: list[tuple[str, str]]
    starts: list[tuple[str, int, int]]
    born: str
    merge: int = MERGE_VERSION
    join: int = FIRST_JOIN_RULES

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


class Entry(msgspec.Struct, tag="batch", tag_field="kind", frozen=True, omit_defaults=True):
    """One commit. What was decided beside the records is journaled, so that a replay sees the same.

    `now` is the wall clock in ms; `skips` the records (topic, partition, offset, reason) that were
    passed over; `max_dead_letter_ratio` where the breaker stood. `chain` is the shard's hash of
    every prediction and score bit so far: a replay that goes another way shows at once. `drift` is
    what is watched from this entry on, where that changed: an alarm may change the model. `aside`
    says that its outputs were written after it, outside of its transaction (at least once).
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


class Reset(msgspec.Struct, tag="reset", tag_field="kind", frozen=True):
    """A rollback: from here on the shard is what it was after entry `to`.

    The entries between are cut out of the model's history: their records stay consumed and their
    predictions said, and nothing of them is learned any more. `chain` is that of entry `to`.
    """

    seq: int
    now: int
    to: int
    chain: str
    reason: str = ""


class Roster(msgspec.Struct, tag="roster", tag_field="kind", frozen=True, omit_defaults=True):
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


Journaled = Identity | Entry | Reset | Roster

_decoder: msgspec.json.Decoder[Journaled] = msgspec.json.Decoder(Journaled)
_encoder = msgspec.json.Encoder()


def encode(entry: Journaled) -> bytes:
    """The entry as JSON."""
    return _encoder.encode(entry)


def written(entry: Journaled, journal: Partition, now: int) -> Outgoing:
    """The entry as a record of its journal."""
    return Outgoing(journal.topic, str(entry.seq).encode(), encode(entry), now, (), journal.number)


def decode(value: bytes | None) -> Journaled:
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


class Merge:
    """Buffers of what was polled, and the merge of them.

    Parameters
    ----------
    inputs
        Every input partition.
    labels
        The topics that hold labels: their records come after observations of the same time.
    """

    def __init__(self, inputs: Sequence[Partition], labels: Collection[str]) -> None:
        order = sorted(inputs, key=lambda p: (p.topic in labels, p.topic, p.number))
        self._rank = {partition: rank for rank, partition in enumerate(order)}
        self._order = order
        self._labels = labels
        self._buffers = {partition: Fetched(partition, [], [], [], []) for partition in order}
        self._next: dict[Partition, int] = {}

    def __len__(self) -> int:
        return sum(len(b) for b in self._buffers.values())

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Forget what is buffered; each partition goes on at its position."""
        self._next = dict(positions)
        for partition in self._order:
            self._buffers[partition] = Fetched(partition, [], [], [], [])

    def add(self, fetched: Iterable[Fetched]) -> None:
        """Buffer polled records."""
        for part in fetched:
            buffer = self._buffers[part.partition]
            buffer.offsets += part.offsets
            buffer.timestamps += part.timestamps
            buffer.keys += part.keys
            buffer.values += part.values
            if part.offsets:
                self._next[part.partition] = part.offsets[-1] + 1

    def position(self, partition: Partition) -> int:
        """The offset after the last record of `partition` that was added."""
        return self._next.get(partition, 0)

    def full(self, size: int) -> list[Partition]:
        """Partitions with at least `size` buffered records."""
        return [p for p, b in self._buffers.items() if len(b) >= size]

    def take(
        self,
        max_records: int,
        ends: Mapping[Partition, int],
        *,
        now: int = NO_CLOCK,
        wait: bool = True,
    ) -> Batch | None:
        """The next records in order, removed from the buffers; None where there are none.

        Parameters
        ----------
        max_records
            At most so many.
        ends
            Known end of each partition. One that lags behind its end, or whose end is not known,
            holds the merge at its last buffered record: an earlier one may still come.
        now
            The wall clock in ms that the entry will carry; without one every timestamp counts.
        wait
            False takes what is buffered, held or not: a partition kept the others too long.
        """
        # No more than so many of one partition can be among the first: the others need no order.
        parts = [b.head(max_records) for b in self._buffers.values() if b.offsets]
        if not parts:
            return None
        order, source = merge(parts, [self._rank[b.partition] for b in parts], now)
        n = min(order.size, max_records)
        if wait:
            n = min(n, self._held(parts, order, source, ends))
        if n == 0:
            return None
        return self._cut(parts, source[order[:n]])

    def split(self, ends: Mapping[Partition, int]) -> Merge:
        """A merge of the buffered records before `ends`, removed from here."""
        out = Merge(self._order, self._labels)
        for partition, end in ends.items():
            buffer = self._buffers[partition]
            out.add([buffer.shift(bisect_left(buffer.offsets, end))])
        return out

    def _held(
        self,
        parts: list[Fetched],
        order: NDArray[np.int64],
        source: NDArray[np.int64],
        ends: Mapping[Partition, int],
    ) -> int:
        """How many of the ordered records no later arrival can come before."""
        lagging = [p for p in self._order if self._next.get(p, 0) < ends.get(p, 1 << 62)]
        at = {b.partition: i for i, b in enumerate(parts)}
        if any(p not in at for p in lagging):
            return 0
        limit = order.size
        ordered = source[order]
        for partition in lagging:
            limit = min(limit, int(np.flatnonzero(ordered == at[partition])[-1]) + 1)
        return limit

    def _cut(self, parts: list[Fetched], source: NDArray[np.int64]) -> Batch:
        """A batch of the next records, which are of these parts: the first of each buffer."""
        counts = np.bincount(source, minlength=len(parts)).tolist()
        taken = [self._buffers[p.partition].shift(k) for p, k in zip(parts, counts, strict=True)]
        order = np.empty(source.size, dtype=np.int64)
        order[np.argsort(source, kind="stable")] = np.arange(source.size)
        return batch_of(taken, order, source)


def merge(
    parts: Sequence[Fetched], rank: Sequence[int], now: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order of the concatenated records, and each one's part.

    A head that is later than those behind it holds them back, so a record sorts by the running
    maximum of the timestamps before it; the sort is stable, so offsets keep their order. A
    timestamp in the future tells nothing: that record sorts with the one before it, so that one
    wrong clock cannot hold a partition back behind all others.
    """
    times = np.concatenate(
        [
            np.maximum.accumulate(credible(np.array(p.timestamps, dtype=np.int64), now))
            for p in parts
        ]
    )
    source = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
    order = np.lexsort((np.asarray(rank, dtype=np.int64)[source], times))
    return order, source


def batch_of(
    parts: Sequence[Fetched], order: NDArray[np.int64], source: NDArray[np.int64]
) -> Batch:
    """The records at `order` of the concatenated parts; `source` is the part of each."""
    offsets = np.concatenate([np.array(p.offsets, dtype=np.int64) for p in parts])[order]
    timestamps = np.concatenate([np.array(p.timestamps, dtype=np.int64) for p in parts])[order]
    keys: list[bytes | None] = [k for p in parts for k in p.keys]
    values: list[bytes | None] = [v for p in parts for v in p.values]
    at = order.tolist()
    ranges = {}
    for i, part in enumerate(parts):
        mine = offsets[source == i]
        if mine.size:
            ranges[part.partition] = (int(mine[0]), int(mine[-1]) + 1, int(mine.size))
    return Batch(
        [p.partition for p in parts],
        source,
        offsets,
        timestamps,
        [keys[i] for i in at],
        [values[i] for i in at],
        ranges,
        parts,
    )


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
) -> Entry:
    """The journal entry of a batch.

    Parameters
    ----------
    firsts
        Where each partition stood: ranges tile, gaps of the log included.
    said
        How many predictions and dead letters it brought.
    chain
        The shard's hash after it.
    skips, max_dead_letter_ratio, drift, aside
        See `Entry`.
    """
    sums = _checksums(batch)
    ranges = [
        Range(p.topic, p.number, firsts[p], end, count, sums[p])
        for p, (_, end, count) in sorted(batch.ranges.items())
    ]
    return Entry(seq, now, ranges, *said, chain, list(skips), max_dead_letter_ratio, drift, aside)


def check(entry: Entry, batch: Batch) -> None:
    """Whether `batch`, read again, is what `entry` consumed.

    Raises
    ------
    TransportError
        The log has changed or lost records since.
    """
    sums = _checksums(batch)
    for r in entry.ranges:
        partition = Partition(r.topic, r.partition)
        count = batch.ranges.get(partition, (0, 0, 0))[2]
        if count != r.count or sums.get(partition, 0) != r.crc32:
            raise TransportError(
                f"{partition} offsets {r.first} to {r.end - 1}: expected {r.count} records with "
                f"checksum {r.crc32:08x}, the log now gives {count}; its records have changed or "
                "expired, and this model cannot be rebuilt from them"
            )


def _checksums(batch: Batch) -> dict[Partition, int]:
    """Of the records of each partition: where, when and what they are."""
    out = {}
    for part in filter(len, batch.parts):
        crc = 0
        for numbers in (part.offsets, part.timestamps):
            crc = zlib.crc32(np.array(numbers, dtype=np.int64).tobytes(), crc)
        for cells in (part.keys, part.values):
            sizes = np.array([-1 if c is None else len(c) for c in cells], dtype=np.int64)
            crc = zlib.crc32(b"".join(filter(None, cells)), zlib.crc32(sizes.tobytes(), crc))
        out[part.partition] = crc
    return out
