"""How many rows and bytes an Arrow IPC stream has, by the headers of its messages alone.

The commit that a message joins is cut before anything is decoded, and a few hundred compressed
bytes can claim gigabytes. So the headers are read here, within bounds, without pyarrow and without
unpacking a buffer. They are flatbuffers: a table has a signed offset to its vtable, which has the
offset of each field in the table, or 0.

How much memory the values of a column need as Python objects, at least.

A few bytes can claim any number of values: a dictionary has one text for all rows, the views of a
column may all show the same bytes, and a list of nulls has no bytes at all. So what a message
unpacks to is counted before it becomes values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from consumers.codecs.arrow.values import UnreadableTypeError

__all__ = [
    "MAGIC",
    "MOST_UNPACKED",
    "byte_lengths",
    "is_arrow",
    "size_of",
    "stream_of",
    "volume",
]

MOST_UNPACKED = 16 * 2**20  # bytes of a message: of buffers and headers, and of values in columns
MAGIC = b"ARROW1\0\0"  # of the file format; what follows is a stream, then the footer
_CONTINUATION = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3  # types of headers
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a record batch
_HEADER_TYPE, _HEADER, _BODY_LENGTH, _OF_MESSAGE = 1, 2, 3, 4  # fields of a message
_SCHEMA, _FIELDS, _OF_SCHEMA = 1, 1, 2  # a type of header, and its fields
_NAME, _TYPE_KIND, _TYPE, _CHILDREN, _OF_FIELD = 0, 2, 3, 5, 6  # fields of a field
_TIMESTAMP, _ZONE = 10, 1  # a type with a text, and where it is
_EACH = 1024  # bytes of a field: its memory, and the time in which it is read
_SHORT = 1024  # bytes of a header, which describe too little to be looked at

_u16, _i32, _u32, _i64 = (struct.Struct(f"<{code}").unpack_from for code in "HiIq")


class StreamSize(NamedTuple):
    """Rows of all record batches, and bytes of all buffers and headers when they are unpacked."""

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
            if length > _SHORT:
                unpacked += _described(table, kind)
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


def _described(message: _Table, kind: int) -> int:
    """Bytes of what a header describes. Offsets may lead to one field, or one text, any number of
    times: a kilobyte can describe more fields than any memory has."""
    total = _metadata(message, _OF_MESSAGE)
    if kind != _SCHEMA:
        return total
    schema = _inner(message, _HEADER)
    total += _metadata(schema, _OF_SCHEMA)
    waiting = [_tables(schema, _FIELDS)]
    while waiting and total <= MOST_UNPACKED:
        field = next(waiting[-1], None)
        if field is None:
            waiting.pop()
            continue
        total += _EACH + _text(field, _NAME) + _metadata(field, _OF_FIELD)
        at = _field(field, _TYPE_KIND)
        if at and field.data[at] == _TIMESTAMP:
            total += _text(_inner(field, _TYPE), _ZONE)
        waiting.append(_tables(field, _CHILDREN))
    return total


def _metadata(table: _Table, number: int) -> int:
    """Bytes of pairs of texts."""
    total = 0
    for pair in _tables(table, number):
        total += _text(pair, 0) + _text(pair, 1)
        if total > MOST_UNPACKED:
            break
    return total


def _tables(table: _Table, number: int) -> Iterator[_Table]:
    """The tables of a vector."""
    at = _field(table, number)
    if at:
        at += _u32(table.data, at)[0]
        for place in range(at + 4, at + 4 + 4 * _u32(table.data, at)[0], 4):
            yield _table(table.data, place)


def _text(table: _Table, number: int) -> int:
    """The bytes of a text; 0 without it."""
    at = _field(table, number)
    return int(_u32(table.data, at + _u32(table.data, at)[0])[0]) if at else 0


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


_CELL = 8  # bytes of a value in a list
_VIEW = 16  # bytes of a view of a text; the first four are its length


def volume(array: Any) -> int:
    """Bytes of the values of an array, each with eight of its own.

    Raises
    ------
    UnreadableTypeError
        The type is one whose values could not be bounded.
    """
    import pyarrow as pa

    kind, types = array.type, pa.types
    cells = _CELL * len(array)
    if types.is_primitive(kind):
        return cells
    if isinstance(kind, pa.BaseExtensionType):
        return volume(array.storage)
    if types.is_dictionary(kind):
        return cells + _of_dictionary(array)
    if types.is_struct(kind):
        return cells + sum(map(volume, array.flatten()))
    if types.is_map(kind):
        return cells + volume(array.keys) + volume(array.items)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return cells + volume(array.flatten())
    if types.is_nested(kind) or types.is_run_end_encoded(kind):
        raise UnreadableTypeError("it is not supported in messages")
    return cells + int(byte_lengths(array).sum())


def _of_dictionary(array: Any) -> int:
    import pyarrow as pa

    if pa.types.is_nested(array.dictionary.type) or pa.types.is_dictionary(array.dictionary.type):
        raise UnreadableTypeError("it is not supported in messages")
    used = array.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(byte_lengths(array.dictionary)[used].sum())


def byte_lengths(array: Any) -> NDArray[np.int64]:
    """Bytes of each text or binary value; 0 for nulls and for values of other types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if types.is_fixed_size_binary(kind):
        return np.full(len(array), kind.byte_width, dtype=np.int64)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        _, views, *_ = array.buffers()
        whole = np.frombuffer(views or b"", np.int32)[:: _VIEW // 4]
        lengths = whole[array.offset : array.offset + len(array)].astype(np.int64)
        return np.where(array.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_kind(kind) for is_kind in kinds):
        found = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(found, dtype=np.int64)
    return np.zeros(len(array), dtype=np.int64)
