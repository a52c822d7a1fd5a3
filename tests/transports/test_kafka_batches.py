"""Record batches by one compiled call are those of the client's own calls, byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, InvalidTimestampError, KafkaError, KafkaTimeoutError
from kafka.producer.future import FutureProduceResult
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from consumers.base.records import Outgoing
from consumers.transports.kafka.batches import Columns, body, columns_of, one_by_one, written
from consumers.transports.kafka.producer import PendingSends
from consumers.transports.kafka.reader import _ask_as_consumer, _PartitionColumns
from tests.consumers.base.test_outgoing import as_columns
from tests.seed import seeds, share

PART = TopicPartition("topic", 3)
CONTROL = 0x20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODES = st.sampled_from([0, GZIP, SNAPPY, LZ4, ZSTD])

texts = st.one_of(st.none(), st.binary(max_size=300))
records_of_a_partition = st.lists(
    st.builds(
        Outgoing,
        st.just(PART.topic),
        texts,
        texts,
        st.integers(-1, 2**62),
        st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=90)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=40,
)


def closed(builder: MemoryRecordsBuilder, producer: int = 7, sequence: int = 11) -> bytes:
    """The batch as it is sent."""
    builder.set_producer_state(producer, 2, sequence, True)
    builder.close()
    return bytes(builder.buffer())


def appended(records: Sequence[Outgoing], compression: int, size: int) -> Iterator[bytes]:
    """The batches by the client's own `append`, a record a call."""
    builder = MemoryRecordsBuilder(2, compression, size)
    for _, key, value, timestamp, headers, _ in records:
        if builder.append(timestamp, key, value, list(headers)) is None:
            yield closed(builder)
            builder = MemoryRecordsBuilder(2, compression, size)
            builder.append(timestamp, key, value, list(headers))
    yield closed(builder)


def batches(records: Sequence[Outgoing], compression: int = 0, size: int = 2**18) -> list[bytes]:
    """Ours."""
    made = written(records, compression=compression, batch_size=size)
    return [closed(builder) for builder, _ in made]


@given(records_of_a_partition, CODES, st.integers(61, 2000))
def test_batches_are_those_the_client_builds(records, compression, size) -> None:
    """Same bytes, same cuts, whatever keys, values, headers and clocks."""
    assert batches(records, compression, size) == list(appended(records, compression, size))


@given(records_of_a_partition, CODES, st.integers(61, 2000))
def test_batches_of_columns_are_those_the_client_builds(records, compression, size) -> None:
    """The same for columns, whose records have keys, values and times, and no headers."""
    plain = [
        r._replace(key=r.key or b"", value=r.value or b"", headers=(), partition=0) for r in records
    ]

    assert batches(as_columns(plain), compression, size) == list(appended(plain, compression, size))


def columns(batch: DefaultRecordBatch, key_header: str | None = None) -> Columns:
    """Those of one batch."""
    return columns_of([batch], [body(batch)], key_header)


@given(records_of_a_partition, CODES, st.booleans())
def test_columns_are_the_records_the_client_reads(records, compression, appends) -> None:
    """Also where the broker has set the time."""
    for data in batches(records, compression):
        log = bytearray(data)
        if appends:
            log[22] |= 8  # LogAppendTime, in the low byte of the attributes
        found = columns(DefaultRecordBatch(log))

        assert found == one_by_one(DefaultRecordBatch(log))
        assert list(map(len, found)) == [len(records)] * 4


@given(records_of_a_partition, CODES, st.sampled_from(["a", "é", ""]))
def test_keys_from_headers_are_those_the_client_reads(records, compression, name) -> None:
    """The first header of the name, where a record has one and a value."""
    named = [
        r._replace(headers=((name, b"id"), *r.headers) if r.key else r.headers) for r in records
    ]
    expected = []
    for record in named:
        headers = () if record.value is None else record.headers
        expected.append(next((v for n, v in headers if n == name), record.key))
    (data,) = batches(named, compression)
    found = columns(DefaultRecordBatch(bytearray(data)), key_header=name)

    assert found == one_by_one(DefaultRecordBatch(bytearray(data)), name)
    assert found[2] == expected


def read_by_the_client(log: bytearray) -> object:
    """The columns, or what is wrong."""
    try:
        return one_by_one(DefaultRecordBatch(log))
    except CorruptRecordError as error:
        return str(error)


def test_damage_is_told_and_never_read_beyond() -> None:
    """Any byte of the records changed or cut off: what the client reads, or an error."""
    rng = random.Random(4)
    records = [
        Outgoing("t", rng.randbytes(i % 4) or None, rng.randbytes(40), 10**12 + i, (("h", b"v"),))
        for i in range(20)
    ]
    (data,) = batches(records)
    header = DefaultRecordBatch.HEADER_STRUCT.size
    told = 0
    for _ in range(600):
        log = bytearray(data[: rng.choice([len(data), rng.randrange(header, len(data))])])
        for _ in range(rng.choice([0, 1, 3])):
            log[rng.randrange(header - 4, len(log))] = rng.choice([0, 1, 127, 128, 255])
        try:
            found = columns(DefaultRecordBatch(log))
        except CorruptRecordError:
            told += 1
            continue
        theirs = read_by_the_client(log)
        # It reads the names of headers too, and stumbles over one that is no UTF-8.
        assert found == theirs or "UnicodeDecodeError" in str(theirs)

    assert told > 300


def batch_at(
    offset: int, records: Sequence[Outgoing], producer: int, epoch: int = 0, compression: int = 0
) -> bytes:
    """A batch as a broker keeps it. Neither offset nor epoch are part of its checksum."""
    ((builder, _),) = written(records, compression=compression, batch_size=2**18)
    log = bytearray(closed(builder, producer, offset))
    log[:8] = offset.to_bytes(8, "big")
    log[12:16] = epoch.to_bytes(4, "big")
    return bytes(log)


def marker_at(offset: int, producer: int, *, commit: bool) -> bytes:
    """What ends a transaction in the log."""
    key = (0).to_bytes(2, "big") + int(commit).to_bytes(2, "big")
    log = bytearray(batch_at(offset, [Outgoing("t", key, b"123456", 5)], producer))
    log[22] |= CONTROL
    start = DefaultRecordBatch.ATTRIBUTES_OFFSET
    log[start - 4 : start] = calc_crc32c(memoryview(log)[start:]).to_bytes(4, "big")
    return bytes(log)


def logged(rng: random.Random, committed: float = 0.6) -> tuple[bytes, list[SimpleNamespace], int]:
    """A log of transactions of three producers, some aborted; those, and its end."""
    out, aborted, offset, epoch = b"", [], 100, 3
    for turn in range(12):
        producer, first = 1 + turn % 3, offset
        for _ in range(rng.randrange(1, 3)):
            count = rng.randrange(1, 9)
            records = [Outgoing("t", b"k", rng.randbytes(9), 50 + i) for i in range(count)]
            epoch += rng.random() < 0.2  # another broker leads the partition
            out += batch_at(offset, records, producer, epoch, rng.choice([0, 0, 0, 1]))
            offset += count + rng.randrange(2)  # compaction leaves gaps
        commit = rng.random() < committed
        out += marker_at(offset, producer, commit=commit)
        offset += 1
        if not commit:
            aborted.append(SimpleNamespace(producer_id=producer, first_offset=first))
    return out, aborted, offset


@pytest.mark.parametrize("committed", [0.6, 1.0])
@pytest.mark.parametrize("level", list(IsolationLevel))
@seeds(0.1)
def test_partition_is_taken_as_the_client_takes_it(seed, level, committed) -> None:
    """The same records, calls and positions, from any offset, in pieces of any size."""
    rng = random.Random(seed)
    log, aborted, end = logged(rng, committed)
    start, sizes = rng.randrange(100, end), [rng.randrange(1, 12) for _ in range(200)]

    def taken(kind: type) -> list[object]:
        part = kind(
            start,
            PART,
            MemoryRecords(log),
            isolation_level=level,
            aborted_transactions=aborted,
        )
        told: list[object] = []
        for size in sizes:
            found = part.take(size)
            if kind is _PartitionColumns:
                (chunk,) = found
                rows = list(zip(chunk.offsets, chunk.timestamps, chunk.values, strict=True))
            else:
                rows = [(r.offset, r.timestamp, r.value) for r in found]
            told.append((len(found), rows, part.next_fetch_offset, bool(part), part.leader_epoch))
            if not part:
                return told
        raise AssertionError("it never ends")

    assert taken(_PartitionColumns) == taken(Fetcher.PartitionRecords)


@seeds(0.25)
def test_any_damage_is_found_where_the_client_finds_it(seed) -> None:
    """A byte of a log is changed, or its end is missing. The same records come before the error.
    Only markers are between the two positions, because the client passes those sooner. Offsets
    and formats are not changed: no checksum covers them."""
    rng = random.Random(seed)
    log, aborted, end = logged(rng, rng.choice([0.7, 1.0]))
    harmed, starts = bytearray(log), [0]
    while (at := starts[-1]) < len(log):
        starts.append(at + 12 + int.from_bytes(log[at + 8 : at + 12], "big"))
    for _ in range(rng.choice([0, 1, 1, 2])):
        number = rng.randrange(len(starts) - 1)
        places = {*range(starts[number] + 8, starts[number + 1])} - {starts[number] + 16}
        harmed[rng.choice(sorted(places))] ^= 1 << rng.randrange(8)
    harmed = harmed[: rng.choice([len(harmed), rng.randrange(1, len(harmed))])]
    start, size = rng.randrange(100, end), rng.randrange(1, 30)

    def taken(kind: type) -> tuple[list[int], int, type | None]:
        part = kind(start, PART, MemoryRecords(bytes(harmed)), aborted_transactions=aborted)
        found: list[int] = []
        for _ in range(1000):
            try:
                for each in part.take(size):
                    found += [each.offset] if hasattr(each, "offset") else each.offsets
            except Exception as error:
                return found, part.next_fetch_offset, type(error)
            if not part:
                return found, part.next_fetch_offset, None
        raise AssertionError("it never ends")

    (found, place, error), (theirs, their_place, their_error) = map(
        taken, (_PartitionColumns, Fetcher.PartitionRecords)
    )

    assert (found, error) == (theirs, their_error)
    assert found[-1:] < [place] <= [max(start, their_place)]
    assert error or place == their_place


@pytest.mark.parametrize("magics", [(1, 2, 1), (2, 1, 1, 2), (0, 0), (0,), (0, 2, 1, 0, 0)])
def test_batches_of_old_formats_are_read_between_new_ones(magics) -> None:
    """As in a log that is older than its broker. The oldest format has no timestamps."""
    log = b""
    for offset, magic in enumerate(magics, 100):
        if magic == 2:
            log += batch_at(offset, [Outgoing("t", b"k", b"%d" % offset, 9)], 1)
            continue
        builder = MemoryRecordsBuilder(magic, 0, 2**10, offset=offset)
        builder.append(9, b"k", b"%d" % offset)
        builder.close()
        log += bytes(builder.buffer())
    part = _PartitionColumns(100, PART, MemoryRecords(log))
    theirs = Fetcher.PartitionRecords(100, PART, MemoryRecords(log)).take(9)
    (chunk,) = part.take(9)

    assert list(zip(chunk.offsets, chunk.values, strict=True)) == [
        (record.offset, record.value) for record in theirs
    ]
    assert chunk.timestamps == [9 if magic else -1 for magic in magics]


@settings(max_examples=share(0.25))
@given(
    st.lists(
        st.tuples(records_of_a_partition, CODES, st.booleans(), st.integers(0, 3)), max_size=6
    ).filter(len)
)
def test_many_batches_are_read_as_each_alone(drawn) -> None:
    """Of any codec, with times of the producer or of the broker."""
    offset, logs = 7, []
    for records, compression, appends, gap in drawn:
        log = bytearray(batch_at(offset, records, 1, 0, compression))
        log[22] |= 8 * appends  # LogAppendTime
        logs.append(log)
        offset += len(records) + gap
    every = [DefaultRecordBatch(log) for log in logs]
    expected = [one_by_one(DefaultRecordBatch(log)) for log in logs]
    found = columns_of(every, [body(batch) for batch in every])

    assert [list(column) for column in found] == [
        [value for each in expected for value in each[k]] for k in range(4)
    ]


@seeds(0.25)
def test_batches_before_one_with_a_damaged_record_are_read(seed) -> None:
    """Its checksum is right, as of a producer with an error. The client finds the same."""
    rng = random.Random(seed)
    log, offset, bad, good = b"", 100, rng.randrange(6), 0
    for number in range(6):
        count = rng.randrange(1, 5)
        good += count if number < bad else 0
        batch = bytearray(batch_at(offset, [Outgoing("t", b"k", b"value", 9)] * count, 1))
        if number == bad:
            header = DefaultRecordBatch.HEADER_STRUCT.size
            batch[rng.choice([header, len(batch) - 1])] = 0x7E
            start = DefaultRecordBatch.ATTRIBUTES_OFFSET
            crc = calc_crc32c(memoryview(batch)[start:])
            batch[start - 4 : start] = crc.to_bytes(4, "big")
        log, offset = log + bytes(batch), offset + count

    def taken(kind: type) -> list[object]:
        part, found = kind(100, PART, MemoryRecords(log)), []
        while part:
            try:
                for each in part.take(3):
                    found += [each.offset] if hasattr(each, "offset") else each.offsets
            except CorruptRecordError:
                return found
        return found

    assert taken(_PartitionColumns) == list(range(100, 100 + good))
    # The client returns the whole records of the damaged batch too.
    assert taken(Fetcher.PartitionRecords)[:good] == list(range(100, 100 + good))


def test_damaged_batch_is_told_after_the_records_before_it() -> None:
    """And by each further call, so that nobody waits for what does not come."""
    good = batch_at(0, [Outgoing("t", None, b"good", 5)], 1)
    bad = bytearray(batch_at(1, [Outgoing("t", None, b"bad", 5)], 1))
    bad[-2] ^= 1
    part = _PartitionColumns(0, PART, MemoryRecords(good + bytes(bad)))

    (chunk,) = part.take(10)
    assert chunk.values == [b"good"]
    with pytest.raises(CorruptRecordError, match="offset 1 failed crc check"):
        part.take(10)


def answered(value: object) -> PendingSends:
    """A batch of three records that was answered so."""
    future = FutureProduceResult(PART)
    future.success(value)
    return PendingSends(future, 3, ("topic", 0))


def test_batch_that_was_written_tells_the_offset_of_its_last_record() -> None:
    """The broker tells that of the first."""
    handed = answered((40, -1, None))

    assert handed.is_done
    assert handed.exception is None
    assert handed.last_offset == 42


def test_batch_that_failed_tells_of_the_record_that_was_at_fault() -> None:
    """The client says of the others only that they were beside it."""
    beside = KafkaError("it was part of a batch with invalid records")
    handed = answered((-1, -1, lambda n: InvalidTimestampError("far") if n == 1 else beside))
    expired = answered((-1, -1, lambda _: KafkaTimeoutError("expired")))

    assert isinstance(handed.exception, InvalidTimestampError)
    assert isinstance(expired.exception, KafkaTimeoutError)


def test_offsets_are_asked_for_as_a_consumer_whatever_the_client_takes_for_the_default() -> None:
    """A replica is told of records of open transactions; kafka-python 3.1.0.dev asks as one."""
    asked: list[tuple[object, int]] = []
    manager = SimpleNamespace(send=lambda request, node_id: asked.append((request, node_id)))
    _ask_as_consumer(manager)
    request, other = ListOffsetsRequest(replica_id=0), MetadataRequest()
    manager.send(request, node_id=3)
    manager.send(other, node_id=4)

    assert asked == [(request, 3), (other, 4)]
    assert request.replica_id == -1
