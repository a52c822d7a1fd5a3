"""The merge order, hold-back, cuts and checksums: what makes a replay see what the run saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from consumers.base.errors import JournalFormatError, TransportError
from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition
from consumers.journal import records as journal
from consumers.journal.merge import Merge
from consumers.journal.reader import RangeCheck
from consumers.journal.records import CommitRecord, IdentityRecord, Range, entry_of
from tests.oracles.merge import merge_heads
from tests.seed import seeds

LABELS = frozenset({"answers"})
P0, P1 = Partition("events", 0), Partition("events", 1)
ANSWERS = Partition("answers", 0)
Logs = dict[Partition, list[tuple[int, int]]]


def fetched(partition: Partition, records: list[tuple[int, int]]) -> Fetched:
    """Records (offset, timestamp); key and value tell the offset."""
    offsets = [offset for offset, _ in records]
    keys = [None if o % 3 == 0 else b"k%d" % o for o in offsets]
    values = [None if o % 7 == 6 else b"v%d" % o for o in offsets]
    return Fetched(partition, offsets, [ts for _, ts in records], keys, values)


def heads(batch: Batch | None) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each record of a batch."""
    if batch is None:
        return []
    source = [batch.partitions[s] for s in batch.source.tolist()]
    return [(p.topic, p.number, o) for p, o in zip(source, batch.offsets.tolist(), strict=True)]


def end(records: list[tuple[int, int]]) -> int:
    return records[-1][0] + 1 if records else 0


def chunks(logs: Logs, rng: np.random.Generator, chunk: int) -> Iterator[list[Fetched]]:
    """All records, some of one random partition at a time."""
    left = {p: list(records) for p, records in logs.items()}
    while waiting := [p for p in left if left[p]]:
        p = waiting[rng.integers(len(waiting))]
        k = int(rng.integers(1, chunk + 1))
        yield [fetched(p, left[p][:k])]
        del left[p][:k]


def polled(logs: Logs, rng: np.random.Generator, chunk: int, take: int) -> list[Batch]:
    """Batches taken while one random partition at a time is polled, until all is through."""
    merge = Merge(list(logs), LABELS)
    merge.seek(dict.fromkeys(logs, 0))
    ends = {p: end(records) for p, records in logs.items()}
    batches = []
    for some in chunks(logs, rng, chunk):
        merge.add(some)
        while (batch := merge.take(take, ends)) is not None:
            batches.append(batch)
    return batches


def random_logs(rng: np.random.Generator, most: int = 30) -> Logs:
    """Logs with gaps in their offsets and timestamps that go back."""
    logs: Logs = {}
    for partition in (P0, P1, Partition("events", 10), ANSWERS, Partition("answers", 1)):
        n = int(rng.integers(0, most))
        offsets = np.cumsum(rng.integers(1, 4, size=n)) - 1
        times = np.sort(rng.integers(0, 40, size=n)) + rng.integers(-8, 8, size=n)
        logs[partition] = list(zip(offsets.tolist(), times.tolist(), strict=True))
    return logs


@seeds(chunk=st.sampled_from([1, 2, 7, 100]), take=st.sampled_from([1, 3, 10, 1000]))
def test_any_polls_and_any_cuts_give_the_order_of_the_heads(seed, chunk, take) -> None:
    """Out-of-order timestamps, gaps, empty partitions, one partition at a time."""
    rng = np.random.default_rng(seed)
    logs = random_logs(rng)
    batches = polled(logs, rng, chunk, take)

    assert [head for b in batches for head in heads(b)] == merge_heads(logs, LABELS)
    assert all(len(b) <= take for b in batches)


@seeds(chunk=st.sampled_from([1, 7, 100]), size=st.sampled_from([1, 3, 10, 1000]))
def test_batches_of_what_is_read_have_the_order_of_the_heads(seed, chunk, size) -> None:
    """Each is full while there are more records, or a partition that is behind holds it."""
    rng = np.random.default_rng(seed)
    logs = random_logs(rng)
    merge = Merge(list(logs), LABELS)
    ends = {p: end(records) for p, records in logs.items()}
    batches = list(merge.batches(chunks(logs, rng, chunk), lambda: size, ends=ends))

    assert [head for b in batches for head in heads(b)] == merge_heads(logs, LABELS)
    assert all(len(b) <= size for b in batches)


def test_batches_read_no_more_than_the_next_one_needs() -> None:
    """What waits in memory stays bounded, and a size may change from batch to batch."""
    read = iter([[fetched(P0, [(i, i), (i + 1, i + 1)])] for i in range(0, 20, 2)])
    sizes = iter([3, 3, 3, 6, 6, 6, 6])
    batches = Merge([P0], LABELS).batches(read, lambda: next(sizes), ends={P0: 20})

    assert len(next(batches)) == 3
    assert sum(1 for _ in read) == 8


def test_batches_without_ends_wait_for_no_partition() -> None:
    """Each chunk then has all records up to its times."""
    read = [[fetched(P0, [(0, 1), (1, 3)]), fetched(P1, [(0, 2)])], [fetched(P0, [(2, 4)])]]
    batches = list(Merge([P0, P1, ANSWERS], LABELS).batches(read, lambda: 2))

    assert [[o for _, _, o in heads(b)] for b in batches] == [[0, 0], [1, 2]]


def test_batches_are_within_bytes_and_before_offsets() -> None:
    """As a replay takes a large commit: the next one starts where it ends."""
    merge = Merge([P0], LABELS, max_bytes=UNBOUNDED)
    merge.add([fetched(P0, [(i, i) for i in range(6)])])
    some = merge.batches((), lambda: UNBOUNDED, ends={P0: 5}, max_bytes=1, before={P0: 5})

    assert [len(b) for b in some] == [1, 1, 1, 1, 1]
    assert [heads(b) for b in merge.batches((), lambda: 9)] == [[("events", 0, 5)]]


@pytest.mark.parametrize("chunk", [1, 7, 500, 5000])
def test_cuts_of_a_prefilled_log_do_not_change_the_order(chunk) -> None:
    """The same total order for every size of a poll."""
    rng = np.random.default_rng(3)
    logs = random_logs(rng, most=1500)
    expected = merge_heads(logs, LABELS)
    batches = polled(logs, rng, chunk, take=chunk)

    assert [head for b in batches for head in heads(b)] == expected
    assert len(expected) > 2000


def test_batch_carries_the_records_as_they_were_fetched() -> None:
    """Keys, values and timestamps stay with their offsets."""
    logs = random_logs(np.random.default_rng(1))
    (batch,) = polled(logs, np.random.default_rng(2), 1000, 10_000)
    expected = {(p, o): (ts, k, v) for p in logs for o, ts, k, v in rows(fetched(p, logs[p]))}
    found = {
        (batch.partitions[s], o): (ts, k, v)
        for s, o, ts, k, v in zip(
            batch.source.tolist(),
            batch.offsets.tolist(),
            batch.timestamps.tolist(),
            batch.keys,
            batch.values,
            strict=True,
        )
    }

    assert found == expected


def rows(part: Fetched):
    """Offset, timestamp, key and value of each record."""
    return zip(part.offsets, part.timestamps, part.keys, part.values, strict=True)


def held() -> Merge:
    """P0 with records at 10, 20, 30 and P1 with one at 15."""
    merge = Merge([P0, P1, ANSWERS], LABELS)
    merge.add([fetched(P0, [(0, 10), (1, 20), (2, 30)]), fetched(P1, [(0, 15)])])
    return merge


def test_label_comes_after_an_observation_of_the_same_time() -> None:
    """Whatever the topics are called."""
    merge = Merge([ANSWERS, P0], LABELS)
    merge.add([fetched(ANSWERS, [(0, 5)]), fetched(P0, [(0, 5)])])

    assert heads(merge.take(10, {P0: 1, ANSWERS: 1})) == [("events", 0, 0), ("answers", 0, 0)]


def test_lagging_partition_holds_back_what_may_come_after_its_next_record() -> None:
    """P1 has more than was polled: nothing after its last known record is taken."""
    taken = held().take(10, {P0: 3, P1: 2, ANSWERS: 0})

    assert heads(taken) == [("events", 0, 0), ("events", 1, 0)]


def test_lagging_partition_with_an_empty_buffer_holds_back_everything() -> None:
    """Its next record may be the earliest of all."""
    merge = held()

    assert merge.take(10, {P0: 3, P1: 1, ANSWERS: 1}) is None
    assert len(merge) == 4


def test_partition_whose_end_is_not_known_holds_back() -> None:
    """No answer yet is not an end."""
    assert held().take(10, {P0: 3, P1: 1}) is None


def test_partition_that_is_caught_up_holds_nothing_back() -> None:
    """Waiting for a quiet partition would be waiting for ever."""
    merge = held()

    assert len(heads(merge.take(10, {P0: 3, P1: 1, ANSWERS: 0}))) == 4
    assert merge.take(10, {P0: 3, P1: 1, ANSWERS: 0}) is None


def test_partition_that_kept_the_others_too_long_is_not_waited_for() -> None:
    """wait=False takes what is there, in order."""
    taken = held().take(10, {P0: 3, P1: 2, ANSWERS: 9}, wait=False)

    assert [offset for _, _, offset in heads(taken)] == [0, 0, 1, 2]


def test_full_names_the_partitions_with_enough_in_their_buffers() -> None:
    """They need not be polled for now."""
    assert held().full(3) == [P0]
    assert held().full(1) == [P0, P1]


def test_seek_forgets_what_was_buffered() -> None:
    """After a recovery the buffers belong to nobody."""
    merge = held()
    merge.seek({P0: 1, P1: 0, ANSWERS: 0})

    assert (len(merge), merge.position(P0), merge.position(P1)) == (0, 1, 0)


def live_entries(seed: int, take: int) -> tuple[Logs, list[tuple[CommitRecord, Batch]]]:
    """A run over random logs: each batch and its entry."""
    rng = np.random.default_rng(seed)
    logs = random_logs(rng, most=60)
    firsts = dict.fromkeys(logs, 0)
    out = []
    for seq, batch in enumerate(polled(logs, rng, 9, take), 1):
        out.append((entry_of(batch, firsts, seq=seq, now=0, outputs=(0, 0)), batch))
        firsts |= {p: stop for p, (_, stop, _) in batch.ranges.items()}
    return logs, out


@pytest.mark.parametrize("take", [1, 5, 23])
def test_ranges_of_entries_tile_each_partition(take) -> None:
    """No gap and no overlap, though offsets have gaps; each record is counted once."""
    logs, entries = live_entries(7, take)
    at = dict.fromkeys(logs, 0)
    counted = 0
    for entry, batch in entries:
        for r in entry.ranges:
            partition = Partition(r.topic, r.partition)
            assert r.first == at[partition]
            assert r.end > r.first
            at[partition] = r.end
            counted += r.count
        assert sum(r.count for r in entry.ranges) == len(batch)

    assert at == {p: end(records) for p, records in logs.items()}
    assert counted == sum(map(len, logs.values()))


@pytest.mark.parametrize("take", [1, 5, 23, 10_000])
def test_order_inside_an_entry_is_found_again_from_its_ranges_alone(take) -> None:
    """A replay reads everything at once and splits it by the entries (I2)."""
    logs, entries = live_entries(8, take)
    whole = Merge(list(logs), LABELS)
    whole.add([fetched(p, records) for p, records in logs.items()])

    for entry, batch in entries:
        before = {Partition(r.topic, r.partition): r.end for r in entry.ranges}
        again = whole.take(1 << 62, {}, wait=False, before=before)
        assert again is not None
        assert heads(again) == heads(batch)
        assert (again.keys, again.values) == (batch.keys, batch.values)
        check(entry, again)
    assert len(whole) == 0


def small() -> tuple[CommitRecord, list[Fetched]]:
    """An entry over two partitions, and what it consumed."""
    parts = [fetched(P0, [(0, 10), (2, 20), (6, 30)]), fetched(ANSWERS, [(4, 15), (5, 25)])]
    batch = taken(parts)
    return entry_of(batch, {P0: 0, ANSWERS: 3}, seq=1, now=5, outputs=(3, 0)), parts


def check(entry: CommitRecord, *batches: Batch) -> None:
    """What a replay does with what it has read."""
    found = RangeCheck(entry)
    for batch in batches:
        found.add(batch)
    found.end()


def taken(parts: list[Fetched]) -> Batch:
    merge = Merge([P0, ANSWERS], LABELS)
    merge.add(parts)
    batch = merge.take(100, {}, wait=False)
    assert batch is not None
    return batch


def test_entry_says_what_was_consumed() -> None:
    """From where it stood, gaps included, to after the last record, and how many."""
    entry, _ = small()

    assert [(r.topic, r.first, r.end, r.count) for r in entry.ranges] == [
        ("answers", 3, 6, 2),
        ("events", 0, 7, 3),
    ]
    assert (entry.seq, entry.now, entry.predictions, entry.dead_letters) == (1, 5, 3, 0)


def changed(column: str, part: int, row: int, value: object) -> list[Fetched]:
    _, parts = small()
    cells = list(getattr(parts[part], column))
    cells[row] = value
    parts[part] = replace(parts[part], **{column: cells})
    return parts


@pytest.mark.parametrize(
    ("column", "part", "row", "value"),
    [
        ("values", 0, 1, b"v3"),
        ("values", 0, 2, b""),  # it was None
        ("values", 1, 0, None),
        ("keys", 0, 1, b"k3"),
        ("keys", 0, 0, b""),  # it was None
        ("keys", 1, 1, None),
        ("timestamps", 0, 0, 11),
        ("offsets", 0, 1, 1),
    ],
)
def test_changed_record_is_noticed(column, part, row, value) -> None:
    """Value, key, timestamp, offset: each is in the checksum, None and empty differ."""
    entry, parts = small()
    check(entry, taken(parts))

    with pytest.raises(TransportError, match=r"its records have changed or expired"):
        check(entry, taken(changed(column, part, row, value)))


def test_bytes_that_moved_between_records_are_noticed() -> None:
    """The lengths are in the checksum too."""
    entry, _ = small()
    parts = changed("values", 0, 0, b"v0v")
    parts[0].values[1] = b"2"

    with pytest.raises(TransportError, match="checksum"):
        check(entry, taken(parts))


def test_lost_record_is_noticed_and_the_message_says_where() -> None:
    """One line: which partition and offsets, how many were expected, how many came."""
    entry, parts = small()
    parts[0] = fetched(P0, [(0, 10), (2, 20)])

    with pytest.raises(
        TransportError, match=r"events\[0\] offsets 0 to 6: expected 3 records .* returns 2"
    ):
        check(entry, taken(parts))


def test_partition_that_lost_all_its_records_is_noticed() -> None:
    """Nothing is not a match for something."""
    entry, parts = small()

    with pytest.raises(TransportError, match=r"answers\[0\]"):
        check(entry, taken(parts[:1]))


def test_entries_come_back_as_they_were_written() -> None:
    """The identity with its nested values, and a batch."""
    settings = {"model": {"type": "m", "p": [1, 2.5, None]}}
    identity = IdentityRecord("n", 0, settings, [("a", "text")], [], "b", {"type": "m"}, {})
    entry = CommitRecord(3, 99, [Range("t", 1, 0, 5, 4, 123)], 4, 1)

    assert journal.decode(journal.encode(identity)) == identity
    assert journal.decode(journal.encode(entry)) == entry


@pytest.mark.parametrize(
    "value", [None, b"", b"{}", b'{"kind":"commit"}', b'{"kind":"x"}', b"\xff"]
)
def test_record_that_is_no_entry_is_one_line(value) -> None:
    """Something else writes to the journal's topic."""
    with pytest.raises(
        JournalFormatError, match="or a newer version, writes to the journal's topic"
    ) as caught:
        journal.decode(value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_one_timestamp_of_the_future_holds_nothing_back() -> None:
    """A wrong clock on one record: it sorts with the one before it, and the others as ever."""
    merge = Merge([P0, ANSWERS], {"answers"})
    merge.add([Fetched(P0, [0, 1, 2], [10, 4_102_444_800_000, 30], [None] * 3, [b""] * 3)])
    merge.add([Fetched(ANSWERS, [0, 1], [20, 40], [None] * 2, [b""] * 2)])
    taken = merge.take(10, {P0: 3, ANSWERS: 2}, now=1_000)

    order = [("events", 0), ("events", 1), ("answers", 0), ("events", 2), ("answers", 1)]
    assert [
        (taken.partitions[s].topic, o)
        for s, o in zip(taken.source.tolist(), taken.offsets.tolist(), strict=True)
    ] == order
