"""Convert Kafka's record batches to columns and back, with the objects of the client.

kafka-python makes a dozen Python calls and several objects for each record. Here one compiled call
reads or writes a batch. The client has no public call for that, so this file uses some of its
private attributes (docs/decisions/0022). Tests compare the results byte for byte with those of the
client's own calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecordsBuilder
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, Numbers
from consumers.base.records import Header, Outgoing, OutgoingColumns
from consumers.transports.kafka._kernels import find_records, write_records
from consumers.transports.kafka.codecs import unpacked

__all__ = ["Columns", "columns", "one_by_one", "rehearse", "written"]

_Parts = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]
Columns = tuple[Sequence[int], Sequence[int], Sequence[bytes | None], Sequence[bytes | None]]

_MAGIC = 2
_HEADER = DefaultRecordBatch.HEADER_STRUCT.size
_SHORTEST = 7  # minimum size of a record in bytes
_LONGEST = 32  # maximum size of a record without key, value and headers


def columns(batch: Any, most: int = 1 << 62, key_header: str | None = None) -> Columns:
    """Offsets, timestamps, keys and values of a fetched batch whose checksum was verified.

    Parameters
    ----------
    most
        To how many bytes it may decompress.
    key_header
        The header whose value is the key of a record that has both; None: no header is read.

    Raises
    ------
    CorruptRecordError
        A record is damaged.
    UnsupportedCodecError
        The library of its codec is missing, or it decompresses to more than `most` bytes.
    """
    if batch.magic < _MAGIC:
        return one_by_one(batch, key_header)
    data, at, count = bytes(batch._buffer), batch._pos, batch.records_count
    if batch.compression_type != batch.CODEC_NONE:
        batch._assert_has_codec(batch.compression_type)
        data, at = unpacked(batch.compression_type, data[at:], most), 0
    if not 0 <= count <= len(data) // _SHORTEST:
        raise CorruptRecordError(f"{count} records in {len(data)} bytes")
    parts = np.empty((count, 6), dtype=np.int64)
    whole = find_records(np.frombuffer(data, dtype=np.uint8), at, parts)
    if whole != count:
        where = f"at offset {batch.base_offset + whole}" if whole >= 0 else "after the last record"
        raise CorruptRecordError(f"record batch at {batch.base_offset}: damaged {where}")
    if batch.timestamp_type == batch.LOG_APPEND_TIME:
        times = np.full(count, batch.max_timestamp, dtype=np.int64)
    else:
        times = parts[:, 0] + batch.first_timestamp
    blob = np.frombuffer(data, dtype=np.uint8)
    keys, values = (
        ByteCells(
            blob, parts[:, at], np.where(parts[:, at] < 0, -1, parts[:, at + 1] - parts[:, at])
        )
        for at in (2, 4)
    )
    found: Sequence[bytes | None] = keys
    if key_header is not None:
        found = _keys_from_headers(data, parts, keys, key_header.encode())
    return Numbers(parts[:, 1] + batch.base_offset), Numbers(times), found, values


def one_by_one(batch: Any, key_header: str | None = None) -> Columns:
    """The same by the client's own iteration, for any format: the slow, obvious implementation."""
    offsets, times, keys, values = [], [], [], []
    for record in batch:
        offsets.append(record.offset)
        times.append(record.timestamp)
        headers = () if record.value is None else record.headers
        keys.append(next((value for name, value in headers if name == key_header), record.key))
        values.append(record.value)
    return offsets, times, keys, values


def _keys_from_headers(
    data: bytes, parts: Any, keys: Sequence[bytes | None], name: bytes
) -> list[bytes | None]:
    """The keys, with the values of a header where a record has it. The records are whole."""
    out = list(keys)
    for i, at in enumerate(parts[:, 5].tolist()):
        if at >= 0:
            count, at = _read_varint(data, at)
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
        _, _, keys, _ = columns(DefaultRecordBatch(builder.buffer()))
        list(keys)


def _built(body: Any, times: Any, compression: int, batch_size: int) -> MemoryRecordsBuilder:
    """The client's builder in the state after its `append` of these records."""
    batch = MemoryRecordsBuilder(_MAGIC, compression, batch_size)
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
