"""The checksum of a range of records, at once or in pieces. Pure.

Rule: the CRC-32 of the columns one after another (offsets, timestamps, sizes of keys, keys, sizes
of values, values). Every journal uses this rule. A range that is read in pieces delivers each
column in pieces, so each column has its own CRC. At the end the CRCs are combined: CRC(A + B)
follows from CRC(A), CRC(B) and the length of B.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, packed
from consumers.base.cells import lengths as lengths_of
from consumers.base.cells import sizes as sizes_of
from consumers.base.records import Fetched, FetchedColumns

__all__ = ["RangeChecksum", "checksum", "checksums", "combined"]

_POLYNOMIAL = 0xEDB88320  # of CRC-32, reflected: the highest bit is the coefficient of x⁰
_ONE = 1 << 31
_BYTE = 1 << 23  # x⁸: one more byte
_PIECE = 1 << 18  # bytes of cells that are joined


def checksum(part: Fetched) -> int:
    """The checksum of the records of one partition: offsets, timestamps, keys and values."""
    crc = 0
    for column in _columns(part):
        for piece in column:
            crc = zlib.crc32(piece, crc)
    return crc


def checksums(parts: FetchedColumns, starts: Sequence[int] = ()) -> list[int]:
    """The checksum of the records of each partition.

    Parameters
    ----------
    starts
        The first record of each part that counts; (): all count.
    """
    keys, values = parts.keys, parts.values
    if not (_in_a_row(keys) and _in_a_row(values)):
        firsts = starts or [0] * len(parts)
        chosen = zip(parts, firsts, strict=True)
        return [checksum(part.split(first)[1] if first else part) for part, first in chosen]
    stops = parts.bounds[1:]
    records = parts.bounds[:-1] + np.asarray(starts or 0, dtype=np.int64), stops
    # Each column, and where the records of each part are in it. No byte is copied.
    columns: list[tuple[NDArray[Any], tuple[NDArray[np.int64], NDArray[np.int64]]]]
    columns = [(parts.offsets, records), (parts.timestamps, records)]
    for cells in (keys, values):
        ends = np.concatenate([[0], lengths_of(cells).cumsum()])
        columns += [(sizes_of(cells), records), (packed(cells), (ends[records[0]], ends[stops]))]
    found = [0] * len(parts)
    for column, (begins, ends) in columns:
        data = column.data
        for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            found[i] = zlib.crc32(data[begin:end], found[i])
    return found


def _in_a_row(cells: Sequence[bytes | None]) -> bool:
    return isinstance(cells, ByteCells) and cells.in_a_row


class RangeChecksum:
    """The checksum of records that arrive in pieces.

    Examples
    --------
    >>> from consumers.base.records import Partition
    >>> visits = Partition("visits", 0)
    >>> first = Fetched(visits, [0], [10], [b"a"], [b"{}"])
    >>> second = Fetched(visits, [1], [20], [None], [b"[]"])
    >>> pieces = RangeChecksum()
    >>> pieces.add(first)
    >>> pieces.add(second)
    >>> whole = Fetched(visits, [0, 1], [10, 20], [b"a", None], [b"{}", b"[]"])
    >>> pieces.value == checksum(whole), pieces.count
    (True, 2)
    """

    def __init__(self) -> None:
        self.count = 0
        self._columns = [(0, 0)] * 6  # CRC and length of each column

    def add(self, part: Fetched) -> None:
        """Add the next records."""
        self.count += len(part)
        for i, column in enumerate(_columns(part)):
            crc, length = self._columns[i]
            for piece in column:
                crc, length = zlib.crc32(piece, crc), length + len(piece)
            self._columns[i] = crc, length

    @property
    def value(self) -> int:
        """The checksum of all added records."""
        whole = 0
        for crc, length in self._columns:
            whole = combined(whole, crc, length)
        return whole


def combined(first: int, second: int, length: int) -> int:
    """The CRC-32 of two joined pieces from the CRC-32 of each; `length` is the second's, in bytes.

    Examples
    --------
    >>> combined(zlib.crc32(b"head"), zlib.crc32(b"water"), 5) == zlib.crc32(b"headwater")
    True
    """
    return _product(_power(length), first) ^ second


def _product(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo the polynomial of the CRC."""
    out = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            out ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return out


def _power(length: int) -> int:
    """The factor by which `length` further bytes multiply a CRC."""
    out, square = _ONE, _BYTE
    while length:
        if length & 1:
            out = _product(square, out)
        square = _product(square, square)
        length >>= 1
    return out


def _columns(part: Fetched) -> Iterator[Iterable[bytes | memoryview]]:
    """The bytes of each column, in pieces, in the order of the rule."""
    for numbers in (part.offsets, part.timestamps):
        yield [np.asarray(numbers, dtype=np.int64).tobytes()]
    for cells in (part.keys, part.values):
        sizes = sizes_of(cells)
        yield [sizes.tobytes()]
        yield _joined(cells, sizes)


def _joined(
    cells: Sequence[bytes | None], sizes: NDArray[np.int64]
) -> Iterator[bytes | memoryview]:
    """All cells in pieces of about `_PIECE` bytes: all in one would need the memory twice."""
    ends = np.maximum(sizes, 0).cumsum()
    if len(cells) > 1 and ends[-1] < _PIECE:  # the usual case, without looking for cuts
        yield packed(cells).data
        return
    cuts = [0, *(np.flatnonzero(np.diff(ends // _PIECE)) + 1).tolist(), len(cells)]
    for start, stop in pairwise(cuts):
        some = cells[start:stop]
        yield (some[0] or b"") if len(some) == 1 else packed(some).data
