"""What anybody may do with a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice, pairwise

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Outgoing, Partition, Record
from tests.waiting import PATIENCE

# An hour ago: a broker deletes what is older than its retention and refuses the future.
BASE = int(time.time() * 1000) - 3_600_000


def test_created_topic_is_listed_with_its_partitions(log, make_topic):
    """`topics` tells how many partitions each has."""
    topic = make_topic(partitions=3)

    assert log.topics()[topic] == 3


def test_creating_a_topic_again_changes_nothing(log, make_topic, numbered, values):
    """Neither its partitions nor its records."""
    topic = make_topic(partitions=2)
    log.append(numbered(topic, 3))

    log.create_topic(topic, 5)

    assert log.topics()[topic] == 2
    assert values(log, topic) == [b"0", b"1", b"2"]


def test_topic_made_elsewhere_is_seen(connect, log, make_topic, eventually):
    """A log that is open already sees the topics of others."""
    other = connect()
    other.topics()
    topic = make_topic()

    assert eventually(lambda: other.topics().get(topic), 1) == 1


def test_new_topic_is_empty(log, make_topic, read_all):
    """Its end is its beginning and there is nothing to read."""
    partition = Partition(make_topic(), 0)

    assert log.end_offsets([partition]) == log.beginning_offsets([partition])
    assert read_all(log, [partition]) == []


def test_records_are_read_in_the_order_they_were_written(log, make_topic, numbered, read_all):
    """Values in order, offsets rising, over several appends."""
    topic = make_topic()
    log.append(numbered(topic, 5))
    log.append(numbered(topic, 5, first=5))

    chunks = read_all(log, [Partition(topic, 0)])

    offsets = [offset for chunk in chunks for offset in chunk.offsets]
    assert [value for chunk in chunks for value in chunk.values] == [b"%d" % i for i in range(10)]
    assert all(before < after for before, after in pairwise(offsets))


def test_large_read_yields_every_record_of_every_partition_once(
    log, make_topic, numbered, read_all
):
    """More records than a chunk holds, in two partitions."""
    topic = make_topic(partitions=2)
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    for partition, count in zip(partitions, (2500, 1200), strict=True):
        log.append(numbered(topic, count, partition=partition.number))

    found = {partition: [] for partition in partitions}
    for chunk in read_all(log, partitions):
        found[chunk.partition].extend(chunk.values)

    assert found[partitions[0]] == [b"%d" % i for i in range(2500)]
    assert found[partitions[1]] == [b"%d" % i for i in range(1200)]


def test_read_stays_within_the_range(log, make_topic, numbered, read_all):
    """From the start, which is included, up to the end, which is not."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 10))
    offsets = [offset for chunk in read_all(log, [partition]) for offset in chunk.offsets]

    chunks = list(log.read({partition: offsets[3]}, {partition: offsets[7]}))

    assert [value for chunk in chunks for value in chunk.values] == [b"3", b"4", b"5", b"6"]


def test_empty_range_yields_nothing(log, make_topic, numbered):
    """A start at the end is read at once."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 3))
    ends = log.end_offsets([partition])

    assert list(log.read(ends, ends)) == []


def test_end_is_after_the_last_record(log, make_topic, numbered, read_all):
    """And the beginning is not after the first."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 3))

    offsets = [offset for chunk in read_all(log, [partition]) for offset in chunk.offsets]

    assert log.beginning_offsets([partition])[partition] <= offsets[0]
    assert log.end_offsets([partition])[partition] > offsets[-1]


def test_offset_at_a_time_is_the_first_record_not_before_it(log, make_topic, read_all):
    """Also where the times of the records go back."""
    topic = make_topic()
    partition = Partition(topic, 0)
    log.append([Outgoing(topic, None, b"x", BASE + after) for after in (100, 300, 200, 400)])
    offsets = [offset for chunk in read_all(log, [partition]) for offset in chunk.offsets]

    found = [
        log.offsets_at([partition], BASE + after)[partition] for after in (0, 100, 150, 250, 400)
    ]

    assert found == [offsets[0], offsets[0], offsets[1], offsets[1], offsets[3]]


def test_offset_at_a_time_after_every_record_is_the_end(log, make_topic):
    """There is nothing to read from there yet."""
    topic = make_topic()
    partition = Partition(topic, 0)
    log.append([Outgoing(topic, None, b"x", BASE)])

    assert log.offsets_at([partition], BASE + 1) == log.end_offsets([partition])


def test_keys_values_and_their_absence_are_kept(log, make_topic, read_all):
    """None stays None, empty stays empty, any byte is any byte."""
    topic = make_topic()
    pairs = [(b"k", b"v"), (None, b"v"), (b"k", None), (b"k", b""), (b"\x00\xff", b"\n\x00")]
    log.append([Outgoing(topic, key, value) for key, value in pairs])

    chunks = read_all(log, [Partition(topic, 0)])

    found = [pair for chunk in chunks for pair in zip(chunk.keys, chunk.values, strict=True)]
    assert found == pairs


def test_timestamps_are_kept(log, make_topic, read_all):
    """As given, in whatever order."""
    topic = make_topic()
    timestamps = [BASE + 7, BASE, BASE + 123_456]
    log.append([Outgoing(topic, None, b"x", timestamp) for timestamp in timestamps])

    chunks = read_all(log, [Partition(topic, 0)])

    assert [timestamp for chunk in chunks for timestamp in chunk.timestamps] == timestamps


def test_record_without_a_timestamp_gets_the_present(log, make_topic, read_all):
    """The time of writing, in milliseconds."""
    topic = make_topic()
    before = int(time.time() * 1000)
    log.append([Outgoing(topic, None, b"x")])
    after = int(time.time() * 1000)

    (chunk,) = read_all(log, [Partition(topic, 0)])

    assert before <= chunk.timestamps[0] <= after


def test_key_decides_the_partition_as_kafka_does(log, make_topic, read_all):
    """By murmur2, so that keys land alike on every transport (hashes of Kafka's UtilsTest)."""
    topic = make_topic(partitions=3)
    hashes = {
        b"21": -973932308,
        b"abc": 479470107,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    }
    log.append([Outgoing(topic, key, b"x") for key in hashes])

    chunks = read_all(log, [Partition(topic, number) for number in range(3)])

    found = {key: chunk.partition.number for chunk in chunks for key in chunk.keys}
    assert found == {key: (hashed & 0x7FFFFFFF) % 3 for key, hashed in hashes.items()}


def test_append_returns_the_place_of_each_record(log, make_topic, read_all):
    """In the order of the records, whatever order their partitions are written in."""
    topic, other = make_topic(partitions=3), make_topic("other")
    log.append([Outgoing(topic, b"abc", b"before"), Outgoing(other, None, b"before")])
    sent = [Outgoing((topic, other)[n % 3 == 0], b"%d" % (n % 7), b"%d" % n) for n in range(50)]

    places = log.append(sent)

    parts = [Partition(topic, number) for number in range(3)] + [Partition(other, 0)]
    found = {
        (*chunk.partition, offset): value
        for chunk in read_all(log, parts)
        for offset, value in zip(chunk.offsets, chunk.values, strict=True)
    }
    assert [found[record.topic, *place] for record, place in zip(sent, places, strict=True)] == [
        record.value for record in sent
    ]


def test_partition_that_was_given_is_obeyed(log, make_topic, values):
    """Whatever the key says."""
    topic = make_topic(partitions=3)
    log.append([Outgoing(topic, b"same", b"%d" % number, partition=number) for number in range(3)])

    assert [values(log, topic, number) for number in range(3)] == [[b"0"], [b"1"], [b"2"]]


def test_written_records_are_there_for_others(connect, log, make_topic, numbered, values):
    """Once `append` has returned, another log reads them."""
    topic = make_topic()
    other = connect()
    log.append(numbered(topic, 3))

    assert values(other, topic) == [b"0", b"1", b"2"]


def take(connect, partition: Partition, start: int, count: int) -> list[Record]:
    """The first records `follow` yields, in a thread that cannot hang the test."""
    found: list[Record] = []

    def follow() -> None:
        found.extend(islice(connect().follow({partition: start}, poll_seconds=0.01), count))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    thread.join(timeout=PATIENCE)
    return found


def test_follow_yields_whole_records(connect, log, make_topic):
    """Topic, partition, timestamp, key, value and headers in their order, repeated names too."""
    topic = make_topic(partitions=2)
    headers = (("b", b"1"), ("a", b"\xff\x00"), ("b", b""))
    log.append([Outgoing(topic, b"k", b"v", BASE, headers, partition=1)])
    partition = Partition(topic, 1)

    (record,) = take(connect, partition, log.beginning_offsets([partition])[partition], 1)

    assert record == Record(topic, 1, record.offset, BASE, b"k", b"v", headers)


def test_follow_starts_where_it_is_told(connect, log, make_topic, numbered, read_all):
    """The record at the start comes first."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 5))
    offsets = [offset for chunk in read_all(log, [partition]) for offset in chunk.offsets]

    records = take(connect, partition, offsets[2], 3)

    assert [record.value for record in records] == [b"2", b"3", b"4"]


def test_follow_goes_on_with_what_comes_later(connect, log, make_topic, numbered):
    """Records written by another log while it waits."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 1))
    following = connect().follow(log.beginning_offsets([partition]), poll_seconds=0.01)
    first = next(following)
    found: list[Record] = []
    thread = threading.Thread(target=lambda: found.extend(islice(following, 2)), daemon=True)
    thread.start()

    log.append(numbered(partition.topic, 2, first=1))
    thread.join(timeout=PATIENCE)

    assert [record.value for record in [first, *found]] == [b"0", b"1", b"2"]


def test_follow_calls_idle_where_it_waits_and_its_error_ends_the_wait(
    connect, log, make_topic, numbered
):
    """After the records that there are; the error is the caller's, not one of the log."""
    partition = Partition(make_topic(), 0)
    log.append(numbered(partition.topic, 2))
    seen: list[bytes | None] = []

    def idle() -> None:
        if len(seen) == 2:  # a broker may need some polls for the first record
            raise BrokenPipeError

    def follow() -> None:
        starts = log.beginning_offsets([partition])
        for record in connect().follow(starts, poll_seconds=0.01, idle=idle):
            seen.append(record.value)  # noqa: PERF401  idle looks at it

    with pytest.raises(BrokenPipeError):
        follow()

    assert seen == [b"0", b"1"]


@pytest.mark.parametrize(
    "use",
    [
        lambda log, partition: log.append([Outgoing(partition.topic, None, b"x")]),
        lambda log, partition: log.beginning_offsets([partition]),
        lambda log, partition: log.end_offsets([partition]),
        lambda log, partition: log.offsets_at([partition], BASE),
    ],
    ids=["append", "beginning_offsets", "end_offsets", "offsets_at"],
)
def test_unknown_topic_is_named_in_one_line(log, unique, use: Callable[..., object]):
    """The error says which topic is missing."""
    with pytest.raises(TransportError) as caught:
        use(log, Partition(unique, 0))

    assert unique in str(caught.value)
    assert "\n" not in str(caught.value)


def test_read_leaves_out_what_is_not_demanded_yet(log, make_topic) -> None:
    """And brings it, whole and in order, once it is; chunks are small where little is asked for."""
    topic = make_topic("large", 2)
    log.append(
        [Outgoing(topic, None, b"%d" % i + b"x" * 5_000, None, (), i % 2) for i in range(60)]
    )
    parts = [Partition(topic, 0), Partition(topic, 1)]
    taken: dict[Partition, list[bytes | None]] = {p: [] for p in parts}

    class First:
        """Partition 0 waits until all of partition 1 is there."""

        room = 6_000

        def full(self) -> list[Partition]:
            return parts[:1] if len(taken[parts[1]]) < 30 else []

    ends = log.end_offsets(parts)
    for chunk in log.read(log.beginning_offsets(parts), ends, demand=First()):
        assert chunk.partition == parts[1] or len(taken[parts[1]]) == 30
        taken[chunk.partition] += chunk.values

    for partition, found in taken.items():
        numbers = [int((value or b"").rstrip(b"x")) for value in found]
        assert numbers == list(range(partition.number, 60, 2))
