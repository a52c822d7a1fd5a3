"""Bounds in bytes: what waits, is committed and is read again; they change no bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import strategies as st

from consumers.base.records import RECORD_BYTES, Batch, Fetched, Partition, record_bytes
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.journal.checksum import RangeChecksum, checksum
from consumers.journal.merge import Merge
from tests.consumers import feeds
from tests.faults.cuts import program
from tests.oracles.merge import merge_heads
from tests.seed import seeds

LABELS = frozenset({"answers"})
INPUTS = [Partition("events", 0), Partition("events", 1), Partition("events", 2)]
INPUTS += [Partition("answers", 0), Partition("answers", 1)]
Kept = dict[Partition, Fetched]


def random_logs(rng: np.random.Generator, largest: int) -> Kept:
    """Logs of records of any size, some partitions empty, timestamps that go back."""
    logs = {}
    for partition in INPUTS:
        n = int(rng.integers(0, 40))
        times = np.sort(rng.integers(0, 40, size=n)) + rng.integers(-8, 8, size=n)
        sizes = (largest ** rng.random(n)).astype(int).tolist()
        keys = [None if rng.random() < 0.3 else b"k" * int(rng.integers(0, 50)) for _ in range(n)]
        values = [None if rng.random() < 0.1 else b"v" * size for size in sizes]
        offsets = (np.cumsum(rng.integers(1, 4, size=n)) - 1).tolist()
        logs[partition] = Fetched(partition, offsets, times.tolist(), keys, values)
    return logs


class Served:
    """Logs that are polled as an owner is, any number of partitions at a time."""

    def __init__(self, logs: Kept, rng: np.random.Generator) -> None:
        self.left = {p: Fetched(p, *map(list, columns(log))) for p, log in logs.items()}
        self.ends = {p: log.offsets[-1] + 1 if log.offsets else 0 for p, log in logs.items()}
        self._rng = rng

    def poll(self, max_bytes: int, skip: list[Partition]) -> list[Fetched]:
        """Some records of some of the partitions that are wanted, if there are any."""
        wanted = [p for p, log in self.left.items() if log.offsets and p not in skip]
        self._rng.shuffle(wanted)
        out = []
        for p in wanted[: int(self._rng.integers(1, 4))]:
            if max_bytes <= 0:
                break
            found = self.left[p].shift(self.left[p].within(max_bytes))
            max_bytes -= found.nbytes
            out.append(found)
        return out


def columns(log: Fetched) -> tuple[list[int], list[int], list[bytes | None], list[bytes | None]]:
    return log.offsets, log.timestamps, log.keys, log.values


def heads(batch: Batch) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each record."""
    for s, offset in zip(batch.source.tolist(), batch.offsets.tolist(), strict=True):
        yield (*batch.partitions[s], offset)


def size(batch: Batch) -> int:
    return sum(map(record_bytes, batch.keys, batch.values))


@seeds(largest=st.sampled_from([1, 300, 5_000]), bound=st.sampled_from([200, 2_000, 50_000]))
def test_any_byte_bound_gives_the_order_of_the_heads_and_is_kept(seed, largest, bound) -> None:
    """Whatever lags: no deadlock, no buffer past its bound by more than a record a partition."""
    rng = np.random.default_rng(seed)
    logs = random_logs(rng, largest)
    most = max((int(log.sizes().max()) for log in logs.values() if log.offsets), default=0)
    served, merge = Served(logs, rng), Merge(INPUTS, LABELS, 2 * bound)
    merge.seek(dict.fromkeys(INPUTS, 0))
    told: list[tuple[str, int, int]] = []
    while any(log.offsets for log in served.left.values()) or len(merge):
        fetched = served.poll(merge.room, merge.full(1000))
        merge.add(fetched)
        assert merge.nbytes <= 2 * bound + most * len(INPUTS)
        batch = merge.take(7, served.ends, max_bytes=bound)
        assert fetched or batch is not None, "a full buffer waits for one that is never polled"
        if batch is not None:
            assert size(batch) <= bound or len(batch) == 1
            told += heads(batch)

    times = {tuple(p): list(zip(g.offsets, g.timestamps, strict=True)) for p, g in logs.items()}
    assert told == merge_heads(times, LABELS)


def test_bytes_of_a_merge_are_those_of_its_records() -> None:
    """They go with the records, and come back to nothing."""
    rng = np.random.default_rng(5)
    logs = random_logs(rng, 900)
    merge = Merge(INPUTS, LABELS)
    merge.add(logs.values())
    left = sum(int(log.sizes().sum()) for log in logs.values())
    while len(merge):
        assert merge.nbytes == left
        batch = merge.take(9, {}, wait=False, max_bytes=1_000)
        assert batch is not None
        left -= size(batch)

    assert merge.nbytes == 0


def test_one_partition_alone_may_fill_half_and_leaves_room_for_another() -> None:
    """The free half is what a partition that lags is read into."""
    one, other = INPUTS[:2]
    merge = Merge(INPUTS, LABELS, 1_000)
    value = b"x" * (100 - RECORD_BYTES % 100)
    while one not in merge.full():
        merge.add([Fetched(one, [len(merge)], [0], [None], [value])])

    assert 500 <= merge.nbytes < 500 + RECORD_BYTES + 100
    assert other not in merge.full()
    assert merge.room > 0


def test_partition_with_an_empty_buffer_is_never_full() -> None:
    """It may be the one that all others wait for."""
    one, other = INPUTS[:2]
    merge = Merge(INPUTS, LABELS, 1_000)
    merge.add([Fetched(one, [0], [0], [None], [b"x" * 10**6])])

    assert merge.full() == [one]
    assert merge.room == 1
    assert other not in merge.full(1)


@seeds(most=st.integers(1, 60))
def test_checksum_of_pieces_is_that_of_the_whole(seed, most) -> None:
    """Whatever the cuts; empty, absent and large cells among them."""
    rng = np.random.default_rng(seed)
    log = random_logs(rng, 2_000)[INPUTS[0]]
    whole, pieces = checksum(log), RangeChecksum()
    left = Fetched(log.partition, *map(list, columns(log)))
    while left.offsets:
        pieces.add(left.shift(int(rng.integers(1, most + 1))))

    assert (pieces.value, pieces.count) == (whole, len(log))


@seeds(0.0175)
def test_byte_bound_changes_no_prediction_and_no_state(seed, tmp_path_factory) -> None:
    """Live and replayed by any other bound, whatever the service watches, explains or compares."""
    assert program(seed, tmp_path_factory.mktemp("program")) == []


def test_refused_records_are_kept_without_what_they_were_raised_from() -> None:
    """A traceback holds the record, decoded and not, in a cycle: gigabytes until a collection."""
    observations = JsonObservations(feeds.SCHEMA, "id", None)
    refused = observations.decode([None] * 3, [b"{", b'{"id": 1, "a": "x"}', b'{"a": 1}']).rejected
    refused |= {
        10 + i: error
        for i, error in JsonLabels().decode([None] * 2, [b"{", b'{"id": 1}']).rejected.items()
    }

    assert len(refused) == 5
    for error in refused.values():
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


@pytest.mark.parametrize("count", [2, 10, 60])
def test_many_partitions_are_merged_in_large_batches(count: int) -> None:
    """Although the log gives one partition after the other: the first ones filled all space, and
    the rest came record by record."""
    each, space = 100, 20_000 * count  # bytes for 20 records of each partition
    parts = [Partition("obs", n) for n in range(count)]
    left, ends = {p: list(range(each)) for p in parts}, dict.fromkeys(parts, each)
    value = b"x" * (1_000 - RECORD_BYTES)
    merge, batches = Merge(parts, (), space), list[int]()
    merge.seek(dict.fromkeys(parts, 0))
    while any(left.values()) or len(merge):
        share = merge.share(ends)
        skipped = merge.full(1_000, share)
        for part in [p for p in parts if left[p] and p not in skipped][:1]:
            n = max(1, min(merge.room, share) // 1_000)
            offsets, left[part] = left[part][:n], left[part][n:]
            times = [1_000 * offset + part.number for offset in offsets]
            merge.add(
                [Fetched(part, offsets, times, [None] * len(offsets), [value] * len(offsets))]
            )
        assert merge.nbytes <= space
        if (batch := merge.take(10**6, ends)) is not None:
            batches.append(len(batch))

    assert sum(batches) == each * count
    assert sum(batches) / len(batches) > count / 2
