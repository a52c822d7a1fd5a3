"""Kernels for the bytes of batches: msgpack as msgspec writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint64

from consumers.base._kernels import copy_bytes, signed, unsigned
from stream.kernel import kernel

__all__ = ["NOT_PLAIN", "read_batch", "write_batch"]

NOT_PLAIN = -1
_MOST_DIGITS = 9  # bytes of a number
_MOST_HEAD = 5  # bytes before those of a cell
_BATCH, _NIL = 0x95, 0xC0  # an array of five parts
_BYTES = 0xC4  # of one, two or four bytes for their number
_UNSIGNED, _SIGNED = 0xCC, 0xD0  # of 1, 2, 4 or 8 bytes
_SHORT_ARRAY, _ARRAY = 0x90, 0xDC  # of up to 15 parts, and of two or four bytes for their number


@kernel
def _number(data: Any, at: int) -> Any:
    """The int64 at `at`, and its end; NOT_PLAIN for anything else."""
    if at >= data.size:
        return int64(0), NOT_PLAIN
    first = int64(data[at])
    at += 1
    if first < 0x80:
        return first, at
    if first >= 0xE0:
        return first - 256, at
    if first < _UNSIGNED or first >= _SIGNED + 4:
        return int64(0), NOT_PLAIN
    size = 1 << (first - (_UNSIGNED if first < _SIGNED else _SIGNED))
    if size > data.size - at:
        return int64(0), NOT_PLAIN
    if first >= _SIGNED:
        return signed(data, at, size), at + size
    found = unsigned(data, at, size)
    if found >> uint64(63):
        return int64(0), NOT_PLAIN
    return int64(found), at + size


@kernel
def _length(data: Any, at: int) -> Any:
    """The number of parts of the array at `at`, and where they start; NOT_PLAIN otherwise."""
    if at >= data.size:
        return int64(0), NOT_PLAIN
    first = int64(data[at])
    if first & 0xF0 == _SHORT_ARRAY:
        return first & 0x0F, at + 1
    if first != _ARRAY and first != _ARRAY + 1:
        return int64(0), NOT_PLAIN
    size = 2 << (first - _ARRAY)
    if size > data.size - at - 1:
        return int64(0), NOT_PLAIN
    return int64(unsigned(data, at + 1, size)), at + 1 + size


@kernel
def _read_cells(data: Any, at: Any, starts: Any, sizes: Any) -> Any:
    """Find as many cells as `starts` is long. Returns their end, or NOT_PLAIN."""
    count, at = _length(data, at)
    if count != starts.size:
        return NOT_PLAIN
    for i in range(count):
        if at >= data.size:
            return NOT_PLAIN
        first = int64(data[at])
        at += 1
        if first == _NIL:
            starts[i], sizes[i] = at, -1
            continue
        if first < _BYTES or first > _BYTES + 2:
            return NOT_PLAIN
        head = 1 << (first - _BYTES)
        if head > data.size - at:
            return NOT_PLAIN
        size = int64(unsigned(data, at, head))
        at += head
        if size > data.size - at:
            return NOT_PLAIN
        starts[i], sizes[i] = at, size
        at += size
    return at


@kernel
def read_batch(data: Any, times: Any, starts: Any, sizes: Any) -> int:
    """Find the parts of the records of a batch without headers.

    `data` uint8 (n,); `times` int64 (m,): timestamps; `starts` and `sizes` int64 (2, m): of each
    key and value; size -1: none. m is at least the number of records. Returns that number, or
    NOT_PLAIN for anything else than bytes that msgspec writes for such a batch.
    """
    if data.size == 0 or data[0] != _BATCH:
        return NOT_PLAIN
    first, at = _number(data, 1)
    if at == NOT_PLAIN:
        return NOT_PLAIN
    count, at = _length(data, at)
    if at == NOT_PLAIN or count > times.size:
        return NOT_PLAIN
    for i in range(count):
        later, at = _number(data, at)
        if at == NOT_PLAIN:
            return NOT_PLAIN
        times[i] = int64(uint64(first) + uint64(later))
        if (times[i] < first) != (later < 0):  # larger than an int64
            return NOT_PLAIN
    for k in range(2):
        at = _read_cells(data, at, starts[k, :count], sizes[k, :count])
        if at == NOT_PLAIN:
            return NOT_PLAIN
    return int(count) if at == data.size - 1 and data[at] == _NIL else NOT_PLAIN


@kernel
def _write(out: Any, at: int, number: Any, size: int) -> Any:
    """Write a number as `size` bytes. Returns their end."""
    for i in range(size):
        out[at + i] = (number >> uint64(8 * (size - 1 - i))) & uint64(0xFF)
    return at + size


@kernel
def _write_number(out: Any, at: int, number: int) -> Any:
    """Write an int64 as short as possible. Returns its end."""
    if -32 <= number < 128:
        return _write(out, at, uint64(number), 1)
    power = 0
    if number >= 0:
        while power < 3 and number >> (8 << power):
            power += 1
        out[at] = _UNSIGNED + power
    else:
        while power < 3 and number >> ((8 << power) - 1) != -1:
            power += 1
        out[at] = _SIGNED + power
    return _write(out, at + 1, uint64(number), 1 << power)


@kernel
def _write_length(out: Any, at: int, count: int) -> Any:
    """Write the start of an array. Returns its end."""
    if count < 16:
        out[at] = _SHORT_ARRAY + count
        return at + 1
    power = 0 if count < 1 << 16 else 1
    out[at] = _ARRAY + power
    return _write(out, at + 1, uint64(count), 2 << power)


@kernel
def write_batch(data: Any, starts: Any, lengths: Any, times: Any, first: int, stop: int) -> Any:
    """The bytes that msgspec writes for a batch whose records have keys, values and no headers.

    `data` uint8 (n,); `starts` int64 (m,): of each key, which its value follows; `lengths` int64
    (m, 2): bytes of key and value; `times` int64 (m,), no two further apart than an int64. The
    records of the batch are those from `first` to `stop`, at least one.
    """
    count = stop - first
    most = (1 + count) * _MOST_DIGITS + 2 * count * _MOST_HEAD + 3 * _MOST_HEAD + 2
    out = np.empty(most + lengths[first:stop].sum(), np.uint8)
    out[0] = _BATCH
    at = _write_number(out, 1, times[first])
    at = _write_length(out, at, count)
    for i in range(first, stop):
        at = _write_number(out, at, times[i] - times[first])
    for k in range(2):
        at = _write_length(out, at, count)
        for i in range(first, stop):
            size = lengths[i, k]
            power = 0 if size < 1 << 8 else 1 if size < 1 << 16 else 2
            out[at] = _BYTES + power
            at = _write(out, at + 1, uint64(size), 1 << power)
            copy_bytes(out, at, data, starts[i] + (lengths[i, 0] if k else 0), size)
            at += size
    out[at] = _NIL
    return out[: at + 1]
