"""How many rows and bytes an Arrow IPC stream has, by the headers of its messages alone.

The commit that a message joins is cut before anything is decoded, and a few hundred compressed
bytes can claim gigabytes. So the headers are read here, within bounds, without pyarrow and without
unpacking a buffer. They are flatbuffers: a table has a signed offset to its vtable, which has the
offset of each field in the table, or 0.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["MAGIC", "StreamSize", "is_arrow", "size_of", "stream_of"]

MAGIC = b"ARROW1\0\0"  # of the file format; what follows is a stream, then the footer
_CONTINUATION = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3  # types of headers
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a record batch
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3  # fields of a message

_u16, _i32, _u32, _i64 = (struct.Struct(f"<{code}").unpack_from for code in "HiIq")


class StreamSize(NamedTuple):
    """Rows of all record batches, and bytes of all buffers when they are unpacked."""

    rows: int
    unpacked: int


def is_arrow(value: bytes | None) -> bool:
    """Whether the first bytes are those of a message, and not of JSON.

    Examples
    --------
    >>> is_arrow(MAGIC + b"stream"), is_arrow(b'{"id": "7"}'), is_arrow(None)
    (True, False, False)
    """
    return value is not None and value.startswith((MAGIC, b"\xff\xff\xff\xff"))


def stream_of(value: bytes) -> memoryview:
    """The stream in a message, which may have the file format.

    Examples
    --------
    >>> bytes(stream_of(MAGIC + b"stream")), bytes(stream_of(b"stream"))
    (b'stream', b'stream')
    """
    return memoryview(value)[len(MAGIC) if value.startswith(MAGIC) else 0 :]


def size_of(value: bytes) -> StreamSize:
    """Count rows and bytes.

    Raises
    ------
    ValueError
        It is not an Arrow IPC stream, or it is cut off.
    """
    stream = stream_of(value)
    at = rows = unpacked = 0
    try:
        while at < len(stream):
            if _u32(stream, at)[0] != _CONTINUATION:
                raise ValueError("it does not begin as Arrow's messages do")
            (length,) = _i32(stream, at + 4)
            at += 8
            if length == 0:
                break
            if length < 0 or at + length > len(stream):
                raise ValueError("a header is cut off")
            table = _table(stream[at : at + length], 0)
            at += length
            body = _number(table, _BODY_LENGTH)
            if body < 0 or at + body > len(stream):
                raise ValueError("a record batch is cut off")
            kind = _kind(table)
            if kind in (_DICTIONARY, _RECORDS):
                batch = _inner(table, _HEADER)
                if kind == _DICTIONARY:
                    batch = _inner(batch, 1)
                unpacked += _unpacked(batch, stream[at : at + body])
                if kind == _RECORDS:
                    rows += _count(_number(batch, _LENGTH))
            at += body
    except (struct.error, IndexError):
        raise ValueError("a header is damaged") from None
    return StreamSize(rows, unpacked)


class _Table(NamedTuple):
    """A table of a flatbuffer: the whole buffer, where the table is, and where its vtable is."""

    data: memoryview
    at: int
    vtable: int


def _table(data: memoryview, pointer: int) -> _Table:
    """The table to which an offset at `pointer` leads."""
    at = pointer + _u32(data, pointer)[0]
    return _Table(data, at, _inside(at - _i32(data, at)[0]))


def _inside(at: int) -> int:
    if at < 0:  # Python would count from the end
        raise IndexError(at)
    return at


def _field(table: _Table, number: int) -> int:
    """Where a field is; 0 if the table does not have it."""
    (size,) = _u16(table.data, table.vtable)
    place = 4 + 2 * number
    offset = _u16(table.data, table.vtable + place)[0] if place + 2 <= size else 0
    return table.at + int(offset) if offset else 0


def _number(table: _Table, number: int) -> int:
    at = _field(table, number)
    return int(_i64(table.data, at)[0]) if at else 0


def _kind(table: _Table) -> int:
    at = _field(table, _HEADER_TYPE)
    return table.data[at] if at else 0


def _inner(table: _Table, number: int) -> _Table:
    at = _field(table, number)
    if not at:
        raise IndexError(number)
    return _table(table.data, at)


def _count(number: int) -> int:
    if number < 0:
        raise ValueError("a record batch has a negative length")
    return number


def _unpacked(batch: _Table, body: memoryview) -> int:
    """Bytes of the buffers of a record batch. A packed one begins with its size, or with -1."""
    vector = _field(batch, _BUFFERS)
    if not vector:
        return 0
    vector += _u32(batch.data, vector)[0]
    packed, total = bool(_field(batch, _COMPRESSION)), 0
    for at in range(vector + 4, vector + 4 + 16 * _u32(batch.data, vector)[0], 16):
        offset, length = _i64(batch.data, at)[0], _i64(batch.data, at + 8)[0]
        size = _count(length)
        if packed and length:
            (claimed,) = _i64(body, _inside(offset))
            size = length - 8 if claimed == -1 else _count(claimed)
        total += size
    return total
