"""Kernels of Kafka's record format.

A record batch (magic 2) is a header and its records, one after the other. The layout of a record is
that of `org.apache.kafka.common.record.DefaultRecord`. Every number is a zigzag varint:

    length, attributes (1 byte), timestamp delta, offset delta,
    key length (-1: no key), key, value length (-1: no value), value,
    number of headers, then for each: length, name, length (-1: no value), value
"""

from __future__ import annotations

from typing import Any

from numpy import int64, uint64

from consumers.base._kernels import copy_bytes, signed
from stream.kernel import kernel

NOWHERE = -1  # a missing key or value; also a number without an end

# Where the numbers of a batch's header start, in bytes. All are big-endian.
_LENGTH, _EPOCH, MAGIC_AT, _CRC, ATTRIBUTES_AT, _LAST = 8, 12, 16, 17, 21, 23
_FIRST_TIME, _MAX_TIME, _COUNT, _RECORDS = 27, 35, 57, 61
COMPRESSED, _APPEND_TIME, _CONTROL = 0x07, 0x08, 0x20  # bits of the attributes
SHORTEST = 7  # minimum size of a record in bytes
MAGIC = 2  # the present format of batches


@kernel
def _number(data: Any, at: int) -> Any:
    """The varint at `at`, and its end; NOWHERE if the data end before it does."""
    found = uint64(0)
    shift = uint64(0)
    while at < data.size and shift < 64:
        byte = uint64(data[at])
        found |= (byte & uint64(0x7F)) << shift
        at += 1
        if byte < 0x80:
            return int64(found >> uint64(1)) ^ -int64(found & uint64(1)), at
        shift += uint64(7)
    return int64(0), NOWHERE


@kernel
def _span(data: Any, at: int, end: int) -> Any:
    """Start and end of the bytes whose length is at `at`; NOWHERE, NOWHERE for length -1.

    The third value is where they end; NOWHERE if that is after `end`.
    """
    length, at = _number(data, at)
    if at == NOWHERE or length < -1 or length > end - at:
        return NOWHERE, NOWHERE, NOWHERE
    if length == -1:
        return NOWHERE, NOWHERE, at
    return at, at + length, at + length


@kernel
def _find_records(data: Any, at: int, stop: int, first: int, count: int, out: Any) -> int:
    """Find the parts of each record of a batch.

    `data` uint8 (n,), the records from `at` to `stop`; `out` int64 (6, records): timestamp delta,
    offset delta, start and size of key and of value, into the columns from `first`. Returns the
    number of complete records: less than `count` if one is damaged, -1 if bytes follow the last.
    """
    for i in range(count):
        length, start = _number(data, at)
        if start == NOWHERE or length < 1 or length > stop - start:
            return i
        end = start + length
        out[0, first + i], at = _number(data, start + 1)
        if at == NOWHERE:
            return i
        out[1, first + i], at = _number(data, at)
        if at == NOWHERE:
            return i
        for cell in (2, 4):
            begin, after, at = _span(data, at, end)
            if at == NOWHERE:
                return i
            out[cell, first + i] = begin
            out[cell + 1, first + i] = NOWHERE if begin == NOWHERE else after - begin
        headers, at = _number(data, at)
        if at == NOWHERE or headers < 0:
            return i
        for _ in range(headers):
            name = _span(data, at, end)
            if name[0] == NOWHERE:
                return i
            at = _span(data, name[2], end)[2]
            if at == NOWHERE:
                return i
        if at != end:
            return i
    return count if at == stop else -1


@kernel
def plain_batches(data: Any, at: int, stop: int, out: Any) -> Any:
    """The headers of consecutive batches that are not compressed, up to the first other one.

    `data` uint8 (n,); `at`: start of the first; `stop`: no batch after the first ends after it;
    `out` int64 (batches, 8): the numbers of `find_batches`, the checksum, and the offset after the
    batch. A batch of markers has no records. A batch is another one if it is of another format or
    leader, incomplete, or its numbers cannot be true. Returns their number, the end of the last,
    and the leader's epoch.
    """
    many, epoch = 0, int64(-1)
    while many < out.shape[0] and at + _RECORDS <= data.size:
        if data[at + MAGIC_AT] != MAGIC:
            break
        end = at + _EPOCH + signed(data, at + _LENGTH, 4)
        leader = signed(data, at + _EPOCH, 4)
        attributes = data[at + ATTRIBUTES_AT + 1]
        count = signed(data, at + _COUNT, 4)
        begin = at + _RECORDS
        if end < begin or end > data.size or (many and (end > stop or leader != epoch)):
            break
        if attributes & COMPRESSED or count < 0 or count > (end - begin) // SHORTEST:
            break
        if attributes & _CONTROL:
            begin, count = end, 0
        appended = int64(attributes & _APPEND_TIME != 0)
        offset = signed(data, at, 8)
        row = out[many]
        row[0], row[1], row[2], row[3] = begin, end, count, offset
        row[4] = signed(data, at + (_MAX_TIME if appended else _FIRST_TIME), 8)
        row[5] = appended
        row[6] = signed(data, at + _CRC, 4) & 0xFFFFFFFF
        row[7] = offset + signed(data, at + _LAST, 4) + 1
        epoch, at = leader, end
        many += 1
    return many, at, epoch


@kernel
def find_batches(data: Any, batches: Any, out: Any) -> Any:
    """Find the parts of each record of each batch.

    `data` uint8 (n,); `batches` int64 (batches, 6 or more): where its records begin
    and stop, their number, the first offset, a timestamp, and 1 if it is that of all, 0 if it is
    the first; `out` int64 (6, records): timestamp, offset, start and size of key and of value, size
    -1 for none. Returns the first damaged batch, or their number, and what `_find_records` has
    returned for it.
    """
    first = 0
    for b in range(batches.shape[0]):
        at, stop, count, offset, time, appended = batches[b, :6]
        found = _find_records(data, at, stop, first, count, out)
        if found != count:
            return b, found
        for i in range(first, first + count):
            out[0, i] = time if appended else out[0, i] + time
            out[1, i] += offset
        first += count
    return batches.shape[0], 0


@kernel
def _put(out: Any, at: int, number: int) -> int:
    """Write a varint. Returns its end."""
    left = uint64((number << 1) ^ (number >> 63))
    while left > uint64(0x7F):
        out[at] = (left & uint64(0x7F)) | uint64(0x80)
        left >>= uint64(7)
        at += 1
    out[at] = left
    return at + 1


@kernel
def _width(number: int) -> int:
    """Size of a varint in bytes."""
    left = uint64((number << 1) ^ (number >> 63))
    width = 1
    while left > uint64(0x7F):
        left >>= uint64(7)
        width += 1
    return width


@kernel
def _sized(length: int) -> Any:
    """Size of a key or value with its length; `length` -1: missing."""
    return _width(length) + max(length, 0)


@kernel
def write_records(
    first: int, limit: int, times: Any, parts: Any, lengths: Any, at: Any, out: Any
) -> Any:
    """Write records from number `first`, as many as fit. Returns bytes, and the next number.

    `times` int64 (n,); `parts` uint8: key, value and encoded headers of every record, one after
    the other; `lengths` int64 (n, 3) of them, -1 for none, headers 0 for none; `at` int64 (n,):
    start of the parts of each record; `out` uint8 (size,). At least one is written, and others only
    up to `limit` bytes.
    """
    end = 0
    for i in range(first, times.size):
        delta, offset = times[i] - times[first], i - first
        key, value, headers = lengths[i]
        body = 1 + _width(delta) + _width(offset) + _sized(key) + _sized(value) + max(headers, 1)
        if i > first and end + _width(body) + body > limit:
            return end, i
        end = _put(out, end, body)
        out[end] = 0
        end = _put(out, end + 1, delta)
        end = _put(out, end, offset)
        source = at[i]
        for length in (key, value):
            end = _put(out, end, length)
            length = max(length, 0)
            copy_bytes(out, end, parts, source, length)
            end += length
            source += length
        if headers == 0:
            out[end] = 0
            end += 1
        copy_bytes(out, end, parts, source, headers)
        end += headers
    return end, times.size
