"""Convert Kafka's record batches to columns and back, with the objects of the client.

kafka-python makes a dozen Python calls and several objects for each record. Here one compiled call
reads or writes a batch. The client has no public call for that, so this file uses some of its
private attributes (docs/decisions/kafka-client.md#batches-are-read-and-written-whole). Tests
compare the results byte for byte with those of the client's own calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, Numbers
from consumers.base.records import Header, Outgoing, OutgoingColumns
from consumers.transports.kafka._kernels import (
    ATTRIBUTES_AT,
    COMPRESSED,
    MAGIC,
    MAGIC_AT,
    SHORTEST,
    find_batches,
    plain_batches,
    write_records,
)
from consumers.transports.kafka.codecs import unpacked

__all__ = [
    "MAGIC",
    "Columns",
    "PlainRun",
    "body",
    "columns_of",
    "one_by_one",
    "place",
    "plain_run",
    "rehearse",
    "starts_plain",
    "written",
]

_Parts = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
Columns = tuple[Sequence[int], Sequence[int], Sequence[bytes | None], Sequence[bytes | None]]

_NO_TIME = -1  # Kafka's timestamp of a record that has none
_HEADER = DefaultRecordBatch.HEADER_STRUCT.size
_LONGEST = 32  # maximum size of a record without key, value and headers


class PlainRun:
    """Consecutive batches of a partition that are not compressed, of one leader, in its fetch.

    Parameters
    ----------
    data
        All that was fetched of the partition.
    table
        int64 (batches, 8): see `plain_batches`.
    start, end
        Where they are in `data`.
    epoch
        Of their leader.
    """

    def __init__(
        self, data: bytes, table: NDArray[np.int64], start: int, end: int, epoch: int
    ) -> None:
        self.data, self.table, self.start, self.end, self.epoch = data, table, start, end, epoch

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return int(self.table[-1, 7])

    def columns(self, key_header: str | None = None) -> Columns:
        """See `columns_of`."""
        return _columns(self.data, self.table, key_header)


def starts_plain(records: Any) -> bool:
    """Whether the next batch of the client's records may begin a `PlainRun`."""
    head = records._next_slice
    if head is None or len(head) < _HEADER or head[MAGIC_AT] != MAGIC:
        return False
    return not head[ATTRIBUTES_AT + 1] & COMPRESSED


def plain_run(records: Any, most: int) -> PlainRun | None:
    """The plain batches at the client's place, which is then after them. Markers are left out.

    None if the next batch is not whole and correct: the client's own calls then say why.

    Parameters
    ----------
    records
        The client's, of one partition.
    most
        Bytes that they may have together, except for one batch.
    """
    data = records._buffer
    start = records._pos - len(records._next_slice)
    table = np.empty((min(len(data) - start, most) // _HEADER + 1, 8), dtype=np.int64)
    blob = _as_array(data)
    many, end, epoch = plain_batches(blob, start, start + most, table)
    bytes_of, at = memoryview(data), start
    for i, (stop, crc) in enumerate(table[:many, [1, 6]].tolist()):
        if calc_crc32c(bytes_of[at + ATTRIBUTES_AT : stop]) != crc:  # of all after itself
            many, end = i, at
            break
        at = stop
    if not many:
        return None
    place(records, end)
    return PlainRun(data, table[:many], start, end, epoch)


def place(records: Any, at: int) -> None:
    """Let the client continue with the batch that starts there."""
    records._pos = at
    records._cache_next()


def body(batch: Any, most: int = 1 << 62) -> bytes | memoryview:
    """The records of a fetched batch, decompressed.

    Parameters
    ----------
    most
        To how many bytes it may decompress.

    Raises
    ------
    UnsupportedCodecError
        The library of its codec is missing, or it decompresses to more than `most` bytes.
    """
    data = memoryview(batch._buffer)[batch._pos :]
    if batch.compression_type != batch.CODEC_NONE:
        batch._assert_has_codec(batch.compression_type)
        return unpacked(batch.compression_type, bytes(data), most)
    return data


def columns_of(
    batches: Sequence[Any], bodies: Sequence[bytes | memoryview], key_header: str | None = None
) -> Columns:
    """Offsets, timestamps, keys and values of batches of one partition.

    Parameters
    ----------
    batches, bodies
        Fetched batches whose checksums were verified, not of the oldest formats; `body` of each.
    key_header
        The header whose value is the key of a record that has both; None: no header is read.

    Raises
    ------
    CorruptRecordError
        A record is damaged.
    """
    stop, every = 0, []
    for batch, records in zip(batches, bodies, strict=True):
        at, stop, count = stop, stop + len(records), batch.records_count
        if not 0 <= count <= len(records) // SHORTEST:
            raise CorruptRecordError(f"{count} records in {len(records)} bytes")
        appended = batch.timestamp_type == batch.LOG_APPEND_TIME
        time = batch.max_timestamp if appended else batch.first_timestamp
        every.append((at, stop, count, batch.base_offset, time, appended))
    return _columns(b"".join(bodies), np.array(every, dtype=np.int64), key_header)


def _as_array(data: bytes) -> NDArray[np.uint8]:
    """The bytes, which kernels only read; they are compiled for one type of arrays."""
    blob = np.frombuffer(data, dtype=np.uint8)
    blob.flags.writeable = False
    return blob


def _columns(data: bytes, table: NDArray[np.int64], key_header: str | None) -> Columns:
    """The columns of the batches in a table of `find_batches`."""
    blob = _as_array(data)
    parts = np.empty((6, int(table[:, 2].sum())), dtype=np.int64)
    whole, found = find_batches(blob, table, parts)
    if whole < len(table):
        first = int(table[whole, 3])
        where = f"at offset {first + found}" if found >= 0 else "after the last record"
        raise CorruptRecordError(f"record batch at {first}: damaged {where}")
    cells = ByteCells(blob, parts[2], parts[3])
    values = ByteCells(blob, parts[4], parts[5])
    keys: Sequence[bytes | None] = cells
    if key_header is not None:
        keys = _keys_from_headers(data, values, cells, key_header.encode())
    return Numbers(parts[1]), Numbers(parts[0]), keys, values


def one_by_one(batch: Any, key_header: str | None = None) -> Columns:
    """The same by the client's own iteration, for any format: the slow, obvious implementation."""
    offsets, times, keys, values = [], [], [], []
    for record in batch:
        offsets.append(record.offset)
        # The records of format 0 have no timestamps.
        times.append(_NO_TIME if record.timestamp is None else record.timestamp)
        headers = () if record.value is None else record.headers
        keys.append(next((value for name, value in headers if name == key_header), record.key))
        values.append(record.value)
    return offsets, times, keys, values


def _keys_from_headers(
    data: bytes, values: ByteCells, keys: Sequence[bytes | None], name: bytes
) -> list[bytes | None]:
    """The keys, with the values of a header where a record has it. The records are whole."""
    out = list(keys)
    for i, (start, size) in enumerate(
        zip(values.starts.tolist(), values.sizes.tolist(), strict=True)
    ):
        if size >= 0:  # the headers follow the value
            count, at = _read_varint(data, start + size)
            for _ in range(count):
                size, at = _read_varint(data, at)
                found, at = data[at : at + size], at + size
                size, at = _read_varint(data, at)
                value, at = (None, at) if size < 0 else (data[at : at + size], at + size)
                if found == name:
                    out[i] = value
                    break
    return out


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
        shift += 7


def written(
    records: Sequence[Outgoing], *, compression: int, batch_size: int
) -> Iterator[tuple[MemoryRecordsBuilder, int]]:
    """Batches of the records in order, as the client builds them, with the count of each.

    Parameters
    ----------
    records
        Of one partition.
    compression, batch_size
        Of the producer: number of the codec; maximum size of a batch, unless a record is larger.
    """
    as_columns = isinstance(records, OutgoingColumns) and not records.rest
    times, parts, lengths, at = (_spans if as_columns else _joined)(records)
    size = int(np.maximum(lengths, 0).sum()) + _LONGEST * len(records)
    out = np.empty(size, dtype=np.uint8)
    first = 0
    while first < len(records):
        size, after = write_records(first, batch_size - _HEADER, times, parts, lengths, at, out)
        yield _built(out[:size], times[first:after], compression, batch_size), after - first
        first = after


def _spans(records: Any) -> _Parts:
    """The arguments of `write_records`."""
    lengths = np.zeros((len(records), 3), dtype=np.int64)
    lengths[:, :2] = records.lengths
    return records.timestamps, records.data, lengths, records.starts


def _joined(records: Sequence[Outgoing]) -> _Parts:
    """The same, one by one."""
    now = time.time_ns() // 1_000_000
    times = np.array([now if r[3] is None else r[3] for r in records], dtype=np.int64)
    parts: list[bytes] = []
    for _, key, value, _, headers, _ in records:
        parts += (key or b"", value or b"", _headers(headers) if headers else b"")
    lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)).reshape(-1, 3)
    starts = lengths.sum(axis=1).cumsum() - lengths.sum(axis=1)
    for i, record in enumerate(records):
        if record[1] is None:
            lengths[i, 0] = -1
        if record[2] is None:
            lengths[i, 1] = -1
    return times, np.frombuffer(b"".join(parts), dtype=np.uint8), lengths, starts


def rehearse() -> None:
    """Write and read one record, so that the kernels are compiled."""
    for builder, _ in written([Outgoing("", b"", b"", 0)], compression=0, batch_size=_HEADER):
        builder.close()
        run = plain_run(MemoryRecords(bytes(builder.buffer())), _HEADER)
        list(run.columns()[2] if run else ())


def _built(body: Any, times: Any, compression: int, batch_size: int) -> MemoryRecordsBuilder:
    """The client's builder in the state after its `append` of these records."""
    batch = MemoryRecordsBuilder(MAGIC, compression, batch_size)
    inner = batch._builder
    inner._buffer += body.data
    inner._num_records = batch._next_offset = len(times)
    inner._last_offset = len(times) - 1
    inner._first_timestamp, inner._max_timestamp = int(times[0]), int(times.max())
    return batch


def _headers(headers: Sequence[Header]) -> bytes:
    """The number of headers, then name and value of each."""
    out = bytearray(_varint(len(headers)))
    for name, value in headers:
        for part in (name.encode(), value):
            out += _varint(len(part)) + part
    return bytes(out)


def _varint(number: int) -> bytes:
    """A count or length as a zigzag varint."""
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
